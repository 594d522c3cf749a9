//! What a store promises.

use lokt_core::decide::Policy;

/// What a store promises. Callers consult it where stores differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contract {
    /// The rules of its protocol.
    pub policy: Policy,
    /// By what a lease ends.
    pub expiry: Expiry,
    /// Processes on several hosts may use it.
    pub spans_hosts: bool,
    /// What becomes of a guarded command whose guard is gone.
    pub child: Child,
    /// How several names are waited for.
    pub several: Several,
    /// How a file is published under a token.
    pub publish: Publish,
    /// Interval between a guard's looks at its holds, in milliseconds. `None`: the store reports a loss.
    pub look_ms: Option<u64>,
}

/// By what a lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// By the clocks of one host. A renewal rewrites the record ([`super::Store::transact`]).
    Clock,
    /// By the store itself. A renewal keeps the presence alive ([`super::Presence::keep`]).
    Server,
}

/// What becomes of a guarded command whose guard is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// It keeps the hold alive.
    Counts,
    /// It is killed before the lease ends.
    Dies,
}

/// How several names are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Several {
    /// One after the other, in the order of their names, holding those before.
    OneByOne,
    /// All in one request: queued in all, granted together.
    Together,
}

/// How a file is published under a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    /// In one step with the check of the token.
    Atomic,
    /// Between two checks of the token.
    Checked,
}
