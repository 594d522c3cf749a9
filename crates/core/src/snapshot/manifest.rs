//! Content of a tree: one line for each entry, sorted by path. It is the authority about everything
//! that the copy in the store can't be trusted with: which names were one file, owners, times,
//! attributes.
//!
//! The first line is a header. Lines can be written and read one by one, so a manifest never needs
//! a whole tree in memory.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::entry::{Entry, Kind, Time};

/// Version of the format.
const VERSION: u64 = 1;
/// Algorithm of the hashes of contents.
const ALGO: &str = "blake3";
/// Maximum length of a line in bytes. A path has a few thousand bytes; only attributes can be many.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// First line of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Time of the scan of the source before the copy, by the clock that stamps its files. A file
    /// that changed after a moment shortly before it may have changed again within the same tick.
    pub scanned_at: Time,
    /// True if every change of the source moves a file's change time, and nothing changed during
    /// the copy. Only then the identity of a source says anything about it later.
    pub trusted: bool,
}

/// A whole manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The first line.
    pub header: Header,
    /// Entries sorted by path; the first is the root, whose path is empty.
    pub entries: Vec<Entry>,
}

/// Checks line by line that the lines form a tree.
#[derive(Debug, Default)]
pub struct Checker {
    last: Option<Vec<u8>>,
    dirs: BTreeSet<Vec<u8>>,
    /// Possible targets of a hard link. Only an earlier entry can be a first name.
    files: BTreeSet<Vec<u8>>,
}

/// Computes the hash over a tree, entry by entry.
#[derive(Debug, Clone, Default)]
pub struct RootHasher(blake3::Hasher);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderLine {
    version: u64,
    algo: String,
    scanned_at: (i64, u32),
    trusted: bool,
}

impl Header {
    /// Returns its line, with a newline.
    pub fn line(&self) -> Vec<u8> {
        let scanned_at = (self.scanned_at.secs, self.scanned_at.nanos);
        let header = HeaderLine { version: VERSION, algo: ALGO.into(), scanned_at, trusted: self.trusted };
        let mut line = serde_json::to_vec(&header).expect("a header is JSON");
        line.push(b'\n');
        line
    }

    /// Parses a line, with or without its newline; the error says what is wrong.
    pub fn parse_line(line: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let no_header = |error| format!("it doesn't begin as a manifest does ({error})");
        // First: the header of a newer version needn't look like ours.
        let Version { version } = parse_json(line).map_err(no_header)?;
        if version != VERSION {
            return Err(format!("its version is {version}, which this program doesn't know"));
        }
        let header: HeaderLine = parse_json(line).map_err(no_header)?;
        if header.algo != ALGO {
            return Err(format!("its contents are hashed by {:?}, which this program doesn't know", header.algo));
        }
        let (secs, nanos) = header.scanned_at;
        let scanned_at = Time::new(secs, nanos).ok_or("its time can't be one")?;
        Ok(Self { scanned_at, trusted: header.trusted })
    }
}

fn parse_json<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(line)
}

impl Manifest {
    /// Returns its bytes; the error names an entry that is too long for a line.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let mut bytes = self.header.line();
        for entry in &self.entries {
            bytes.extend(entry.line()?);
        }
        Ok(bytes)
    }

    /// Parses a manifest; the error says what is wrong in which line.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let whole = bytes.strip_suffix(b"\n").ok_or("it ends in the middle of a line")?;
        let mut lines = whole.split(|byte| *byte == b'\n');
        let header = Header::parse_line(lines.next().unwrap_or_default())?;
        let mut checker = Checker::default();
        let entries = lines.zip(2_u64..).map(|(line, number)| {
            let entry = Entry::parse_line(line).map_err(|why| format!("line {number}: {why}"))?;
            checker.next(&entry).map_err(|why| format!("line {number}: {why}"))?;
            Ok(entry)
        });
        let entries = entries.collect::<Result<Vec<Entry>, String>>()?;
        checker.end()?;
        Ok(Self { header, entries })
    }

    /// Returns the hash over the whole tree.
    pub fn root_hash(&self) -> Result<[u8; 32], String> {
        root_hash(&self.entries)
    }

    /// Returns the entry at a path.
    pub fn get(&self, path: &[u8]) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.path.as_slice().cmp(path)).ok()?;
        self.entries.get(at)
    }
}

/// Returns the hash over everything in a tree whose entries are sorted: contents, names, types,
/// modes, owners, times, attributes and which names are one file. The identity of the source isn't
/// in it, so equal trees have equal hashes wherever they are.
pub fn root_hash(entries: &[Entry]) -> Result<[u8; 32], String> {
    let mut hasher = RootHasher::default();
    entries.iter().try_for_each(|entry| hasher.add(entry))?;
    Ok(hasher.finish())
}

impl RootHasher {
    /// Adds the next entry; fails if it is too long for a line.
    pub fn add(&mut self, entry: &Entry) -> Result<(), String> {
        self.0.update(&entry.line_without_source()?);
        Ok(())
    }

    /// Adds the next entry and returns its line in the manifest: most of the work is the same for
    /// both.
    pub fn add_line(&mut self, entry: &Entry) -> Result<Vec<u8>, String> {
        let hashed = entry.line_without_source()?;
        self.0.update(&hashed);
        entry.with_source(hashed)
    }

    /// Returns the hash over all entries that were added.
    pub fn finish(&self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

impl Checker {
    /// Checks the next entry; the error says what is wrong with it here.
    pub fn next(&mut self, entry: &Entry) -> Result<(), String> {
        let path = &entry.path;
        match &self.last {
            None if !path.is_empty() || entry.kind != Kind::Dir => return Err("the first entry isn't the root".into()),
            Some(last) if last >= path => return Err("it isn't sorted".into()),
            _ => {}
        }
        if !path.is_empty() && !self.dirs.contains(parent(path)) {
            return Err("the directory that it is in isn't there".into());
        }
        match &entry.kind {
            Kind::Dir => _ = self.dirs.insert(path.clone()),
            Kind::File { .. } | Kind::Symlink { .. } => _ = self.files.insert(path.clone()),
            Kind::HardLink { to } if self.files.contains(to) => {}
            Kind::HardLink { .. } => return Err("its first name isn't there".into()),
        }
        self.last = Some(path.clone());
        Ok(())
    }

    /// Checks that there was a tree at all.
    pub fn end(&self) -> Result<(), String> {
        if self.last.is_some() { Ok(()) } else { Err("it has no entries".into()) }
    }
}

/// Returns the directory that an entry is in; that of the first level is the root.
fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |slash| &path[..slash])
}
