//! The lease of a worktree: one writer, known by a token that never repeats.
//!
//! A lease is a chain of links. Each link is a file of its own, created atomically under the next
//! number, and never changed. It says everything that is known after it. No lock is needed: a process
//! that adds a link follows exactly what it has read, or learns that another one was faster.
//!
//! | file | one idea |
//! | --- | --- |
//! | `answers` | what is asked, and what is answered |
//! | `chain` | which link is the last, and what it says |
//! | `birth` | a chain begins |
//! | `fences` | the ceiling over its numbers, which outlives it |
//! | `commit` | a link is added |
//! | `attempts` | decide and add a link, or read again |
//! | `settle` | what earlier links left to do |
//! | `snapshot_links` | the links that are about snapshots |
//! | `prune` | old ones go |
//! | `scene` | the owner of the lease, and its state |
//! | `sight` | since when something has been as it is |
//! | `view` | the file that other tools go by |
//! | `take` | getting it |
//! | `waiting` | waiting for it |
//! | `keep` | more time |
//! | `end` | its end |
//! | `staging` | files that are about to be published |
//! | `publish` | acting under a token |
//! | `status` | the status, for users |
//! | `parts` | the types that these are methods of |
//! | `log` | what the chain tells the audit log |
//! | `audit` | the audit log of the repository |
//! | `doctor` | what is wrong, and what can be done about it |

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

    /// Who may write.
    pub fn isolation(&self) -> Isolation {
        self.config.isolation
    }

    /// Its repository.
    pub fn repository(&self) -> &Repository {
        &self.repo
    }

    /// Asks for the lease, once, or with patience until it can be had.
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

    /// More time for the lease of `session`.
    pub fn renew(&self, session: &Session) -> Result<WithWarnings<Keeping>, Error> {
        self.renew_after(session, None)
    }

    /// The same, for the process that got the lease or renewed it last, as `last` says: it goes by its own clock.
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

    /// Gives the lease of `session` back.
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

    /// How the lease stands. `session`: who asks, if it has one.
    pub fn status(&self, session: Option<&Session>) -> Result<LeaseStatus, Error> {
        self.observer().describe(session)
    }

    /// Is this the token of the living lease?
    pub fn check_token(&self, token: u64) -> Result<TokenCheck, Error> {
        self.wants_one_writer()?;
        self.observer().check(token)
    }

    /// Puts a copy of `source` where `target` is, if `token` is still that of the living lease.
    pub fn publish(&self, token: u64, source: &Path, target: &Path) -> Result<WithWarnings<Publishing>, Error> {
        self.wants_one_writer()?;
        let value = self.publisher().publish(token, source, target)?;
        let warnings = match &value {
            Publishing::Denied(refusal) => self.log().note_denied("fencing_failed", refusal, ""),
            Publishing::Published { .. } => self.log().tidy(),
        };
        Ok(WithWarnings { value, warnings })
    }

    /// Where everybody may write there is no lease.
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
