//! Whatever call fails, tears or is the last one: afterwards every link has one line.

use std::sync::Arc;

use lokt_testkit::fault_disk::{Fault, FaultDisk};
use lokt_testkit::mem_disk::PowerCut;

use crate::scene::{Scene, no_room};

#[test]
fn after_every_fault_of_every_call_each_link_has_one_line() {
    for fault in [Fault::Errno(no_room()), Fault::Torn(no_room()), Fault::DieBefore, Fault::DieAfter] {
        for cut in [None, Some(PowerCut::SyncedOnly), Some(PowerCut::NamesWithoutContents)] {
            let mut at = 0;
            while fails_at(at, fault, cut) {
                at += 1;
            }
            assert!(at > 4, "there are some calls that can fail");
        }
    }
}

#[test]
fn a_line_costs_one_look_and_two_writes() {
    let scene = Scene::new();
    let mut main = scene.chain("main");
    scene.take(&mut main);
    let disk = Arc::new(FaultDisk::counting(Arc::new(scene.audit.clone())));
    let repo = scene.repo_on(disk.clone());
    let before = scene.fill(&repo, &main);
    assert_eq!(disk.calls(), 3, "the mutex, the log, its head");
    scene.add(&mut main, before.anchor);
    scene.fill(&repo, &main);
    assert_eq!(disk.calls(), 3 + 5, "the mutex, the log, its head; the line, the head");
}

/// False: the command makes fewer calls.
fn fails_at(at: usize, fault: Fault, cut: Option<PowerCut>) -> bool {
    let mut scene = Scene::new();
    let (mut main, mut other) = (scene.chain("main"), scene.chain("other"));
    scene.take(&mut main);
    scene.take(&mut other);
    let disk = Arc::new(FaultDisk::new(Arc::new(scene.audit.clone()), at, fault));
    let repo = scene.repo_on(disk.clone());
    let before = scene.fill(&repo, &main);
    scene.add(&mut main, before.anchor);
    scene.fill(&repo, &main);
    drop(repo);
    let was_reached = disk.calls() > at;
    scene.audit.drop_locks();
    if let Some(cut) = cut {
        scene.cut_power(cut);
    }
    let case = format!("{fault:?} at {at}, then {cut:?}");
    for _ in 0..2 {
        assert_eq!(scene.take(&mut other).warning, None, "{case}");
        assert_eq!(scene.take(&mut main).warning, None, "{case}");
    }
    assert_eq!(scene.times_logged(&main), [1; 4], "{case}");
    assert_eq!(scene.times_logged(&other), [1; 3], "{case}");
    assert_eq!(scene.broken_line(), None, "{case}");
    was_reached
}
