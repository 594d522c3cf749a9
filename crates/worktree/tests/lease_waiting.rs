//! Several want a lease and wait for it: each gets it, one after the other, whatever happens to the files meanwhile.

#![expect(clippy::disallowed_methods, reason = "tests make and look at files of their own")]

mod lease_world;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lease_world::{OVER_SECS, World, take, terms};
use lokt_core::lease::session::Session;
use lokt_sys::wait_policy::{Timeout, WaitPolicy, Waiting};
use lokt_worktree::lease::{Keeping, Leasing, Releasing, Worktree};
use rustix::fs::{FlockOperation, flock};

const LONG: Timeout = Timeout::After(Duration::from_secs(3600));

/// Waits for the lease: its token.
fn wait(worktree: &Worktree, session: &Session, patience: &mut WaitPolicy<'_>) -> u64 {
    match worktree.acquire(session, &terms(), patience).expect("no accident").value {
        Leasing::Granted(lease) => lease.token.get(),
        other => panic!("there was time: {other:?}"),
    }
}

fn release(worktree: &Worktree, session: &Session) {
    let released = worktree.release(session).expect("no accident").value;
    assert!(matches!(released, Releasing::Released(_)), "{released:?}");
}

/// Somebody has the lease, and another one waits for it while `meanwhile` happens: the tokens of both.
fn while_somebody_waits(world: &World, meanwhile: impl FnOnce(&Worktree, &Session, &Path)) -> [u64; 2] {
    let (first, second) = (world.worktree(world.disk(), "first"), world.worktree(world.disk(), "second"));
    let (ours, theirs) = (world.session(), world.session());
    let before = take(&first, &ours);
    let (send, waits) = mpsc::channel();
    let after = thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut tell = |_: &Waiting<'_>| send.send(()).expect("it is heard");
            wait(&second, &theirs, &mut WaitPolicy { timeout: LONG, tell: Some(&mut tell), alarm: None })
        });
        waits.recv().expect("it is refused first");
        meanwhile(&first, &ours, &world.jvs());
        waiter.join().expect("it gets the lease")
    });
    [before, after]
}

#[test]
fn who_waits_gets_what_is_given_back_after_it_was_renewed() {
    for renewals in 0..8 {
        let world = World::new();
        let [before, after] = while_somebody_waits(&world, |holder, session, _| {
            for _ in 0..renewals {
                let kept = holder.renew(session).expect("no accident").value;
                assert!(matches!(kept, Keeping::Renewed(_)), "{kept:?}");
            }
            release(holder, session);
        });
        assert_eq!(after, before + renewals + 2, "each renewal and the release have a number");
    }
}

#[test]
fn who_waits_notices_that_the_chain_was_deleted_or_moved_away() {
    let deeds: [fn(&Path); 4] = [
        |jvs| std::fs::remove_dir_all(jvs.join("locks")).expect("rm -rf"),
        |jvs| std::fs::rename(jvs.join("locks"), jvs.join("old")).expect("mv"),
        |jvs| {
            std::fs::remove_file(jvs.join("locks/main.lock")).expect("rm");
            std::fs::remove_dir_all(jvs.join("locks/main.lock.d")).expect("rm -rf");
        },
        |jvs| {
            std::fs::remove_file(jvs.join("locks/main.lock")).expect("rm");
            std::fs::rename(jvs.join("locks/main.lock.d"), jvs.join("old")).expect("mv");
        },
    ];
    for deed in deeds {
        let world = World::new();
        let [before, after] = while_somebody_waits(&world, |_, _, jvs| deed(jvs));
        assert!(after > before, "token {after} after {before}");
    }
}

#[test]
fn who_waits_goes_by_the_clock_when_nothing_changes() {
    let world = World::new();
    let [before, after] = while_somebody_waits(&world, |_, _, _| world.machine.advance_secs(OVER_SECS));
    assert_eq!(after, before + 1);
}

#[test]
fn who_was_stopped_with_the_mutex_keeps_nobody_waiting_for_long() {
    let world = World::new();
    let worktree = world.worktree(world.disk(), "first");
    let chain = std::fs::File::open(world.jvs().join("locks/main.lock.d")).expect("it is born");
    flock(&chain, FlockOperation::LockExclusive).expect("nobody has it");
    wait(&worktree, &world.session(), &mut WaitPolicy { timeout: LONG, ..WaitPolicy::default() });
}

#[test]
fn many_who_wait_get_it_one_after_the_other() {
    let world = World::new();
    let (inside, last) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for name in ["a", "b", "c", "d", "e", "f"] {
            let (worktree, session) = (world.worktree(world.disk(), name), world.session());
            let (inside, last) = (&inside, &last);
            scope.spawn(move || {
                for _ in 0..25 {
                    let token = wait(&worktree, &session, &mut WaitPolicy { timeout: LONG, ..WaitPolicy::default() });
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "somebody else has it");
                    assert!(last.swap(token, Ordering::SeqCst) < token, "tokens grow");
                    inside.fetch_sub(1, Ordering::SeqCst);
                    release(&worktree, &session);
                }
            });
        }
    });
}
