//! A lock that was left behind.
//!
//! One of us who died is replaced at once: the dead don't come back. Any other program may only have been stopped, and when it comes back
//! it goes on where it was: it renames its event over whatever has its number by then, and removes whatever has the lock's name. So its
//! lock is never deleted. It is exchanged with a directory that isn't empty, which neither `unlink` nor `rmdir` can remove and nobody's
//! exclusive create can miss; what was displaced is looked at, and put back if it wasn't the one that was judged. The writer's temporary
//! files are deleted, and the number that it was about to use is filled with an event that says nothing (`append`).

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use lokt_core::duration;
use lokt_core::fnv::fnv1a_32;
use lokt_core::ledger::writer_lock::{LOCK, NOTE, NOTE_BYTES_MAX, Note, Sight, Verdict, Writer, judge};
use lokt_core::liveness::Process;
use lokt_core::time::millis_between;
use serde_json::{Value, json};

use super::Ledger;
use super::inside::{Kind, Lock, dir_of};
use super::settings::STATE;
use crate::error::{At as _, Error, ErrorKind};
use crate::sys::disk::{Disk, Entry, Stamp};

/// When a lock that lasts was first seen.
const SIGHTING: &str = ".lokt/sighting";
const SIGHTING_BYTES_MAX: usize = 4096;
/// What a foreign writer writes before it renames.
const TEMP_PREFIX: &str = ".event-";
const TEMP_SUFFIX: &str = ".tmp";

/// A lock that is in the way.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) verdict: Verdict,
    pub(crate) note: Note,
    pub(crate) shape: Shape,
    stamp: Stamp,
    bytes: Vec<u8>,
    first_seen_ms: u64,
    age_ms: i64,
}

/// What a lock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A file, as documented.
    File,
    /// A directory, as the documented recipe makes it, or ours after a take-over.
    Directory,
    /// A file that we may not read.
    Unreadable,
    /// Something else; the text says what.
    Other(&'static str),
}

/// A lock that was got from somebody who left it behind.
pub(super) struct Taken<'l> {
    pub(super) lock: Lock<'l>,
    pub(super) owes_filler: bool,
    pub(super) warnings: Vec<String>,
}

