//! Requests about snapshots, and the answers to them.

use std::path::PathBuf;

use jiff::Timestamp;
use lokt_core::lease::session::Session;
use lokt_core::name::LockName;
use lokt_core::snapshot::descriptor::{Consistency, Descriptor};
use lokt_core::snapshot::id::SnapshotId;

use crate::lease::LeaseRefusal;

/// Authority for a change of a worktree that has a lease; a shared worktree needs none.
#[derive(Clone, Copy)]
pub enum Acting<'a> {
    /// The lease of this session, which is renewed during the work.
    Session(&'a Session),
    /// The lease with this token.
    Token(u64),
    /// A lease that is acquired for the duration of the work.
    Acquire,
}

/// A request for a snapshot.
pub struct SnapshotWish<'a> {
    /// Guarantee about files that change during the copy.
    pub consistency: Consistency,
    /// The user's note.
    pub note: Option<String>,
    /// The authority.
    pub acting: Acting<'a>,
    /// Include `.git`, if the worktree is the directory that `.jvs` is in. Elsewhere it is always
    /// included.
    pub with_git: bool,
}

/// The answer to `snapshot create`.
#[derive(Debug)]
pub enum Snapshotting {
    /// The snapshot exists, durably.
    Taken(Box<Taken>),
    /// The caller doesn't hold the lease, or no longer; nothing of the snapshot is visible.
    Denied(Box<LeaseRefusal>),
    /// The work was told to stop; nothing of the snapshot is visible.
    Interrupted,
}

/// A snapshot that was taken.
#[derive(Debug)]
pub struct Taken {
    /// Its descriptor.
    pub descriptor: Descriptor,
    /// Number of files that are as they were in the snapshot before, and were not copied.
    pub reused_files: u64,
    /// Number of files that were copied.
    pub copied_files: u64,
    /// Number of bytes that were copied.
    pub copied_bytes: u64,
}

/// Options of a restore in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InPlace {
    /// Restore even if the current files aren't in any snapshot.
    pub force: bool,
    /// Only report what would change.
    pub dry_run: bool,
    /// Restore the snapshot's `.git`, too, if the worktree is the directory that `.jvs` is in.
    /// Otherwise the current one stays.
    pub with_git: bool,
}

/// The answer to `snapshot restore --in-place`.
#[derive(Debug)]
pub enum Restoring {
    /// The worktree has the snapshot's files.
    Restored(Box<Restored>),
    /// The caller doesn't hold the lease, or no longer; nothing was changed.
    Denied(Box<LeaseRefusal>),
    /// The current files aren't in the snapshot that they were made from; nothing was changed.
    Dirty(Difference),
    /// The changes that a restore would make.
    Planned(Difference),
    /// The work was told to stop; nothing was changed.
    Interrupted,
}

/// A finished restore.
#[derive(Debug)]
pub struct Restored {
    /// The snapshot.
    pub id: SnapshotId,
    /// The worktree that has its files now.
    pub worktree: LockName,
    /// Directory of the files.
    pub path: PathBuf,
    /// Number of files.
    pub files: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Directory of the former files, until `gc`.
    pub old_tree: Option<PathBuf>,
    /// The worktree's directory is still the same one: its contents were exchanged, not the
    /// directory.
    pub in_parts: bool,
}

/// The answer to `snapshot restore` into a worktree of its own.
#[derive(Debug)]
pub enum Unfolding {
    /// The worktree was created.
    Made(Box<Restored>),
    /// A worktree of that name already exists, or one that a file system may take for it.
    Exists(LockName),
    /// Something is where its files would be.
    NotEmpty(PathBuf),
    /// The work was told to stop; nothing was created.
    Interrupted,
}

/// A snapshot that is visible.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its descriptor.
    pub descriptor: Descriptor,
    /// Whether it is pinned.
    pub pinned: bool,
    /// The names that it has.
    pub refs: Vec<String>,
    /// The worktrees whose files last matched it.
    pub head_of: Vec<LockName>,
}

/// The unusable part of a snapshot that should be visible.
#[derive(Debug, Clone)]
pub struct Spoiled {
    /// The snapshot.
    pub id: SnapshotId,
    /// The file or directory.
    pub path: PathBuf,
    /// The problem with it.
    pub why: String,
}

/// A snapshot that isn't there, or not yet.
#[derive(Debug, Clone)]
pub struct Unfinished {
    /// The snapshot.
    pub id: SnapshotId,
    /// Whether a process is working on it.
    pub running: bool,
}

/// A snapshot that was removed.
#[derive(Debug, Clone)]
pub struct Collected {
    /// The snapshot.
    pub id: SnapshotId,
    /// Time of the removal.
    pub at: Option<Timestamp>,
    /// The snapshot before it.
    pub parent: Option<SnapshotId>,
}

/// Meaning of a user's word for a snapshot.
#[derive(Debug)]
pub enum Named {
    /// This snapshot.
    Found(Box<Listed>),
    /// An incomplete snapshot.
    Partial(Unfinished),
    /// A snapshot whose descriptor is unusable.
    Spoiled(Spoiled),
    /// A snapshot that was removed.
    Collected(Collected),
    /// Several snapshots.
    Ambiguous(Vec<SnapshotId>),
    /// No snapshot.
    Missing,
}

/// Differences between two trees. Paths are relative, and of any bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Only in the second.
    pub added: Vec<Vec<u8>>,
    /// Only in the first.
    pub removed: Vec<Vec<u8>>,
    /// Different content, kind or target.
    pub modified: Vec<Vec<u8>>,
    /// The same content with another mode, time or attribute.
    pub touched: Vec<Vec<u8>>,
}

impl Difference {
    /// Reports whether the trees are equal.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.modified.is_empty() && self.touched.is_empty()
    }
}

/// Result of verifying a snapshot.
#[derive(Debug, Clone)]
pub struct Verification {
    /// The snapshot.
    pub id: SnapshotId,
    /// Whether its descriptor is unchanged.
    pub checksum_valid: bool,
    /// Whether its files are unchanged.
    pub payload_hash_valid: bool,
    /// Problems, at most a hundred.
    pub problems: Vec<String>,
    /// Number of files that were read.
    pub files: u64,
    /// Number of bytes that were read.
    pub bytes: u64,
}

impl Verification {
    /// Reports whether the snapshot is unchanged.
    pub fn is_sound(&self) -> bool {
        self.checksum_valid && self.payload_hash_valid
    }

    /// Returns the stable code of the problem.
    pub fn code(&self) -> Option<&'static str> {
        match (self.checksum_valid, self.payload_hash_valid) {
            (true, true) => None,
            (false, _) => Some("E_DESCRIPTOR_CORRUPT"),
            (true, false) => Some("E_PAYLOAD_HASH_MISMATCH"),
        }
    }
}
