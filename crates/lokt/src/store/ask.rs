//! What is asked of one name, from the first look to the last.

use std::sync::Arc;

use lokt_core::audit::{Account, Program, Wait};
use lokt_core::decide::{Badge, Bearer, Breaking, Grip, Intent, Terms};
use lokt_core::guard::Ended;
use lokt_core::hold::{Fence, Identity, LockId, PulseRef};
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;
use lokt_core::time::Moment;

use super::Kind;
use super::seat::{Profile, Seat};
use super::slot::Depth;
use super::swap::Prepared;

/// What is asked of one name, and what is kept from one attempt to the next.
pub(crate) struct Ask<'a> {
    pub(crate) name: &'a LockName,
    pub(super) kind: Kind,
    pub(super) intent: Intent,
    /// The hold gets a pulse: it is a guard's.
    pub(super) beats: bool,
    /// A refusal that time may change puts the caller in line.
    pub(crate) waits: bool,
    pub(crate) profile: Profile,
    pub(crate) seat: Option<Seat>,
    /// How the wait ended that this attempt ends.
    pub(crate) waited: Option<Waited>,
    /// When it was first put in line, by the monotonic clock, and at which place.
    pub(super) queued: Option<(u64, u64)>,
    /// What runs under the hold.
    pub(crate) program: Option<Arc<Program>>,
    /// Of a hold that is given back: since when it was held, by the boot clock, and how what ran under it ended.
    pub(super) held: Option<(u64, Option<Ended>)>,
    pub(super) fresh_id: Option<LockId>,
    pub(super) prepared: Option<Prepared>,
}

/// A wait that ended without a grant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    pub(crate) ms: u64,
    pub(crate) why: &'static str,
}

impl<'a> Ask<'a> {
    /// Asks once, and takes no for an answer.
    pub(crate) fn once(name: &'a LockName, intent: Intent) -> Self {
        let reason = match &intent {
            Intent::Lock(terms) | Intent::TakeOver(terms) | Intent::Guard(terms, _) => terms.reason.clone(),
            _ => None,
        };
        Self {
            name,
            kind: Kind::Lock,
            intent,
            beats: false,
            waits: false,
            profile: Profile { reason, ..Profile::default() },
            seat: None,
            waited: None,
            queued: None,
            program: None,
            held: None,
            fresh_id: None,
            prepared: None,
        }
    }

    /// Asks once about a freeze.
    pub(super) fn freeze(name: &'a LockName, kind: Kind, intent: Intent) -> Self {
        Self { kind, ..Self::once(name, intent) }
    }

    /// Asks for a hold that lives as long as a pulse.
    pub(crate) fn guard(name: &'a LockName, terms: Terms, me: &Identity, inside: Option<Badge>) -> Self {
        let process = ProcessRef { pid: me.pid, start: me.pid_start };
        let bearer = Bearer { process, pulse: None, inside };
        Self { beats: true, ..Self::once(name, Intent::Guard(terms, bearer)) }
    }

    /// Gives a guard's hold back, and its seat up. `held` is since when, by the boot clock, and how its command ended.
    pub(crate) fn release(name: &'a LockName, grip: Grip, seat: Option<Seat>, held: (u64, Option<Ended>)) -> Self {
        Self { seat, held: Some(held), ..Self::once(name, Intent::Release(grip)) }
    }

    /// The intent, with the pulse that the hold would get: that of our seat, or one with the number that would be drawn.
    pub(crate) fn intent_now(&self, next: Fence) -> Intent {
        match &self.intent {
            Intent::Guard(terms, bearer) if self.beats => {
                let new = PulseRef { number: next.get(), dev: 0, ino: 0 };
                let pulse = Some(self.seat.as_ref().map_or(new, Seat::reference));
                Intent::Guard(terms.clone(), Bearer { pulse, ..bearer.clone() })
            }
            intent => intent.clone(),
        }
    }

    pub(super) fn ticket(&self) -> Option<u64> {
        self.seat.as_ref().map(|seat| seat.number)
    }

    /// How much must be known to answer it.
    pub(super) fn depth(&self) -> Depth {
        match self.intent {
            Intent::Lock(_) | Intent::TakeOver(_) | Intent::Guard(..) => Depth::Line,
            Intent::Renew(_) | Intent::Release(_) => Depth::Grip,
            Intent::Unlock(..) | Intent::UnlockFor(_) | Intent::Extend { .. } => Depth::Holder,
            Intent::Prune | Intent::Check(_) => Depth::Holder,
            Intent::Freeze(_) | Intent::Unfreeze { .. } => Depth::Holder,
        }
    }

    /// Does it ask for a hold?
    pub(super) fn takes(&self) -> bool {
        matches!(self.intent, Intent::Lock(_) | Intent::TakeOver(_) | Intent::Guard(..))
    }

    /// Whatever is there, even if it can't be read?
    pub(super) fn forces(&self) -> bool {
        matches!(self.intent, Intent::Unlock(Breaking::Force, _) | Intent::Unfreeze { force: true })
    }

    /// What the audit log is told beside the decision.
    pub(super) fn account(&self, now: &Moment) -> Account {
        let waited = |(since_ms, position)| Wait { ms: now.monotonic_ms.saturating_sub(since_ms), position };
        Account {
            wait: self.queued.map(waited),
            program: self.program.as_deref().cloned(),
            ended: self.held.and_then(|(_, ended)| ended),
            held_ms: self.held.map(|(since_ms, _)| now.boottime_ms.saturating_sub(since_ms)),
        }
    }

    /// The lease that is asked for.
    pub(super) fn ttl_sec(&self) -> Option<u64> {
        match &self.intent {
            Intent::Lock(terms) | Intent::TakeOver(terms) | Intent::Guard(terms, _) => terms.ttl_sec,
            _ => None,
        }
    }
}
