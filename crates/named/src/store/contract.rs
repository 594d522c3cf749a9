//! Guarantees of a store.

use lokt_core::decide::Policy;

/// Guarantees of a store. Callers consult them where stores differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contract {
    /// The rules of its protocol.
    pub policy: Policy,
    /// The mechanism that ends a lease.
    pub expiry: Expiry,
    /// True if processes on several hosts may use it.
    pub spans_hosts: bool,
    /// The fate of a guarded command whose guard is gone.
    pub child: Child,
    /// The way in which several names are waited for.
    pub several: Several,
    /// The way in which a file is published under a token.
    pub publish: Publish,
    /// Interval between a guard's checks of its holds, in milliseconds. `None`: the store reports a
    /// loss.
    pub look_ms: Option<u64>,
}

/// The mechanism that ends a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// The clocks of one host. A renewal rewrites the record ([`super::Store::transact`]).
    Clock,
    /// The store itself. A renewal keeps the presence alive ([`super::Presence::keep`]).
    Server,
}

/// The fate of a guarded command whose guard is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// It keeps the hold alive.
    Counts,
    /// It is killed before the lease ends.
    Dies,
}

/// The way in which several names are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Several {
    /// One after the other, in the order of their names, holding those before.
    OneByOne,
    /// All in one request: queued in all, granted together.
    Together,
}

/// The way in which a file is published under a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    /// In one step with the check of the token.
    Atomic,
    /// Between two checks of the token.
    Checked,
}
