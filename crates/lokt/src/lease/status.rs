//! How a lease stands, for whoever looks. Nothing is changed by looking, except that a first sighting is kept.

use lokt_core::hold::Fence;
use lokt_core::lease::config::Isolation;
use lokt_core::lease::jvs;
use lokt_core::lease::session::Session;

use super::Worktree;
use super::answers::{LeaseState, LeaseStatus};
use super::scene::{Asker, Scene, Standing, holder};
use super::sight::Sight;
use super::view::{Board, View};
use crate::error::Error;

impl Worktree {
    pub(crate) fn describe(&self, session: Option<&Session>) -> Result<LeaseStatus, Error> {
        let scene = match self.config.isolation {
            Isolation::Exclusive => self.look(session.map_or(Asker::Anybody, Asker::Session), &mut Sight::default())?,
            Isolation::Shared => None,
        };
        let Some(scene) = scene else {
            let state = match self.config.isolation {
                Isolation::Exclusive => LeaseState::Free,
                Isolation::Shared => LeaseState::Shared,
            };
            // Another tool's lock is one also where no lease of ours has ever been.
            if state == LeaseState::Free
                && let Some(status) = self.foreign_status()?
            {
                return Ok(status);
            }
            return Ok(LeaseStatus { state, ..LeaseStatus::FREE });
        };
        let refusal_retry = match &scene.standing {
            Standing::Unreadable { retry_after_ms, over: false, .. } => Some(*retry_after_ms),
            Standing::Held { verdict, .. } => verdict.retry_after_ms,
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

impl Worktree {
    /// What another tool's lock says where there is no chain.
    fn foreign_status(&self) -> Result<Option<LeaseStatus>, Error> {
        let foreign = LeaseStatus { state: LeaseState::Foreign, lives: true, ..LeaseStatus::FREE };
        if let View::Foreign(found) = self.read_view(Board::Record, "")? {
            return Ok(Some(LeaseStatus { record: found.record.ok().map(|record| *record), ..foreign }));
        }
        let View::Foreign(found) = self.read_view(Board::Jvs, "")? else { return Ok(None) };
        let record = match found.record {
            Ok(record) => *record,
            Err(why) => {
                let warnings = vec![format!("what is there can't be read: {why}")];
                return Ok(Some(LeaseStatus { state: LeaseState::Corrupt, warnings, ..foreign }));
            }
        };
        let verdict = jvs::judge(&record, &self.repo.machine.now());
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

/// The token of the lease; of a free one, all that is known is that the next will be greater than the last link's number.
fn last_token(scene: &Scene) -> Option<u64> {
    let held = scene.record().and_then(|record| record.token).map(Fence::get);
    held.or_else(|| scene.links.last.as_ref().map(|last| last.number))
}

fn warnings(scene: &Scene) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Standing::Unreadable { why, .. } = &scene.standing {
        warnings.push(format!("what is there can't be read: {why}"));
    }
    for (_, view) in scene.views() {
        if let View::Odd(what) = view {
            warnings.push(what.clone());
        }
    }
    let held = matches!(&scene.standing, Standing::Held { foreign: false, .. }) && !scene.standing.is_over();
    if held && !scene.foreigners().is_empty() {
        warnings.push("another program put a lock file of its own in the place of this lease's".to_owned());
    }
    warnings
}
