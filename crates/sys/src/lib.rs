//! The only code that talks to the system.
//!
//! All other code goes through two traits: [`disk::Disk`] for files below one root and for the
//! root's mutex, [`machine::Machine`] for clocks, processes and randomness. Tests substitute their
//! own implementations.

pub mod boot_timer;
pub mod call;
pub mod changes;
pub mod disk;
pub mod error;
pub mod exchange;
pub mod files;
mod flock;
mod flock_waiters;
mod inherited;
pub mod keepers;
pub mod look;
pub mod machine;
pub mod mortal;
pub mod mounts;
pub mod mutex;
pub mod nap;
pub mod one_shot;
mod os_dirs;
pub mod os_disk;
mod os_mutex;
pub mod output;
pub mod parallel;
pub mod payload;
pub mod pid_spaces;
pub mod place;
pub mod plain_file;
pub mod probe_dir;
mod proc_locks;
pub mod publish_error;
pub mod pulse_file;
pub mod repository;
pub mod rival;
pub mod search;
pub mod shared_lock;
pub mod signals;
pub mod spawn;
pub mod staged;
pub mod start;
pub mod stopper;
pub mod terminal;
pub mod threads;
mod unnamed;
mod vfork;
pub mod wait_policy;
pub mod wakeup;
pub mod warnings;
pub mod witness;
