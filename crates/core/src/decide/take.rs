//! Acquiring a hold: `lock`, `steal` and `guard`.

use alloc::boxed::Box;

use super::{
    Again, Broken, Cause, Decision, Facts, Freeze, InheritedHold, Policy, ProcessHolder, Slot, Terms, Token, held,
};
use crate::denial::Denial;
use crate::hold::{Hold, Identity, Part, PartKind, Parts, RECORD_VERSION, lease_of};
use crate::liveness::Liveness;
use crate::time::{Elapsed, Lease, Moment, millis_between, plus_millis, plus_seconds, same_clocks, wall_lease};

pub(super) fn lock(terms: &Terms, facts: Facts<'_>, me: &Identity, policy: Policy) -> Decision {
    let Slot::Held(hold) = facts.slot else { return grant(facts, None, |facts| owner_hold(terms, facts, me)) };
    let same_owner = hold.owner == me.owner;
    if !facts.lives(PartKind::Process) && !facts.lives(PartKind::Owner) {
        let revived = (same_owner && policy.again == Again::Revives).then_some(hold);
        return grant(facts, revived, |facts| owner_hold(terms, facts, me));
    }
    if !same_owner || policy.again == Again::Never {
        return held(&facts, hold);
    }
    refresh(hold, terms, facts, me, policy)
}

/// Gives the caller's own live hold a new end, regardless of the queue and of freezes. A running
/// guard stays unchanged. So does another program's process that is seen to run: its heartbeat
/// continues only while the record has its pid.
pub(super) fn refresh(hold: &Hold, terms: &Terms, facts: Facts<'_>, me: &Identity, policy: Policy) -> Decision {
    let guard_stays = facts.lives(PartKind::Process) && (!hold.is_foreign() || facts.is_seen_to_run());
    let mut next = hold.clone();
    if !guard_stays {
        sign(&mut next, me);
        next.pulse = None;
    }
    let process = if guard_stays { carried(hold, PartKind::Process, facts, &next) } else { None };
    let owner = Some(new_part(PartKind::Owner, terms.ttl_sec, facts.now, me, &next));
    settle(&mut next, process, owner, facts.now);
    goes_on(hold, next, terms, facts, me, policy)
}

/// Stores a new hold in place of one that has ended; for a free name it is refused.
pub(super) fn take_over(terms: &Terms, facts: Facts<'_>, me: &Identity, policy: Policy) -> Decision {
    if matches!(facts.slot, Slot::Free) {
        return Decision::Deny(Denial::Missing);
    }
    lock(terms, facts, me, Policy { again: Again::Never, ..policy })
}

pub(super) fn guard(
    terms: &Terms,
    bearer: &ProcessHolder,
    facts: Facts<'_>,
    me: &Identity,
    policy: Policy,
) -> Decision {
    let Slot::Held(hold) = facts.slot else {
        return grant(facts, None, |facts| process_hold(terms, bearer, facts, me));
    };
    let process_lives = facts.lives(PartKind::Process);
    let owner_lives = facts.lives(PartKind::Owner);
    // A live guard may still renew an expired lease. A process that outlived a hold that is gone
    // can't be inside it: it would run beside the next holder of the name.
    let is_over = !process_lives && !owner_lives && (facts.liveness == Liveness::Gone || !hold.has(PartKind::Process));
    let is_pulse = |inherited_hold: &InheritedHold| {
        inherited_hold.pulse.is_some() && inherited_hold.pulse == hold.pulse.map(|pulse| pulse.number)
    };
    let opens = |inherited_hold: &InheritedHold| {
        inherited_hold.lock_id == hold.lock_id && inherited_hold.token == hold.token && is_pulse(inherited_hold)
    };
    if bearer
        .inside
        .as_ref()
        .is_some_and(|inherited_hold| !is_over && !inherited_hold.lock_id.is_empty() && opens(inherited_hold))
    {
        return Decision::Inside;
    }
    if !process_lives && !owner_lives {
        return grant(facts, None, |facts| process_hold(terms, bearer, facts, me));
    }
    if hold.owner != me.owner || (process_lives && !is_same_binding(hold, bearer, &facts, me)) {
        return held(&facts, hold);
    }
    // A freeze stops new commands, even under the caller's own lock. Renewing a binding starts
    // none.
    if let (Some(freeze), false) = (facts.frozen, process_lives) {
        return frozen(freeze);
    }
    let mut next = hold.clone();
    sign(&mut next, me);
    bear(&mut next, bearer);
    let owner = if owner_lives { carried(hold, PartKind::Owner, facts, &next) } else { None };
    let process = Some(new_part(PartKind::Process, terms.ttl_sec, facts.now, me, &next));
    settle(&mut next, process, owner, facts.now);
    goes_on(hold, next, terms, facts, me, policy)
}

