//! Claims on real directories: one winner, take-over in one hold of the lock, refusals that change nothing, waiting, other programs'
//! claims, and ledgers that can't be trusted.

mod folding;
mod yard;

use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lokt_core::denial::Denial;
use lokt_core::ledger::claiming::Refused;
use lokt_core::ledger::seq::{Seq, Style};
use lokt_ledger::{ClaimTerms, Claiming, How, Ledger, Reaped, Releasing};
use lokt_sys::error::ErrorKind;
use lokt_sys::wait_policy::{Interrupt, WaitPolicy, Waiting};
use lokt_sys::wakeup::Wakeup;
use lokt_testkit::swarm::{pause, put, wait_until};
use yard::{PATIENCE, TTL_SEC, Yard, claimed, take, terms};

const STYLES: [Style; 2] = [Style::Documented, Style::Native];

fn release(ledger: &Ledger, node: &str, token: Option<Seq>) -> Result<(Seq, Seq), Refused> {
    match ledger.release(node, token, &ClaimTerms::default()).expect("it can be asked").value {
        Releasing::Released { seq, token } => Ok((seq, token)),
        Releasing::Denied(refused) => Err(refused),
    }
}

fn extend(ledger: &Ledger, node: &str, token: Option<Seq>) -> Result<lokt_ledger::Claimed, Refused> {
    claimed(ledger.extend(node, token, &terms()).expect("it can be asked").value)
}

fn reap(ledger: &Ledger) -> Reaped {
    ledger.reap(&ClaimTerms::default()).expect("it can be asked").value
}

fn owner_of(refused: &Refused) -> &str {
    match refused {
        Refused::Hold(denial) => &denial.holder().expect("somebody has it").hold.owner,
        other => panic!("nobody has it: {other:?}"),
    }
}

/// Another program moves a file.
#[expect(clippy::disallowed_methods, reason = "it stands for what another program does")]
fn move_away(path: &Path) {
    fs::rename(path, path.with_extension("away")).expect("it is there");
}

#[test]
fn a_claim_is_made_refreshed_extended_and_released() {
    for style in STYLES {
        let yard = Yard::new(style);
        let (alice, bob) = (yard.ledger("alice"), yard.ledger("bob"));
        let first = yard.head() + 1;
        let made = take(&alice, "1").expect("it is free");
        assert_eq!((made.seq.get(), made.token.get(), made.how, made.ttl_sec), (first, first, How::New, TTL_SEC));
        assert_eq!((made.node.as_str(), made.owner.as_str()), ("1", "alice"));
        assert_eq!(owner_of(&take(&bob, "1").expect_err("it is alice's")), "alice");
        yard.machine.advance_secs(10);
        let again = take(&alice, "1").expect("it is alice's");
        assert_eq!((again.seq.get(), again.token, again.how), (first + 1, made.token, How::Refreshed));
        let longer = extend(&alice, "1", Some(made.token)).expect("it is alice's");
        assert_eq!((longer.seq.get(), longer.token, longer.how), (first + 2, made.token, How::Refreshed));
        assert!(longer.expires_at > made.expires_at, "the end is counted from now");
        let ended = release(&alice, "1", Some(made.token)).expect("it is alice's");
        assert_eq!((ended.0.get(), ended.1), (first + 3, made.token));
        let next = take(&bob, "1").expect("it is free");
        assert_eq!(next.token.get(), first + 4, "token-order");
        let kinds = match style {
            Style::Documented => ["lock_acquired", "lock_acquired", "lock_acquired", "lock_released", "lock_acquired"],
            Style::Native => ["nodes_claimed", "claim_refreshed", "claim_refreshed", "nodes_released", "nodes_claimed"],
        };
        assert_eq!(yard.kinds(first), kinds);
    }
}

