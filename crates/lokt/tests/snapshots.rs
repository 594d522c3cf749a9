//! Snapshots in the library, on real directories.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use lokt::lease::{LeaseTerms, Leasing, Taking, Worktree};
use lokt::repo::Repository;
use lokt::snapshot::{Acting, InPlace, Named, Restoring, SnapshotWish, Snapshotting, Unfolding};
use lokt::tree::{Control, Known, Silent};
use lokt::{Consistency, Identity, Isolation, LeasePolicy, LockName, Patience, Session};

fn me() -> Identity {
    lokt::identity("alice".into(), None)
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
    let said = worktree.acquire(&session, &terms, &mut Patience::none()).expect("an answer");
    assert!(matches!(said.value, Leasing::Granted(_)), "it was free: {:?}", said.value);
    session
}

fn control(halt: &AtomicBool) -> Control<'_> {
    Control::new(&Silent, halt)
}

fn take(worktree: &Worktree, session: &Session) -> String {
    let halt = AtomicBool::new(false);
    let wish = SnapshotWish { consistency: Consistency::Quiesced, note: None, acting: Acting::Session(session) };
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
    let catalog = repo.catalog().expect("a catalog");
    let ids: Vec<String> = catalog.snapshots.iter().map(|listed| listed.descriptor.id.to_string()).collect();
    assert_eq!(ids, [second.clone(), first.clone()], "newest first");
    assert_eq!(catalog.snapshots[0].descriptor.parent.as_ref().map(ToString::to_string), Some(first.clone()));
    let halt = AtomicBool::new(false);
    for listed in &catalog.snapshots {
        let verified =
            repo.verify(listed, &Known::default(), &control(&halt)).expect("an answer").expect("nobody stopped it");
        assert!(verified.is_sound(), "{verified:?}");
    }
    let Named::Found(old) = catalog.named(&first, None) else { panic!("it is there") };
    let how = InPlace { force: false, dry_run: false };
    let restored =
        main.restore_in_place(&old, Acting::Session(&session), how, &control(&halt)).expect("an answer").value;
    let Restoring::Restored(restored) = restored else { panic!("it comes back: {restored:?}") };
    assert_eq!(fs::read_to_string(place.join("sub/a")).expect("a file"), "one");
    let old_tree = restored.old_tree.expect("it is somewhere");
    assert_eq!(fs::read_to_string(old_tree.join("sub/a")).expect("a file"), "two");
    assert_eq!(main.head().expect("a head").map(|id| id.to_string()), Some(first.clone()));
    let name = LockName::new("copy").expect("a name");
    let made = repo.restore_into(&old, &name, &control(&halt)).expect("an answer").value;
    assert!(matches!(made, Unfolding::Made(_)), "{made:?}");
    assert_eq!(fs::read_to_string(dir.path().join("worktrees/copy/sub/a")).expect("a file"), "one");
}
