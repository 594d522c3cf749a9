//! Snapshots in the library, on real directories.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lokt_core::hold::Identity;
use lokt_core::lease::config::Isolation;
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::session::Session;
use lokt_core::name::LockName;
use lokt_core::snapshot::descriptor::Consistency;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_tree::{Control, Known, Phase, Progress, Silent};
use lokt_worktree::lease::{LeaseTerms, Leasing, Taking, Worktree};
use lokt_worktree::repo::Repository;
use lokt_worktree::snapshot::{Acting, InPlace, Named, Restoring, SnapshotWish, Snapshotting, Unfolding};

fn me() -> Identity {
    lokt_sys::machine::identity("alice".into(), None)
}

fn repository(dir: &Path) -> Repository {
    Repository::init(dir, Isolation::Exclusive, me()).expect("a repository").0
}

fn main_of(repo: &Repository) -> Worktree {
    repo.worktree(&LockName::new("main").expect("a name")).expect("it is read").expect("it is there")
}

fn leased(worktree: &Worktree) -> Session {
    let session = Session::new(1, [2, 3]);
    let terms = LeaseTerms { policy: LeasePolicy::DEFAULT, purpose: None, taking: Taking::FreeOrOver, bearer: None };
    let said = worktree.acquire(&session, &terms, &mut WaitPolicy::none()).expect("an answer");
    assert!(matches!(said.value, Leasing::Granted(_)), "it was free: {:?}", said.value);
    session
}

fn control(halt: &AtomicBool) -> Control<'_> {
    Control::new(&Silent, halt)
}

fn take(worktree: &Worktree, session: &Session) -> String {
    let halt = AtomicBool::new(false);
    let wish = SnapshotWish {
        consistency: Consistency::Quiesced,
        note: None,
        acting: Acting::Session(session),
        with_git: false,
    };
    match worktree.snapshot(&wish, &control(&halt)).expect("an answer").value {
        Snapshotting::Taken(taken) => taken.descriptor.id.to_string(),
        other => panic!("it should be there: {other:?}"),
    }
}

#[test]
fn a_snapshot_is_taken_found_verified_and_comes_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let repo = repository(dir.path());
    let main = main_of(&repo);
    let place = dir.path().join("main");
    fs::create_dir(place.join("sub")).expect("a directory");
    #[expect(clippy::disallowed_methods, reason = "a user's file")]
    fs::write(place.join("sub/a"), "one").expect("a file");
    let session = leased(&main);
    let first = take(&main, &session);
    #[expect(clippy::disallowed_methods, reason = "a user's file")]
    fs::write(place.join("sub/a"), "two").expect("a file");
    let second = take(&main, &session);
    let catalog = repo.snapshots().catalog().expect("a catalog");
    let ids: Vec<String> = catalog.snapshots.iter().map(|listed| listed.descriptor.id.to_string()).collect();
    assert_eq!(ids, [second.clone(), first.clone()], "newest first");
    assert_eq!(catalog.snapshots[0].descriptor.parent.as_ref().map(ToString::to_string), Some(first.clone()));
    let halt = AtomicBool::new(false);
    for listed in &catalog.snapshots {
        let verified = repo
            .snapshots()
            .verify(listed, &Known::default(), &control(&halt))
            .expect("an answer")
            .expect("nobody stopped it");
        assert!(verified.is_sound(), "{verified:?}");
    }
    let Named::Found(old) = catalog.named(&first, None) else { panic!("it is there") };
    let how = InPlace { force: false, dry_run: false, with_git: false };
    let restored =
        main.restore_in_place(&old, Acting::Session(&session), how, &control(&halt)).expect("an answer").value;
    let Restoring::Restored(restored) = restored else { panic!("it comes back: {restored:?}") };
    assert_eq!(fs::read_to_string(place.join("sub/a")).expect("a file"), "one");
    let old_tree = restored.old_tree.expect("it is somewhere");
    assert_eq!(fs::read_to_string(old_tree.join("sub/a")).expect("a file"), "two");
    assert_eq!(main.head().expect("a head").map(|id| id.to_string()), Some(first.clone()));
    let name = LockName::new("copy").expect("a name");
    let made = repo.snapshots().restore_into(&old, &name, false, &control(&halt)).expect("an answer").value;
    assert!(matches!(made, Unfolding::Made(_)), "{made:?}");
    assert_eq!(fs::read_to_string(dir.path().join("worktrees/copy/sub/a")).expect("a file"), "one");
}

/// Panics once something was done in a phase.
struct Panics(Phase);

impl Progress for Panics {
    fn step(&self, phase: Phase, files: u64, _: u64, bytes: u64, _: u64) {
        if phase == self.0 && files + bytes > 0 {
            std::panic::resume_unwind(Box::new("whoever looks on panics"));
        }
    }
}

#[test]
fn a_panic_of_whoever_looks_on_ends_the_work_and_does_not_hang_it() {
    for at in [Phase::Scanning, Phase::Copying] {
        let dir = tempfile::tempdir().expect("a directory");
        let repo = repository(dir.path());
        let main = main_of(&repo);
        for number in 0..100 {
            fs::create_dir(dir.path().join(format!("main/{number}"))).expect("a directory");
        }
        #[expect(clippy::disallowed_methods, reason = "a user's file")]
        fs::write(dir.path().join("main/big"), vec![1; 30 << 20]).expect("a file");
        let session = leased(&main);
        let (send, ended) = mpsc::channel();
        // Not joined: if it hangs, the test must not.
        thread::spawn(move || {
            let (panics, halt) = (Panics(at), AtomicBool::new(false));
            let control = Control { threads: 4, ..Control::new(&panics, &halt) };
            let wish = SnapshotWish {
                consistency: Consistency::Quiesced,
                note: None,
                acting: Acting::Session(&session),
                with_git: false,
            };
            let work = std::panic::AssertUnwindSafe(|| drop(main.snapshot(&wish, &control)));
            send.send(std::panic::catch_unwind(work).is_err()).expect("somebody waits for it");
        });
        let panicked = ended.recv_timeout(Duration::from_secs(60));
        assert_eq!(panicked, Ok(true), "{at:?}: the panic reaches whoever asked for the snapshot");
    }
}
