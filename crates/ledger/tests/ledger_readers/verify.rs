//! Verifying: whatever is done to a ledger behind our back is named, and where.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ledgers::{
    all_done, append, bytes, codes, file, fresh, made_old, mv, put, put_new, reopened, rm, verified, with_events,
};
use lokt_core::ledger::chain::Digest;
use lokt_core::ledger::seq::Style;
use lokt_ledger::{Checkpoint, Ledger};
use lokt_sys::machine::Linux;
use lokt_sys::os_disk::OsDisk;
use lokt_sys::warnings::Warning;
use lokt_testkit::hook_disk::HookDisk;

fn checkpoint(ledger: &Ledger) -> Checkpoint {
    ledger.checkpoint(&mut |_, _| {}).expect("it can be read").value
}

/// The problems of a chained ledger of six events after something was done to it. Second names of events would give more of it away.
fn after(work: impl Fn(&Ledger)) -> Vec<(&'static str, Option<u64>)> {
    let (_dir, ledger) = with_events(6, true);
    forget_second_names(&ledger);
    assert!(verified(&ledger).problems.is_empty(), "nothing is wrong yet");
    work(&ledger);
    codes(&verified(&ledger).problems)
}

fn forget_second_names(ledger: &Ledger) {
    fs::remove_dir_all(ledger.path().join(".lokt/kept")).expect("it is there");
}

/// Changes one bit of an event's file, in place.
fn flip(ledger: &Ledger, number: u64, at: usize) {
    let path = file(ledger, number);
    let mut bytes = bytes(&path);
    bytes[at] ^= 1;
    put_new(&path, bytes);
}

/// Where the 7 in `"n":7` is.
fn payload(ledger: &Ledger, number: u64) -> usize {
    let text = String::from_utf8(bytes(&file(ledger, number))).expect("text");
    text.find("\"n\":").expect("it has a payload") + 4
}

#[test]
fn a_sound_ledger_has_no_problems_and_its_checkpoint_is_that_of_the_bytes() {
    for chain in [false, true] {
        let (_dir, ledger) = with_events(3, chain);
        let verification = verified(&ledger);
        assert_eq!(codes(&verification.problems), []);
        assert_eq!((verification.events, verification.chained), (3, if chain { 3 } else { 0 }));
        let digest =
            (1..=3).fold(Digest::EMPTY, |before, number| before.then(Digest::of(&bytes(&file(&ledger, number)))));
        assert_eq!(verification.checkpoint, Checkpoint { head: 3, chain: digest });
        assert_eq!(checkpoint(&ledger), verification.checkpoint);
    }
}

#[test]
fn an_empty_ledger_is_sound() {
    let (_dir, ledger) = fresh(Style::Documented, true);
    let expected = Checkpoint { head: 0, chain: Digest::EMPTY };
    assert_eq!(checkpoint(&ledger), expected);
    let again = ledger.verify(Some(expected), &mut |_, _| {}).expect("read").value;
    assert_eq!(codes(&again.problems), []);
}

#[test]
fn a_flipped_bit_is_found_at_the_next_event() {
    assert_eq!(after(|ledger| flip(ledger, 3, payload(ledger, 3))), [("chain-broken", Some(4))]);
    assert_eq!(after(|ledger| flip(ledger, 1, payload(ledger, 1))), [("chain-broken", Some(2))]);
    let (_dir, ledger) = with_events(6, true);
    forget_second_names(&ledger);
    flip(&ledger, 3, payload(&ledger, 3));
    let problem = verified(&ledger).problems.remove(0);
    assert!(problem.message.contains("event 3 isn't the one that event 4 was chained to"), "{}", problem.message);
}

#[test]
fn a_flipped_bit_that_makes_it_no_json_is_damage_too() {
    assert_eq!(after(|ledger| flip(ledger, 3, 0)), [("damaged", Some(3)), ("chain-broken", Some(4))]);
}

