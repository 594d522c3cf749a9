//! Whoever is killed half-way leaves something that the next one finishes, or nothing.

use std::fs;
use std::sync::{Arc, Mutex};

use lokt_core::lease::config::Isolation;
use lokt_sys::disk::Disk;
use lokt_testkit::fault_disk::{Fault, FaultDisk};
use lokt_worktree::repo::{Changing, Repository};

use crate::place::{Place, done, me, name, release, take, worktree};

/// The tokens that were given in `old` before.
const GIVEN: u64 = 5;

/// Runs `work` with a disk that dies at its n-th call, for each n; then looks. There was a worktree `new`, whose chain is left.
fn at_each_call(fault: Fault, work: impl Fn(&Repository), look: impl Fn(&Place, &Repository, &str)) {
    for at in 0.. {
        let (place, repo) = Place::in_memory();
        done(repo.create(&name("new"), Isolation::Exclusive).expect("it can be made").value);
        done(repo.remove(&name("new"), false).expect("it can be removed").value);
        done(repo.create(&name("old"), Isolation::Exclusive).expect("it can be made").value);
        for number in 1..4 {
            assert!(take(&worktree(&repo, "old"), number) <= GIVEN);
            release(&worktree(&repo, "old"), number);
        }
        fs::write(place.at("worktrees/old/file"), "x").expect("a file");
        let disks: Mutex<Vec<Arc<FaultDisk>>> = Mutex::default();
        let faulty = place.on(|disk| {
            let disk = Arc::new(FaultDisk::counting(disk));
            disks.lock().expect("nobody panicked").push(disk.clone());
            disk
        });
        drop(faulty);
        // What opening takes isn't counted.
        let opening = disks.lock().expect("nobody panicked")[0].calls();
        let disks: Mutex<Vec<Arc<FaultDisk>>> = Mutex::default();
        let faulty = place.on(|disk: Arc<dyn Disk>| {
            let disk = Arc::new(FaultDisk::new(disk, opening + at, fault));
            disks.lock().expect("nobody panicked").push(disk.clone());
            disk
        });
        work(&faulty);
        drop(faulty);
        let was_reached = disks.lock().expect("nobody panicked")[0].calls() > opening + at;
        look(&place, &repo, &format!("{fault:?} at call {at}"));
        if !was_reached {
            assert!(at > 20, "there are some calls at which it can be killed: {at}");
            return;
        }
    }
}

#[test]
fn an_init_that_was_killed_is_finished_by_the_next() {
    for at in 0.. {
        let place = Place::bare();
        for dir in [".jvs", ".jvs/audit"] {
            fs::create_dir(place.at(dir)).expect("a directory");
        }
        let disks: Mutex<Vec<Arc<FaultDisk>>> = Mutex::default();
        let killed = place.try_on(|disk: Arc<dyn Disk>| {
            let disk = Arc::new(FaultDisk::new(disk, at, Fault::DieBefore));
            disks.lock().expect("nobody panicked").push(disk.clone());
            disk
        });
        let is_founded = killed.is_ok_and(|repo| repo.found(Isolation::Exclusive).is_ok());
        let (repo, is_new) = Repository::init(&place.top(), Isolation::Exclusive, me()).expect("it can be made");
        assert!(!(is_new && is_founded), "call {at}: it is made once");
        take(&repo.worktree(&name("main")).expect("it can be read").expect("it is there"), 1);
        assert!(place.at("main").is_dir());
        if disks.lock().expect("nobody panicked")[0].calls() <= at {
            assert!(at > 20, "there are some calls at which it can be killed: {at}");
            return;
        }
    }
}

#[test]
fn a_rename_that_was_killed_is_finished_or_never_began() {
    for fault in [Fault::DieBefore, Fault::DieAfter] {
        at_each_call(
            fault,
            |repo| drop(repo.rename(&name("old"), &name("new"))),
            |place, repo, case| {
                let entries = repo.worktrees().expect("they can be listed");
                let there: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
                assert!(matches!(there[..], ["main", "old" | "new"]), "{case}: {there:?}");
                let now = there[1];
                assert!(entries.iter().all(|entry| entry.problem.is_none()), "{case}: {entries:?}");
                assert!(place.at("worktrees").join(now).join("file").exists(), "{case}: it has its files");
                let token = take(&worktree(repo, now), 1);
                assert!(token > GIVEN, "{case}: its files know {GIVEN}: {token}");
                assert_eq!(repo.audit_log().verify().expect("it can be read").value.broken, None, "{case}");
            },
        );
    }
}

#[test]
fn a_removal_that_was_killed_can_be_said_again() {
    for fault in [Fault::DieBefore, Fault::DieAfter] {
        at_each_call(
            fault,
            |repo| drop(repo.remove(&name("old"), true)),
            |place, repo, case| {
                let answer = repo.remove(&name("old"), true).expect("it can be said again").value;
                assert!(matches!(answer, Changing::Done(_) | Changing::Missing), "{case}: {answer:?}");
                assert!(!place.at("worktrees/old").exists(), "{case}: its files are gone");
                done(repo.create(&name("old"), Isolation::Exclusive).expect("the name is free").value);
                let token = take(&worktree(repo, "old"), 1);
                assert!(token > GIVEN, "{case}: its name knows {GIVEN}: {token}");
            },
        );
    }
}

#[test]
fn a_creation_that_was_killed_can_be_said_again() {
    for fault in [Fault::DieBefore, Fault::DieAfter] {
        at_each_call(
            fault,
            |repo| {
                let _ = repo.create(&name("new"), Isolation::Exclusive);
                // More calls, so that each of the creation's is one at which it is killed.
                let _ = repo.create(&name("newer"), Isolation::Exclusive);
            },
            |place, repo, case| {
                let answer = repo.create(&name("new"), Isolation::Exclusive).expect("it can be said again").value;
                assert!(matches!(answer, Changing::Done(_) | Changing::Exists(_)), "{case}: {answer:?}");
                assert!(place.at("worktrees/new").is_dir(), "{case}");
                take(&repo.worktree(&name("new")).expect("it can be read").expect("it is there"), 1);
            },
        );
    }
}
