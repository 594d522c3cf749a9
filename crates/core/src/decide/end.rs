//! Keeping and ending a hold: a guard's renewal and release, `unlock`, and pruning.

use alloc::boxed::Box;
use alloc::string::ToString;

use super::take::{carried, new_part, refresh, settle};
use super::{Breaking, Cause, Condition, Decision, Facts, HoldKey, Policy, Slot, Terms, commit};
use crate::denial::{Denial, Staleness};
use crate::hold::{Fence, Hold, Identity, PartKind};

pub(super) fn renew(grip: &HoldKey, facts: Facts<'_>, me: &Identity) -> Decision {
    let hold = match gripped(grip, &facts) {
        Ok(hold) => hold,
        Err(denial) => return Decision::Deny(denial),
    };
    let Some(part) = hold.parts.as_ref().and_then(|parts| parts.process.as_ref()) else {
        return Decision::Deny(Denial::Lost(Some(Box::new(facts.holder(hold)))));
    };
    let owner = if facts.lives(PartKind::Owner) { carried(hold, PartKind::Owner, facts, hold) } else { None };
    let process = Some(new_part(PartKind::Process, part.ttl_sec, facts.now, me, hold));
    let mut next = hold.clone();
    settle(&mut next, process, owner, facts.now);
    commit(Some(next), Cause::Renew)
}

pub(super) fn release(grip: &HoldKey, facts: Facts<'_>) -> Decision {
    let hold = match gripped(grip, &facts) {
        Ok(hold) => hold,
        Err(denial) => return Decision::Deny(denial),
    };
    let owner = if facts.lives(PartKind::Owner) { carried(hold, PartKind::Owner, facts, hold) } else { None };
    let next = owner.map(|owner| {
        let mut next = hold.clone();
        next.pulse = None;
        settle(&mut next, None, Some(owner), facts.now);
        next
    });
    commit(next, Cause::Release(PartKind::Process))
}

/// Returns the stored hold, if it is the caller's.
fn gripped<'a>(grip: &HoldKey, facts: &Facts<'a>) -> Result<&'a Hold, Denial> {
    match facts.slot {
        Slot::Held(hold) if hold.lock_id == grip.lock_id && hold.token == grip.token && hold.pulse == grip.pulse => {
            Ok(hold)
        }
        Slot::Held(hold) => Err(Denial::Lost(Some(Box::new(facts.holder(hold))))),
        _ => Err(Denial::Lost(None)),
    }
}

/// Gives the caller's own live hold a new end. A hold that has ended stays ended: another process
/// may have acted on that.
pub(super) fn extend(ttl_sec: u64, token: Option<u64>, facts: Facts<'_>, me: &Identity, policy: Policy) -> Decision {
    if let Some(denial) = misses(&Condition { lock_id: None, token }, &facts) {
        return Decision::Deny(denial);
    }
    let hold = match facts.slot {
        Slot::Held(hold) => hold,
        Slot::Free => return Decision::Deny(Denial::Missing),
        Slot::Corrupt(why) => return Decision::Deny(Denial::Corrupt { why: why.to_string() }),
        Slot::BeingWritten => return Decision::Deny(Denial::BeingWritten),
        Slot::Newer(version) => return Decision::Deny(Denial::Newer { version }),
    };
    let holder = facts.holder(hold);
    if hold.owner != me.owner {
        return Decision::Deny(Denial::NotYours(Box::new(holder)));
    }
    if !holder.lives() {
        return Decision::Deny(Denial::Over(Box::new(holder)));
    }
    refresh(hold, &Terms { ttl_sec: Some(ttl_sec), reason: None }, facts, me, policy)
}

