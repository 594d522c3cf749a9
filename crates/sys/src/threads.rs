//! Where threads that look after something come from, and what they meet by.
//!
//! `crates/threads` builds this library with another file in the place of this one, whose threads take turns as a scheduler says: so
//! what may happen in any order is tried in very many.

pub use std::sync::{Condvar, Mutex, MutexGuard, mpsc};
pub use std::thread::{Builder, JoinHandle, Scope, scope};

use std::sync::PoisonError;
use std::time::Duration;

/// Starts a thread that ends within `scope`. False: none could be had.
pub fn spawn_in<'scope>(scope: &'scope Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) -> bool {
    Builder::new().spawn_scoped(scope, work).is_ok()
}

/// Locks it. What is behind a mutex of this library is whole even if somebody panicked beside it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps for so long, or until `is_over`, which is looked at when the wakeup rings. Is it over?
pub fn sleep_until<T: Send>(state: &Mutex<T>, wakeup: &Condvar, time: Duration, is_over: fn(&T) -> bool) -> bool {
    let waited = wakeup.wait_timeout_while(locked(state), time, |state| !is_over(state));
    is_over(&waited.unwrap_or_else(PoisonError::into_inner).0)
}
