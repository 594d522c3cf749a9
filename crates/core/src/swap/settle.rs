//! The outcome of a change whose answer is missing.
//!
//! A read that shows nothing proves nothing: the request may still be in flight. So
//!
//! - an **addition** is voided: the cell that it pins is rewritten. If that succeeds, the addition
//!   was never made and never will be. If a pin of the rewrite fails, one of the addition's fails
//!   permanently, too, and its audit key says whether it was made before.
//! - a **removal** is repeated: the keys that it names exist only once. If its pins fail, they are
//!   gone or rewritten, and its audit key says whether this removal did it.
//! - **tickets** need nothing: the next read shows them.
//!
//! Even an answer that came may not be final: a copy of the change may still be in flight, because
//! the caller, or something between caller and engine, has sent it twice. Then "a pin failed" is
//! final only if it fails permanently. The pins of an addition do, except "no waiter is ahead". A
//! session that is gone fails only until a late request opens it again. So an addition that is
//! refused while its `meta` and `cell` are as pinned is settled like one without an answer. Also,
//! the answer may be that of the second copy, which failed because of the first one: therefore
//! every change asks for its audit key. [`refused`] evaluates both. (The design treats every
//! refusal as final.)
//!
//! Either request may be repeated as often as needed, and may itself arrive late or twice. Changes
//! that only delete (without room for an audit key) can't be proven: their callers read again.

use alloc::vec::Vec;

use super::plan::{Kind, Plan};
use crate::engine::{Change, Key, Made, Pin, Rev, Sight};

/// A change that is being settled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settling {
    change: Change,
    proof: Option<Key>,
    is_removal: bool,
}

/// The outcome of a change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Settled {
    /// It was made, at this revision.
    Made(Rev),
    /// It was not made, and never will be. The read that the settling request returned, if any,
    /// serves the next decision.
    Void(Option<Sight>),
}

/// Returns the outcome of a change that was answered with this read; `None`: it must be settled.
pub fn refused(plan: &Plan, sight: Sight) -> Option<Settled> {
    if let Some(proof) = plan.proof.as_ref().and_then(|key| sight.item(key)) {
        return Some(Settled::Made(proof.born));
    }
    is_final(plan, &sight).then_some(Settled::Void(Some(sight)))
}

/// Reports whether this read, with which a change was refused, shows that no copy of it can ever be
/// made.
fn is_final(plan: &Plan, sight: &Sight) -> bool {
    let holds = |pin: &Pin| match pin {
        Pin::Since(key, since) => sight.item(key).map_or(Rev::NEVER, |item| item.since) == *since,
        Pin::Born(..) | Pin::Empty(_) => true,
    };
    match &plan.kind {
        Kind::Addition { pins, .. } => !pins.iter().all(holds),
        // Keys that exist only once are gone or rewritten; a ticket disappears with its session.
        Kind::Removal | Kind::Ticket => true,
    }
}

impl Settling {
    /// Begins to settle a change; `None` if there is nothing to settle.
    pub fn new(plan: &Plan) -> Option<Self> {
        let proof = plan.proof.clone();
        let look = plan.change.look.clone();
        let (pins, writes, is_removal) = match &plan.kind {
            Kind::Ticket => return None,
            Kind::Removal => (plan.change.pins.clone(), plan.change.writes.clone(), true),
            Kind::Addition { pins, bump } => (pins.clone(), Vec::from([bump.clone()]), false),
        };
        Some(Self { change: Change { pins, writes, look }, proof, is_removal })
    }

    /// The request that settles it. If its own outcome is unknown, it is sent again.
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// Evaluates the answer.
    pub fn answered(&self, made: Made) -> Settled {
        match made {
            Made::Done { at, .. } if self.is_removal => Settled::Made(at),
            Made::Done { .. } => Settled::Void(None),
            Made::Else(sight) => match self.proof.as_ref().and_then(|key| sight.item(key)) {
                Some(proof) => Settled::Made(proof.born),
                None => Settled::Void(Some(sight)),
            },
        }
    }
}
