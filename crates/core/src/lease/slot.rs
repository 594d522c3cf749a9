//! A link of the chain. Each link carries the whole state after it, so reading the last one is
//! reading the chain.
//!
//! As JSON: the members of the record (if the lease is held), then `chain`. A program that reads
//! only the seed's members sees a lease.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Map, Value, json};

use super::audit::{Anchor, Event};
use super::json::{Ordered, count, is_hex, link_number, object, text};
use super::record::Record;
use super::state::{Published, State};
use crate::hold::Fence;

/// Version of the format of links, renewals and chain births.
const VERSION: u64 = 1;
/// Number of digits of a chain's id.
const CHAIN_DIGITS: usize = 32;

/// The operation of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The lease was granted; the link's number is its token.
    Grant,
    /// The lease ended.
    Release,
    /// The lease was renewed.
    Renew,
    /// Something is published: a file under the lease, or a snapshot.
    Publish,
    /// A snapshot is to replace the worktree's tree.
    Restore,
    /// The numbers continue in another block.
    Rebase,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Id of the chain: a chain that is born again has another id.
    pub chain: String,
    /// Its number.
    pub number: u64,
    /// Its operation.
    pub kind: Kind,
    /// The lease after it.
    pub record: Option<Box<Record>>,
    /// Number of grants so far.
    pub acquire_seq: u64,
    /// The number of the next link.
    pub next: u64,
    /// Last number of the block that the chain may use. Only a rebase may have that number.
    pub ceiling: u64,
    /// State of snapshots after it.
    pub state: State,
    /// The snapshot that it published.
    pub snapshot: Option<Published>,
    /// State of the audit log before it.
    pub anchor: Anchor,
    /// Its event for the audit log.
    pub event: Event,
}

/// The birth of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Its id: 32 hex digits.
    pub chain: String,
    /// The number of its first link.
    pub first: u64,
    /// The ceiling that was raised for this chain, and for no other.
    pub block: u64,
    /// Number of grants that the count continues from.
    pub acquire_seq: u64,
}

/// A mark that says that a file belongs to a chain of ours, and how new it is: a greater number is
/// newer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// The chain.
    pub chain: String,
    /// The link.
    pub number: u64,
}

impl Kind {
    /// Returns its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Grant => "grant",
            Self::Release => "release",
            Self::Renew => "renew",
            Self::Publish => "publish",
            Self::Restore => "restore",
            Self::Rebase => "rebase",
        }
    }
}

impl Kind {
    fn parse(text: &str) -> Option<Self> {
        [Self::Grant, Self::Release, Self::Renew, Self::Publish, Self::Restore, Self::Rebase]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

impl Slot {
    /// Returns its bytes, with a newline at the end.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut entries = self.record.as_ref().map(|record| record.entries()).unwrap_or_default();
        let mut chain = json!({
            "version": VERSION,
            "id": self.chain,
            "number": self.number,
            "kind": self.kind.as_str(),
            "acquire_seq": self.acquire_seq,
            "next": self.next,
            "ceiling": self.ceiling,
            "anchor": self.anchor.to_value(),
            "event": self.event.to_value(),
        });
        if let Some(members) = chain.as_object_mut() {
            self.state.write(members);
            members.extend(self.snapshot.as_ref().map(|snapshot| (String::from("snapshot"), snapshot.to_value())));
        }
        entries.push(("chain", chain));
        Ordered(entries).to_bytes()
    }

    /// Parses a link; the error says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let members = object(bytes)?;
        let chain = members.get("chain").and_then(Value::as_object).ok_or("it has no chain")?;
        check_version(chain)?;
        let slot = Self {
            chain: chain_id(chain, "id")?,
            number: link_number(chain.get("number")).ok_or("its number can't be one")?,
            kind: text(chain, "kind").and_then(|kind| Kind::parse(&kind)).ok_or("its kind is unknown")?,
            record: if members.contains_key("lock_id") {
                Some(Box::new(Record::from_members(&members)?))
            } else {
                None
            },
            acquire_seq: count(chain.get("acquire_seq")).ok_or("its acquire_seq can't be one")?,
            next: link_number(chain.get("next")).ok_or("its next number can't be one")?,
            ceiling: link_number(chain.get("ceiling")).ok_or("its ceiling can't be one")?,
            state: State::read(chain)?,
            snapshot: match chain.get("snapshot") {
                None | Some(Value::Null) => None,
                Some(value) => Some(Published::from_value(value).ok_or("its snapshot can't be read")?),
            },
            anchor: chain.get("anchor").and_then(Anchor::from_value).ok_or("its anchor can't be read")?,
            event: chain.get("event").and_then(Event::from_value).ok_or("its event can't be read")?,
        };
        slot.checked()
    }

