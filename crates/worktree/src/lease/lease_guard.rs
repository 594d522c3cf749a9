//! Work under the lease of a worktree, which is renewed during the work and released afterwards: a
//! command, which is ended before the lease expires, or a part of this program.

use std::fmt;
use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use lokt_core::denial::{Denial, Holder};
use lokt_core::guard::{Ended, Guard, GuardConfig, OnLost, Outcome, terminated_after_ms};
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::record::{HolderId, Record};
use lokt_core::lease::session::Session;
use lokt_core::pulse::{Profile, Pulse};

use super::presence::Presence;
use crate::lease::commit::AuditEntry;
use crate::lease::{
    Bearer, Keeping, Lease, LeaseRefusal, LeaseState, LeaseTerms, Leasing, Releasing, Taking, Worktree,
};
use lokt_guard::{
    ClockKind, Finished, Guardable, LOOK_MS, Notice, Renewable, Renewal, Renewer, Shell, drive, interrupted,
};
use lokt_sys::error::Error;
use lokt_sys::mortal;
use lokt_sys::signals::SignalQueue;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_sys::warnings::WithWarnings;

/// Maximum time for a release. After that, the lease is left to end automatically: without our
/// process it counts as dead.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);

/// Result of asking for a lease to run a command under.
#[derive(Debug)]
pub enum LeaseGuarding {
    /// The lease is ours: run something.
    Granted(Box<LeaseGuard>),
    /// The lease was refused.
    Denied(Box<LeaseRefusal>),
    /// The lease was not acquired, because the wait was interrupted.
    Interrupted,
}

/// A lease under which a command or a part of this program can run. It is released when dropped.
pub struct LeaseGuard {
    lease: Box<Lease>,
    /// `None` once it has been passed to the shell.
    held: Option<Arc<Held>>,
}

/// A lease that this process holds.
struct Held {
    worktree: Worktree,
    session: Session,
    token: Option<u64>,
    pulse: Presence,
    /// The content of the pulse.
    profile: Pulse,
    /// The lease as granted, or last renewed.
    last: Mutex<Lease>,
}

