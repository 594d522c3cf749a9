//! `lokt lease`: one writer per worktree, known by a token that never repeats. One file per command.

pub(super) mod acquire;
mod answer;
pub(super) mod audit;
pub(super) mod breaking;
pub(super) mod denied;
pub(super) mod fence;
pub(super) mod holder;
pub(super) mod place;
pub(super) mod release;
pub(super) mod renew;
pub(super) mod run;
pub(super) mod status;
pub(super) mod steal;
mod take;
mod waiting;
pub(super) mod who;
mod wish;

/// What the group is for.
pub(super) const ABOUT: &str = "Give a worktree one writer at a time, and keep the late from publishing";
