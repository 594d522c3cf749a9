//! Whoever publishes a snapshot is stopped or fails half-way.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lokt_core::snapshot::id::SnapshotId;

use crate::scene::{CHAIN, Scene, after_the_link, eio, is_receipt, snapshot, snapshot_noted, taken};

/// The link that publishes a snapshot is there; before its process is told so, somebody adds the next one and writes the receipt; then
/// syncing fails. What everybody can see by now isn't removed.
#[test]
fn what_others_have_seen_is_not_removed_after_an_error() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    scene.put("a", "two");
    let (there, linked) = (scene.clone(), AtomicBool::new(false));
    let hook = move |call: &str, path: &str| {
        if there.count("descriptors") == 2
            && (call, path) == ("sync_dir", CHAIN)
            && !linked.swap(true, Ordering::SeqCst)
        {
            there.renew();
            return Err(eio());
        }
        Ok(())
    };
    snapshot(&scene.hooked(Arc::new(hook)), &scene.session).expect_err("it couldn't be synced");
    assert!(scene.is_whole_or_nothing(&first), "nothing happened to it");
    scene.is_whole_or_nothing(&scene.newest_id());
    assert!(scene.head().is_some_and(|head| scene.is_whole_or_nothing(&head)), "the worktree is at one that is there");
}

/// Whoever published a snapshot is stopped at once, for so long that the chain is pruned: what its link follows is gone by then.
fn stopped_after_its_link(meanwhile: fn(&Scene)) -> (Arc<Scene>, SnapshotId) {
    let scene = Scene::new();
    scene.snapshot("one");
    scene.put("a", "two");
    let (described, there) = (scene.clone(), scene.clone());
    let is_described = move || described.count("descriptors") == 2;
    let stopped = scene.hooked(after_the_link(1, is_described, move || {
        for _ in 0..150 {
            there.renew();
        }
        meanwhile(&there);
    }));
    let id = taken(snapshot(&stopped, &scene.session).expect("no accident"));
    assert!(scene.is_whole_or_nothing(&id), "it was acknowledged");
    (scene, id)
}

#[test]
fn a_snapshot_is_published_once() {
    let (scene, id) = stopped_after_its_link(|_| {});
    assert_ne!(scene.listed(&id).descriptor.parent, Some(id), "nothing comes before itself");
}

#[test]
fn a_snapshot_that_was_published_is_acknowledged_when_the_lease_is_lost() {
    let (scene, id) = stopped_after_its_link(Scene::is_lost);
    assert_eq!(scene.head(), Some(id), "the worktree is at it");
}

/// A note that is longer than anybody reads.
#[test]
fn a_snapshot_with_a_long_note_is_there_or_refused() {
    let scene = Scene::new();
    scene.put("a", "one");
    let said = snapshot_noted(&scene.main(), &scene.session, Some("\u{1}".repeat(1 << 20)));
    if let Ok(said) = said {
        assert!(scene.is_whole_or_nothing(&taken(said)), "it was acknowledged");
    }
    assert_eq!(scene.head().filter(|head| !scene.is_whole_or_nothing(head)), None);
    scene.renew();
}

/// A snapshot is published and its description is lost before it has a receipt. Others get theirs.
#[test]
fn what_can_never_have_a_receipt_keeps_nobody_from_theirs() {
    let scene = Scene::new();
    scene.put("a", "one");
    let stopped = scene.hooked(Arc::new(
        |call: &str, path: &str| {
            if is_receipt(path) && call != "stamp" { Err(eio()) } else { Ok(()) }
        },
    ));
    snapshot(&stopped, &scene.session).expect_err("it was stopped");
    let lost = scene.newest_id();
    fs::remove_file(scene.jvs(&format!("descriptors/{lost}.json"))).expect("it goes");
    for text in ["two", "three", "four"] {
        scene.snapshot(text);
    }
    scene.renew();
    let last = fs::read_dir(scene.jvs(CHAIN)).expect("a chain").map(|entry| entry.expect("an entry").path());
    let is_link = |path: &PathBuf| path.file_name().is_some_and(|name| name.len() == 20);
    let last = last.filter(is_link).max().expect("there is one");
    let link: serde_json::Value = serde_json::from_slice(&fs::read(last).expect("a link")).expect("JSON");
    let pending = link["chain"]["pending"].as_array().map_or(0, Vec::len);
    assert!(pending <= 1, "{pending} are pending");
}
