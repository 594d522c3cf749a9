//! `lokt ledger`: a log of events, one file each, that programs of several kinds append to. One file per command.

pub(super) mod append;
pub(super) mod checkpoint;
pub(super) mod doctor;
pub(super) mod export;
pub(super) mod follow;
pub(super) mod head;
pub(super) mod init;
mod input;
pub(super) mod place;
mod problems;
mod scan;
pub(super) mod show;
pub(super) mod verify;

/// What the group is for.
pub(super) const ABOUT: &str = "Append to a log of events beside other programs, and read it";