impl LeaseGuard {
    /// Acquires the lease of `worktree` for a session of this process. The lease is bound to the
    /// process and its command.
    pub fn acquire(
        worktree: &Worktree,
        session: Session,
        policy: LeasePolicy,
        purpose: Option<String>,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<WithWarnings<LeaseGuarding>, Error> {
        let profile = Profile { reason: purpose.clone(), holds: String::new() };
        let profile = profile.pulse(worktree.name(), &worktree.repo.me, &worktree.repo.machine.now());
        let pulse = Presence::create(worktree, &profile.encode())?;
        let bearer = Some(Bearer { pulse: pulse.reference() });
        let terms = LeaseTerms { policy, purpose, taking: Taking::FreeOrOver, bearer };
        let asked = worktree.acquire(&session, &terms, patience);
        let (value, warnings) = match asked {
            Ok(WithWarnings { value, warnings }) => (value, warnings),
            Err(error) => {
                pulse.end();
                return Err(error);
            }
        };
        let value = match value {
            Leasing::Granted(lease) => {
                pulse.tidy(worktree);
                let token = lease.record.token.map(lokt_core::hold::Fence::get);
                let held = Some(Arc::new(Held {
                    worktree: worktree.clone(),
                    session,
                    token,
                    pulse,
                    profile,
                    last: Mutex::new((*lease).clone()),
                }));
                LeaseGuarding::Granted(Box::new(Self { lease, held }))
            }
            Leasing::Denied(refusal) => {
                pulse.end();
                LeaseGuarding::Denied(refusal)
            }
            Leasing::Interrupted => {
                pulse.end();
                LeaseGuarding::Interrupted
            }
        };
        Ok(WithWarnings { value, warnings })
    }

    /// Returns the lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Runs `command` and releases the lease when it has ended. An error is one of starting it,
    /// unless it [had started](lokt_guard::had_started). The command is killed when this process
    /// ends, for any reason. It runs only after its pid was recorded in the pulse.
    pub fn run(
        mut self,
        command: &mut Command,
        on_lost: OnLost,
        inbox: &mut SignalQueue,
        tell: &mut dyn FnMut(&Notice<'_>),
    ) -> io::Result<Finished> {
        let held = self.held();
        command.env("LOKT_LEASE_WORKTREE", held.worktree.name().as_str());
        command.env("LOKT_LEASE_TOKEN", self.lease.token.to_string());
        command.env("LOKT_LEASE_REPO", held.worktree.repository().top());
        command.env("LOKT_LEASE_REPO_ID", held.worktree.repository().id());
        if let Some(finished) = interrupted(inbox) {
            return Ok(finished);
        }
        let own_group = on_lost == OnLost::Stop;
        let (machine, clock) = (Arc::clone(&held.worktree.repo.machine), ClockKind::BootTime);
        let (began_ms, policy) = (self.lease.began.boottime_ms, self.lease.record.policy);
        let inherited = held.pulse.inheritable()?;
        let told_at = began_ms.saturating_add(terminated_after_ms(policy.lease_ms));
        let patience = Duration::from_millis(told_at.saturating_sub(clock.now_ms(&*machine)));
        let command = mortal::spawn(
            command,
            own_group,
            inbox.before(),
            (held.pulse.descriptor()?, held.profile.stencil()),
            patience,
        )?;
        drop(inherited);
        let guard = guard_of(policy, on_lost, began_ms, clock.now_ms(&*machine));
        let kept: Option<Box<dyn Guardable>> = self.held.take().map(|held| Box::new(RunningLease(held)) as _);
        let mut shell = Shell::new(machine, vec![kept], command.pid, own_group).on_clock(clock);
        shell = shell.waking_in_time();
        shell.pass_foreground();
        drive(shell, guard, inbox, tell)
    }

    /// Renews the lease in a thread until the renewer is dropped. A loss is reported once, with the
    /// new holder. Drop the renewer before this guard: no renewal may come after the release.
    pub fn renewer(&self, tell: impl FnOnce(Option<Box<Holder>>) + Send + 'static) -> Renewer {
        let held = self.held();
        let machine = Arc::clone(&held.worktree.repo.machine);
        let now_ms = move || ClockKind::BootTime.now_ms(&*machine);
        let (began_ms, policy) = (self.lease.began.boottime_ms, self.lease.record.policy);
        let guard = guard_of(policy, OnLost::Warn, began_ms, now_ms());
        Renewer::start(Arc::clone(held) as _, guard, now_ms, tell)
    }

    /// Renews the lease now.
    pub fn renew(&self) -> Result<WithWarnings<Keeping>, Error> {
        self.held().prolong()
    }

    /// Checks whether the lease is still ours.
    pub fn look(&self) -> Outcome {
        self.held().look()
    }

    /// Releases the lease. After an error it counts as that of a dead process.
    pub fn release(mut self) -> Result<WithWarnings<Releasing>, Error> {
        let Some(held) = self.held.take() else { unreachable!("it is released once") };
        held.end()
    }

    fn held(&self) -> &Arc<Held> {
        let Some(held) = &self.held else { unreachable!("running and releasing take the guard away") };
        held
    }
}

impl fmt::Debug for LeaseGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseGuard").field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// Returns the rules by which a lease that began at `began_ms` is renewed.
fn guard_of(policy: LeasePolicy, on_lost: OnLost, began_ms: u64, now_ms: u64) -> Guard {
    let config = GuardConfig { ttl_sec: None, on_lost, until_all: false, look_ms: Some(LOOK_MS) };
    let guard = Guard::new(config, &[began_ms], now_ms);
    guard.stopping_ahead(policy.lease_ms, &[began_ms]).renewing_every(interval_ms(policy))
}

/// Returns the renewal interval. Two renewals may fail before a command is told to end, whatever
/// the policy says.
fn interval_ms(policy: LeasePolicy) -> u64 {
    policy.renew_ms.min(policy.lease_ms / 3).max(1)
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.give_back();
        }
    }
}

impl Held {
    /// Releases it, and ends the pulse.
    fn end(&self) -> Result<WithWarnings<Releasing>, Error> {
        let released = self.worktree.release(&self.session);
        match &released {
            Ok(_) => self.pulse.end(),
            // The record still names the pulse; without its lock it is that of a dead process.
            Err(_) => self.pulse.let_go(),
        }
        released
    }

    /// Releases it, and returns the outcome.
    fn give_back(&self) -> WithWarnings<Outcome> {
        match self.end() {
            Ok(WithWarnings { value, warnings }) => {
                let value = match value {
                    Releasing::Released(_) => Outcome::Kept { late_ms: None },
                    Releasing::Denied(refusal) => self.refused(&refusal),
                };
                WithWarnings { value, warnings }
            }
            Err(error) => WithWarnings { value: Outcome::Failed(error.to_string()), warnings: Vec::new() },
        }
    }

