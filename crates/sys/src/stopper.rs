//! Stopping a thread that sleeps between two checks.

use std::time::Duration;

use super::threads::{Condvar, Mutex, locked, scope, sleep_until, spawn_in};

/// A one-time request to stop.
#[derive(Default)]
pub struct Stopper {
    told: Mutex<bool>,
    wakeup: Condvar,
}

impl Stopper {
    /// Requests the stop, and wakes sleeping threads.
    pub fn stop(&self) {
        *locked(&self.told) = true;
        self.wakeup.notify_all();
    }

    /// Sleeps for `time`, or until a stop is requested. Reports whether one was.
    pub fn stops_within(&self, time: Duration) -> bool {
        sleep_until(&self.told, &self.wakeup, time, |told| *told)
    }
}

/// Runs `work`, and `beside` in a thread next to it, which must return when it is stopped. If no
/// thread can be started, only the work runs.
pub fn look_after<T>(beside: impl FnOnce(&Stopper) + Send, work: impl FnOnce() -> T) -> T {
    let stopper = Stopper::default();
    scope(|scope| {
        // Also if the work panics: the scope waits for the thread, and the thread waits for this.
        let _stops = Stops(&stopper);
        spawn_in(scope, || beside(&stopper));
        work()
    })
}

struct Stops<'a>(&'a Stopper);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
