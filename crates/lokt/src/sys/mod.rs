//! The only code that talks to the system.
//!
//! Everything above asks these two traits: [`disk::Disk`] for files below one root and for the root's mutex, [`machine::Machine`] for
//! clocks, processes and randomness. Tests put their own behind them.

pub(crate) mod arena;
pub mod bell;
pub mod changes;
pub mod disk;
mod flock;
pub(crate) mod herd;
mod inherited;
pub(crate) mod keepers;
pub(crate) mod look;
pub mod machine;
pub(crate) mod mortal;
pub(crate) mod mounts;
pub mod mutex;
pub mod news;
mod os_dirs;
pub mod os_disk;
mod os_mutex;
pub(crate) mod payload;
pub(crate) mod pid_spaces;
pub(crate) mod place;
pub(crate) mod probe_dir;
mod proc_locks;
pub mod pulse_file;
pub(crate) mod rival;
pub(crate) mod shared_lock;
pub mod signals;
mod sleepers;
pub(crate) mod spawn;
pub mod staged;
pub mod start;
pub mod stopper;
pub mod terminal;
#[cfg_attr(lokt_scheduled, path = "../../../threads/src/scheduled.rs")]
pub mod threads;
mod unnamed;
mod vfork;
pub(crate) mod waker;