    /// Renews it, by this process's own clock.
    fn prolong(&self) -> Result<WithWarnings<Keeping>, Error> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kept = self.worktree.renew_after(&self.session, Some(&last))?;
        if let Keeping::Renewed(lease) = &kept.value {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (**lease).clone();
        }
        Ok(kept)
    }

    /// Writes into the repository's log that the lease was lost under its command.
    fn note_loss(&self) {
        let mut deed = AuditEntry::new("lease_lost", self.worktree.repo.machine.now());
        (deed.token, deed.session_id) = (self.token, Some(self.session.id.clone()));
        self.worktree.log().note(deed);
    }

    /// Returns what a refusal means to the former holder.
    fn refused(&self, refusal: &LeaseRefusal) -> Outcome {
        let holder = refusal.denial.holder();
        let ours = refusal.record.as_ref().is_some_and(|record| self.is_ours(record));
        match &refusal.denial {
            // It has ended, and no other session has acquired it since.
            Denial::Over(_) | Denial::Lost(_) if ours => Outcome::Kept { late_ms: Some(0) },
            _ => self.lost(holder, refusal.record.as_ref()),
        }
    }

    /// Returns the loss: another session holds it, or none does.
    fn lost(&self, holder: Option<&Holder>, record: Option<&Record>) -> Outcome {
        let Some((holder, record)) = holder.zip(record).filter(|(_, record)| !self.is_ours(record)) else {
            return Outcome::Lost(None);
        };
        let mut holder = holder.clone();
        // For decisions, an owner is a secret; for display, it is the user.
        holder.hold.owner = HolderId::parse(&record.holder_id).user;
        Outcome::Lost(Some(Box::new(holder)))
    }

    fn is_ours(&self, record: &Record) -> bool {
        record.session_id == self.session.id && record.token.map(lokt_core::hold::Fence::get) == self.token
    }

    /// Runs a job on a lease whose command has ended. `None`: it takes too long; our caller needn't
    /// wait for a disk that hangs.
    fn in_time<T: Send + 'static>(self: &Arc<Self>, job: fn(&Self) -> T) -> Option<T> {
        let (send, done) = mpsc::channel();
        let held = Arc::clone(self);
        match thread::Builder::new().spawn(move || send.send(job(&held))) {
            Ok(_) => done.recv_timeout(RELEASE_TIME_MAX).ok(),
            Err(_) => Some(job(self)),
        }
    }
}

/// A lease while its command runs.
struct RunningLease(Arc<Held>);

impl Guardable for RunningLease {
    fn minded(&self) -> Arc<dyn Renewable> {
        Arc::clone(&self.0) as _
    }

    fn release(self: Box<Self>, _ended: Option<Ended>) -> WithWarnings<Outcome> {
        let too_long = || WithWarnings { value: Outcome::Failed("it takes too long".to_owned()), warnings: Vec::new() };
        self.0.in_time(Held::give_back).unwrap_or_else(too_long)
    }

    fn leave(self: Box<Self>) {
        self.0.in_time(|held| {
            held.note_loss();
            held.give_back()
        });
    }
}

impl Renewable for Held {
    fn name(&self) -> &str {
        self.worktree.name().as_str()
    }

    fn renew(&self) -> WithWarnings<Renewal> {
        let began_ms = self.worktree.repo.machine.now().boottime_ms;
        let (outcome, warnings) = match self.prolong() {
            Ok(WithWarnings { value: Keeping::Renewed(lease), warnings }) => {
                let ours = self.is_ours(&lease.record);
                (if ours { Outcome::Kept { late_ms: None } } else { Outcome::Lost(None) }, warnings)
            }
            Ok(WithWarnings { value: Keeping::Denied(refusal), warnings }) => (self.refused(&refusal), warnings),
            Err(error) => (Outcome::Failed(error.to_string()), Vec::new()),
        };
        WithWarnings { value: Renewal { began_ms, outcome }, warnings }
    }

    fn look(&self) -> Outcome {
        let status = match self.worktree.status(Some(&self.session)) {
            Ok(status) => status,
            Err(error) => return Outcome::Failed(error.to_string()),
        };
        match (&status.record, status.state) {
            (Some(record), _) if self.is_ours(record) => Outcome::Kept { late_ms: None },
            (_, LeaseState::Corrupt) => Outcome::Failed("what is there can't be read".to_owned()),
            (record, _) => self.lost(status.holder.as_ref(), record.as_ref()),
        }
    }

    fn looks_aside(&self) -> bool {
        true
    }
}