/// Continues `hold` as `next`, whose parts and process are settled: the same hold, since the same
/// time, and with the same token if nobody can have superseded it.
fn goes_on(hold: &Hold, mut next: Hold, terms: &Terms, facts: Facts<'_>, me: &Identity, policy: Policy) -> Decision {
    next.token = hold.token.filter(|_| !is_overtaken(hold, &facts, me, policy));
    let token = if next.token.is_some() { Token::Keep } else { Token::Draw };
    // A hold of an old program may have no lock id.
    if next.lock_id.is_empty() {
        next.lock_id.clone_from(facts.fresh_id);
    }
    next.held_since = hold.began().or(Some(facts.now.wall));
    next.reason = terms.reason.clone().or(next.reason);
    Decision::Commit { next: Some(Box::new(next)), token, cause: Cause::Renew, broken: None }
}

/// Reports whether another process may have acted on the end of this hold, although it lives. Then
/// it continues under a new token.
///
/// * A process part whose lease expired while its process was suspended: that process still has the
///   token, and must be distinguished from the next one to join.
/// * A record of another boot with no process behind it: it may have been removed before a power
///   cut restored it, and a greater token may have been issued in between. This doesn't apply where
///   the policy says that nothing comes back.
fn is_overtaken(hold: &Hold, facts: &Facts<'_>, me: &Identity, policy: Policy) -> bool {
    let process_lives = facts.lives(PartKind::Process);
    let stands_still = hold.has(PartKind::Process) && facts.liveness != Liveness::Gone;
    !process_lives && (stands_still || (!policy.durable && hold.boot_id != me.boot_id))
}

/// Reports whether this is `lock --bind` again for the same process: a refresh. A guard is never
/// the same: two terminals of one user exclude each other.
fn is_same_binding(hold: &Hold, bearer: &ProcessHolder, facts: &Facts<'_>, me: &Identity) -> bool {
    hold.pulse.is_none()
        && !bearer.has_pulse
        && !hold.is_foreign()
        && facts.liveness == Liveness::Alive
        && hold.boot_id.is_some()
        && hold.boot_id == me.boot_id
        && hold.pid_ns == me.pid_ns
        && hold.pid == bearer.process.pid
        && hold.pid_start == bearer.process.start
}

/// Grants a new hold, if nothing but a stale one is in the way. `revived` is the caller's own stale
/// hold: it keeps its lock id and gets a new token, because a token names one life of a hold, and
/// another process may have acted on its end.
fn grant(facts: Facts<'_>, revived: Option<&Hold>, make: impl Fn(&Facts<'_>) -> Hold) -> Decision {
    let broken = match facts.slot {
        Slot::BeingWritten => return Decision::Deny(Denial::BeingWritten),
        Slot::Newer(version) => return Decision::Deny(Denial::Newer { version }),
        Slot::Free => None,
        Slot::Corrupt(_) => Some(Broken::Corrupt),
        Slot::Held(hold) => facts.holder(hold).staleness().map(Broken::Stale),
    };
    if let Some(freeze) = facts.frozen {
        return frozen(freeze);
    }
    if facts.line.ahead > 0 {
        return Decision::Deny(Denial::Queued { ahead: facts.line.ahead });
    }
    let mut next = make(&facts);
    let (mut cause, mut broken) = (Cause::Acquire, broken);
    if let Some(old) = revived {
        (cause, broken) = (Cause::Renew, None);
        // Old records have no lock id to keep.
        if !old.lock_id.is_empty() {
            next.lock_id.clone_from(&old.lock_id);
        }
        next.extra.clone_from(&old.extra);
        next.reason = next.reason.or_else(|| old.reason.clone());
    }
    Decision::Commit { next: Some(Box::new(next)), token: Token::Draw, cause, broken }
}

