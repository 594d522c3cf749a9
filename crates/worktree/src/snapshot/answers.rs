//! What is asked of snapshots, and what is answered.

use std::path::PathBuf;

use jiff::Timestamp;
use lokt_core::lease::session::Session;
use lokt_core::name::LockName;
use lokt_core::snapshot::descriptor::{Consistency, Descriptor};
use lokt_core::snapshot::id::SnapshotId;

use crate::lease::LeaseRefusal;

/// Under what somebody acts on a worktree that has a lease; one that is shared asks nobody.
#[derive(Clone, Copy)]
pub enum Acting<'a> {
    /// The lease of this session, which gets more time while the work goes on.
    Session(&'a Session),
    /// The lease with this token.
    Token(u64),
    /// A lease that is taken for as long as the work goes on.
    Acquire,
}

/// How a snapshot is wanted.
pub struct SnapshotWish<'a> {
    /// What is promised about files that change meanwhile.
    pub consistency: Consistency,
    /// What the user says about it.
    pub note: Option<String>,
    /// Under what.
    pub acting: Acting<'a>,
    /// With `.git`, where the worktree is the directory that `.jvs` is in. Elsewhere it always is a part of it.
    pub with_git: bool,
}

/// The answer to `snapshot create`.
#[derive(Debug)]
pub enum Snapshotting {
    /// It is there, for good.
    Taken(Box<Taken>),
    /// The lease isn't the asker's, or no longer; nothing is to be seen of it.
    Denied(Box<LeaseRefusal>),
    /// It was told to stop; nothing is to be seen of it.
    Interrupted,
}

/// A snapshot that was taken.
#[derive(Debug)]
pub struct Taken {
    /// What is said of it.
    pub descriptor: Descriptor,
    /// So many files are as they were in the snapshot before, and were not copied.
    pub reused_files: u64,
    /// So many files were copied.
    pub copied_files: u64,
    /// So many bytes were.
    pub copied_bytes: u64,
}

/// How a worktree gets the files of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InPlace {
    /// Even if what is there now isn't in any snapshot.
    pub force: bool,
    /// Only say what would change.
    pub dry_run: bool,
    /// With the `.git` that the snapshot has, where the worktree is the directory that `.jvs` is in; otherwise the one that is there stays.
    pub with_git: bool,
}

/// The answer to `snapshot restore --in-place`.
#[derive(Debug)]
pub enum Restoring {
    /// The worktree has the snapshot's files.
    Restored(Box<Restored>),
    /// The lease isn't the asker's, or no longer; nothing was changed.
    Denied(Box<LeaseRefusal>),
    /// What is there isn't in the snapshot that it was made from; nothing was changed.
    Dirty(Difference),
    /// What would change.
    Planned(Difference),
    /// It was told to stop; nothing was changed.
    Interrupted,
}

/// What was restored.
#[derive(Debug)]
pub struct Restored {
    /// Which snapshot.
    pub id: SnapshotId,
    /// Which worktree has its files now.
    pub worktree: LockName,
    /// Where they are.
    pub path: PathBuf,
    /// So many.
    pub files: u64,
    /// So many bytes.
    pub bytes: u64,
    /// Where the files are that were there before, until `gc`.
    pub old_tree: Option<PathBuf>,
    /// The worktree's directory is the one that it was: what is in it was exchanged, not the directory.
    pub in_parts: bool,
}

/// The answer to `snapshot restore` into a worktree of its own.
#[derive(Debug)]
pub enum Unfolding {
    /// It is there.
    Made(Box<Restored>),
    /// There is one of that name already, or one that a file system may take for it.
    Exists(LockName),
    /// Something is where its files would be.
    NotEmpty(PathBuf),
    /// It was told to stop; nothing was made.
    Interrupted,
}

/// A snapshot that is visible.
#[derive(Debug, Clone)]
pub struct Listed {
    /// What is said of it.
    pub descriptor: Descriptor,
    /// Somebody wants it kept.
    pub pinned: bool,
    /// The names that it has.
    pub refs: Vec<String>,
    /// The worktrees whose files were last like it.
    pub head_of: Vec<LockName>,
}

/// What can't be used of a snapshot that should be visible.
#[derive(Debug, Clone)]
pub struct Spoiled {
    /// Which.
    pub id: SnapshotId,
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// A snapshot that isn't there, or not yet.
#[derive(Debug, Clone)]
pub struct Unfinished {
    /// Which.
    pub id: SnapshotId,
    /// Somebody is at it.
    pub running: bool,
}

/// A snapshot that was removed.
#[derive(Debug, Clone)]
pub struct Collected {
    /// Which.
    pub id: SnapshotId,
    /// When.
    pub at: Option<Timestamp>,
    /// The one before it.
    pub parent: Option<SnapshotId>,
}

/// What a word for a snapshot means.
#[derive(Debug)]
pub enum Named {
    /// This one.
    Found(Box<Listed>),
    /// One that isn't whole.
    Partial(Unfinished),
    /// One whose description can't be used.
    Spoiled(Spoiled),
    /// One that was removed.
    Collected(Collected),
    /// Several: these.
    Ambiguous(Vec<SnapshotId>),
    /// Nothing.
    Missing,
}

/// Two trees, compared. Paths are relative, and of any bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Only in the second.
    pub added: Vec<Vec<u8>>,
    /// Only in the first.
    pub removed: Vec<Vec<u8>>,
    /// Other content, another kind, or another target.
    pub modified: Vec<Vec<u8>>,
    /// The same content with another mode, time, owner or attribute.
    pub touched: Vec<Vec<u8>>,
}

impl Difference {
    /// Are they the same?
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.modified.is_empty() && self.touched.is_empty()
    }
}

/// A snapshot, verified.
#[derive(Debug, Clone)]
pub struct Verification {
    /// Which.
    pub id: SnapshotId,
    /// Its description is what it was.
    pub checksum_valid: bool,
    /// Its files are what they were.
    pub payload_hash_valid: bool,
    /// What is wrong, at most a hundred.
    pub problems: Vec<String>,
    /// So many files were read.
    pub files: u64,
    /// So many bytes.
    pub bytes: u64,
}

impl Verification {
    /// Is it what it was?
    pub fn is_sound(&self) -> bool {
        self.checksum_valid && self.payload_hash_valid
    }

    /// The stable code of what is wrong.
    pub fn code(&self) -> Option<&'static str> {
        match (self.checksum_valid, self.payload_hash_valid) {
            (true, true) => None,
            (false, _) => Some("E_DESCRIPTOR_CORRUPT"),
            (true, false) => Some("E_PAYLOAD_HASH_MISMATCH"),
        }
    }
}