#[test]
fn what_is_refused_writes_nothing() {
    for style in STYLES {
        let yard = Yard::new(style);
        let (alice, bob) = (yard.ledger("alice"), yard.ledger("bob"));
        let old = take(&alice, "1").expect("it is free").token;
        let before = yard.traces();
        assert!(matches!(release(&bob, "1", None), Err(Refused::Hold(Denial::NotYours(_)))));
        assert!(matches!(extend(&bob, "1", None), Err(Refused::Hold(Denial::NotYours(_)))));
        assert!(matches!(release(&alice, "1", Seq::new(99)), Err(Refused::Hold(Denial::StaleToken { .. }))));
        assert_eq!(release(&bob, "1.2", None), Err(Refused::Hold(Denial::Missing)));
        yard.machine.advance_secs(TTL_SEC + 1);
        assert!(matches!(release(&alice, "1", None), Err(Refused::Hold(Denial::Over(_)))));
        assert!(matches!(extend(&alice, "1", None), Err(Refused::Hold(Denial::Over(_)))));
        assert_eq!(yard.traces(), before, "no file was made or changed");
        take(&bob, "1").expect("it has expired");
        let before = yard.traces();
        assert!(matches!(release(&alice, "1", None), Err(Refused::Hold(Denial::NotYours(_)))));
        assert!(matches!(release(&alice, "1", Some(old)), Err(Refused::Hold(Denial::StaleToken { .. }))));
        assert!(matches!(extend(&alice, "1", Some(old)), Err(Refused::Hold(Denial::StaleToken { .. }))));
        assert_eq!(yard.traces(), before, "a late owner frees nothing");
    }
}

#[test]
fn an_expired_claim_is_taken_over_in_one_hold_of_the_lock() {
    for style in STYLES {
        let yard = Yard::new(style);
        take(&yard.ledger("alice"), "1").expect("it is free");
        yard.machine.advance_secs(TTL_SEC + 1);
        let first = yard.head() + 1;
        let takers: Vec<Ledger> = (0..8).map(|number| yard.ledger(&format!("bob-{number}"))).collect();
        let gate = Barrier::new(takers.len());
        let winners: Vec<_> = thread::scope(|scope| {
            let running: Vec<_> = takers
                .iter()
                .map(|taker| {
                    scope.spawn(|| {
                        gate.wait();
                        take(taker, "1").ok()
                    })
                })
                .collect();
            running.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
        });
        let [winner] = winners.as_slice() else { panic!("one-holder: {winners:?}") };
        assert_eq!((winner.seq.get(), winner.token.get()), (first + 1, first + 1));
        assert_eq!(winner.how, How::TookOver { from: "alice".into() });
        assert_eq!(yard.head(), first + 1, "the losers wrote nothing");
    }
}

