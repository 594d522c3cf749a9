//! Running a command under the lease of a worktree: renewed while it runs, given back when it has ended, and never run to its end.

use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use lokt_core::denial::{Denial, Holder};
use lokt_core::guard::{Ended, Guard, Manners, OnLost, Outcome, terminated_after_ms};
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::record::{HolderId, Record};
use lokt_core::lease::session::Session;

use super::boottime::BootTime;
use super::kept::{Kept, Minded};
use super::lease_pulse::LeasePulse;
use super::shell::Shell;
use super::{Finished, Notice, drive, interrupted};
use crate::error::Error;
use crate::lease::commit::Deed;
use crate::lease::{
    Bearer, Keeping, Lease, LeaseRefusal, LeaseState, LeaseTerms, Leasing, Releasing, Taking, Worktree,
};
use crate::locks::Said;
use crate::sys::machine::Machine;
use crate::sys::mortal;
use crate::sys::signals::Inbox;
use crate::wait::Patience;

/// A lease that can't be given back within this time is left to end by itself: without our process it counts as dead.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);

/// What came of asking for a lease to run a command under.
pub enum LeaseGuarding {
    /// It is ours: run something.
    Granted(Box<LeaseGuard>),
    /// It is not.
    Denied(Box<LeaseRefusal>),
    /// It is not, because the wait was interrupted.
    Interrupted,
}

/// A lease under which a command can run. Dropped without running one, it is given back.
pub struct LeaseGuard {
    lease: Box<Lease>,
    /// Gone when it is in the shell's hand.
    held: Option<Arc<Held>>,
}

/// A lease of ours.
struct Held {
    worktree: Worktree,
    session: Session,
    /// Which one.
    token: Option<u64>,
    pulse: LeasePulse,
    /// As it was granted, or last renewed.
    last: Mutex<Lease>,
}

