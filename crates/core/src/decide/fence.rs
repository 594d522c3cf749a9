//! Is a token still the one to act under?

use alloc::boxed::Box;

use super::{Decision, Facts, Slot};
use crate::denial::Denial;
use crate::hold::Fence;

/// Yes, while the hold that it names lives. A hold that is over can be anybody's next, so its token is no good either, although nobody
/// may have taken it yet.
pub(super) fn check(named: u64, facts: Facts<'_>) -> Decision {
    let current = match facts.slot {
        Slot::Held(hold) if hold.token.map(Fence::get) == Some(named) => {
            let holder = facts.holder(hold);
            return if holder.lives() { Decision::Inside } else { Decision::Deny(Denial::Over(Box::new(holder))) };
        }
        Slot::Held(hold) => hold.token,
        Slot::Newer(version) => return Decision::Deny(Denial::Newer { version }),
        Slot::Free | Slot::Corrupt(_) | Slot::BeingWritten => None,
    };
    Decision::Deny(Denial::StaleToken { named, current })
}
