//! What an attack on the ledger found, each with what holds it now.

#![expect(clippy::disallowed_methods, reason = "other programs write, rename and remove files as they like")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{fs, io};

use lokt_core::fnv::fnv1a_32;
use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::Seq;
use lokt_core::time::{Moment, plus_seconds};
use lokt_ledger::{AppendTerms, Appending, ClaimTerms, Claiming, InitOptions, Ledger, LockPatience, Unmet};
use lokt_sys::disk::Disk;
use lokt_sys::machine::{Linux, Machine, ProcessStat};
use lokt_sys::os_disk::OsDisk;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::hook_disk::HookDisk;
use lokt_testkit::swarm::pause;
use tempfile::TempDir;

fn me(owner: &str) -> lokt_core::hold::Identity {
    lokt_sys::machine::identity(owner.into(), None)
}

fn fresh() -> (TempDir, Ledger) {
    let dir = tempfile::tempdir().expect("temp");
    let (ledger, _) = Ledger::init(dir.path(), InitOptions::default(), me("tester")).expect("it can be made");
    (dir, ledger)
}

fn note(text: &str) -> Draft {
    Draft::parse(format!(r#"{{"type":"note","text":"{text}"}}"#).as_bytes()).expect("an event")
}

fn append(ledger: &Ledger, text: &str) -> u64 {
    match ledger.append(&note(text), &AppendTerms::default()).expect("it is written").value {
        Appending::Appended(done) => done.first.get(),
        Appending::Denied(unmet) => panic!("{unmet:?}"),
    }
}

fn event(ledger: &Ledger, number: u64) -> std::path::PathBuf {
    ledger.path().join(format!("event-{number:06}.json"))
}

fn problems(ledger: &Ledger) -> Vec<String> {
    let found = ledger.verify(None, &mut |_, _| {}).expect("it can be read").value.problems;
    found.into_iter().map(|problem| problem.message).collect()
}

#[test]
fn events_of_another_branch_are_not_mistaken_for_replaced_ones() {
    let (_dir, ledger) = fresh();
    for number in 1..=8 {
        append(&ledger, &number.to_string());
    }
    // An earlier state is checked out, and others go on from there.
    for number in 4..=8 {
        fs::remove_file(event(&ledger, number)).expect("it is there");
    }
    for number in 4..=6 {
        fs::write(event(&ledger, number), r#"{"type":"theirs"}"#).expect("written");
    }
    assert_eq!(append(&ledger, "ours"), 7);
    assert_eq!(problems(&ledger), [""; 0], "nothing was replaced");
    ledger.doctor(true, &mut |_, _| {}).expect("it looks");
    for number in 4..=6 {
        assert_eq!(fs::read_to_string(event(&ledger, number)).expect("there"), r#"{"type":"theirs"}"#);
    }
}

#[test]
fn a_single_event_that_a_late_writer_replaced_is_noticed_and_brought_back() {
    let (_dir, ledger) = fresh();
    for number in 1..=4 {
        append(&ledger, &number.to_string());
    }
    let before = fs::read(event(&ledger, 3)).expect("there");
    fs::write(ledger.path().join(".event-1.tmp"), r#"{"type":"late"}"#).expect("written");
    fs::rename(ledger.path().join(".event-1.tmp"), event(&ledger, 3)).expect("its mv replaces");
    append(&ledger, "5");
    assert!(problems(&ledger).iter().any(|problem| problem.contains("event 3")), "{:?}", problems(&ledger));
    ledger.doctor(true, &mut |_, _| {}).expect("it mends");
    assert_eq!(fs::read(event(&ledger, 3)).expect("there"), before);
    assert_eq!(problems(&ledger), [""; 0]);
}

#[test]
fn the_head_that_was_replaced_is_told_when_more_is_appended_and_never_mended_into_another_branch() {
    let (dir, ledger) = fresh();
    for number in 1..=3 {
        append(&ledger, &number.to_string());
    }
    replace(dir.path(), 3);
    let said = ledger.append(&note("4"), &AppendTerms::default()).expect("written");
    assert!(
        said.warnings.iter().any(|warning| warning.to_string().contains("event 3 isn't there any more")),
        "{:?}",
        said.warnings
    );
    ledger.doctor(true, &mut |_, _| {}).expect("it looks");
    assert!(fs::read_to_string(event(&ledger, 3)).expect("there").contains("late"), "it may be another branch's");
}

#[test]
fn another_branch_of_mixed_writers_is_not_mended_into_the_old_one() {
    let (_dir, ledger) = fresh();
    let theirs = |number: u64, what: &str| {
        fs::write(event(&ledger, number), format!(r#"{{"type":"{what}"}}"#)).expect("written");
    };
    for number in 1..=3 {
        append(&ledger, &number.to_string());
    }
    theirs(4, "old");
    append(&ledger, "5");
    theirs(6, "old");
    append(&ledger, "7");
    for number in 4..=7 {
        fs::remove_file(event(&ledger, number)).expect("there");
        theirs(number, "other");
    }
    assert_eq!(append(&ledger, "8"), 8);
    ledger.doctor(true, &mut |_, _| {}).expect("it looks");
    for number in 4..=7 {
        assert_eq!(fs::read_to_string(event(&ledger, number)).expect("there"), r#"{"type":"other"}"#);
    }
}

#[test]
fn an_event_that_is_touched_is_not_replaced() {
    let (dir, ledger) = fresh();
    let path = event(&ledger, 1);
    let slow = interrupted(dir.path(), ("sync_dir", ""), move || {
        let old = fs::metadata("/proc/self").expect("proc").modified().expect("a time") - Duration::from_secs(60);
        fs::File::open(&path).expect("there").set_modified(old).expect("ours");
    });
    let said = slow.append(&note("x"), &AppendTerms::default()).expect("written");
    assert_eq!(said.warnings, []);
    assert_eq!(ledger.head().expect("readable").value, 1);
}

#[test]
fn whoever_lost_its_lock_waits_for_those_inside_before_it_acknowledges() {
    let (dir, ledger) = fresh();
    append(&ledger, "x");
    let (lock, path) = (ledger.path().join("ledger.lock"), dir.path().to_owned());
    // Just before the event gets its name somebody removes the lock, another enters, and counts the same number.
    let slow = interrupted(dir.path(), ("unnamed_link", "event-"), move || {
        fs::remove_file(&lock).expect("there");
        fs::create_dir(&lock).expect("taken");
        let (lock, path) = (lock.clone(), path.clone());
        std::thread::spawn(move || {
            pause(Duration::from_millis(300));
            replace(&path, 2);
            fs::remove_dir(&lock).expect("ours");
        });
    });
    let said = slow.append(&note("ours"), &AppendTerms::default()).expect("written");
    let Appending::Appended(done) = said.value else { panic!("{said:?}") };
    let text = fs::read_to_string(event(&ledger, done.last.get())).expect("there");
    assert!(text.contains("ours"), "what is acknowledged is there: {text}");
}

#[test]
fn an_event_that_may_not_be_read_counts_as_damaged_for_claims() {
    // As root everything may be read: the binary's tests have another user for this. Here: what can't be read is no error of its own.
    let (_dir, ledger) = fresh();
    append(&ledger, "x");
    fs::create_dir(event(&ledger, 2)).expect("made");
    let terms = ClaimTerms { ttl_sec: Some(60), ..ClaimTerms::default() };
    assert!(ledger.take(&["1".to_owned()], &terms, &mut WaitPolicy::none()).is_err());
    let forced = ClaimTerms { force: true, ..terms };
    let taken = ledger.take(&["1".to_owned()], &forced, &mut WaitPolicy::none()).expect("asked").value;
    assert!(matches!(taken, Claiming::Claimed(_)), "{taken:?}");
}

#[test]
fn a_crafted_lock_leads_to_no_file_outside() {
    let (dir, ledger) = fresh();
    append(&ledger, "x");
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").expect("written");
    fs::create_dir(ledger.path().join(".lokt/lock-")).expect("made");
    let boot_id = me("x").boot_id.expect("it is known");
    let pid_ns = me("x").pid_ns.expect("it is known");
    let lock = format!(
        r#"{{"agent_id":"x","acquired_at":"2026-01-01T00:00:00Z","pid":2147483647,"start_ticks":1,"boot_id":"{boot_id}","pid_ns":{pid_ns},"nonce":"/../../../victim","took_over":"zzz"}}"#
    );
    fs::write(ledger.path().join("ledger.lock"), lock).expect("written");
    let brief = LockPatience { timeout: Duration::from_millis(50), poll: Duration::from_millis(5) };
    let _ = ledger.patient(brief).append(&note("y"), &AppendTerms::default());
    assert_eq!(fs::read_to_string(&victim).expect("it is where it was"), "precious");
}

/// Runs `work` in a thread while a lock of another program is there, and removes it after `wait`.
fn behind_a_lock<T: Send>(ledger: &Ledger, wait: Duration, work: impl FnOnce() -> T + Send) -> T {
    let lock = ledger.path().join("ledger.lock");
    fs::create_dir(&lock).expect("made");
    std::thread::scope(|scope| {
        let running = scope.spawn(work);
        pause(wait);
        fs::remove_dir(&lock).expect("ours to remove");
        running.join().expect("it doesn't panic")
    })
}

#[test]
fn a_token_that_expires_while_the_lock_is_waited_for_is_not_good_any_more() {
    let (_dir, ledger) = fresh();
    let terms = ClaimTerms { ttl_sec: Some(1), ..ClaimTerms::default() };
    let taken = ledger.take(&["1".to_owned()], &terms, &mut WaitPolicy::none()).expect("asked").value;
    let Claiming::Claimed(claimed) = taken else { panic!("{taken:?}") };
    let fenced = AppendTerms { token: Some(claimed.token), ..AppendTerms::default() };
    let said = behind_a_lock(&ledger, Duration::from_millis(1_500), || ledger.append(&note("late"), &fenced));
    let value = said.expect("it got the lock").value;
    assert!(matches!(value, Appending::Denied(Unmet::Fence { .. })), "{value:?}");
}

#[test]
fn a_claim_lasts_from_when_it_was_made_and_not_from_when_it_was_asked_for() {
    let (_dir, ledger) = fresh();
    let terms = ClaimTerms { ttl_sec: Some(2), ..ClaimTerms::default() };
    let asked = ledger.now().wall;
    let said = behind_a_lock(&ledger, Duration::from_millis(1_500), || {
        ledger.take(&["1".to_owned()], &terms, &mut WaitPolicy::none())
    });
    let value = said.expect("it got the lock").value;
    let Claiming::Claimed(claimed) = value else { panic!("{value:?}") };
    let ends_after = claimed.expires_at.duration_since(asked).as_millis();
    assert!(
        ends_after >= 3_500,
        "it was made 1,500 ms later, and lasts for two seconds more, not until {ends_after} ms"
    );
}

/// This machine, with a wall clock that is a day ahead.
struct Ahead;

impl Machine for Ahead {
    fn now(&self) -> Moment {
        let now = Linux.now();
        Moment { wall: plus_seconds(now.wall, 86_400), ..now }
    }

    fn random(&self) -> io::Result<u128> {
        Linux.random()
    }

    fn process(&self, pid: i64) -> Option<ProcessStat> {
        Linux.process(pid)
    }
}

#[test]
fn no_clock_trust_a_claim_that_came_while_the_lock_was_waited_for_is_not_judged_by_the_wall_clock() {
    let (dir, _) = fresh();
    let terms = ClaimTerms { ttl_sec: Some(60), ..ClaimTerms::default() };
    let first = Ledger::existing(dir.path(), me("other")).expect("it can be read").expect("it was made");
    // It has looked, and prepares its event.
    let late = interrupted_on(Arc::new(Ahead), dir.path(), ("unnamed", ""), move || {
        pause(Duration::from_millis(5));
        let said = first.take(&["1".to_owned()], &terms, &mut WaitPolicy::none()).expect("it can be written");
        assert!(matches!(said.value, Claiming::Claimed(_)), "the node is free: {:?}", said.value);
    });
    let said = late.take(&["1".to_owned()], &terms, &mut WaitPolicy::none()).expect("it can be read");
    assert!(
        matches!(said.value, Claiming::Denied { .. }),
        "one-holder: it was taken from a live claim: {:?}",
        said.value
    );
}

/// The same ledger on a disk that tells of each call before it is made.
fn told(dir: &Path, hook: impl Fn(&str, &str) + Send + Sync + 'static) -> Ledger {
    told_on(Arc::new(Linux), dir, hook)
}

fn told_on(machine: Arc<dyn Machine>, dir: &Path, hook: impl Fn(&str, &str) + Send + Sync + 'static) -> Ledger {
    let open = |path: &Path| -> Arc<dyn Disk> { Arc::new(OsDisk::open(path).expect("it is there")) };
    let hook = move |call: &str, path: &str| {
        hook(call, path);
        Ok(())
    };
    let disk = Arc::new(HookDisk::new(open(&dir.join("ledger")), Arc::new(hook)));
    Ledger::on(dir, disk, open(dir), machine, me("tester")).expect("readable")
}

/// The same ledger on which `meanwhile` happens once, just before a call.
fn interrupted(
    dir: &Path,
    before: (&'static str, &'static str),
    meanwhile: impl Fn() + Send + Sync + 'static,
) -> Ledger {
    interrupted_on(Arc::new(Linux), dir, before, meanwhile)
}

fn interrupted_on(
    machine: Arc<dyn Machine>,
    dir: &Path,
    before: (&'static str, &'static str),
    meanwhile: impl Fn() + Send + Sync + 'static,
) -> Ledger {
    let done = AtomicUsize::new(0);
    told_on(machine, dir, move |call, path| {
        if call == before.0 && path.starts_with(before.1) && done.fetch_add(1, Ordering::SeqCst) == 0 {
            meanwhile();
        }
    })
}

/// Another program's rename over an event.
fn replace(dir: &Path, number: u64) {
    let temp = dir.join("ledger/.event-9.tmp");
    fs::write(&temp, r#"{"type":"late"}"#).expect("written");
    fs::rename(&temp, dir.join(format!("ledger/event-{number:06}.json"))).expect("renamed");
}

#[test]
fn a_key_that_was_used_before_is_acknowledged_only_when_its_event_is_durable() {
    let (dir, ledger) = fresh();
    let terms = AppendTerms { id: Some("k"), ..AppendTerms::default() };
    ledger.append(&note("x"), &terms).expect("written");
    let syncs = Arc::new(AtomicUsize::new(0));
    let counted = syncs.clone();
    let ledger = told(dir.path(), move |call, _| {
        counted.fetch_add(usize::from(call == "sync_dir"), Ordering::SeqCst);
    });
    let said = ledger.append(&note("x"), &terms).expect("asked").value;
    assert!(matches!(said, Appending::Appended(done) if done.duplicate), "{said:?}");
    assert_eq!(syncs.load(Ordering::SeqCst), 1, "whoever wrote it may have been killed before it synced");
}

#[test]
fn a_hint_that_cannot_be_true_is_none() {
    for head in [u64::MAX, 1 << 53, 0] {
        let (_dir, ledger) = fresh();
        append(&ledger, "x");
        let hint = fs::read_to_string(ledger.path().join(".lokt/head")).expect("there");
        let json = hint.trim_end().split_once(' ').expect("a sum and JSON").1;
        let json = json.replace(r#""head":1,"#, &format!(r#""head":{head},"#));
        assert!(json.contains(&head.to_string()), "{json}");
        let hint = format!("{:08x} {json}\n", fnv1a_32(json.as_bytes()));
        fs::write(ledger.path().join(".lokt/head"), hint).expect("written");
        assert_eq!(append(&ledger, "y"), 2, "the hint said {head}");
    }
}

#[test]
fn a_lock_that_took_the_number_of_ours_is_not_removed() {
    let (_dir, ledger) = fresh();
    let lock = ledger.path().join("ledger.lock");
    let (inside, go_on) = (mpsc::channel(), mpsc::channel::<()>());
    let (send, receive) = (inside.0, std::sync::Mutex::new(go_on.1));
    let dir = ledger.path().parent().expect("it has one").to_owned();
    // Stops just before the event gets its name: inside.
    let stopped = told(&dir, move |call, path| {
        if call == "unnamed_link" && path.starts_with("event-") {
            send.send(()).expect("somebody waits");
            receive.lock().expect("one thread").recv().expect("somebody lets it go on");
        }
    });
    let stopped = stopped.patient(LockPatience { timeout: Duration::from_millis(200), poll: Duration::from_millis(5) });
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || stopped.append(&note("x"), &AppendTerms::default()));
        inside.1.recv().expect("it is inside");
        fs::remove_file(&lock).expect("somebody removes it");
        fs::write(&lock, r#"{"agent_id":"another"}"#).expect("and takes it");
        go_on.0.send(()).expect("it waits");
        let error = writer.join().expect("it doesn't panic").expect_err("another is inside, and stays");
        assert!(error.to_string().contains("event 1 is written, but the lock was taken away"), "{error}");
    });
    assert!(lock.exists(), "it is another's");
    assert_eq!(Seq::new(ledger.head().expect("readable").value), Some(Seq::FIRST));
}

#[test]
fn a_key_whose_event_was_replaced_is_appended_again_whatever_others_cached() {
    let (dir, ledger) = fresh();
    append(&ledger, "x");
    let path = dir.path().to_owned();
    let other = ledger.clone();
    // Between publishing and acknowledging: somebody else keeps a cache that knows of the event, and a late writer replaces it.
    let slow = interrupted(dir.path(), ("sync_dir", ""), move || {
        other.append(&note("other"), &AppendTerms { id: Some("other"), ..AppendTerms::default() }).expect("written");
        replace(&path, 2);
    });
    let terms = AppendTerms { id: Some("k"), ..AppendTerms::default() };
    let said = slow.append(&note("ours"), &terms).expect("written");
    let Appending::Appended(done) = said.value else { panic!("{said:?}") };
    assert_eq!((done.first.get(), done.duplicate), (4, false), "{:?}", said.warnings);
    assert!(fs::read_to_string(event(&ledger, 4)).expect("there").contains("ours"));
    assert!(
        said.warnings.iter().any(|warning| warning.to_string().contains("event 2 was replaced")),
        "{:?}",
        said.warnings
    );
}

#[test]
fn a_batch_of_which_one_was_replaced_and_appended_again_is_told_of_whole() {
    let (dir, ledger) = fresh();
    append(&ledger, "x");
    let path = dir.path().to_owned();
    let slow = interrupted(dir.path(), ("sync_dir", ""), move || replace(&path, 5));
    let events: Vec<Draft> = (0..20).map(|nth| note(&nth.to_string())).collect();
    let said = slow.append_batch(&events, &AppendTerms::default(), &mut |_, _| {}).expect("written");
    let Appending::Appended(done) = said.value else { panic!("{said:?}") };
    assert_eq!((done.first.get(), done.last.get(), done.count), (2, 22, 20), "{:?}", said.warnings);
}

#[test]
fn a_cached_key_is_believed_only_if_its_event_has_it() {
    let (dir, ledger) = fresh();
    let terms = AppendTerms { id: Some("k"), ..AppendTerms::default() };
    ledger.append(&note("x"), &terms).expect("written");
    append(&ledger, "y");
    ledger.append(&note("z"), &AppendTerms { id: Some("z"), ..AppendTerms::default() }).expect("cached through 3");
    replace(dir.path(), 1);
    let said = ledger.append(&note("x"), &terms).expect("written").value;
    assert!(matches!(said, Appending::Appended(done) if !done.duplicate && done.first.get() == 4), "{said:?}");
}

#[test]
fn a_style_that_was_settled_meanwhile_is_respected() {
    let dir = tempfile::tempdir().expect("temp");
    fs::create_dir(dir.path().join("ledger")).expect("made");
    let early = Ledger::existing(dir.path(), me("tester")).expect("readable").expect("there");
    let first = r#"{"type":"proof_initialized","timestamp":"2026-01-01T00:00:00Z","conjecture":"c","author":"a"}"#;
    fs::write(dir.path().join("ledger/000001.json"), first).expect("the native program begins");
    let error = early.append(&note("x"), &AppendTerms::default()).expect_err("it is another ledger now");
    assert!(error.to_string().contains("native style"), "{error}");
    assert!(!dir.path().join("ledger/event-000001.json").exists());
    let now = Ledger::existing(dir.path(), me("tester")).expect("readable").expect("there");
    assert_eq!(append(&now, "x"), 2);
}

#[test]
fn a_temporary_file_that_cannot_be_removed_does_not_end_a_take_over() {
    let (_dir, ledger) = fresh();
    let lock = ledger.path().join("ledger.lock");
    fs::write(&lock, r#"{"agent_id":"append-operation","acquired_at":"2020-01-01T00:00:00Z"}"#).expect("written");
    let old = fs::metadata("/proc/self").expect("proc").modified().expect("a time") - Duration::from_secs(60);
    fs::File::open(&lock).expect("there").set_modified(old).expect("ours");
    fs::create_dir_all(ledger.path().join(".event-1.tmp/x")).expect("made");
    let said = ledger.append(&note("x"), &AppendTerms::default()).expect("written");
    assert!(said.warnings.iter().any(|warning| warning.to_string().contains(".event-1.tmp")), "{:?}", said.warnings);
    assert!(!lock.exists());
}

#[test]
fn a_batch_that_somebody_interrupts_is_told_of_kept_and_checked_whole() {
    let (dir, ledger) = fresh();
    append(&ledger, "x");
    let rude = event(&ledger, 8);
    let counted = AtomicUsize::new(0);
    let slow = told(dir.path(), move |call, path| {
        if call == "rename_new" && path.contains("batch-") && counted.fetch_add(1, Ordering::SeqCst) == 3 {
            fs::write(&rude, r#"{"type":"rude"}"#).expect("written");
        }
    });
    let events: Vec<Draft> = (0..20).map(|nth| note(&nth.to_string())).collect();
    let said = slow.append_batch(&events, &AppendTerms::default(), &mut |_, _| {}).expect("written").value;
    let Appending::Appended(done) = said else { panic!("{said:?}") };
    assert_eq!((done.first.get(), done.last.get(), done.count), (2, 22, 20), "what others wrote isn't counted");
    let texts: Vec<String> = (2..=22)
        .filter(|number| *number != 8)
        .map(|number| fs::read_to_string(event(&ledger, number)).expect("there"))
        .collect();
    for (nth, text) in texts.iter().enumerate() {
        assert!(text.contains(&format!(r#""text":"{nth}""#)), "in order, each once: {text}");
    }
    assert!(ledger.path().join(".lokt/kept/000002").exists(), "the first part is kept, too");
}

#[test]
fn an_event_within_the_same_tick_of_the_clock_is_seen() {
    let (_dir, ledger) = fresh();
    append(&ledger, "x");
    let before = fs::metadata(ledger.path()).expect("there").modified().expect("a time");
    fs::write(event(&ledger, 2), r#"{"type":"theirs"}"#).expect("written");
    fs::File::open(ledger.path()).expect("there").set_modified(before).expect("as a coarse clock would leave it");
    assert_eq!(ledger.head().expect("readable").value, 2);
    assert_eq!(append(&ledger, "y"), 3);
}

#[test]
fn a_ledger_that_is_replaced_while_somebody_writes_to_it_is_noticed() {
    for before in [("unnamed_link", "ledger.lock"), ("unnamed_link", "event-"), ("sync_dir", "")] {
        let (dir, ledger) = fresh();
        append(&ledger, "x");
        let (path, away) = (dir.path().join("ledger"), dir.path().join("away"));
        let slow = interrupted(dir.path(), before, move || {
            fs::rename(&path, &away).expect("moved away");
            fs::create_dir(&path).expect("another in its place");
        });
        let said = slow.append(&note("y"), &AppendTerms::default());
        let error = said.expect_err("nobody finds it where it was");
        assert!(error.to_string().contains("replaced by another directory"), "{before:?}: {error}");
    }
}

#[test]
fn a_note_of_a_take_over_that_cannot_be_written_means_the_same() {
    let (_dir, ledger) = fresh();
    fs::create_dir(ledger.path().join(".lokt/wary")).expect("made");
    let lock = ledger.path().join("ledger.lock");
    fs::create_dir(&lock).expect("made");
    let old = fs::metadata("/proc/self").expect("proc").modified().expect("a time") - Duration::from_secs(60);
    fs::File::open(&lock).expect("there").set_modified(old).expect("ours");
    assert_eq!(append(&ledger, "x"), 2, "after a filler");
}