#[test]
fn a_removed_event_is_found_wherever_it_was() {
    assert_eq!(after(|ledger| rm(&file(ledger, 1))), [("gap", Some(1)), ("chain-broken", Some(2))]);
    assert_eq!(after(|ledger| rm(&file(ledger, 3))), [("gap", Some(3)), ("chain-broken", Some(4))]);
    assert_eq!(after(|ledger| rm(&file(ledger, 6))), [], "only a checkpoint tells that the last one is missing");
}

#[test]
fn a_removed_event_whose_place_the_others_took_is_found() {
    let close_up = |first: u64| {
        move |ledger: &Ledger| {
            rm(&file(ledger, first));
            for number in first + 1..=6 {
                mv(&file(ledger, number), &file(ledger, number - 1));
            }
        }
    };
    assert_eq!(after(close_up(1)), [("chain-broken", Some(1))]);
    assert_eq!(after(close_up(3)), [("chain-broken", Some(3))]);
}

#[test]
fn two_events_that_were_swapped_are_found() {
    let found = after(|ledger| {
        let (three, four) = (bytes(&file(ledger, 3)), bytes(&file(ledger, 4)));
        put_new(&file(ledger, 3), four);
        put_new(&file(ledger, 4), three);
    });
    assert_eq!(found, [("chain-broken", Some(3)), ("chain-broken", Some(4)), ("chain-broken", Some(5))]);
}

