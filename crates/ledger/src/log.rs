//! The interface between decisions about a ledger and its storage.
//!
//! An [`EventLog`] shows a [`Compose`]r a consistent view of the ledger, the composer says which
//! events follow, and the log adds them atomically or asks again. A log that excludes other writers
//! (files) and one that tries optimistically are two ways to run the same composer. All traits are
//! object-safe and blocking; each call has a deadline and can be stopped.

use std::cell::Cell;
use std::io;
use std::ops::ControlFlow;

use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::fold::Folded;
use lokt_core::ledger::seq::Seq;
use lokt_core::time::Moment;

use crate::answers::Slot;
use lokt_sys::call::Call;
use lokt_sys::error::Error;
use lokt_sys::machine::Machine;
use lokt_sys::nap::Subscription;
use lokt_sys::wakeup::Wakeup;
use lokt_sys::warnings::{Warning, WithWarnings};

/// Callback for the content of each number; its answer says whether to go on.
pub type See<'s> = dyn FnMut(Seq, Slot) -> ControlFlow<()> + 's;

/// A stored sequence of events.
pub trait EventLog: Send + Sync {
    /// Returns the highest number; 0 of an empty log. Another writer may add events at once.
    fn head(&self, call: &Call<'_>) -> Result<WithWarnings<u64>, Error>;

    /// Shows what is under `from`, and under each number after it up to the head. Of missing
    /// numbers in a row only the first is shown.
    fn read(&self, from: Seq, call: &Call<'_>, see: &mut See<'_>) -> Result<(), Error>;

    /// Adds the events that `composer` returns, durably; `None` if it returned none. `composer` is
    /// pure and may be asked several times: its last answer counts.
    fn commit(
        &self,
        op: &Op,
        composer: &mut dyn Compose,
        call: &Call<'_>,
    ) -> Result<WithWarnings<Option<Committed>>, Error>;

    /// Shows `composer` the ledger and checks the events that it returns, but adds none.
    fn rehearse(&self, composer: &mut dyn Compose, call: &Call<'_>) -> Result<WithWarnings<Option<Rehearsed>>, Error>;

    /// Makes an event durable whose writer may have been killed before it did so.
    fn persist(&self, _seq: Seq, _call: &Call<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Fails if the log is no longer the one that was opened.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Rings `wakeup`, or makes the subscription readable, when there may be events after `after`;
    /// `None`: after the current head. Only a hint. Dropping the subscription ends it.
    fn arm(&self, after: Option<Seq>, wakeup: &Wakeup) -> Result<Subscription, Error>;
}

/// Knowledge that a composer needs. The more it needs, the more is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Nothing: it adds the same events to any ledger.
    Nothing,
    /// The highest number.
    Head,
    /// The fold of all events.
    Fold,
}

/// A composer's answer. The reason for a refusal stays with the composer.
#[derive(Debug)]
pub enum Composed {
    /// Add these events, at least one.
    Add(Vec<Piece>),
    /// There is nothing to add.
    Nothing,
    /// Nothing may be added.
    Refused,
}

/// Decides which events follow. Pure: may be asked several times about different views.
pub trait Compose {
    /// Returns what it needs to know.
    fn need(&self) -> Need;

    /// Returns the events that follow the ledger in this state.
    fn compose(&mut self, at: &mut LedgerView<'_>) -> Result<Composed, Error>;

    /// Reports whether its events carry the chain even where the ledger's setting says no.
    fn is_chained(&self) -> bool {
        false
    }

    /// Notifies that the first `count` events of the last answer have been published; the rest is
    /// asked for again.
    fn published(&mut self, _count: usize) {}

    /// Notifies that, of all events that were published, a foreign writer replaced these before
    /// they were acknowledged; they are asked for again.
    fn lost(&mut self, _which: &[usize]) {}

    /// Notifies that `done` of `total` events have been written.
    fn progress(&mut self, _done: u64, _total: u64) {}
}

/// The state of a ledger, as a composer sees it.
pub struct LedgerView<'v> {
    /// The highest number, not counting a filler that this commit added.
    pub head: u64,
    /// The number of the next event.
    pub next: Seq,
    /// The lowest missing number, as far as it is known.
    pub gap: Option<u64>,
    /// The fold of all events, for composers that need it.
    pub folded: Option<&'v mut Folded>,
    /// The time to decide for.
    pub now: Moment,
    /// The index of idempotency keys.
    pub keys: &'v dyn Keys,
}

impl LedgerView<'_> {
    /// The fold of all events. Only for composers that [need](Compose::need) it.
    pub fn fold(&self) -> &Folded {
        self.folded.as_deref().expect("a composer that needs the fold gets it")
    }

    /// Returns the number of the first event with this idempotency key.
    pub fn seq_of_key(&mut self, key: &str) -> Result<Option<Seq>, Error> {
        match self.folded.as_deref_mut() {
            Some(folded) => self.keys.seq_of_key(folded, key),
            None => Ok(None),
        }
    }
}

/// An index of idempotency keys, which are too many to be part of the fold.
pub trait Keys {
    /// Returns the number of the first event with this key. May fold everything anew.
    fn seq_of_key(&self, folded: &mut Folded, key: &str) -> Result<Option<Seq>, Error>;
}

/// An event to be added.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Its content.
    pub draft: Draft,
    /// Its idempotency key.
    pub id: Option<String>,
    /// The claim under which it is added.
    pub token: Option<Seq>,
}

impl From<Draft> for Piece {
    fn from(draft: Draft) -> Self {
        Self { draft, id: None, token: None }
    }
}

/// Events that were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The first number.
    pub first: Seq,
    /// The last number.
    pub last: Seq,
    /// Their count. A foreign writer's events may lie between them.
    pub count: u64,
    /// The number that was filled for a writer whose lock was taken over.
    pub filler: Option<Seq>,
}

/// Events that would be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rehearsed {
    /// The highest number before them.
    pub head: u64,
    /// Their count, at least one.
    pub count: u64,
}

/// The identity of one commit over all tries: 128 random bits, drawn only by logs that need them to
/// recognise their own late request.
#[derive(Debug, Default)]
pub struct Op(Cell<Option<u128>>);

impl Op {
    /// A new operation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns its id, the same each time.
    pub fn id(&self, machine: &dyn Machine) -> io::Result<u128> {
        if let Some(id) = self.0.get() {
            return Ok(id);
        }
        let id = machine.random()?;
        self.0.set(Some(id));
        Ok(id)
    }
}

/// Shows `see` the ledger with the fold of all events. Returns warnings about the ledger.
pub fn view(log: &dyn EventLog, call: &Call<'_>, see: &mut dyn FnMut(&LedgerView<'_>)) -> Result<Vec<Warning>, Error> {
    Ok(log.rehearse(&mut Viewer(see), call)?.warnings)
}

/// A composer that adds nothing.
struct Viewer<'s>(&'s mut dyn FnMut(&LedgerView<'_>));

impl Compose for Viewer<'_> {
    fn need(&self) -> Need {
        Need::Fold
    }

    fn compose(&mut self, at: &mut LedgerView<'_>) -> Result<Composed, Error> {
        (self.0)(at);
        Ok(Composed::Nothing)
    }
}
