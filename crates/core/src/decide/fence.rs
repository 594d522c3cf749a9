//! The check whether a token is still valid.

use alloc::boxed::Box;

use super::{Decision, Facts, Presented, Slot};
use crate::denial::Denial;
use crate::hold::{Fence, Hold};

/// Allows the token while the hold that it names lives. If the hold has ended, any caller can
/// acquire the name next, so the token is invalid even if nobody has done so yet.
pub(super) fn check(presented: &Presented, facts: Facts<'_>) -> Decision {
    let named = presented.token;
    let current = match facts.slot {
        Slot::Held(hold) if hold.token.map(Fence::get) == Some(named) => {
            let holder = facts.holder(hold);
            return if !is_issued_for(presented, hold) {
                Decision::Deny(Denial::OtherIssuer { named, holder: Box::new(holder) })
            } else if holder.lives() {
                Decision::Inside
            } else {
                Decision::Deny(Denial::Over(Box::new(holder)))
            };
        }
        Slot::Held(hold) => hold.token,
        Slot::Newer(version) => return Decision::Deny(Denial::Newer { version }),
        Slot::Free | Slot::Corrupt(_) | Slot::BeingWritten => None,
    };
    Decision::Deny(Denial::StaleToken { named, current })
}

/// Reports whether the token was issued for `hold`. An empty lock id identifies nothing, whatever
/// the record has.
fn is_issued_for(presented: &Presented, hold: &Hold) -> bool {
    presented.lock_id.as_ref().is_none_or(|lock_id| !lock_id.is_empty() && *lock_id == hold.lock_id)
}
