//! The seam: a store of named locks shows a consistent view to a pure judge and carries its ruling
//! out, atomically, or asks again.
//!
//! | module | content |
//! | --- | --- |
//! | [`request`](Request) | what is asked: names, intents, and what is kept over all tries |
//! | [`view`](View) | what a store shows: who holds a name, who waits, what freezes it |
//! | [`answer`](Done) | what a judge rules and what a store answers |
//! | [`presence`](Presence) | the caller's own place in queues and under holds |
//!
//! A mutex (files) and an optimistic transaction (engines) are two ways to run [`Store::transact`].
//! A store never decides: [`crate::judge`] does, for all stores. It measures time by itself: lapse and
//! liveness come with the view, so nothing above it compares clocks. Every trait is object-safe and
//! blocking; whatever may block has a [`Call`].

mod answer;
mod audit;
mod contract;
mod presence;
mod request;
mod view;
mod watched;

use std::path::PathBuf;

use lokt_core::audit::Event;
use lokt_core::checkup::Check;
use lokt_core::hold::Hold;
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;
use lokt_core::time::Moment;

pub use answer::{Answers, Commit, Committed, Done, Lasts, Queued, Ruling, Stayed, WakeOn};
pub use audit::{AuditLog, Follow, Found, Show};
pub use contract::{Child, Contract, Expiry, Publish, Several};
pub use lokt_core::decide::Token;
pub use lokt_sys::call::Call;
pub use lokt_sys::nap::Subscription;
pub use presence::{CommandRecord, Kept, Presence};
pub use request::{Ask, Op, Place, Request, Target, Unity};
pub(crate) use view::held_if_unreadable;
pub use view::{Depth, Frozen, QueueDepth, Slot, View, Waiter};
pub use watched::WatchedPlace;

use lokt_sys::error::Error;
use lokt_sys::wakeup::Wakeup;
use lokt_sys::warnings::Warning;

/// Rules on the view of the ask of this number. Pure: may be called again, with a newer view.
pub type Judge<'j> = dyn FnMut(usize, &View) -> Ruling + 'j;

/// Sees one name of a scan. Called from any thread, in any order; the number is its place in the
/// order of the names.
pub type See<'s> = dyn Fn(usize, &LockName, View) + Sync + 's;

/// A store of named locks.
pub trait Store: Send + Sync {
    /// What this store promises. Consulted, never guessed.
    fn contract(&self) -> &Contract;

    /// Where the store is, or a name in it, for messages: a path, or the address of an engine.
    fn location(&self, name: Option<&LockName>) -> PathBuf;

    /// One consistent look at a name. Changes nothing and takes no lock that others wait for.
    /// `mine`: the caller's own place in the queue isn't ahead of it.
    fn view(&self, name: &LockName, depth: Depth, mine: Option<&dyn Presence>, call: &Call<'_>) -> Result<View, Error>;

    /// The names about which the store knows something, in order. Reads no record.
    fn names(&self, of: Scan, call: &Call<'_>) -> Result<Vec<LockName>, Error>;

    /// A view of many names in few requests. Names that vanish meanwhile are left out. For
    /// [`Scan::Frozen`] the slot of each view is the freeze itself.
    fn scan(&self, of: Scan, depth: Depth, call: &Call<'_>, see: &See<'_>) -> Result<(), Error>;

    /// Shows `judge` the view of each ask and carries the rulings out.
    ///
    /// The answers have the numbers of their asks. A failure comes last, with a number of none.
    /// [`Unity::AllOrNone`]: all views are of one moment, and all rulings are carried out or none. A
    /// refusal comes last, mostly alone. Answers before it, or before a failure, say what was granted
    /// because another program interfered: the caller gives it back. [`Unity::Each`]: every ask stands
    /// for itself until one fails.
    ///
    /// An error of kind `Busy` came before anything was changed; one of kind `Halted` says that the
    /// caller stopped the call.
    fn transact(&self, request: &mut Request<'_>, judge: &mut Judge<'_>, call: &Call<'_>) -> Result<Answers, Error>;

    /// Leaves the queue and gives the presence up. `told` makes the events for the audit log; without
    /// it the request failed, and a hold that may have been stored stays as that of a dead process.
    /// Never fails: what can't be removed ends by itself.
    fn leave(&self, request: &mut Request<'_>, told: Option<&mut Told<'_>>, call: &Call<'_>);

    /// Runs `act` if `judge` lets the ask pass ([`Ruling::Stay`] without a denial): inside the mutex, or
    /// between two checks; [`Contract::publish`] says which. The ruling is made and told once.
    fn under(
        &self,
        request: &Request<'_>,
        judge: &mut Judge<'_>,
        act: &mut dyn FnMut() -> Result<(), Error>,
        call: &Call<'_>,
    ) -> Result<Done, Error>;

    /// Rings `wakeup`, or makes the subscription readable, when `on` may have happened: a hint.
    /// `None`: it has happened.
    fn arm(&self, name: &LockName, on: WakeOn, wakeup: &Wakeup) -> Option<Subscription>;

    /// True if a waiter should look again although nothing woke it. Asked about once a second, so it is
    /// cheap and takes no lock that others wait for.
    fn needs_recheck(&self, name: &LockName, queued: &Queued, call: &Call<'_>) -> bool;

    /// Goes on where the store is now, if its place was deleted or moved since it was opened. `None`: it
    /// wasn't, and an error has another reason. Otherwise what the user should know.
    fn reopen(&self) -> Option<Result<Vec<Warning>, Error>> {
        None
    }

    /// True if the store was made when it was opened. Then no other process uses it yet.
    fn is_new(&self) -> bool {
        false
    }

    /// What reports that something in the store changes: a hint to look sooner. `before` is what an earlier
    /// call returned; what still counts of it is returned again, without what it has reported. A store that
    /// reports nothing is looked at once in a while.
    fn watch(&self, before: Vec<WatchedPlace>) -> Vec<WatchedPlace> {
        drop(before);
        Vec::new()
    }

    /// The command that the guard of `hold` runs, if the store knows.
    fn command(&self, hold: &Hold) -> Option<ProcessRef>;

    /// The audit log.
    fn audit(&self) -> &dyn AuditLog;

    /// Checks what is stored and shows each check to `see`. With `repair`, repairs what can be repaired while
    /// others work; without it, nothing changes. An error: nothing could be checked.
    fn checkup(&self, repair: bool, call: &Call<'_>, see: &mut dyn FnMut(Check)) -> Result<(), Error>;

    /// The store as its own type, for the one who follows the audit log of files.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// Makes the events of what happens at this moment.
pub type Told<'t> = dyn FnMut(&Moment) -> Vec<Event> + 't;

/// Which names a scan is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scan {
    /// Names with a record of a hold, live or not.
    Held,
    /// Names with a freeze.
    Frozen,
    /// Names with a queue.
    Awaited,
}

#[cfg(test)]
mod tests {
    use super::{AuditLog, Follow, Presence, Store};

    #[test]
    fn every_trait_of_the_seam_is_object_safe() {
        fn takes(_: Option<&dyn Store>, _: Option<&dyn Presence>, _: Option<&dyn AuditLog>, _: Option<&dyn Follow>) {}
        takes(None, None, None, None);
    }
}
