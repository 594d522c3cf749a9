//! The log, open for appending: we hold its mutex and know where it ends.

use std::io;
use std::time::Duration;

use lokt_core::lease::audit::{Event, Head};

use super::lines::{Line, Lines, Place, ends_with};
use super::settle::settle;
use super::{HEAD, LOG};
use crate::repo::{FILE_MODE, Repository};
use lokt_sys::disk::{Entry, NoMutex, OpenFile, Opening};
use lokt_sys::mutex::Inside;

/// Maximum wait for another writer, for callers that hold up no lease.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// Size of the head in bytes: it is written in place, so its length is constant.
const HEAD_BYTES: usize = 256;

/// The log, with its mutex held.
pub(super) struct Log<'r> {
    pub(super) repo: &'r Repository,
    pub(super) file: Option<Box<dyn OpenFile>>,
    /// Its end. Anything after that is torn.
    pub(super) end: Place,
    is_torn: bool,
    has_head: bool,
    /// It was written since this machine started: nothing that was in it then is lost without a
    /// deliberate change.
    pub(super) is_settled: bool,
    /// A problem that doesn't prevent appending.
    pub(super) trouble: Option<String>,
    _inside: Inside,
}

/// Why the log can't be appended to, as one sentence.
pub(super) struct Closed(pub(super) String);

impl Closed {
    fn io(attempt: &str, error: &io::Error) -> Self {
        Self(format!("the audit log can't be {attempt} ({error}); the next command adds what is missing"))
    }

    /// Lines that were there are missing.
    pub(super) fn broken(why: &str) -> Self {
        Self(format!(
            "E_AUDIT_CHAIN_BROKEN: the audit log is broken ({why}); nothing is added to it, and `lokt doctor --strict --fix` begins a new one"
        ))
    }
}

impl<'r> Log<'r> {
    /// Acquires the mutex and finds the end.
    pub(super) fn enter(repo: &'r Repository, patience: Duration) -> Result<Self, Closed> {
        let mut log = Self::locked(repo, patience)?;
        let size = log.size()?;
        let head = read_head(repo);
        log.has_head = head.is_some();
        if let Some(head) = &head
            && is_this_boot(repo, &head.boot_id)
            && size < head.size
        {
            return Err(Closed::broken(&shorter(head, size)));
        }
        log.is_settled = head.as_ref().is_some_and(|head| is_this_boot(repo, &head.boot_id));
        let known = head.as_ref().filter(|head| head.size <= size);
        // Of what was written before a power cut, only the length may be there.
        let is_true = log.is_settled || known.is_none_or(|head| log.has_line(head));
        log.find_end(known.filter(|_| is_true), size)?;
        if !log.is_settled {
            settle(&mut log, head.as_ref())?;
            // From now on there is a head of this boot, before any link says what the log is: if it
            // is missing, it was removed. And what a power cut left of a line that is never
            // recreated would look like a deliberate change: it is removed.
            if log.end.has_good_line() {
                log.make_ready().and_then(|()| log.write_head()).map_err(|error| Closed::io("written", &error))?;
            }
        }
        Ok(log)
    }

    /// Acquires the mutex and opens the log; its end isn't known yet.
    pub(super) fn locked(repo: &'r Repository, patience: Duration) -> Result<Self, Closed> {
        let disk = repo.audit().map_err(|error| Closed::io("opened", &error))?;
        let inside = Inside::enter(disk, patience).map_err(|failure| match failure {
            NoMutex::Io(error) => Closed::io("locked", &error),
            NoMutex::Busy(who) => {
                Closed(format!("the audit log is being written by {who}; the next command adds what is missing"))
            }
        })?;
        let file = open(repo).map_err(|error| Closed::io("opened", &error))?;
        Ok(Self {
            repo,
            file,
            end: Place::default(),
            is_torn: false,
            has_head: false,
            is_settled: false,
            trouble: None,
            _inside: inside,
        })
    }

    pub(super) fn size(&self) -> Result<u64, Closed> {
        let stamp = self.file.as_ref().map(|file| file.stamp()).transpose();
        Ok(stamp.map_err(|error| Closed::io("read", &error))?.map_or(0, |stamp| stamp.size))
    }

