//! A number that nothing but a lock protects: whoever is inside beside another loses an update.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A number in a file, which is read and written without any care: whoever wants it whole must be alone.
pub(super) struct Counter(PathBuf);

impl Counter {
    pub(super) fn of(arena: &Path, name: &str) -> Self {
        Self(arena.join(name))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// What it says; one that isn't there or is empty says 0, which its judge knows to be too little if it ever said more.
    pub(super) fn read(&self) -> io::Result<u64> {
        let mut text = String::new();
        match File::open(&self.0) {
            Ok(mut file) => file.read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        match text.trim() {
            "" => Ok(0),
            number => {
                number.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("no number: {number:?}")))
            }
        }
    }

    /// Writes it in place.
    pub(super) fn write(&self, number: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.0)?;
        // Always as long: a shorter number leaves nothing of a longer one.
        file.write_all_at(format!("{number:020}\n").as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_counter_says_what_was_written() {
        let dir = tempfile::tempdir().expect("temp");
        let counter = Counter::of(dir.path(), "count");
        assert_eq!(counter.read().expect("nothing is there"), 0);
        counter.write(1_000).expect("there is room");
        counter.write(7).expect("there is room");
        assert_eq!(counter.read().expect("it is there"), 7);
    }

    #[test]
    fn what_is_no_number_is_an_error_and_not_nothing() {
        let dir = tempfile::tempdir().expect("temp");
        let counter = Counter::of(dir.path(), "count");
        for (text, is_read) in [("", Some(0)), ("\n", Some(0)), ("\0\0\0", None), ("12 34", None), ("7x\n", None)] {
            let mut file = File::create(counter.path()).expect("temp");
            file.write_all(text.as_bytes()).expect("temp");
            assert_eq!(counter.read().ok(), is_read, "{text:?}");
        }
    }
}
