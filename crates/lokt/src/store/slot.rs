//! What is stored under a name, and everything that can be found out about it.

use lokt_core::decide::{Facts, Freeze, Line as Others, Slot};
use lokt_core::denial::Holder;
use lokt_core::hold::{Fence, Hold, LockId, PartKind};
use lokt_core::liveness::Liveness;
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;
use lokt_core::record::{self, Parsed, RECORD_BYTES_MAX};
use lokt_core::time::{Elapsed, Moment, millis_between};

use super::freezes::{Frozen, is_legacy_freeze, may_be_legacy_freeze};
use super::line::{Line, held_path};
use super::{Kind, Store, record_path};
use crate::error::{At as _, Error, ErrorKind, joined};
use crate::sys::disk::{Content, Entry};
pub(crate) use crate::witness::ProcessEnd;
use crate::witness::Witness;

/// An empty record younger than this is being written by a program that creates first and writes later.
const BEING_WRITTEN_MS: i64 = 2_000;

/// What a record file turned out to be.
#[derive(Debug)]
pub(crate) enum Stored {
    Free,
    Held(Box<Hold>),
    Corrupt(String),
    BeingWritten,
    Newer(i64),
    /// It can't be read, or is no file that could be: held, as far as anyone can tell. Only force removes it.
    Unreadable(Error),
}

/// A record file with what is known about the hold in it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) stored: Stored,
    pub(crate) content: Option<Content>,
    pub(crate) liveness: Liveness,
    pub(crate) elapsed: Elapsed,
    /// What is left to wait for when its process is to end.
    pub(crate) end: ProcessEnd,
}

/// How much a question needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Is the hold still the one in the caller's hand? The record says so by itself.
    Grip,
    /// Who holds it, and does it live?
    Holder,
    /// And who is ahead? Without the line no answer.
    Line,
}

/// Everything about a name at one moment.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) found: Found,
    pub(crate) frozen: Option<Frozen>,
    pub(crate) line: Line,
}

impl Found {
    pub(crate) fn hold(&self) -> Option<&Hold> {
        match &self.stored {
            Stored::Held(hold) => Some(hold),
            _ => None,
        }
    }

    pub(crate) fn holder(&self) -> Option<Holder> {
        let hold = self.hold()?.clone();
        Some(Holder { hold, liveness: self.liveness, elapsed: self.elapsed })
    }
}

impl View {
    /// Whatever can't be read counts as held, and is an error for everyone who doesn't force.
    pub(crate) fn readable(self, name: &LockName, kind: Kind) -> Result<Self, Error> {
        match self.found.stored {
            Stored::Unreadable(error) => Err(held_if_unreadable(error, name, kind)),
            stored => Ok(Self { found: Found { stored, ..self.found }, ..self }),
        }
    }

    /// The facts that a decision needs. `fresh_id` and `next_token` are what a new hold would get; `ticket` is the caller's.
    pub(crate) fn facts<'a>(
        &'a self,
        now: Moment,
        fresh_id: &'a LockId,
        next_token: Fence,
        ticket: Option<u64>,
    ) -> Facts<'a> {
        let slot = match &self.found.stored {
            Stored::Free => Slot::Free,
            Stored::Held(hold) => Slot::Held(hold),
            Stored::Corrupt(why) => Slot::Corrupt(why),
            Stored::BeingWritten => Slot::BeingWritten,
            Stored::Newer(version) => Slot::Newer(*version),
            Stored::Unreadable(_) => Slot::Corrupt("it can't be read"),
        };
        let frozen = self.frozen.as_ref().map(|frozen| match frozen {
            Frozen::Known(holder) => Freeze::Known(holder),
            Frozen::Unreadable(_) => Freeze::Unreadable,
        });
        Facts {
            slot,
            liveness: self.found.liveness,
            elapsed: self.found.elapsed,
            frozen,
            line: Others { ahead: self.line.ahead(ticket, &now) },
            next_token,
            fresh_id,
            now,
        }
    }
}

/// Adds what follows from not being able to read a record.
pub(crate) fn held_if_unreadable(error: Error, name: &LockName, kind: Kind) -> Error {
    let counts_as = if kind.is_freeze() { "a freeze" } else { "held" };
    error.hint(format!("what can't be read counts as {counts_as}; `lokt doctor` says what is wrong with {name}"))
}

