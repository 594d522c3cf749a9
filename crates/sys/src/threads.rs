//! Source of background threads and of the means by which they synchronize.
//!
//! `crates/threads` builds this library with another file in place of this one, whose threads take
//! turns as a scheduler says. So very many of the possible orders are tested.

pub use std::sync::{Condvar, Mutex, MutexGuard, mpsc};
pub use std::thread::{Builder, JoinHandle, Scope, scope};

use std::sync::PoisonError;
use std::time::Duration;

/// Starts a thread that ends within `scope`. False: it couldn't be started.
pub fn spawn_in<'scope>(scope: &'scope Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) -> bool {
    Builder::new().spawn_scoped(scope, work).is_ok()
}

/// Locks `mutex`. The state behind a mutex of this library is consistent even if a thread panicked.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps for `time`, or until `is_over`, which is checked when the wakeup rings. Reports whether
/// it is over.
pub fn sleep_until<T: Send>(state: &Mutex<T>, wakeup: &Condvar, time: Duration, is_over: fn(&T) -> bool) -> bool {
    let waited = wakeup.wait_timeout_while(locked(state), time, |state| !is_over(state));
    is_over(&waited.unwrap_or_else(PoisonError::into_inner).0)
}
