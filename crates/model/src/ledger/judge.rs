//! What a lock that is found says: the product's own [`judge`](lokt_core::ledger::writer_lock::judge), shown what the
//! model knows.

use jiff::{SignedDuration, Timestamp};
use lokt_core::ledger::writer_lock::{self, Note, SECOND_LOOK_MS, STALE_MS, Sight, Verdict};
use lokt_core::liveness::Process;

use super::Appends;
use super::disk::{Lock, Owner};
use super::flaw::Flaw;
use super::state::State;

/// Any time after 1970 will do: only differences count.
const NOW: Timestamp = Timestamp::constant(1_000_000, 0);

/// Judges a lock that was found by somebody who has the mutex, for the first or the second time.
pub(super) fn judge(model: Appends, state: &State, lock: &Lock, is_second_look: bool) -> Verdict {
    let writer = match lock.owner {
        Owner::Ours(op) if model.flaw != Flaw::NoMutex && state.writer(op).is_some() => Some(Process::Alive),
        Owner::Ours(_) => Some(Process::Dead),
        Owner::Foreign(_) => None,
    };
    let age_ms = if lock.is_old { STALE_MS } else { 0 };
    let modified = NOW - SignedDuration::from_millis(i64::try_from(age_ms).expect("it is short"));
    let unchanged_ms = if is_second_look { SECOND_LOOK_MS } else { 0 };
    writer_lock::judge(&Sight { note: &Note::default(), modified, writer, unchanged_ms, now: NOW })
}
