//! The lease of a worktree: one writer, known by a token that never repeats.
//!
//! A lease is a chain of links. Each link is a file of its own, created atomically under the next
//! number, and never changed. It says everything that is known after it. No lock is needed: a
//! process that adds a link follows exactly what it has read, or learns that another one was
//! faster.
//!
//! | file | one idea |
//! | --- | --- |
//! | `answers` | requests and answers |
//! | `chain` | which link is the last, and what it says |
//! | `birth` | creating a chain |
//! | `fences` | the ceiling over its numbers, which outlives it |
//! | `commit` | adding a link |
//! | `attempts` | decide and add a link, or read again |
//! | `settle` | work that earlier links left unfinished |
//! | `snapshot_links` | the links that are about snapshots |
//! | `prune` | removing old links |
//! | `scene` | the owner of the lease, and its state |
//! | `sight` | how long an object has been unchanged |
//! | `view` | the file that other tools read |
//! | `take` | acquiring the lease |
//! | `waiting` | waiting for it |
//! | `keep` | renewing it |
//! | `end` | releasing or breaking it |
//! | `staging` | files that are about to be published |
//! | `publish` | acting under a token |
//! | `status` | the status, for users |
//! | `parts` | the types that these are methods of |
//! | `log` | what the chain writes to the audit log |
//! | `audit` | the audit log of the repository |
//! | `doctor` | problems and their repairs |

mod answers;
mod attempts;
pub mod audit;
mod birth;
mod chain;
pub(crate) mod commit;
pub mod doctor;
mod end;
mod fences;
mod keep;
mod lease_guard;
mod log;
mod parts;
pub(crate) mod presence;
mod prune;
mod publish;
mod scene;
pub mod session_file;
mod settle;
mod sight;
mod snapshot_links;
mod staging;
mod status;
mod take;
mod view;
mod waiting;

use std::path::Path;

use lokt_core::decide::Cause;
use lokt_core::lease::config::{Isolation, WorktreeConfig};
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::session::Session;
use lokt_core::name::LockName;

pub use answers::{
    Bearer, Keeping, Lease, LeaseRefusal, LeaseState, LeaseStatus, LeaseTerms, Leasing, Publishing, Released,
    Releasing, Taking, TokenCheck,
};
pub use audit::AuditVerdict;
pub(crate) use chain::{Links, Reading};
pub use lease_guard::{LeaseGuard, LeaseGuarding};
use prune::{MANY, TOO_MANY};
pub(crate) use snapshot_links::Staged;

use crate::repo::Repository;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::wait_policy::WaitPolicy;
use lokt_sys::warnings::WithWarnings;

/// A worktree and its lease.
#[derive(Debug, Clone)]
pub struct Worktree {
    pub(crate) repo: Repository,
    pub(crate) name: LockName,
    pub(crate) config: WorktreeConfig,
}

impl Worktree {
    /// Its name.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns who may write: one holder, or everyone.
    pub fn isolation(&self) -> Isolation {
        self.config.isolation
    }

    /// Its repository.
    pub fn repository(&self) -> &Repository {
        &self.repo
    }

    /// Acquires the lease: one attempt, or a wait until it is available, as `patience` says.
    pub fn acquire(
        &self,
        session: &Session,
        terms: &LeaseTerms,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<WithWarnings<Leasing>, Error> {
        self.wants_one_writer()?;
        let (value, left) = self.waiter().pursue(session, terms, patience)?;
        let warnings = match (&value, left) {
            (Leasing::Denied(refusal), _) => self.log().note_denied("lock_denied", refusal, session.id.as_str()),
            (_, Some(links)) => self.log().tidy_after(&links, TOO_MANY),
            _ => self.log().tidy(),
        };
        Ok(WithWarnings { value, warnings })
    }

    /// Renews the lease of `session`.
    pub fn renew(&self, session: &Session) -> Result<WithWarnings<Keeping>, Error> {
        self.renew_after(session, None)
    }

    /// Like `renew`, for the process that acquired or renewed the lease last, as `last` says: it
    /// goes by its own clock.
    pub fn renew_after(&self, session: &Session, last: Option<&Lease>) -> Result<WithWarnings<Keeping>, Error> {
        self.wants_one_writer()?;
        let (value, left) = self.keep(session, last)?;
        let warnings = match (&value, left) {
            (Keeping::Denied(refusal), _) => self.log().note_denied("lock_denied", refusal, session.id.as_str()),
            (Keeping::Renewed(_), Some(links)) => self.log().tidy_after(&links, MANY),
            (Keeping::Renewed(_), None) => self.log().tidy(),
        };
        Ok(WithWarnings { value, warnings })
    }

    /// Releases the lease of `session`.
    pub fn release(&self, session: &Session) -> Result<WithWarnings<Releasing>, Error> {
        let (value, left) = self.ender().end(Some(session), None)?;
        let warnings = match (&value, left) {
            (Releasing::Denied(refusal), _) => self.log().note_denied("lock_denied", refusal, session.id.as_str()),
            (Releasing::Released(_), Some(links)) => self.log().tidy_after(&links, MANY),
            (Releasing::Released(_), None) => self.log().tidy(),
        };
        Ok(WithWarnings { value, warnings })
    }

    /// Ends the lease of any holder, and removes whatever is in its place.
    pub fn force_break(&self, reason: &str) -> Result<WithWarnings<Releasing>, Error> {
        let warnings = self.ender().clear_the_way(reason)?;
        let (value, _) = self.ender().end(None, Some(reason))?;
        let cleared = !warnings.is_empty();
        let value = match value {
            Releasing::Denied(_) if cleared => {
                Releasing::Released(Released { record: None, cause: Cause::CorruptBreak })
            }
            value => value,
        };
        let warnings = warnings.into_iter().chain(self.log().tidy()).collect();
        Ok(WithWarnings { value, warnings })
    }

    /// Returns the status of the lease. `session` is the caller's, if it has one.
    pub fn status(&self, session: Option<&Session>) -> Result<LeaseStatus, Error> {
        self.observer().describe(session)
    }

    /// Checks whether `token` is the token of the live lease.
    pub fn check_token(&self, token: u64) -> Result<TokenCheck, Error> {
        self.wants_one_writer()?;
        self.observer().check(token)
    }

    /// Replaces `target` with a copy of `source`, if `token` is still the token of the live lease.
    pub fn publish(&self, token: u64, source: &Path, target: &Path) -> Result<WithWarnings<Publishing>, Error> {
        self.wants_one_writer()?;
        let value = self.publisher().publish(token, source, target)?;
        let warnings = match &value {
            Publishing::Denied(refusal) => self.log().note_denied("fencing_failed", refusal, ""),
            Publishing::Published { .. } => self.log().tidy(),
        };
        Ok(WithWarnings { value, warnings })
    }

    /// Fails for a shared worktree: everyone may write, so there is no lease.
    fn wants_one_writer(&self) -> Result<(), Error> {
        match self.config.isolation {
            Isolation::Exclusive => Ok(()),
            Isolation::Shared => {
                let message = format!("worktree \"{}\" is shared: everybody may write, nobody holds it", self.name);
                Err(Error::new(ErrorKind::Shared, message))
            }
        }
    }
}
