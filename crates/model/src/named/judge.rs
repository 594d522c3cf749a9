//! From what a client reads to what it is going to do: the facts, the real `decide`, and the plan.

use lokt_core::decide::{
    Breaking, Broken, Cause, Condition, Decision, Facts, HoldKey as Key, Intent, Line, Policy, ProcessHolder, Slot,
    Terms, decide,
};
use lokt_core::denial::Staleness;
use lokt_core::hold::{Fence, Hold, Identity, LockId};
use lokt_core::liveness::{Clues, Liveness, Process, PulseClue, weigh};
use lokt_core::pulse::ProcessRef;
use lokt_core::time::{Elapsed, Lease};

use super::counter::Draw;
use super::disk::Entry;
use super::flaw::Flaw;
use super::record::{FRESH, Record, TTL_SEC, identity, moment, pid_of, pulse_of};
use super::state::{Breaks, Client, Grip, Op, Phase, Plan, Publish, State};
use super::truth;

/// Who asks for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub client: Client,
    pub op: Op,
    /// The hold that a guard has already.
    pub grip: Option<Grip>,
    /// The token it drew when it came: only where the ticket is the token.
    pub ticket: Option<u16>,
}

/// Reads, asks `decide`, and plans; `None` if it was refused.
pub(super) fn judge(state: &State, ask: Ask, flaw: Flaw) -> Option<Plan> {
    let judged = *state.disk.entry();
    let me = identity(ask.client, state.boot);
    let hold = judged.record().map(|record| record.to_hold());
    let draw = draw(state, &judged, ask, flaw);
    let fresh_id = LockId::from_bits(u128::from(FRESH));
    let now = moment(state.now, state.booted);
    let (liveness, elapsed) = match (judged.record(), &hold) {
        (Some(record), Some(hold)) => {
            flawed(flaw, record, liveness(state, record, hold, &me), Elapsed::of(hold, &now, &me))
        }
        _ => (Liveness::Unknown, Elapsed::NOTHING),
    };
    let facts = Facts {
        slot: match (&judged, &hold) {
            (Entry::Torn, _) => Slot::Corrupt("empty"),
            (_, Some(hold)) => Slot::Held(hold),
            _ => Slot::Free,
        },
        liveness,
        elapsed,
        frozen: None,
        line: Line::default(),
        fresh_id: &fresh_id,
        now,
    };
    let token = Fence::new(u64::from(draw.token)).expect("tokens start at 1");
    let intent = intent(ask);
    let mut decision = decide(&intent, facts, &me, &Policy::NAMED).with_token(token);
    if matches!(intent, Intent::Guard(..)) {
        decision = decision.with_pulse(pulse_of(pid_of(ask.client)));
    }
    plan(state, ask, flaw, judged, draw, &decision)
}

/// The token that a new hold would get, and how to draw it.
fn draw(state: &State, judged: &Entry, ask: Ask, flaw: Flaw) -> Draw {
    let draw = Draw::peek(&state.disk, state.boot);
    let token = match flaw {
        Flaw::TokenInDeletedFile => judged.record().map_or(1, |record| record.token + 1),
        _ => ask.ticket.unwrap_or(draw.token),
    };
    Draw { token, ..draw }
}

fn intent(ask: Ask) -> Intent {
    let terms = Terms { ttl_sec: ask.op.is_leased().then_some(TTL_SEC), reason: None };
    let pid = pid_of(ask.client);
    let proof = || {
        let grip = ask.grip.expect("only a guard renews and releases");
        Key {
            lock_id: LockId::from_bits(u128::from(grip.lock_id)),
            token: Fence::new(u64::from(grip.token)),
            pulse: Some(pulse_of(pid)),
        }
    };
    match ask.op {
        Op::Lock | Op::LockLeased => Intent::Lock(terms),
        Op::Guard | Op::GuardLeased => {
            let process = ProcessRef { pid, start: pid };
            Intent::Guard(terms, ProcessHolder { process, has_pulse: true, inside: None })
        }
        Op::Unlock => Intent::Unlock(Breaking::No, Condition::default()),
        Op::Force => Intent::Unlock(Breaking::Force, Condition::default()),
        Op::BreakStale => Intent::Unlock(Breaking::Stale, Condition::default()),
        Op::Renew => Intent::Renew(proof()),
        Op::Release => Intent::Release(proof()),
    }
}

/// The honest evidence about the process part, weighed by the product. Without one there is nobody to ask about.
fn liveness(state: &State, record: &Record, hold: &Hold, me: &Identity) -> Liveness {
    if record.process.is_none() {
        return Liveness::Unknown;
    }
    let (pulse, holder, command) = match record.pid.map(|client| state.phase(client)) {
        None => (PulseClue::Free, Process::Dead, Process::Dead),
        // The command closed what it inherited, as many do: only its pid is left to tell.
        Some(Phase::Orphaned(_)) => (PulseClue::Free, Process::Dead, Process::Alive),
        Some(_) => (PulseClue::Locked, Process::Alive, Process::Alive),
    };
    weigh(hold, me, Clues { pulse, holder, command: Some(command) })
}

/// Reads an owner part as if its pid proved something, if that is the flaw.
fn flawed(flaw: Flaw, record: &Record, liveness: Liveness, elapsed: Elapsed) -> (Liveness, Elapsed) {
    if flaw == Flaw::CommandPidProvesLife && record.owned.is_some() && record.pid.is_none() {
        return (Liveness::Gone, Elapsed { process: elapsed.owner, owner: Lease::Absent });
    }
    (liveness, elapsed)
}

/// What follows from the decision; nothing from a denial.
fn plan(state: &State, ask: Ask, flaw: Flaw, judged: Entry, draw: Draw, decision: &Decision) -> Option<Plan> {
    let Decision::Commit { next, cause, broken, .. } = decision else { return None };
    let old = judged.record();
    let next = next.as_ref().map(|next| {
        let mut next = Record::from_hold(next, FRESH);
        let is_new = next.lock_id == FRESH || truth::begins_life(&judged, ask.op, ask.client, state.now);
        if let Some(old) = old {
            next.life = if is_new { FRESH } else { old.life };
            let renames = old.lock_id == next.lock_id && old.token != next.token;
            let keeps = match flaw {
                Flaw::SameTokenOnExpiredRefresh => true,
                Flaw::SharedToken => old.process.is_some() && !is_new,
                Flaw::ReturnedToken => old.boot != state.boot && !is_new,
                _ => false,
            };
            next.token = if renames && keeps { old.token } else { next.token };
        }
        next
    });
    let draws = next.is_some_and(|next| old.is_none_or(|old| old.token != next.token));
    let counts = !matches!(flaw, Flaw::TokenInDeletedFile | Flaw::TicketIsToken);
    let sync = judged.is_owned() || next.is_some_and(|next| next.owned.is_some());
    Some(Plan {
        op: ask.op,
        grip: ask.grip,
        judged,
        next,
        publish: match (next, cause) {
            (None, _) => Publish::Remove,
            (Some(_), Cause::Acquire) => Publish::Create,
            (Some(_), _) => Publish::Replace,
        },
        draw: (draws && counts).then_some(draw),
        breaks: broken.map(|broken| match broken {
            Broken::Stale(Staleness::Expired) => Breaks::Expired,
            Broken::Stale(Staleness::ProcessGone) => Breaks::ProcessGone,
            Broken::Corrupt => Breaks::Corrupt,
        }),
        sync: sync && flaw != Flaw::AnswerBeforeSync,
    })
}
