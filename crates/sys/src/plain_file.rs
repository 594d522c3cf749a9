//! A regular file that another user may have prepared: opened without following a link, and without
//! waiting for the writer of a FIFO.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, retry_on_intr};

use super::os_dirs::{PLAIN, kind_of};

/// An open regular file.
#[derive(Debug)]
pub struct PlainFile {
    file: File,
    /// The user who owns it.
    pub uid: u32,
    /// The permission bits, without set-id and sticky ones.
    pub mode: u32,
    /// The size in bytes when it was opened.
    pub size: u64,
}

/// The reason why there is no [`PlainFile`] at a path.
#[derive(Debug)]
pub enum NotPlain {
    /// Nothing is there.
    Missing,
    /// A symbolic link is there.
    Link,
    /// Something else is there; the text says what, as in "a FIFO".
    Other(&'static str),
    /// It can't be opened.
    Io(io::Error),
}

impl PlainFile {
    /// Opens the regular file at `path`.
    pub fn open(path: &Path) -> Result<Self, NotPlain> {
        let fd = match retry_on_intr(|| openat(CWD, path, OFlags::RDONLY | PLAIN, Mode::empty())) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Err(NotPlain::Missing),
            Err(Errno::LOOP) => return Err(NotPlain::Link),
            Err(Errno::NXIO) => return Err(NotPlain::Other("a socket")),
            Err(error) => return Err(NotPlain::Io(error.into())),
        };
        let stat = fstat(&fd).map_err(|error| NotPlain::Io(error.into()))?;
        match kind_of(&stat) {
            Some(kind) => Err(NotPlain::Other(kind)),
            None => Ok(Self {
                file: File::from(fd),
                uid: stat.st_uid,
                mode: stat.st_mode & 0o777,
                size: u64::try_from(stat.st_size).unwrap_or(0),
            }),
        }
    }

    /// Reads the rest of the file, without a limit: lokt itself wrote it.
    pub fn read_all(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the rest of the file; `None` if that is longer than `bytes_max`.
    pub fn read_within(self, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        // Capacity beyond the end, so that the usual file takes one read.
        let mut bytes = Vec::with_capacity(usize::try_from(self.size.min(bytes_max)).unwrap_or(0) + 64);
        self.file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
    }
}

impl Read for PlainFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

impl From<NotPlain> for io::Error {
    fn from(not_plain: NotPlain) -> Self {
        let other = |kind: &str| Self::new(io::ErrorKind::InvalidInput, format!("it is {kind}, not a regular file"));
        match not_plain {
            NotPlain::Missing => Errno::NOENT.into(),
            NotPlain::Link => other("a symbolic link"),
            NotPlain::Other(kind) => other(kind),
            NotPlain::Io(error) => error,
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test makes what a user would")]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::mkfifoat;

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_only_short_ones_are_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let [file, link, fifo, socket] = ["file", "link", "fifo", "socket"].map(|name| dir.path().join(name));
        assert!(matches!(PlainFile::open(&file), Err(NotPlain::Missing)));
        std::fs::write(&file, "12345").expect("it is ours");
        symlink(&file, &link).expect("it is ours");
        mkfifoat(CWD, &fifo, Mode::from_raw_mode(0o600)).expect("it is ours");
        let _socket = UnixListener::bind(&socket).expect("it is ours");
        assert!(matches!(PlainFile::open(&link), Err(NotPlain::Link)));
        assert!(matches!(PlainFile::open(&fifo), Err(NotPlain::Other("a FIFO"))));
        assert!(matches!(PlainFile::open(&socket), Err(NotPlain::Other("a socket"))));
        assert!(matches!(PlainFile::open(dir.path()), Err(NotPlain::Other("a directory"))));
        let read = |max| PlainFile::open(&file).expect("it is plain").read_within(max).expect("it can be read");
        assert_eq!(read(5).as_deref(), Some(&b"12345"[..]));
        assert_eq!(read(4), None, "it is longer");
    }
}
