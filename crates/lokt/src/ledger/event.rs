//! Events: those that were read, and those to be appended.

use std::fmt;
use std::ops::ControlFlow;
use std::time::SystemTime;

use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::Seq;
use lokt_core::ledger::stored::{self, Damage, Stored};
use lokt_ledger::Slot;
use lokt_sys::call::Call;
use lokt_sys::error::ErrorKind;
use lokt_sys::machine::system_time;

use crate::Error;

/// Members of an event that have their own accessors, as spelled in JSON.
const NAMED: [&str; 2] = ["\"type\"", "\"timestamp\""];

/// An event of a ledger.
///
/// ```
/// use lokt::ledger::Ledger;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let ledger = Ledger::create(dir.path())?;
/// ledger.append("task_added", r#"{"task": "1.2"}"#)?;
/// let event = ledger.read(1).next().expect("there is one event")?;
/// assert_eq!((event.seq(), event.kind()), (1, "task_added"));
/// assert_eq!(event.body(), r#"{"task":"1.2"}"#);
/// assert!(event.time().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    seq: u64,
    kind: String,
    time: Option<SystemTime>,
    body: String,
}

impl Event {
    /// Returns the event with this number, or an error that says what is wrong with it.
    pub(super) fn of(seq: Seq, slot: Slot) -> Result<Self, Error> {
        let damage = match slot {
            Slot::Event(bytes) => match Self::parse(seq, &bytes) {
                Ok(event) => return Ok(event),
                Err(damage) => damage,
            },
            Slot::Damaged(damage) => damage,
            Slot::Missing => return Err(damaged(format!("event {seq} is missing"))),
            Slot::Rewound { head } => {
                let message = format!("the ledger is another one from event {seq} on, and ends with event {head}");
                return Err(Error::new(ErrorKind::Moving, message));
            }
        };
        Err(damaged(format!("event {seq} is damaged: it {damage}")))
    }

    fn parse(seq: Seq, bytes: &[u8]) -> Result<Self, Damage> {
        let event = Stored::parse(bytes)?;
        let members = stored::shown(bytes)?.into_iter().filter(|(name, _)| !NAMED.contains(name));
        let members: Vec<String> = members.map(|(name, value)| format!("{name}:{value}")).collect();
        Ok(Self {
            seq: seq.get(),
            kind: event.shown_kind().to_owned(),
            time: event.timestamp.map(system_time),
            body: format!("{{{}}}", members.join(",")),
        })
    }

    /// Returns its number in the ledger.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns its type.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the time at which it was written, by the writer's clock.
    pub fn time(&self) -> Option<SystemTime> {
        self.time
    }

    /// Returns its other members as a JSON object without whitespace. Numbers are as they were
    /// written.
    pub fn body(&self) -> &str {
        &self.body
    }
}

fn damaged(what: String) -> Error {
    Error::new(ErrorKind::Damaged, what)
}

/// An event to be appended.
///
/// ```
/// use lokt::ledger::NewEvent;
///
/// # fn main() -> Result<(), lokt::Error> {
/// let event = NewEvent::new("task_added", r#"{"task":"1.2"}"#)?;
/// assert_eq!(event.kind(), "task_added");
/// assert!(NewEvent::new("task_added", "not JSON").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    draft: Draft,
}

impl NewEvent {
    /// Creates an event of the type `kind`. `body` is a JSON object with its other members; `{}` if
    /// there are none. A member `timestamp` replaces the time of the append.
    ///
    /// # Errors
    ///
    /// The kind is [`ErrorKind::BadInput`](crate::ErrorKind::BadInput) if `body` is not a JSON
    /// object, or if a member is reserved.
    pub fn new(kind: &str, body: &str) -> Result<Self, Error> {
        let draft = Draft::with_body(kind, body).map_err(|bad| Error::new(ErrorKind::BadEvent, bad.to_string()))?;
        Ok(Self { draft })
    }

    /// Returns its type.
    pub fn kind(&self) -> &str {
        self.draft.kind()
    }

    pub(super) fn into_draft(self) -> Draft {
        self.draft
    }
}

/// Events of a ledger, in order. Made by [`Ledger::read`](super::Ledger::read) and
/// [`View::events`](super::View::events).
pub struct Events<'a> {
    ledger: &'a lokt_ledger::Ledger,
    /// The next number; `None` at the end.
    next: Option<Seq>,
    last: u64,
}

impl<'a> Events<'a> {
    pub(super) fn new(ledger: &'a lokt_ledger::Ledger, from: u64, last: u64) -> Self {
        Self { ledger, next: Seq::new(from.max(1)), last }
    }

    /// Finds the next number that has an event, and reports whether `from` has none.
    fn find_event(&self, from: Seq) -> Result<(Option<(Seq, Slot)>, bool), Error> {
        let (mut found, mut is_gap) = (None, false);
        self.ledger.log().read(from, &Call::UNLIMITED, &mut |seq, slot| match slot {
            Slot::Missing => {
                is_gap = true;
                ControlFlow::Continue(())
            }
            slot => {
                found = Some((seq, slot));
                ControlFlow::Break(())
            }
        })?;
        Ok((found, is_gap))
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let from = self.next.take().filter(|seq| seq.get() <= self.last)?;
        match self.find_event(from) {
            Err(error) => Some(Err(error)),
            Ok((None, _)) => None,
            Ok((Some((seq, _)), true)) => {
                self.next = Some(seq);
                Some(Event::of(from, Slot::Missing))
            }
            Ok((Some((seq, slot)), false)) => {
                self.next = Seq::new(seq.get() + 1);
                Some(Event::of(seq, slot))
            }
        }
    }
}

impl fmt::Debug for Events<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("next", &self.next.map(Seq::get)).finish_non_exhaustive()
    }
}
