//! What a tree is, entry by entry.

/// A time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Seconds since 1970.
    pub secs: i64,
    /// Nanoseconds after that.
    pub nanos: u32,
}

impl Time {
    /// A time.
    pub fn new(secs: i64, nanos: u32) -> Option<Self> {
        (nanos < 1_000_000_000).then_some(Self { secs, nanos })
    }

    /// Nanoseconds since 1970.
    pub fn as_nanos(self) -> i128 {
        i128::from(self.secs) * 1_000_000_000 + i128::from(self.nanos)
    }
}

/// What tells whether a file of the source is still the one that was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceStamp {
    /// Its device.
    pub dev: u64,
    /// Its number there.
    pub ino: u64,
    /// When anything about it last changed.
    pub ctime: Time,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File {
        /// Its length.
        size: u64,
        /// BLAKE3 of its bytes.
        hash: [u8; 32],
    },
    /// Another name of an earlier entry.
    HardLink {
        /// Its first name.
        to: Vec<u8>,
    },
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink {
        /// Where it points.
        target: Vec<u8>,
    },
}

/// One name in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Below the root; empty for the root itself.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// When its bytes changed.
    pub mtime: Time,
    /// Extended attributes by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// What it was copied from.
    pub source: Option<SourceStamp>,
}

/// The first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// When the source was looked at.
    pub scanned_at: Time,
    /// Do stamps say anything later?
    pub trusted: bool,
}

/// A whole manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The first line.
    pub header: Header,
    /// Sorted by path.
    pub entries: Vec<Entry>,
}

impl Manifest {
    /// What is at a path.
    pub fn get(&self, path: &[u8]) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.path.as_slice().cmp(path)).ok()?;
        self.entries.get(at)
    }
}
