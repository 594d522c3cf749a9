//! Reading the audit log: all of it, oldest line first, or what is added from now on.
//!
//! Readers don't take the mutex, so the log may be rotated while it is read. Three facts make that
//! harmless.
//!
//! * A rotation only ever moves a file to a higher number. So the files are opened from `audit.log`
//!   upwards, all of them before the first is read. One that moves in between is found later,
//!   perhaps twice, but never missed. (Only the oldest can be gone before it is found.)
//! * An open file stays the same under any name, and its inode isn't reused. So device and inode
//!   tell which files are the same, whatever their names are by now; a file that is found twice is
//!   read once.
//! * Lines are only appended, and the log that follows a rotated one is created after it. So each
//!   file is read to its end before the next.

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

/// Number of bytes at the end of the audit log that are read for its last events: some dozens of
/// them.
const TAIL_BYTES: usize = 16 << 10;

impl AuditLog for FileStore {
    fn read(&self, show: &mut Show<'_>, _call: &Call<'_>) -> Result<(), Error> {
        let mut buffer = vec![0; BUFFER_BYTES];
        for mut reader in open_all(self)?.into_iter().rev() {
            let read = reader.read_on(&mut buffer, show).map_err(|error| reader.failed(error))?;
            // The last line is being written at this moment, or its writer was killed. If it is
            // complete, it happened.
            if read.is_break() || reader.tell_rest(show).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Lines that are not events are left out.
    fn last(&self, name: Option<&LockName>, limit: usize, _call: &Call<'_>) -> Vec<Event> {
        let bytes = self.disk.tail(LOG, TAIL_BYTES).unwrap_or_default();
        let events = bytes.rsplit(|byte| *byte == b'\n').filter_map(Event::parse);
        events.filter(|event| name.is_none_or(|name| name.as_str() == event.name)).take(limit).collect()
    }

    fn follow(&self) -> Box<dyn Follow> {
        Box::new(FileFollow::new())
    }
}

/// Opens all existing logs, newest first.
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
        // Found again under a higher number: the files found in between are newer than it.
        readers.retain(|met| met.id() != reader.id());
        readers.push(reader);
    }
    Ok(readers)
}

/// Follows the log from now on: through rotations by lokt or another program, truncation, deletion,
/// and before there is a log at all.
#[derive(Default)]
pub(crate) struct FileFollow {
    /// The logs as they were last found, oldest first; before them those that have disappeared
    /// since. All stay open: a program that ignores the mutex may still write to one that was
    /// renamed, and none of them can be mistaken for another.
    readers: Vec<Reader>,
    /// Set after the first check. Lines that were there then are old.
    started: bool,
    /// Device and inode of `audit.log` when the logs were last opened.
    newest: Option<(u64, u64)>,
    /// Becomes readable when `audit.log` changes.
    watch: Option<Changes>,
    buffer: Vec<u8>,
}

impl FileFollow {
    /// Returns a follower that has not checked the log yet.
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], ..Self::default() }
    }

    /// Opens the files that appeared since the last time.
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
        // Drop a file that is missing for the second time.
        before.retain(|reader| !reader.is_gone);
        for reader in &mut before {
            reader.is_gone = true;
        }
        self.readers = before;
        self.readers.append(&mut now);
        // A log that is no longer the newest doesn't wait for the rest of a line: nothing is
        // appended to it.
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
            // Watch before anything is read, so that any write after that wakes us.
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
