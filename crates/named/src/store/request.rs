//! What is asked of a store.

use std::sync::Arc;

use lokt_core::decide::{Breaking, InheritedHold, Intent, ProcessHolder, Terms};
use lokt_core::hold::{Identity, LockId};
use lokt_core::name::LockName;
use lokt_core::pulse::{ProcessRef, Profile};

use super::{Depth, Presence, QueueDepth};

/// A request for one or several names. The caller keeps it over all tries; nothing of a medium is in
/// it.
pub struct Request<'a> {
    /// Names the request in the store, where an answer may get lost.
    pub op: Op,
    /// The caller.
    pub me: &'a Identity,
    /// What is asked, a name at a time. No two asks have the same name and target.
    pub asks: &'a [Ask<'a>],
    /// How the asks belong together.
    pub unity: Unity,
    /// A refusal that time may change puts the caller in the queue.
    pub waits: bool,
    /// The caller's presence. The store makes it when it is first needed and takes it away when the
    /// request ends without a hold; then the caller owns it.
    pub presence: Option<Arc<dyn Presence>>,
    /// Its place in all queues, where stores give a request one. Kept when the presence is lost.
    pub place: Option<Place>,
}

impl<'a> Request<'a> {
    /// A request for all of `asks` together that doesn't wait.
    pub fn of(me: &'a Identity, op: Op, asks: &'a [Ask<'a>]) -> Self {
        Self { op, me, asks, unity: Unity::AllOrNone, waits: false, presence: None, place: None }
    }
}

/// What is asked of one name.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// The name.
    pub name: &'a LockName,
    /// What of it.
    pub target: Target,
    /// What is asked.
    pub intent: Intent,
    /// The id that a new hold gets.
    pub fresh_id: LockId,
    /// What the caller says about itself while it waits and holds.
    pub profile: Profile,
}

impl<'a> Ask<'a> {
    /// Asks something of the lock `name`.
    pub fn lock(name: &'a LockName, intent: Intent, fresh_id: LockId) -> Self {
        let reason = match &intent {
            Intent::Lock(terms) | Intent::TakeOver(terms) | Intent::Guard(terms, _) => terms.reason.clone(),
            _ => None,
        };
        let profile = Profile { reason, ..Profile::default() };
        Self { name, target: Target::Lock, intent, fresh_id, profile }
    }

    /// Asks for a hold that lives with the presence of `me`. `inside`: the hold that it runs under.
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

    /// Asks something of the freeze over `name`.
    pub fn freeze(name: &'a LockName, intent: Intent, fresh_id: LockId) -> Self {
        Self { target: Target::Freeze, ..Self::lock(name, intent, fresh_id) }
    }

    /// True if it asks for a hold.
    pub fn takes(&self) -> bool {
        matches!(self.intent, Intent::Lock(_) | Intent::TakeOver(_) | Intent::Guard(..))
    }

    /// True if the hold that it asks for lives with the caller's presence: a guard's does.
    pub fn is_present(&self) -> bool {
        matches!(&self.intent, Intent::Guard(_, holder) if holder.has_pulse)
    }

    /// True if it is about whatever is there, even if that can't be read.
    pub fn forces(&self) -> bool {
        matches!(self.intent, Intent::Unlock(Breaking::Force, _) | Intent::Unfreeze { force: true })
    }

    /// True if it gives a guard's hold back.
    pub fn releases(&self) -> bool {
        matches!(self.intent, Intent::Release(_))
    }

    /// How much a judge must know to rule on it.
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

/// What of a name is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The lock.
    Lock,
    /// The freeze over it.
    Freeze,
}

/// How the asks of a request belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unity {
    /// All are granted, or none is.
    AllOrNone,
    /// Each stands for itself; the store may take them a few hundred at a time.
    Each,
}

/// The number of a request: 128 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op(pub u128);

/// A place in a queue: the lower one was first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u64);
