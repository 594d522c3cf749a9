//! What is on disk, what of it is durable, and what a power cut leaves.
//!
//! The lock directory is a list of versions since its last sync: the first is durable, the last is what everybody sees, and a power cut
//! leaves any one of them, because journals replay in order. A record whose own bytes were not synced may come back empty. The next
//! file is never synced: a power cut may lose it. The ceiling is always synced.

use super::counter::Next;
use super::record::Record;

/// What lies under the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// Nothing.
    Nothing,
    /// A record without bytes, left by a power cut.
    Torn,
    /// A record.
    Held(Record),
}

impl Entry {
    /// The record, if there is a whole one.
    pub fn record(&self) -> Option<&Record> {
        match self {
            Self::Held(record) => Some(record),
            Self::Nothing | Self::Torn => None,
        }
    }

    pub(super) fn record_mut(&mut self) -> Option<&mut Record> {
        match self {
            Self::Held(record) => Some(record),
            Self::Nothing | Self::Torn => None,
        }
    }

    /// Does it have an owner part, which must outlive the machine?
    pub fn is_owned(&self) -> bool {
        self.record().is_some_and(|record| record.owned.is_some())
    }
}

/// One state of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// What lay there.
    pub entry: Entry,
    /// Are its bytes durable?
    pub whole: bool,
}

/// The files of one root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Disk {
    versions: Vec<Version>,
    /// The next file, not synced.
    pub next: Option<Next>,
    /// The ceiling, synced.
    pub ceiling: u16,
}

impl Disk {
    /// A new root.
    pub(super) fn new() -> Self {
        Self { versions: vec![Version { entry: Entry::Nothing, whole: true }], next: None, ceiling: 0 }
    }

    /// What everybody sees.
    pub fn entry(&self) -> &Entry {
        &self.versions.last().expect("there is always a version").entry
    }

    /// The versions that a power cut may leave, oldest first.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Puts something else there.
    pub(super) fn put(&mut self, entry: Entry, whole: bool) {
        self.versions.push(Version { entry, whole });
    }

    /// Makes the directory durable, and the bytes of `wrote` if they are still there.
    pub(super) fn sync(&mut self, wrote: Option<&Record>) {
        let last = self.versions.len() - 1;
        self.versions.drain(..last);
        let version = &mut self.versions[0];
        version.whole |= version.entry.record().is_none() || version.entry.record() == wrote;
    }

    /// A power cut that leaves the version numbered `kept`.
    pub(super) fn cut(&mut self, kept: usize, torn: bool, next_lost: bool) {
        let entry = if torn { Entry::Torn } else { self.versions[kept].entry };
        self.versions = vec![Version { entry, whole: true }];
        if next_lost {
            self.next = None;
        }
    }

    /// The power will not be cut again: how things came about doesn't matter any more.
    pub(super) fn forget(&mut self) {
        let last = self.versions.len() - 1;
        self.versions.drain(..last);
        self.versions[0].whole = true;
    }

    /// Every record in the directory's versions.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.versions.iter().filter_map(|version| version.entry.record())
    }

    pub(super) fn records_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.versions.iter_mut().filter_map(|version| version.entry.record_mut())
    }

    /// A power cut leaves any of the versions but the last, or the last: the order of the others, or how often one comes, says nothing.
    pub(super) fn sort(&mut self) {
        let last = self.versions.pop().expect("there is always a version");
        self.versions.sort_unstable();
        self.versions.dedup();
        self.versions.retain(|version| *version != last);
        self.versions.push(last);
    }
}
