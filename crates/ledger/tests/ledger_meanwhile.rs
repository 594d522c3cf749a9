//! Others append between what a writer prepares and the lock: what it has synced is not synced again inside, where everybody waits for it.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::Seq;
use lokt_core::time::Moment;
use lokt_ledger::{AppendTerms, Appending, ClaimTerms, Claiming, Folded, InitOptions, Ledger, Slot, Transacted};
use lokt_sys::disk::Disk;
use lokt_sys::machine::{Linux, Machine, ProcessStat};
use lokt_sys::os_disk::OsDisk;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::hook_disk::HookDisk;
use tempfile::TempDir;

/// This machine with clocks that a test moves: how long a sync takes must not matter. Only each look at the wall clock is another one.
struct Clocks {
    began: Moment,
    passed_ms: AtomicU64,
    looks: AtomicU64,
}

impl Clocks {
    fn pass(&self, ms: u64) {
        self.passed_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Machine for Clocks {
    fn now(&self) -> Moment {
        let (passed_ms, looks) = (self.passed_ms.load(Ordering::SeqCst), self.looks.fetch_add(1, Ordering::SeqCst));
        let passed = Duration::from_millis(passed_ms) + Duration::from_micros(looks);
        Moment {
            wall: self.began.wall + passed,
            monotonic_ms: self.began.monotonic_ms + passed_ms,
            boottime_ms: self.began.boottime_ms + passed_ms,
        }
    }

    fn random(&self) -> io::Result<u128> {
        Linux.random()
    }

    fn process(&self, pid: i64) -> Option<ProcessStat> {
        Linux.process(pid)
    }
}

/// A ledger, and another way to it.
struct Scene {
    dir: TempDir,
    clocks: Arc<Clocks>,
    other: Ledger,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp");
        Ledger::init(dir.path(), InitOptions::default(), lokt_sys::machine::identity("tester".into(), None))
            .expect("it can be made");
        let clocks = Clocks { began: Linux.now(), passed_ms: AtomicU64::new(0), looks: AtomicU64::new(0) };
        let clocks = Arc::new(clocks);
        let other = ledger(dir.path(), &clocks, &|disk| disk);
        Self { dir, clocks, other }
    }

    /// The same ledger, on which `meanwhile` happens before the `nth` time that `call` is made. Counts the syncs of files without a name.
    fn disturbed(
        &self,
        call: &'static str,
        nth: usize,
        meanwhile: impl Fn() + Send + Sync + 'static,
    ) -> (Ledger, Arc<AtomicUsize>) {
        let (syncs, calls) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        let counted = Arc::clone(&syncs);
        let hook = Arc::new(move |made: &str, path: &str| {
            counted.fetch_add(usize::from(made == "unnamed_sync"), Ordering::SeqCst);
            if made == call && !path.starts_with("ledger.lock") && calls.fetch_add(1, Ordering::SeqCst) == nth {
                meanwhile();
            }
            Ok(())
        });
        let hooked = |disk: Arc<dyn Disk>| -> Arc<dyn Disk> { Arc::new(HookDisk::new(disk, hook.clone())) };
        (ledger(self.dir.path(), &self.clocks, &hooked), syncs)
    }

    /// One to which another writer has appended, and so many milliseconds have passed, when the event is prepared and the lock isn't ours yet.
    fn overtaken(&self, ms: u64) -> (Ledger, Arc<AtomicUsize>) {
        let (other, clocks) = (self.other.clone(), self.clocks.clone());
        self.disturbed("unnamed_sync", 0, move || {
            clocks.pass(ms);
            append(&other, &AppendTerms::default());
        })
    }

    fn timestamp(&self, number: u64) -> Timestamp {
        let seq = Seq::new(number).expect("a number");
        let Slot::Event(bytes) = self.other.read(seq).expect("readable") else { panic!("event {number}") };
        let event: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        event["timestamp"].as_str().expect("it has one").parse().expect("a time")
    }

    fn inode(&self, number: u64) -> u64 {
        let found = std::fs::metadata(self.other.path().join(format!("event-{number:06}.json")));
        found.expect("it is there").ino()
    }
}

fn ledger(dir: &Path, clocks: &Arc<Clocks>, wrap: &dyn Fn(Arc<dyn Disk>) -> Arc<dyn Disk>) -> Ledger {
    let open = |path: &Path| -> Arc<dyn Disk> { Arc::new(OsDisk::open(path).expect("it is there")) };
    let me = lokt_sys::machine::identity("tester".into(), None);
    Ledger::on(dir, wrap(open(&dir.join("ledger"))), open(dir), clocks.clone(), me).expect("readable")
}

fn note(text: &str) -> Draft {
    Draft::parse(format!(r#"{{"type":"note","text":"{text}"}}"#).as_bytes()).expect("an event")
}

fn append(ledger: &Ledger, terms: &AppendTerms<'_>) -> u64 {
    match ledger.append(&note("x"), terms).expect("it is written").value {
        Appending::Appended(done) => done.first.get(),
        Appending::Denied(unmet) => panic!("{unmet:?}"),
    }
}

#[test]
fn an_event_under_a_key_is_not_synced_again_inside_the_lock() {
    let scene = Scene::new();
    let (ledger, syncs) = scene.overtaken(50);
    assert_eq!(append(&ledger, &AppendTerms { id: Some("k1"), ..AppendTerms::default() }), 2);
    assert_eq!(syncs.load(Ordering::SeqCst), 1, "others wait while something is synced inside");
}

#[test]
fn an_event_under_a_token_is_not_synced_again_inside_the_lock() {
    let scene = Scene::new();
    let terms = ClaimTerms { ttl_sec: Some(60), ..ClaimTerms::default() };
    let taken = scene.other.take(&["1".to_owned()], &terms, &mut WaitPolicy::none()).expect("asked").value;
    let Claiming::Claimed(claimed) = taken else { panic!("{taken:?}") };
    let (ledger, syncs) = scene.overtaken(50);
    assert_eq!(append(&ledger, &AppendTerms { token: Some(claimed.token), ..AppendTerms::default() }), 3);
    assert_eq!(syncs.load(Ordering::SeqCst), 1, "others wait while something is synced inside");
}

#[test]
fn a_decision_that_stays_the_same_is_not_synced_again_inside_the_lock() {
    let scene = Scene::new();
    let (ledger, syncs) = scene.overtaken(50);
    let said = ledger.transact(|_| Ok::<_, ()>(vec![note("y")])).expect("it is written").value;
    assert!(matches!(&said, Transacted::Appended(done) if done.first.get() == 2), "{said:?}");
    assert_eq!(syncs.load(Ordering::SeqCst), 1, "others wait while something is synced inside");
}

#[test]
fn a_decision_that_has_changed_is_written_with_the_time_of_the_change() {
    let scene = Scene::new();
    let (ledger, syncs) = scene.overtaken(50);
    let decide = |events: &Folded| Ok::<_, ()>(vec![note(&events.through.to_string())]);
    ledger.transact(decide).expect("it is written");
    assert_eq!(syncs.load(Ordering::SeqCst), 2, "it is another event");
    let (before, after) = (scene.timestamp(1), scene.timestamp(2));
    assert!(before < after, "it follows what it was decided about: {before} {after}");
}

#[test]
fn an_event_that_waited_for_long_says_when_it_was_decided_at_last() {
    let scene = Scene::new();
    let (ledger, syncs) = scene.overtaken(200);
    append(&ledger, &AppendTerms { id: Some("k1"), ..AppendTerms::default() });
    assert_eq!(syncs.load(Ordering::SeqCst), 2, "a fifth of a second is no moment");
    let (before, after) = (scene.timestamp(1), scene.timestamp(2));
    assert!(before < after, "{before} {after}");
}

/// Somebody ignores the lock and takes the second number. The decision is asked again, and says the same.
#[test]
fn what_has_a_name_is_not_given_a_second_one_when_a_decision_is_repeated() {
    for (call, count) in [("unnamed_link", 3), ("rename_new", 20)] {
        let scene = Scene::new();
        let rude = scene.other.path().join("event-000002.json");
        #[expect(clippy::disallowed_methods, reason = "another program writes as it likes")]
        let write = move || std::fs::write(&rude, r#"{"type":"rude"}"#).expect("written");
        let (ledger, _) = scene.disturbed(call, 1, write);
        let drafts: Vec<Draft> = (0..count).map(|nth| note(&nth.to_string())).collect();
        let said = ledger.transact(|_| Ok::<_, ()>(drafts.clone())).expect("it is written").value;
        assert!(matches!(&said, Transacted::Appended(done) if done.last.get() == 2 + count), "{call}: {said:?}");
        assert_ne!(scene.inode(1), scene.inode(3), "{call}: two events share a file");
    }
}
