//! From what a process reads to what it is told: the facts, the real `decide`, the real rules of the line.

use std::sync::LazyLock;

use jiff::Timestamp;
use lokt_core::decide::{Decision, Facts, HoldKey, Intent, Line, Policy, ProcessHolder, Slot, Terms, decide};
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Fence, Hold, Identity, LockId, PulseRef};
use lokt_core::line::{OFFER_MS_MAX, Ticket, ahead};
use lokt_core::liveness::{Clues, Liveness, Process as Seen, PulseClue, weigh};
use lokt_core::pulse::ProcessRef;
use lokt_core::time::{Elapsed, Moment};

use super::Queue;
use super::flaw::Flaw;
use super::state::{Age, GONE, Phase, Place, Process, Space, State};

/// The boot clock. It stands still: only the age of a note counts.
pub(super) const NOW_MS: u64 = 1_000_000;

/// What `decide` said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Granted,
    Held,
    Queued,
}

/// The living waiters, as they are found in the line: by number.
pub(super) fn tickets(model: Queue, state: &State, viewer: Space) -> Vec<Ticket> {
    let in_line = |process: &&Process| process.place() == Place::Line && process.is_locked();
    let mut tickets: Vec<_> =
        state.processes.iter().filter(in_line).map(|process| ticket(model, process, viewer)).collect();
    tickets.sort_unstable_by_key(|ticket| ticket.number);
    tickets
}

/// What can be seen of a waiter from there.
pub(super) fn ticket(model: Queue, process: &Process, viewer: Space) -> Ticket {
    let passes = model.flaw != Flaw::NoPassingOver;
    let offered = process.offered.filter(|_| passes);
    Ticket {
        number: u64::from(process.number),
        stopped: process.stopped && passes && model.sees(process, viewer),
        offered_ms: offered.map(|age| match age {
            Age::Young => NOW_MS,
            Age::Old => NOW_MS - OFFER_MS_MAX - 1,
        }),
    }
}

/// A guard asks for the lock. `number` is its pulse's, or the one that it would get; `line` is who is ahead of it.
pub(super) fn ask(model: Queue, state: &State, number: u8, line: Line) -> Verdict {
    let intent = Intent::Guard(Terms::default(), bearer(number));
    match with_facts(model, state, number, line, |facts, me| decide(&intent, facts, me, &Policy::NAMED)) {
        Decision::Commit { .. } => Verdict::Granted,
        Decision::Deny(Denial::Queued { .. }) => Verdict::Queued,
        Decision::Deny(Denial::Held(_)) => Verdict::Held,
        other => unreachable!("a guard is granted, held off or queued: {other:?}"),
    }
}

/// Who is ahead of that ticket, or of one who has none.
pub(super) fn line_before(tickets: &[Ticket], mine: Option<u8>) -> Line {
    Line { ahead: ahead(tickets, mine.map(u64::from), NOW_MS).count() }
}

/// A guard's end: is there something to remove?
pub(super) fn releases(model: Queue, state: &State, number: u8) -> bool {
    let hold = hold_of(number);
    let grip = HoldKey { lock_id: hold.lock_id.clone(), token: hold.token, pulse: hold.pulse };
    let intent = Intent::Release(grip);
    let decision =
        with_facts(model, state, number, Line::default(), |facts, me| decide(&intent, facts, me, &Policy::NAMED));
    matches!(decision, Decision::Commit { next: None, .. })
}

/// Does the record name a hold that lives? So a waiter asks without the mutex.
pub(super) fn is_held(model: Queue, state: &State) -> bool {
    with_facts(model, state, GONE, Line::default(), |facts, _| match facts.slot {
        Slot::Held(hold) => Holder { hold: hold.clone(), liveness: facts.liveness, elapsed: facts.elapsed }.lives(),
        _ => false,
    })
}

