//! Who may work: everybody, or one alone. Whoever forgets a sync is saved by those of others, which make durable what all have done before; only
//! one who works alone isn't.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lokt_testkit::swarm::{pause, wait_until};

/// Whatever was begun has ended by then.
const PATIENCE: Duration = Duration::from_secs(300);
/// Whose turn it isn't looks again after this.
const LOOK: Duration = Duration::from_millis(1);

struct Turn {
    /// So many steps may still be begun.
    left: AtomicU64,
    busy: AtomicBool,
}

/// A turn for each of those who work.
pub(crate) struct Gate(Vec<Turn>);

impl Gate {
    /// Everybody may work.
    pub(crate) fn open(count: usize) -> Self {
        Self((0..count).map(|_| Turn { left: AtomicU64::new(u64::MAX), busy: AtomicBool::new(false) }).collect())
    }

    /// Does one step, if it is the turn of whoever asks; otherwise it stands still for a moment.
    pub(crate) fn pass<T>(&self, nth: usize, step: impl FnOnce() -> T) -> Option<T> {
        let turn = &self.0[nth];
        // Before the look: whoever closes the gate and then sees nobody at work has been seen by everybody.
        turn.busy.store(true, Ordering::SeqCst);
        let may = turn.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        let done = may.then(step);
        turn.busy.store(false, Ordering::SeqCst);
        if !may {
            pause(LOOK);
        }
        done
    }

    /// Only one may work, and only so many steps; comes back when they are done, `gone` says that it won't do them, or nothing ends.
    pub(crate) fn leave_alone(&self, nth: usize, steps: u64, gone: impl Fn() -> bool) -> bool {
        for turn in &self.0 {
            turn.left.store(0, Ordering::SeqCst);
        }
        let is_quiet = || self.0.iter().all(|turn| !turn.busy.load(Ordering::SeqCst));
        if !wait_until(PATIENCE, is_quiet) {
            return false;
        }
        let turn = &self.0[nth];
        turn.left.store(steps, Ordering::SeqCst);
        wait_until(PATIENCE, || gone() || turn.left.load(Ordering::SeqCst) == 0 && is_quiet())
    }
}