impl Found {
    /// In words, for whoever has to wait.
    pub(crate) fn describe(&self, ledger: &Ledger) -> String {
        let path = ledger.at(LOCK);
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

impl Ledger {
    /// Looks at the lock; `None` if there is none. `watched` is what was seen the last time.
    pub(crate) fn look_at_lock(&self, watched: &mut Option<Found>) -> Result<Option<Found>, Error> {
        let Some((stamp, shape, bytes)) = self.read_lock_at(LOCK)? else {
            *watched = None;
            return Ok(None);
        };
        let note = Note::parse(&bytes);
        let now = self.now();
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

    fn read_lock_at(&self, path: &str) -> Result<Option<(Stamp, Shape, Vec<u8>)>, Error> {
        let entry = match self.disk.read(path, NOTE_BYTES_MAX) {
            // Another user's; it is a lock all the same.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let stamp = self.disk.stamp(path).at("look at", &self.path, path)?;
                return Ok(stamp.map(|stamp| (stamp, Shape::Unreadable, Vec::new())));
            }
            done => done.at("read", &self.path, path)?,
        };
        let shape = match entry {
            Entry::Missing => return Ok(None),
            Entry::File(content) => return Ok(Some((content.stamp, Shape::File, content.bytes))),
            Entry::TooBig(_) => Shape::File,
            Entry::NotRegular("a directory") => Shape::Directory,
            Entry::NotRegular(kind) => Shape::Other(kind),
        };
        let stamp = self.disk.stamp(path).at("look at", &self.path, path)?;
        let bytes = if shape == Shape::Directory { note_in(&*self.disk, path) } else { Vec::new() };
        Ok(stamp.map(|stamp| (stamp, shape, bytes)))
    }

    /// What became of one of us. A lock of this very process was left by a release that failed: nobody else is inside, or we weren't.
    fn writer(&self, note: &Note) -> Option<Process> {
        let writer: &Writer = note.writer.as_ref()?;
        if self.me.boot_id.as_ref() != Some(&writer.boot_id) {
            return note.is_of_a_boot_that_is_over(&self.me).then_some(Process::Dead);
        }
        let same_space = writer.pid_ns.is_some() && writer.pid_ns == self.me.pid_ns;
        if !same_space {
            return writer.pid_ns.map(|space| self.machine.process_in(space, writer.pid, writer.pid_start));
        }
        if (writer.pid, writer.pid_start) == (self.me.pid, self.me.pid_start) {
            return Some(Process::Dead);
        }
        Some(match self.machine.process(writer.pid) {
            Some(stat) if stat.may_be(writer.pid_start) && !stat.has_ended() => Process::Alive,
            _ => Process::Dead,
        })
    }

    /// Puts our lock in the place of a dead one's. `None`: it wasn't the one that was judged any more.
    pub(super) fn replace_dead(&self, found: &Found) -> Result<Option<Taken<'_>>, Error> {
        if let (Some(writer), Some(judged)) = (&found.note.writer, &found.note.took_over) {
            return self.inherit(found, &dir_of(&writer.nonce), judged);
        }
        if found.shape == Shape::Directory {
            return self.exchange_with_dir(found, None, Vec::new());
        }
        // Until what was displaced has been looked at, it says so: whoever finds it left behind goes on with that.
        let nonce = self.random()?;
        let swap = dir_of(&format!("{nonce:032x}"));
        let judged = sight_of(&found.stamp, &found.bytes).to_string();
        let lock = self.link_lock(&swap, nonce, Some(judged)).at("write", &self.path, &swap)?;
        let exchanged = self.exchange(&swap, found);
        let _ = self.disk.remove(&swap);
        match exchanged {
            Ok(true) => Ok(Some(Taken { lock, owes_filler: false, warnings: Vec::new() })),
            Ok(false) => Ok(None),
            // Without a way to exchange them, at least it is a dead one's.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                if self.disk.stamp(LOCK).at("look at", &self.path, LOCK)? == Some(found.stamp) {
                    self.disk.remove(LOCK).at("remove", &self.path, LOCK)?;
                }
                Ok(None)
            }
            Err(error) => Err(Error::io("replace", &self.at(LOCK), error)),
        }
    }

    /// Takes over what a program left behind that may come back. `None`: it wasn't the one that was judged any more.
    pub(super) fn take_over(&self, found: &Found) -> Result<Option<Taken<'_>>, Error> {
        let warning = format!("{}: it was left behind, and is taken over", found.describe(self));
        self.beware()?;
        let judged = sight_of(&found.stamp, &found.bytes).to_string();
        let taken = self.exchange_with_dir(found, Some(judged), vec![warning]);
        if matches!(&taken, Err(error) if error.kind() == ErrorKind::Unusable) {
            self.stop_being_wary();
        }
        taken
    }

    /// Goes on where one of us died who had taken a lock over. It may not have looked yet at what it displaced, at `displaced`: what
    /// wasn't `judged` goes back. It may not have filled the number of the one whose lock it was.
    fn inherit(&self, found: &Found, displaced: &str, judged: &str) -> Result<Option<Taken<'_>>, Error> {
        if let Some((stamp, _, bytes)) = self.read_lock_at(displaced)? {
            let seen = sight_of(&stamp, &bytes).to_string();
            if seen != judged {
                self.disk.exchange(displaced, LOCK).at("put back", &self.path, LOCK)?;
                self.clear_dir(displaced);
                return Ok(None);
            }
            self.discard(displaced);
        }
        self.exchange_with_dir(found, Some(judged.to_owned()), Vec::new())
    }

    fn exchange_with_dir(
        &self,
        found: &Found,
        took_over: Option<String>,
        warnings: Vec<String>,
    ) -> Result<Option<Taken<'_>>, Error> {
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
                let message = format!("{}, and this file system can't exchange two files", found.describe(self));
                let hint = "remove it by hand when you are sure that its program will not come back";
                Err(Error::new(ErrorKind::Unusable, message).hint(hint))
            }
            Err(error) => {
                self.clear_dir(&dir);
                Err(Error::io("take over", &self.at(LOCK), error))
            }
        }
    }

    /// Exchanges the lock with what is at `ours`. False: it wasn't the one that was judged, and is back in its place.
    fn exchange(&self, ours: &str, found: &Found) -> io::Result<bool> {
        match self.disk.exchange(ours, LOCK) {
            // Released in this instant.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            done => done?,
        }
        // What can't be looked at isn't the one that was judged.
        let displaced = self.disk.stamp(ours).ok().flatten();
        let is_same = |stamp: Stamp| (stamp.dev, stamp.ino) == (found.stamp.dev, found.stamp.ino);
        let unchanged = match found.shape {
            Shape::Directory => note_in(&*self.disk, ours) == found.bytes,
            _ => displaced.is_some_and(|stamp| stamp == found.stamp),
        };
        if displaced.is_some_and(is_same) && unchanged {
            return Ok(true);
        }
        match self.disk.exchange(ours, LOCK) {
            // Ours was removed meanwhile: what we displaced still belongs there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.disk.rename_new(ours, LOCK)?,
            done => done?,
        }
        Ok(false)
    }

    /// Removes what was displaced; what isn't empty is kept for somebody to look at.
    pub(super) fn discard(&self, path: &str) {
        if self.disk.remove(path).is_ok() {
            return;
        }
        self.clear_dir(path);
        if let (Ok(Some(_)), Some((_, name))) = (self.disk.stamp(path), path.rsplit_once('/')) {
            let _ = self.disk.rename_new(path, &format!("{STATE}/aside/{name}"));
        }
    }

    /// Only those who hold the lock write such files, and that is us now. Whoever comes back finds nothing to rename. One that stays does
    /// no harm: what it is renamed over is a filler. Gives what to say about those.
    fn remove_temps(&self) -> Vec<String> {
        let mut temps = Vec::new();
        let listed = self.disk.each_name("", &mut |name| {
            if name.starts_with(TEMP_PREFIX) && name.ends_with(TEMP_SUFFIX) {
                temps.push(name.to_owned());
            }
        });
        let failed =
            |path: &str, error: io::Error| format!("{} could not be removed: {error}", self.at(path).display());
        let listed = listed.err().map(|error| failed("", error));
        let kept = temps.iter().filter_map(|temp| Some(failed(temp, self.disk.remove(temp).err()?)));
        listed.into_iter().chain(kept).collect()
    }

    /// Notes that a lock was seen, for those who come later and have no more time to watch it.
    pub(super) fn note_sighting(&self, found: &Found) {
        let text = json!({
            "boot_id": self.me.boot_id,
            "first_seen_ms": found.first_seen_ms,
            "lock": sight_of(&found.stamp, &found.bytes),
        });
        let _ = self.disk.overwrite(SIGHTING, format!("{text}\n").as_bytes());
    }

    /// Since when this lock has been seen, by the boot clock.
    fn sighting(&self, stamp: &Stamp, bytes: &[u8]) -> Option<u64> {
        let Ok(Entry::File(content)) = self.disk.read(SIGHTING, SIGHTING_BYTES_MAX) else { return None };
        let line = content.bytes.split(|byte| *byte == b'\n').next()?;
        let value: Value = serde_json::from_slice(line).ok()?;
        let same_boot = self.me.boot_clocks && value["boot_id"].as_str() == self.me.boot_id.as_deref();
        (same_boot && value["lock"] == sight_of(stamp, bytes)).then(|| value["first_seen_ms"].as_u64())?
    }
}

/// How to know a lock again.
fn sight_of(stamp: &Stamp, bytes: &[u8]) -> Value {
    let modified: Timestamp = stamp.modified;
    json!([stamp.dev, stamp.ino, stamp.size, modified.as_nanosecond().to_string(), fnv1a_32(bytes)])
}

/// The note in a directory that is a lock of ours; nothing, in anybody else's.
fn note_in(disk: &dyn Disk, dir: &str) -> Vec<u8> {
    match disk.read(&format!("{dir}/{NOTE}"), NOTE_BYTES_MAX) {
        Ok(Entry::File(content)) => content.bytes,
        _ => Vec::new(),
    }
}
