//! More time for a lease.

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
use super::chain::Links;
use super::commit::{Deed, Step};
use super::scene::{Asker, Scene};
use super::sight::Sight;
use super::take::TRIES;
use super::view::Shown;
use crate::error::Error;

impl Worktree {
    /// `last`: the lease as this process got or renewed it, if it did. Gives the chain, too, as a renewal left it.
    pub(crate) fn keep(&self, session: &Session, last: Option<&Lease>) -> Result<(Keeping, Option<Links>), Error> {
        let asker = last.map_or(Asker::Session(session), |last| Asker::Keeper(session, last));
        // Whoever has the lease is alone, mostly: only who was in somebody's way waits.
        let mut gate = None;
        let mut sight = Sight::default();
        for _ in 0..TRIES {
            let Some(scene) = self.look(asker, &mut sight)? else {
                return Ok((Keeping::Denied(Box::new(LeaseRefusal::nobody())), None));
            };
            if let Some(kept) = self.prolong(&scene, session)? {
                return Ok(kept);
            }
            gate = gate.or_else(|| self.gate(last.map_or(u64::MAX, |last| last.record.policy.lease_ms)));
        }
        Err(self.too_busy())
    }

    /// `None`: everything is to be looked at again.
    fn prolong(&self, scene: &Scene, session: &Session) -> Result<Option<(Keeping, Option<Links>)>, Error> {
        let links = &scene.links;
        let nonce = scene.record().map(|record| session.nonce(&record.lock_id)).unwrap_or_default();
        let asked = Ask::Renew { nonce: &nonce, session_id: &session.id };
        let next = self.fence(links.next())?;
        let old = match (
            ask(asked, scene.standing.stored(), next, &LockId::default(), links.now, &self.me()),
            links.record(),
        ) {
            (Answer::Renew, Some(record)) => record,
            (Answer::Deny(denial), _) => return Ok(Some((Keeping::Denied(Box::new(scene.refusal(denial))), None))),
            (other, _) => unreachable!("a lease goes on or doesn't, not {other:?}"),
        };
        // After the look: a renewal that was seen is never moved back.
        let began = self.repo.machine.now();
        let record = old.renewed(&began, &self.me());
        let deed = Deed::new("lock_renew", began).about(&record);
        let Some(added) = self.add(links, Step { kind: Kind::Renew, record: Some(record.clone()), deed })? else {
            return Ok(None);
        };
        if let Shown::Foreign = self.settle_after(&added)? {
            // Another tool took it by force.
            self.give_back(&added.slot, "another program's lock file took its place")?;
            return Ok(None);
        }
        if !self.still_stands(&added)? {
            return Ok(None);
        }
        // Whoever looks only at the view may have thought it over.
        let now = self.repo.machine.now();
        if old.boottime_ms.is_some_and(|then| now.boottime_ms.saturating_sub(then) > old.policy.clamped().lease_ms) {
            self.give_back(&added.slot, "it was renewed too late")?;
            return Ok(Some((Keeping::Denied(Box::new(Self::over(&record))), None)));
        }
        let Some(token) = record.token else { unreachable!("every lease of ours has one") };
        let lease = Lease { record, token, began, stolen: None };
        Ok(Some((Keeping::Renewed(Box::new(lease)), Some(links.with(added)))))
    }

    /// A lease of ours that is over.
    pub(crate) fn over(record: &Record) -> LeaseRefusal {
        let over = Left::Over(0);
        let hold = record.hold();
        let elapsed = Elapsed {
            process: if hold.has(lokt_core::hold::PartKind::Process) { over } else { Left::Absent },
            owner: if hold.has(lokt_core::hold::PartKind::Owner) { over } else { Left::Absent },
        };
        let holder = Holder { hold, liveness: Liveness::Unknown, elapsed };
        LeaseRefusal {
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
}

impl LeaseRefusal {
    /// There is no lease at all.
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
