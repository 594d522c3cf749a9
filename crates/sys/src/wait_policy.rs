//! How to wait: for how long, what ends the wait early, and where progress is reported.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use lokt_core::denial::Denial;

/// How long those wait who don't say for how long.
pub const TIMEOUT: Duration = Duration::from_secs(600);

/// For how long to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeout {
    /// Not at all: one look.
    #[default]
    Once,
    /// For at most this long. Nothing is one look, too.
    After(Duration),
    /// For as long as it takes.
    Never,
}

impl Timeout {
    /// Is it one look, and no waiting?
    pub fn is_once(self) -> bool {
        self.limit().is_zero()
    }

    /// The longest wait that it allows.
    pub fn limit(self) -> Duration {
        match self {
            Self::Once => Duration::ZERO,
            Self::After(timeout) => timeout,
            Self::Never => Duration::MAX,
        }
    }

    /// The timeout for what comes after `waited`. A wait that has begun stays one until it is refused.
    #[must_use]
    pub fn rest_after(self, waited: Duration) -> Self {
        match self {
            Self::After(timeout) => Self::After(timeout.saturating_sub(waited).max(Duration::from_millis(1))),
            once_or_never => once_or_never,
        }
    }

    /// What is left of it after `waited`, for those who are told; `None`: it has no end.
    pub fn left_after(self, waited: Duration) -> Option<Duration> {
        (self != Self::Never).then(|| self.limit().saturating_sub(waited))
    }
}

impl From<Duration> for Timeout {
    fn from(timeout: Duration) -> Self {
        Self::After(timeout)
    }
}

/// How to wait.
#[derive(Default)]
pub struct WaitPolicy<'a> {
    /// For how long.
    pub timeout: Timeout,
    /// What ends the wait early.
    pub alarm: Option<&'a mut dyn Interrupt>,
    /// Who is told how it stands: when it begins, and once a second.
    pub tell: Option<&'a mut dyn FnMut(&Waiting<'_>)>,
}

impl WaitPolicy<'_> {
    /// No patience at all.
    pub fn none() -> Self {
        Self::default()
    }
}

/// Something that ends a wait early: a signal, mostly.
pub trait Interrupt {
    /// Can be read when it may have gone off.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Has it?
    fn is_raised(&mut self) -> bool;
}

/// How a wait stands.
#[derive(Debug)]
pub struct Waiting<'a> {
    /// For which name, or which node of a ledger.
    pub name: &'a str,
    /// What stood in the way at the last look.
    pub denial: &'a Denial,
    /// How many were ahead at the last look.
    pub ahead: usize,
    /// How long it has lasted.
    pub waited: Duration,
    /// How long it may still last; `None`: there is no timeout.
    pub left: Option<Duration>,
}
