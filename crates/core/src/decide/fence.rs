//! Is a token still the one to act under?

use alloc::boxed::Box;

use super::{Decision, Facts, Presented, Slot};
use crate::denial::Denial;
use crate::hold::{Fence, Hold};

/// Yes, while the hold that it names lives. A hold that is over can be anybody's next, so its token is no good either, although nobody
/// may have taken it yet.
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

/// A lock id that is empty identifies nothing, whatever the record has.
fn is_issued_for(presented: &Presented, hold: &Hold) -> bool {
    presented.lock_id.as_ref().is_none_or(|lock_id| !lock_id.is_empty() && *lock_id == hold.lock_id)
}
