//! Sends a change until its outcome is known.

use std::time::Duration;

use lokt_core::engine::{Made, Rev, Sight, Span, Term};
use lokt_core::swap::settle::{Settled, refused};
use lokt_core::swap::{Op, Plan, Settling};

use super::{Engine, Shared, Trouble};
use crate::store::Call;
use lokt_sys::error::{Error, ErrorKind};

/// Maximum number of requests in a row that may go wrong. With the pauses between them that is
/// longer than any call; it also ends a call whose clock stands still.
const TROUBLES_MAX: u32 = 64;
/// Maximum pause between two requests, in milliseconds.
const PAUSE_MS_MAX: u64 = 100;
/// Minimum time for a request, if its call has that long.
const REQUEST: Duration = Duration::from_millis(100);
/// Maximum time to settle a change whose caller has stopped the call.
const STOPPED: Duration = Duration::from_secs(1);
/// Number of times that another caller may be faster before we pause.
const RUSHED_MAX: u32 = 2;

/// Outcome of a change.
pub(super) enum Outcome {
    /// It was made. The term is that of its answer, if there was one.
    Made(Rev, Option<Term>),
    /// It wasn't made, and never will be. With what its answer showed, if anything.
    Void(Option<Sight>),
    /// It wasn't made, and never will be, because a session of it doesn't exist.
    NoSession,
}

impl From<Settled> for Outcome {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Made(at) => Self::Made(at, None),
            Settled::Void(sight) => Self::Void(sight),
        }
    }
}

/// Number of times that a request was repeated.
#[derive(Default)]
pub(super) struct Pace {
    rushed: u32,
    troubles: u32,
}

/// Waits a little, longer with each try. Returns false if the time is up.
fn pause<E: Engine>(tries: u32, store: &Shared<E>, call: &Call<'_>) -> bool {
    let most_ms = (1_u64 << tries.min(10)).min(PAUSE_MS_MAX);
    let jitter = store.random().map_or(0, |bits| u64::try_from(bits % u128::from(most_ms)).unwrap_or(0));
    let now = store.now();
    let _ = call.pause(Duration::from_millis(1 + jitter), &now);
    call.left(&store.now()).is_none_or(|left| !left.is_zero())
}

impl Pace {
    /// Prepares a retry because another caller was faster. Returns false if the time is up.
    pub(super) fn rushed<E: Engine>(&mut self, store: &Shared<E>, call: &Call<'_>) -> bool {
        self.rushed += 1;
        self.rushed <= RUSHED_MAX || pause(self.rushed - RUSHED_MAX, store, call)
    }

    /// Prepares a retry because a request went wrong. Returns false if the time is up.
    pub(super) fn troubled<E: Engine>(&mut self, store: &Shared<E>, call: &Call<'_>) -> bool {
        self.troubles += 1;
        self.troubles < TROUBLES_MAX && pause(self.troubles, store, call)
    }
}

impl<E: Engine> Shared<E> {
    /// Repeats a request that changes nothing, or may be made any number of times.
    pub(super) fn patiently<T>(
        &self,
        call: &Call<'_>,
        mut send: impl FnMut(&Call<'_>) -> Result<T, Trouble>,
    ) -> Result<T, Error> {
        let mut pace = Pace::default();
        loop {
            match send(&self.part(call)) {
                Ok(answer) => return Ok(answer),
                Err(Trouble::Refused(error)) => return Err(error),
                Err(_) if call.is_stopped() => {
                    let message = format!("{} didn't answer before the call was stopped", self.location.display());
                    return Err(Error::new(ErrorKind::Halted, message));
                }
                Err(trouble) if !pace.troubled(self, call) => {
                    let message = format!("{} can't be reached: {}", self.location.display(), trouble.into_error());
                    return Err(Error::new(ErrorKind::Busy, message));
                }
                Err(_) => {}
            }
        }
    }

    /// Reads spans.
    pub(super) fn see(&self, spans: &[Span], call: &Call<'_>) -> Result<Sight, Error> {
        self.patiently(call, |call| self.engine.look(spans, call))
    }

    /// Returns the part of a call that one request may take: half of it. That leaves time to repeat
    /// it, or to find out its outcome.
    fn part<'c>(&self, call: &Call<'c>) -> Call<'c> {
        let now = self.now();
        let Some(left) = call.left(&now) else { return *call };
        Call::within((left / 2).max(REQUEST).min(left), &now).stopped_by(call.stop())
    }

    /// Makes a change, and finds out its outcome.
    pub(super) fn make(&self, plan: &Plan, op: Op, call: &Call<'_>) -> Result<Outcome, Error> {
        let trouble = match self.engine.make(&plan.change, &self.part(call)) {
            Ok(Made::Done { at, term }) => return Ok(Outcome::Made(at, Some(term))),
            Ok(Made::Else(sight)) => match refused(plan, sight) {
                Some(settled) => return Ok(settled.into()),
                // A copy of it may be under way, and the queue that refused it may be gone by then.
                None => None,
            },
            Err(Trouble::Away(_)) => return Ok(Outcome::Void(None)),
            Err(trouble) => Some(trouble),
        };
        let is_session =
            |trouble: &Trouble| matches!(trouble, Trouble::Refused(error) if error.kind() == ErrorKind::Missing);
        match trouble {
            Some(Trouble::Refused(error)) if error.kind() != ErrorKind::Missing => Err(error),
            trouble => match self.settle(plan, op, trouble.as_ref(), call)? {
                Outcome::Void(_) if trouble.as_ref().is_some_and(is_session) => Ok(Outcome::NoSession),
                outcome => Ok(outcome),
            },
        }
    }

    /// Finds out the outcome of a change without an answer: an addition is voided unless it was
    /// made, a removal is made again. Stopping the call doesn't stop that, but leaves less time for
    /// it.
    fn settle(&self, plan: &Plan, op: Op, trouble: Option<&Trouble>, call: &Call<'_>) -> Result<Outcome, Error> {
        let Some(settling) = Settling::new(plan) else { return Ok(Outcome::Void(None)) };
        let mut pace = Pace::default();
        let mut settled_by = call.stopped_by(None);
        loop {
            if call.is_stopped() {
                let now = self.now();
                settled_by = Call::within(settled_by.limit(STOPPED, &now), &now);
            }
            if let Ok(made) = self.engine.make(settling.change(), &self.part(&settled_by)) {
                return Ok(settling.answered(made).into());
            }
            if !pace.troubled(self, &settled_by) {
                let why = trouble.map_or_else(String::new, |trouble| format!(": {}", trouble.error()));
                let message =
                    format!("{} doesn't say whether request {op} was carried out{why}", self.location.display());
                return Err(Error::new(ErrorKind::OutcomeUnknown, message));
            }
        }
    }
}