fn with_facts<R>(
    model: Queue,
    state: &State,
    number: u8,
    line: Line,
    use_facts: impl FnOnce(Facts<'_>, &Identity) -> R,
) -> R {
    let me = identity(number);
    let hold = state.record.map(hold_of);
    let (liveness, elapsed) = match (state.record, hold) {
        (Some(record), Some(hold)) => {
            (liveness(model.flaw, state.with(record), hold, &me), Elapsed::of(hold, &moment(), &me))
        }
        _ => (Liveness::Unknown, Elapsed::NOTHING),
    };
    let fresh_id = lock_id(number);
    let facts = Facts {
        slot: hold.map_or(Slot::Free, Slot::Held),
        liveness,
        elapsed,
        frozen: None,
        line,
        fresh_id: &fresh_id,
        now: moment(),
    };
    use_facts(facts, &me)
}

/// The honest evidence about the holder, weighed by the product.
fn liveness(flaw: Flaw, process: Option<&Process>, hold: &Hold, me: &Identity) -> Liveness {
    let clues = process.map_or(
        Clues { pulse: PulseClue::Free, holder: Seen::Dead, command: Some(Seen::Dead) },
        |process| match (process.place(), process.is_locked()) {
            (Place::Held, true) => clues(PulseClue::Locked, process),
            (Place::Held, false) => clues(PulseClue::Free, process),
            // What the pulse said about the command is gone with it.
            _ => Clues { command: None, ..clues(PulseClue::Misfit, process) },
        },
    );
    if flaw == Flaw::PulseAloneProvesDeath && clues.pulse == PulseClue::Free {
        return Liveness::Gone;
    }
    weigh(hold, me, clues)
}

fn clues(pulse: PulseClue, process: &Process) -> Clues {
    let seen = |lives: bool| if lives { Seen::Alive } else { Seen::Dead };
    let guard = !matches!(process.phase, Phase::Orphaned(_) | Phase::Left(_) | Phase::Dying(_));
    let command = matches!(process.phase, Phase::Holding(_) | Phase::Lost | Phase::Orphaned(_));
    Clues { pulse, holder: seen(guard), command: Some(seen(command)) }
}

/// The hold of a guard with that pulse. There are few of them and many looks at them.
fn hold_of(number: u8) -> &'static Hold {
    static HOLDS: LazyLock<Vec<Hold>> = LazyLock::new(|| (GONE..16).map(new_hold).collect());
    &HOLDS[usize::from(number)]
}

/// What `decide` wants stored when it finds nothing.
fn new_hold(number: u8) -> Hold {
    let intent = Intent::Guard(Terms::default(), bearer(number));
    let facts = Facts {
        slot: Slot::Free,
        liveness: Liveness::Unknown,
        elapsed: Elapsed::NOTHING,
        frozen: None,
        line: Line::default(),
        fresh_id: &lock_id(number),
        now: moment(),
    };
    let decision = decide(&intent, facts, &identity(number), &Policy::NAMED);
    match decision.with_token(token(number)).with_pulse(pulse(number)) {
        Decision::Commit { next: Some(hold), .. } => *hold,
        other => unreachable!("a free lock is granted: {other:?}"),
    }
}

/// All of one owner, so that nothing but their being different processes keeps them apart.
fn identity(number: u8) -> Identity {
    Identity {
        owner: "ann".into(),
        host: "host".into(),
        pid: pid(number),
        pid_start: pid(number),
        agent_id: String::new(),
        boot_id: Some("boot".into()),
        pid_ns: Some(1),
        boot_clocks: true,
        fs: None,
    }
}

fn bearer(number: u8) -> ProcessHolder {
    let process = ProcessRef { pid: pid(number), start: pid(number) };
    ProcessHolder { process, has_pulse: true, inside: None }
}

fn pulse(number: u8) -> PulseRef {
    PulseRef { number: u64::from(number), dev: 1, ino: u64::from(number) }
}

fn pid(number: u8) -> i64 {
    100 + i64::from(number)
}

fn lock_id(number: u8) -> LockId {
    LockId::from_bits(u128::from(number))
}

fn token(number: u8) -> Fence {
    Fence::new(u64::from(number) + 1).expect("tokens are small here")
}

fn moment() -> Moment {
    Moment { wall: Timestamp::UNIX_EPOCH, monotonic_ms: NOW_MS, boottime_ms: NOW_MS }
}
