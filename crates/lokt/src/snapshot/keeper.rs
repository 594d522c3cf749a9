//! Under what a long piece of work is done: a lease that gets more time while it goes on, a token that somebody else sees to, or nothing,
//! where everybody may write.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lokt_core::lease::config::Isolation;
use lokt_core::lease::session::Session;

use super::answers::Acting;
use crate::error::Error;
use crate::lease::{Keeping, Lease, LeaseRefusal, TokenCheck, Worktree};
use crate::repo::{Asked, Leased};
use crate::sys::stopper::{Stopper, look_after};

/// A renewal is due when this part of the lease has passed.
const RENEWED_AT: u64 = 3;

/// The lease that work is done under.
pub(super) struct Mandate<'a> {
    worktree: &'a Worktree,
    pub(super) token: Option<u64>,
    /// Who may renew it, and the lease as it was last.
    kept: Option<(Session, Lease)>,
    /// Taken for this work alone.
    leased: Option<Leased<'a>>,
}

impl<'a> Mandate<'a> {
    /// Finds out whether `acting` may change the worktree; what for is for those who ask who holds it.
    pub(super) fn get(
        worktree: &'a Worktree,
        acting: Acting<'_>,
        what_for: &str,
    ) -> Result<Result<Self, Box<LeaseRefusal>>, Error> {
        let nobody = Self { worktree, token: None, kept: None, leased: None };
        if worktree.isolation() == Isolation::Shared {
            if let Some(refusal) = worktree.held_by_others()? {
                return Ok(Err(Box::new(refusal)));
            }
            return Ok(Ok(nobody));
        }
        match acting {
            // Asking for more time is asking whether it is ours, and there is time enough to begin with.
            Acting::Session(session) => Ok(match worktree.keep(session, None)?.0 {
                Keeping::Denied(refusal) => Err(refusal),
                Keeping::Renewed(lease) => {
                    let token = Some(lease.token.get());
                    Ok(Self { token, kept: Some((session.clone(), *lease)), ..nobody })
                }
            }),
            Acting::Token(token) => Ok(match worktree.check(token)? {
                TokenCheck::Denied(refusal) => Err(refusal),
                TokenCheck::Current(_) => Ok(Self { token: Some(token), ..nobody }),
            }),
            Acting::Acquire => Ok(match Leased::take(worktree, what_for, Asked::ByUser)? {
                Err(refusal) => Err(refusal),
                Ok(leased) => {
                    let (token, kept) = (leased.token(), leased.kept());
                    Ok(Self { token, kept, leased: Some(leased), ..nobody })
                }
            }),
        }
    }

    /// Does the work, and sees to it that the lease doesn't end meanwhile. If it is lost, `halt` is told: going on is of no use then.
    pub(super) fn during<T>(&self, halt: &AtomicBool, work: impl FnOnce() -> T) -> T {
        let Some((session, lease)) = &self.kept else { return work() };
        let renew = |stopper: &Stopper| {
            let mut lease = lease.clone();
            while !stopper.stops_within(renewed_after(&lease)) {
                match self.worktree.keep(session, Some(&lease)).map(|kept| kept.0) {
                    Ok(Keeping::Renewed(longer)) => lease = *longer,
                    Ok(Keeping::Denied(_)) => {
                        halt.store(true, Ordering::Relaxed);
                        return;
                    }
                    // Another attempt may have more luck; if not, the link that counts is refused.
                    Err(_) => {}
                }
            }
        };
        look_after(renew, work)
    }

    /// Gives back what was taken for this work alone.
    pub(super) fn end(self) -> Vec<String> {
        self.leased.map(Leased::release).unwrap_or_default()
    }
}

fn renewed_after(lease: &Lease) -> Duration {
    Duration::from_millis((lease.record.policy.lease_ms / RENEWED_AT).max(10))
}
