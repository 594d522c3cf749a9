//! What a waiter knows of its place, and what it sleeps on until it looks again.

use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Hold, PartKind};
use lokt_core::line::predecessor;
use lokt_core::name::LockName;
use lokt_core::time::Moment;

use super::freezes::freeze_path;
use super::line::{held_path, ticket_path};
use super::slot::{ProcessEnd, Stored, View};
use super::{Store, record_path};

/// A place in line, as it was at the last look.
#[derive(Debug)]
pub(crate) struct Standing {
    /// What stands in the way.
    pub(crate) denial: Denial,
    /// How many living waiters are ahead.
    pub(crate) ahead: usize,
    /// Its own ticket.
    mine: u64,
    /// Whose ticket it waits for; the head waits for the holder.
    predecessor: Option<u64>,
    pub(crate) cue: Cue,
    /// When the way may be free for the head by the mere passing of time.
    pub(crate) left_ms: Option<u64>,
}

/// What wakes a waiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cue {
    /// This pulse stops.
    Pulse(String),
    /// This process ends.
    Process(i64),
    /// This file changes.
    File(String),
    /// Nothing that the kernel would tell.
    Time,
}

/// May waiting help?
pub(crate) fn may_pass(denial: &Denial) -> bool {
    matches!(denial, Denial::Held(_) | Denial::Queued { .. } | Denial::Frozen(_) | Denial::BeingWritten)
}

impl Standing {
    pub(super) fn of(name: &LockName, view: &View, denial: Denial, mine: u64, now: &Moment) -> Self {
        let tickets = view.line.tickets();
        let ahead = tickets.iter().filter(|ticket| ticket.number < mine).count();
        let predecessor = predecessor(&tickets, mine, now.monotonic_ms).map(|ticket| ticket.number);
        let cue = match (predecessor, &denial) {
            (Some(number), _) => Cue::Pulse(ticket_path(name.as_str(), number)),
            (None, Denial::Held(holder)) => holder_cue(name, view, holder),
            (None, Denial::Frozen(_)) => Cue::File(freeze_path(name)),
            (None, _) => Cue::Time,
        };
        let left_ms = match (&predecessor, &denial) {
            // Leases end, and are renewed, for the head: whoever has somebody ahead waits for them.
            (Some(_), _) => None,
            (None, Denial::Held(holder)) => holder.left_ms(),
            (None, Denial::Frozen(Some(freeze))) => freeze.elapsed.left_ms(),
            (None, _) => None,
        };
        Self { denial, ahead, mine, predecessor, cue, left_ms }
    }
}

/// While an owner part lives, only a change of the record ends the hold. Otherwise its process does.
fn holder_cue(name: &LockName, view: &View, holder: &Holder) -> Cue {
    match view.found.end {
        _ if holder.part_lives(PartKind::Owner) => Cue::File(record_path(name)),
        ProcessEnd::Pulse(number) => Cue::Pulse(held_path(number)),
        ProcessEnd::Process(pid) => Cue::Process(pid),
        ProcessEnd::Unknown => Cue::File(record_path(name)),
    }
}

impl Store<'_> {
    /// Should a waiter look again, although nothing woke it? Asked once a second, without the mutex. Everybody looks at the record: who
    /// stands before us may be unable to, in ways that nobody sees, and has to be offered the lock to be passed over.
    pub(crate) fn stirs(&self, name: &LockName, standing: &Standing) -> bool {
        let now = self.machine.now();
        // Somebody found the lock free for us: a note that we let stand would pass us over later.
        if self.ticket(name, standing.mine).is_some_and(|ticket| ticket.offered_ms.is_some()) {
            return true;
        }
        let before = standing.predecessor.and_then(|number| self.ticket(name, number));
        if before.is_some_and(|ticket| !ticket.counts(now.monotonic_ms)) {
            return true;
        }
        let found = self.find(&record_path(name), name.as_str(), &now);
        let held = match &found.stored {
            Stored::Free | Stored::Corrupt(_) => false,
            Stored::Held(_) => found.holder().is_some_and(|holder| holder.lives()),
            Stored::BeingWritten | Stored::Newer(_) | Stored::Unreadable(_) => true,
        };
        let frozen = || self.freeze(name, &now).is_some();
        // What stood in the way is another thing now, or nothing.
        match &standing.denial {
            // Only the head sleeps on the holder. If everybody looked whenever the lock has passed on, a long line would keep the mutex
            // busy with looking: each look is as long as the line.
            Denial::Held(holder) => {
                let is_head = standing.predecessor.is_none();
                !held || is_head && found.hold().is_some_and(|hold| is_another(hold, &holder.hold))
            }
            Denial::Frozen(_) => !frozen(),
            _ => !held && !frozen(),
        }
    }
}

fn is_another(hold: &Hold, known: &Hold) -> bool {
    (&hold.lock_id, hold.token, hold.pulse) != (&known.lock_id, known.token, known.pulse)
}
