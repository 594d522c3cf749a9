//! Attempts to break what is promised of snapshots: others act between two calls, processes end half-way, directories are replaced,
//! and users put odd things where their files are.

#![expect(clippy::disallowed_methods, reason = "tests make and look at files of their own")]

#[path = "../lease_world/mod.rs"]
mod lease_world;

mod gc;
mod publishing;
mod restores;
mod scene;
mod worktrees;
