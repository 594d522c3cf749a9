//! Telling a thread to stop that sleeps between two looks.

use std::time::Duration;

use super::threads::{Condvar, Mutex, locked, scope, sleep_until, spawn_in};

/// Says once that it is time to stop.
#[derive(Default)]
pub struct Stopper {
    told: Mutex<bool>,
    wakeup: Condvar,
}

impl Stopper {
    /// It is time to stop; whoever sleeps is woken.
    pub fn stop(&self) {
        *locked(&self.told) = true;
        self.wakeup.notify_all();
    }

    /// Sleeps for so long, or until it is time to stop. Is it?
    pub fn stops_within(&self, time: Duration) -> bool {
        sleep_until(&self.told, &self.wakeup, time, |told| *told)
    }
}

/// Does `work`, and looks after something `beside` it, in a thread that must return when it is stopped. Where no thread can be had only
/// the work is done.
pub fn look_after<T>(beside: impl FnOnce(&Stopper) + Send, work: impl FnOnce() -> T) -> T {
    let stopper = Stopper::default();
    scope(|scope| {
        // Also when the work panics: the scope waits for the thread, and the thread for this.
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