pub(super) fn frozen(freeze: Freeze<'_>) -> Decision {
    Decision::Deny(Denial::Frozen(match freeze {
        Freeze::Known(holder) => Some(Box::new(holder.clone())),
        Freeze::Unreadable => None,
    }))
}

pub(super) fn owner_hold(terms: &Terms, facts: &Facts<'_>, me: &Identity) -> Hold {
    let mut hold = new_hold(terms, facts, me);
    let part = new_part(PartKind::Owner, terms.ttl_sec, facts.now, me, &hold);
    settle(&mut hold, None, Some(part), facts.now);
    hold
}

fn process_hold(terms: &Terms, bearer: &ProcessHolder, facts: &Facts<'_>, me: &Identity) -> Hold {
    let mut hold = new_hold(terms, facts, me);
    bear(&mut hold, bearer);
    let part = new_part(PartKind::Process, terms.ttl_sec, facts.now, me, &hold);
    settle(&mut hold, Some(part), None, facts.now);
    hold
}

fn new_hold(terms: &Terms, facts: &Facts<'_>, me: &Identity) -> Hold {
    let mut hold = Hold {
        // The shell fills in the name; a decision is the same for all names.
        lock_id: facts.fresh_id.clone(),
        owner: me.owner.clone(),
        held_since: Some(facts.now.wall),
        reason: terms.reason.clone(),
        ..Hold::blank()
    };
    sign(&mut hold, me);
    hold
}

/// Records the caller's process in a hold, and the machine on which that process is known.
pub(super) fn sign(hold: &mut Hold, me: &Identity) {
    hold.host.clone_from(&me.host);
    hold.pid = me.pid;
    hold.pid_start = me.pid_start;
    hold.agent_id.clone_from(&me.agent_id);
    hold.boot_id.clone_from(&me.boot_id);
    hold.pid_ns = me.pid_ns;
    hold.fs = me.fs;
}

/// Makes `bearer` the process of a hold. The pulse of the previous process ends here.
fn bear(hold: &mut Hold, bearer: &ProcessHolder) {
    hold.pid = bearer.process.pid;
    hold.pid_start = bearer.process.start;
    hold.pulse = None;
}

/// A part to store, and the state of its lease at this write.
pub(super) struct Timed {
    part: Part,
    lease: Lease,
}

/// A part of `next` that begins now. Its clock reading is kept only if the record is of this boot:
/// the record's boot is that of the process it names, which may run on another machine.
pub(super) fn new_part(kind: PartKind, ttl_sec: Option<u64>, now: Moment, me: &Identity, next: &Hold) -> Timed {
    let clock_ms = match kind {
        PartKind::Process => now.monotonic_ms,
        PartKind::Owner => now.boottime_ms,
    };
    begun(lease_of(ttl_sec), same_clocks(next, me).then_some(clock_ms), now)
}

/// A part that begins now. By the wall clock it ends at the last representable time at the latest.
fn begun(ttl_sec: Option<u64>, clock_ms: Option<u64>, now: Moment) -> Timed {
    let lease = match (ttl_sec, clock_ms) {
        (None, _) => Lease::Endless,
        (Some(ttl_sec), Some(_)) => Lease::Left(ttl_sec.saturating_mul(1000)),
        (Some(ttl_sec), None) => wall_lease(plus_seconds(now.wall, ttl_sec), &now),
    };
    Timed { part: Part { since: now.wall, ttl_sec, clock_ms }, lease }
}

