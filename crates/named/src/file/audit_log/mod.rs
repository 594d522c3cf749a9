//! Reading the audit log: all of it, oldest line first, or what is added from now on.
//!
//! Nobody who reads takes the mutex, so the log may be rotated in the middle of it. Three facts make that harmless.
//!
//! * A rotation only ever moves a file to a higher number. So the files are opened from `audit.log` upwards, all of them before the first
//!   is read: one that moves meanwhile is met later, perhaps twice, but never missed. (Only the oldest can be gone before it is met.)
//! * An open file stays what it is under any name, and its inode isn't given to another. So device and inode tell which files are the
//!   same, however they are called by now; what is met twice is read once.
//! * Lines are only appended, and the log that follows a rotated one is made after it. So each file is read to its end before the next.

mod lines;

use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd};

use lokt_core::audit::Event;
use lokt_core::name::LockName;

use self::lines::{BUFFER_BYTES, Reader};
use super::FileStore;
use super::audit_write::{LOG, files};
use crate::store::{AuditLog, Call, Follow, Show, Store};
use lokt_sys::changes::Changes;
use lokt_sys::disk::Opening;
use lokt_sys::error::{At as _, Error, ErrorKind};

/// As much of the end of the audit log is read for its last events: some dozens of them.
const TAIL_BYTES: usize = 16 << 10;

impl AuditLog for FileStore {
    fn read(&self, show: &mut Show<'_>, _call: &Call<'_>) -> Result<(), Error> {
        let mut buffer = vec![0; BUFFER_BYTES];
        for mut reader in open_all(self)?.into_iter().rev() {
            let read = reader.read_on(&mut buffer, show).map_err(|error| reader.failed(error))?;
            // Somebody is writing it at this moment, or was killed; if it is all there, it happened.
            if read.is_break() || reader.tell_rest(show).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Lines that are no events are left out.
    fn last(&self, name: Option<&LockName>, limit: usize, _call: &Call<'_>) -> Vec<Event> {
        let bytes = self.disk.tail(LOG, TAIL_BYTES).unwrap_or_default();
        let events = bytes.rsplit(|byte| *byte == b'\n').filter_map(Event::parse);
        events.filter(|event| name.is_none_or(|name| name.as_str() == event.name)).take(limit).collect()
    }

    fn follow(&self) -> Box<dyn Follow> {
        Box::new(FileFollow::new())
    }
}

/// Opens every log that there is, newest first.
fn open_all(store: &FileStore) -> Result<Vec<Reader>, Error> {
    let mut readers: Vec<Reader> = Vec::new();
    for name in files() {
        let path = store.root.join(&name);
        let file = match store.disk.open(&name).at("read", &store.root, &name)? {
            Opening::Missing => continue,
            Opening::File(file) => file,
            Opening::NotRegular(kind) => {
                let message = format!("{} is {kind}, not an audit log", path.display());
                return Err(Error::new(ErrorKind::NotARecord, message));
            }
        };
        let reader = Reader::new(file, path)?;
        // Met again under a higher number: what was met in between is newer than it.
        readers.retain(|met| met.id() != reader.id());
        readers.push(reader);
    }
    Ok(readers)
}

/// Follows the log from now on: through rotations, ours and anybody's, truncation, deletion, and before there is a log at all.
#[derive(Default)]
pub(crate) struct FileFollow {
    /// The logs as they were last found, oldest first; before them those that were there and aren't any more. All stay open: somebody who
    /// doesn't know the mutex may still write to one that was renamed, and none of them can be taken for another.
    readers: Vec<Reader>,
    /// The first look has been taken. What was there then is old.
    started: bool,
    /// Device and inode of `audit.log` when the logs were last opened.
    newest: Option<(u64, u64)>,
    /// Can be read when `audit.log` changes.
    watch: Option<Changes>,
    buffer: Vec<u8>,
}

impl FileFollow {
    /// Nothing has been looked at.
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], ..Self::default() }
    }

    /// Opens what came since the last time.
    fn find_files(&mut self, store: Option<&FileStore>, show: &mut Show<'_>) -> Result<ControlFlow<()>, Error> {
        let found = store.map(open_all).transpose()?.unwrap_or_default();
        let mut before = std::mem::take(&mut self.readers);
        let mut now = Vec::new();
        for (age, mut reader) in found.into_iter().enumerate().rev() {
            if let Some(place) = before.iter().position(|known| known.id() == reader.id()) {
                reader = before.remove(place).found_as(reader);
            } else if !self.started {
                // Only the newest may have a line that is being written.
                let gone_to = if age == 0 { reader.go_to_last_line(&mut self.buffer) } else { reader.go_to_end() };
                gone_to.map_err(|error| reader.failed(error))?;
            }
            now.push(reader);
        }
        // What is missing for the second time has had its time.
        before.retain(|reader| !reader.is_gone);
        for reader in &mut before {
            reader.is_gone = true;
        }
        self.readers = before;
        self.readers.append(&mut now);
        // A log that isn't the newest any more doesn't wait for the rest of a line: nobody appends to it.
        let older = self.readers.len().saturating_sub(1);
        for reader in self.readers.iter_mut().take(older) {
            if reader.read_on(&mut self.buffer, show).map_err(|error| reader.failed(error))?.is_break()
                || reader.tell_if_whole(show).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Follow for FileFollow {
    fn look(&mut self, store: Option<&dyn Store>, show: &mut Show<'_>) -> Result<ControlFlow<()>, Error> {
        let store = store.and_then(|store| store.as_any().downcast_ref::<FileStore>());
        if let Some(watch) = &self.watch {
            watch.drain();
        }
        let stamp = store.map(|store| store.disk.stamp(LOG).at("read", &store.root, LOG)).transpose()?.flatten();
        let newest = stamp.map(|stamp| (stamp.dev, stamp.ino));
        if newest != self.newest || !self.started {
            if self.find_files(store, show)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.newest = newest;
            self.watch = None;
        }
        if self.watch.is_none() && newest.is_some() {
            // Before anything is read, so that whatever is written after that wakes us.
            self.watch = store.and_then(|store| store.disk.changes(LOG).ok());
        }
        self.started = true;
        for reader in &mut self.readers {
            if reader.read_on(&mut self.buffer, show).map_err(|error| reader.failed(error))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(|watch| watch.as_fd())
    }
}
