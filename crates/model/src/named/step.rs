//! The shell around `decide`, one effect on disk at a time.
//!
//! Take the mutex, read, decide; raise and sync the ceiling; write the next file; move a stale record aside; publish; leave the mutex;
//! sync; answer. Between any two of these a client may be killed and the machine may lose power. What nobody can see apart is one step:
//! taking the mutex with reading and deciding; publishing with leaving the mutex; the sync of a file with that of its directory and the
//! answer; publishing with the answer, where no sync is needed.

use super::counter::Draw;
use super::disk::Entry;
use super::flaw::Flaw;
use super::judge::{Ask, judge};
use super::record::Record;
use super::state::{Client, Effect, Grip, Op, Phase, Plan, Publish, State};
use super::{Action, Named};

/// Where `action` leads from `state`; `None` if it can't be done now or changes nothing.
pub(super) fn act(model: Named, state: &State, action: Action) -> Option<State> {
    let mut next = state.clone();
    match action {
        Action::Start(client, op) => return start(model, next, client, op),
        Action::Arrive(client, op) => arrive(&mut next, client, op),
        Action::Enter(client) => enter(model, &mut next, client),
        Action::Step(client) => step(model, &mut next, client),
        Action::Sync(client) => sync(&mut next, client),
        Action::Kill(client) => next.end(client),
        Action::Orphan(client) => {
            if let Phase::Inside(grip) = *next.phase(client) {
                next.set(client, Phase::Orphaned(grip));
            }
        }
        Action::Tick => {
            next.now += 1;
        }
        Action::Delete => {
            next.truth.taken(state.disk.entry());
            next.disk.put(Entry::Nothing, true);
            next.deletes += 1;
        }
        Action::PowerCut { kept, torn, next_lost } => {
            next.disk.cut(kept, torn, next_lost);
            for client in Client::ALL {
                next.end(client);
            }
            next.truth.cut();
            next.boot += 1;
            next.booted = next.now;
        }
    }
    next.truth.drop_over(next.now);
    Some(next)
}

fn start(model: Named, mut state: State, client: Client, op: Op) -> Option<State> {
    let (grip, ticket) = match *state.phase(client) {
        Phase::Inside(grip) => (Some(grip), None),
        Phase::Ticketed(_, token) => (None, Some(token)),
        _ => (None, None),
    };
    let Some(plan) = judge(&state, Ask { client, op, grip, ticket }, model.flaw) else {
        // A guard that finds its hold lost ends all the same; every other refusal changes nothing.
        if op != Op::Release || !state.is_mutex_free() {
            return None;
        }
        state.end(client);
        return Some(state);
    };
    let phase = if plan.publish == Publish::Replace && plan.judged.is_owned() && plan.draw.is_none() {
        Phase::Prepared(plan)
    } else if model.flaw == Flaw::BreakByUnlink && plan.breaks.is_some() {
        Phase::Loose(plan, Effect::Aside)
    } else if state.is_mutex_free() {
        Phase::Mutex(plan, first_effect(model.flaw, &plan))
    } else {
        return None;
    };
    state.ops += u8::from(op != Op::Release && ticket.is_none());
    state.set(client, phase);
    Some(state)
}

/// A client gets in line and draws its token, all at once.
fn arrive(state: &mut State, client: Client, op: Op) {
    let token = draw_at_once(state);
    state.ops += 1;
    state.set(client, Phase::Ticketed(op, token));
}

fn draw_at_once(state: &mut State) -> u16 {
    let draw = Draw::peek(&state.disk, state.boot);
    state.disk.ceiling = draw.raise.unwrap_or(state.disk.ceiling);
    state.disk.next = Some(draw.next);
    draw.token
}

/// A prepared client takes the mutex: it goes on if nothing has changed, and decides again otherwise.
fn enter(model: Named, state: &mut State, client: Client) {
    let Phase::Prepared(plan) = *state.phase(client) else { return };
    if plan.judged == *state.disk.entry() {
        return state.set(client, Phase::Mutex(plan, Effect::Publish));
    }
    match judge(state, Ask { client, op: plan.op, grip: plan.grip, ticket: None }, model.flaw) {
        Some(plan) => state.set(client, Phase::Mutex(plan, first_effect(model.flaw, &plan))),
        None => refused(state, client, &plan),
    }
}

/// Nothing was done. A guard whose renewal was refused goes on, everybody else ends.
fn refused(state: &mut State, client: Client, plan: &Plan) {
    match plan.grip {
        Some(grip) if plan.op == Op::Renew => state.set(client, Phase::Inside(grip)),
        _ => state.end(client),
    }
}

fn order(flaw: Flaw) -> [Effect; 4] {
    match flaw {
        Flaw::RecordBeforeCounter => [Effect::Aside, Effect::Publish, Effect::Raise, Effect::Count],
        _ => [Effect::Raise, Effect::Count, Effect::Aside, Effect::Publish],
    }
}

