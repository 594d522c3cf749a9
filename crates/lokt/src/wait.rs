//! Waiting in line, woken by the kernel.
//!
//! A waiter sleeps on one thing: the pulse of the process before it, which a helper thread waits for (`sys::sleepers`), or, where
//! there is no pulse, the end of a process or a change of a file. A wake-up is a hint: the waiter takes the mutex, looks again, and is
//! granted the lock, or sleeps on something else. Once a second it has a cheap look at what the kernel doesn't report.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use lokt_core::denial::Denial;
use lokt_core::name::LockName;

use crate::error::{Error, ErrorKind};
use crate::locks::Lokt;
use crate::store::ask::{Ask, Waited};
use crate::store::change::{Changed, Outcome};
use crate::store::standing::{Cue, Standing};
use crate::sys::bell::{Bell, sleep_on};
use crate::sys::machine::pidfd;

/// How long those wait who don't say for how long.
pub const TIMEOUT: Duration = Duration::from_secs(600);
/// How often a waiter looks at what the kernel doesn't report.
const LOOK: Duration = Duration::from_secs(1);
/// How often it looks where the kernel can't be asked to wake it.
const POLL: Duration = Duration::from_millis(100);

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
    pub(crate) fn rest_after(self, waited: Duration) -> Self {
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
pub struct Patience<'a> {
    /// For how long.
    pub timeout: Timeout,
    /// What ends the wait early.
    pub alarm: Option<&'a mut dyn Alarm>,
    /// Who is told how it stands: when it begins, and once a second.
    pub tell: Option<&'a mut dyn FnMut(&Waiting<'_>)>,
}

impl Patience<'_> {
    /// No patience at all.
    pub fn none() -> Self {
        Self::default()
    }
}

/// Something that ends a wait early: a signal, mostly.
pub trait Alarm {
    /// Can be read when it may have gone off.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Has it?
    fn went_off(&mut self) -> bool;
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

/// Why a sleep ended.
enum Woken {
    Look,
    TimedOut,
    Interrupted,
}

/// The clock of one wait.
pub(crate) struct Clock {
    began_ms: u64,
    timeout: Timeout,
}

impl Clock {
    pub(crate) fn start(lokt: &Lokt, timeout: Timeout) -> Self {
        Self { began_ms: lokt.now().monotonic_ms, timeout }
    }

    pub(crate) fn waited(&self, lokt: &Lokt) -> Duration {
        Duration::from_millis(lokt.now().monotonic_ms.saturating_sub(self.began_ms))
    }

    pub(crate) fn left(&self, lokt: &Lokt) -> Duration {
        self.timeout.limit().saturating_sub(self.waited(lokt))
    }

    /// The same for those who are told; `None`: there is no timeout.
    pub(crate) fn left_to_tell(&self, lokt: &Lokt) -> Option<Duration> {
        self.timeout.left_after(self.waited(lokt))
    }
}

impl Lokt {
    /// Pursues what is asked for as long as `patience` lasts. `None`: the wait was interrupted, and the line left.
    pub(crate) fn obtain(&self, ask: &mut Ask<'_>, patience: &mut Patience<'_>) -> Result<Option<Changed>, Error> {
        let clock = Clock::start(self, patience.timeout);
        ask.waits = !patience.timeout.is_once();
        let mut warnings = Vec::new();
        loop {
            let woken = match self.store_for(ask.waits).pursue(ask) {
                Ok(Outcome::Done(mut changed)) => {
                    changed.warnings.splice(..0, warnings);
                    return Ok(Some(*changed));
                }
                Ok(Outcome::Waits(standing)) => {
                    let woken = self.sleep(ask.name, &standing, &clock, patience);
                    if let Ok(Woken::Interrupted) = woken {
                        let ms = millis(clock.waited(self));
                        ask.waited = Some(Waited { ms, why: "interrupted" });
                        self.store().leave_line(ask, standing.denial);
                        return Ok(None);
                    }
                    woken
                }
                // Who waits goes on waiting: a busy root is nothing but another reason to.
                Err(error) if ask.waits && error.kind() == ErrorKind::Busy => self.pause(&clock, patience),
                // A root that was deleted holds nobody up: the wait goes on in the one that has its name next.
                Err(error) if ask.waits && error.kind() == ErrorKind::Io && self.lost_root() => {
                    self.remake_root().map_err(|_| error).map(|made| {
                        warnings.extend(made);
                        Woken::Look
                    })
                }
                Err(error) => Err(error),
            };
            match woken {
                Ok(Woken::Look) => {}
                Ok(Woken::TimedOut) => {
                    // One last look, which takes no for an answer.
                    ask.waited = Some(Waited { ms: millis(clock.waited(self)), why: "timeout" });
                    ask.waits = false;
                }
                Ok(Woken::Interrupted) => {
                    self.store().give_up(ask);
                    return Ok(None);
                }
                Err(error) => {
                    self.store().give_up(ask);
                    return Err(error);
                }
            }
        }
    }

