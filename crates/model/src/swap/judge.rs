//! The product's own view, decision and plan, for one client.

use std::mem::discriminant;

use jiff::Timestamp;
use lokt_core::audit;
use lokt_core::decide::{Breaking, Condition, Decision, HoldKey as Proof, Intent, ProcessHolder, Terms, decide};
use lokt_core::denial::Denial;
use lokt_core::engine::{Keyspace, Rev, Sight};
use lokt_core::hold::{Fence, Identity, LockId, PulseRef};
use lokt_core::liveness::Liveness;
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;
use lokt_core::swap::record::Waiter;
use lokt_core::swap::view::{self, NameView, Target, View};
use lokt_core::swap::{self, Kind, Plan, Request, Ruled, Seen, sweep};
use lokt_core::time::Moment;

use super::Swap;
use super::bounds::{Bounds, Step};
use super::flaw::Flaw;
use super::state::{Client, HoldKey, Number, Ruling, lease, op, session, space, step};

/// What a client makes of a look.
pub(super) enum Judged {
    /// A change.
    Change(Plan, Ruling),
    /// A change that is no decision: a ticket, a sweep.
    Plain(Plan),
    /// It is refused. A waiter has its ticket, and waits.
    Refused {
        /// Only because others were there first?
        queued: bool,
    },
}

/// The names of this world.
pub(super) fn names() -> [LockName; 2] {
    ["x", "y"].map(|text| LockName::new(text).expect("a good name"))
}

fn names_of(step: Step, grip: Option<&HoldKey>) -> Vec<LockName> {
    match (step, grip) {
        (Step::WaitBoth | Step::Sweep, _) => names().into(),
        (Step::Release, Some(grip)) => grip.holds.iter().map(|hold| hold.0.clone()).collect(),
        _ => names()[..1].into(),
    }
}

/// What a client looks at.
pub(super) fn look(bounds: &Bounds, number: Number, client: &Client, keys: &Keyspace) -> Sight {
    let step = step(bounds, number, client.at).expect("it has a command");
    keys.look(&view::spans(&space(), &names_of(step, client.grip.as_ref())))
}

/// Decides for the command that `client` runs.
pub(super) fn judge(model: Swap, number: Number, client: &Client, sight: &Sight) -> Judged {
    let step = step(&model.bounds, number, client.at).expect("it has a command");
    let asked = names_of(step, client.grip.as_ref());
    let view = View::read(&space(), &asked, sight);
    if let Some(plan) = plain(model, number, client, step, &view) {
        return plan;
    }
    let intents = intents(step, asked.len(), client.grip.as_ref());
    let me = Identity {
        owner: model.bounds.programs[number].0.into(),
        pid: i64::try_from(number).expect("few clients"),
        ..Identity::default()
    };
    let session = Some(session(number, client.at));
    let base = op(number, client.at).0 * 0x10;
    let ids: Vec<_> = (0..).take(asked.len()).map(|n| LockId::from_bits(base + n)).collect();
    let (target, liveness) = (target(step), Liveness::Unknown);
    let decide = |((view, intent), fresh_id): ((&NameView, _), _)| {
        let seen = Seen { liveness, fresh_id, now: now(), session };
        let decision = decide(intent, view.facts(target, &seen), &me, &swap::POLICY);
        let before = view.judged(target, liveness).and_then(|member| member.hold());
        let events = audit::events(&decision, before, None, view.name.as_str(), &me, now().wall);
        (decision, events)
    };
    let decided: Vec<_> = view.names.iter().zip(&intents).zip(&ids).map(decide).collect();
    let mut ruled = Vec::new();
    for ((view, intent), (decision, events)) in view.names.iter().zip(&intents).zip(&decided) {
        let Decision::Commit { next, token, cause, .. } = decision else { break };
        let (next, token, cause) = (next.as_deref(), *token, *cause);
        ruled.push(Ruled { view, target, intent, liveness, next, token, cause, events });
    }
    if ruled.len() < decided.len() {
        let decisions: Vec<_> = decided.iter().map(|(decision, _)| decision).collect();
        return refused(model, number, client, step, &view, &decisions);
    }
    let lease = Some(lease(number, client.at));
    let request = Request { op: op(number, client.at), session, lease };
    match swap::plan(&space(), &view, &request, &ruled) {
        Ok(mut plan) => {
            let ruling = ruling(&ruled, &plan);
            model.flaw.spoil(&mut plan, step);
            Judged::Change(plan, ruling)
        }
        Err(other) => unreachable!("the space is open, and every part has a session: {other:?}"),
    }
}

