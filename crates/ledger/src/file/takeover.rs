//! A lock that was left behind.
//!
//! The lock of a dead lokt process is replaced at once. Any other program may only be suspended.
//! When it is resumed, it renames its event over whatever has its number by then, and removes
//! whatever has the lock's name. So its lock is never deleted. It is exchanged with a directory
//! that isn't empty, which neither `unlink` nor `rmdir` can remove and no exclusive create can
//! miss. What was displaced is inspected, and put back if it isn't the lock that was judged. The
//! writer's temporary files are deleted, and the number that it was about to use is filled
//! (`filler`).

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use lokt_core::duration;
use lokt_core::fnv::fnv1a_32;
use lokt_core::ledger::writer_lock::{LOCK, NOTE, NOTE_BYTES_MAX, Note, Sight, Verdict, Writer, judge};
use lokt_core::liveness::Process;
use lokt_core::time::millis_between;
use serde_json::{Value, json};

use super::FileLog;
use super::settings::STATE;
use super::writer_lock::{Kind, Lock, WriterLock, dir_of};
use lokt_sys::disk::{Disk, Entry, Stamp};
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::warnings::Warning;

/// The time at which a lock was first seen.
const SIGHTING: &str = ".lokt/sighting";
const SIGHTING_BYTES_MAX: usize = 4096;
/// Prefix and suffix of the files that a foreign writer renames to events.
const TEMP_PREFIX: &str = ".event-";
const TEMP_SUFFIX: &str = ".tmp";

/// A lock that is in the way.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) verdict: Verdict,
    pub(super) note: Note,
    pub(super) shape: Shape,
    stamp: Stamp,
    bytes: Vec<u8>,
    first_seen_ms: u64,
    age_ms: i64,
}

/// The form of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A file, as documented.
    File,
    /// A directory, as the documented recipe makes it, or ours after a take-over.
    Directory,
    /// A file that may not be read.
    Unreadable,
    /// Something else, in words.
    Other(&'static str),
}

/// A lock that we have, perhaps after a take-over.
pub(super) struct Taken<'l> {
    pub(super) lock: Lock<'l>,
    pub(super) owes_filler: bool,
    pub(super) warnings: Vec<Warning>,
}

impl Found {
    /// A description for a writer that has to wait.
    pub(super) fn describe(&self, log: &FileLog) -> String {
        let path = log.at(LOCK);
        let what = match self.shape {
            Shape::File => "a lock file",
            Shape::Directory => "a lock directory",
            Shape::Unreadable => "a lock file that may not be read",
            Shape::Other(kind) => kind,
        };
        let who = match (&self.note.writer, self.note.agent_id.as_str()) {
            (Some(writer), _) => format!(" of process {} on {}", writer.pid, self.note.host),
            (None, "") => String::new(),
            (None, agent_id) => format!(" of {agent_id:?}"),
        };
        let age = u64::try_from(self.age_ms).map_or_else(
            |_| ", dated in the future".to_owned(),
            |age_ms| format!(", {} old", duration::show(Duration::from_secs(age_ms / 1000))),
        );
        format!("{} is {what}{who}{age}", path.display())
    }
}

impl<'l> WriterLock<'l> {
    /// Inspects the lock; `None` if there is none. `watched` is what was seen the last time.
    pub(super) fn look(self, watched: &mut Option<Found>) -> Result<Option<Found>, Error> {
        let Some((stamp, shape, bytes)) = self.read_lock_at(LOCK)? else {
            *watched = None;
            return Ok(None);
        };
        let note = Note::parse(&bytes);
        let now = self.log.now();
        let same = watched.take().filter(|before| before.stamp == stamp && before.bytes == bytes);
        let first_seen_ms = match same {
            Some(before) => before.first_seen_ms,
            None => self.sighting(&stamp, &bytes).unwrap_or(now.boottime_ms),
        };
        let verdict = judge(&Sight {
            note: &note,
            modified: stamp.modified,
            writer: self.writer(&note),
            unchanged_ms: now.boottime_ms.saturating_sub(first_seen_ms),
            now: now.wall,
        });
        let age_ms = millis_between(note.acquired_at.map_or(stamp.modified, |at| at.max(stamp.modified)), now.wall);
        let found = Found { verdict, note, shape, stamp, bytes, first_seen_ms, age_ms };
        *watched = Some(found.clone());
        Ok(Some(found))
    }

