//! Freezing a name, so that nothing new is granted under it, and unfreezing it. The slot is that of
//! the freeze, which is stored like a hold with an owner part: it outlives its command and a
//! restart of the machine, and ends by its lease or by `unfreeze`.

use alloc::boxed::Box;
use alloc::string::ToString;

use super::take::{frozen, new_part, owner_hold, settle, sign};
use super::{Broken, Cause, Decision, Facts, Freeze, Slot, Terms, Token, commit};
use crate::denial::{Denial, Staleness};
use crate::hold::{Hold, Identity, PartKind};

pub(super) fn freeze(terms: &Terms, facts: Facts<'_>, me: &Identity) -> Decision {
    // A freeze that an old program keeps among the locks.
    if let Some(Freeze::Known(other)) = facts.frozen
        && other.hold.owner != me.owner
    {
        return Decision::Deny(Denial::Frozen(Some(Box::new(other.clone()))));
    }
    let broken = match facts.slot {
        Slot::Free => None,
        Slot::Held(_) if facts.elapsed.is_expired() => Some(Broken::Stale(Staleness::Expired)),
        Slot::Held(hold) if hold.owner == me.owner => return extend(hold, terms, facts, me),
        Slot::Held(hold) => return frozen(Freeze::Known(&facts.holder(hold))),
        Slot::Newer(version) => return Decision::Deny(Denial::Newer { version }),
        // The name was frozen on purpose; for how long is unknown.
        Slot::Corrupt(_) | Slot::BeingWritten => return frozen(Freeze::Unreadable),
    };
    let next = Some(Box::new(owner_hold(terms, &facts, me)));
    Decision::Commit { next, token: Token::Keep, cause: Cause::Freeze, broken }
}

/// Gives the owner's freeze a new end, counted from now.
fn extend(hold: &Hold, terms: &Terms, facts: Facts<'_>, me: &Identity) -> Decision {
    // A record that was put there by hand may be a lock's: the members of a hold aren't carried
    // over.
    let mut next = Hold { token: None, pulse: None, ..hold.clone() };
    sign(&mut next, me);
    if next.lock_id.is_empty() {
        next.lock_id.clone_from(facts.fresh_id);
    }
    next.held_since = hold.began().or(Some(facts.now.wall));
    next.reason = terms.reason.clone().or(next.reason);
    let owner = Some(new_part(PartKind::Owner, terms.ttl_sec, facts.now, me, &next));
    settle(&mut next, None, owner, facts.now);
    commit(Some(next), Cause::Freeze)
}

pub(super) fn unfreeze(force: bool, facts: Facts<'_>, me: &Identity) -> Decision {
    match facts.slot {
        Slot::Free => Decision::Deny(Denial::Missing),
        Slot::Held(hold) if hold.owner == me.owner => commit(None, Cause::Unfreeze),
        _ if force => commit(None, Cause::ForceUnfreeze),
        // An expired freeze of another owner freezes nothing.
        Slot::Held(_) if facts.elapsed.is_expired() => Decision::Deny(Denial::Missing),
        Slot::Held(hold) => Decision::Deny(Denial::NotYours(Box::new(facts.holder(hold)))),
        Slot::Corrupt(why) => Decision::Deny(Denial::Corrupt { why: why.to_string() }),
        Slot::BeingWritten => Decision::Deny(Denial::BeingWritten),
        Slot::Newer(version) => Decision::Deny(Denial::Newer { version }),
    }
}
