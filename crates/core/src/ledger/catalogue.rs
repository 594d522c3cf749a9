//! What the native program knows: its types, and its members, which it reads in any case.

use alloc::string::String;

use super::seq::Style;

/// Every type that a native ledger may hold at its top. One of any other type, and the native program refuses all of it.
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

/// The claims of documented ledgers. In a native one nothing could be worse than one of them.
pub const DOCUMENTED_CLAIMS: [&str; 3] = ["lock_acquired", "lock_released", "lock_reaped"];

/// Members of the types above.
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
    /// May an event of this type be at the top of a ledger of this style?
    pub fn knows(self, kind: &str) -> bool {
        self == Self::Documented || NATIVE_KINDS.contains(&kind)
    }
}

/// The member that Go takes a name for, if that is one it knows by another spelling. It compares without regard to case, and to Unicode
/// the long s and the Kelvin sign are nothing but an s and a k.
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
