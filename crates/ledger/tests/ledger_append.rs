//! Appending on a real directory, beside locks that others left.

#![expect(clippy::disallowed_methods, reason = "other programs write, rename and remove files as they like")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::{Seq, Style};
use lokt_ledger::{AppendTerms, Appended, Appending, ClaimTerms, InitOptions, Ledger, LockPatience, Transacted, Unmet};
use lokt_sys::error::ErrorKind;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::swarm::put;
use tempfile::TempDir;

fn ledger(dir: &Path, options: InitOptions) -> Ledger {
    Ledger::init(dir, options, lokt_sys::machine::identity("tester".into(), None)).expect("it can be made").0
}

fn fresh() -> (TempDir, Ledger) {
    let dir = tempfile::tempdir().expect("temp");
    let ledger = ledger(dir.path(), InitOptions::default());
    (dir, ledger)
}

fn note(text: &str) -> Draft {
    Draft::parse(format!(r#"{{"type":"note","text":"{text}"}}"#).as_bytes()).expect("an event")
}

fn append(ledger: &Ledger, text: &str) -> Appended {
    appended(ledger, text, &AppendTerms::default())
}

fn appended(ledger: &Ledger, text: &str, terms: &AppendTerms<'_>) -> Appended {
    match ledger.append(&note(text), terms).expect("it is written").value {
        Appending::Appended(appended) => appended,
        Appending::Denied(unmet) => panic!("{unmet:?}"),
    }
}

fn names(ledger: &Ledger) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(ledger.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

fn text(ledger: &Ledger, file: &str) -> String {
    fs::read_to_string(ledger.path().join(file)).expect("it is there")
}

/// Makes a lock of another program that is this old.
fn age(path: &Path, secs: u64) {
    let then = filetime(secs);
    let file = fs::File::open(path).expect("it is there");
    file.set_modified(then).expect("it is ours");
}

fn filetime(secs: u64) -> std::time::SystemTime {
    fs::metadata("/proc/self").expect("proc").modified().expect("a time") - Duration::from_secs(secs)
}

#[test]
fn events_get_one_number_after_the_other_and_nothing_is_left_beside_them() {
    let (_dir, ledger) = fresh();
    for number in 1..=3 {
        assert_eq!(append(&ledger, "x").first.get(), number);
    }
    assert_eq!(names(&ledger), [".lokt", "event-000001.json", "event-000002.json", "event-000003.json"]);
    let event = text(&ledger, "event-000003.json");
    assert!(event.starts_with(r#"{"type":"note","timestamp":""#), "{event}");
    assert!(event.ends_with(r#"Z","text":"x"}"#), "{event}");
    let mode = fs::metadata(ledger.path().join("event-000001.json")).expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
}

#[test]
fn an_append_that_expects_another_head_is_refused_and_says_both() {
    let (_dir, ledger) = fresh();
    append(&ledger, "x");
    match ledger.append_if(&note("y"), 0).expect("asked").value {
        Appending::Denied(Unmet::Sequence { expected: 0, head: 1 }) => {}
        other => panic!("{other:?}"),
    }
    assert!(matches!(ledger.append_if(&note("y"), 1).expect("asked").value, Appending::Appended(_)));
}

#[test]
fn a_batch_is_whole_and_in_order() {
    let (_dir, ledger) = fresh();
    append(&ledger, "first");
    let events: Vec<Draft> = (0..100).map(|nth| note(&nth.to_string())).collect();
    let said = ledger.append_batch(&events, &AppendTerms::default(), &mut |_, _| {}).expect("written");
    let Appending::Appended(done) = said.value else { panic!("{said:?}") };
    assert_eq!((done.first.get(), done.last.get()), (2, 101));
    assert!(text(&ledger, "event-000101.json").contains(r#""text":"99""#));
    assert_eq!(names(&ledger).len(), 102, "nothing is left of it");
}

#[test]
fn the_same_key_gives_one_event() {
    let (_dir, ledger) = fresh();
    let terms = AppendTerms { id: Some("k"), ..AppendTerms::default() };
    assert_eq!(appended(&ledger, "x", &terms).first, Seq::FIRST);
    append(&ledger, "between");
    let again = appended(&ledger, "x", &terms);
    assert_eq!((again.first, again.duplicate), (Seq::FIRST, true));
    assert_eq!(ledger.head().expect("asked").value, 2);
    let other = ledger.append(&note("other"), &terms).expect("asked");
    assert_eq!(other.warnings.len(), 1, "another event under the same key is worth a word: {other:?}");
}

#[test]
fn a_live_foreign_lock_is_respected_and_a_stale_one_taken_over_with_a_filler() {
    let (_dir, ledger) = fresh();
    append(&ledger, "x");
    let lock = ledger.path().join("ledger.lock");
    fs::create_dir(&lock).expect("as the recipe does");
    let brief = LockPatience { timeout: Duration::from_millis(50), poll: Duration::from_millis(5) };
    let error = ledger.clone().patient(brief).append(&note("y"), &AppendTerms::default()).expect_err("it is held");
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("timeout waiting for lock"), "{error}");
    assert!(error.to_string().contains("a lock directory"), "{error}");
    age(&lock, 60);
    let done = append(&ledger, "z");
    assert_eq!((done.first.get(), done.filler.map(Seq::get)), (3, Some(2)));
    assert!(text(&ledger, "event-000002.json").starts_with(r#"{"type":"lock_takeover","timestamp":""#));
    assert!(text(&ledger, "event-000003.json").ends_with(r#","text":"z","filler":2}"#));
    assert!(!lock.exists());
}

#[test]
fn numbers_go_on_past_six_digits_and_past_gaps() {
    let (_dir, ledger) = fresh();
    append(&ledger, "x");
    put(&ledger.path().join("event-999999.json"), text(&ledger, "event-000001.json"));
    fs::remove_dir_all(ledger.path().join(".lokt")).expect("only caches");
    let said = ledger.append(&note("y"), &AppendTerms::default()).expect("written");
    assert!(matches!(said.value, Appending::Appended(done) if done.first.get() == 1_000_000), "{said:?}");
    assert!(said.warnings.iter().any(|warning| warning.to_string().contains("event 2 is missing")), "{said:?}");
    assert_eq!(append(&ledger, "z").first.get(), 1_000_001);
}

#[test]
fn a_native_ledger_is_known_by_its_files_and_carries_foreign_types() {
    let dir = tempfile::tempdir().expect("temp");
    fs::create_dir(dir.path().join("ledger")).expect("temp");
    let first = br#"{"type":"proof_initialized","timestamp":"2026-01-01T00:00:00Z","conjecture":"c","author":"a"}"#;
    fs::write(dir.path().join("ledger/000001.json"), first).expect("temp");
    let me = lokt_sys::machine::identity("tester".into(), None);
    let ledger = Ledger::existing(dir.path(), me).expect("readable").expect("there");
    assert_eq!(ledger.settings().style, Style::Native);
    assert_eq!(append(&ledger, "x").first.get(), 2);
    let event = text(&ledger, "000002.json");
    assert!(event.starts_with(r#"{"type":"nodes_released","timestamp":""#), "{event}");
    assert!(event.contains(r#""node_ids":[],"event":{"type":"note","#), "{event}");
}

#[test]
fn the_chain_is_carried_and_goes_on() {
    let dir = tempfile::tempdir().expect("temp");
    let ledger = ledger(dir.path(), InitOptions { chain: true, ..InitOptions::default() });
    for _ in 0..3 {
        append(&ledger, "x");
    }
    let zeros = "0".repeat(64);
    assert!(text(&ledger, "event-000001.json").contains(&format!(r#""chain":"{zeros}""#)));
    assert!(!text(&ledger, "event-000002.json").contains(&zeros));
}

#[test]
fn a_transaction_succeeds_although_others_append_all_the_time() {
    let (_dir, ledger) = fresh();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let mut count = 0;
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                append(&ledger, "other");
                count += 1;
            }
            count
        });
        for nth in 0_u64..50 {
            let said = ledger.transact(|events| {
                Ok::<_, ()>(vec![Draft::new("counted", vec![("through", events.through.into()), ("nth", nth.into())])])
            });
            let Transacted::Appended(done) = said.expect("it is written").value else { panic!("it was not refused") };
            let event = text(&ledger, &Style::Documented.file_name(done.first));
            let through = format!(r#""through":{},"#, done.first.get() - 1);
            assert!(event.contains(&through), "it was decided about the ledger just before it: {event}");
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        let count = others.join().expect("they don't fail");
        assert_eq!(ledger.head().expect("readable").value, 50 + count, "nothing is lost");
    });
}

#[test]
fn a_decision_may_be_not_to_append() {
    let (_dir, ledger) = fresh();
    let said = ledger.transact(|_| Err::<Vec<Draft>, _>("no")).expect("asked");
    assert!(matches!(said.value, Transacted::Denied("no")));
    let said = ledger.transact(|_| Ok::<_, ()>(Vec::new())).expect("asked");
    assert!(matches!(said.value, Transacted::Nothing));
    assert_eq!(ledger.fold().expect("readable").value.through, 0);
}

#[test]
fn an_event_that_somebody_removed_is_told_of_and_stops_claims_whatever_was_read_before() {
    let (_dir, ledger) = fresh();
    let nodes = ["1".to_owned()];
    let take = |force| {
        let terms = ClaimTerms { ttl_sec: Some(60), force, ..ClaimTerms::default() };
        ledger.take(&nodes, &terms, &mut WaitPolicy::none())
    };
    append(&ledger, "x");
    take(false).expect("claimed, and cached");
    fs::remove_file(ledger.path().join("event-000001.json")).expect("somebody removes it");
    let said = ledger.append(&note("y"), &AppendTerms::default()).expect("written");
    assert!(
        said.warnings.iter().any(|warning| warning.to_string().contains("event 1 is missing")),
        "{:?}",
        said.warnings
    );
    assert_eq!(take(false).expect_err("it may have been a claim").kind(), ErrorKind::Damaged);
    take(true).expect("by force");
}

#[test]
fn every_take_over_has_a_filler_of_its_own() {
    let (_dir, ledger) = fresh();
    append(&ledger, "x");
    let lock = ledger.path().join("ledger.lock");
    // Two foreign writers, one after the other, each stopped when it had counted.
    fs::create_dir(&lock).expect("as the recipe does");
    age(&lock, 60);
    ledger.doctor(true, &mut |_, _| {}).expect("mended");
    let counted = ledger.head().expect("readable").value;
    fs::create_dir(&lock).expect("as the recipe does");
    age(&lock, 60);
    let done = append(&ledger, "ours");
    assert!(done.first.get() > counted + 1, "the second one's number is {}, and ours {}", counted + 1, done.first);
    let (ours, theirs) = (Style::Documented.file_name(done.first), format!("event-{:06}.json", counted + 1));
    let before = text(&ledger, &ours);
    fs::write(ledger.path().join(&theirs), r#"{"type":"late"}"#).expect("its mv replaces the filler");
    assert_eq!(text(&ledger, &ours), before);
    assert!(
        ledger.verify(None, &mut |_, _| {}).expect("readable").value.problems.is_empty(),
        "a filler may be replaced"
    );
}
