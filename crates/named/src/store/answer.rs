//! What a judge rules, and what a store answers.

use std::time::Duration;

use lokt_core::audit::Event;
use lokt_core::decide::{Broken, Cause, Token};
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Fence, Hold, PulseRef};
use lokt_core::time::Moment;

use super::Place;
use lokt_sys::error::Error;
use lokt_sys::warnings::Warning;

/// What is to be done about an ask.
#[derive(Debug)]
pub enum Ruling {
    /// Store this, if what is stored is still what was judged.
    Commit(Box<Commit>),
    /// Refuse it for now, and put the caller in the queue.
    Queue(Denial),
    /// Change nothing.
    Stay {
        /// Why it is refused; `None`: the caller is inside the hold already, or acts under its token.
        why: Option<Denial>,
        /// What the audit log is told.
        events: Vec<Event>,
    },
}

impl Ruling {
    /// Why it is refused, for now or for good.
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
    /// Which token it gets. A drawn one is filled in by the store.
    pub token: Token,
    /// What that means.
    pub cause: Cause,
    /// What is broken for it.
    pub broken: Option<Broken>,
    /// What the audit log is told: of what is broken, then of what is stored, which is the last.
    pub events: Vec<Event>,
    /// What the audit log is told instead, if the judged hold was removed and nothing was stored.
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

    /// Stores `written` instead: the same hold, which was written at an earlier look and has the
    /// lease of that time.
    pub fn store_written(&mut self, written: Hold) {
        // A break tells of its victim, which is as it was.
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

/// What came of an ask.
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
    /// What that means.
    pub cause: Cause,
    /// What was broken for it.
    pub broken: Option<Broken>,
    /// What was there before.
    pub before: Option<Box<Holder>>,
    /// How long the presence of a guard's hold lasts unless it is kept; `None`: it has no end.
    pub lasts: Option<Lasts>,
    /// Where something that couldn't be understood was moved.
    pub aside: Option<String>,
    /// What the user should know although it worked.
    pub warnings: Vec<Warning>,
}

/// How long a presence lasts.
#[derive(Debug, Clone, Copy)]
pub struct Lasts {
    /// The clock before the first byte of the renewal that counts was sent.
    pub sent: Moment,
    /// Its length from then on.
    pub ttl: Duration,
}

/// A place in the queue, as it was at the last look.
#[derive(Debug)]
pub struct Queued {
    /// What stands in the way.
    pub why: Denial,
    /// When that was seen.
    pub at: Moment,
    /// The caller's place.
    pub place: Place,
    /// Number of living waiters ahead.
    pub ahead: usize,
    /// What is worth waking up for.
    pub wake_on: WakeOn,
    /// Time until the way may be free by itself.
    pub left: Option<Duration>,
}

/// What wakes a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WakeOn {
    /// The waiter at this place leaves the queue or is granted the name.
    Ahead(Place),
    /// This pulse of the holder stops.
    Pulse(u64),
    /// This process, which holds the name, ends.
    Process(i64),
    /// What is stored under the name changes.
    Holder,
    /// The freeze over the name changes.
    Freeze,
    /// Nothing that the store could report.
    Time,
}

/// An answer that changed nothing.
#[derive(Debug)]
pub struct Stayed {
    /// Why it was refused; `None`: the caller is inside the hold already, or acts under its token.
    pub why: Option<Denial>,
    /// What is stored.
    pub holder: Option<Box<Holder>>,
    /// Number of waiters.
    pub waiting: usize,
    /// What the user should know.
    pub warnings: Vec<Warning>,
}
