//! Waiting for a lease: woken when the chain or the view changes, or the pulse of its holder stops; and when its time is over.
//!
//! Each change of the chain wakes everybody who waits. So who is woken reads only the links that came since, a file each: while they say that
//! somebody has the lease, a whole look is taken only when nothing more has come for a moment. When it may be had, one at a time attempts
//! to get it, and the others read in the chain what came of that.

use std::os::fd::AsFd as _;
use std::time::Duration;

use lokt_core::denial::Denial;
use lokt_core::lease::names::File;
use lokt_core::lease::session::Session;
use lokt_core::lease::slot::Slot;

use super::Worktree;
use super::answers::{LeaseRefusal, LeaseTerms, Leasing};
use super::chain::{LOCKS, Links};
use super::sight::Sight;
use super::take::{Attempt, Behind};
use crate::error::{Error, ErrorKind};
use crate::sys::bell::{Bell, sleep_on};
use crate::sys::changes::Changes;
use crate::sys::disk::{NoMutex, Unlock};
use crate::wait::{Patience, Waiting};

/// How often to look at what the kernel doesn't report: other machines do what they do without it.
const LOOK: Duration = Duration::from_secs(1);
/// How often where it reports nothing.
const POLL: Duration = Duration::from_millis(100);
/// Who has got the lease may give it back at once: so long nobody asks how it stands.
const QUIET: Duration = Duration::from_millis(20);
/// How often to try whether whoever is at work has done it.
const SHUT: Duration = Duration::from_millis(5);
/// After so many times in vain it goes without.
const SHUT_MAX: usize = 50;
/// More links than these at once aren't followed one by one.
const NEWS_MAX: usize = 64;

/// What the links say that came since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    None,
    /// Somebody has the lease, perhaps another one than before.
    Taken,
    /// It is free; or it takes a whole look to know.
    Other,
}

/// How a rest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Interrupted,
    /// Something has changed.
    Woken,
    /// Nothing has, for as long as that was to be waited for.
    Over,
}

/// What somebody who waits knows.
#[derive(Default)]
struct Vigil {
    /// What was read of the chain, if the chain is in the way.
    behind: Option<Behind>,
    /// What tells of changes: of the chain; and of the locks of other tools, where the chain isn't in the way.
    watches: Vec<Changes>,
}

/// How long to rest.
#[derive(Clone, Copy)]
struct Nap<'r> {
    most: Duration,
    /// What was in the way at the last look.
    refusal: Option<&'r LeaseRefusal>,
}

impl Worktree {
    /// Gives the chain, too, as a grant left it.
    pub(crate) fn pursue(
        &self,
        session: &Session,
        terms: &LeaseTerms,
        patience: &mut Patience<'_>,
    ) -> Result<(Leasing, Option<Box<Links>>), Error> {
        let mut sight = Sight::default();
        let timeout = patience.timeout;
        if timeout.is_once() {
            return Ok(match self.attempt(session, terms, &mut sight, None)? {
                Attempt::Granted(lease, links) => (Leasing::Granted(lease), Some(links)),
                Attempt::Refused(refusal, _) => (Leasing::Denied(refusal), None),
            });
        }
        let began = self.clock();
        let waited = || self.clock().saturating_sub(began);
        let left = || timeout.limit().saturating_sub(waited());
        let mut vigil = Vigil::default();
        loop {
            let Some(gate) = self.turn(&mut vigil, &left, patience)? else { return Ok((Leasing::Interrupted, None)) };
            let refusal = match self.attempt(session, terms, &mut sight, gate) {
                Ok(Attempt::Granted(lease, links)) => return Ok((Leasing::Granted(lease), Some(links))),
                Ok(Attempt::Refused(refusal, behind)) => {
                    vigil.behind = behind;
                    Some(refusal)
                }
                Err(error) if error.kind() == ErrorKind::Busy => {
                    vigil.behind = None;
                    None
                }
                Err(error) => return Err(error),
            };
            let left = left();
            match refusal {
                Some(refusal) if left.is_zero() || !may_pass(&refusal) => return Ok((Leasing::Denied(refusal), None)),
                None if left.is_zero() => return Err(self.too_busy()),
                refusal => {
                    if let (Some(refusal), Some(tell)) = (&refusal, patience.tell.as_mut()) {
                        let (denial, waited) = (&refusal.denial, waited());
                        let left = timeout.left_after(waited);
                        tell(&Waiting { name: self.name.as_str(), denial, ahead: 0, waited, left });
                    }
                    let nap = Nap { most: left, refusal: refusal.as_deref() };
                    match self.rest(&mut vigil, nap, left, patience)? {
                        Rest::Interrupted => return Ok((Leasing::Interrupted, None)),
                        Rest::Woken => {}
                        // Made anew: what was moved away as a whole tells nothing.
                        Rest::Over => vigil.watches.clear(),
                    }
                }
            }
        }
    }

