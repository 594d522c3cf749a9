//! What gets into the log, and how often.

use lokt_worktree::lease::audit::{event, note};

use crate::scene::{HEAD, Scene};

#[test]
fn each_link_becomes_one_line_and_the_log_is_whole() {
    let scene = Scene::new();
    let (mut main, mut other) = (scene.chain("main"), scene.chain("other"));
    for _ in 0..3 {
        assert_eq!(scene.take(&mut main).warning, None);
        assert_eq!(scene.take(&mut other).warning, None);
    }
    assert_eq!(scene.times_logged(&main), [1, 1, 1]);
    assert_eq!(scene.times_logged(&other), [1, 1, 1]);
    let verdict = scene.repo().audit_log().verify().expect("it can be read");
    assert_eq!((verdict.value.lines, verdict.value.broken), (6, None));
    assert_eq!(verdict.warnings, []);
}

#[test]
fn what_a_killed_command_did_not_write_the_next_one_does_in_order_and_once() {
    let scene = Scene::new();
    let mut main = scene.chain("main");
    let anchor = scene.take(&mut main).anchor;
    // Three commands that were killed after their links, the last of them after its line.
    scene.add(&mut main, anchor.clone());
    scene.add(&mut main, anchor.clone());
    scene.add(&mut main, anchor);
    let warnings = scene.repo().audit_log().verify().expect("it can be read").warnings;
    assert!(warnings[0].to_string().contains("the last lock_acquire of worktree main isn't in it"), "{warnings:?}");
    for _ in 0..2 {
        let filled = scene.fill(&scene.repo(), &main);
        assert_eq!((filled.warning, filled.anchor.logged, filled.anchor.count), (None, 4, 4));
    }
    assert_eq!(scene.times_logged(&main), [1, 1, 1, 1]);
    let order: Vec<u64> = scene.events().iter().filter_map(|event| event.token).collect();
    assert_eq!(order, [1, 2, 3, 4], "events are in the order of their links");
}

#[test]
fn a_line_whose_writer_was_killed_before_the_head_is_found_again() {
    let scene = Scene::new();
    let mut main = scene.chain("main");
    scene.take(&mut main);
    let head = scene.audit.peek(HEAD).expect("there is one");
    scene.take(&mut main);
    scene.audit.plant(HEAD, &head);
    scene.take(&mut main);
    assert_eq!(scene.times_logged(&main), [1, 1, 1]);
    assert_eq!(scene.broken_line(), None);
}

#[test]
fn an_event_without_a_link_is_durable_at_once_with_all_before_it() {
    let mut scene = Scene::new();
    let mut main = scene.chain("main");
    scene.take(&mut main);
    let repo = scene.repo();
    let denied = event(&repo, "lock_denied", "main", serde_json::Map::new()).expect("there are random bits");
    assert_eq!(note(&repo, &denied), None);
    let before = scene.log();
    scene.cut_power(lokt_testkit::mem_disk::PowerCut::SyncedOnly);
    assert_eq!(scene.log(), before, "a power cut takes nothing of it away");
    assert_eq!(scene.events()[1].to_value(), denied.to_value());
}

#[test]
fn while_somebody_else_writes_the_lease_goes_on_and_the_line_comes_later() {
    use lokt_sys::disk::Disk as _;
    let scene = Scene::new();
    let mut main = scene.chain("main");
    let busy = scene.audit.lock(std::time::Duration::ZERO).expect("it is free");
    let filled = scene.take(&mut main);
    assert!(filled.warning.is_some_and(|why| why.to_string().contains("the next command adds what is missing")));
    drop(busy);
    assert_eq!(scene.take(&mut main).warning, None);
    assert_eq!(scene.times_logged(&main), [1, 1]);
}

#[test]
fn a_chain_that_is_born_again_is_logged_anew() {
    let scene = Scene::new();
    let (mut main, mut other) = (scene.chain("main"), scene.chain("other"));
    scene.take(&mut main);
    scene.take(&mut other);
    scene.disk.delete("locks");
    let mut again = scene.chain("other");
    assert_eq!(scene.take(&mut again).warning, None);
    let first: Vec<Option<u64>> = scene.events().iter().map(|event| event.token).collect();
    assert_eq!(first, [Some(1); 3], "its first link isn't taken for that of the chain before");
}