    /// Sleeps until it is time for another look.
    fn sleep(
        &self,
        name: &LockName,
        standing: &Standing,
        clock: &Clock,
        patience: &mut Patience<'_>,
    ) -> Result<Woken, Error> {
        let cant_sleep = |source| Error::io("wait in", self.root(), source);
        let bell = Bell::new().map_err(cant_sleep)?;
        let Some(Armed { fd, tick }) = self.arm(&standing.cue, &bell) else { return Ok(Woken::Look) };
        let store = self.store();
        // It may have happened while we were arming; whoever is blocked on a pulse can't have missed that.
        if !matches!(standing.cue, Cue::Pulse(_)) && store.stirs(name, standing) {
            return Ok(Woken::Look);
        }
        let look_at = standing.left_ms.map(|left_ms| clock.waited(self) + Duration::from_millis(left_ms + 1));
        let mut told = None;
        loop {
            let waited = clock.waited(self);
            if let Some(tell) = patience.tell.as_mut()
                && told.is_none_or(|at| waited >= at + LOOK)
            {
                told = Some(waited);
                let (denial, ahead) = (&standing.denial, standing.ahead);
                tell(&Waiting { name: name.as_str(), denial, ahead, waited, left: clock.left_to_tell(self) });
            }
            let to_look = look_at.map_or(tick, |at| at.saturating_sub(waited));
            let nap = tick.min(clock.left(self)).min(to_look);
            let mut fds = vec![bell.as_fd()];
            fds.extend(fd.iter().map(|fd| fd.as_fd()));
            fds.extend(patience.alarm.as_ref().map(|alarm| alarm.fd()));
            let ready = sleep_on(&fds, nap).map_err(cant_sleep)?;
            let (alarm, cues) = match patience.alarm {
                Some(_) => ready.split_last().map_or((false, [].as_slice()), |(alarm, cues)| (*alarm, cues)),
                None => (false, ready.as_slice()),
            };
            let cued = cues.contains(&true);
            if alarm && patience.alarm.as_mut().is_some_and(|alarm| alarm.went_off()) {
                return Ok(Woken::Interrupted);
            }
            if cued || look_at.is_some_and(|at| clock.waited(self) >= at) {
                return Ok(Woken::Look);
            }
            if clock.left(self).is_zero() {
                return Ok(Woken::TimedOut);
            }
            if !alarm && store.stirs(name, standing) {
                return Ok(Woken::Look);
            }
        }
    }

    /// Has the kernel wake us. `None`: what we would wait for has happened.
    pub(crate) fn arm(&self, cue: &Cue, bell: &Bell) -> Option<Armed> {
        let polls = Armed { fd: None, tick: POLL };
        Some(match cue {
            Cue::Pulse(path) => match self.disk().watch(path, bell) {
                Ok(true) => Armed { fd: None, tick: LOOK },
                Ok(false) => return None,
                // There is no thread to be had, perhaps.
                Err(_) => polls,
            },
            Cue::Process(pid) => match pidfd(*pid) {
                Ok(Some(fd)) => Armed { fd: Some(Box::new(fd)), tick: LOOK },
                Ok(None) => return None,
                Err(_) => polls,
            },
            // inotify is limited per user.
            Cue::File(path) => {
                self.disk().changes(path).map_or(polls, |fd| Armed { fd: Some(Box::new(fd)), tick: LOOK })
            }
            Cue::Time => polls,
        })
    }

    /// Waits a little, because the root is busy.
    fn pause(&self, clock: &Clock, patience: &mut Patience<'_>) -> Result<Woken, Error> {
        let fds: Vec<BorrowedFd<'_>> = patience.alarm.iter().map(|alarm| alarm.fd()).collect();
        let ready = sleep_on(&fds, POLL.min(clock.left(self)));
        let ready = ready.map_err(|source| Error::io("wait in", self.root(), source))?;
        if ready.contains(&true) && patience.alarm.as_mut().is_some_and(|alarm| alarm.went_off()) {
            return Ok(Woken::Interrupted);
        }
        Ok(if clock.left(self).is_zero() { Woken::TimedOut } else { Woken::Look })
    }
}

/// What wakes a sleeper beside its bell, and how often it looks by itself.
pub(crate) struct Armed {
    pub(crate) fd: Option<Box<dyn AsFd>>,
    pub(crate) tick: Duration,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