    /// Returns the link, if it doesn't contradict itself.
    fn checked(self) -> Result<Self, String> {
        let token = self.record.as_ref().map(|record| record.token.map(Fence::get));
        let is_sound = match (self.kind, token) {
            (Kind::Grant, token) => token == Some(Some(self.number)),
            (Kind::Release, token) => token.is_none(),
            (Kind::Renew | Kind::Publish | Kind::Restore | Kind::Rebase, Some(token)) => {
                token.is_some_and(|token| token < self.number)
            }
            (Kind::Renew, None) => false,
            // A shared worktree has no holder; only snapshots are published there.
            (Kind::Publish, None) => self.snapshot.is_some(),
            (Kind::Restore | Kind::Rebase, None) => true,
        };
        if !is_sound {
            return Err(format!("its lease isn't one after a {}", self.kind.as_str()));
        }
        // A snapshot that isn't pending would have no receipt once its link is pruned.
        let is_linked = |snapshot: &Published| {
            self.kind == Kind::Publish
                && self.state.head.id() == Some(&snapshot.id)
                && self.state.pending.contains(&snapshot.id)
        };
        if !self.snapshot.as_ref().is_none_or(is_linked) {
            return Err("its snapshot isn't what it published".into());
        }
        if self.kind == Kind::Restore && self.state.restore.is_none() {
            return Err("its restore is of nothing".into());
        }
        // Only a rebase skips numbers.
        if self.next <= self.number || (self.kind != Kind::Rebase && self.next != self.number + 1) {
            return Err("its next number doesn't follow".into());
        }
        // The last number of a block is reserved for the rebase that leads out of it.
        if self.next > self.ceiling {
            return Err("its next number is above its ceiling".into());
        }
        Ok(self)
    }
}

impl Base {
    /// Returns its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let members = [
            ("version", VERSION.into()),
            ("chain", self.chain.as_str().into()),
            ("first", self.first.into()),
            ("block", self.block.into()),
            ("acquire_seq", self.acquire_seq.into()),
        ];
        Ordered(members.into()).to_bytes()
    }

    /// Parses the bytes; the error says what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let members = object(bytes)?;
        check_version(&members)?;
        let base = Self {
            chain: chain_id(&members, "chain")?,
            first: link_number(members.get("first")).ok_or("its first number can't be one")?,
            block: link_number(members.get("block")).ok_or("its ceiling can't be one")?,
            acquire_seq: count(members.get("acquire_seq")).ok_or("its acquire_seq can't be one")?,
        };
        if base.block < base.first { Err("its first number is above its ceiling".into()) } else { Ok(base) }
    }
}

/// Returns the tag of a view or link; `None` if it has none, and so is another tool's.
pub fn tag(bytes: &[u8]) -> Option<Tag> {
    let members = object(bytes).ok()?;
    let chain = members.get("chain")?.as_object()?;
    Some(Tag { chain: chain_id(chain, "id").ok()?, number: link_number(chain.get("number"))? })
}

fn check_version(members: &Map<String, Value>) -> Result<(), String> {
    match members.get("version").and_then(Value::as_u64) {
        Some(VERSION) => Ok(()),
        Some(version) => Err(format!("its version is {version}, which this program doesn't know")),
        None => Err("it has no version".into()),
    }
}

fn chain_id(members: &Map<String, Value>, name: &str) -> Result<String, String> {
    text(members, name).filter(|id| is_hex(id, CHAIN_DIGITS)).ok_or_else(|| "its chain's id can't be one".into())
}
