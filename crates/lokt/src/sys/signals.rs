//! No signal that can be blocked ends or stops this thread while it is inside the mutex.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{Resource, getrlimit};

/// Signals of this thread are blocked until this is dropped.
pub(super) struct Blocked {
    before: Option<SigSet>,
}

impl Blocked {
    /// Blocks every signal that can be blocked.
    pub(super) fn all() -> Self {
        Self::these(SigSet::all())
    }

    /// Blocks what a terminal sends to stop a process; Ctrl-C still ends it.
    pub(super) fn stops() -> Self {
        let mut stops = SigSet::empty();
        for signal in [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU] {
            stops.add(signal);
        }
        Self::these(stops)
    }

    fn these(set: SigSet) -> Self {
        // Going on without is better than not going on: a signal inside the mutex costs others time, never safety.
        Self { before: set.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok() }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = before.thread_set_mask();
        }
    }
}

/// After a write at `position` that was refused as beyond the file size limit: takes back the signal that the kernel sent along with the
/// error, if it is blocked. It would end the process later, when the change is made and nobody has been told.
pub(super) fn forget_file_size(position: u64) {
    let is_blocked = SigSet::thread_get_mask().is_ok_and(|mask| mask.contains(Signal::SIGXFSZ));
    // Below the limit, or without one, the error has another reason and no signal, and waiting for one would never end.
    if is_blocked && getrlimit(Resource::Fsize).current.is_some_and(|limit| limit <= position) {
        let mut file_size = SigSet::empty();
        file_size.add(Signal::SIGXFSZ);
        let _ = file_size.wait();
    }
}
