//! Rulings of a judge, and answers of a store.

use std::time::Duration;

use lokt_core::audit::Event;
use lokt_core::decide::{Broken, Cause, Token};
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Fence, Hold, PulseRef};
use lokt_core::time::Moment;

use super::Place;
use lokt_sys::error::Error;
use lokt_sys::warnings::Warning;

/// Decision about an ask.
#[derive(Debug)]
pub enum Ruling {
    /// Store this, if the stored record is still the one that was judged.
    Commit(Box<Commit>),
    /// Refuse it for now, and put the caller in the queue.
    Queue(Denial),
    /// Change nothing.
    Stay {
        /// Reason for the refusal; `None`: the caller is already inside the hold, or acts under its
        /// token.
        why: Option<Denial>,
        /// Events for the audit log.
        events: Vec<Event>,
    },
}

impl Ruling {
    /// Returns the reason for a refusal, temporary or final.
    pub fn denial(&self) -> Option<&Denial> {
        match self {
            Self::Commit(_) => None,
            Self::Queue(denial) => Some(denial),
            Self::Stay { why, .. } => why.as_ref(),
        }
    }
}

/// A change of what is stored under a name.
#[derive(Debug)]
pub struct Commit {
    /// The hold to store in place of the one that was judged; `None`: that one ends.
    pub next: Option<Box<Hold>>,
    /// The token that it gets. A drawn one is filled in by the store.
    pub token: Token,
    /// The cause of the change.
    pub cause: Cause,
    /// The obstacle that is broken for it.
    pub broken: Option<Broken>,
    /// Events for the audit log: about what is broken, then about what is stored, which is the
    /// last.
    pub events: Vec<Event>,
    /// Event to log instead, if the judged hold was removed and nothing was stored.
    pub removed: Option<Event>,
}

impl Commit {
    /// Fills in the token that was drawn. On an engine that draws when it commits, readers do that.
    pub fn fill_token(&mut self, drawn: Fence) {
        let (Some(next), Token::Draw) = (&mut self.next, self.token) else { return };
        next.token = Some(drawn);
        if let Some(event) = self.events.last_mut() {
            event.extra.insert("fencing_token".into(), drawn.get().into());
        }
    }

    /// Stores `written` instead: the same hold, which was written on an earlier entry and has the
    /// lease of that time.
    pub fn store_written(&mut self, written: Hold) {
        // The event of a break describes its victim, which is unchanged.
        if let (Some(event), false) = (self.events.last_mut(), self.cause == Cause::ForceBreak) {
            event.ttl_sec = written.ttl_sec;
        }
        self.next = Some(Box::new(written));
    }

    /// Fills in the pulse of a guard's hold.
    pub fn fill_pulse(&mut self, pulse: Option<PulseRef>) {
        if let Some(next) = &mut self.next {
            next.pulse = pulse;
        }
    }
}

/// The answers to a request, each with the number of its ask.
pub type Answers = Vec<(usize, Done)>;

/// Result of an ask.
#[derive(Debug)]
pub enum Done {
    /// It was carried out.
    Committed(Box<Committed>),
    /// It is refused for now; the caller is in the queue.
    Queued(Box<Queued>),
    /// Nothing was changed.
    Stayed(Box<Stayed>),
    /// It failed after other asks of the request were carried out.
    Failed(Error),
}

/// A change that was carried out.
#[derive(Debug)]
pub struct Committed {
    /// The hold as it is stored now; `None`: the name is free.
    pub hold: Option<Box<Hold>>,
    /// The cause of the change.
    pub cause: Cause,
    /// The obstacle that was broken for it.
    pub broken: Option<Broken>,
    /// The previous holder.
    pub before: Option<Box<Holder>>,
    /// Lifetime of the presence of a guard's hold unless it is kept; `None`: it has no end.
    pub lasts: Option<Lasts>,
    /// Path to which a record was moved that couldn't be understood.
    pub aside: Option<String>,
    /// Warnings for the user, although it worked.
    pub warnings: Vec<Warning>,
}

/// Lifetime of a presence.
#[derive(Debug, Clone, Copy)]
pub struct Lasts {
    /// Time before the first byte of the renewal that counts was sent.
    pub sent: Moment,
    /// Its length from then on.
    pub ttl: Duration,
}

/// A position in the queue, as it was at the last check.
#[derive(Debug)]
pub struct Queued {
    /// The reason for waiting.
    pub why: Denial,
    /// Time at which that was seen.
    pub at: Moment,
    /// The caller's position.
    pub place: Place,
    /// Number of living waiters ahead.
    pub ahead: usize,
    /// The event that is worth waking up for.
    pub wake_on: WakeOn,
    /// Time until the name may become available automatically.
    pub left: Option<Duration>,
}

/// Event that wakes a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WakeOn {
    /// The waiter at this position leaves the queue or is granted the name.
    Ahead(Place),
    /// This pulse of the holder stops.
    Pulse(u64),
    /// This process, which holds the name, ends.
    Process(i64),
    /// The state stored under the name changes.
    Holder,
    /// The freeze over the name changes.
    Freeze,
    /// Nothing that the store could report.
    Time,
}

/// An answer that changed nothing.
#[derive(Debug)]
pub struct Stayed {
    /// Reason for the refusal; `None`: the caller is already inside the hold, or acts under its
    /// token.
    pub why: Option<Denial>,
    /// The stored hold.
    pub holder: Option<Box<Holder>>,
    /// Number of waiters.
    pub waiting: usize,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
}
