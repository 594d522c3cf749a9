//! Writes the events of a chain to the audit log.

use super::chain::Chain;
use crate::repo::Repository;
use lokt_core::name::LockName;
use std::time::Duration;

use lokt_core::denial::Denial;
use lokt_core::hold::Fence;
use lokt_core::lease::audit::Anchor;
use lokt_core::lease::names::File;
use lokt_core::lease::slot::Slot;

use super::answers::LeaseRefusal;
use super::audit::{self, Filled, fill};
use super::chain::{Links, Reading};
use super::commit::AuditEntry;
use super::prune::MANY;
use lokt_sys::error::Error;
use lokt_sys::warnings::Warning;

/// Maximum wait for the log before a link: the lease is already running.
const BEFORE_A_LINK: Duration = Duration::from_millis(50);
/// Maximum wait after it: the holder wants to use the lease.
const AFTER_A_LINK: Duration = Duration::from_millis(250);

/// The audit log, as the chain of a worktree fills it.
#[derive(Clone, Copy)]
pub(crate) struct LeaseLog<'w> {
    pub(super) repo: &'w Repository,
    pub(super) name: &'w LockName,
}

impl LeaseLog<'_> {
    pub(super) fn chain(&self) -> Chain<'_> {
        Chain { repo: self.repo, name: self.name }
    }

    /// Writes the events of the links that the log lacks, and returns the end of the log after
    /// that.
    pub(crate) fn write(&self, links: &Links) -> Anchor {
        self.fill(links, BEFORE_A_LINK).anchor
    }

    /// After changes: writes what the log lacks, and removes old links. What can't be written now
    /// is written by a later process: links keep their events.
    pub(crate) fn tidy(&self) -> Vec<Warning> {
        match self.chain().read() {
            Ok(Reading::Born(links)) => self.tidy_after(&links, MANY),
            _ => Vec::new(),
        }
    }

    /// Like `tidy`, if the chain is known as the change left it. Links are removed when there are
    /// `many`.
    pub(crate) fn tidy_after(&self, links: &Links, many: usize) -> Vec<Warning> {
        let warning = self.fill(links, AFTER_A_LINK).warning;
        if warning.is_none() {
            self.prune(links, many);
        }
        warning.into_iter().collect()
    }

    fn fill(&self, links: &Links, patience: Duration) -> Filled {
        fill(self.repo, links.last.as_ref(), patience, &mut |above| self.links_between(links, above))
    }

    /// Returns the links above a number and below the last, lowest first.
    fn links_between(&self, links: &Links, above: u64) -> Result<Vec<Slot>, Error> {
        let last = links.last.as_ref().map_or(0, |last| last.number);
        let numbers = self.chain().list()?.slots.into_iter().rev();
        let mut between = Vec::new();
        for number in numbers.filter(|number| (above + 1..last).contains(number)) {
            let content = self.chain().read_file(&self.chain().file(&File::Slot(number)))?;
            let slot = content.and_then(|content| Slot::parse(&content.bytes).ok());
            between.extend(slot.filter(|slot| slot.chain == links.base.chain));
        }
        Ok(between)
    }

    /// Writes an event that isn't in the chain. Returns warnings.
    pub(crate) fn note(&self, deed: AuditEntry) -> Vec<Warning> {
        let event = self.repo.random().map(|nonce| self.event(format!("{}/{nonce:032x}", self.name), deed));
        match event {
            Ok(event) => audit::note(self.repo, &event).into_iter().collect(),
            Err(error) => vec![Warning::Audit(error.to_string())],
        }
    }

    /// Writes that a request was refused.
    pub(crate) fn note_denied(
        &self,
        operation: &'static str,
        refusal: &LeaseRefusal,
        session_id: &str,
    ) -> Vec<Warning> {
        let mut deed = AuditEntry::new(operation, self.repo.machine.now()).with("code", refusal.code());
        deed.session_id = Some(session_id.to_owned()).filter(|session_id| !session_id.is_empty());
        if let Denial::StaleToken { named, .. } = &refusal.denial {
            deed.token = Some(*named);
        }
        if let Some(record) = &refusal.record {
            deed = deed.with("holder", record.holder_id.as_str()).with("holder_token", record.token.map(Fence::get));
        }
        self.note(deed)
    }

    /// Reports whether everything that was read is in the log durably.
    pub(crate) fn is_synced(&self, links: &Links) -> bool {
        self.fill(links, AFTER_A_LINK).warning.is_none() && audit::sync(self.repo).is_ok()
    }
}
