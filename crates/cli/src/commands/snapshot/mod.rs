//! `lokt snapshot`: copies of a worktree that are whole or not there. One file per command.
//!
//! | file | one idea |
//! | --- | --- |
//! | `acting` | which worktree, and under which lease |
//! | `naming` | which snapshot |
//! | `work` | work that takes a while, and can be stopped |
//! | `members` | a snapshot in JSON |
//! | `difference` | what differs, in text and JSON |

mod acting;
pub(super) mod create;
pub(super) mod diff;
mod difference;
pub(super) mod gc;
pub(super) mod history;
pub(super) mod info;
mod members;
pub(super) mod naming;
pub(super) mod pin;
pub(super) mod restore;
pub(super) mod show;
pub(super) mod unpin;
pub(super) mod verify;
mod work;

/// What the group is for.
pub(super) const ABOUT: &str = "Keep copies of a worktree that are whole or not there, and bring them back";
