//! Cancelling a wait or a long operation from another thread.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "worktree")]
use std::sync::{
    Weak,
    atomic::{AtomicBool, Ordering},
};

use lokt_sys::error as sys;
use lokt_sys::wait_policy::Interrupt;
use lokt_sys::wakeup::Wakeup;

use crate::Error;

/// A handle that ends waits and long operations from any thread. Clones share their state. Once
/// cancelled, it stays cancelled.
///
/// It ends waits for locks, claims, leases and events, and the copying of snapshots.
///
/// ```
/// use std::thread;
/// use lokt::{Cancel, Lokt, LockError};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let lokt = Lokt::open(dir.path().join("root"))?;
/// let held = lokt.guard("build").try_acquire()?;
///
/// let cancel = Cancel::new();
/// let other = thread::spawn({
///     let cancel = cancel.clone();
///     move || cancel.cancel()
/// });
/// let waited = lokt.guard("build").acquire_until(&cancel);
/// assert!(matches!(waited, Err(LockError::Cancelled)));
/// # other.join().expect("it doesn't panic");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_cancelled: bool,
    /// The descriptor that all waits sleep on; the first wait creates it.
    wakeup: Option<Wakeup>,
    /// Flags of operations that poll for cancellation. Each operation has its own flag, because the
    /// loss of its lease also sets it.
    #[cfg(feature = "worktree")]
    halts: Vec<Weak<AtomicBool>>,
}

impl Cancel {
    /// Creates a handle that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends all waits and operations that use this handle, now or later.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.is_cancelled = true;
        if let Some(wakeup) = &state.wakeup {
            wakeup.rope().ring();
        }
        #[cfg(feature = "worktree")]
        for halt in state.halts.drain(..).filter_map(|halt| halt.upgrade()) {
            halt.store(true, Ordering::Relaxed);
        }
    }

    /// Reports whether the handle was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interrupt for a wait; `None` if the handle was already cancelled.
    pub(crate) fn alarm(&self) -> Result<Option<Alarm<'_>>, Error> {
        let mut state = self.state();
        if state.is_cancelled {
            return Ok(None);
        }
        let wakeup = match &state.wakeup {
            Some(wakeup) => wakeup.clone(),
            None => Wakeup::new().map_err(|source| sys::Error::io("make", "a wakeup".as_ref(), source))?,
        };
        state.wakeup = Some(wakeup.clone());
        Ok(Some(Alarm { cancel: self, wakeup }))
    }

    /// A flag that is set on cancellation; `None` if the handle was already cancelled.
    #[cfg(feature = "worktree")]
    pub(crate) fn halt(&self) -> Option<Arc<AtomicBool>> {
        let mut state = self.state();
        if state.is_cancelled {
            return None;
        }
        let halt = Arc::new(AtomicBool::new(false));
        state.halts.retain(|other| other.strong_count() > 0);
        state.halts.push(Arc::downgrade(&halt));
        Some(halt)
    }
}

/// A handle as the interrupt of one wait. The wakeup is never drained, so it wakes all waits.
pub(crate) struct Alarm<'a> {
    cancel: &'a Cancel,
    wakeup: Wakeup,
}

impl Interrupt for Alarm<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    fn is_raised(&mut self) -> bool {
        self.cancel.is_cancelled()
    }
}

#[cfg(all(test, feature = "worktree"))]
mod tests {
    use std::sync::atomic::Ordering;

    use super::Cancel;

    #[test]
    fn the_loss_of_a_lease_stops_its_work_and_cancels_nothing_else() {
        let cancel = Cancel::new();
        let works = [cancel.halt().expect("a flag"), cancel.halt().expect("a flag")];
        // The loss of a lease does this to the work under it.
        works[0].store(true, Ordering::Relaxed);
        assert!(!cancel.is_cancelled() && !works[1].load(Ordering::Relaxed));
        cancel.clone().cancel();
        assert!(cancel.is_cancelled() && works[1].load(Ordering::Relaxed));
        assert!(cancel.halt().is_none(), "it stays cancelled");
    }

    #[test]
    fn flags_of_work_that_has_ended_are_forgotten() {
        let cancel = Cancel::new();
        for _ in 0..100 {
            drop(cancel.halt().expect("a flag"));
        }
        assert_eq!(cancel.state().halts.len(), 1);
    }
}
