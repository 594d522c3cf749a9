//! Following a ledger: existing and future events.

use std::fmt;

use lokt_ledger::Follower;
use lokt_sys::wait_policy::Interrupt;

use super::{Event, Ledger};
use crate::{Cancel, Error};

impl Ledger {
    /// Returns the events from number `from` on, and waits for new ones. The iterator ends only if
    /// [`cancel`](Follow::cancel) ends it, or after a system error.
    ///
    /// `ledger.head()? + 1` starts with the next event. A missing or damaged event is an error of
    /// the kind [`ErrorKind::Damaged`](crate::ErrorKind::Damaged). If an earlier state of the
    /// ledger is restored during the iteration, that is an error of the kind
    /// [`ErrorKind::Changed`](crate::ErrorKind::Changed); the events that are new in that state
    /// follow. The iterator continues after both errors.
    ///
    /// ```
    /// use std::thread;
    /// use lokt::Cancel;
    /// use lokt::ledger::Ledger;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = Ledger::create(dir.path())?;
    /// let cancel = Cancel::new();
    /// let follower = thread::spawn({
    ///     let events = ledger.follow(1).cancel(&cancel);
    ///     move || -> Vec<u64> { events.flatten().take(2).map(|event| event.seq()).collect() }
    /// });
    /// ledger.append("opened", "{}")?;
    /// ledger.append("closed", "{}")?;
    /// assert_eq!(follower.join().expect("it doesn't panic"), [1, 2]);
    ///
    /// cancel.cancel();
    /// assert!(ledger.follow(1).cancel(&cancel).next().is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow(&self, from: u64) -> Follow {
        let after = from.saturating_sub(1);
        Follow { ledger: self.clone(), after, cancel: None, follower: None, is_over: false }
    }
}

/// Events of a ledger, returned as they are appended. Made by [`Ledger::follow`].
#[must_use = "nothing is read before the iterator is asked for an event"]
pub struct Follow {
    ledger: Ledger,
    after: u64,
    cancel: Option<Cancel>,
    /// `None` before the first event is requested.
    follower: Option<Follower>,
    is_over: bool,
}

impl Follow {
    /// Lets `cancel` end the iterator, even while it waits.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Waits for the next event; `None` if it was cancelled.
    fn wait(&mut self) -> Result<Option<Result<Event, Error>>, Error> {
        let mut alarm = match &self.cancel {
            None => None,
            Some(cancel) => match cancel.alarm()? {
                None => return Ok(None),
                alarm => alarm,
            },
        };
        let follower = match &mut self.follower {
            Some(follower) => follower,
            none => none.insert(self.ledger.inner.follower(self.after)?),
        };
        let found = follower.next(alarm.as_mut().map(|alarm| alarm as &mut dyn Interrupt))?;
        Ok(found.map(|(seq, slot)| Event::of(seq, slot)))
    }
}

impl Iterator for Follow {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let answer = self.wait();
        self.is_over = !matches!(answer, Ok(Some(_)));
        answer.unwrap_or_else(|error| Some(Err(error)))
    }
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Follow");
        shown.field("ledger", &self.ledger).field("is_over", &self.is_over).finish_non_exhaustive()
    }
}