    /// Waits for our turn to attempt something: who else is at it has mostly got it then. `None`: the wait was interrupted. `Some(None)`: it goes
    /// without.
    #[expect(clippy::option_option, reason = "there is a turn with the mutex, and one without it")]
    fn turn(
        &self,
        vigil: &mut Vigil,
        left: &dyn Fn() -> Duration,
        patience: &mut Patience<'_>,
    ) -> Result<Option<Option<Box<dyn Unlock>>>, Error> {
        let mut in_vain = 0;
        loop {
            match self.repo.disk.lock_dir(&self.chain_dir(), Duration::ZERO) {
                Err(NoMutex::Busy(_)) if in_vain < SHUT_MAX && !left().is_zero() => {}
                gate => return Ok(Some(gate.ok())),
            }
            match self.rest(vigil, Nap { most: SHUT, refusal: None }, left(), patience)? {
                Rest::Interrupted => return Ok(None),
                Rest::Woken => {}
                Rest::Over => in_vain += 1,
            }
        }
    }

    /// By a clock that nobody sets.
    fn clock(&self) -> Duration {
        Duration::from_millis(self.repo.machine.now().monotonic_ms)
    }

    /// Waits until it may be worth another attempt. No longer than `left`, whatever happens.
    fn rest(
        &self,
        vigil: &mut Vigil,
        nap: Nap<'_>,
        left: Duration,
        patience: &mut Patience<'_>,
    ) -> Result<Rest, Error> {
        let (is_told, mut news) = self.keep_watch(vigil);
        if is_told && news == News::Other {
            return Ok(Rest::Woken);
        }
        let pulse = nap.refusal.and_then(|refusal| refusal.record.as_ref()?.pulse);
        let mut bell = pulse.and_then(|pulse| {
            let bell = Bell::new().ok()?;
            let path = self.chain_file(&File::Pulse(pulse.number));
            self.repo.disk.watch(&path, &bell).unwrap_or(false).then_some(bell)
        });
        let tick = if is_told && (pulse.is_none() || bell.is_some()) { LOOK } else { POLL };
        // The last millisecond is still its owner's.
        let ends_in = nap.refusal.and_then(|refusal| refusal.retry_after_ms).map(|ms| Duration::from_millis(ms + 1));
        let now = self.clock();
        let last = now + tick.min(left);
        let mut until = last.min(now + nap.most.min(ends_in.unwrap_or(tick)));
        loop {
            if news == News::Taken {
                // Whose pulse that was doesn't matter any more.
                (until, bell) = (last.min(self.clock() + QUIET), None);
            }
            let mut fds: Vec<_> = vigil.watches.iter().map(|fd| fd.as_fd()).collect();
            let watched = fds.len();
            fds.extend(bell.as_ref().map(Bell::as_fd));
            fds.extend(patience.alarm.as_ref().map(|alarm| alarm.fd()));
            let ready = sleep_on(&fds, until.saturating_sub(self.clock()))
                .map_err(|error| Error::io("wait in", &self.repo.path, error))?;
            let alarmed = patience.alarm.is_some() && ready.last() == Some(&true);
            if alarmed && patience.alarm.as_mut().is_some_and(|alarm| alarm.went_off()) {
                return Ok(Rest::Interrupted);
            }
            if !ready.contains(&true) {
                return Ok(Rest::Over);
            }
            let is_rung = bell.is_some() && ready[watched];
            let is_gone = vigil.watches.iter().any(Changes::drain);
            if is_gone {
                vigil.watches.clear();
            }
            news = if ready[..watched].contains(&true) { self.news(vigil) } else { News::None };
            if is_rung || is_gone || news == News::Other {
                return Ok(Rest::Woken);
            }
        }
    }

    /// Lets the kernel tell of changes, if it can, and reads what has changed before it did.
    fn keep_watch(&self, vigil: &mut Vigil) -> (bool, News) {
        let mut dirs = vec![self.chain_dir()];
        if vigil.behind.is_none() {
            // Where other tools have their locks.
            dirs.extend([LOCKS.to_owned(), format!("worktrees/{}", self.name)]);
        }
        if vigil.watches.len() >= dirs.len() {
            vigil.watches.truncate(dirs.len());
            return (true, News::None);
        }
        // All of them, or none that could be relied on.
        vigil.watches =
            dirs.iter().map(|dir| self.repo.disk.changes(dir).ok()).collect::<Option<_>>().unwrap_or_default();
        (!vigil.watches.is_empty(), self.news(vigil))
    }

    /// Reads the links that came since.
    fn news(&self, vigil: &mut Vigil) -> News {
        let Some(behind) = &mut vigil.behind else { return News::Other };
        let mut news = News::None;
        for _ in 0..NEWS_MAX {
            let Ok(found) = self.read_file(&self.chain_file(&File::Slot(behind.next))) else { return News::Other };
            let Some(content) = found else { return news };
            match Slot::parse(&content.bytes) {
                Ok(slot) if slot.chain == behind.chain && slot.number == behind.next => {
                    news = if slot.record.is_some() { News::Taken } else { News::Other };
                    behind.next = slot.next;
                }
                _ => return News::Other,
            }
        }
        News::Other
    }
}

/// May waiting help?
fn may_pass(refusal: &LeaseRefusal) -> bool {
    matches!(refusal.denial, Denial::Held(_) | Denial::BeingWritten | Denial::Corrupt { .. })
}