/// A change that needs no decision; nothing, if there is none to make.
fn plain(model: Swap, number: Number, client: &Client, step: Step, view: &View) -> Option<Judged> {
    let nothing = Judged::Refused { queued: false };
    Some(match step {
        Step::Sweep => sweep::sweep(&space(), view).map_or(nothing, |change| {
            let (kind, proof, grants) = (Kind::Ticket, None, vec![]);
            let mut plan = Plan { change, kind, proof, base: 0, grants };
            model.flaw.spoil(&mut plan, step);
            Judged::Plain(plan)
        }),
        Step::PassOver => {
            let mine = session(number, client.at);
            let ticket = view.names[0].line.first().filter(|ticket| ticket.session != mine);
            ticket.map_or(nothing, |ticket| Judged::Plain(swap::plan::drop_tickets(&space(), view, [ticket])))
        }
        _ => return None,
    })
}

fn refused(model: Swap, number: Number, client: &Client, step: Step, view: &View, decisions: &[&Decision]) -> Judged {
    if step.waits() {
        let waiter = Waiter { owner: model.bounds.programs[number].0.into(), ..Waiter::default() };
        let place = client.place.unwrap_or(view.at);
        let mine = session(number, client.at);
        if let Ok(mut plan) = swap::plan::queue(&space(), view, place, mine, &waiter) {
            model.flaw.misplace(&mut plan, view, &names()[1]);
            return Judged::Plain(plan);
        }
    }
    let queued = |decision: &&Decision| match decision {
        Decision::Deny(denial) => matches!(denial, Denial::Queued { .. }),
        _ => true,
    };
    Judged::Refused { queued: decisions.iter().all(queued) }
}

fn ruling(ruled: &[Ruled<'_>], plan: &Plan) -> Ruling {
    Ruling {
        causes: ruled.iter().map(|ruled| discriminant(&ruled.cause)).collect(),
        draws: plan.grants.iter().map(|granting| granting.token.is_none()).collect(),
    }
}

fn target(step: Step) -> Target {
    match step {
        Step::Freeze | Step::FreezeLeased | Step::Unfreeze => Target::Freeze,
        _ => Target::Lock,
    }
}

/// No decision compares it with anything.
fn now() -> Moment {
    Moment { wall: Timestamp::UNIX_EPOCH, monotonic_ms: 0, boottime_ms: 0 }
}

fn intents(step: Step, count: usize, grip: Option<&HoldKey>) -> Vec<Intent> {
    let terms = |ttl_sec| Terms { ttl_sec, reason: None };
    let intent = match step {
        Step::Guard | Step::WaitGuard | Step::WaitBoth => {
            let process = ProcessRef { pid: 1, start: 1 };
            let bearer = ProcessHolder { process, has_pulse: true, inside: None };
            Intent::Guard(terms(None), bearer)
        }
        Step::Lock => Intent::Lock(terms(None)),
        Step::LockLeased => Intent::Lock(terms(Some(60))),
        Step::Unlock => Intent::Unlock(Breaking::No, Condition::default()),
        Step::Force => Intent::Unlock(Breaking::Force, Condition::default()),
        Step::Freeze => Intent::Freeze(terms(None)),
        Step::FreezeLeased => Intent::Freeze(terms(Some(60))),
        Step::Unfreeze => Intent::Unfreeze { force: false },
        Step::Release => return releases(grip),
        Step::Keep | Step::PassOver | Step::Sweep => unreachable!("it is no decision"),
    };
    vec![intent; count]
}

fn releases(grip: Option<&HoldKey>) -> Vec<Intent> {
    let grip = grip.expect("only a holder releases");
    let pulse = Some(PulseRef { number: grip.born.0, dev: 0, ino: 0 });
    let proof = |(_, lock_id, token): &(LockName, LockId, u64)| {
        let (lock_id, token) = (lock_id.clone(), Fence::new(*token));
        Intent::Release(Proof { lock_id, token, pulse })
    };
    grip.holds.iter().map(proof).collect()
}

/// The token of a hold, as a reader takes it from the keys.
pub(super) fn token(model: Swap, stored: Option<u64>, since: Rev, cell: Rev) -> Option<u64> {
    match model.flaw {
        // With a base of 0, a token that was drawn is the revision of its record.
        Flaw::TokenFromCell if stored == Some(since.0) => Some(cell.0),
        _ => stored,
    }
}
