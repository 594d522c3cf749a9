//! The policy of a wait: its duration, what ends it early, and where progress is reported.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use lokt_core::denial::Denial;

/// Default limit of a wait.
pub const TIMEOUT: Duration = Duration::from_secs(600);

/// The time limit of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeout {
    /// No wait: one attempt.
    #[default]
    Once,
    /// At most this long. Zero is one attempt, too.
    After(Duration),
    /// No limit.
    Never,
}

impl Timeout {
    /// Reports whether it is one attempt without a wait.
    pub fn is_once(self) -> bool {
        self.limit().is_zero()
    }

    /// The maximum wait.
    pub fn limit(self) -> Duration {
        match self {
            Self::Once => Duration::ZERO,
            Self::After(timeout) => timeout,
            Self::Never => Duration::MAX,
        }
    }

    /// Returns the timeout for a wait that continues after `waited`. A wait that has begun remains
    /// one until it is refused.
    #[must_use]
    pub fn rest_after(self, waited: Duration) -> Self {
        match self {
            Self::After(timeout) => Self::After(timeout.saturating_sub(waited).max(Duration::from_millis(1))),
            once_or_never => once_or_never,
        }
    }

    /// Returns the rest of it after `waited`, for progress reports; `None` if there is no limit.
    pub fn left_after(self, waited: Duration) -> Option<Duration> {
        (self != Self::Never).then(|| self.limit().saturating_sub(waited))
    }
}

impl From<Duration> for Timeout {
    fn from(timeout: Duration) -> Self {
        Self::After(timeout)
    }
}

/// The policy of a wait.
#[derive(Default)]
pub struct WaitPolicy<'a> {
    /// The time limit.
    pub timeout: Timeout,
    /// An interrupt that ends the wait early.
    pub alarm: Option<&'a mut dyn Interrupt>,
    /// Progress callback: called when the wait starts and once a second.
    pub tell: Option<&'a mut dyn FnMut(&Waiting<'_>)>,
}

impl WaitPolicy<'_> {
    /// A policy without any wait.
    pub fn none() -> Self {
        Self::default()
    }
}

/// A source that ends a wait early, usually a signal.
pub trait Interrupt {
    /// A descriptor that is readable when it may have been raised.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Reports whether it was raised.
    fn is_raised(&mut self) -> bool;
}

/// The state of a wait.
#[derive(Debug)]
pub struct Waiting<'a> {
    /// The name, or the node of a ledger, that is waited for.
    pub name: &'a str,
    /// The reason for the last refusal.
    pub denial: &'a Denial,
    /// The number of waiters ahead at the last check.
    pub ahead: usize,
    /// The time waited so far.
    pub waited: Duration,
    /// The time left; `None` if there is no timeout.
    pub left: Option<Duration>,
}
