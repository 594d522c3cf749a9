//! Where `decide` as it is breaks a promise: two gaps, found by this model.
//!
//! **Shared token.** A guard with a TTL whose lease ran out while it was stopped is not gone. If an owner part keeps the hold alive,
//! the same owner's next guard joins under the same lock id *and* token, so nothing tells the two apart any more: the first one's
//! renewal is taken for the second's, its release ends the second's part, and both may publish with one token. (A `lock` in between,
//! which drops the first one's part, changes nothing.)
//!
//! **Returned token.** A removal that isn't synced yet can already be acted upon: an owner part is unlocked (or deleted by hand), a
//! guard is granted a greater token and, having no owner part, is answered without a sync. A power cut then brings the owner part
//! back, and refreshing or joining it goes on under the old token, after somebody was told a greater one.
//!
//! A model that stops at known gaps finds no new ones, so the exhaustive runs bar the two steps that lead into them, and only those;
//! tests run with the gaps open too and say what is found there. When `decide` draws a new token in these two cases, those tests
//! fail, and this file can go.

use super::bounds::Bounds;
use super::state::{Client, Plan, State};

/// Far enough for two guards of one owner to be in one hold.
pub const SHARED_TOKEN: Bounds = Bounds { ops: 4, ticks: 1, cuts: 0, deletes: 0 };
/// Far enough for a hold to come back after a greater token was given.
pub const RETURNED_TOKEN: Bounds = Bounds { ops: 4, ticks: 0, cuts: 1, deletes: 0 };

/// Are the known gaps looked into?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gaps {
    /// No: the steps that lead into them are not taken.
    Barred,
    /// Yes.
    Open,
}

/// Does this plan lead into a gap?
pub(super) fn leads_into(state: &State, client: Client, plan: &Plan) -> bool {
    let (Some(old), Some(next)) = (plan.judged.record(), plan.next) else { return false };
    if plan.is_birth() || old.token != next.token {
        return false;
    }
    let shares = |other: Client| state.phase(other).grip().is_some_and(|grip| grip.token == next.token);
    let is_shared = plan.op.is_guard() && Client::ALL.into_iter().any(|other| other != client && shares(other));
    let is_returned = next.token < state.truth.told_token;
    is_shared || is_returned
}