    fn read_lock_at(self, path: &str) -> Result<Option<(Stamp, Shape, Vec<u8>)>, Error> {
        let entry = match self.log.disk.read(path, NOTE_BYTES_MAX) {
            // It is another user's; it is a lock anyway.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let stamp = self.log.disk.stamp(path).at("look at", &self.log.path, path)?;
                return Ok(stamp.map(|stamp| (stamp, Shape::Unreadable, Vec::new())));
            }
            done => done.at("read", &self.log.path, path)?,
        };
        let shape = match entry {
            Entry::Missing => return Ok(None),
            Entry::File(content) => return Ok(Some((content.stamp, Shape::File, content.bytes))),
            Entry::TooBig(_) => Shape::File,
            Entry::NotRegular("a directory") => Shape::Directory,
            Entry::NotRegular(kind) => Shape::Other(kind),
        };
        let stamp = self.log.disk.stamp(path).at("look at", &self.log.path, path)?;
        let bytes = if shape == Shape::Directory { note_in(&*self.log.disk, path) } else { Vec::new() };
        Ok(stamp.map(|stamp| (stamp, shape, bytes)))
    }

    /// The state of the lokt process that took the lock. A lock of this very process was left by a
    /// release that failed: no other process is inside.
    fn writer(self, note: &Note) -> Option<Process> {
        let writer: &Writer = note.writer.as_ref()?;
        if self.log.me.boot_id.as_ref() != Some(&writer.boot_id) {
            return note.is_of_a_boot_that_is_over(&self.log.me).then_some(Process::Dead);
        }
        let same_space = writer.pid_ns.is_some() && writer.pid_ns == self.log.me.pid_ns;
        if !same_space {
            return writer.pid_ns.map(|space| self.log.machine.process_in(space, writer.pid, writer.pid_start));
        }
        if (writer.pid, writer.pid_start) == (self.log.me.pid, self.log.me.pid_start) {
            return Some(Process::Dead);
        }
        Some(match self.log.machine.process(writer.pid) {
            Some(stat) if stat.may_be(writer.pid_start) && !stat.has_ended() => Process::Alive,
            _ => Process::Dead,
        })
    }

    /// Puts our lock in the place of a dead process's. `None`: it wasn't the judged one any more.
    pub(super) fn replace_dead(self, found: &Found) -> Result<Option<Taken<'l>>, Error> {
        if let (Some(writer), Some(judged)) = (&found.note.writer, &found.note.took_over) {
            return self.inherit(found, &dir_of(&writer.nonce), judged);
        }
        if found.shape == Shape::Directory {
            return self.exchange_with_dir(found, None, Vec::new());
        }
        // Until what was displaced has been inspected, our lock names it: a later process that
        // finds both goes on with that.
        let nonce = self.log.random()?;
        let swap = dir_of(&format!("{nonce:032x}"));
        let judged = sight_of(&found.stamp, &found.bytes).to_string();
        let lock = self.link_lock(&swap, nonce, Some(judged)).at("write", &self.log.path, &swap)?;
        let exchanged = self.exchange(&swap, found);
        let _ = self.log.disk.remove(&swap);
        match exchanged {
            Ok(true) => Ok(Some(Taken { lock, owes_filler: false, warnings: Vec::new() })),
            Ok(false) => Ok(None),
            // Without an exchange, at least the lock is a dead process's.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                if self.log.disk.stamp(LOCK).at("look at", &self.log.path, LOCK)? == Some(found.stamp) {
                    self.log.disk.remove(LOCK).at("remove", &self.log.path, LOCK)?;
                }
                Ok(None)
            }
            Err(error) => Err(Error::io("replace", &self.log.at(LOCK), error)),
        }
    }

    /// Takes over the lock of a program that may come back. `None`: it wasn't the judged one any
    /// more.
    pub(super) fn take_over(self, found: &Found) -> Result<Option<Taken<'l>>, Error> {
        let warning = format!("{}: it was left behind, and is taken over", found.describe(self.log));
        self.beware()?;
        let judged = sight_of(&found.stamp, &found.bytes).to_string();
        let taken = self.exchange_with_dir(found, Some(judged), vec![Warning::OtherPrograms(warning)]);
        if matches!(&taken, Err(error) if error.kind() == ErrorKind::Unusable) {
            self.stop_being_wary();
        }
        taken
    }

    /// Continues for a lokt process that died after a take-over. It may not have inspected what it
    /// displaced, at `displaced`: what wasn't `judged` goes back. It may not have filled the number
    /// of the writer whose lock it took.
    fn inherit(self, found: &Found, displaced: &str, judged: &str) -> Result<Option<Taken<'l>>, Error> {
        if let Some((stamp, _, bytes)) = self.read_lock_at(displaced)? {
            let seen = sight_of(&stamp, &bytes).to_string();
            if seen != judged {
                self.log.disk.exchange(displaced, LOCK).at("put back", &self.log.path, LOCK)?;
                self.clear_dir(displaced);
                return Ok(None);
            }
            self.discard(displaced);
        }
        self.exchange_with_dir(found, Some(judged.to_owned()), Vec::new())
    }

    fn exchange_with_dir(
        self,
        found: &Found,
        took_over: Option<String>,
        warnings: Vec<Warning>,
    ) -> Result<Option<Taken<'l>>, Error> {
        let owes_filler = took_over.is_some();
        let (dir, stamp) = self.make_lock_dir(took_over)?;
        match self.exchange(&dir, found) {
            Ok(true) => {
                self.discard(&dir);
                let mut warnings = warnings;
                if owes_filler {
                    warnings.extend(self.remove_temps());
                }
                Ok(Some(Taken { lock: Lock { stamp, kind: Kind::Directory, _file: None }, owes_filler, warnings }))
            }
            Ok(false) => {
                self.clear_dir(&dir);
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.clear_dir(&dir);
                let message = format!("{}, and this file system can't exchange two files", found.describe(self.log));
                let hint = "remove it by hand when you are sure that its program will not come back";
                Err(Error::new(ErrorKind::Unusable, message).hint(hint))
            }
            Err(error) => {
                self.clear_dir(&dir);
                Err(Error::io("take over", &self.log.at(LOCK), error))
            }
        }
    }

    /// Exchanges the lock with what is at `ours`. Returns false if it wasn't the judged one, and is
    /// back in its place.
    fn exchange(self, ours: &str, found: &Found) -> io::Result<bool> {
        match self.log.disk.exchange(ours, LOCK) {
            // Released in this instant.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            done => done?,
        }
        // What can't be inspected isn't the judged one.
        let displaced = self.log.disk.stamp(ours).ok().flatten();
        let is_same = |stamp: Stamp| (stamp.dev, stamp.ino) == (found.stamp.dev, found.stamp.ino);
        let unchanged = match found.shape {
            Shape::Directory => note_in(&*self.log.disk, ours) == found.bytes,
            _ => displaced.is_some_and(|stamp| stamp == found.stamp),
        };
        if displaced.is_some_and(is_same) && unchanged {
            return Ok(true);
        }
        match self.log.disk.exchange(ours, LOCK) {
            // Ours was removed in between: what we displaced still belongs there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.log.disk.rename_new(ours, LOCK)?,
            done => done?,
        }
        Ok(false)
    }

    /// Removes what was displaced. What isn't empty is kept for inspection.
    pub(super) fn discard(self, path: &str) {
        if self.log.disk.remove(path).is_ok() {
            return;
        }
        self.clear_dir(path);
        if let (Ok(Some(_)), Some((_, name))) = (self.log.disk.stamp(path), path.rsplit_once('/')) {
            let _ = self.log.disk.rename_new(path, &format!("{STATE}/aside/{name}"));
        }
    }

    /// Removes the temporary files of foreign writers. Only lock holders write them, and that is us
    /// now. A writer that comes back finds nothing to rename. A file that can't be removed does no
    /// harm: it is renamed over a filler. Returns warnings about those.
    fn remove_temps(self) -> Vec<Warning> {
        let mut temps = Vec::new();
        let listed = self.log.disk.each_name("", &mut |name| {
            if name.starts_with(TEMP_PREFIX) && name.ends_with(TEMP_SUFFIX) {
                temps.push(name.to_owned());
            }
        });
        let failed =
            |path: &str, error: io::Error| format!("{} could not be removed: {error}", self.log.at(path).display());
        let listed = listed.err().map(|error| failed("", error));
        let kept = temps.iter().filter_map(|temp| Some(failed(temp, self.log.disk.remove(temp).err()?)));
        listed.into_iter().chain(kept).map(Warning::Leftover).collect()
    }

    /// Notes that a lock was seen, for later processes that can't watch it for long enough.
    pub(super) fn note_sighting(self, found: &Found) {
        let text = json!({
            "boot_id": self.log.me.boot_id,
            "first_seen_ms": found.first_seen_ms,
            "lock": sight_of(&found.stamp, &found.bytes),
        });
        let _ = self.log.disk.overwrite(SIGHTING, format!("{text}\n").as_bytes());
    }

    /// The time by the boot clock since which this lock has been seen.
    fn sighting(self, stamp: &Stamp, bytes: &[u8]) -> Option<u64> {
        let Ok(Entry::File(content)) = self.log.disk.read(SIGHTING, SIGHTING_BYTES_MAX) else { return None };
        let line = content.bytes.split(|byte| *byte == b'\n').next()?;
        let value: Value = serde_json::from_slice(line).ok()?;
        let same_boot = self.log.me.boot_clocks && value["boot_id"].as_str() == self.log.me.boot_id.as_deref();
        (same_boot && value["lock"] == sight_of(stamp, bytes)).then(|| value["first_seen_ms"].as_u64())?
    }
}

/// The identity of a lock.
fn sight_of(stamp: &Stamp, bytes: &[u8]) -> Value {
    let modified: Timestamp = stamp.modified;
    json!([stamp.dev, stamp.ino, stamp.size, modified.as_nanosecond().to_string(), fnv1a_32(bytes)])
}

/// The note in a lock directory of ours; empty in any other directory.
fn note_in(disk: &dyn Disk, dir: &str) -> Vec<u8> {
    match disk.read(&format!("{dir}/{NOTE}"), NOTE_BYTES_MAX) {
        Ok(Entry::File(content)) => content.bytes,
        _ => Vec::new(),
    }
}
