//! What a command can run under, as far as the one who runs it needs to know: a hold of a lock, or a claim on a node.

use std::sync::Arc;

use lokt_core::denial::Holder;
use lokt_core::guard::{Ended, Outcome};

use lokt_sys::wakeup::Wakeup;
use lokt_sys::warnings::WithWarnings;

/// Something that was granted, in the hand of the one who runs a command under it.
pub trait Guardable {
    /// What looks after it, from any thread.
    fn minded(&self) -> Arc<dyn Renewable>;
    /// Gives it back. `ended` is how the command that ran under it ended.
    fn release(self: Box<Self>, ended: Option<Ended>) -> WithWarnings<Outcome>;
    /// The same with what was lost: whatever is left of it.
    fn leave(self: Box<Self>) {
        self.release(None);
    }
    /// Leaves it to what the command left behind.
    fn leave_to_heirs(&mut self) {}
    /// Does anything that the command left behind keep it? Rings when nothing does any more.
    fn has_heirs(&self, _bell: &Wakeup) -> bool {
        false
    }
}

/// The answer of a renewal.
pub struct Renewal {
    /// When the renewal that counts was sent, by the clock of the lease: the new lease may have begun then.
    pub began_ms: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// The time between two checks of a record by its guard: nothing tells the holder of a file that it was replaced.
pub const LOOK_MS: u64 = 1_000;

/// Looks after something that was granted.
pub trait Renewable: Send + Sync {
    /// What it is called.
    fn name(&self) -> &str;
    /// Begins its lease anew.
    fn renew(&self) -> WithWarnings<Renewal>;
    /// Is it still ours? Cheap, and in nobody's way.
    fn look(&self) -> Outcome;
    /// Its time was over before it could be renewed. Who has it now?
    fn successor(&self) -> Option<Holder> {
        None
    }
    /// May a look take its time? What hangs must not keep whoever has to stop a command in time.
    fn looks_aside(&self) -> bool {
        false
    }
}
