//! Whoever renames or removes a worktree and is stopped for longer than a lease lasts, at any call: nobody's files go who got the lease.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lokt_core::lease::config::Isolation;
use lokt_sys::disk::Disk;
use lokt_sys::os_disk::OsDisk;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::hook_disk::HookDisk;
use lokt_testkit::machine::FakeMachine;
use lokt_worktree::lease::{Keeping, LeaseTerms, Leasing, TokenCheck};
use lokt_worktree::repo::Repository;

use crate::place::{Place, done, me, name, session, take, terms, worktree};

/// Longer than a lease lasts, with all doubts.
const LONG_SECS: u64 = 40;

fn open(place: &Place, machine: &Arc<FakeMachine>, wrap: impl Fn(Arc<dyn Disk>) -> Arc<dyn Disk>) -> Repository {
    let disk = Arc::new(OsDisk::open_as(&place.at(".jvs"), 0o755).expect("it opens"));
    let audit = Arc::new(OsDisk::open_as(&place.at(".jvs/audit"), 0o755).expect("it opens"));
    Repository::on(&place.top(), wrap(disk), audit, machine.clone(), me()).expect("it opens")
}

/// Stops `work` before each of its calls in turn. Meanwhile somebody takes the lease, and puts a file there.
fn stopped_at_each_call(work: impl Fn(&Repository)) {
    let (mut granted, mut refused) = (0, 0);
    for at in 0.. {
        let (place, _) = Place::in_memory();
        let machine = Arc::new(FakeMachine::new());
        let repo = open(&place, &machine, |disk| disk);
        done(repo.create(&name("w"), Isolation::Exclusive).expect("it can be made").value);
        let other = worktree(&repo, "w");
        let (calls, is_granted, mine) =
            (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)), place.at("worktrees/w/mine"));
        let (clock, theirs, file) = (machine.clone(), is_granted.clone(), mine.clone());
        let calls = Arc::new(calls);
        let counted = calls.clone();
        let hook = Arc::new(move |_: &str, _: &str| {
            if counted.fetch_add(1, Ordering::SeqCst) == at {
                clock.advance_secs(LONG_SECS);
                let own = LeaseTerms { purpose: Some("mine".into()), ..terms() };
                let asked = other.acquire(&session(2), &own, &mut WaitPolicy::none());
                if let Ok(Leasing::Granted(_)) = asked.map(|said| said.value) {
                    theirs.store(true, Ordering::SeqCst);
                    fs::write(&file, "x").expect("the directory is theirs");
                }
            }
            Ok(())
        });
        let slow = open(&place, &machine, |disk| Arc::new(HookDisk::new(disk, hook.clone())));
        calls.store(0, Ordering::SeqCst);
        work(&slow);
        if is_granted.load(Ordering::SeqCst) {
            granted += 1;
            assert!(mine.exists(), "stopped before call {at}: the files are there");
            let status = worktree(&repo, "w").status(Some(&session(2))).expect("it can be asked");
            assert!(status.lives && status.mine, "stopped before call {at}: the lease is theirs");
            let token = status.record.and_then(|record| record.token).expect("it has one").get();
            let check = worktree(&repo, "w").check_token(token).expect("it can be asked");
            assert!(matches!(check, TokenCheck::Current(_)), "stopped before call {at}");
            assert!(
                repo.worktree(&name("x")).expect("it can be read").is_none(),
                "stopped before call {at}: it has its name"
            );
        } else {
            refused += 1;
        }
        if calls.load(Ordering::SeqCst) <= at {
            assert!(granted > 10 && refused > 10, "both happened: {granted} and {refused}");
            return;
        }
    }
}

#[test]
fn a_removal_that_was_stopped_removes_nothing_of_the_next_holder() {
    stopped_at_each_call(|repo| drop(repo.remove(&name("w"), true)));
}

#[test]
fn a_rename_that_was_stopped_leaves_the_next_holder_where_it_is() {
    stopped_at_each_call(|repo| drop(repo.rename(&name("w"), &name("x"))));
}

#[test]
fn a_chain_that_was_moved_away_is_nobodys() {
    let (place, repo) = Place::in_memory();
    let (holder, machine) = (worktree(&repo, "main"), Arc::new(FakeMachine::new()));
    let token = take(&holder, 1);
    fs::rename(place.at(".jvs/locks"), place.at(".jvs/old")).expect("it is there");
    let other = open(&place, &machine, |disk| disk);
    let next = take(&worktree(&other, "main"), 2);
    assert!(next > token, "its numbers are used: {next} after {token}");
    let renewed = holder.renew(&session(1)).expect("it can be asked").value;
    assert!(matches!(renewed, Keeping::Denied(_)), "whoever was there before sees what is there now: {renewed:?}");
}

#[test]
fn a_rename_that_fails_is_not_done_later_by_somebody_else() {
    let (place, repo) = Place::in_memory();
    done(repo.create(&name("w"), Isolation::Exclusive).expect("it can be made").value);
    fs::write(place.at("worktrees/w/file"), "x").expect("a file");
    let before = fs::read_to_string(place.at(".jvs/worktrees/w/config.json")).expect("it is there");
    let machine = Arc::new(FakeMachine::new());
    let hook = Arc::new(|call: &str, path: &str| {
        let is_move = call == "rename_new" && path == "worktrees/w";
        if is_move { Err(std::io::Error::from_raw_os_error(16)) } else { Ok(()) }
    });
    let failing = open(&place, &machine, |disk| Arc::new(HookDisk::new(disk, hook.clone())));
    failing.rename(&name("w"), &name("x")).expect_err("it is busy");
    let after = fs::read_to_string(place.at(".jvs/worktrees/w/config.json")).expect("it is there");
    assert_eq!(after, before, "nothing is said any more");
    assert!(
        place.at("worktrees/w/file").exists() && !place.at("worktrees/x").exists(),
        "its files are where they were"
    );
    done(repo.create(&name("x"), Isolation::Exclusive).expect("the name is free").value);
    take(&worktree(&repo, "w"), 1);
}
