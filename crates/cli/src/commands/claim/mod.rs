//! `lokt claim`: exactly one agent has a node of work, with a token, until it gives it back or its time is over. One file per command.

mod answer;
mod denied;
pub(super) mod extend;
pub(super) mod holder;
pub(super) mod list;
mod owner;
pub(super) mod reap;
pub(super) mod release;
pub(super) mod run;
pub(super) mod take;

/// What the group is for.
pub(super) const ABOUT: &str = "Give exactly one agent a node of work, and take it back when the agent is gone";
