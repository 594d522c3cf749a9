//! The fold of all events up to a number, and its cache.
//!
//! A command that asks for the holder of a node doesn't read fifty thousand events: it takes the
//! cache of an earlier command and reads on from there. The cache is void if its last event has
//! changed, or one of the slots whose content may still change: a filler's, into which a writer
//! whose lock was taken over may put its event late, a gap's, a damaged event's.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::chain::{Chain, Digest, Leaf};
use super::claims::{Row, Table};
use super::proof::Proof;
use super::seq::{Seq, Style};
use super::stored::Stored;
use crate::fnv::fnv1a_64;

/// Version of the cache format. A cache of another version is void.
const VERSION: u32 = 2;
/// Beginning of a cache; its checksum follows.
const HEAD: &str = "lokt-fold ";
/// Maximum number of slots that are watched: a ledger with more has no cache.
const WATCHED_MAX: usize = 1024;
/// Maximum number of remembered events that the af program would refuse.
const REFUSALS_MAX: usize = 16;

/// Identity of the file in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Inode.
    pub ino: u64,
    /// Time of the last change of its content, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Length.
    pub size: u64,
}

/// The fold of all events that were read so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    /// The number of the last event that was read; 0 at the beginning.
    pub through: u64,
    /// All claims.
    pub table: Table,
    /// State of the proof, in an af ledger.
    pub proof: Option<Proof>,
    /// The digest of all events.
    pub chain: Chain,
    /// Gaps and damaged events: the first number, and a description.
    pub trouble: Vec<(u64, String)>,
    /// The first few events of an af ledger that the af program would refuse.
    pub refusals: Vec<(u64, String)>,
    /// Keys of events that were read since the cache was stored, with the numbers of their events.
    pub fresh_ids: Vec<(Seq, Digest)>,
    /// Number of bytes that count in the file of older keys.
    pub ids_bytes: u64,
    /// Number of the last event in the cache; 0 if there is no cache.
    pub kept: u64,
    /// Slots whose content may still change, with the files that were in them.
    watched: Vec<(u64, Option<Mark>)>,
    /// True if there are too many slots to watch.
    unwatched: bool,
    /// The file in the last slot.
    last: Option<Mark>,
    /// Digest of the last event's bytes; `None` if the last slot had no event.
    identity: Option<Digest>,
    style: Style,
}

/// The cache as JSON.
#[derive(Serialize, Deserialize)]
struct Cache {
    version: u32,
    style: String,
    through: u64,
    event: String,
    last: Mark,
    chain: (String, String),
    ids_bytes: u64,
    watched: Vec<(u64, Option<Mark>)>,
    trouble: Vec<(u64, String)>,
    refusals: Vec<(u64, String)>,
    table: Vec<Row>,
    proof: Option<Proof>,
}

impl Folded {
    /// Creates an empty fold.
    pub fn new(style: Style) -> Self {
        Self {
            through: 0,
            table: Table::new(style),
            proof: (style == Style::Native).then(Proof::new),
            chain: Chain::new(),
            trouble: Vec::new(),
            refusals: Vec::new(),
            fresh_ids: Vec::new(),
            ids_bytes: 0,
            kept: 0,
            watched: Vec::new(),
            unwatched: false,
            last: None,
            identity: None,
            style,
        }
    }

    /// Folds the next event. `leaf` is its contribution to the chain.
    pub fn event(&mut self, seq: Seq, event: &Stored, leaf: Leaf, mark: Mark) {
        self.watch_named(leaf);
        self.go_to(seq, leaf, Some(mark));
        if event.is_filler() {
            self.watch(seq.get(), Some(mark));
        }
        if let Some(key) = event.id() {
            self.fresh_ids.push((seq, Digest::of(key.as_bytes())));
        }
        for remark in self.table.apply(seq, event) {
            if remark.is_damage() {
                self.trouble.push((seq.get(), format!("event {seq} can't be understood: {remark}")));
                self.watch(seq.get(), Some(mark));
            }
        }
        if let Some(Err(refusal)) = self.proof.as_mut().map(|proof| proof.apply(seq, event)) {
            self.watch(seq.get(), Some(mark));
            if self.refusals.len() < REFUSALS_MAX {
                self.refusals.push((seq.get(), refusal.to_string()));
            }
        }
    }

    /// Reports whether an event only adds to the chain. In an af ledger, every event is about the
    /// proof.
    pub fn is_plain(style: Style, event: &Stored) -> bool {
        let says = Table::concerns(style, &event.kind) || event.is_filler() || event.id().is_some();
        style == Style::Documented && !says
    }

    /// Folds the next event, for which [`Self::is_plain`] is true.
    pub fn plain(&mut self, seq: Seq, leaf: Leaf, mark: Mark) {
        self.watch_named(leaf);
        self.go_to(seq, leaf, Some(mark));
    }