impl Store<'_> {
    /// Looks at everything about `name` that the caller's question needs. `mine` is the caller's ticket.
    pub(crate) fn view(&self, name: &LockName, now: &Moment, depth: Depth, mine: Option<u64>) -> Result<View, Error> {
        let path = record_path(name);
        Ok(match depth {
            Depth::Grip => {
                let found = self.find_record(&path, name.as_str(), now);
                View { found, frozen: None, line: Line::default() }
            }
            // Nobody is kept from ending a hold by a line that can't be read.
            Depth::Holder | Depth::Line => View {
                found: self.find(&path, name.as_str(), now),
                frozen: self.freeze(name, now),
                line: self
                    .line(name, mine)
                    .or_else(|error| if depth == Depth::Line { Err(error) } else { Ok(Line::default()) })?,
            },
        })
    }

    /// Looks at a freeze over `name` itself. An older one beside it counts too.
    pub(super) fn freeze_view(&self, name: &LockName, kind: Kind, now: &Moment) -> View {
        let mut found = self.find_record(&kind.path(name), name.as_str(), now);
        // Whoever was told of a legacy freeze may find a lock by that name when it is inside.
        if kind == Kind::LegacyFreeze && !is_legacy_freeze(&found) {
            found = Found { stored: Stored::Free, content: None, ..found };
        }
        let frozen = if kind == Kind::Freeze { self.legacy_freeze(name, now) } else { None };
        View { found, frozen, line: Line::default() }
    }

    /// Reads a record and finds out about its hold.
    pub(crate) fn find(&self, path: &str, name: &str, now: &Moment) -> Found {
        let mut found = self.find_record(path, name, now);
        let asks = |hold: &&Hold| hold.has(PartKind::Process) && !may_be_legacy_freeze(path, hold);
        if let Some(hold) = found.hold().filter(asks) {
            (found.liveness, found.end) = self.liveness(hold);
        }
        found
    }

    /// Reads a record, without asking about its process. Its name is that of the file, whatever the record says.
    fn find_record(&self, path: &str, name: &str, now: &Moment) -> Found {
        let (mut stored, content) = self.read(path, now);
        let mut elapsed = Elapsed::NOTHING;
        if let Stored::Held(hold) = &mut stored {
            name.clone_into(&mut hold.name);
            elapsed = Elapsed::of(hold, now, self.me);
        }
        Found { stored, content, liveness: Liveness::Unknown, elapsed, end: ProcessEnd::Unknown }
    }

    fn read(&self, path: &str, now: &Moment) -> (Stored, Option<Content>) {
        let shown = || joined(self.root, path).display().to_string();
        let entry = match self.disk.read(path, RECORD_BYTES_MAX).at("read", self.root, path) {
            Ok(entry) => entry,
            Err(error) => return (Stored::Unreadable(error), None),
        };
        let content = match entry {
            Entry::Missing => return (Stored::Free, None),
            Entry::File(content) => content,
            Entry::NotRegular(kind) => {
                let message = format!("{} is {kind}, not a lock record", shown());
                return (Stored::Unreadable(Error::new(ErrorKind::NotARecord, message)), None);
            }
            Entry::TooBig(size) => {
                let message = format!("{} has {size} bytes, more than any lock record ({RECORD_BYTES_MAX})", shown());
                return (Stored::Unreadable(Error::new(ErrorKind::NotARecord, message)), None);
            }
        };
        let stored = if content.bytes.is_empty() {
            if is_being_written(&content, now) {
                Stored::BeingWritten
            } else {
                Stored::Corrupt("the file is empty".into())
            }
        } else {
            match record::parse(&content.bytes) {
                Parsed::Hold(hold) => Stored::Held(hold),
                Parsed::Newer(version) => Stored::Newer(version),
                Parsed::Corrupt(why) => Stored::Corrupt(why),
            }
        };
        (stored, Some(content))
    }

    fn liveness(&self, hold: &Hold) -> (Liveness, ProcessEnd) {
        self.witness().liveness(hold)
    }

    /// The command that a hold's pulse names.
    pub(crate) fn command(&self, hold: &Hold) -> Option<ProcessRef> {
        self.witness().command(hold)
    }

    fn witness(&self) -> Witness<'_> {
        Witness { disk: self.disk, machine: self.machine, me: self.me, pulse_path: &held_path }
    }
}

/// Young, and of this boot: what a power cut emptied belongs to nobody. A clock that was set back doesn't make it young for ever.
fn is_being_written(content: &Content, now: &Moment) -> bool {
    let age_ms = millis_between(content.stamp.modified, now.wall);
    let uptime_ms = i64::try_from(now.boottime_ms).unwrap_or(i64::MAX);
    age_ms.abs() < BEING_WRITTEN_MS && age_ms <= uptime_ms
}
