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

use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use lokt_core::audit::Line;

use self::lines::{BUFFER_BYTES, Reader};
use crate::Lokt;
use crate::error::{At as _, Error, ErrorKind};
use crate::store::trail::{LOG, files};
use crate::sys::bell::sleep_on;
use crate::sys::changes::Changes;
use crate::sys::disk::Opening;
use crate::wait::Alarm;

/// Where the kernel tells of changes, a look now and then catches what it doesn't: another machine's, on a network file system.
const LOOK: Duration = Duration::from_secs(1);
/// Where it can't, because there is no log yet or too much is watched already.
const POLL: Duration = Duration::from_millis(200);

/// What was found in a log.
#[derive(Debug)]
pub enum Found<'a> {
    /// An event.
    Event(Line<'a>),
    /// A line that tells of none.
    NoEvent,
    /// A line that is longer than any event.
    TooLong {
        /// In which file, by the name under which it was opened.
        path: &'a Path,
        /// Where it begins.
        offset: u64,
    },
}

/// Is called for everything that is found, and says whether to go on.
pub(crate) type Show<'s> = dyn FnMut(Found<'_>) -> ControlFlow<()> + 's;

impl Lokt {
    /// Everything in the audit log, oldest first.
    pub fn history(&self, show: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>) -> Result<(), Error> {
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
}

/// Opens every log that there is, newest first.
fn open_all(lokt: &Lokt) -> Result<Vec<Reader>, Error> {
    let mut readers: Vec<Reader> = Vec::new();
    for name in files() {
        let path = lokt.root().join(&name);
        let file = match lokt.disk().open(&name).at("read", lokt.root(), &name)? {
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
pub struct Follower {
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

impl Follower {
    /// Nothing has been looked at.
    pub fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], ..Self::default() }
    }

    /// Tells what is new since the last look. The first look only finds out where the end is. `None`: there is no root at this moment.
    pub fn look(
        &mut self,
        lokt: Option<&Lokt>,
        show: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        if let Some(watch) = &self.watch {
            watch.drain();
        }
        let stamp = lokt.map(|lokt| lokt.disk().stamp(LOG).at("read", lokt.root(), LOG)).transpose()?.flatten();
        let newest = stamp.map(|stamp| (stamp.dev, stamp.ino));
        if newest != self.newest || !self.started {
            if self.find_files(lokt, show)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.newest = newest;
            self.watch = None;
        }
        if self.watch.is_none() && newest.is_some() {
            // Before anything is read, so that whatever is written after that wakes us.
            self.watch = lokt.and_then(|lokt| lokt.disk().changes(LOG).ok());
        }
        self.started = true;
        for reader in &mut self.readers {
            if reader.read_on(&mut self.buffer, show).map_err(|error| reader.failed(error))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Opens what came since the last time.
    fn find_files(&mut self, lokt: Option<&Lokt>, show: &mut Show<'_>) -> Result<ControlFlow<()>, Error> {
        let found = lokt.map(open_all).transpose()?.unwrap_or_default();
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

    /// Sleeps until there may be something new. True: the alarm went off.
    pub fn sleep(&self, alarm: &mut dyn Alarm) -> io::Result<bool> {
        let tick = if self.watch.is_some() { LOOK } else { POLL };
        let ready = {
            let mut fds = vec![alarm.fd()];
            fds.extend(self.watch.as_ref().map(|watch| watch.as_fd()));
            sleep_on(&fds, tick)?
        };
        Ok(ready.first() == Some(&true) && alarm.went_off())
    }
}
