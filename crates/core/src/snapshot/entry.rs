//! One entry of a tree, as a line of its manifest.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::bytes::{Read, Shown, from_hex, to_hex};
use super::manifest::LINE_BYTES_MAX;

/// All bits of a mode except the type.
const MODE_MAX: u32 = 0o7777;
const NANOS_PER_SEC: u32 = 1_000_000_000;

/// A time of a file, to the nanosecond. Files can be older than 1970, and newer than any clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Seconds since 1970.
    pub secs: i64,
    /// Nanoseconds after that, less than a second.
    pub nanos: u32,
}

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path from the root of the tree, with `/` between names, which may be any bytes. The root's
    /// own path is empty.
    pub path: Vec<u8>,
    /// Its kind.
    pub kind: Kind,
    /// Its permission bits, with set-uid, set-gid and sticky.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Time of its last modification.
    pub mtime: Time,
    /// Its extended attributes, sorted by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Identity of the original, as the kernel knows it. Not part of the tree, and not hashed.
    pub source: Option<SourceStamp>,
}

/// Kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A file, or the first name of one.
    File {
        /// Its size in bytes.
        size: u64,
        /// BLAKE3 of its content.
        hash: [u8; 32],
    },
    /// Another name of a file or symbolic link whose first name comes earlier.
    HardLink {
        /// Path of the first name.
        to: Vec<u8>,
    },
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink {
        /// Its target, as stored in the link.
        target: Vec<u8>,
    },
}

/// Identity by which the kernel distinguishes a file, and each of its changes, from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceStamp {
    /// The device.
    pub dev: u64,
    /// The inode.
    pub ino: u64,
    /// Time of the last change of anything about it; no program can set it.
    pub ctime: Time,
}

impl Time {
    /// Creates a time; `None` if `nanos` is a second or more.
    pub fn new(secs: i64, nanos: u32) -> Option<Self> {
        (nanos < NANOS_PER_SEC).then_some(Self { secs, nanos })
    }

    /// Returns the nanoseconds since 1970.
    pub fn as_nanos(self) -> i128 {
        i128::from(self.secs) * i128::from(NANOS_PER_SEC) + i128::from(self.nanos)
    }

    /// Creates a time from nanoseconds since 1970; `None` if no file can have it.
    pub fn from_nanos(nanos: i128) -> Option<Self> {
        let per_sec = i128::from(NANOS_PER_SEC);
        let secs = i64::try_from(nanos.div_euclid(per_sec)).ok()?;
        Self::new(secs, u32::try_from(nanos.rem_euclid(per_sec)).ok()?)
    }
}

/// Members in the order in which they are written. Those that a kind doesn't have are absent.
#[derive(Serialize)]
struct Written<'a> {
    path: Shown<'a>,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: (i64, u32),
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Shown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Shown<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    xattrs: Vec<(Shown<'a>, Shown<'a>)>,
}

/// The same members, for reading. An unknown member is refused: it would say something about the
/// tree that is neither restored nor hashed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    path: Read,
    // Borrowed if nothing in it is escaped.
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: (i64, u32),
    size: Option<u64>,
    hash: Option<String>,
    to: Option<Read>,
    target: Option<Read>,
    #[serde(default)]
    xattrs: Vec<(Read, Read)>,
    source: Option<Stamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stamp {
    dev: u64,
    ino: u64,
    ctime: (i64, u32),
}

impl Entry {
    /// Returns its line in a manifest, with a newline; fails if the line would be too long.
    pub fn line(&self) -> Result<Vec<u8>, String> {
        self.with_source(self.line_without_source()?)
    }

    /// Returns the line without the identity of the source, as it is hashed.
    pub fn line_without_source(&self) -> Result<Vec<u8>, String> {
        let (mut size, mut hash, mut to, mut target) = (None, None, None, None);
        match &self.kind {
            Kind::File { size: bytes, hash: digest } => (size, hash) = (Some(*bytes), Some(to_hex(digest))),
            Kind::HardLink { to: first } => to = Some(Shown(first)),
            Kind::Dir => {}
            Kind::Symlink { target: leads_to } => target = Some(Shown(leads_to)),
        }
        let written = Written {
            path: Shown(&self.path),
            kind: self.kind.as_str(),
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            mtime: (self.mtime.secs, self.mtime.nanos),
            size,
            hash,
            to,
            target,
            xattrs: self.xattrs.iter().map(|(name, value)| (Shown(name), Shown(value))).collect(),
        };
        let mut line = serde_json::to_vec(&written).expect("an entry is JSON");
        line.push(b'\n');
        self.short(line)
    }

