//! Runs a command under locks, under a claim or under the lease of a worktree.
//! [`lokt_core::guard::Guard`] decides what to do next; this crate does it.
//!
//! `shell` drives it: one thread sleeps on the signals of the process, and on the clock. Each
//! renewal runs in a thread of its own, started when it is due, so a busy root never keeps a signal
//! from the command. Everything that was granted is released when the direct child has ended. If
//! the guard is killed first, the pulse, which the command inherits, keeps the lock.

mod clock;
mod guardable;
mod renewer;
mod run;
mod shell;

pub use clock::ClockKind;
pub use guardable::{Guardable, LOOK_MS, Renewable, Renewal};
pub use renewer::{Renewer, keep_renewed};
pub use run::{Finished, Notice, RunOptions, before_start, drive, had_started, interrupted};
pub use shell::Shell;