    /// Returns the lines from `place` on.
    pub(super) fn lines(&self, place: Place) -> Option<Lines<'_>> {
        self.file.as_ref().map(|file| Lines::new(&**file, place))
    }

    /// Reports whether the last line that the head knows is there.
    fn has_line(&self, head: &Head) -> bool {
        let ends = |file: &dyn OpenFile| ends_with(file, head.size, &head.hash).unwrap_or(false);
        head.count == 0 || self.file.as_ref().is_some_and(|file| ends(&**file))
    }

    /// Reads to the end: from where the head says that it was, or from the beginning.
    fn find_end(&mut self, head: Option<&Head>, size: u64) -> Result<(), Closed> {
        let from = head.map(Place::from).unwrap_or_default();
        if from.size == size {
            self.end = from;
            return Ok(());
        }
        let Some(mut lines) = self.lines(from) else { return Ok(()) };
        let (mut is_torn, mut trouble) = (false, None);
        loop {
            let before = lines.place.clone();
            match lines.next().map_err(|error| Closed::io("read", &error))? {
                None => break,
                Some(Line::Good(_)) => {}
                Some(Line::Torn) => is_torn = true,
                Some(Line::Wiped(_)) if !self.is_settled => {
                    lines.place = before;
                    is_torn = true;
                    break;
                }
                Some(Line::Bad(broken) | Line::Wiped(broken)) => {
                    trouble = trouble.or(Some(format!("line {}: {}", broken.line, broken.why)));
                }
            }
        }
        let end = lines.place;
        (self.end, self.is_torn) = (end, is_torn);
        self.trouble = trouble.map(|why| {
            format!("E_AUDIT_CHAIN_BROKEN: the audit log is broken ({why}); `lokt lease audit --verify` shows where")
        });
        Ok(())
    }

    /// Appends events. Not synced.
    pub(super) fn append<'e>(&mut self, events: impl IntoIterator<Item = &'e Event>) -> Result<(), Closed> {
        let (mut bytes, mut end) = (Vec::new(), self.end.clone());
        for event in events {
            let (line, hash) = event.line(&end.hash);
            bytes.extend_from_slice(&line);
            (end.hash, end.count) = (hash, end.count + 1);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let append = || self.repo.audit()?.append(LOG, &bytes);
        let written = self.make_ready().and_then(|()| append());
        end.size = written.map_err(|error| {
            // Half a line is useless. If this fails too, the next process does it.
            let _ = self.repo.audit().and_then(|disk| disk.cut(LOG, self.end.size));
            Closed::io("written", &error)
        })?;
        self.end = end;
        if self.file.is_none() {
            self.file = open(self.repo).map_err(|error| Closed::io("opened", &error))?;
        }
        self.write_head().map_err(|error| Closed::io("written", &error))
    }

    fn make_ready(&mut self) -> io::Result<()> {
        let disk = self.repo.audit()?;
        if self.file.is_none() {
            match disk.create_as(LOG, b"", FILE_MODE) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => drop(done?),
            }
            disk.sync_dir("")?;
        }
        if self.is_torn {
            disk.cut(LOG, self.end.size)?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Records the current length. In place, with one write: a killed process leaves the old head
    /// or the new one.
    fn write_head(&self) -> io::Result<()> {
        let Place { count, ref hash, size } = self.end;
        let boot_id = self.repo.me.boot_id.clone().unwrap_or_default();
        let mut bytes = Head { count, hash: hash.clone(), size, boot_id }.to_bytes();
        bytes.truncate(bytes.trim_ascii_end().len());
        bytes.resize(HEAD_BYTES.max(bytes.len() + 1) - 1, b' ');
        bytes.push(b'\n');
        let disk = self.repo.audit()?;
        // Created with the right mode. If it exists, it has a mode, but is unreadable.
        let created = (!self.has_head).then(|| disk.create_as(HEAD, b"", FILE_MODE));
        disk.overwrite(HEAD, &bytes)?;
        match created {
            // It may be longer than any of ours, and would stay so. Cut only now: no process ever
            // finds an empty one.
            Some(Err(error)) if error.kind() == io::ErrorKind::AlreadyExists => disk.cut(HEAD, bytes.len() as u64),
            _ => Ok(()),
        }
    }
}

/// Makes the log durable: before links are pruned whose lines are in it.
pub fn sync(repo: &Repository) -> Result<(), String> {
    // The names already are: the log's since it was created, and a missing head indicates a power
    // cut just like an old one.
    let synced = repo.audit().and_then(|disk| disk.sync(LOG).and_then(|()| disk.sync(HEAD)));
    synced.map_err(|error| format!("the audit log can't be synced: {error}"))
}

/// Opens the log; `None` if there is none.
pub(super) fn open(repo: &Repository) -> io::Result<Option<Box<dyn OpenFile>>> {
    match repo.audit()?.open(LOG)? {
        Opening::Missing => Ok(None),
        Opening::File(file) => Ok(Some(file)),
        Opening::NotRegular(kind) => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}"))),
    }
}

/// Returns how long the log should be; `None` if that was never written, or lost.
pub(super) fn read_head(repo: &Repository) -> Option<Head> {
    match repo.audit().and_then(|disk| disk.read(HEAD, HEAD_BYTES * 4)) {
        Ok(Entry::File(content)) => Head::parse(&content.bytes),
        _ => None,
    }
}

/// Reports whether it was written since this machine started. What was written then is there,
/// unless it was deliberately removed.
pub(super) fn is_this_boot(repo: &Repository, boot_id: &str) -> bool {
    repo.me.boot_id.as_deref().is_some_and(|now| now == boot_id)
}

fn shorter(head: &Head, size: u64) -> String {
    format!("its end is missing: {} lines with {} bytes were written, and it has {size} bytes", head.count, head.size)
}
