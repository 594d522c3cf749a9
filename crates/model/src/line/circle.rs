//! Do processes come to rest by themselves? The checker can't say: a state is never wrong for being met twice.

use std::collections::HashMap;

use stateright::Model;

use super::state::State;
use super::{Action, Queue};
use crate::run::Trail;

/// A state on a walk by own steps alone.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    /// Known, but no walk came by yet.
    Met,
    /// On the present walk, so many steps from its beginning.
    Passed(usize),
    /// Every walk from here ends.
    Ends,
}

/// One state of the present walk.
struct Stop {
    state: State,
    /// The ways on that were not gone yet.
    ways: Vec<Action>,
    /// The way that was gone.
    gone: Option<Action>,
}

/// Looks in every state for own steps of the processes that lead back to it: nobody would ever sleep. The trail is the circle.
pub(super) fn circle(model: Queue) -> Option<Trail<Action>> {
    let mut marks = HashMap::new();
    let mut todo = model.init_states();
    while let Some(start) = todo.pop() {
        for next in model.next_states(&start) {
            if !marks.contains_key(&next) {
                marks.insert(next.clone(), Mark::Met);
                todo.push(next);
            }
        }
        if let Some(actions) = walk(model, &mut marks, start) {
            return Some(Trail { states: marks.len(), actions });
        }
    }
    None
}

/// Goes every way on from `start` by own steps, to its end.
fn walk(model: Queue, marks: &mut HashMap<State, Mark>, start: State) -> Option<Vec<Action>> {
    let mut stops: Vec<Stop> = Vec::new();
    let mut enter = Some(start);
    loop {
        if let Some(state) = enter.take() {
            match marks.get(&state) {
                Some(Mark::Passed(at)) => return Some(stops[*at..].iter().filter_map(|stop| stop.gone).collect()),
                Some(Mark::Ends) => {}
                Some(Mark::Met) | None => {
                    marks.insert(state.clone(), Mark::Passed(stops.len()));
                    stops.push(Stop { ways: own_steps(model, &state), state, gone: None });
                }
            }
        }
        let stop = stops.last_mut()?;
        stop.gone = stop.ways.pop();
        if let Some(action) = stop.gone {
            enter = model.next_state(&stop.state, action);
        } else {
            marks.insert(stop.state.clone(), Mark::Ends);
            stops.pop();
        }
    }
}

fn own_steps(model: Queue, state: &State) -> Vec<Action> {
    let mut actions = Vec::new();
    model.actions(state, &mut actions);
    actions.retain(|action| matches!(action, Action::Step(_) | Action::Publish(..)));
    actions
}