pub(super) fn unlock(
    breaking: Breaking,
    condition: &Condition,
    facts: Facts<'_>,
    me: &Identity,
    policy: Policy,
) -> Decision {
    if let Some(denial) = misses(condition, &facts) {
        return Decision::Deny(denial);
    }
    match (breaking, facts.slot) {
        (_, Slot::Free) => Decision::Deny(Denial::Missing),
        (Breaking::Force | Breaking::Stale, Slot::Corrupt(_)) => commit(None, Cause::CorruptBreak),
        (Breaking::Force, _) => commit(None, Cause::ForceBreak),
        (Breaking::Stale | Breaking::No, Slot::Newer(version)) => Decision::Deny(Denial::Newer { version }),
        (Breaking::Stale | Breaking::No, Slot::BeingWritten) => Decision::Deny(Denial::BeingWritten),
        (Breaking::Stale, Slot::Held(hold)) if facts.holder(hold).staleness().is_some() => {
            commit(None, Cause::StaleBreak)
        }
        (Breaking::Stale, Slot::Held(hold)) => Decision::Deny(Denial::NotStale(Box::new(facts.holder(hold)))),
        (Breaking::No, Slot::Corrupt(why)) => Decision::Deny(Denial::Corrupt { why: why.to_string() }),
        (Breaking::No, Slot::Held(hold)) if hold.owner == me.owner => {
            let holder = facts.holder(hold);
            if policy.ends_late || holder.lives() {
                end_owned(hold, facts)
            } else {
                Decision::Deny(Denial::Over(Box::new(holder)))
            }
        }
        (Breaking::No, Slot::Held(hold)) => Decision::Deny(Denial::NotYours(Box::new(facts.holder(hold)))),
    }
}

pub(super) fn unlock_for(owner: &str, facts: Facts<'_>, me: &Identity) -> Decision {
    match facts.slot {
        Slot::Held(hold) if hold.owner != owner => Decision::Deny(Denial::NotYours(Box::new(facts.holder(hold)))),
        Slot::Held(hold) => match end_owned(hold, facts) {
            // Ending another owner's hold is a break, and is recorded as one.
            Decision::Commit { next, token, broken, .. } if owner != me.owner => {
                Decision::Commit { next, token, cause: Cause::ForceBreak, broken }
            }
            decision => decision,
        },
        _ => Decision::Deny(Denial::Missing),
    }
}

/// Ends what an unlock may end: the owner part, or a hold without a guard behind it.
fn end_owned(hold: &Hold, facts: Facts<'_>) -> Decision {
    let process_lives = facts.lives(PartKind::Process);
    if facts.lives(PartKind::Owner) && process_lives {
        let mut next = hold.clone();
        let process = carried(hold, PartKind::Process, facts, hold);
        settle(&mut next, process, None, facts.now);
        return commit(Some(next), Cause::Release(PartKind::Owner));
    }
    // A guard is recognized by its pulse. A bound process has none: its owner may end the hold. So
    // may the owner of another program's record, unless its process is seen to run: that is a
    // guard.
    let is_guard = hold.pulse.is_some() || (hold.has_foreign_process() && facts.is_seen_to_run());
    if process_lives && is_guard {
        return Decision::Deny(Denial::Guarded(Box::new(facts.holder(hold))));
    }
    // The part that ends is the live one; if the hold has ended, it is the part that unlock is for.
    let part = if process_lives || !hold.has(PartKind::Owner) { PartKind::Process } else { PartKind::Owner };
    commit(None, Cause::Release(part))
}

/// Removes an expired hold, unless its process still runs: it may be about to renew, and nobody
/// asked for its name.
pub(super) fn prune(facts: Facts<'_>) -> Decision {
    let hold = match facts.slot {
        Slot::Free => return Decision::Deny(Denial::Missing),
        Slot::Held(hold) => hold,
        _ => return Decision::Deny(Denial::Kept),
    };
    // The pid beside an owner part was that of a `lock` command; another process may have it now.
    let runs = hold.has(PartKind::Process) && facts.is_seen_to_run();
    if facts.holder(hold).staleness() == Some(Staleness::Expired) && !runs {
        commit(None, Cause::Prune)
    } else {
        Decision::Deny(Denial::Kept)
    }
}

/// Returns a denial if the stored hold isn't the one that the condition names.
fn misses(condition: &Condition, facts: &Facts<'_>) -> Option<Denial> {
    if condition.lock_id.is_none() && condition.token.is_none() {
        return None;
    }
    let hold = match facts.slot {
        Slot::Held(hold) => hold,
        // A record that can't be read as a hold can't be the one that was meant.
        Slot::Free => return Some(Denial::Missing),
        Slot::Corrupt(why) => return Some(Denial::Corrupt { why: why.to_string() }),
        Slot::BeingWritten => return Some(Denial::BeingWritten),
        Slot::Newer(version) => return Some(Denial::Newer { version }),
    };
    if condition.lock_id.as_ref().is_some_and(|lock_id| *lock_id != hold.lock_id) {
        return Some(Denial::OtherHold(Box::new(facts.holder(hold))));
    }
    let named = condition.token.filter(|named| hold.token.map(Fence::get) != Some(*named))?;
    Some(Denial::StaleToken { named, current: hold.token })
}
