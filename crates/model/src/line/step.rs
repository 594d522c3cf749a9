//! What each action does.
//!
//! A waiter: look, open, block, and look again when woken. A release: remove the record, unlink the pulse, leave the mutex, drop the
//! lock. A grant: rename the pulse, publish the record, leave the mutex. Between any two of these a process may be killed.

use super::flaw::Flaw;
use super::judge::releases;
use super::look::{Caller, has_reason, look, open};
use super::state::{Phase, Place, State};
use super::{Action, Queue};

/// Where `action` leads from `state`; `None` if it can't be done now or changes nothing.
pub(super) fn act(model: Queue, state: &State, action: Action) -> Option<State> {
    let mut next = state.clone();
    match action {
        Action::Arrive(space) => look(model, &mut next, Caller::Arrival(space)),
        Action::Try(space) => look(model, &mut next, Caller::Try(space)),
        Action::Step(place) => step(model, &mut next, place),
        Action::Publish(place, command) => {
            let process = &mut next.processes[place];
            process.phase = Phase::Holding(command);
            next.record = Some(process.number);
        }
        Action::Second(place) => second(model, &mut next, place),
        Action::TimeOut(place) => leave_line(&mut next, place),
        Action::CommandEnds { process, leaves } => {
            let process = &mut next.processes[process];
            process.phase = match process.phase {
                Phase::Orphaned(_) => Phase::Left(Place::Held),
                // It has no record to remove.
                Phase::Lost => Phase::Unlinked { leaves },
                _ => Phase::Ended { leaves },
            };
        }
        Action::Kill(place) => kill(model, &mut next, place),
        Action::Orphan(place) => {
            if let Phase::Holding(command) = next.processes[place].phase {
                next.processes[place].phase = Phase::Orphaned(command);
            }
        }
        Action::Force => {
            next.record = None;
            for process in next.processes.iter_mut().filter(|process| matches!(process.phase, Phase::Holding(_))) {
                process.phase = Phase::Lost;
            }
        }
        Action::Stop(place) => next.processes[place].stopped = true,
        Action::Continue(place) => next.processes[place].stopped = false,
        Action::Tick => next.age(),
        Action::Rest => next.rounds = Some(0),
        Action::Round => {
            next.age();
            next.rounds = next.rounds.map(|rounds| rounds + 1);
            next.processes.iter_mut().for_each(|process| process.looked = false);
        }
        Action::Drop(place) => {
            next.processes.remove(place);
        }
    }
    let next = next.settle();
    (next != *state).then_some(next)
}

/// A process's own next step.
fn step(model: Queue, state: &mut State, place: usize) {
    match state.processes[place].phase {
        Phase::Awake => look(model, state, Caller::Waiter(place)),
        Phase::Choosing(_) => open(model, state, place),
        Phase::Asleep(_) => state.processes[place].phase = Phase::Awake,
        Phase::Leaving | Phase::Unlinked { .. } => drop_lock(model, state, place),
        Phase::Ended { .. } if model.flaw == Flaw::PulseBeforeRecord => state.processes[place].phase = Phase::Dropped,
        Phase::Ended { leaves } => {
            remove_record(model, state, place);
            state.processes[place].phase = Phase::Removing { leaves };
        }
        Phase::Removing { leaves } => state.processes[place].phase = Phase::Unlinked { leaves },
        Phase::Dropped => {
            remove_record(model, state, place);
            state.processes.remove(place);
        }
        Phase::Granting | Phase::Holding(_) | Phase::Lost | Phase::Orphaned(_) | Phase::Left(_) | Phase::Dying(_) => {}
    }
}

fn remove_record(model: Queue, state: &mut State, place: usize) {
    if releases(model, state, state.processes[place].number) {
        state.record = None;
    }
}

fn second(model: Queue, state: &mut State, place: usize) {
    let has_reason = has_reason(model, state, place);
    let sleeper = &mut state.processes[place];
    if has_reason {
        sleeper.phase = Phase::Awake;
    } else {
        // It would have taken the lock if it had known.
        sleeper.ignores = None;
    }
    sleeper.looked = state.rounds.is_some();
}

fn leave_line(state: &mut State, place: usize) {
    let process = &mut state.processes[place];
    process.phase = Phase::Leaving;
    process.offered = None;
    process.ignores = None;
}

/// SIGKILL. The kernel drops the pulse unless something else keeps it.
fn kill(model: Queue, state: &mut State, place: usize) {
    let left = match state.processes[place].phase {
        Phase::Ended { leaves: true } => Place::Held,
        Phase::Removing { leaves: true } => Place::Held,
        Phase::Unlinked { leaves: true } => Place::Nowhere,
        _ => return drop_lock(model, state, place),
    };
    state.processes[place].phase = Phase::Left(left);
    state.processes[place].stopped = false;
}

/// The lock of a pulse is dropped: by `LOCK_UN`, for whoever has inherited it too, or because nobody is left who keeps it.
fn drop_lock(model: Queue, state: &mut State, place: usize) {
    if model.flaw != Flaw::WakeBeforeDrop {
        state.processes.remove(place);
        return;
    }
    let gone = &state.processes[place];
    let (number, lies) = (gone.number, gone.place());
    for process in &mut state.processes {
        if matches!(process.phase, Phase::Asleep(target) if target.number() == Some(number)) {
            process.phase = Phase::Awake;
        }
    }
    let gone = &mut state.processes[place];
    gone.phase = Phase::Dying(lies);
    gone.stopped = false;
}
