//! The status of a lease. Reading it changes nothing, except that a first sighting is stored.

use super::scene::Observer;
use lokt_core::hold::Fence;
use lokt_core::lease::config::Isolation;
use lokt_core::lease::jvs;
use lokt_core::lease::session::Session;

use super::answers::{LeaseState, LeaseStatus};
use super::scene::{Caller, LeaseSnapshot, Ownership, holder};
use super::sight::Sight;
use super::view::{Board, View};
use lokt_sys::error::Error;
use lokt_sys::warnings::Warning;

impl Observer<'_> {
    pub(crate) fn describe(&self, session: Option<&Session>) -> Result<LeaseStatus, Error> {
        let scene = match self.worktree.config.isolation {
            Isolation::Exclusive => {
                self.read(session.map_or(Caller::Anybody, Caller::Session), &mut Sight::default())?
            }
            Isolation::Shared => None,
        };
        let Some(scene) = scene else {
            let state = match self.worktree.config.isolation {
                Isolation::Exclusive => LeaseState::Free,
                Isolation::Shared => LeaseState::Shared,
            };
            // Another tool's lock counts even if no lease of ours has ever existed.
            if state == LeaseState::Free
                && let Some(status) = self.foreign_status()?
            {
                return Ok(status);
            }
            return Ok(LeaseStatus { state, ..LeaseStatus::FREE });
        };
        let refusal_retry = match &scene.standing {
            Ownership::Unreadable { retry_after_ms, over: false, .. } => Some(*retry_after_ms),
            Ownership::Held { verdict, .. } => verdict.retry_after_ms,
            _ => None,
        };
        Ok(LeaseStatus {
            state: scene.state(),
            record: scene.record().cloned(),
            holder: scene.record().zip(scene.verdict()).map(|(record, verdict)| holder(record, verdict)),
            mine: scene.mine,
            lives: !scene.standing.is_over(),
            evidence: scene.verdict().and_then(|verdict| verdict.evidence),
            retry_after_ms: refusal_retry,
            last_token: last_token(&scene),
            warnings: warnings(&scene),
        })
    }
}

impl Observer<'_> {
    /// Returns the status by another tool's lock, if there is no chain.
    fn foreign_status(&self) -> Result<Option<LeaseStatus>, Error> {
        let foreign = LeaseStatus { state: LeaseState::Foreign, lives: true, ..LeaseStatus::FREE };
        if let View::Foreign(found) = self.worktree.views().read(Board::Record, "")? {
            return Ok(Some(LeaseStatus { record: found.record.ok().map(|record| *record), ..foreign }));
        }
        let View::Foreign(found) = self.worktree.views().read(Board::Jvs, "")? else { return Ok(None) };
        let record = match found.record {
            Ok(record) => *record,
            Err(why) => {
                let warnings = vec![Warning::Unreadable(format!("what is there can't be read: {why}"))];
                return Ok(Some(LeaseStatus { state: LeaseState::Corrupt, warnings, ..foreign }));
            }
        };
        let verdict = jvs::judge(&record, &self.worktree.repo.machine.now());
        Ok(Some(LeaseStatus {
            state: if verdict.is_over() { LeaseState::Expired } else { LeaseState::Foreign },
            holder: Some(holder(&record, &verdict)),
            lives: !verdict.is_over(),
            evidence: verdict.evidence,
            retry_after_ms: verdict.retry_after_ms,
            last_token: record.token.map(Fence::get),
            record: Some(record),
            ..foreign
        }))
    }
}

impl LeaseStatus {
    const FREE: Self = Self {
        state: LeaseState::Free,
        record: None,
        holder: None,
        mine: false,
        lives: false,
        evidence: None,
        retry_after_ms: None,
        last_token: None,
        warnings: Vec::new(),
    };
}

/// Returns the token of the lease. If it is free, it is only known that the next token will be
/// greater than the last link's number.
fn last_token(scene: &LeaseSnapshot) -> Option<u64> {
    let held = scene.record().and_then(|record| record.token).map(Fence::get);
    held.or_else(|| scene.links.last.as_ref().map(|last| last.number))
}

fn warnings(scene: &LeaseSnapshot) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Ownership::Unreadable { why, .. } = &scene.standing {
        warnings.push(Warning::Unreadable(format!("what is there can't be read: {why}")));
    }
    for (_, view) in scene.views() {
        if let View::Odd(what) = view {
            warnings.push(Warning::Unreadable(what.clone()));
        }
    }
    let held = matches!(&scene.standing, Ownership::Held { foreign: false, .. }) && !scene.standing.is_over();
    if held && !scene.foreigners().is_empty() {
        let foreign = "another program put a lock file of its own in the place of this lease's";
        warnings.push(Warning::OtherPrograms(foreign.to_owned()));
    }
    warnings
}
