//! Running a command under locks, under a claim or under the lease of a worktree. What to do next is decided by [`lokt_core::guard::Guard`]; this does it.
//!
//! `shell` drives it: one thread sleeps on the signals of the process, and on the clock. Renewals run in threads of their own, one per renewal and only when
//! there is one, so a busy root never keeps a signal from the command. Everything that was granted is released when the direct child has
//! ended; the pulse, which the command inherits, keeps the lock if the guard is killed first.

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
