//! A `Claimed` and a `Leased` in a forked child are its parent's: dropping or releasing them there
//! does nothing. A program of its own, because only one without a test harness knows which threads
//! it has when it forks.

use std::time::Duration;

use lokt::ledger::{ClaimError, Ledger};
use lokt::worktree::{LeaseError, Repository};
use lokt_testkit::swarm::pause;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

/// How long the claim and the lease last without renewals.
const TTL: Duration = Duration::from_secs(6);
/// Longer than that.
const LONG: Duration = Duration::from_millis(6_500);

/// Does it in a forked child, which must end well.
#[expect(unsafe_code, reason = "there is no safe way to fork, and what a fork does is what is tried")]
fn in_a_child(act: impl FnOnce()) {
    // SAFETY: the child does what is tried, which must do nothing, and ends without running
    // anything else.
    let status = match unsafe { fork() }.expect("there is room for a process") {
        ForkResult::Parent { child } => waitpid(child, None).expect("it is our child"),
        ForkResult::Child => {
            act();
            // SAFETY: it ends the child, and runs none of the parent's code on the way.
            unsafe { nix::libc::_exit(0) }
        }
    };
    assert!(matches!(status, WaitStatus::Exited(_, 0)), "the child ends well: {status:?}");
}

fn main() {
    let dir = tempfile::tempdir().expect("there is room for a temp directory");
    let ledger = Ledger::create(dir.path().join("ledger")).expect("a temp directory is writable");
    std::fs::create_dir(dir.path().join("repository")).expect("a temp directory is writable");
    let repository = Repository::create(dir.path().join("repository")).expect("a temp directory is writable");
    let worktree = repository.worktree("main").expect("each repository has one");
    for releases in [false, true] {
        let claimed = ledger.claim("1").ttl(TTL).try_acquire().expect("it is free");
        let leased = worktree.lease().ttl(TTL).try_acquire().expect("it is free");
        let (mut claimed, mut leased) = (Some(claimed), Some(leased));
        in_a_child(|| match (claimed.take(), leased.take()) {
            (Some(claimed), Some(leased)) if releases => {
                drop(claimed.release());
                drop(leased.release());
            }
            both => drop(both),
        });
        pause(LONG);
        let refused = ledger.claim("1").try_acquire();
        assert!(matches!(refused, Err(ClaimError::Held { .. })), "the parent renews its claim: {refused:?}");
        let refused = worktree.lease().try_acquire();
        assert!(matches!(refused, Err(LeaseError::Held { .. })), "the parent renews its lease: {refused:?}");
        let both = "what a child dropped is still the parent's";
        claimed.expect(both).release().expect("the parent has held it to the end");
        leased.expect(both).release().expect("the parent has held it to the end");
    }
}
