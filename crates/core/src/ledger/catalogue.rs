//! The af program's event types, and its member names, which it reads without regard to case.

use alloc::string::String;

use super::seq::Style;

/// All types that a top-level event of an af ledger may have. If an event has any other type, the
/// af program refuses the whole ledger.
pub const NATIVE_KINDS: [&str; 20] = [
    "nodes_released",
    "nodes_claimed",
    "claim_refreshed",
    "proof_initialized",
    "node_created",
    "challenge_raised",
    "challenge_resolved",
    "challenge_withdrawn",
    "challenge_superseded",
    "node_validated",
    "node_admitted",
    "node_refuted",
    "node_archived",
    "node_amended",
    "taint_recomputed",
    "def_added",
    "lemma_extracted",
    "scope_opened",
    "scope_closed",
    "refinement_requested",
];

/// Claim types of the documented ledger format. In an af ledger nothing does more harm than one of
/// them.
pub const DOCUMENTED_CLAIMS: [&str; 3] = ["lock_acquired", "lock_released", "lock_reaped"];

/// Members of these types.
const MEMBERS: [&str; 25] = [
    "type",
    "timestamp",
    "node_ids",
    "node_id",
    "owner",
    "timeout",
    "new_timeout",
    "expires_at",
    "conjecture",
    "author",
    "node",
    "challenge_id",
    "target",
    "reason",
    "severity",
    "raised_by",
    "note",
    "previous_statement",
    "new_statement",
    "new_taint",
    "definition",
    "lemma",
    "statement",
    "discharge_node_id",
    "requested_by",
];

impl Style {
    /// Reports whether an event of this type may be at the top level of a ledger of this style.
    pub fn knows(self, kind: &str) -> bool {
        self == Self::Documented || NATIVE_KINDS.contains(&kind)
    }
}

/// Returns the member that Go takes `name` for, if it is a known one in another spelling. Go
/// compares without regard to case; in Unicode that makes the long s an s and the Kelvin sign a k.
pub(super) fn taken_for(name: &str) -> Option<&'static str> {
    if name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return None;
    }
    let folded = name.chars().map(|c| match c {
        'ſ' => 's',
        '\u{212A}' => 'k',
        _ => c.to_ascii_lowercase(),
    });
    let folded: String = folded.collect();
    MEMBERS.into_iter().find(|member| *member == folded)
}
