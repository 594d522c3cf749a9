//! The limits of one call that may block: a deadline, and a descriptor that stops it early.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use lokt_core::time::Moment;

use crate::wakeup::sleep_on;

/// The limits of a blocking call: its duration, and a descriptor that stops it early. Passed down
/// unchanged.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Deadline by `CLOCK_BOOTTIME`, in milliseconds; `None`: only the callee's own limits apply.
    by_ms: Option<u64>,
    /// A descriptor that is readable when the caller wants to stop.
    stop: Option<BorrowedFd<'a>>,
}

impl<'a> Call<'a> {
    /// No limits besides those of the callee.
    pub const UNLIMITED: Call<'static> = Call { by_ms: None, stop: None };

    /// A call that may take `limit` from `now`.
    pub fn within(limit: Duration, now: &Moment) -> Self {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Self { by_ms: Some(now.boottime_ms.saturating_add(limit_ms)), stop: None }
    }

    /// The same call, stopped when `fd` is readable.
    #[must_use]
    pub fn stopped_by(self, fd: Option<BorrowedFd<'a>>) -> Self {
        Self { stop: fd, ..self }
    }

    /// Deadline by `CLOCK_BOOTTIME`, in milliseconds.
    pub fn by_ms(&self) -> Option<u64> {
        self.by_ms
    }

    /// The descriptor that stops the call.
    pub fn stop(&self) -> Option<BorrowedFd<'a>> {
        self.stop
    }

    /// Time until the deadline; `None` if there is none.
    pub fn left(&self, now: &Moment) -> Option<Duration> {
        self.by_ms.map(|by_ms| Duration::from_millis(by_ms.saturating_sub(now.boottime_ms)))
    }

    /// The part of `limit` that the deadline leaves.
    pub fn limit(&self, limit: Duration, now: &Moment) -> Duration {
        self.left(now).map_or(limit, |left| left.min(limit))
    }

    /// Sleeps for `most`, but not beyond the deadline. True: the caller wants to stop.
    pub fn pause(&self, most: Duration, now: &Moment) -> io::Result<bool> {
        let fds: Vec<BorrowedFd<'_>> = self.stop.into_iter().collect();
        Ok(sleep_on(&fds, self.limit(most, now))?.contains(&true))
    }

    /// Reports whether the caller wants to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|fd| sleep_on(&[fd], Duration::ZERO).is_ok_and(|ready| ready.contains(&true)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    use super::Call;
    use crate::machine::{Linux, Machine as _};
    use crate::wakeup::Wakeup;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_deadline_shortens_the_limits_of_the_callee() {
        let now = Linux.now();
        let call = Call::within(Duration::from_secs(2), &now);
        assert_eq!(call.limit(LONG, &now), Duration::from_secs(2), "the deadline comes first");
        assert_eq!(call.limit(Duration::from_secs(1), &now), Duration::from_secs(1), "the limit comes first");
        assert_eq!(Call::UNLIMITED.limit(LONG, &now), LONG, "there is no deadline");
    }

    #[test]
    fn a_call_is_stopped_in_the_middle_of_a_pause() {
        let (wakeup, now) = (Wakeup::new().expect("an eventfd"), Linux.now());
        let call = Call::within(LONG, &now).stopped_by(Some(wakeup.as_fd()));
        assert!(!call.is_stopped(), "nobody stopped it");
        wakeup.rope().ring();
        assert!(call.is_stopped() && call.pause(LONG, &now).expect("poll"), "the caller wants to stop");
    }
}
