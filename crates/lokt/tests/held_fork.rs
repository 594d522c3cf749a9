//! A `Held` in a forked child is its parent's: dropping or releasing it there does nothing. A program of its own, because only one
//! without a test harness knows which threads it has when it forks.

use std::time::Duration;

use lokt::{LockError, Lokt};
use lokt_testkit::swarm::pause;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

/// Does it in a forked child. Says how that ended.
#[expect(unsafe_code, reason = "there is no safe way to fork, and what a fork does is what is tried")]
fn in_a_child(act: impl FnOnce()) -> WaitStatus {
    // SAFETY: the child does what is tried, which must do nothing, and ends without running anything else.
    match unsafe { fork() }.expect("there is room for a process") {
        ForkResult::Parent { child } => waitpid(child, None).expect("it is our child"),
        ForkResult::Child => {
            act();
            // SAFETY: it ends the child, and runs none of the parent's code on the way.
            unsafe { nix::libc::_exit(0) }
        }
    }
}

fn main() {
    let dir = tempfile::tempdir().expect("there is room for a temp directory");
    let root = dir.path().join("root");
    let alice = Lokt::open(&root).expect("a temp directory is writable").owner("alice");
    let bob = Lokt::open(&root).expect("it is there").owner("bob");
    for what in ["dropping", "releasing"] {
        for ttl in [None, Some(Duration::from_secs(6))] {
            for listens in [false, true] {
                let request = alice.guard("x");
                let request = if let Some(ttl) = ttl { request.ttl(ttl) } else { request };
                let mut held = request.try_acquire().expect("it is free");
                let losses = listens.then(|| held.losses());
                let mut held = Some(held);
                let status = in_a_child(|| match (what, held.take()) {
                    ("releasing", Some(held)) => drop(held.release()),
                    (_, held) => drop(held),
                });
                assert!(matches!(status, WaitStatus::Exited(_, 0)), "{what} in a child ends well: {status:?}");
                let held = held.expect("the parent's is the parent's");
                assert!(held.check().is_ok(), "after {what} it in a child, the parent still holds it");
                // The record alone could be stale; the pulse must beat too, and the lease be renewed.
                pause(Duration::from_millis(if ttl.is_some() { 6_500 } else { 0 }));
                let refused = bob.guard("x").try_acquire();
                assert!(matches!(refused, Err(LockError::Denied(_))), "after {what} it in a child, others are refused");
                drop(losses);
                held.release().expect("the parent gives it back");
                drop(bob.guard("x").try_acquire().expect("then it is free"));
            }
        }
    }
}
