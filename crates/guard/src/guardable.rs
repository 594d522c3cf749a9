//! Interface between a guard and what its command runs under: a hold of a lock, or a claim on a
//! node.

use std::sync::Arc;

use lokt_core::denial::Holder;
use lokt_core::guard::{Ended, Outcome};

use lokt_sys::wakeup::Wakeup;
use lokt_sys::warnings::WithWarnings;

/// A granted hold or claim, owned by the process that runs a command under it.
pub trait Guardable {
    /// Returns the handle that renews and checks it, from any thread.
    fn minded(&self) -> Arc<dyn Renewable>;
    /// Releases it. `ended` is how the command that ran under it ended.
    fn release(self: Box<Self>, ended: Option<Ended>) -> WithWarnings<Outcome>;
    /// Cleans up what is left of it after it was lost.
    fn leave(self: Box<Self>) {
        self.release(None);
    }
    /// Leaves it to the processes that the command left behind.
    fn leave_to_heirs(&mut self) {}
    /// Reports whether a process that the command left behind keeps it. If so, the wakeup rings
    /// when none does any more.
    fn has_heirs(&self, _bell: &Wakeup) -> bool {
        false
    }
}

/// Result of a renewal.
pub struct Renewal {
    /// Time at which the renewal that counts was sent, by the clock of the lease: the new lease may
    /// have begun then.
    pub began_ms: u64,
    /// Outcome of the renewal.
    pub outcome: Outcome,
}

/// Milliseconds between two checks of a record by its guard: nothing notifies the holder of a file
/// that it was replaced.
pub const LOOK_MS: u64 = 1_000;

/// Renews and checks a granted hold or claim.
pub trait Renewable: Send + Sync {
    /// Returns its name.
    fn name(&self) -> &str;
    /// Renews its lease.
    fn renew(&self) -> WithWarnings<Renewal>;
    /// Checks whether it is still ours. Cheap, and blocks nobody.
    fn look(&self) -> Outcome;
    /// Returns the new holder of something that expired before it could be renewed.
    fn successor(&self) -> Option<Holder> {
        None
    }
    /// Reports whether `look` may take long. A check that hangs must not block the thread that has
    /// to stop the command in time.
    fn looks_aside(&self) -> bool {
        false
    }
}
