//! The seam: a store of named locks shows a consistent view to a pure judge and carries out its
//! ruling, atomically, or asks again.
//!
//! | module | content |
//! | --- | --- |
//! | [`request`](Request) | a request: names, intents, and the state that is kept over all tries |
//! | [`view`](View) | a view of a name: its holder, its waiters, its freeze |
//! | [`answer`](Done) | rulings of a judge and answers of a store |
//! | [`presence`](Presence) | the caller's own position in queues and under holds |
//!
//! A mutex (files) and an optimistic transaction (engines) are two ways to run [`Store::transact`].
//! A store never decides: [`crate::judge`] does, for all stores. The store itself measures time:
//! expiry and liveness come with the view, so nothing above it compares clocks. Every trait is
//! object-safe and blocking; every function that may block takes a [`Call`].

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

/// Rules on the view of the ask with this number. Pure: may be called again, with a newer view.
pub type Judge<'j> = dyn FnMut(usize, &View) -> Ruling + 'j;

/// Receives one name of a scan. Called from any thread, in any order; the number is its position in
/// the order of the names.
pub type See<'s> = dyn Fn(usize, &LockName, View) + Sync + 's;

/// A store of named locks.
pub trait Store: Send + Sync {
    /// Returns the guarantees of this store. Consulted, never guessed.
    fn contract(&self) -> &Contract;

    /// Returns the location of the store, or of a name in it, for messages: a path, or the address
    /// of an engine.
    fn location(&self, name: Option<&LockName>) -> PathBuf;

    /// Returns one consistent view of a name. Changes nothing and takes no lock that others wait
    /// for. `mine`: the caller's own position in the queue isn't ahead of it.
    fn view(&self, name: &LockName, depth: Depth, mine: Option<&dyn Presence>, call: &Call<'_>) -> Result<View, Error>;

    /// Returns the names about which the store knows something, in order. Reads no record.
    fn names(&self, of: Scan, call: &Call<'_>) -> Result<Vec<LockName>, Error>;

    /// Shows the views of many names in few requests. Names that vanish in the meantime are left
    /// out. For [`Scan::Frozen`] the slot of each view is the freeze itself.
    fn scan(&self, of: Scan, depth: Depth, call: &Call<'_>, see: &See<'_>) -> Result<(), Error>;

    /// Shows `judge` the view of each ask and carries out the rulings.
    ///
    /// The answers have the numbers of their asks. A failure comes last, with the number of no ask.
    /// [`Unity::AllOrNone`]: all views are of one moment, and all rulings are carried out or none.
    /// A refusal comes last, usually alone. Answers before it, or before a failure, say what was
    /// granted because another program interfered: the caller must release it. [`Unity::Each`]:
    /// every ask is independent until one fails.
    ///
    /// An error of kind `Busy` came before anything was changed; one of kind `Halted` means that
    /// the caller stopped the call.
    fn transact(&self, request: &mut Request<'_>, judge: &mut Judge<'_>, call: &Call<'_>) -> Result<Answers, Error>;

    /// Leaves the queue and gives up the presence. `told` creates the events for the audit log.
    /// Without it the request failed, and a hold that may have been stored stays as that of a dead
    /// process. Never fails: what can't be removed ends automatically.
    fn leave(&self, request: &mut Request<'_>, told: Option<&mut Told<'_>>, call: &Call<'_>);

    /// Runs `act` if `judge` lets the ask pass ([`Ruling::Stay`] without a denial): inside the
    /// mutex, or between two checks; [`Contract::publish`] says which. The ruling is made and
    /// logged once.
    fn under(
        &self,
        request: &Request<'_>,
        judge: &mut Judge<'_>,
        act: &mut dyn FnMut() -> Result<(), Error>,
        call: &Call<'_>,
    ) -> Result<Done, Error>;

    /// Rings `wakeup`, or makes the subscription readable, when `on` may have happened: a hint.
    /// Returns `None` if it has already happened.
    fn arm(&self, name: &LockName, on: WakeOn, wakeup: &Wakeup) -> Option<Subscription>;

    /// Reports whether a waiter should check again although nothing woke it. Asked about once a
    /// second, so it is cheap and takes no lock that others wait for.
    fn needs_recheck(&self, name: &LockName, queued: &Queued, call: &Call<'_>) -> bool;

    /// Continues where the store is now, if its location was deleted or moved since it was opened.
    /// Returns `None` if it wasn't, and an error has another reason; otherwise the warnings for the
    /// user.
    fn reopen(&self) -> Option<Result<Vec<Warning>, Error>> {
        None
    }

    /// Reports whether the store was created when it was opened. Then no other process uses it yet.
    fn is_new(&self) -> bool {
        false
    }

    /// Returns watches that report changes in the store: a hint to check sooner. `before` is what
    /// an earlier call returned; those that still count are returned again, without what they have
    /// reported. A store that reports nothing is checked once in a while.
    fn watch(&self, before: Vec<WatchedPlace>) -> Vec<WatchedPlace> {
        drop(before);
        Vec::new()
    }

    /// Returns the command that the guard of `hold` runs, if the store knows.
    fn command(&self, hold: &Hold) -> Option<ProcessRef>;

    /// Returns the audit log.
    fn audit(&self) -> &dyn AuditLog;

    /// Checks what is stored and shows each check to `see`. With `repair`, repairs what can be
    /// repaired while others work; without it, nothing changes. An error means that nothing could
    /// be checked.
    fn checkup(&self, repair: bool, call: &Call<'_>, see: &mut dyn FnMut(Check)) -> Result<(), Error>;

    /// Returns the store as its own type, for the follower of the audit log in files.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// Creates the events for what happens at this moment.
pub type Told<'t> = dyn FnMut(&Moment) -> Vec<Event> + 't;

/// The names that a scan is about.
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