    /// Turns the line that is hashed into that of a manifest: the identity of the source is its
    /// last member.
    pub(super) fn with_source(&self, mut line: Vec<u8>) -> Result<Vec<u8>, String> {
        let Some(SourceStamp { dev, ino, ctime }) = self.source else { return Ok(line) };
        let source =
            serde_json::to_vec(&Stamp { dev, ino, ctime: (ctime.secs, ctime.nanos) }).expect("a stamp is JSON");
        // Cut off the end of the object.
        line.truncate(line.len() - 2);
        line.extend([br#","source":"#, source.as_slice(), b"}\n"].concat());
        self.short(line)
    }

    fn short(&self, line: Vec<u8>) -> Result<Vec<u8>, String> {
        if line.len() > LINE_BYTES_MAX {
            let path = String::from_utf8_lossy(&self.path);
            return Err(format!("{path} has names and attributes of {} bytes, more than a line may have", line.len()));
        }
        Ok(line)
    }

    /// Parses a line, with or without its newline; the error says what is wrong.
    pub fn parse_line(line: &[u8]) -> Result<Self, String> {
        if line.len() > LINE_BYTES_MAX {
            return Err("it is too long".into());
        }
        let line: Line<'_> = serde_json::from_slice(line).map_err(|error| format!("it is no entry ({error})"))?;
        let entry = Self {
            path: line.path.0,
            kind: match (&*line.kind, line.size, line.hash, line.to, line.target) {
                ("file", Some(size), Some(hash), None, None) => Kind::File { size, hash: digest(&hash)? },
                ("link", None, None, Some(to), None) => Kind::HardLink { to: to.0 },
                ("dir", None, None, None, None) => Kind::Dir,
                ("symlink", None, None, None, Some(target)) => Kind::Symlink { target: target.0 },
                ("file" | "link" | "dir" | "symlink", ..) => {
                    return Err("it has other members than its type has".into());
                }
                _ => return Err("its type is unknown".into()),
            },
            mode: line.mode,
            uid: line.uid,
            gid: line.gid,
            mtime: time(line.mtime)?,
            xattrs: line.xattrs.into_iter().map(|(name, value)| (name.0, value.0)).collect(),
            source: match line.source {
                None => None,
                Some(Stamp { dev, ino, ctime }) => Some(SourceStamp { dev, ino, ctime: time(ctime)? }),
            },
        };
        entry.checked()
    }

    /// Returns the entry, if there can be such an entry, and nothing in it leads out of the tree.
    fn checked(self) -> Result<Self, String> {
        if !is_path(&self.path) {
            return Err("its path can't be one".into());
        }
        if self.path.is_empty() && self.kind != Kind::Dir {
            return Err("the root is no directory".into());
        }
        match &self.kind {
            Kind::HardLink { to } if to.is_empty() || !is_path(to) || *to >= self.path => {
                return Err("its first name can't be one".into());
            }
            Kind::Symlink { target } if target.is_empty() || target.contains(&0) => {
                return Err("its target can't be one".into());
            }
            _ => {}
        }
        if self.mode > MODE_MAX {
            return Err("its mode can't be one".into());
        }
        let are_names = self.xattrs.iter().all(|(name, _)| !name.is_empty() && !name.contains(&0));
        if !are_names || !self.xattrs.is_sorted_by(|one, next| one.0 < next.0) {
            return Err("the names of its attributes can't be some, or aren't sorted".into());
        }
        Ok(self)
    }
}

impl Kind {
    /// Returns its name in a manifest.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::HardLink { .. } => "link",
            Self::Dir => "dir",
            Self::Symlink { .. } => "symlink",
        }
    }
}

/// Reports whether the path is that of the root, or leads to something below it.
fn is_path(path: &[u8]) -> bool {
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
    path.is_empty() || path.split(|byte| *byte == b'/').all(is_name)
}

fn time((secs, nanos): (i64, u32)) -> Result<Time, String> {
    Time::new(secs, nanos).ok_or_else(|| "its time can't be one".into())
}

fn digest(digits: &str) -> Result<[u8; 32], String> {
    from_hex(digits).and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| "its hash can't be one".into())
}
