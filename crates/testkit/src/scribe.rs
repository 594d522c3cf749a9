//! Writes down what a process does, so that it is there whatever happens to the process: a history that [`lokt_torture::history`] judges.
//!
//! Each entry is one `write` to a file that is opened for appending. A killed process leaves whole lines; several processes may share a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use lokt_torture::history::{Deed, Entry};
use rustix::time::{ClockId, clock_gettime};

/// What every file of a history is called in the end.
const SUFFIX: &str = "jsonl";

/// Writes for one life of one process.
pub struct Scribe {
    file: File,
    who: u64,
}

impl Scribe {
    /// Goes on where the file ends, and makes it if it isn't there.
    pub fn new(path: &Path, who: u64) -> io::Result<Self> {
        Ok(Self { file: OpenOptions::new().append(true).create(true).open(path)?, who })
    }

    /// It happened now.
    pub fn write(&self, deed: Deed) {
        self.write_at(now_ns(), deed);
    }

    /// It happened at a moment that was looked up before.
    pub fn write_at(&self, at: u64, deed: Deed) {
        self.write_about(self.who, at, deed);
    }

    /// It happened to somebody else.
    pub fn write_about(&self, who: u64, at: u64, deed: Deed) {
        let line = Entry { at, who, deed }.encode();
        // A history with a hole would acquit whoever is in it.
        (&self.file).write_all(line.as_bytes()).expect("a history can be written");
    }
}

/// Nanoseconds on the clock that all processes of a machine share.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// All the entries in the files of a directory. A line that is no entry is an error that names its file.
pub fn read(dir: &Path) -> Result<Vec<Entry>, String> {
    let mut paths: Vec<_> = fs::read_dir(dir)
        .map_err(|error| format!("{}: {error}", dir.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == SUFFIX))
        .collect();
    paths.sort();
    let mut entries = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for (number, line) in text.lines().enumerate() {
            let entry = Entry::parse(line);
            entries.push(entry.map_err(|error| format!("{}, line {}: {error}", path.display(), number + 1))?);
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_scribes_wrote_is_read_back() {
        let dir = tempfile::tempdir().expect("a temp directory can be made");
        let path = dir.path().join("one.jsonl");
        for who in 1..=2 {
            let scribe = Scribe::new(&path, who).expect("it can be made");
            scribe.write(Deed::Asked { name: "x".into() });
            scribe.write_about(who + 10, 7, Deed::Killed);
        }
        let entries = read(dir.path()).expect("it can be read");
        let whos: Vec<u64> = entries.iter().map(|entry| entry.who).collect();
        assert_eq!(whos, [1, 11, 2, 12], "every entry is there, in the order of the file");
        assert_eq!((entries[1].at, &entries[1].deed), (7, &Deed::Killed), "with its own moment");
    }

    #[test]
    fn a_line_that_is_no_entry_is_named() {
        let dir = tempfile::tempdir().expect("a temp directory can be made");
        crate::swarm::put(&dir.path().join("torn.jsonl"), "{\"at\":1,\"who\":1,\"did\":\"killed\"}\n{\"at\":2,\"wh");
        let why = read(dir.path()).expect_err("a torn line is no entry");
        assert!(why.contains("torn.jsonl, line 2"), "the place is named: {why}");
    }
}