fn needs(plan: &Plan, effect: Effect) -> bool {
    match effect {
        Effect::Raise => plan.draw.is_some_and(|draw| draw.raise.is_some()),
        Effect::Count => plan.draw.is_some(),
        Effect::Aside => plan.breaks.is_some(),
        Effect::Publish => true,
    }
}

fn first_effect(flaw: Flaw, plan: &Plan) -> Effect {
    order(flaw).into_iter().find(|effect| needs(plan, *effect)).expect("everything is published")
}

fn effect_after(flaw: Flaw, plan: &Plan, done: Effect) -> Option<Effect> {
    order(flaw).into_iter().skip_while(|effect| *effect != done).skip(1).find(|effect| needs(plan, *effect))
}

fn step(model: Named, state: &mut State, client: Client) {
    match *state.phase(client) {
        Phase::Mutex(mut plan, effect) => {
            if !apply(state, client, &mut plan, effect) {
                return refused(state, client, &plan);
            }
            match effect_after(model.flaw, &plan, effect) {
                Some(effect) => state.set(client, Phase::Mutex(plan, effect)),
                None => leave(state, client, &plan),
            }
        }
        Phase::Loose(plan, effect) => break_loose(state, client, plan, effect),
        _ => {}
    }
}

/// One effect; false if it turned out to be impossible.
fn apply(state: &mut State, client: Client, plan: &mut Plan, effect: Effect) -> bool {
    let there = *state.disk.entry();
    match effect {
        Effect::Raise => state.disk.ceiling = plan.draw.and_then(|draw| draw.raise).unwrap_or(state.disk.ceiling),
        Effect::Count => state.disk.next = plan.draw.map(|draw| draw.next).or(state.disk.next),
        Effect::Aside if there == Entry::Nothing => {}
        Effect::Aside if there == plan.judged => state.disk.put(Entry::Nothing, true),
        // Not what was judged: put back.
        Effect::Aside => return false,
        Effect::Publish if plan.publish == Publish::Create && there != Entry::Nothing => return false,
        Effect::Publish => publish(state, client, plan, &there),
    }
    true
}

fn publish(state: &mut State, client: Client, plan: &mut Plan, there: &Entry) {
    let fresh = state.fresh();
    plan.next = state.truth.publish(plan, client, there, fresh);
    // What replaces an owner part is synced before it is published.
    let whole = plan.publish == Publish::Replace && plan.judged.is_owned();
    match plan.next {
        Some(next) => state.disk.put(Entry::Held(next), whole),
        None if *there != Entry::Nothing => state.disk.put(Entry::Nothing, true),
        None => {}
    }
}

/// Breaks as programs without a mutex do: what was judged a moment ago is unlinked, whatever it has become. The counter is not what
/// this is about, so the token is drawn in the same instant as it is published.
fn break_loose(state: &mut State, client: Client, mut plan: Plan, effect: Effect) {
    if effect == Effect::Aside {
        let there = *state.disk.entry();
        if there != Entry::Nothing {
            state.truth.offences.lost_thief |= there != plan.judged;
            state.disk.put(Entry::Nothing, true);
        }
        return state.set(client, Phase::Loose(plan, Effect::Publish));
    }
    let token = draw_at_once(state);
    plan.next = plan.next.map(|next| Record { token, ..next });
    if apply(state, client, &mut plan, Effect::Publish) {
        leave(state, client, &plan);
    } else {
        state.end(client);
    }
}

/// Leaves the mutex, and answers if nothing needs a sync.
fn leave(state: &mut State, client: Client, plan: &Plan) {
    let grip = match (plan.op, plan.next) {
        (Op::Guard | Op::GuardLeased, Some(next)) => {
            Some(Grip { lock_id: next.lock_id, token: next.token, leased: plan.op.is_leased() })
        }
        (Op::Release, _) => None,
        _ => plan.grip,
    };
    if plan.sync {
        state.set(client, Phase::Syncing { op: plan.op, grip, wrote: plan.next });
    } else {
        answer(state, client, plan.op, grip, plan.next);
    }
}

fn sync(state: &mut State, client: Client) {
    if let Phase::Syncing { op, grip, wrote } = *state.phase(client) {
        state.disk.sync(wrote.as_ref());
        answer(state, client, op, grip, wrote);
    }
}

/// The caller is answered: a guard goes on, every other process ends.
fn answer(state: &mut State, client: Client, op: Op, grip: Option<Grip>, wrote: Option<Record>) {
    state.truth.answer(op, client, wrote.as_ref());
    match grip {
        Some(grip) => state.set(client, Phase::Inside(grip)),
        None => state.end(client),
    }
}