impl LeaseGuard {
    /// Asks for the lease of `worktree` for a session of this process, which hangs on it and on its command.
    pub fn acquire(
        worktree: &Worktree,
        session: Session,
        policy: LeasePolicy,
        purpose: Option<String>,
        patience: &mut Patience<'_>,
    ) -> Result<Said<LeaseGuarding>, Error> {
        let pulse = LeasePulse::begin(worktree, purpose.clone())?;
        let bearer = Some(Bearer { pulse: pulse.reference() });
        let terms = LeaseTerms { policy, purpose, taking: Taking::FreeOrOver, bearer };
        let asked = worktree.acquire(&session, &terms, patience);
        let (value, warnings) = match asked {
            Ok(Said { value, warnings }) => (value, warnings),
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
        Ok(Said { value, warnings })
    }

    /// The lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Runs `command` and gives the lease back when it has ended. An error is one of starting it, unless
    /// it [had started](super::had_started). The command is killed when this process ends, for any
    /// reason. It runs only after its pid was recorded in the pulse.
    pub fn run(
        mut self,
        command: &mut Command,
        on_lost: OnLost,
        inbox: &mut Inbox,
        tell: &mut dyn FnMut(&Notice<'_>),
    ) -> io::Result<Finished> {
        let Some(held) = &self.held else { unreachable!("it is run once") };
        command.env("LOKT_LEASE_WORKTREE", held.worktree.name().as_str());
        command.env("LOKT_LEASE_TOKEN", self.lease.token.to_string());
        command.env("LOKT_LEASE_REPO", held.worktree.repository().top());
        command.env("LOKT_LEASE_REPO_ID", held.worktree.repository().id());
        if let Some(finished) = interrupted(inbox) {
            return Ok(finished);
        }
        let own_group = on_lost == OnLost::Stop;
        let machine: Arc<dyn Machine> = Arc::new(BootTime(Arc::clone(&held.worktree.repo.machine)));
        let (began_ms, policy) = (self.lease.began.boottime_ms, self.lease.record.policy);
        let inherited = held.pulse.inheritable()?;
        let told_at = began_ms.saturating_add(terminated_after_ms(policy.lease_ms));
        let patience = Duration::from_millis(told_at.saturating_sub(machine.now().monotonic_ms));
        let command = mortal::spawn(command, own_group, inbox.before(), held.pulse.record()?, patience)?;
        drop(inherited);
        let manners = Manners { ttl_sec: None, on_lost, until_all: false };
        let guard = Guard::new(manners, &[began_ms], machine.now().monotonic_ms);
        let guard = guard.stopping_ahead(policy.lease_ms, &[began_ms]).renewing_every(interval_ms(policy));
        let kept: Option<Box<dyn Kept>> = self.held.take().map(|held| Box::new(held) as _);
        let mut shell = Shell::new(machine, vec![kept], command.pid, own_group).waking_in_time();
        shell.pass_foreground();
        drive(shell, guard, inbox, tell)
    }
}

/// Two renewals may fail before a command is told to end, whatever the policy says.
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
    /// Gives it back.
    fn give_back(&self) -> Said<Outcome> {
        match self.worktree.release(&self.session) {
            Ok(Said { value, warnings }) => {
                self.pulse.end();
                let value = match value {
                    Releasing::Released(_) => Outcome::Kept { late_ms: None },
                    Releasing::Denied(refusal) => self.refused(&refusal),
                };
                Said { value, warnings }
            }
            Err(error) => {
                // The record still names the pulse; without its lock it is that of a dead process.
                self.pulse.let_go();
                Said { value: Outcome::Failed(error.to_string()), warnings: Vec::new() }
            }
        }
    }

    /// Writes into the repository's log that the lease was lost under its command.
    fn note_loss(&self) {
        let mut deed = Deed::new("lease_lost", self.worktree.repo.machine.now());
        (deed.token, deed.session_id) = (self.token, Some(self.session.id.clone()));
        self.worktree.note(deed);
    }

    /// What a refusal means to the one who had it.
    fn refused(&self, refusal: &LeaseRefusal) -> Outcome {
        let holder = refusal.denial.holder();
        let ours = refusal.record.as_ref().is_some_and(|record| self.is_ours(record));
        match &refusal.denial {
            // It has ended, and nobody has taken it since.
            Denial::Over(_) | Denial::Lost(_) if ours => Outcome::Kept { late_ms: Some(0) },
            _ => self.lost(holder, refusal.record.as_ref()),
        }
    }

    /// It is somebody else's, or nobody's.
    fn lost(&self, holder: Option<&Holder>, record: Option<&Record>) -> Outcome {
        let Some((holder, record)) = holder.zip(record).filter(|(_, record)| !self.is_ours(record)) else {
            return Outcome::Lost(None);
        };
        let mut holder = holder.clone();
        // To decide by, an owner is a secret; to show, it is whoever that is.
        holder.hold.owner = HolderId::parse(&record.holder_id).user;
        Outcome::Lost(Some(Box::new(holder)))
    }

    fn is_ours(&self, record: &Record) -> bool {
        record.session_id == self.session.id && record.token.map(lokt_core::hold::Fence::get) == self.token
    }

    /// Does something about a lease whose command has ended. `None`: it takes too long, and whoever waits for us needn't wait for a
    /// disk that hangs.
    fn in_time<T: Send + 'static>(self: &Arc<Self>, job: fn(&Self) -> T) -> Option<T> {
        let (send, done) = mpsc::channel();
        let held = Arc::clone(self);
        match thread::Builder::new().spawn(move || send.send(job(&held))) {
            Ok(_) => done.recv_timeout(RELEASE_TIME_MAX).ok(),
            Err(_) => Some(job(self)),
        }
    }
}

impl Kept for Arc<Held> {
    fn minded(&self) -> Arc<dyn Minded> {
        Arc::clone(self) as _
    }

    fn release(self: Box<Self>, _ended: Option<Ended>) -> Said<Outcome> {
        let too_long = || Said { value: Outcome::Failed("it takes too long".to_owned()), warnings: Vec::new() };
        self.in_time(Held::give_back).unwrap_or_else(too_long)
    }

    fn leave(self: Box<Self>) {
        self.in_time(|held| {
            held.note_loss();
            held.give_back()
        });
    }
}

impl Minded for Held {
    fn name(&self) -> &str {
        self.worktree.name().as_str()
    }

    fn renew(&self) -> Said<Outcome> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match self.worktree.renew_after(&self.session, Some(&last)) {
            Ok(Said { value: Keeping::Renewed(lease), warnings }) => {
                let ours = self.is_ours(&lease.record);
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = *lease;
                let value = if ours { Outcome::Kept { late_ms: None } } else { Outcome::Lost(None) };
                Said { value, warnings }
            }
            Ok(Said { value: Keeping::Denied(refusal), warnings }) => Said { value: self.refused(&refusal), warnings },
            Err(error) => Said { value: Outcome::Failed(error.to_string()), warnings: Vec::new() },
        }
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
