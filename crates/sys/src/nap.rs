//! One sleep of a wait loop.
//!
//! All wait loops have the same shape: check, subscribe to what may change the answer, sleep, check
//! again. [`WaitClock`] measures the whole wait and reports its progress. [`Nap`] is one sleep: it
//! ends when a descriptor is readable, when a recheck is due, when the wait times out, or when the
//! caller is interrupted. A wake-up is a hint, never an answer.
//!
//! ```
//! use std::time::Duration;
//!
//! use lokt_sys::machine::Linux;
//! use lokt_sys::nap::{Nap, WaitClock, Woken};
//! use lokt_sys::wait_policy::{Timeout, WaitPolicy};
//! use lokt_sys::wakeup::Wakeup;
//!
//! # fn main() -> std::io::Result<()> {
//! let timeout = Timeout::After(Duration::from_secs(9));
//! let mut policy = WaitPolicy { timeout, ..WaitPolicy::none() };
//! let clock = WaitClock::start(&Linux, policy.timeout);
//! let wakeup = Wakeup::new()?;
//! wakeup.rope().ring();
//! let woken = Nap::new(&clock).on(&wakeup).sleep(policy.alarm.as_deref_mut())?;
//! assert_eq!(woken, Woken::Ready);
//! # Ok(())
//! # }
//! ```

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use lokt_core::denial::Denial;

use crate::machine::Machine;
use crate::wait_policy::{Interrupt, Timeout, WaitPolicy, Waiting};
use crate::wakeup::sleep_on;

/// Interval between rechecks where the kernel wakes the waiter: catches what the kernel doesn't
/// report, such as other machines on a network file system. Also the interval of progress reports.
pub const LOOK: Duration = Duration::from_secs(1);
/// Interval between rechecks where the kernel can't wake the waiter.
pub const POLL: Duration = Duration::from_millis(100);

/// The clock of one wait: how long it has lasted, how much is left, when progress was reported.
///
/// It is `CLOCK_MONOTONIC`, so a suspended machine doesn't use up the timeout.
pub struct WaitClock<'m> {
    machine: &'m dyn Machine,
    began_ms: u64,
    timeout: Timeout,
    /// Time of the last progress report, counted from the start.
    told: Cell<Option<Duration>>,
}

impl<'m> WaitClock<'m> {
    /// Starts a wait of at most `timeout`.
    pub fn start(machine: &'m dyn Machine, timeout: Timeout) -> Self {
        Self { machine, began_ms: machine.now().monotonic_ms, timeout, told: Cell::new(None) }
    }

    /// Starts a wait that only an interrupt ends.
    pub fn endless(machine: &'m dyn Machine) -> Self {
        Self::start(machine, Timeout::Never)
    }

    /// Time since the start.
    pub fn waited(&self) -> Duration {
        Duration::from_millis(self.machine.now().monotonic_ms.saturating_sub(self.began_ms))
    }

    /// Time until the timeout.
    pub fn left(&self) -> Duration {
        self.timeout.limit().saturating_sub(self.waited())
    }

    /// Time until the timeout, for progress reports; `None` if there is no timeout.
    pub fn left_to_tell(&self) -> Option<Duration> {
        self.timeout.left_after(self.waited())
    }

    /// Reports progress now: the wait is for `name`, which is unavailable because of `denial`.
    pub fn tell(&self, policy: &mut WaitPolicy<'_>, name: &str, denial: &Denial, ahead: usize) {
        if let Some(tell) = policy.tell.as_mut() {
            let (waited, left) = (self.waited(), self.left_to_tell());
            self.told.set(Some(waited));
            tell(&Waiting { name, denial, ahead, waited, left });
        }
    }

    /// Reports progress if the last report is [`LOOK`] old, or there was none.
    pub fn tell_if_due(&self, policy: &mut WaitPolicy<'_>, name: &str, denial: &Denial, ahead: usize) {
        if self.told.get().is_none_or(|told| self.waited() >= told + LOOK) {
            self.tell(policy, name, denial, ahead);
        }
    }
}

