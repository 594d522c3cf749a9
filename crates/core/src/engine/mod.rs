//! The vocabulary of a remote key-value engine: keys with revisions and sessions, without I/O.
//!
//! An engine knows nothing of locks. It reads keys at one revision, and writes keys if the writer's
//! pins still hold. [`crate::swap`] builds locks from that; [`Keyspace`] is an engine in memory,
//! for the model and for tests.

mod keyspace;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use keyspace::{Keyspace, NoSession};

/// A moment in the engine's own order. It increases with every change, over all keys. 0: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rev(pub u64);

impl Rev {
    /// The revision of a key that is absent.
    pub const NEVER: Self = Self(0);
}

/// A key. Keys are ordered by their bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub String);

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A session: the keys put under it disappear with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// The leadership term of a server (etcd: the raft term). If two answers have the same term, the
/// server that gave the first one was still the leader at the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Term(pub u64);

/// A set of keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Span {
    /// One key.
    One(Key),
    /// All keys under `key/`, not the key itself.
    Below(Key),
    /// From the first key, up to but not including the second.
    Between(Key, Key),
    /// The greatest key of such a range.
    Last(Key, Key),
}

impl Span {
    /// Reports whether `key` is in the span. `Last` contains all keys of its range.
    pub fn contains(&self, key: &Key) -> bool {
        match self {
            Self::One(one) => one == key,
            Self::Below(above) => is_below(key, above),
            Self::Between(from, to) | Self::Last(from, to) => from <= key && key < to,
        }
    }
}

/// Reports whether `key` is under `above/`.
pub(crate) fn is_below(key: &Key, above: &Key) -> bool {
    key.0.strip_prefix(above.0.as_str()).is_some_and(|rest| rest.starts_with('/'))
}

/// A key as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Item {
    /// The key.
    pub key: Key,
    /// Its value.
    pub value: Vec<u8>,
    /// The revision that created it (etcd: `create_revision`).
    pub born: Rev,
    /// The revision that wrote it last (etcd: `mod_revision`).
    pub since: Rev,
    /// The session that it disappears with.
    pub session: Option<SessionId>,
}

/// The items in each span, all at one revision.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sight {
    /// The revision of the engine.
    pub at: Rev,
    /// The term in which it was read.
    pub term: Term,
    /// The items of each span, in the order of the spans; within one, in the order of the keys.
    pub spans: Vec<Vec<Item>>,
}

impl Sight {
    /// Returns the item of `key`, in any span.
    pub fn item(&self, key: &Key) -> Option<&Item> {
        self.spans.iter().flatten().find(|item| item.key == *key)
    }
}

/// A condition of a change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pin {
    /// The key was last written at this revision. [`Rev::NEVER`]: it is absent.
    Since(Key, Rev),
    /// The key was created at this revision.
    Born(Key, Rev),
    /// No key is in the span.
    Empty(Span),
}

/// One effect of a change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Write {
    /// Writes a key; with a session, under it.
    Put(Key, Vec<u8>, Option<SessionId>),
    /// Deletes a key, if it exists.
    Drop(Key),
    /// Deletes all keys under `key/`.
    DropBelow(Key),
}

/// One atomic step. If all pins hold, the writes are made; otherwise `look` is read, and nothing
/// else happens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Change {
    /// The conditions.
    pub pins: Vec<Pin>,
    /// The effects. No two writes concern one key: etcd refuses that.
    pub writes: Vec<Write>,
    /// The spans that the answer shows if a pin doesn't hold.
    pub look: Vec<Span>,
}

/// The answer to a change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Made {
    /// All pins held, and everything was written.
    Done {
        /// The revision of this change.
        at: Rev,
        /// The term in which it was made.
        term: Term,
    },
    /// A pin didn't hold; this shows the spans that the change asked for.
    Else(Sight),
}

/// The answer to the opening or the renewal of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lasts {
    /// `CLOCK_BOOTTIME` before the first byte of the request was sent.
    pub sent_ms: u64,
    /// Minimum time that the session lasts, counted by the server. 0: there is no such session.
    pub ttl_ms: u64,
    /// The term of the server that answered.
    pub term: Term,
}
