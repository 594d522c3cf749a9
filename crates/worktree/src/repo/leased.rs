//! The lease that a process holds while it renames or removes a worktree. It is bound to this
//! process, so others needn't wait if the process is killed.

use lokt_core::lease::config::Isolation;
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::session::Session;

use crate::lease::presence::Presence;
use crate::lease::{Bearer, Lease, LeaseRefusal, LeaseTerms, Leasing, Taking, TokenCheck, Worktree};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::wait_policy::WaitPolicy;
use lokt_sys::warnings::Warning;

/// A worktree whose lease we hold, if it has one.
pub(crate) struct Leased<'w> {
    worktree: &'w Worktree,
    held: Option<Held>,
    pub(super) warnings: Vec<Warning>,
}

struct Held {
    session: Session,
    lease: Lease,
    token: u64,
    presence: Presence,
}

/// Receiver of the refusal if another session holds the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The user, and the audit log.
    ByUser,
    /// No one: it is only an attempt.
    InPassing,
}

impl<'w> Leased<'w> {
    /// Acquires the lease, and says what for. A shared worktree has none.
    pub(crate) fn take(
        worktree: &'w Worktree,
        what_for: &str,
        asked: Asked,
    ) -> Result<Result<Self, Box<LeaseRefusal>>, Error> {
        if worktree.isolation() == Isolation::Shared {
            if let Some(refusal) = worktree.acquirer().held_by_others()? {
                return Ok(Err(Box::new(refusal)));
            }
            return Ok(Ok(Self { worktree, held: None, warnings: Vec::new() }));
        }
        worktree.chain().ensure_created()?;
        let repo = &worktree.repo;
        let session = Session::new(repo.random()?, [repo.random()?, repo.random()?]);
        let presence = Presence::create(worktree, b"")?;
        let terms = LeaseTerms {
            policy: LeasePolicy::DEFAULT,
            purpose: Some(what_for.to_owned()),
            taking: Taking::FreeOrOver,
            bearer: Some(Bearer { pulse: presence.reference() }),
        };
        let none = &mut WaitPolicy::none();
        let answer = match asked {
            Asked::ByUser => worktree.acquire(&session, &terms, none).map(|said| (said.value, said.warnings)),
            Asked::InPassing => worktree.waiter().pursue(&session, &terms, none).map(|(value, _)| (value, Vec::new())),
        };
        let denied = match answer {
            Ok((Leasing::Granted(lease), warnings)) => {
                let held = Held { session, token: lease.token.get(), lease: *lease, presence };
                return Ok(Ok(Self { worktree, held: Some(held), warnings }));
            }
            Ok((Leasing::Denied(refusal), _)) => Ok(Err(refusal)),
            Ok((Leasing::Interrupted, _)) => Err(Error::new(ErrorKind::Busy, "interrupted")),
            Err(error) => Err(error),
        };
        presence.remove();
        denied
    }

    /// Returns its token; a shared worktree has none.
    pub(crate) fn token(&self) -> Option<u64> {
        self.held.as_ref().map(|held| held.token)
    }

    /// Returns what is needed to renew it.
    pub(crate) fn kept(&self) -> Option<(Session, Lease)> {
        self.held.as_ref().map(|held| (held.session.clone(), held.lease.clone()))
    }

    /// Returns an error if the lease was lost, because we were suspended for longer than it lasts.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Some(held) = &self.held else { return Ok(()) };
        match self.worktree.check_token(held.token)? {
            TokenCheck::Current(_) => Ok(()),
            TokenCheck::Denied(_) => {
                let message = format!("the lease of worktree \"{}\" was lost meanwhile", self.worktree.name);
                Err(Error::new(ErrorKind::Busy, message).hint("try again"))
            }
        }
    }

    /// Releases the lease, whatever the worktree is called now: everything about its lease stays
    /// under its old name.
    pub(crate) fn release(mut self) -> Vec<Warning> {
        self.let_go()
    }

    fn let_go(&mut self) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        let Some(held) = self.held.take() else { return warnings };
        match self.worktree.release(&held.session) {
            Ok(said) => warnings.extend(said.warnings),
            Err(error) => {
                let why = format!("the lease could not be given back: {error}");
                warnings.push(Warning::NotReleased(why));
            }
        }
        held.presence.remove();
        warnings
    }
}

impl Drop for Leased<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}