/// A source of wake-ups besides a [`Wakeup`](crate::wakeup::Wakeup), ended by dropping it.
pub struct Subscription {
    /// A descriptor that is readable when something has changed; `None`: only the wakeup is rung,
    /// or nothing is reported.
    pub fd: Option<Box<dyn AsFd + Send>>,
    /// Interval at which the waiter rechecks without a wake-up.
    pub tick: Duration,
}

impl Subscription {
    /// No source: the waiter polls.
    pub const fn none() -> Self {
        Self { fd: None, tick: POLL }
    }

    /// A descriptor that reports changes.
    pub fn of(fd: impl AsFd + Send + 'static) -> Self {
        Self { fd: Some(Box::new(fd)), tick: LOOK }
    }

    /// A source that rings the wakeup and has no descriptor.
    pub const fn ringing() -> Self {
        Self { fd: None, tick: LOOK }
    }
}

/// The reason why a sleep ended, in order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The caller's interrupt was raised.
    Interrupted,
    /// A descriptor is readable; [`Nap::is_ready`] tells which.
    Ready,
    /// The moment given to [`Nap::due_in`] has come.
    Due,
    /// The wait's timeout has elapsed.
    TimedOut,
    /// Nothing happened for one interval.
    Recheck,
}

/// A sleep, with the events and times that end it. Can be used several times.
pub struct Nap<'n> {
    clock: &'n WaitClock<'n>,
    fds: Vec<BorrowedFd<'n>>,
    ready: Vec<bool>,
    every: Duration,
    /// Counted from the start of the wait.
    due: Option<Duration>,
}

impl<'n> Nap<'n> {
    /// A sleep of at most one [`LOOK`], within the timeout of `clock`.
    pub fn new(clock: &'n WaitClock<'n>) -> Self {
        Self { clock, fds: Vec::new(), ready: Vec::new(), every: LOOK, due: None }
    }

    /// Ends the sleep when `fd` is readable.
    #[must_use]
    pub fn on(mut self, fd: &'n (impl AsFd + ?Sized)) -> Self {
        self.fds.push(fd.as_fd());
        self
    }

