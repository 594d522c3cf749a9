//! Renews a lease.

use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::LockId;
use lokt_core::lease::deciding::{Answer, Ask, ask};
use lokt_core::lease::record::Record;
use lokt_core::lease::session::Session;
use lokt_core::lease::slot::Kind;
use lokt_core::liveness::Liveness;
use lokt_core::time::{Elapsed, Lease as Left};

use super::Worktree;
use super::answers::{Keeping, Lease, LeaseRefusal, LeaseState};
use super::attempts::Turn;
use super::chain::Links;
use super::commit::{AuditEntry, NewLink};
use super::scene::{Caller, LeaseSnapshot};
use super::sight::Sight;
use super::view::Shown;
use lokt_sys::error::Error;

impl Worktree {
    /// Renews the lease of `session`. `last` is the lease as this process acquired or renewed it,
    /// if it did. Also returns the chain as the renewal left it.
    pub(crate) fn keep(&self, session: &Session, last: Option<&Lease>) -> Result<(Keeping, Option<Links>), Error> {
        let asker = last.map_or(Caller::Session(session), |last| Caller::Keeper(session, last));
        // The holder is usually alone: it waits for others only after a conflict.
        let after = Some(last.map_or(u64::MAX, |last| last.record.policy.lease_ms));
        let sight = &mut Sight::default();
        let turn = Turn { caller: asker, sight, gate: None, gate_after_conflict_ms: after };
        self.writer().decide(turn, |scene| match scene {
            Some(scene) => self.prolong(scene, session),
            None => Ok(Some((Keeping::Denied(Box::new(LeaseRefusal::nobody())), None))),
        })
    }

    /// Decides and adds the renewal. `None`: everything must be read again.
    fn prolong(&self, scene: &LeaseSnapshot, session: &Session) -> Result<Option<(Keeping, Option<Links>)>, Error> {
        let links = &scene.links;
        let nonce = scene.record().map(|record| session.nonce(&record.lock_id)).unwrap_or_default();
        let asked = Ask::Renew { nonce: &nonce, session_id: &session.id };
        let old = match (ask(asked, scene.standing.stored(), &LockId::default(), links.now, &self.me()), links.record())
        {
            (Answer::Renew, Some(record)) => record,
            (Answer::Deny(denial), _) => return Ok(Some((Keeping::Denied(Box::new(scene.refusal(denial))), None))),
            (other, _) => unreachable!("a lease goes on or doesn't, not {other:?}"),
        };
        // Read after the chain: a renewal that was seen never moves backwards.
        let began = self.repo.machine.now();
        let record = old.renewed(&began, &self.me());
        let deed = AuditEntry::new("lock_renew", began).about(&record);
        let Some(added) =
            self.writer().add(links, NewLink { kind: Kind::Renew, record: Some(record.clone()), deed })?
        else {
            return Ok(None);
        };
        if let Shown::Foreign = self.views().settle_after(&added)? {
            // Another tool acquired it by force.
            self.writer().give_back(&added.slot, "another program's lock file took its place")?;
            return Ok(None);
        }
        if !self.writer().still_stands(&added)? {
            return Ok(None);
        }
        // A program that reads only the view may have considered it expired.
        let now = self.repo.machine.now();
        if old.boottime_ms.is_some_and(|then| now.boottime_ms.saturating_sub(then) > old.policy.clamped().lease_ms) {
            self.writer().give_back(&added.slot, "it was renewed too late")?;
            return Ok(Some((Keeping::Denied(Box::new(LeaseRefusal::over(&record))), None)));
        }
        let Some(token) = record.token else { unreachable!("every lease of ours has one") };
        let lease = Lease { record, token, began, stolen: None };
        Ok(Some((Keeping::Renewed(Box::new(lease)), Some(links.with(added)))))
    }
}

impl LeaseRefusal {
    /// Refusal because a lease of ours has ended.
    pub(crate) fn over(record: &Record) -> Self {
        let over = Left::Over(0);
        let hold = record.hold();
        let elapsed = Elapsed {
            process: if hold.has(lokt_core::hold::PartKind::Process) { over } else { Left::Absent },
            owner: if hold.has(lokt_core::hold::PartKind::Owner) { over } else { Left::Absent },
        };
        let holder = Holder { hold, liveness: Liveness::Unknown, elapsed };
        Self {
            denial: Denial::Over(Box::new(holder)),
            state: LeaseState::Expired,
            record: Some(record.clone()),
            retry_after_ms: None,
            skew_ms: None,
            skew_max_ms: record.policy.skew_ms,
            evidence: None,
            unreadable: None,
        }
    }

    /// Refusal because there is no lease at all.
    pub(crate) fn nobody() -> Self {
        Self {
            denial: Denial::Missing,
            state: LeaseState::Free,
            record: None,
            retry_after_ms: None,
            skew_ms: None,
            skew_max_ms: 0,
            evidence: None,
            unreadable: None,
        }
    }
}