/// Returns the part of `hold` that a writer doesn't change, as it must be in `next`. A part that is
/// of another boot than `next`, or was edited, continues by the wall clock.
pub(super) fn carried(hold: &Hold, kind: PartKind, facts: Facts<'_>, next: &Hold) -> Option<Timed> {
    let lease = facts.elapsed.part(kind);
    let Some(parts) = hold.parts.as_ref() else {
        return (kind == PartKind::Process).then(|| foreign_part(hold, lease, facts.now));
    };
    let part = match kind {
        PartKind::Process => parts.process.as_ref(),
        PartKind::Owner => parts.owner.as_ref(),
    }?;
    if parts.edited {
        return Some(begun(left_sec(lease), None, facts.now));
    }
    let clock_ms = part.clock_ms.filter(|_| hold.boot_id == next.boot_id);
    Some(Timed { part: Part { clock_ms, ..part.clone() }, lease })
}

/// The process part that a record without parts represents.
fn foreign_part(hold: &Hold, lease: Lease, now: Moment) -> Timed {
    let stated = hold.acquired.zip(u64::try_from(hold.ttl_sec).ok().and_then(|ttl_sec| lease_of(Some(ttl_sec))));
    match (left_sec(lease), stated) {
        (Some(_), Some((since, ttl_sec))) if hold.expires_at.is_none_or(|end| end == plus_seconds(since, ttl_sec)) => {
            Timed { part: Part { since, ttl_sec: Some(ttl_sec), clock_ms: None }, lease }
        }
        (Some(left_sec), _) => begun(Some(left_sec), None, now),
        (None, _) => {
            let since = hold.acquired.unwrap_or(now.wall);
            Timed { part: Part { since, ttl_sec: None, clock_ms: None }, lease: Lease::Endless }
        }
    }
}

/// Returns the rest of a lease in whole seconds, at least one: zero would mean no end.
fn left_sec(lease: Lease) -> Option<u64> {
    match lease {
        Lease::Left(ms) => Some(ms.div_ceil(1000).max(1)),
        _ => None,
    }
}

/// Gives a hold its parts, and makes the top level agree with them: our version, the time of this
/// write, and the end of the part that ends last. A reader that doesn't know parts sees one hold
/// with the right end.
pub(super) fn settle(hold: &mut Hold, process: Option<Timed>, owner: Option<Timed>, now: Moment) {
    let lease = |timed: &Option<Timed>| timed.as_ref().map_or(Lease::Absent, |timed| timed.lease);
    let left_ms = Elapsed { process: lease(&process), owner: lease(&owner) }.left_ms();
    let part = |timed: Option<Timed>| timed.map(|timed| timed.part);
    hold.parts = Some(Parts { process: part(process), owner: part(owner), edited: false });
    hold.version = RECORD_VERSION;
    hold.acquired = Some(now.wall);
    match left_ms {
        None => {
            hold.ttl_sec = 0;
            hold.expires_at = None;
        }
        Some(left_ms) => {
            let left_sec = left_ms.div_ceil(1000).max(heartbeat_sec(hold));
            hold.ttl_sec = i64::try_from(left_sec).unwrap_or(i64::MAX).max(1);
            let end = plus_millis(now.wall, left_ms);
            // With one part that begins now this is exactly acquired_ts + ttl_sec.
            hold.expires_at =
                Some(if left_ms.is_multiple_of(1000) { plus_seconds(now.wall, left_ms / 1000) } else { end });
            debug_assert!(millis_between(now.wall, end) >= 0, "an end is never before its beginning");
        }
    }
}

/// The lease that another program's heartbeat renews. That program counts its next end from the
/// `ttl_sec` of the file, which must not shrink to the rest of the lease: the next heartbeat would
/// come too late.
fn heartbeat_sec(hold: &Hold) -> u64 {
    let process = hold.parts.as_ref().and_then(|parts| parts.process.as_ref());
    process.filter(|_| hold.has_foreign_process()).and_then(|part| part.ttl_sec).unwrap_or(0)
}
