//! What a command can run under, as far as the one who runs it needs to know: a hold of a lock, or a claim on a node.

use std::sync::Arc;

use lokt_core::denial::Holder;
use lokt_core::guard::{Ended, Outcome};

use crate::grasp::{Grasp, Proof};
use crate::locks::Said;
use crate::sys::bell::Bell;

/// Something that was granted, in the hand of the one who runs a command under it.
pub(super) trait Kept {
    /// What looks after it, from any thread.
    fn minded(&self) -> Arc<dyn Minded>;
    /// Gives it back. `ended` is how the command that ran under it ended.
    fn release(self: Box<Self>, ended: Option<Ended>) -> Said<Outcome>;
    /// The same with what was lost: whatever is left of it.
    fn leave(self: Box<Self>) {
        self.release(None);
    }
    /// Leaves it to what the command left behind.
    fn leave_to_heirs(&mut self) {}
    /// Does anything that the command left behind keep it? Rings when nothing does any more.
    fn has_heirs(&self, _bell: &Bell) -> bool {
        false
    }
}

/// Looks after something that was granted.
pub(super) trait Minded: Send + Sync {
    /// What it is called.
    fn name(&self) -> &str;
    /// Begins its lease anew.
    fn renew(&self) -> Said<Outcome>;
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

impl Kept for Grasp {
    fn minded(&self) -> Arc<dyn Minded> {
        Arc::new(self.proof())
    }

    fn release(self: Box<Self>, ended: Option<Ended>) -> Said<Outcome> {
        self.release_after(ended)
    }

    fn leave_to_heirs(&mut self) {
        Self::leave_to_heirs(self);
    }

    fn has_heirs(&self, bell: &Bell) -> bool {
        Self::has_heirs(self, bell)
    }
}

impl Minded for Proof {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn renew(&self) -> Said<Outcome> {
        Self::renew(self)
    }

    fn look(&self) -> Outcome {
        Self::look(self)
    }
}
