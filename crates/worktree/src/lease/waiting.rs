//! Waiting for a lease: a waiter wakes when the chain or the view changes, when the holder's pulse
//! stops, and when the lease expires.
//!
//! Each change of the chain wakes all waiters, so a waiter reads only the new links, a file each.
//! While they say that the lease is held, it reads everything only after a moment without changes.
//! When the lease is free, waiters attempt one at a time, and the others read the result in the
//! chain.

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
use lokt_sys::changes::Changes;
use lokt_sys::disk::{NoMutex, Unlock};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::nap::{LOOK, Nap, POLL, WaitClock, Woken};
use lokt_sys::wait_policy::WaitPolicy;
use lokt_sys::wakeup::Wakeup;

/// Time after a grant before everything is read again: the new holder may release at once.
const QUIET: Duration = Duration::from_millis(20);
/// Interval between attempts to get the advisory mutex.
const SHUT: Duration = Duration::from_millis(5);
/// Maximum number of those attempts; after them the waiter proceeds without the mutex.
const SHUT_MAX: usize = 50;
/// Maximum number of links that are followed one by one.
const NEWS_MAX: usize = 64;

/// Meaning of the links that were added since the last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChainChange {
    None,
    /// A session holds the lease, perhaps another one than before.
    Taken,
    /// It is free; or everything must be read to know.
    Other,
}

/// The reason why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WakeReason {
    Interrupted,
    /// Something has changed.
    Woken,
    /// Nothing has, for as long as the sleep was to last.
    Over,
}

/// State of a waiter.
#[derive(Default)]
struct WaitContext {
    /// The last link that was read, if the chain is the obstacle.
    behind: Option<Behind>,
    /// Watches for changes: of the chain; and of the locks of other tools, if the chain isn't the
    /// obstacle.
    watches: Vec<Changes>,
}

/// Parameters of a sleep.
#[derive(Clone, Copy)]
struct Sleep<'r> {
    most: Duration,
    /// The last refusal.
    refusal: Option<&'r LeaseRefusal>,
}

/// Waits for a lease.
pub(crate) struct Waiter<'w> {
    pub(crate) worktree: &'w Worktree,
}

