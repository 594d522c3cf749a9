//! The record under a name, and everything that can be found out about it.

use lokt_core::denial::Holder;
use lokt_core::hold::{Hold, PartKind};
use lokt_core::liveness::Liveness;
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;
use lokt_core::record::{self, Parsed, RECORD_BYTES_MAX};
use lokt_core::time::{Elapsed, Moment, millis_between};

use super::freezes::{is_legacy_freeze, may_be_legacy_freeze};
use super::line::{Line, Rest, ahead_of, held_path};
use super::{FileStore, Kind, record_path};
use crate::store::{Depth, Frozen, QueueDepth, Slot, View, WakeOn};
use lokt_sys::disk::{Content, Entry};
use lokt_sys::error::{At as _, Error, ErrorKind, joined};
use lokt_sys::witness::{ProcessEnd, Witness};

/// Maximum age in milliseconds of an empty record that is being written, by a program that creates
/// first and writes later.
const BEING_WRITTEN_MS: i64 = 2_000;

/// A record file with what is known about the hold in it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) slot: Slot,
    pub(crate) content: Option<Content>,
    /// The event that reports the end of its process.
    pub(crate) ends: WakeOn,
}

/// The state of a name at one moment, with what is needed to change it.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) view: View,
    pub(super) content: Option<Content>,
    pub(super) rest: Rest,
}

impl Found {
    pub(crate) fn hold(&self) -> Option<&Hold> {
        self.slot.hold()
    }

    pub(crate) fn holder(&self) -> Option<&Holder> {
        self.slot.holder()
    }

    /// Returns the same without a statement about its process.
    pub(super) fn without_liveness(mut self) -> Self {
        if let Slot::Held(holder) = &mut self.slot {
            holder.liveness = Liveness::Unknown;
        }
        self
    }

    /// Returns an empty result: nothing is stored, or nothing was asked for.
    pub(super) fn nothing() -> Self {
        Self { slot: Slot::Free, content: None, ends: WakeOn::Holder }
    }
}

impl Seen {
    fn of(found: Found, frozen: Option<Frozen>, line: Line, mine: Option<u64>, now: &Moment) -> Self {
        let Found { slot, content, ends } = found;
        let Line { waiters: queue, rest } = line;
        let (ahead, waiting) = (ahead_of(mine, &queue, now), queue.len() + rest.behind.len());
        Self { view: View { at: *now, slot, frozen, queue, ahead, waiting, ends }, content, rest }
    }
}

/// The records of a root: reads them, replaces only what was judged, and makes them durable.
pub(crate) struct Records<'s> {
    pub(super) store: &'s FileStore,
}

