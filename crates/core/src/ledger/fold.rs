//! Everything that the events up to a number say, and its cache.
//!
//! A command that asks who has a node doesn't read fifty thousand events for it: it takes what an earlier one kept and reads on from
//! there. What was kept is void when the event at its end isn't the same any more, or one of the slots whose content may still change:
//! a filler's, into which a writer that was overtaken may put its event late, a gap's, a damaged event's.

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

/// A cache of another version is void.
const VERSION: u32 = 2;
/// What a cache begins with; its checksum follows.
const HEAD: &str = "lokt-fold ";
/// More slots than this aren't watched: such a ledger has no cache.
const WATCHED_MAX: usize = 1024;
/// So many of the events that the native program would refuse are remembered.
const REFUSALS_MAX: usize = 16;

/// How to know the file in a slot again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Inode.
    pub ino: u64,
    /// When its content last changed, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Length.
    pub size: u64,
}

/// All that the events say that were read so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    /// The number of the last event that was read; 0 at the beginning.
    pub through: u64,
    /// Who has what.
    pub table: Table,
    /// The state of the proof, in a native ledger.
    pub proof: Option<Proof>,
    /// The digest of all events.
    pub chain: Chain,
    /// Gaps and damaged events: the first number, and what is wrong there.
    pub trouble: Vec<(u64, String)>,
    /// The first few events that the native program would refuse in a native ledger.
    pub refusals: Vec<(u64, String)>,
    /// Keys of events that were read since the cache was kept, with the numbers of their events.
    pub fresh_ids: Vec<(Seq, Digest)>,
    /// So many bytes of the file of older keys count.
    pub ids_bytes: u64,
    /// The number of the last event that the cache knows of; 0 if there is no cache.
    pub kept: u64,
    /// Slots whose content may still change, with what was in them.
    watched: Vec<(u64, Option<Mark>)>,
    /// There is more to watch than can be.
    unwatched: bool,
    /// What was in the last slot.
    last: Option<Mark>,
    /// The digest of the last event's bytes; `None` if it was none.
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
    /// Nothing has been read.
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

    /// The next event. `leaf` is what it adds to the chain.
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

    /// Is this an event that says nothing but what it adds to the chain? In a native ledger, every event is about the proof.
    pub fn is_plain(style: Style, event: &Stored) -> bool {
        let says = Table::concerns(style, &event.kind) || event.is_filler() || event.id().is_some();
        style == Style::Documented && !says
    }

    /// The next event, of which [`Self::is_plain`] was said.
    pub fn plain(&mut self, seq: Seq, leaf: Leaf, mark: Mark) {
        self.watch_named(leaf);
        self.go_to(seq, leaf, Some(mark));
    }

    /// The next slot has something that is no event.
    pub fn damaged(&mut self, seq: Seq, why: &str, leaf: Leaf, mark: Option<Mark>) {
        self.go_to(seq, leaf, mark);
        self.watch(seq.get(), mark);
        self.trouble.push((seq.get(), format!("event {seq} is damaged: {why}")));
    }

    /// The next slots up to `last` have nothing, although there are events after them.
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
            // Nobody repairs such a gap one by one, so the chain doesn't count it so either.
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

    /// The bytes of the last event, by which the cache knows it again.
    pub fn identify(&mut self, bytes: &[u8]) {
        self.identity = Some(Digest::of(bytes));
    }

    /// The event before it is a filler, an event may say: what stands there now may be another's soon.
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

    /// Slots whose content may still change, and what was in them.
    pub fn watched(&self) -> &[(u64, Option<Mark>)] {
        &self.watched
    }

    /// Does the last event have these bytes?
    pub fn ends_with(&self, bytes: &[u8]) -> bool {
        self.identity == Some(Digest::of(bytes))
    }

    /// As the bytes of a cache. `None`: this can't be kept.
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

    /// From the bytes of a cache. `None`: it isn't one, or not one of such a ledger.
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