    /// Folds the next slot, which has something that is not a valid event.
    pub fn damaged(&mut self, seq: Seq, why: &str, leaf: Leaf, mark: Option<Mark>) {
        self.go_to(seq, leaf, mark);
        self.watch(seq.get(), mark);
        self.trouble.push((seq.get(), format!("event {seq} is damaged: {why}")));
    }

    /// Folds the next slots up to `last`, which are empty although there are events after them.
    pub fn missing(&mut self, last: Seq) {
        let first = self.through + 1;
        let count = last.get() - self.through;
        let what = if count == 1 {
            format!("event {first} is missing")
        } else {
            format!("events {first} to {last} are missing")
        };
        self.trouble.push((first, what));
        if count > WATCHED_MAX as u64 {
            // Such a gap is never repaired number by number, so the chain doesn't count it that way
            // either.
            self.unwatched = true;
            self.chain.push_gap(last);
            self.through = last.get();
            (self.last, self.identity) = (None, None);
            return;
        }
        while self.through < last.get() {
            let seq = Seq::new(self.through + 1).expect("it is below one that is a number");
            self.go_to(seq, Leaf::missing(), None);
            self.watch(seq.get(), None);
        }
    }

    /// Records the bytes of the last event, by which the cache recognises it.
    pub fn identify(&mut self, bytes: &[u8]) {
        self.identity = Some(Digest::of(bytes));
    }

    /// Watches the last slot if the event after it names it as a filler: its content may still be
    /// replaced.
    fn watch_named(&mut self, leaf: Leaf) {
        if leaf.filler.is_some_and(|filler| filler.get() == self.through) {
            self.watch(self.through, self.last);
        }
    }

    fn go_to(&mut self, seq: Seq, leaf: Leaf, mark: Option<Mark>) {
        debug_assert_eq!(seq.get(), self.through + 1, "events are folded in their order");
        self.chain.push(leaf);
        self.through = seq.get();
        self.last = mark;
        self.identity = None;
    }

    fn watch(&mut self, seq: u64, mark: Option<Mark>) {
        if self.watched.last().is_some_and(|(last, _)| *last == seq) {
            return;
        }
        if self.watched.len() == WATCHED_MAX {
            self.unwatched = true;
            return;
        }
        self.watched.push((seq, mark));
    }

    /// Returns the slots whose content may still change, with the files that were in them.
    pub fn watched(&self) -> &[(u64, Option<Mark>)] {
        &self.watched
    }

    /// Reports whether the last event has these bytes.
    pub fn ends_with(&self, bytes: &[u8]) -> bool {
        self.identity == Some(Digest::of(bytes))
    }

    /// Returns the bytes of a cache; `None` if this fold can't be cached.
    pub fn encode(&self) -> Option<Vec<u8>> {
        if self.unwatched || !self.fresh_ids.is_empty() {
            return None;
        }
        let (before, last) = self.chain.state()?;
        let cache = Cache {
            version: VERSION,
            style: self.style.as_str().to_owned(),
            through: self.through,
            event: self.identity?.to_string(),
            last: self.last?,
            chain: (before.to_string(), last.to_string()),
            ids_bytes: self.ids_bytes,
            watched: self.watched.clone(),
            trouble: self.trouble.clone(),
            refusals: self.refusals.clone(),
            table: self.table.rows(),
            proof: self.proof.clone(),
        };
        let json = serde_json::to_vec(&cache).ok()?;
        let mut bytes = format!("{HEAD}{:016x}\n", fnv1a_64(&json)).into_bytes();
        bytes.extend(json);
        Some(bytes)
    }

    /// Restores a fold from the bytes of a cache; `None` if it is invalid, or of a ledger of
    /// another style.
    pub fn decode(bytes: &[u8], style: Style) -> Option<Self> {
        let line_end = bytes.iter().position(|byte| *byte == b'\n')?;
        let (head, json) = (&bytes[..line_end], &bytes[line_end + 1..]);
        if head != format!("{HEAD}{:016x}", fnv1a_64(json)).as_bytes() {
            return None;
        }
        let cache: Cache = serde_json::from_slice(json).ok()?;
        if cache.version != VERSION || cache.style != style.as_str() {
            return None;
        }
        let (before, last) = (cache.chain.0.parse().ok()?, cache.chain.1.parse().ok()?);
        Some(Self {
            through: cache.through,
            table: Table::from_rows(style, cache.table)?,
            proof: cache.proof,
            chain: Chain::resume(Seq::new(cache.through)?, before, last),
            trouble: cache.trouble,
            refusals: cache.refusals,
            fresh_ids: Vec::new(),
            ids_bytes: cache.ids_bytes,
            kept: cache.through,
            watched: cache.watched,
            unwatched: false,
            last: Some(cache.last),
            identity: Some(cache.event.parse().ok()?),
            style,
        })
    }
}
