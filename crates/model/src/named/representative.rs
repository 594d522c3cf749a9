//! One state for all that have the same future.
//!
//! The checker remembers the representative of a state instead of the state, so it looks at one of several that differ only in what
//! nothing depends on: which of Ann's two clients is which; how lives, lock ids and tokens are numbered (only whether two are the same
//! matters, and for tokens which is greater); when a lease that is over began; in which order the versions came that a power cut may
//! bring back. The test below takes states that were merged and checks, step by step, that they really go the same ways.

use std::cmp::Ordering;

use super::counter::Next;
use super::record::{FRESH, Part};
use super::state::{Client, Op, Phase, Plan, State};

/// The same state for all that have the same future as this one.
pub(super) fn representative(state: &State) -> State {
    let kind = |client: usize| discriminant(&state.clients[client]);
    match kind(0).cmp(&kind(1)) {
        // No process of Ann's runs, so nothing mentions one.
        Ordering::Equal if state.clients[0] == Phase::Idle => plain(state.clone()),
        Ordering::Less => plain(state.clone()),
        Ordering::Greater => plain(swapped(state.clone())),
        Ordering::Equal => plain(state.clone()).min(plain(swapped(state.clone()))),
    }
}

/// Which kind of phase, in any fixed order.
fn discriminant(phase: &Phase) -> u8 {
    match phase {
        Phase::Idle => 0,
        Phase::Ticketed(..) => 1,
        Phase::Prepared(_) => 2,
        Phase::Mutex(..) => 3,
        Phase::Loose(..) => 4,
        Phase::Syncing { .. } => 5,
        Phase::Inside(_) => 6,
        Phase::Orphaned(_) => 7,
    }
}

/// With Ann's clients in each other's place.
fn swapped(mut state: State) -> State {
    let renamed = |client: Client| if client.0 < 2 { Client(1 - client.0) } else { client };
    state.clients.swap(0, 1);
    for record in state.records_mut() {
        record.pid = record.pid.map(renamed);
    }
    state.truth.rename(renamed);
    state
}

fn plain(mut state: State) -> State {
    forget_times(&mut state);
    state.disk.sort();
    for phase in &mut state.clients {
        // Whoever only waits for the sync of a removal does so for no matter which.
        if let Phase::Syncing { op, wrote: None, grip: None } = phase {
            *op = Op::Unlock;
        }
    }
    rank_tokens(&mut state);
    number_names(&mut state);
    state
}

/// Boot clocks are compared only with each other and boots only with the current one. What is over stays over, so of its beginning
/// only the order is kept, by which records are the same or not.
fn forget_times(state: &mut State) {
    let (now, boot) = (state.now, state.boot);
    state.booted = 0;
    let mut begun = 0_u32;
    for part in parts_over(state, now) {
        begun |= 1 << part.since;
    }
    for part in parts_over(state, now) {
        let before = begun & ((1 << part.since) - 1);
        part.since = u8::try_from(before.count_ones()).expect("at most 32");
    }
    for record in state.records_mut() {
        record.boot = u8::from(record.boot == boot);
        for part in [&mut record.process, &mut record.owned].into_iter().flatten() {
            part.clock = part.clock.map(|_| 0);
        }
    }
    for claim in &mut state.truth.claims {
        claim.end = if claim.end <= now { 0 } else { claim.end };
    }
    if let Some(next) = &mut state.disk.next {
        next.boot = u8::from(next.boot == boot);
    }
}

fn parts_over(state: &mut State, now: u8) -> impl Iterator<Item = &mut Part> {
    let parts = state.records_mut().flat_map(|record| [&mut record.process, &mut record.owned]).flatten();
    parts.filter(move |part| part.end() <= now)
}

fn rank_tokens(state: &mut State) {
    let mut tokens = Met::default();
    for_each_token(state, |token| {
        tokens.place(*token);
    });
    tokens.met[..tokens.count].sort_unstable();
    for_each_token(state, |token| *token = u16::from(tokens.place(*token)));
}

fn for_each_token(state: &mut State, mut change: impl FnMut(&mut u16)) {
    state.records_mut().for_each(|record| change(&mut record.token));
    change(&mut state.truth.top_token);
    change(&mut state.truth.told_token);
    change(&mut state.disk.ceiling);
    if let Some(Next { next, ceiling, .. }) = &mut state.disk.next {
        change(next);
        change(ceiling);
    }
    for phase in &mut state.clients {
        if let Some(grip) = phase.grip_mut() {
            change(&mut grip.token);
        }
        if let Phase::Mutex(Plan { draw: Some(draw), .. }, _) = phase {
            draw.raise.iter_mut().for_each(&mut change);
            change(&mut draw.token);
            change(&mut draw.next.next);
            change(&mut draw.next.ceiling);
        }
    }
}

fn number_names(state: &mut State) {
    let mut lives = Met::default();
    let mut lock_ids = Met::default();
    let number = |met: &mut Met, name: &mut u8| {
        if *name != FRESH {
            *name = met.place(u16::from(*name));
        }
    };
    for record in state.records_mut() {
        number(&mut lives, &mut record.life);
        number(&mut lock_ids, &mut record.lock_id);
    }
    for grip in state.clients.iter_mut().filter_map(Phase::grip_mut) {
        number(&mut lock_ids, &mut grip.lock_id);
    }
    for claim in &mut state.truth.claims {
        number(&mut lives, &mut claim.life);
    }
    state.truth.claims.sort_unstable();
}

/// How many different numbers of a kind a state can mention: three clients with ten each, and the disk.
const MET_MAX: usize = 64;

/// Numbers in the order in which they were met.
struct Met {
    met: [u16; MET_MAX],
    count: usize,
}

impl Default for Met {
    fn default() -> Self {
        Self { met: [0; MET_MAX], count: 0 }
    }
}

impl Met {
    /// The place of `number`, at the end if it is new.
    fn place(&mut self, number: u16) -> u8 {
        let place = self.met[..self.count].iter().position(|met| *met == number).unwrap_or_else(|| {
            self.met[self.count] = number;
            self.count += 1;
            self.count - 1
        });
        u8::try_from(place).expect("at most 64")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap, HashSet};
    use std::hash::{DefaultHasher, Hash, Hasher};

    use stateright::Model;

    use super::super::{Bounds, Named};
    use super::*;

    fn digest(state: &State) -> u64 {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        hasher.finish()
    }

    /// Where a state leads, and which promises hold in it.
    fn future(model: Named, state: &State, next: &[State]) -> (BTreeSet<u64>, Vec<bool>) {
        let next = next.iter().map(|next| digest(&representative(next))).collect();
        let promises = model.properties().iter().map(|property| (property.condition)(&model, state)).collect();
        (next, promises)
    }

    #[test]
    fn states_are_merged_only_if_they_have_the_same_future() {
        let model = Named::new(Bounds { ops: 3, ticks: 2, cuts: 1, deletes: 0 });
        let mut todo = model.init_states();
        let mut seen = HashSet::new();
        let mut futures = HashMap::new();
        while let Some(state) = todo.pop() {
            if !seen.insert(digest(&state)) {
                continue;
            }
            let next = model.next_states(&state);
            let found = future(model, &state, &next);
            let first = futures.entry(digest(&representative(&state))).or_insert_with(|| found.clone());
            assert!(*first == found, "another state with the same representative goes other ways: {state:#?}");
            todo.extend(next);
        }
        assert!(futures.len() < seen.len(), "nothing was merged");
    }
}
