//! Transactions: appending events that depend on the content of the ledger.

use std::fmt;

use crate::Error;
use lokt_core::ledger::fold::Folded;
use lokt_ledger::Transacted;
use lokt_sys::warnings::WithWarnings;

use super::{Appended, Events, Ledger, NewEvent};
use crate::Holder;

impl Ledger {
    /// Appends the events that `decide` returns for the ledger, if no other writer was faster.
    /// Returns `None` if `decide` returns no event.
    ///
    /// If the ledger has changed, `decide` is called again with the new events, at most a few
    /// times. It must therefore not have side effects. Its last answer is about the ledger to which
    /// the events are appended. A program that ignores the lock of the ledger is not kept out.
    ///
    /// # Errors
    ///
    /// The error of `decide`, in which case nothing was appended; or an error of lokt, converted
    /// into `E`.
    ///
    /// ```
    /// use lokt::ledger::{Ledger, NewEvent};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = Ledger::create(dir.path())?;
    /// // At most two seats, for any number of programs.
    /// let book = |name: &str| {
    ///     ledger.transact(|view| {
    ///         let mut booked = 0;
    ///         for event in view.events() {
    ///             booked += usize::from(event?.kind() == "booked");
    ///         }
    ///         if booked == 2 {
    ///             return Err("sold out".into());
    ///         }
    ///         let booking = NewEvent::new("booked", &format!(r#"{{"by":"{name}"}}"#))?;
    ///         Ok::<_, Box<dyn std::error::Error>>(vec![booking])
    ///     })
    /// };
    /// book("alice")?;
    /// book("bob")?;
    /// assert_eq!(book("carol").expect_err("both are booked").to_string(), "sold out");
    /// # Ok(())
    /// # }
    /// ```
    pub fn transact<E: From<Error>>(
        &self,
        mut decide: impl FnMut(&View<'_>) -> Result<Vec<NewEvent>, E>,
    ) -> Result<Option<Appended>, E> {
        let said = self.inner.transact(|folded| {
            let events = decide(&View { ledger: self, folded })?;
            Ok(events.into_iter().map(NewEvent::into_draft).collect())
        });
        let WithWarnings { value, warnings } = said.map_err(Error::from)?;
        match value {
            Transacted::Appended(value) => Ok(Some(Appended::of(WithWarnings { value, warnings }))),
            Transacted::Nothing => Ok(None),
            Transacted::Denied(denied) => Err(denied),
        }
    }
}

/// A consistent view of a ledger, shown to a [transaction](Ledger::transact).
///
/// ```
/// use lokt::ledger::{Ledger, NewEvent};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let ledger = Ledger::create(dir.path())?;
/// // Adds a task only if no program works on it, and the ledger is complete.
/// let added = ledger.transact(|view| {
///     if view.holder("1.2").is_some() || view.damage().is_some() {
///         return Ok(Vec::new());
///     }
///     assert_eq!(view.events().count() as u64, view.head());
///     Ok::<_, lokt::Error>(vec![NewEvent::new("task_added", r#"{"task":"1.2"}"#)?])
/// })?;
/// assert!(added.is_some());
/// # Ok(())
/// # }
/// ```
pub struct View<'a> {
    ledger: &'a Ledger,
    folded: &'a Folded,
}

impl View<'_> {
    /// Returns the number of the last event; 0 for an empty ledger.
    pub fn head(&self) -> u64 {
        self.folded.through
    }

    /// Returns all events of the view, in order.
    pub fn events(&self) -> Events<'_> {
        Events::new(&self.ledger.inner, 1, self.head())
    }

    /// Returns the holder of a task; `None` if the task is free or its claim has expired.
    pub fn holder(&self, task: &str) -> Option<Holder> {
        let claim = self.folded.table.claim(task)?;
        let holder = claim.holder(task, &self.ledger.inner.now(), self.ledger.inner.me());
        holder.lives().then(|| Holder::of(holder))
    }

    /// Returns the reason why the view is incomplete: the first event that is missing or damaged.
    pub fn damage(&self) -> Option<&str> {
        self.folded.trouble.first().map(|(_, what)| what.as_str())
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("head", &self.head()).finish_non_exhaustive()
    }
}