impl Records<'_> {
    /// Gathers everything about `name` that the caller's question needs. `mine` is the caller's
    /// ticket.
    pub(super) fn look_at(
        &self,
        name: &LockName,
        depth: Depth,
        mine: Option<u64>,
        now: &Moment,
    ) -> Result<Seen, Error> {
        let path = record_path(name);
        let found = match depth {
            Depth { record: false, .. } => Found::nothing(),
            Depth { liveness: false, .. } => self.find_record(&path, name.as_str(), now),
            _ => self.find(&path, name.as_str(), now),
        };
        let frozen = if depth.freeze { self.freeze(name, now) } else { None };
        let line = match depth.queue {
            QueueDepth::Nothing => Line::default(),
            // An unreadable queue must not keep a caller from ending a hold.
            QueueDepth::IfReadable => self.store.line(name, mine).unwrap_or_default(),
            QueueDepth::Needed => self.store.line(name, mine)?,
        };
        Ok(Seen::of(found, frozen, line, mine, now))
    }

    /// Reads a freeze over `name` itself. An older one beside it counts too.
    pub(super) fn look_at_freeze(&self, name: &LockName, kind: Kind, now: &Moment) -> Seen {
        let mut found = self.find_record(&kind.path(name), name.as_str(), now);
        // A caller that was told of a legacy freeze may find a lock by that name when it is inside.
        if kind == Kind::LegacyFreeze && !is_legacy_freeze(&found) {
            found = Found::nothing();
        }
        let frozen = if kind == Kind::Freeze { self.legacy_freeze(name, now) } else { None };
        Seen::of(found, frozen, Line::default(), None, now)
    }

    /// Reads a record and finds out about its hold and its process.
    pub(crate) fn find(&self, path: &str, name: &str, now: &Moment) -> Found {
        let mut found = self.find_record(path, name, now);
        let asks = |hold: &&Hold| hold.has(PartKind::Process) && !may_be_legacy_freeze(path, hold);
        if let Some((liveness, end)) = found.hold().filter(asks).map(|hold| self.witness().liveness(hold)) {
            found.ends = match end {
                ProcessEnd::Pulse(number) => WakeOn::Pulse(number),
                ProcessEnd::Process(pid) => WakeOn::Process(pid),
                ProcessEnd::Unknown => WakeOn::Holder,
            };
            if let Slot::Held(holder) = &mut found.slot {
                holder.liveness = liveness;
            }
        }
        found
    }

    /// Reads a record, without checking its process. Its name is that of the file, whatever the
    /// record says.
    fn find_record(&self, path: &str, name: &str, now: &Moment) -> Found {
        let (mut slot, content) = self.read(path, now);
        if let Slot::Held(holder) = &mut slot {
            name.clone_into(&mut holder.hold.name);
            holder.elapsed = Elapsed::of(&holder.hold, now, &self.store.me);
        }
        Found { slot, content, ends: WakeOn::Holder }
    }

    fn read(&self, path: &str, now: &Moment) -> (Slot, Option<Content>) {
        let shown = || joined(&self.store.root, path).display().to_string();
        let entry = match self.store.disk.read(path, RECORD_BYTES_MAX).at("read", &self.store.root, path) {
            Ok(entry) => entry,
            Err(error) => return (Slot::Unreadable(error), None),
        };
        let content = match entry {
            Entry::Missing => return (Slot::Free, None),
            Entry::File(content) => content,
            Entry::NotRegular(kind) => {
                let message = format!("{} is {kind}, not a lock record", shown());
                return (Slot::Unreadable(Error::new(ErrorKind::NotARecord, message)), None);
            }
            Entry::TooBig(size) => {
                let message = format!("{} has {size} bytes, more than any lock record ({RECORD_BYTES_MAX})", shown());
                return (Slot::Unreadable(Error::new(ErrorKind::NotARecord, message)), None);
            }
        };
        let stored = if content.bytes.is_empty() {
            if is_being_written(&content, now) { Slot::BeingWritten } else { Slot::Corrupt("the file is empty".into()) }
        } else {
            match record::parse(&content.bytes) {
                Parsed::Hold(hold) => {
                    let (liveness, elapsed) = (Liveness::Unknown, Elapsed::NOTHING);
                    Slot::Held(Box::new(Holder { hold: *hold, liveness, elapsed }))
                }
                Parsed::Newer(version) => Slot::Newer(version),
                Parsed::Corrupt(why) => Slot::Corrupt(why),
            }
        };
        (stored, Some(content))
    }

    /// Returns the command that a hold's pulse names.
    pub(super) fn command_of(&self, hold: &Hold) -> Option<ProcessRef> {
        self.witness().command(hold)
    }

    fn witness(&self) -> Witness<'_> {
        Witness { disk: &*self.store.disk, machine: &*self.store.machine, me: &self.store.me, pulse_path: &held_path }
    }
}

/// Reports whether an empty file is young and of this boot: one that a power cut emptied has no
/// writer. A clock that was set back doesn't keep it young forever.
fn is_being_written(content: &Content, now: &Moment) -> bool {
    let age_ms = millis_between(content.stamp.modified, now.wall);
    let uptime_ms = i64::try_from(now.boottime_ms).unwrap_or(i64::MAX);
    age_ms.abs() < BEING_WRITTEN_MS && age_ms <= uptime_ms
}
