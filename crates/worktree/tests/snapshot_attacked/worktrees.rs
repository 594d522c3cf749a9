//! Where a worktree is at when it is made, made anew, or renamed.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lokt_core::lease::config::Isolation;
use lokt_worktree::snapshot::{Restoring, Unfolding};

use crate::lease_world::take;
use crate::scene::{CAREFUL, Scene, control, name, once, snapshot, taken};

/// A worktree has the name of one that was removed. It is at nothing.
#[test]
fn a_new_worktree_is_not_at_what_an_earlier_one_was() {
    let scene = Scene::new();
    let (repo, other) = (scene.repo(), name("other"));
    for round in ["removed", "renamed"] {
        repo.create(&other, Isolation::Exclusive).expect("no accident");
        let worktree = repo.worktree(&other).expect("no accident").expect("it is there");
        assert_eq!(worktree.head().expect("a head"), None, "{round}");
        let session = scene.world.session();
        take(&worktree, &session);
        let id = taken(snapshot(&worktree, &session).expect("no accident"));
        worktree.release(&session).expect("no accident");
        if round == "removed" {
            repo.remove(&other, true).expect("no accident");
        } else {
            repo.rename(&other, &name("elsewhere")).expect("no accident");
            let elsewhere = repo.worktree(&name("elsewhere")).expect("no accident").expect("it is there");
            assert_eq!(elsewhere.head().expect("a head"), Some(id), "it comes along");
        }
    }
    repo.create(&other, Isolation::Exclusive).expect("no accident");
    let worktree = repo.worktree(&other).expect("no accident").expect("it is there");
    assert_eq!(worktree.head().expect("a head"), None);
    let session = scene.world.session();
    take(&worktree, &session);
    assert_eq!(worktree.head().expect("a head"), None);
    let id = taken(snapshot(&worktree, &session).expect("no accident"));
    assert_eq!(scene.listed(&id).descriptor.parent, None);
}

/// A worktree is made from a snapshot, under the name of one that was removed. That is what it is at.
#[test]
fn a_worktree_that_is_made_from_a_snapshot_is_at_it() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    let (repo, other) = (scene.repo(), name("other"));
    repo.create(&other, Isolation::Exclusive).expect("no accident");
    let worktree = repo.worktree(&other).expect("no accident").expect("it is there");
    let session = scene.world.session();
    take(&worktree, &session);
    taken(snapshot(&worktree, &session).expect("no accident"));
    worktree.release(&session).expect("no accident");
    repo.remove(&other, true).expect("no accident");
    let halt = AtomicBool::new(false);
    let made = repo
        .snapshots()
        .restore_into(&scene.listed(&first), &other, false, &control(&halt))
        .expect("no accident")
        .value;
    assert!(matches!(made, Unfolding::Made(_)), "{made:?}");
    let worktree = repo.worktree(&other).expect("no accident").expect("it is there");
    assert_eq!(worktree.head().expect("a head"), Some(first.clone()));
    take(&worktree, &scene.world.session());
    assert_eq!(worktree.head().expect("a head"), Some(first));
}

/// A worktree gets the name that another one had. It stays at what it is at.
#[test]
fn a_worktree_that_is_renamed_is_at_what_it_was() {
    let scene = Scene::new();
    let repo = scene.repo();
    let mut ids = Vec::new();
    for each in ["one", "two"] {
        repo.create(&name(each), Isolation::Exclusive).expect("no accident");
        let worktree = repo.worktree(&name(each)).expect("no accident").expect("it is there");
        let session = scene.world.session();
        take(&worktree, &session);
        ids.push(taken(snapshot(&worktree, &session).expect("no accident")));
        worktree.release(&session).expect("no accident");
    }
    repo.remove(&name("two"), true).expect("no accident");
    repo.rename(&name("one"), &name("two")).expect("no accident");
    let worktree = repo.worktree(&name("two")).expect("no accident").expect("it is there");
    assert_eq!(worktree.head().expect("a head").as_ref(), Some(&ids[0]));
    take(&worktree, &scene.world.session());
    assert_eq!(worktree.head().expect("a head").as_ref(), Some(&ids[0]));
}

/// A file is written while a snapshot is unfolded, which can take long. It isn't saved anywhere.
#[test]
fn what_is_written_while_a_snapshot_is_unfolded_is_not_lost() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    scene.snapshot("two");
    let there = scene.clone();
    let worktree = scene.hooked(once(
        |call, path| call == "create_as" && path.starts_with("intents/restore-"),
        move || {
            there.put("new", "of the user");
            Ok(())
        },
    ));
    let said = scene.restore(&worktree, &first, CAREFUL).expect("no accident");
    assert!(matches!(said, Restoring::Dirty(_)), "{said:?}");
    assert_eq!((scene.text("new").as_deref(), scene.text("a").as_deref()), (Some("of the user"), Some("two")));
}

/// A file is put where a worktree is about to be, after it was seen that nothing is there.
#[test]
fn what_is_put_where_a_worktree_is_made_is_not_deleted() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    let place = scene.world.dir.path().join("worktrees/copy");
    let file = place.join("of-the-user");
    let repo = scene.hooked_repo(Arc::new(move |_: &str, _: &str| {
        if place.is_dir() && fs::read_dir(&place).is_ok_and(|mut listed| listed.next().is_none()) {
            fs::write(place.join("of-the-user"), "nowhere else").expect("a file");
        }
        Ok(())
    }));
    let halt = AtomicBool::new(false);
    let made = repo.snapshots().restore_into(&scene.listed(&first), &name("copy"), false, &control(&halt));
    assert!(file.exists(), "{made:?}");
}
