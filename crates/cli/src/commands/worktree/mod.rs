//! `lokt worktree`: directories side by side in one repository, each with a lease of its own. One file per command.

mod answer;
pub(super) mod create;
pub(super) mod init;
pub(super) mod list;
pub(super) mod remove;
pub(super) mod rename;

/// What the group is for.
pub(super) const ABOUT: &str = "Make a repository, and worktrees in it, each with one writer at a time";
