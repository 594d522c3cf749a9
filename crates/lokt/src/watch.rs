//! Looking at a root again and again: what happened last, and what wakes whoever looks.
//!
//! Nothing here takes the mutex. What the kernel tells of is a hint to look sooner; what it can't tell (processes that end, leases that
//! run out, files on another machine) is found by looking once in a while.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use lokt_core::audit::Event;
use lokt_core::name::LockName;

use crate::locks::Lokt;
use crate::store::LOCKS_DIR;
use crate::store::freezes::FREEZES_DIR;
use crate::store::line::LINE_DIR;
use crate::store::trail::LOG;
use crate::sys::bell::sleep_or_closed;
use crate::sys::changes::Changes;

/// Where something changes when a lock, a freeze or a line does. The first of a line is seen at once, the others at the next look.
const DIRS: [&str; 3] = [LOCKS_DIR, FREEZES_DIR, LINE_DIR];
/// As much of the end of the audit log is read: some dozens of events.
const TAIL_BYTES: usize = 16 << 10;

/// What wakes whoever looks at a root.
#[derive(Debug, Default)]
pub struct Watch {
    dirs: [Option<Watched>; DIRS.len()],
}

/// A directory that the kernel tells of.
#[derive(Debug)]
struct Watched {
    id: (u64, u64),
    changes: Changes,
}

/// Why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Something changed below the root.
    Changed,
    /// This one of the inputs can be read.
    Input(usize),
    /// Nobody reads the output any more.
    Closed,
    /// It is time.
    Time,
}

impl Watch {
    /// Has the kernel tell of changes in what is there by now. Whoever looks calls this before, so that no change is missed.
    pub fn aim(&mut self, lokt: Option<&Lokt>) {
        for (dir, watched) in DIRS.iter().zip(&mut self.dirs) {
            let disk = lokt.map(Lokt::disk);
            // A directory that was replaced is another one; the kernel goes on telling of the old one.
            let id = disk.and_then(|disk| disk.stamp(dir).ok().flatten()).map(|stamp| (stamp.dev, stamp.ino));
            if watched.as_ref().map(|watched| watched.id) == id {
                if let Some(watched) = watched {
                    watched.changes.drain();
                }
                continue;
            }
            // inotify is limited per user; without it we look once in a while.
            *watched = disk.zip(id).and_then(|(disk, id)| Some(Watched { id, changes: disk.changes(dir).ok()? }));
        }
    }

    /// Sleeps until something changes, one of `inputs` can be read, or `output` is closed by whoever reads it; at most `patience`.
    pub fn sleep(&self, inputs: &[BorrowedFd<'_>], output: impl AsFd, patience: Duration) -> io::Result<Woken> {
        let changes = self.dirs.iter().flatten().map(|watched| watched.changes.as_fd());
        let fds: Vec<BorrowedFd<'_>> = inputs.iter().copied().chain(changes).collect();
        let (ready, closed) = sleep_or_closed(&fds, output.as_fd(), patience)?;
        Ok(match ready.iter().position(|ready| *ready) {
            Some(at) if at < inputs.len() => Woken::Input(at),
            _ if closed => Woken::Closed,
            Some(_) => Woken::Changed,
            None => Woken::Time,
        })
    }
}

impl Lokt {
    /// What happened last, newest first: at most `limit` events, of one name or of all. Lines that are none are left out.
    pub fn last_events(&self, name: Option<&LockName>, limit: usize) -> Vec<Event> {
        let bytes = self.disk().tail(LOG, TAIL_BYTES).unwrap_or_default();
        let events = bytes.rsplit(|byte| *byte == b'\n').filter_map(Event::parse);
        events.filter(|event| name.is_none_or(|name| name.as_str() == event.name)).take(limit).collect()
    }
}
