//! The authority for a long operation: our own lease, which is renewed during the work, a caller's
//! token, or none in a shared worktree.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use lokt_core::guard::{Guard, GuardConfig, OnLost, Outcome};
use lokt_core::lease::config::Isolation;
use lokt_core::lease::session::Session;

use super::answers::Acting;
use crate::lease::{Keeping, Lease, LeaseRefusal, TokenCheck, Worktree};
use crate::repo::{Asked, Leased};
use lokt_guard::{ClockKind, Renewable, Renewal, keep_renewed};
use lokt_sys::error::Error;
use lokt_sys::stopper::look_after;
use lokt_sys::warnings::{Warning, WithWarnings};

/// A renewal is due after one part in this many of the lease: two may fail before it ends.
const RENEWED_AT: u64 = 3;
/// Minimum time between renewals, in milliseconds.
const RENEW_MS_MIN: u64 = 10;

/// The lease that work is done under.
pub(super) struct Authority<'a> {
    worktree: &'a Worktree,
    pub(super) token: Option<u64>,
    /// The session that may renew it, and the lease as it was last.
    kept: Option<(Session, Lease)>,
    /// The lease that was acquired for this work alone.
    leased: Option<Leased<'a>>,
}

impl<'a> Authority<'a> {
    /// Checks whether `acting` may change the worktree. `what_for` is shown to processes that ask
    /// who holds it.
    pub(super) fn get(
        worktree: &'a Worktree,
        acting: Acting<'_>,
        what_for: &str,
    ) -> Result<Result<Self, Box<LeaseRefusal>>, Error> {
        let nobody = Self { worktree, token: None, kept: None, leased: None };
        if worktree.isolation() == Isolation::Shared {
            if let Some(refusal) = worktree.acquirer().held_by_others()? {
                return Ok(Err(Box::new(refusal)));
            }
            return Ok(Ok(nobody));
        }
        match acting {
            // A renewal also checks that the lease is ours, and there is enough time to begin with.
            Acting::Session(session) => Ok(match worktree.keep(session, None)?.0 {
                Keeping::Denied(refusal) => Err(refusal),
                Keeping::Renewed(lease) => {
                    let token = Some(lease.token.get());
                    Ok(Self { token, kept: Some((session.clone(), *lease)), ..nobody })
                }
            }),
            Acting::Token(token) => Ok(match worktree.observer().check(token)? {
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

    /// Does the work while the lease is renewed. If the lease is lost, `halt` is set: the work is
    /// useless.
    pub(super) fn during<T>(&self, halt: &AtomicBool, work: impl FnOnce() -> T) -> T {
        let Some((session, lease)) = &self.kept else { return work() };
        let machine = &*self.worktree.repo.machine;
        let now_ms = || ClockKind::BootTime.now_ms(machine);
        let (began_ms, lease_ms) = (lease.began.boottime_ms, lease.record.policy.lease_ms);
        let config = GuardConfig { ttl_sec: None, on_lost: OnLost::Warn, until_all: false, look_ms: None };
        let guard = Guard::new(config, &[began_ms], now_ms()).stopping_ahead(lease_ms, &[began_ms]);
        let guard = guard.renewing_every((lease_ms / RENEWED_AT).max(RENEW_MS_MIN));
        let last = Mutex::new(lease.clone());
        let renewed = WorkLease { worktree: self.worktree, session, last };
        let tell = |_| halt.store(true, Ordering::Relaxed);
        look_after(|stopper| keep_renewed(&renewed, guard, &now_ms, stopper, tell), work)
    }

    /// Releases the lease that was acquired for this work alone.
    pub(super) fn end(self) -> Vec<Warning> {
        self.leased.map(Leased::release).unwrap_or_default()
    }
}

/// A lease that is renewed while work is done under it.
struct WorkLease<'a> {
    worktree: &'a Worktree,
    session: &'a Session,
    /// The lease as granted, or last renewed.
    last: Mutex<Lease>,
}

impl Renewable for WorkLease<'_> {
    fn name(&self) -> &str {
        self.worktree.name.as_str()
    }

    fn renew(&self) -> WithWarnings<Renewal> {
        let began_ms = self.worktree.repo.machine.now().boottime_ms;
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let outcome = match self.worktree.keep(self.session, Some(&last)).map(|kept| kept.0) {
            Ok(Keeping::Renewed(longer)) => {
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = *longer;
                Outcome::Kept { late_ms: None }
            }
            Ok(Keeping::Denied(_)) => Outcome::Lost(None),
            Err(error) => Outcome::Failed(error.to_string()),
        };
        WithWarnings { value: Renewal { began_ms, outcome }, warnings: Vec::new() }
    }

    /// Checks nothing: the next renewal detects a loss, and a link under a lost lease is refused.
    fn look(&self) -> Outcome {
        Outcome::Kept { late_ms: None }
    }
}