#[test]
fn an_event_that_was_put_in_is_found() {
    let found = after(|ledger| {
        for number in (3..=6).rev() {
            mv(&file(ledger, number), &file(ledger, number + 1));
        }
        put(&file(ledger, 3), br#"{"type":"note","n":9}"#);
    });
    assert_eq!(found, [("chain-broken", Some(4))], "it is between 2, which is chained, and 4");
}

#[test]
fn an_edit_just_before_a_foreign_event_is_found_at_the_next_of_ours() {
    let (dir, ledger) = with_events(2, true);
    put(&file(&ledger, 3), br#"{"type":"custom_event"}"#);
    append(&reopened(&dir), r#"{"type":"note","n":4}"#);
    forget_second_names(&ledger);
    assert_eq!(codes(&verified(&ledger).problems), []);
    flip(&ledger, 2, payload(&ledger, 2));
    let problems = verified(&ledger).problems;
    assert_eq!(codes(&problems), [("chain-broken", Some(4))]);
    assert!(problems[0].message.contains("events 2 to 3"), "{}", problems[0].message);
}

#[test]
fn each_place_is_named_once() {
    let found = after(|ledger| {
        flip(ledger, 2, payload(ledger, 2));
        flip(ledger, 5, payload(ledger, 5));
    });
    assert_eq!(found, [("chain-broken", Some(3)), ("chain-broken", Some(6))]);
}

#[test]
fn a_checkpoint_finds_a_cut_tail_and_any_change_before_it() {
    let (_dir, ledger) = with_events(6, false);
    forget_second_names(&ledger);
    let at_six = checkpoint(&ledger);
    let problems = |checkpoint| codes(&ledger.verify(Some(checkpoint), &mut |_, _| {}).expect("read").value.problems);
    assert_eq!(problems(at_six), []);
    append(&ledger, r#"{"type":"more"}"#);
    assert_eq!(problems(at_six), [], "more events don't matter");
    flip(&ledger, 7, 10);
    assert_eq!(problems(at_six), [], "nor does what happens to them");
    for number in [7, 6] {
        rm(&file(&ledger, number));
    }
    assert_eq!(problems(at_six), [("checkpoint", Some(5))], "the last one is missing");
    put_new(&file(&ledger, 6), br#"{"type":"note","n":6}"#);
    assert_eq!(problems(at_six), [("checkpoint", Some(6))], "another one is there");
    let made_up = Checkpoint { head: 0, chain: Digest::of(b"x") };
    assert_eq!(problems(made_up), [("checkpoint", Some(0))]);
}

#[test]
fn an_event_that_says_it_was_repaired_must_show_the_original() {
    let (_dir, ledger) = with_events(4, true);
    forget_second_names(&ledger);
    let original = bytes(&file(&ledger, 2));
    put_new(&file(&ledger, 2), format!(r#"{{"type":"lock_takeover","repaired":"{}"}}"#, Digest::of(&original)));
    assert_eq!(codes(&verified(&ledger).problems), [("repaired", Some(2))], "else anybody could remove an event");
    let aside = ledger.path().join(".lokt/aside");
    fs::create_dir(&aside).expect("made");
    put_new(&aside.join("000002-0.json"), b"something else");
    assert_eq!(codes(&verified(&ledger).problems), [("repaired", Some(2))]);
    put_new(&aside.join("000002-1.json"), original);
    let said = ledger.verify(None, &mut |_, _| {}).expect("read");
    assert_eq!(codes(&said.value.problems), []);
    assert!(said.warnings.iter().any(|warning| warning.to_string().contains("000002-1.json")), "{:?}", said.warnings);
}

#[test]
fn an_event_that_another_program_replaced_is_found_by_its_second_name() {
    let (_dir, ledger) = with_events(3, false);
    put(&file(&ledger, 2), br#"{"type":"custom_event"}"#);
    assert_eq!(codes(&verified(&ledger).problems), [("replaced", Some(2))]);
    let copy = bytes(&file(&ledger, 3));
    put(&file(&ledger, 3), copy);
    assert_eq!(codes(&verified(&ledger).problems), [("replaced", Some(2))], "a copy of an event is that event");
}

/// A writer was stopped, its lock taken over, and its number filled: what it writes there when it goes on changes nothing.
#[test]
fn a_late_event_in_a_fillers_place_does_not_break_the_chain() {
    let (_dir, ledger) = with_events(2, true);
    let lock = ledger.path().join("ledger.lock");
    put_new(&lock, br#"{"agent_id":"append-operation","acquired_at":"2020-01-01T00:00:00Z"}"#);
    made_old(&lock);
    assert_eq!(append(&ledger, r#"{"type":"after"}"#), 4, "the number of the stopped writer is filled");
    append(&ledger, r#"{"type":"more"}"#);
    let before = verified(&ledger);
    assert_eq!((codes(&before.problems), before.chained), (vec![], 4));
    assert_eq!(warnings(&ledger), [""; 0], "a filler says itself what it is");
    put(&file(&ledger, 3), br#"{"type":"late"}"#);
    let after = verified(&ledger);
    assert_eq!(codes(&after.problems), []);
    assert_eq!(after.checkpoint, before.checkpoint);
    assert_eq!(warnings(&ledger), [NOT_VOUCHED_FOR], "it is told, once");
    forget_second_names(&ledger);
    assert_eq!(warnings(&ledger), [NOT_VOUCHED_FOR], "whether lokt knows what it wrote there or not");
    flip(&ledger, 2, payload(&ledger, 2));
    assert_eq!(codes(&verified(&ledger).problems), [("chain-broken", Some(4))], "all else counts");
}

const NOT_VOUCHED_FOR: &str = "event 3 came into a filler's place; the chain doesn't vouch for it";

fn warnings(ledger: &Ledger) -> Vec<String> {
    ledger.verify(None, &mut |_, _| {}).expect("it can be read").warnings.iter().map(Warning::to_string).collect()
}

/// Whoever can append can say that the last event is a filler's, and so take it out of the chain.
#[test]
fn an_event_that_another_one_calls_a_filler_is_always_told() {
    let (dir, ledger) = with_events(2, true);
    put(&file(&ledger, 3), br#"{"type":"pay","amount":1}"#);
    put(&file(&ledger, 4), br#"{"type":"x","filler":3}"#);
    append(&reopened(&dir), r#"{"type":"note","n":5}"#);
    let taken = checkpoint(&ledger);
    assert_eq!(warnings(&ledger), [NOT_VOUCHED_FOR]);
    put_new(&file(&ledger, 3), br#"{"type":"pay","amount":1000}"#);
    let said = ledger.verify(Some(taken), &mut |_, _| {}).expect("it can be read");
    assert_eq!(codes(&said.value.problems), [], "nothing can prove that it was changed");
    assert_eq!(said.warnings, [Warning::OtherPrograms(NOT_VOUCHED_FOR.to_owned())], "so it is said that nothing does");
    put_new(&file(&ledger, 3), b"{");
    assert_eq!(warnings(&ledger), [NOT_VOUCHED_FOR], "of what is damaged, too");
    put_new(&file(&ledger, 3), br#"{"type":"pay","amount":1}"#);
    put_new(&file(&ledger, 4), br#"{"type":"x","filler":2}"#);
    assert_eq!(warnings(&ledger), [""; 0], "only the one just before can be named");
}

#[test]
fn a_repair_that_says_more_than_repairs_do_breaks_the_chain() {
    let (_dir, ledger) = with_events(4, true);
    forget_second_names(&ledger);
    let original = bytes(&file(&ledger, 2));
    let aside = ledger.path().join(".lokt/aside");
    fs::create_dir(&aside).expect("made");
    put_new(&aside.join("000002-1.json"), &original);
    let digest = Digest::of(&original);
    put_new(&file(&ledger, 2), format!(r#"{{"type":"lock_takeover","amount":1000,"repaired":"{digest}"}}"#));
    assert_eq!(codes(&verified(&ledger).problems), [("chain-broken", Some(3))]);
}

/// Whatever a writer does between two looks of a verifier, the ledger didn't become shorter by it.
#[test]
fn a_writer_beside_it_never_makes_a_ledger_look_shortened() {
    let (dir, ledger) = with_events(3, false);
    for nth in 0..4 {
        let (listings, writer) = (AtomicUsize::new(0), reopened(&dir));
        let hook = move |call: &str, _: &str| {
            if call == "each_name" && listings.fetch_add(1, Ordering::SeqCst) == nth {
                append(&writer, r#"{"type":"meanwhile"}"#);
            }
            Ok(())
        };
        let disk = OsDisk::open(ledger.path()).expect("it is there");
        let above = OsDisk::open(dir.path()).expect("it is there");
        let me = lokt_sys::machine::identity("tester".into(), None);
        let hooked = HookDisk::new(Arc::new(disk), Arc::new(hook));
        let slow = Ledger::on(dir.path(), Arc::new(hooked), Arc::new(above), Arc::new(Linux), me).expect("it is one");
        assert_eq!(warnings(&slow), [""; 0], "an append before listing {nth} is none of a verifier's business");
    }
}

#[test]
fn second_names_that_cannot_be_listed_are_done_without() {
    let (dir, ledger) = with_events(3, true);
    forget_second_names(&ledger);
    put_new(&ledger.path().join(".lokt/kept"), b"no directory");
    let ledger = reopened(&dir);
    let said = ledger.verify(None, &mut |_, _| {}).expect("the events can be read");
    assert_eq!(codes(&said.value.problems), []);
    let is_told = |warnings: &[Warning]| matches!(warnings, [Warning::Unreadable(one)] if one.contains(".lokt/kept can't be listed"));
    assert!(is_told(&said.warnings), "{:?}", said.warnings);
    let said = ledger.doctor(false, &mut |_, _| {}).expect("the events can be read");
    assert!(said.value.is_empty() && is_told(&said.warnings), "{:?}", said.warnings);
    put(&file(&ledger, 5), br#"{"type":"x"}"#);
    assert_eq!(append(&ledger, r#"{"type":"note"}"#), 6, "writers do without them, too");
    let said = ledger.doctor(true, &mut |_, _| {}).expect("the events can be read");
    assert_eq!(codes(&said.value), [("gap", Some(4))], "and so do menders");
    assert!(all_done(&said.value) && is_told(&said.warnings), "{:?}", said.warnings);
}

#[test]
fn a_ledger_that_ends_before_what_lokt_wrote_is_told() {
    let (_dir, ledger) = with_events(3, false);
    rm(&file(&ledger, 3));
    let said = ledger.verify(None, &mut |_, _| {}).expect("read");
    assert_eq!(codes(&said.value.problems), []);
    assert!(
        said.warnings.iter().any(|warning| warning.to_string().contains("ends with event 2")),
        "{:?}",
        said.warnings
    );
}

#[test]
fn strays_and_what_cannot_be_read_are_told_and_the_rest_is_verified() {
    let (_dir, ledger) = with_events(3, true);
    put_new(&ledger.path().join("000002.json"), b"{}");
    fs::create_dir(file(&ledger, 4)).expect("made");
    let verification = verified(&ledger);
    assert_eq!(codes(&verification.problems), [("damaged", Some(4)), ("stray", None)]);
    assert_eq!((verification.events, verification.chained), (4, 3));
}

#[test]
fn claims_that_others_displaced_are_told() {
    let (_dir, ledger) = fresh(Style::Documented, false);
    let claim = |owner: &str, at: &str, end: &str| {
        append(
            &ledger,
            &format!(
                r#"{{"type":"lock_acquired","timestamp":"2026-01-01T{at}Z","node_id":"1","owner":"{owner}","expires_at":"2026-01-01T{end}Z"}}"#
            ),
        );
    };
    let end = |kind: &str, owner: &str, at: &str| {
        append(
            &ledger,
            &format!(r#"{{"type":"{kind}","timestamp":"2026-01-01T{at}Z","node_id":"1","owner":"{owner}"}}"#),
        );
    };
    claim("a", "10:00:00", "11:00:00");
    claim("a", "10:30:00", "11:30:00");
    claim("b", "11:00:00", "12:00:00");
    claim("c", "12:00:01", "13:00:00");
    end("lock_released", "c", "12:10:00");
    claim("d", "12:11:00", "13:00:00");
    end("lock_released", "e", "12:12:00");
    claim("f", "12:13:00", "13:00:00");
    end("lock_reaped", "f", "12:14:00");
    claim("g", "12:15:00", "13:00:00");
    end("lock_reaped", "g", "13:00:01");
    let problems = verified(&ledger).problems;
    let expected = [("displaced-claim", Some(3)), ("displaced-claim", Some(7)), ("displaced-claim", Some(9))];
    assert_eq!(codes(&problems), expected);
    for (problem, owner) in problems.iter().zip(["a", "d", "f"]) {
        assert!(problem.message.contains(&format!("of {owner}")) || problem.message.contains(&format!("from {owner}")));
    }
}

#[test]
fn no_clock_trust_a_claim_that_ended_by_the_boot_clock_was_not_displaced_whatever_the_wall_clocks_say() {
    let (_dir, ledger) = fresh(Style::Documented, false);
    let claim = |owner: &str, year: u16, boot: &str, boottime_ms: u64| {
        let times = format!(r#""timestamp":"{year}-01-01T10:00:00Z","expires_at":"{year}-01-01T10:00:02Z""#);
        let clock = format!(r#""ttl_sec":2,"boot_id":"{boot}","boottime_ms":{boottime_ms}"#);
        append(&ledger, &format!(r#"{{"type":"lock_acquired",{times},"node_id":"1","owner":"{owner}",{clock}}}"#));
    };
    let reap = |year: u16, boot: &str, boottime_ms: u64| {
        let times = format!(r#""timestamp":"{year}-01-01T10:00:00Z","boot_id":"{boot}","boottime_ms":{boottime_ms}"#);
        append(&ledger, &format!(r#"{{"type":"lock_reaped",{times},"node_id":"1","owner":"x"}}"#));
    };
    // The clock of who claimed was a year ahead.
    claim("a", 2027, "boot", 1_000);
    reap(2026, "boot", 3_001);
    claim("b", 2027, "boot", 10_000);
    claim("c", 2026, "boot", 12_001);
    // And here it was a year behind: two seconds had not passed.
    reap(2027, "boot", 14_000);
    claim("d", 2026, "boot", 20_000);
    claim("e", 2027, "boot", 22_000);
    // On another boot there is nothing but the wall clock.
    reap(2026, "other", 90_000);
    let expected = [("displaced-claim", Some(5)), ("displaced-claim", Some(7)), ("displaced-claim", Some(8))];
    assert_eq!(codes(&verified(&ledger).problems), expected, "no-clock-trust: one clock counts where there is one");
}

#[test]
fn progress_is_told_up_to_the_end() {
    let (_dir, ledger) = with_events(3, false);
    let mut told = Vec::new();
    ledger.verify(None, &mut |done, of| told.push((done, of))).expect("read");
    assert_eq!(told.last(), Some(&(3, 3)));
}
