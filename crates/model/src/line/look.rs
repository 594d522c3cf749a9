//! Looking: inside the mutex, through a path at a pulse, and around once a second.

use lokt_core::line::{predecessor, to_offer};

use super::Queue;
use super::flaw::Flaw;
use super::judge::{NOW_MS, Verdict, ask, is_held, line_before, ticket, tickets};
use super::state::{Age, Phase, Place, Process, Space, State, Target};

/// Who looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// The waiter in that place.
    Waiter(usize),
    /// One that will wait if it must.
    Arrival(Space),
    /// One that won't.
    Try(Space),
}

/// A look inside the mutex. Nobody outside can tell its parts apart, except that the record of a grant comes later.
pub(super) fn look(model: Queue, state: &mut State, caller: Caller) {
    let (place, number, space) = match caller {
        Caller::Waiter(place) => (Some(place), state.processes[place].number, state.processes[place].space),
        Caller::Arrival(space) | Caller::Try(space) => (None, state.next_number(), space),
    };
    let mine = place.map(|_| number);
    let mut line = line_before(&tickets(model, state, space), mine);
    if model.flaw == Flaw::PlainOvertakes && matches!(caller, Caller::Try(_)) {
        line.ahead = 0;
    }
    let verdict = ask(model, state, number, line);
    if verdict == Verdict::Granted {
        state.note_grant(place);
        let granted = Process::new(Phase::Granting, number, space);
        match place {
            Some(place) => state.processes[place] = granted,
            None => state.processes.push(granted),
        }
        return;
    }
    if let (Verdict::Queued, Some(place)) = (verdict, place) {
        state.note_queued(model, place);
    }
    if verdict == Verdict::Queued && model.flaw != Flaw::NoOffer {
        offer(model, state, mine, space);
    }
    let place = match caller {
        Caller::Waiter(place) => place,
        Caller::Arrival(_) => {
            state.processes.push(Process::new(Phase::Awake, number, space));
            state.processes.len() - 1
        }
        Caller::Try(_) => return,
    };
    stay(model, state, place, matches!(caller, Caller::Waiter(_)));
}

/// Notes down that the lock was found free.
fn offer(model: Queue, state: &mut State, mine: Option<u8>, space: Space) {
    let head = to_offer(&tickets(model, state, space), mine.map(u64::from), NOW_MS);
    let is_head = |process: &&mut Process| Some(u64::from(process.number)) == head;
    if let Some(head) = state.processes.iter_mut().find(is_head) {
        head.offered = Some(Age::Young);
        head.ignores = head.ignores.or(Some(Age::Young));
    }
}

/// The process in that place goes on waiting: it chooses what for.
fn stay(model: Queue, state: &mut State, place: usize, again: bool) {
    let next = state.next_number();
    let waiter = &mut state.processes[place];
    waiter.ignores = None;
    if model.flaw != Flaw::OfferNeverCleared {
        waiter.offered = None;
    }
    if model.flaw == Flaw::NewTicketWhenWoken && again {
        waiter.number = next;
    }
    let (mine, space) = (u64::from(waiter.number), waiter.space);
    let ahead = predecessor(&tickets(model, state, space), mine, NOW_MS);
    state.processes[place].phase = match (ahead, state.record) {
        (Some(ticket), _) => {
            Phase::Choosing(Target::Ticket(u8::try_from(ticket.number).expect("tickets are small here")))
        }
        (None, Some(holder)) if state.is_there(holder, Place::Held) || model.flaw == Flaw::FreePulseChosen => {
            Phase::Choosing(Target::Holder(holder))
        }
        // A hold that lives without a locked pulse.
        (None, _) => Phase::Asleep(Target::Nothing),
    };
}

/// Opens what it chose, by its path, and blocks on it.
pub(super) fn open(model: Queue, state: &mut State, place: usize) {
    let Phase::Choosing(target) = state.processes[place].phase else { return };
    let there = match target {
        Target::Ticket(number) => state.is_there(number, Place::Line),
        Target::Holder(number) => state.is_there(number, Place::Held),
        Target::Nothing => true,
    };
    state.processes[place].phase = if there {
        Phase::Asleep(target)
    } else if model.flaw == Flaw::SleepWithoutLook {
        Phase::Asleep(Target::Nothing)
    } else {
        Phase::Awake
    };
}

/// A sleeper looks around without the mutex: is there a reason to look inside it? Yes, if it was offered the lock, if its predecessor can't
/// take it, and if nobody has it.
pub(super) fn has_reason(model: Queue, state: &State, place: usize) -> bool {
    let sleeper = &state.processes[place];
    if sleeper.offered.is_some() && model.flaw != Flaw::OwnOfferUnread {
        return true;
    }
    if let Some(Target::Ticket(number)) = sleeper.target() {
        match state.with(number).filter(|process| process.place() == Place::Line) {
            Some(process) => {
                let ticket = ticket(model, process, sleeper.space);
                if !ticket.counts(NOW_MS) {
                    return true;
                }
                if process.space == sleeper.space && model.flaw == Flaw::TrustsSight {
                    return false;
                }
            }
            None if model.flaw == Flaw::BlindSecond => return false,
            None => {}
        }
    }
    !is_held(model, state)
}