#[test]
fn many_threads_claim_one_node_and_one_wins_each_round() {
    let yard = Yard::new(Style::Documented);
    let agents: Vec<Ledger> = (0..16).map(|number| yard.real(&format!("agent-{number}"))).collect();
    for round in 0..20 {
        let gate = Barrier::new(agents.len());
        let winners: Vec<(usize, u64)> = thread::scope(|scope| {
            let running: Vec<_> = agents
                .iter()
                .enumerate()
                .map(|(number, agent)| {
                    let gate = &gate;
                    scope.spawn(move || {
                        gate.wait();
                        take(agent, "n").ok().map(|claimed| (number, claimed.token.get()))
                    })
                })
                .collect();
            running.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(winners.len(), 1, "one-holder: round {round}");
        let (winner, token) = winners[0];
        assert_eq!(token, 2 * round + 1, "losers wrote nothing");
        release(&agents[winner], "n", Seq::new(token)).expect("it is the winner's");
    }
}

#[test]
fn concurrent_reaps_write_one_event() {
    for style in STYLES {
        let yard = Yard::new(style);
        take(&yard.ledger("alice"), "1").expect("it is free");
        yard.machine.advance_secs(TTL_SEC + 1);
        let first = yard.head() + 1;
        let reapers: Vec<Ledger> = (0..8).map(|number| yard.ledger(&format!("reaper-{number}"))).collect();
        let gate = Barrier::new(reapers.len());
        let reaped: Vec<Reaped> = thread::scope(|scope| {
            let running: Vec<_> = reapers
                .iter()
                .map(|reaper| {
                    scope.spawn(|| {
                        gate.wait();
                        reap(reaper)
                    })
                })
                .collect();
            running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(yard.head(), first, "one event, whoever else reaps");
        let done: Vec<_> = reaped.iter().filter(|reaped| reaped.seq.is_some()).collect();
        assert_eq!(done.len(), 1);
        assert_eq!(done[0].claims, [("1".to_owned(), "alice".to_owned(), Seq::new(first - 1))]);
        assert_eq!(reap(&reapers[0]), Reaped::default(), "nothing is left to reap");
    }
}

/// Somebody else holds the lock while a reap is on its way, and appends what `late` says.
fn reap_behind(yard: &Yard, late: &str) -> Reaped {
    let lock = yard.events_dir().join("ledger.lock");
    fs::create_dir(&lock).expect("nobody has it");
    let reaper = yard.real("reaper");
    thread::scope(|scope| {
        let reaping = scope.spawn(|| reap(&reaper));
        // It has judged by now, and waits.
        pause(Duration::from_millis(300));
        yard.foreign(late);
        fs::remove_dir(&lock).expect("it is ours");
        reaping.join().expect("no panic")
    })
}

#[test]
fn a_reap_never_ends_a_claim_that_was_just_extended_nor_one_that_is_gone() {
    let claim = |owner: &str, from: &str, until: &str| match from {
        "" => format!(
            r#"{{"type":"nodes_claimed","timestamp":"2026-01-01T00:00:00Z","node_ids":["1"],"owner":"{owner}","timeout":"{until}"}}"#
        ),
        _ => format!(
            r#"{{"type":"claim_refreshed","timestamp":"2026-01-01T00:00:00Z","node_id":"1","owner":"{owner}","new_timeout":"{until}"}}"#
        ),
    };
    let yard = Yard::new(Style::Native);
    yard.foreign(&claim("z", "", "2026-01-01T00:00:00Z"));
    let reaped = reap_behind(&yard, &claim("z", "refresh", "2099-01-01T00:00:00Z"));
    assert_eq!(reaped, Reaped::default());
    assert_eq!(yard.kinds(yard.head()), ["claim_refreshed"], "nothing was written after the extension");

    let yard = Yard::new(Style::Native);
    yard.foreign(&claim("z", "", "2026-01-01T00:00:00Z"));
    let reaped = reap_behind(&yard, r#"{"type":"nodes_released","timestamp":"2026-01-01T00:00:00Z","node_ids":["1"]}"#);
    assert_eq!(reaped, Reaped::default());
    let kinds = yard.kinds(4);
    assert_eq!(kinds, ["nodes_claimed", "nodes_released"], "a second release would be the end of the proof");
}

#[test]
fn a_waiter_is_woken_by_a_release() {
    for style in STYLES {
        let yard = Yard::new(style);
        let (alice, bob) = (yard.real("alice"), yard.real("bob"));
        take(&alice, "1").expect("it is free");
        thread::scope(|scope| {
            let (told, hears) = mpsc::channel();
            let waiting = scope.spawn(move || {
                let mut tell = |waiting: &Waiting<'_>| {
                    let _ = told.send(waiting.name.to_owned());
                };
                let mut patience =
                    WaitPolicy { timeout: PATIENCE.into(), tell: Some(&mut tell), ..WaitPolicy::default() };
                claimed(bob.take(&["1".to_owned()], &terms(), &mut patience).expect("it can be asked").value)
            });
            assert_eq!(hears.recv_timeout(PATIENCE).as_deref(), Ok("1"), "who waits is told for what");
            release(&alice, "1", None).expect("it is alice's");
            let made = waiting.join().expect("no panic").expect("it was released");
            assert_eq!((made.owner.as_str(), made.how), ("bob", How::New));
        });
    }
}

#[test]
fn a_waiter_is_woken_by_the_end_of_a_claim() {
    let yard = Yard::new(Style::Documented);
    let (alice, bob) = (yard.real("alice"), yard.real("bob"));
    let short = ClaimTerms { ttl_sec: Some(1), ..ClaimTerms::default() };
    alice.take(&["n".to_owned()], &short, &mut WaitPolicy::none()).expect("it can be asked");
    let mut patience = WaitPolicy { timeout: PATIENCE.into(), ..WaitPolicy::default() };
    let made = claimed(bob.take(&["n".to_owned()], &terms(), &mut patience).expect("it can be asked").value);
    assert_eq!(made.expect("it has ended").how, How::TookOver { from: "alice".into() });
}

#[test]
fn a_wait_ends_by_its_timeout_and_not_for_what_never_comes() {
    let yard = Yard::new(Style::Native);
    let (alice, bob) = (yard.real("alice"), yard.real("bob"));
    take(&alice, "1").expect("it is free");
    let nodes = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect::<Vec<_>>();
    let mut patience = WaitPolicy { timeout: Duration::from_millis(50).into(), ..WaitPolicy::default() };
    let refused = claimed(bob.take(&nodes(&["1"]), &terms(), &mut patience).expect("it can be asked").value);
    assert_eq!(owner_of(&refused.expect_err("it is alice's")), "alice");
    let mut patience = WaitPolicy { timeout: PATIENCE.into(), ..WaitPolicy::default() };
    let refused = claimed(bob.take(&nodes(&["1.9"]), &terms(), &mut patience).expect("it can be asked").value);
    assert_eq!(refused, Err(Refused::NoSuchNode), "nobody waits for a node that there isn't");
}

/// Goes off when its bell is rung.
struct Ring(Wakeup);

impl Interrupt for Ring {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn is_raised(&mut self) -> bool {
        self.0.heard()
    }
}

#[test]
fn an_alarm_ends_a_wait() {
    let yard = Yard::new(Style::Documented);
    let (alice, bob) = (yard.real("alice"), yard.real("bob"));
    take(&alice, "n").expect("it is free");
    let mut alarm = Ring(Wakeup::new().expect("a bell"));
    let rope = alarm.0.rope();
    let mut tell = |_: &Waiting<'_>| rope.ring();
    let mut patience = WaitPolicy { timeout: PATIENCE.into(), alarm: Some(&mut alarm), tell: Some(&mut tell) };
    let said = bob.take(&["n".to_owned()], &terms(), &mut patience).expect("it can be asked");
    assert!(matches!(said.value, Claiming::Interrupted), "{:?}", said.value);
    assert_eq!(yard.head(), 1, "nothing was written");
}

#[test]
fn of_several_nodes_the_first_that_is_free_is_taken() {
    let yard = Yard::new(Style::Native);
    let (alice, bob) = (yard.ledger("alice"), yard.ledger("bob"));
    take(&alice, "1").expect("it is free");
    let nodes: Vec<String> = ["1", "1.9", "1.2", "1.1"].map(str::to_owned).to_vec();
    let made = claimed(bob.take(&nodes, &terms(), &mut WaitPolicy::none()).expect("it can be asked").value);
    assert_eq!(made.expect("two are free").node, "1.2");
}

#[test]
fn a_dry_run_writes_nothing_at_all() {
    for style in STYLES {
        let yard = Yard::new(style);
        let (alice, bob) = (yard.ledger("alice"), yard.ledger("bob"));
        take(&alice, "1").expect("it is free");
        take(&alice, "1.1").expect("it is free");
        let dry = ClaimTerms { dry_run: true, ..terms() };
        let next = yard.head() + 1;
        let before = yard.traces();
        let made = claimed(bob.take(&["1.2".to_owned()], &dry, &mut WaitPolicy::none()).expect("asked").value);
        assert_eq!(made.expect("it is free").seq.get(), next, "it says what would be");
        assert!(claimed(bob.take(&["1".to_owned()], &dry, &mut WaitPolicy::none()).expect("asked").value).is_err());
        assert_eq!(claimed(alice.extend("1", None, &dry).expect("asked").value).expect("alice's").seq.get(), next);
        assert!(matches!(alice.release("1", None, &dry).expect("asked").value, Releasing::Released { .. }));
        yard.machine.advance_secs(TTL_SEC + 1);
        let reaped = alice.reap(&dry).expect("asked").value;
        assert_eq!((reaped.claims.len(), reaped.seq), (2, None));
        let made = claimed(bob.take(&["1".to_owned()], &dry, &mut WaitPolicy::none()).expect("asked").value);
        assert_eq!(made.expect("it has expired").seq.get(), next + 1, "after the end of the old one");
        assert_eq!(yard.traces(), before, "a dry run leaves no trace");
    }
}

#[test]
fn a_ledger_with_a_gap_or_a_damaged_event_is_trusted_only_by_force() {
    for (damage, named) in
        [("", "event 2 is missing"), ("{\"type\":", "event 2 is damaged"), ("{\"type\":\"lock_acquired\"}", "event 2")]
    {
        let yard = Yard::new(Style::Documented);
        let alice = yard.ledger("alice");
        for _ in 0..3 {
            yard.foreign(r#"{"type":"custom_event","timestamp":"2026-01-01T00:00:00Z"}"#);
        }
        if damage.is_empty() {
            move_away(&yard.event(2));
        } else {
            put(&yard.event(2), damage);
        }
        let refused = alice.take(&["n".to_owned()], &terms(), &mut WaitPolicy::none()).expect_err("it may be a claim");
        assert_eq!(refused.kind(), ErrorKind::Damaged);
        assert!(refused.to_string().contains(named), "{refused}");
        for error in [alice.extend("n", None, &terms()).err(), alice.reap(&terms()).err()] {
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Damaged));
        }
        assert_eq!(yard.head(), 3, "nothing was written");
        let said = alice.claims().expect("the rest can be read");
        assert!(said.warnings.iter().any(|warning| warning.to_string().contains(named)), "{:?}", said.warnings);
        let force = ClaimTerms { force: true, ..terms() };
        let made = claimed(alice.take(&["n".to_owned()], &force, &mut WaitPolicy::none()).expect("by force").value);
        assert_eq!(made.expect("nobody is known to have it").seq.get(), 4);
        // As soon as the event is back, it counts.
        put(
            &yard.event(2),
            r#"{"type":"lock_acquired","timestamp":"2026-01-01T00:00:00Z","node_id":"m","owner":"z","expires_at":"2099-01-01T00:00:00Z"}"#,
        );
        assert_eq!(owner_of(&take(&alice, "m").expect_err("it is z's")), "z");
    }
}

#[test]
fn ids_of_nodes_and_owners_are_checked_before_anything_is_touched() {
    let yard = Yard::new(Style::Native);
    let before = yard.traces();
    let ask = |owner: &str, node: &str| {
        let said = yard.ledger(owner).take(&[node.to_owned()], &terms(), &mut WaitPolicy::none());
        said.expect_err("it is no name").kind()
    };
    for node in ["01", "1.+1", "2", "1..2", ""] {
        assert_eq!(ask("alice", node), ErrorKind::BadEvent, "{node:?}");
    }
    assert_eq!(ask(" ", "1"), ErrorKind::BadEvent, "nobody is called blank");
    let none = yard.ledger("alice").take(&[], &terms(), &mut WaitPolicy::none()).expect_err("there is no node");
    assert_eq!(none.kind(), ErrorKind::BadEvent);
    let never = ClaimTerms { ttl_sec: Some(0), ..ClaimTerms::default() };
    let never = yard.ledger("alice").take(&["1".to_owned()], &never, &mut WaitPolicy::none()).expect_err("no lease");
    assert_eq!(never.kind(), ErrorKind::BadEvent);
    assert_eq!(yard.traces(), before);
}

#[test]
fn meta_json_says_how_long_a_claim_lasts() {
    let yard = Yard::new(Style::Documented);
    let alice = yard.ledger("alice");
    let lasts = || {
        let said = alice.take(&["n".to_owned()], &ClaimTerms::default(), &mut WaitPolicy::none()).expect("asked");
        (claimed(said.value).expect("it is alice's").ttl_sec, said.warnings.len())
    };
    assert_eq!(lasts(), (300, 0));
    for (meta, expected) in [
        (r#"{"lock_timeout":"90s"}"#, (90, 0)),
        (r#"{"lock_timeout":90000000000}"#, (90, 0)),
        (r#"{"config":{"lock_timeout_seconds":7}}"#, (7, 0)),
        (r#"{"lock_timeout":"2h"}"#, (3600, 1)),
        ("no json", (300, 1)),
    ] {
        put(&yard.path().join("meta.json"), meta);
        assert_eq!(lasts(), expected, "{meta}");
    }
    move_away(&yard.path().join("meta.json"));
    fs::create_dir(yard.path().join("meta.json")).expect("it can be made");
    assert_eq!(lasts(), (300, 1), "a directory says nothing");
    let long = ClaimTerms { ttl_sec: Some(7200), ..ClaimTerms::default() };
    let said = alice.take(&["n".to_owned()], &long, &mut WaitPolicy::none()).expect("asked");
    assert_eq!((claimed(said.value).expect("alice's").ttl_sec, said.warnings.len()), (7200, 1), "allowed, with a word");
}

#[test]
fn lock_files_are_respected_and_listed_and_hostile_ones_skipped() {
    let yard = Yard::new(Style::Documented);
    let alice = yard.ledger("alice");
    let lock = |until: &str| {
        format!(r#"{{"node_id":"n","owner":"z","acquired_at":"2026-01-01T11:00:00Z","expires_at":"{until}"}}"#)
    };
    let locks = yard.path().join("locks");
    put(&locks.join("whatever.lock"), lock("2026-01-01T12:01:00.5Z"));
    put(&locks.join("notes.txt"), "no lock");
    put(&locks.join("broken.lock"), "{");
    put(&locks.join("huge.lock"), vec![b' '; 1 << 20]);
    let made = Command::new("mkfifo").arg(locks.join("fifo.lock")).status().expect("mkfifo is there");
    assert!(made.success());
    let said = alice.take(&["n".to_owned()], &terms(), &mut WaitPolicy::none()).expect("asked");
    assert_eq!(said.warnings.len(), 3, "each that can't be read is told of: {:?}", said.warnings);
    assert_eq!(owner_of(&claimed(said.value).expect_err("it is z's")), "z");
    take(&alice, "m").expect("another node");
    let entries = alice.claims().expect("asked").value;
    let found: Vec<_> = entries.iter().map(|entry| (entry.node.as_str(), entry.lock_file.is_some())).collect();
    assert_eq!(found, [("m", false), ("n", true)]);
    yard.machine.advance_secs(61);
    take(&alice, "n").expect("the file has ended");
    assert!(locks.join("whatever.lock").exists(), "it isn't ours to remove");
}

#[test]
fn claims_are_listed_with_how_they_stand() {
    let yard = Yard::new(Style::Documented);
    let alice = yard.ledger("alice");
    for node in ["1.10", "1.2", "x"] {
        take(&alice, node).expect("it is free");
    }
    yard.machine.advance_secs(TTL_SEC + 1);
    take(&alice, "1.2").expect("nobody was faster");
    let entries = alice.claims().expect("asked").value;
    let found: Vec<_> = entries.iter().map(|entry| (entry.node.as_str(), entry.holder.lives())).collect();
    assert_eq!(found, [("1.2", true), ("1.10", false), ("x", false)], "numbers in their order");
}

#[test]
fn an_event_that_the_native_program_cannot_read_is_told_of() {
    let yard = Yard::new(Style::Native);
    let alice = yard.ledger("alice");
    yard.foreign(
        r#"{"type":"lock_acquired","timestamp":"2026-01-01T00:00:00Z","node_id":"1","owner":"x","expires_at":"2099-01-01T00:00:00Z"}"#,
    );
    let said = alice.take(&["1".to_owned()], &terms(), &mut WaitPolicy::none()).expect("asked");
    assert_eq!(said.warnings.len(), 1, "{:?}", said.warnings);
    assert_eq!(owner_of(&claimed(said.value).expect_err("it counts all the same")), "x");
}

#[test]
fn processes_see_each_others_claims_at_once() {
    // A claim is durable and visible when it is acknowledged: whoever opens the ledger anew finds it.
    let yard = Yard::new(Style::Documented);
    take(&yard.real("alice"), "n").expect("it is free");
    assert!(wait_until(PATIENCE, || take(&yard.real("bob"), "n").is_err()));
    assert_eq!(owner_of(&take(&yard.real("carol"), "n").expect_err("it is alice's")), "alice");
}
