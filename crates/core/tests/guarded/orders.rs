//! Every order in which things can happen to a guard, up to some number of events.
//!
//! Two orders that lead to the same guard with the same books go on as one, so all orders of this many events are tried without walking
//! each of them.

use std::collections::HashMap;

use lokt_core::guard::{Ended, Event, GuardConfig, KILL_AFTER_MS, Outcome};

use super::books::{Books, Command, Verdict, Watched};
use super::{CTRL_C, TERM, USR1, holder};

/// Ticks come late: a little, or after a pause in which everything became due.
const LATE_MS: [u64; 3] = [0, 300, KILL_AFTER_MS];

/// Everything that can happen next, and when.
pub(crate) fn possible(watched: &Watched) -> Vec<(u64, Event)> {
    let Watched { guard, books } = watched;
    let now = books.now_ms;
    let wake = guard.wake_at();
    let mut events = vec![(now, Event::Tick), (now, TERM), (now, CTRL_C), (now, USR1)];
    events.extend(wake.into_iter().flat_map(|at| LATE_MS.map(|late| (at + late, Event::Tick))));
    // A signal that comes in the very moment something is due.
    events.extend(wake.map(|at| (at, TERM)));
    if books.command == Command::Runs {
        let ends = [Ended::Code(0), Ended::Code(3), Ended::Signal(9)];
        events.extend(ends.map(|ended| (now, Event::Ended(ended))));
        events.extend(wake.map(|at| (at, Event::Ended(Ended::Code(0)))));
    }
    if books.left_behind {
        events.push((now, Event::AllGone));
    }
    events.extend(answers(books).into_iter().map(|event| (now, event)));
    events
}

/// Every answer to every question that is open.
pub(crate) fn answers(books: &Books) -> Vec<Event> {
    let mut events = Vec::new();
    for (hold, book) in books.holds.iter().enumerate() {
        let on_time = Outcome::Kept { late_ms: None };
        let late = Outcome::Kept { late_ms: Some(70) };
        let lost = Outcome::Lost(Some(holder()));
        let gone = Outcome::Lost(None);
        let failed = Outcome::Failed("the disk is full".into());
        if let Some(began_ms) = book.renewing {
            let outcomes = [on_time.clone(), late, lost.clone(), gone, failed.clone()];
            events.extend(outcomes.map(|outcome| Event::Renewed { hold, began_ms, outcome }));
        }
        let outcomes = [on_time, lost, failed];
        if book.looking {
            events.extend(outcomes.clone().map(|outcome| Event::Looked { hold, outcome }));
        }
        if book.releasing() {
            events.extend(outcomes.map(|outcome| Event::Released { hold, outcome }));
        }
    }
    events
}

/// Ends the command and gives every answer; then the guard must have ended.
pub(crate) fn bring_to_an_end(mut watched: Watched) -> Verdict {
    if watched.books.command == Command::Runs {
        watched.step(watched.books.now_ms, &Event::Ended(Ended::Code(0)))?;
    }
    if watched.books.left_behind {
        watched.step(watched.books.now_ms, &Event::AllGone)?;
    }
    // A renewal and a release of each hold.
    for _ in 0..=2 * watched.books.holds.len() {
        let answer = answers(&watched.books).into_iter().find(|event| !matches!(event, Event::Looked { .. }));
        let Some(answer) = answer else { break };
        watched.step(watched.books.now_ms, &answer)?;
    }
    if watched.books.finished {
        Ok(())
    } else {
        Err("with the command over and every answer given, the guard ends".into())
    }
}

/// A guard that was reached, and how.
struct Reached {
    watched: Watched,
    from: Option<usize>,
    by: Event,
}

/// Tries every order of `depth` events from there; says how many different guards there were.
pub(crate) fn explore(config: GuardConfig, start: Watched, depth: usize) -> usize {
    let mut known: HashMap<Books, Vec<usize>> = HashMap::from([(start.books.clone(), vec![0])]);
    let mut all = vec![Reached { watched: start, from: None, by: Event::Tick }];
    let mut next = 0;
    for _ in 0..depth {
        let frontier = next..all.len();
        next = frontier.end;
        for from in frontier {
            for (at, by) in possible(&all[from].watched) {
                let mut watched = all[from].watched.clone();
                if let Err(sentence) = watched.step(at, &by) {
                    panic!("{sentence}\n{config:?}\nafter {:#?}\nby {by:?} at {at}", path(&all, from));
                }
                let same = known.entry(watched.books.clone()).or_default();
                if !same.iter().any(|index| all[*index].watched == watched) {
                    same.push(all.len());
                    all.push(Reached { watched, from: Some(from), by });
                }
            }
        }
    }
    for (index, reached) in all.iter().enumerate() {
        if let Err(sentence) = bring_to_an_end(reached.watched.clone()) {
            panic!("{sentence}\n{config:?}\nafter {:#?}", path(&all, index));
        }
    }
    all.len()
}

/// What led there.
fn path(all: &[Reached], to: usize) -> Vec<(u64, Event)> {
    let mut events = Vec::new();
    let mut index = to;
    while let Some(from) = all[index].from {
        events.push((all[index].watched.books.now_ms, all[index].by.clone()));
        index = from;
    }
    events.reverse();
    events
}
