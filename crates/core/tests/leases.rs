//! Worktree leases: as bytes, in time, and in every question that is asked of them.

/// The figures of docs/guarantees.md. The testkit depends on this crate, so its file is included.
#[path = "../../testkit/src/tally.rs"]
#[expect(dead_code, unreachable_pub, reason = "it has more than properties need, and others use it, too")]
mod tally;
mod leases {
    pub(crate) mod any;
    mod asks;
    mod log;
    pub(crate) mod one;
    mod records;
    mod slots;
    mod time;
}
