//! What `gc` and `doctor` must leave alone.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lokt_core::lease::config::Isolation;
use lokt_core::snapshot::gc::Retention;
use lokt_worktree::lease::doctor::examine_one;
use lokt_worktree::snapshot::{GcWish, Restoring};

use crate::lease_world::take;
use crate::scene::{CAREFUL, HARSH, Scene, candidates, decided, eio, is_receipt, name, once, snapshot, taken};

/// `gc` was killed when it had said that a snapshot goes, and the snapshot was still there. Somebody goes back to it. It is a head now.
#[test]
fn what_gc_had_begun_to_remove_and_is_used_again_stays() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    let second = scene.snapshot("two");
    let killed = scene.hooked_repo(Arc::new(|call: &str, path: &str| match call {
        "remove" if is_receipt(path) => Err(eio()),
        _ => Ok(()),
    }));
    let wish = GcWish { retention: Retention { keep_last: Some(1), keep_within_ms: None }, at_once: false };
    let done = killed.gc().run(&wish).expect("an answer").value;
    assert_eq!(done.failed.len(), 1, "it got as far as the tombstone: {done:?}");
    let restored = scene.restore(&scene.main(), &first, CAREFUL).expect("no accident");
    assert!(matches!(restored, Restoring::Restored(_)), "{restored:?}");
    scene.repo().gc().run(&HARSH).expect("an answer");
    assert!(scene.is_whole_or_nothing(&first), "the worktree is at it");
    examine_one(&scene.repo(), true);
    assert!(scene.is_whole_or_nothing(&first), "the worktree is at it");
    assert_eq!(scene.head(), Some(first));
    drop(second);
}

/// What a worktree is at stays, also while its configuration can't be read.
#[test]
fn what_a_damaged_worktree_is_at_stays() {
    let scene = Scene::new();
    let (repo, other) = (scene.repo(), name("other"));
    repo.create(&other, Isolation::Exclusive).expect("no accident");
    let worktree = repo.worktree(&other).expect("no accident").expect("it is there");
    let session = scene.world.session();
    take(&worktree, &session);
    let id = taken(snapshot(&worktree, &session).expect("no accident"));
    fs::write(scene.jvs("worktrees/other/config.json"), "{").expect("it is damaged");
    let plan = scene.repo().gc().plan(HARSH.retention);
    assert!(plan.is_err() || !candidates(&scene.repo()).contains(&id), "it is what a worktree is at");
    if scene.repo().gc().run(&HARSH).is_ok() {
        assert!(scene.is_whole_or_nothing(&id), "it is what a worktree is at");
    }
}

/// What a name that can't be read is the name of isn't known: nothing goes.
#[test]
fn what_may_have_a_name_stays() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    let second = scene.snapshot("two");
    scene.restore(&scene.main(), &first, CAREFUL).expect("no accident");
    fs::create_dir_all(scene.jvs("refs")).expect("a directory");
    fs::write(scene.jvs("refs/release.json"), format!("{{\"name\": \"release\", \"snapshot_id\": \"{second}"))
        .expect("a file");
    assert!(scene.repo().gc().run(&HARSH).is_err(), "nobody knows what may go");
    assert!(scene.is_whole_or_nothing(&second), "it has a name");
}

/// A restore was decided, and its tree is gone: the worktree has what it had, which stays.
#[test]
fn what_a_worktree_goes_back_to_stays() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    let second = scene.snapshot("two");
    decided(&scene, &first);
    fs::remove_dir_all(scene.jvs("restores")).expect("it goes");
    assert!(!candidates(&scene.repo()).contains(&second), "the worktree is at it");
    scene.repo().gc().run(&HARSH).expect("no accident");
    scene.renew();
    assert_eq!((scene.text("a").as_deref(), scene.head()), (Some("two"), Some(second.clone())));
    assert!(scene.is_whole_or_nothing(&second), "the worktree is at it");
}

/// What `jvs` made is there, and its description was damaged: that is no leftover of somebody who was killed.
#[test]
fn what_another_program_made_is_no_leftover_when_its_description_is_damaged() {
    let scene = Scene::new();
    let id = scene.snapshot("one");
    // As that program leaves it: no receipt, no manifest, a marker.
    fs::remove_file(scene.jvs(&format!("snapshots/{id}.ready"))).expect("it goes");
    fs::remove_file(scene.jvs(&format!("snapshots/{id}.manifest"))).expect("it goes");
    fs::write(scene.jvs(&format!("snapshots/{id}/.READY")), "{}").expect("a marker");
    fs::write(scene.jvs(&format!("descriptors/{id}.json")), "{\"snapshot_id\": ").expect("it is damaged");
    scene.renew();
    let catalog = scene.catalog();
    assert!(catalog.unfinished.is_empty(), "{:?}", catalog.unfinished);
    assert_eq!(catalog.spoiled.len(), 1, "somebody has to be told");
}

/// Whoever restored was killed after the exchange, and somebody deletes all locks. What was ignored is nowhere else.
#[test]
fn the_old_tree_of_a_restore_that_nobody_knows_of_is_not_deleted() {
    let scene = Scene::new();
    scene.put(".lokt-ignore", "*.env\n");
    let first = scene.snapshot("one");
    scene.snapshot("two");
    scene.put("secret.env", "nowhere else");
    let looks = AtomicUsize::new(0);
    let stopped = scene.hooked(Arc::new(move |call: &str, path: &str| {
        if (call, path) == ("list", "restores") && looks.fetch_add(1, Ordering::SeqCst) > 0 {
            Err(eio())
        } else {
            Ok(())
        }
    }));
    scene.restore(&stopped, &first, CAREFUL).expect_err("it was stopped");
    assert_eq!(scene.text("a").as_deref(), Some("one"), "after the exchange");
    fs::remove_dir_all(scene.jvs("locks")).expect("they go");
    examine_one(&scene.repo(), true);
    assert_eq!(scene.found("secret.env").len(), 1);
}

/// Somebody pins a snapshot that `gc` is about to remove. Who is told that it is kept keeps it.
#[test]
fn what_was_pinned_stays() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    scene.snapshot("two");
    let (there, id) = (scene.clone(), first.clone());
    let pinning: Arc<Mutex<Option<std::thread::JoinHandle<bool>>>> = Arc::default();
    let handle = pinning.clone();
    let repo = scene.hooked_repo(once(
        |call, path| call == "create_as" && path.starts_with("gc/tombstones"),
        move || {
            let (there, id) = (there.clone(), id.clone());
            let thread = std::thread::spawn(move || there.repo().snapshots().pin(&id, None).is_ok());
            std::thread::sleep(std::time::Duration::from_millis(300));
            *handle.lock().expect("nobody panics") = Some(thread);
            Ok(())
        },
    ));
    let wish = GcWish { retention: Retention { keep_last: Some(1), keep_within_ms: None }, at_once: false };
    repo.gc().run(&wish).expect("no accident");
    let is_pinned = pinning.lock().expect("nobody panics").take().expect("it ran").join().expect("no panic");
    assert_eq!(is_pinned, scene.is_whole_or_nothing(&first), "pinned, and there");
}

/// `rm -rf .jvs/snapshots/ID`: what is listed as visible is whole.
#[test]
fn a_snapshot_without_its_files_is_not_listed_as_whole() {
    let scene = Scene::new();
    let id = scene.snapshot("one");
    fs::remove_dir_all(scene.jvs(&format!("snapshots/{id}"))).expect("it goes");
    let catalog = scene.catalog();
    assert!(catalog.get(&id).is_none() && catalog.spoiled.len() == 1, "{catalog:?}");
}