impl Waiter<'_> {
    /// Waits for the lease, and acquires it. Also returns the chain as a grant left it.
    pub(crate) fn pursue(
        &self,
        session: &Session,
        terms: &LeaseTerms,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<(Leasing, Option<Box<Links>>), Error> {
        let mut sight = Sight::default();
        let timeout = patience.timeout;
        if timeout.is_once() {
            return Ok(match self.worktree.acquirer().attempt(session, terms, &mut sight, None)? {
                Attempt::Granted(lease, links) => (Leasing::Granted(lease), Some(links)),
                Attempt::Refused(refusal, _) => (Leasing::Denied(refusal), None),
            });
        }
        let clock = WaitClock::start(&*self.worktree.repo.machine, timeout);
        let mut vigil = WaitContext::default();
        loop {
            let Some(gate) = self.turn(&mut vigil, &clock, patience)? else { return Ok((Leasing::Interrupted, None)) };
            let refusal = match self.worktree.acquirer().attempt(session, terms, &mut sight, gate) {
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
            let left = clock.left();
            match refusal {
                Some(refusal) if left.is_zero() || !may_pass(&refusal) => return Ok((Leasing::Denied(refusal), None)),
                None if left.is_zero() => return Err(self.worktree.writer().too_busy()),
                refusal => {
                    if let Some(refusal) = &refusal {
                        clock.tell(patience, self.worktree.name.as_str(), &refusal.denial, 0);
                    }
                    let nap = Sleep { most: left, refusal: refusal.as_deref() };
                    match self.rest(&mut vigil, nap, &clock, patience)? {
                        WakeReason::Interrupted => return Ok((Leasing::Interrupted, None)),
                        WakeReason::Woken => {}
                        // Watch again: a directory that was moved away as a whole reports nothing.
                        WakeReason::Over => vigil.watches.clear(),
                    }
                }
            }
        }
    }

    /// Waits for the advisory mutex, so that contenders try one at a time. `None`: interrupted.
    /// `Some(None)`: proceed without it.
    #[expect(clippy::option_option, reason = "there is a turn with the mutex, and one without it")]
    fn turn(
        &self,
        vigil: &mut WaitContext,
        clock: &WaitClock<'_>,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<Option<Option<Box<dyn Unlock>>>, Error> {
        let mut in_vain = 0;
        loop {
            match self.worktree.repo.disk.lock_dir(&self.worktree.chain().dir(), Duration::ZERO) {
                Err(NoMutex::Busy(_)) if in_vain < SHUT_MAX && !clock.left().is_zero() => {}
                gate => return Ok(Some(gate.ok())),
            }
            match self.rest(vigil, Sleep { most: SHUT, refusal: None }, clock, patience)? {
                WakeReason::Interrupted => return Ok(None),
                WakeReason::Woken => {}
                WakeReason::Over => in_vain += 1,
            }
        }
    }

    /// Waits until another attempt may succeed, at most until the timeout.
    fn rest(
        &self,
        vigil: &mut WaitContext,
        nap: Sleep<'_>,
        clock: &WaitClock<'_>,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<WakeReason, Error> {
        let (is_told, mut news) = self.keep_watch(vigil);
        if is_told && news == ChainChange::Other {
            return Ok(WakeReason::Woken);
        }
        let pulse = nap.refusal.and_then(|refusal| refusal.record.as_ref()?.pulse);
        let mut wakeup = pulse.and_then(|pulse| {
            let wakeup = Wakeup::new().ok()?;
            let path = self.worktree.chain().file(&File::Pulse(pulse.number));
            self.worktree.repo.disk.watch(&path, &wakeup).unwrap_or(false).then_some(wakeup)
        });
        let tick = if is_told && (pulse.is_none() || wakeup.is_some()) { LOOK } else { POLL };
        // The last millisecond still belongs to the holder.
        let ends_in = nap.refusal.and_then(|refusal| refusal.retry_after_ms).map(|ms| Duration::from_millis(ms + 1));
        let now = clock.waited();
        let last = now + tick.min(clock.left());
        let mut until = last.min(now + nap.most.min(ends_in.unwrap_or(tick)));
        loop {
            if news == ChainChange::Taken {
                // The former holder's pulse doesn't matter any more.
                (until, wakeup) = (last.min(clock.waited() + QUIET), None);
            }
            let watched = vigil.watches.len();
            let mut sleep = Nap::new(clock).on_all(&vigil.watches).on_all(&wakeup);
            sleep = sleep.every(until.saturating_sub(clock.waited()));
            let woken = sleep.sleep(patience.alarm.as_deref_mut());
            match woken.map_err(|error| Error::io("wait in", &self.worktree.repo.path, error))? {
                Woken::Interrupted => return Ok(WakeReason::Interrupted),
                Woken::Due | Woken::TimedOut | Woken::Recheck => return Ok(WakeReason::Over),
                Woken::Ready => {}
            }
            let is_rung = wakeup.is_some() && sleep.is_ready(watched);
            let has_news = (0..watched).any(|nth| sleep.is_ready(nth));
            let is_gone = vigil.watches.iter().any(Changes::drain);
            if is_gone {
                vigil.watches.clear();
            }
            news = if has_news { self.news(vigil) } else { ChainChange::None };
            if is_rung || is_gone || news == ChainChange::Other {
                return Ok(WakeReason::Woken);
            }
        }
    }

    /// Lets the kernel report changes, if it can, and reads what changed before that.
    fn keep_watch(&self, vigil: &mut WaitContext) -> (bool, ChainChange) {
        let mut dirs = vec![self.worktree.chain().dir()];
        if vigil.behind.is_none() {
            // The directories in which other tools have their locks.
            dirs.extend([LOCKS.to_owned(), format!("worktrees/{}", self.worktree.name)]);
        }
        if vigil.watches.len() >= dirs.len() {
            vigil.watches.truncate(dirs.len());
            return (true, ChainChange::None);
        }
        // All of them or none: a part couldn't be relied on.
        vigil.watches =
            dirs.iter().map(|dir| self.worktree.repo.disk.changes(dir).ok()).collect::<Option<_>>().unwrap_or_default();
        (!vigil.watches.is_empty(), self.news(vigil))
    }

    /// Reads the links that were added since the last read.
    fn news(&self, vigil: &mut WaitContext) -> ChainChange {
        let Some(behind) = &mut vigil.behind else { return ChainChange::Other };
        let mut news = ChainChange::None;
        for _ in 0..NEWS_MAX {
            let Ok(found) = self.worktree.chain().read_file(&self.worktree.chain().file(&File::Slot(behind.next)))
            else {
                return ChainChange::Other;
            };
            let Some(content) = found else { return news };
            match Slot::parse(&content.bytes) {
                Ok(slot) if slot.chain == behind.chain && slot.number == behind.next => {
                    news = if slot.record.is_some() { ChainChange::Taken } else { ChainChange::Other };
                    behind.next = slot.next;
                }
                _ => return ChainChange::Other,
            }
        }
        ChainChange::Other
    }
}

/// Reports whether waiting may help.
fn may_pass(refusal: &LeaseRefusal) -> bool {
    matches!(refusal.denial, Denial::Held(_) | Denial::BeingWritten | Denial::Corrupt { .. })
}
