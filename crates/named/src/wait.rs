//! Waiting in the queue, woken by the store.
//!
//! A waiter sleeps on one thing: the waiter before it, or the holder. A wake-up is a hint: the
//! waiter asks again, and is granted the name or sleeps on something else. Once a second it
//! rechecks what the store can't report.

use std::time::Duration;

use crate::judge::{Story, Waited};
use crate::pursuit::Requests;
use crate::store::{Answers, Call, Done, Queued, Request, WakeOn};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::nap::{Nap, POLL, Subscription, WaitClock, Woken};
use lokt_sys::wait_policy::WaitPolicy;
use lokt_sys::wakeup::Wakeup;
use lokt_sys::warnings::Warning;

/// Reason why a wait continues, or ends.
enum Next {
    Look,
    TimedOut,
    Interrupted,
}

impl Requests<'_> {
    /// Pursues a request for as long as `policy` allows. Returns `None` if the wait was
    /// interrupted, and the queue left. Otherwise returns the answers, and what the user should
    /// know about the wait.
    pub(crate) fn obtain(
        self,
        request: &mut Request<'_>,
        stories: &mut [Story],
        policy: &mut WaitPolicy<'_>,
    ) -> Result<Option<(Answers, Vec<Warning>)>, Error> {
        let clock = WaitClock::start(self.lokt.machine(), policy.timeout);
        request.waits = !policy.timeout.is_once();
        let mut warnings = Vec::new();
        loop {
            let stop = policy.alarm.as_ref().map(|alarm| alarm.fd());
            let answers = self.carry_out(request, stories, &Call::UNLIMITED.stopped_by(stop));
            let next = match answers {
                Ok(answers) if !answers.iter().any(|(_, done)| matches!(done, Done::Queued(_))) => {
                    return Ok(Some((answers, warnings)));
                }
                Ok(answers) => {
                    let queued = places(answers, stories);
                    let next = self.sleep(request, &queued, &clock, policy);
                    if let Ok(Next::Interrupted) = next {
                        end_stories(stories, &clock, "interrupted");
                        self.leave(request, stories, &queued);
                        return Ok(None);
                    }
                    next
                }
                // Treat a busy store like a held lock: keep waiting.
                Err(error) if request.waits && error.kind() == ErrorKind::Busy => self.pause(&clock, policy),
                // A store whose location was deleted blocks nobody: the wait continues in its new
                // location.
                Err(error) if request.waits && error.kind() == ErrorKind::Io => match self.lokt.store().reopen() {
                    Some(Ok(said)) => {
                        warnings.extend(said);
                        Ok(Next::Look)
                    }
                    Some(Err(_)) | None => Err(error),
                },
                // A store that was stopped in the middle reports that.
                Err(error) if error.kind() == ErrorKind::Halted && is_raised(policy) => Ok(Next::Interrupted),
                Err(error) => Err(error),
            };
            match next {
                Ok(Next::Look) => {}
                Ok(Next::TimedOut) => {
                    // Final attempt: a refusal is returned to the caller.
                    end_stories(stories, &clock, "timeout");
                    request.waits = false;
                }
                Ok(Next::Interrupted) => {
                    self.give_up(request);
                    return Ok(None);
                }
                Err(error) => {
                    self.give_up(request);
                    return Err(error);
                }
            }
        }
    }

    /// Sleeps until it is time to ask again.
    fn sleep(
        self,
        request: &Request<'_>,
        queued: &[(usize, Box<Queued>)],
        clock: &WaitClock<'_>,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<Next, Error> {
        let wakeup = Wakeup::new().map_err(|source| self.cant_sleep(source))?;
        let mut subscriptions: Vec<Subscription> = Vec::new();
        for (number, queued) in queued {
            let Some(subscription) = self.lokt.store().arm(request.asks[*number].name, queued.wake_on, &wakeup) else {
                return Ok(Next::Look);
            };
            subscriptions.push(subscription);
        }
        let stirs = || {
            let mut queued = queued.iter();
            queued.any(|(number, queued)| {
                self.lokt.store().needs_recheck(request.asks[*number].name, queued, &Call::UNLIMITED)
            })
        };
        // It may have happened while we subscribed; a waiter that is blocked on a pulse can't have
        // missed it.
        let is_exact = |on| matches!(on, WakeOn::Ahead(_) | WakeOn::Pulse(_));
        if !queued.iter().all(|(_, queued)| is_exact(queued.wake_on)) && stirs() {
            return Ok(if clock.left().is_zero() { Next::TimedOut } else { Next::Look });
        }
        let every = subscriptions.iter().map(|subscription| subscription.tick).min().unwrap_or(POLL);
        let mut nap = subscriptions.iter().fold(Nap::new(clock).on(&wakeup), Nap::subscribed).every(every);
        for (_, queued) in queued {
            nap = nap.due_in(queued.left.map(|left| left + Duration::from_millis(1)));
        }
        let (number, first) = queued.first().expect("it waits for something");
        let name = request.asks[*number].name.as_str();
        clock.tell(policy, name, &first.why, first.ahead);
        loop {
            clock.tell_if_due(policy, name, &first.why, first.ahead);
            match nap.sleep(policy.alarm.as_deref_mut()).map_err(|source| self.cant_sleep(source))? {
                Woken::Interrupted => return Ok(Next::Interrupted),
                Woken::Ready | Woken::Due => return Ok(Next::Look),
                Woken::TimedOut => return Ok(Next::TimedOut),
                Woken::Recheck if stirs() => return Ok(Next::Look),
                Woken::Recheck => {}
            }
        }
    }

    /// Waits a little, because the store is busy.
    fn pause(self, clock: &WaitClock<'_>, policy: &mut WaitPolicy<'_>) -> Result<Next, Error> {
        let woken = Nap::new(clock).every(POLL).sleep(policy.alarm.as_deref_mut());
        Ok(match woken.map_err(|source| self.cant_sleep(source))? {
            Woken::Interrupted => Next::Interrupted,
            Woken::TimedOut => Next::TimedOut,
            Woken::Ready | Woken::Due | Woken::Recheck => Next::Look,
        })
    }

    /// Returns the error of a wait that the system doesn't allow.
    pub(crate) fn cant_sleep(self, source: std::io::Error) -> Error {
        Error::io("wait in", self.lokt.root(), source)
    }
}

/// Reports whether the wait was interrupted.
fn is_raised(policy: &mut WaitPolicy<'_>) -> bool {
    policy.alarm.as_mut().is_some_and(|alarm| alarm.is_raised())
}

/// Returns the positions in the queues, and remembers where each began.
fn places(answers: Answers, stories: &mut [Story]) -> Vec<(usize, Box<Queued>)> {
    let mut places = Vec::new();
    for (number, done) in answers {
        if let Done::Queued(queued) = done {
            if let Some(story) = stories.get_mut(number) {
                story.queued.get_or_insert((queued.at.monotonic_ms, queued.ahead as u64 + 1));
            }
            places.push((number, queued));
        }
    }
    places
}

/// Remembers that the wait has ended, and why.
fn end_stories(stories: &mut [Story], clock: &WaitClock<'_>, why: &'static str) {
    let ms = u64::try_from(clock.waited().as_millis()).unwrap_or(u64::MAX);
    for story in stories {
        story.waited = Some(Waited { ms, why });
    }
}