    /// Ends the sleep when one of `fds` is readable.
    #[must_use]
    pub fn on_all(self, fds: impl IntoIterator<Item = &'n (impl AsFd + 'n)>) -> Self {
        fds.into_iter().fold(self, Self::on)
    }

    /// Ends the sleep when `subscription` reports a change, and after its interval.
    #[must_use]
    pub fn subscribed(mut self, subscription: &'n Subscription) -> Self {
        self.fds.extend(subscription.fd.as_ref().map(|fd| fd.as_fd()));
        self.every(subscription.tick)
    }

    /// Rechecks at this interval instead of each [`LOOK`].
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Self {
        self.every = interval;
        self
    }

    /// Ends the sleep after `left`; `None` changes nothing. Of several times, the earliest applies.
    #[must_use]
    pub fn due_in(mut self, left: Option<Duration>) -> Self {
        let due = left.map(|left| self.clock.waited().saturating_add(left));
        self.due = [self.due, due].into_iter().flatten().min();
        self
    }

    /// Sleeps once. An interrupt whose descriptor is readable but which isn't raised doesn't end
    /// the sleep.
    pub fn sleep(&mut self, mut interrupt: Option<&mut (dyn Interrupt + '_)>) -> io::Result<Woken> {
        let began = self.clock.waited();
        loop {
            let waited = self.clock.waited();
            let to_recheck = self.every.saturating_sub(waited.saturating_sub(began));
            let to_due = self.due.map_or(to_recheck, |due| due.saturating_sub(waited));
            let most = to_recheck.min(to_due).min(self.clock.left());
            let mut fds = self.fds.clone();
            fds.extend(interrupt.as_ref().map(|interrupt| interrupt.fd()));
            self.ready = sleep_on(&fds, most)?;
            drop(fds);
            let may_be_raised = self.ready.len() > self.fds.len() && self.ready.pop() == Some(true);
            if may_be_raised && interrupt.as_mut().is_some_and(|interrupt| interrupt.is_raised()) {
                return Ok(Woken::Interrupted);
            }
            if self.ready.contains(&true) {
                return Ok(Woken::Ready);
            }
            if self.due.is_some_and(|due| self.clock.waited() >= due) {
                return Ok(Woken::Due);
            }
            if self.clock.left().is_zero() {
                return Ok(Woken::TimedOut);
            }
            if !may_be_raised {
                return Ok(Woken::Recheck);
            }
        }
    }

    /// Reports whether descriptor number `nth`, in the order of addition, ended the last sleep.
    pub fn is_ready(&self, nth: usize) -> bool {
        self.ready.get(nth).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd as _, BorrowedFd};
    use std::time::Duration;

    use lokt_core::denial::Denial;

    use super::{Nap, WaitClock, Woken};
    use crate::machine::Linux;
    use crate::wait_policy::{Interrupt, Timeout, WaitPolicy};
    use crate::wakeup::Wakeup;

    const SHORT: Duration = Duration::from_millis(5);

    /// An interrupt that is raised or a false alarm.
    struct Signal(Wakeup, bool);

    impl Interrupt for Signal {
        fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
        fn is_raised(&mut self) -> bool {
            self.0.heard() && self.1
        }
    }

    fn rung() -> Wakeup {
        let wakeup = Wakeup::new().expect("an eventfd");
        wakeup.rope().ring();
        wakeup
    }

    #[test]
    fn a_sleep_says_which_descriptor_ended_it() {
        let (silent, loud) = (Wakeup::new().expect("an eventfd"), rung());
        let clock = WaitClock::endless(&Linux);
        let mut nap = Nap::new(&clock).on(&silent).on(&loud);
        assert_eq!(nap.sleep(None).expect("poll"), Woken::Ready, "one of them is readable");
        assert!(!nap.is_ready(0) && nap.is_ready(1), "the second one is");
    }

    #[test]
    fn an_interrupt_comes_before_everything_else() {
        let (loud, clock) = (rung(), WaitClock::start(&Linux, Timeout::Once));
        let mut signal = Signal(rung(), true);
        let woken = Nap::new(&clock).on(&loud).due_in(Some(Duration::ZERO)).sleep(Some(&mut signal));
        assert_eq!(woken.expect("poll"), Woken::Interrupted, "the caller wants to stop");
    }

    #[test]
    fn a_false_alarm_does_not_end_a_sleep() {
        let clock = WaitClock::endless(&Linux);
        let mut signal = Signal(rung(), false);
        let woken = Nap::new(&clock).due_in(Some(SHORT)).sleep(Some(&mut signal)).expect("poll");
        assert_eq!(woken, Woken::Due, "the sleep went on until its end");
        assert!(clock.waited() >= SHORT, "it was slept to its end");
    }

    #[test]
    fn a_sleep_ends_with_its_moment_its_timeout_or_its_interval() {
        let endless = WaitClock::endless(&Linux);
        let woken = Nap::new(&endless).every(SHORT).sleep(None).expect("poll");
        assert_eq!(woken, Woken::Recheck, "an interval passed");
        let woken = Nap::new(&endless).due_in(Some(SHORT)).due_in(Some(SHORT * 900)).due_in(None).sleep(None);
        assert_eq!(woken.expect("poll"), Woken::Due, "the first moment came");
        let short = WaitClock::start(&Linux, Timeout::After(SHORT));
        assert_eq!(Nap::new(&short).sleep(None).expect("poll"), Woken::TimedOut, "no time is left");
    }

    #[test]
    fn progress_is_reported_once_a_second_unless_something_changed() {
        let mut count = 0;
        let mut tell = |_: &crate::wait_policy::Waiting<'_>| count += 1;
        let mut policy = WaitPolicy { tell: Some(&mut tell), ..WaitPolicy::none() };
        let clock = WaitClock::endless(&Linux);
        let denial = Denial::BeingWritten;
        clock.tell_if_due(&mut policy, "x", &denial, 0);
        clock.tell_if_due(&mut policy, "x", &denial, 0);
        clock.tell(&mut policy, "x", &denial, 0);
        assert_eq!(count, 2, "the second report came too early");
    }
}
