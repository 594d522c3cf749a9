//! A request to a store.

use std::sync::Arc;

use lokt_core::decide::{Breaking, InheritedHold, Intent, ProcessHolder, Terms};
use lokt_core::hold::{Identity, LockId};
use lokt_core::name::LockName;
use lokt_core::pulse::{ProcessRef, Profile};

use super::{Depth, Presence, QueueDepth};

/// A request for one or several names. The caller keeps it over all tries; it contains nothing that
/// belongs to a medium.
pub struct Request<'a> {
    /// Identifies the request in the store, where an answer may get lost.
    pub op: Op,
    /// The caller.
    pub me: &'a Identity,
    /// The asks, each about one name. No two asks have the same name and target.
    pub asks: &'a [Ask<'a>],
    /// The way in which the asks belong together.
    pub unity: Unity,
    /// True if a refusal that time may change puts the caller in the queue.
    pub waits: bool,
    /// The caller's presence. The store creates it when it is first needed and removes it if the
    /// request ends without a hold; otherwise the caller owns it then.
    pub presence: Option<Arc<dyn Presence>>,
    /// Its position in all queues, where stores give a request one. Kept if the presence is lost.
    pub place: Option<Place>,
}

impl<'a> Request<'a> {
    /// Returns a request for all of `asks` together that doesn't wait.
    pub fn of(me: &'a Identity, op: Op, asks: &'a [Ask<'a>]) -> Self {
        Self { op, me, asks, unity: Unity::AllOrNone, waits: false, presence: None, place: None }
    }
}

/// A request about one name.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// The name.
    pub name: &'a LockName,
    /// The part of it that is asked about.
    pub target: Target,
    /// The intent of the caller.
    pub intent: Intent,
    /// The id that a new hold gets.
    pub fresh_id: LockId,
    /// The caller's description of itself while it waits and holds.
    pub profile: Profile,
}

impl<'a> Ask<'a> {
    /// Returns an ask about the lock `name`.
    pub fn lock(name: &'a LockName, intent: Intent, fresh_id: LockId) -> Self {
        let reason = match &intent {
            Intent::Lock(terms) | Intent::TakeOver(terms) | Intent::Guard(terms, _) => terms.reason.clone(),
            _ => None,
        };
        let profile = Profile { reason, ..Profile::default() };
        Self { name, target: Target::Lock, intent, fresh_id, profile }
    }

    /// Returns an ask for a hold that lives with the presence of `me`. `inside`: the hold that it
    /// runs under.
    pub fn guard(
        name: &'a LockName,
        terms: Terms,
        me: &Identity,
        inside: Option<InheritedHold>,
        fresh_id: LockId,
    ) -> Self {
        let process = ProcessRef { pid: me.pid, start: me.pid_start };
        let holder = ProcessHolder { process, has_pulse: true, inside };
        Self::lock(name, Intent::Guard(terms, holder), fresh_id)
    }

    /// Returns an ask about the freeze over `name`.
    pub fn freeze(name: &'a LockName, intent: Intent, fresh_id: LockId) -> Self {
        Self { target: Target::Freeze, ..Self::lock(name, intent, fresh_id) }
    }

    /// Reports whether it asks for a hold.
    pub fn takes(&self) -> bool {
        matches!(self.intent, Intent::Lock(_) | Intent::TakeOver(_) | Intent::Guard(..))
    }

    /// Reports whether the hold that it asks for lives with the caller's presence: a guard's does.
    pub fn is_present(&self) -> bool {
        matches!(&self.intent, Intent::Guard(_, holder) if holder.has_pulse)
    }

    /// Reports whether it applies to whatever is there, even if that can't be read.
    pub fn forces(&self) -> bool {
        matches!(self.intent, Intent::Unlock(Breaking::Force, _) | Intent::Unfreeze { force: true })
    }

    /// Reports whether it releases a guard's hold.
    pub fn releases(&self) -> bool {
        matches!(self.intent, Intent::Release(_))
    }

    /// Returns how much a judge must know to rule on it.
    pub fn depth(&self) -> Depth {
        match self.intent {
            Intent::Lock(_) | Intent::TakeOver(_) | Intent::Guard(..) => Depth::ALL,
            Intent::Renew(_) | Intent::Release(_) => Depth::RECORD,
            Intent::Unlock(..)
            | Intent::UnlockFor(_)
            | Intent::Extend { .. }
            | Intent::Prune
            | Intent::Check(_)
            | Intent::Freeze(_)
            | Intent::Unfreeze { .. } => Depth { queue: QueueDepth::IfReadable, ..Depth::ALL },
        }
    }
}

/// The part of a name that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The lock.
    Lock,
    /// The freeze over it.
    Freeze,
}

/// The way in which the asks of a request belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unity {
    /// All are granted, or none is.
    AllOrNone,
    /// Each is independent; the store may take them a few hundred at a time.
    Each,
}

/// The number of a request: 128 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op(pub u128);

/// A position in a queue: the lower one was first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u64);
