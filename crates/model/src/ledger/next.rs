//! Does the next append work? Tried out in a copy of the state, where nobody else does anything any more.

use super::Appends;
use super::disk::Owner;
use super::state::{Draft, State};
use super::step;

/// More steps than any append needs that is alone.
const STEPS_MAX: usize = 40;

/// Can one of ours append when all foreign writers stand still and every lock has become old?
pub(super) fn works(model: Appends, state: &State) -> bool {
    let mut state = state.clone();
    let acknowledged = state.truth.acknowledged.len();
    step::start(model, &mut state, Draft::Plain);
    for _ in 0..STEPS_MAX {
        if let Some(lock) = &mut state.disk.lock {
            lock.is_old |= matches!(lock.owner, Owner::Foreign(_));
        }
        if state.writers.is_empty() {
            break;
        }
        step::step(model, &mut state, 0, false);
    }
    state.truth.acknowledged.len() > acknowledged
}
