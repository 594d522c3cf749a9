//! The audit log of a repository: on a disk in memory, with links that are put there by hand.

mod broken;
mod faults;
mod lines;
mod power;
mod scene;
