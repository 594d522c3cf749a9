//! A timer that keeps running while the machine is suspended; it fires no later than on resume.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// A timer of `CLOCK_BOOTTIME`.
pub struct BootTimer(OwnedFd);

impl BootTimer {
    /// Returns a timer that is not armed.
    pub fn new() -> io::Result<Self> {
        Ok(Self(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?))
    }

    /// Returns a descriptor that is readable after this time. Replaces the previous setting.
    pub fn set(&self, after: Duration) -> Option<BorrowedFd<'_>> {
        // Zero would disarm the timer.
        let after = Timespec::try_from(after.max(Duration::from_nanos(1))).ok()?;
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Itimerspec { it_interval: never, it_value: after };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once).ok()?;
        Some(self.0.as_fd())
    }
}
