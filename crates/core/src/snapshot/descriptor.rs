//! What a snapshot is, in the words of its maker: ours, and those of the two schemas of `jvs`.
//!
//! | member | spec and ours | code of `jvs` |
//! | --- | --- | --- |
//! | whose | `worktree_id` | `worktree_name` |
//! | the one before | `parent_snapshot_id`, null if none | `parent_id`, absent if none |
//! | hashes | `{algo, value}` | the digits of SHA-256 |
//! | sealed by | SHA-256 of the canonical JSON without `descriptor_checksum` and `integrity_state` | the same with both empty |
//!
//! Ours has `lokt` too, with what the others have no member for.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::hash::{Hash, SHA256};
use super::id::SnapshotId;
use super::members::{Members, id, owned, said, time};
use super::risk::{Risk, Skipped, changed_value, skipped_from, skipped_value};
use crate::lease::canonical::canonical;
use crate::lease::config::Isolation;
use crate::lease::json::Ordered;
use crate::ledger::chain::Digest;
use crate::time::show_wall;

/// The version of what `lokt` has in it.
const VERSION: u64 = 1;
/// What isn't sealed: the seal, and what is found out later.
const UNSEALED: [&str; 2] = ["descriptor_checksum", "integrity_state"];
/// What was signed was sealed before; descriptors of some versions of `jvs` have these.
const SIGNED: [&str; 4] = ["signature", "signing_key_id", "signed_at", "tamper_evidence_state"];

/// Who wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// We.
    Lokt,
    /// A program that follows the specification of `jvs`.
    Spec,
    /// `jvs` itself.
    Code,
}

/// What is promised of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// Nothing moved while it was taken.
    Quiesced,
    /// Something may have.
    BestEffort,
}

/// A descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// Which snapshot.
    pub id: SnapshotId,
    /// Of which worktree.
    pub worktree: String,
    /// The one before it there.
    pub parent: Option<SnapshotId>,
    /// When it was taken.
    pub created_at: Timestamp,
    /// What for, in words.
    pub note: Option<String>,
    /// How the tree was copied.
    pub engine: String,
    /// What is promised.
    pub consistency: Consistency,
    /// The lease under which it was published.
    pub token: Option<u64>,
    /// The hash over the tree.
    pub root_hash: Hash,
    /// The seal, as it was read; a new one is made whenever it is written.
    pub checksum: Hash,
    /// Was it the right one?
    pub checksum_valid: bool,
    /// What somebody once found out, which isn't sealed.
    pub integrity_state: String,
    /// What moved, if that was allowed.
    pub risk: Option<Risk>,
    /// So many files; other programs don't say.
    pub files: Option<u64>,
    /// Their bytes.
    pub bytes: Option<u64>,
    /// What isn't in it, the first of them.
    pub skipped: Vec<Skipped>,
    /// So many of those there are.
    pub skipped_count: u64,
    /// Who could write while it was taken; other programs know no other than one alone.
    pub isolation: Isolation,
    /// Who wrote it.
    pub schema: Schema,
}

impl Consistency {
    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quiesced => "quiesced",
            Self::BestEffort => "best_effort",
        }
    }

    /// Back.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Quiesced, Self::BestEffort].into_iter().find(|level| level.as_str() == text)
    }
}

impl Descriptor {
    /// The same with its seal.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        let members = self.entries().into_iter().map(|(name, value)| (String::from(name), value)).collect();
        self.checksum = Hash { algo: SHA256.into(), value: seal(members, self.schema, &[]) };
        self.checksum_valid = true;
        self
    }

    /// As bytes, indented by two, with its seal.
    pub fn to_bytes(&self) -> Vec<u8> {
        let sealed = self.clone().sealed();
        let mut bytes = serde_json::to_vec_pretty(&Ordered(sealed.entries())).expect("JSON values are JSON");
        bytes.push(b'\n');
        bytes
    }

    /// Back, from any schema; the text says what is wrong. A seal that isn't the right one is told by [`Self::checksum_valid`].
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let members = Members::parse(bytes)?;
        let schema = match (members.0.get("lokt"), members.0.get("payload_root_hash")) {
            (Some(_), _) => Schema::Lokt,
            (None, Some(Value::String(_))) => Schema::Code,
            (None, _) => Schema::Spec,
        };
        let names = schema.names();
        let hash =
            |value: &Value| if schema == Schema::Code { Hash::from_digits(value) } else { Hash::from_value(value) };
        let own = match schema {
            Schema::Lokt => members.must("lokt", Members::of)?,
            Schema::Spec | Schema::Code => Members(Map::new()),
        };
        if schema == Schema::Lokt {
            own.must("version", Value::as_u64)?;
            own.check_version(VERSION)?;
        }
        let checksum = members.must("descriptor_checksum", hash)?;
        let (skipped, skipped_count) = skipped_from(&own)?;
        Ok(Self {
            id: members.must("snapshot_id", id)?,
            worktree: members.must(names.worktree, said)?,
            // Without one it is absent, null or, in Go, nothing.
            parent: members
                .may(names.parent, |value| if value == "" { Some(None) } else { id(value).map(Some) })?
                .flatten(),
            created_at: members.must("created_at", time)?,
            note: members.may("note", owned)?.filter(|note| !note.is_empty()),
            engine: members.must("engine", said)?,
            consistency: members.must("consistency_level", |value| Consistency::parse(value.as_str()?))?,
            // No lease has the number 0: it is how the code of `jvs` says that there was none.
            token: members.may("fencing_token", Value::as_u64)?.filter(|token| *token > 0),
            root_hash: members.must("payload_root_hash", hash)?,
            integrity_state: members.may("integrity_state", owned)?.unwrap_or_default(),
            risk: own.may("risk", Risk::from_value)?,
            files: own.may("files", Value::as_u64)?,
            bytes: own.may("bytes", Value::as_u64)?,
            skipped,
            skipped_count,
            isolation: own.may("isolation", isolation)?.unwrap_or_default(),
            schema,
            checksum_valid: is_seal(&checksum, &members.0, schema),
            checksum,
        })
    }

    /// For answers: the names of the specification, and ours beside them.
    pub fn members(&self) -> Map<String, Value> {
        let known = Self { schema: Schema::Spec, ..self.clone() };
        let mut members: Map<String, Value> =
            known.entries().into_iter().map(|(name, value)| (String::from(name), value)).collect();
        members.insert("note".into(), self.note.as_deref().into());
        members.extend(self.own().into_iter().map(|(name, value)| (String::from(name), value)));
        // Whoever wrote it: what may have moved is told.
        if self.consistency == Consistency::BestEffort {
            members.insert("risk".into(), changed_value(self.risk.as_ref()));
        }
        members
    }

    /// The members in their order.
    fn entries(&self) -> Vec<(&'static str, Value)> {
        let names = self.schema.names();
        let is_code = self.schema == Schema::Code;
        let hash = |hash: &Hash| if is_code { hash.value.as_str().into() } else { hash.to_value() };
        let parent = self.parent.as_ref().map(SnapshotId::as_str);
        let mut entries = vec![("snapshot_id", Value::from(self.id.as_str()))];
        if parent.is_some() || !is_code {
            entries.push((names.parent, parent.into()));
        }
        entries.push((names.worktree, self.worktree.as_str().into()));
        entries.push(("created_at", show_wall(self.created_at).into()));
        entries.extend(self.note.as_deref().map(|note| ("note", note.into())));
        entries.extend([
            ("engine", self.engine.as_str().into()),
            ("consistency_level", self.consistency.as_str().into()),
            ("fencing_token", if is_code { self.token.unwrap_or(0).into() } else { self.token.into() }),
            ("payload_root_hash", hash(&self.root_hash)),
            (UNSEALED[0], hash(&self.checksum)),
            (UNSEALED[1], self.integrity_state.as_str().into()),
        ]);
        if self.schema == Schema::Lokt {
            let own = self.own().into_iter().map(|(name, value)| (String::from(name), value));
            let version = [(String::from("version"), VERSION.into())];
            entries.push(("lokt", version.into_iter().chain(own).collect::<Map<_, _>>().into()));
        }
        entries
    }

    /// What only ours has.
    fn own(&self) -> [(&'static str, Value); 6] {
        [
            ("isolation", self.isolation.as_str().into()),
            ("files", self.files.into()),
            ("bytes", self.bytes.into()),
            ("risk", self.risk.as_ref().map(|risk| changed_value(Some(risk))).into()),
            ("skipped", skipped_value(&self.skipped)),
            ("skipped_count", self.skipped_count.into()),
        ]
    }
}

/// What members are called in a schema.
struct Names {
    worktree: &'static str,
    parent: &'static str,
}

impl Schema {
    fn names(self) -> Names {
        match self {
            Self::Lokt | Self::Spec => Names { worktree: "worktree_id", parent: "parent_snapshot_id" },
            Self::Code => Names { worktree: "worktree_name", parent: "parent_id" },
        }
    }
}

/// Is this what the members are sealed with?
fn is_seal(checksum: &Hash, members: &Map<String, Value>, schema: Schema) -> bool {
    let is_right = |without: &[&str]| checksum.value == seal(members.clone(), schema, without);
    let is_signed = schema == Schema::Spec && SIGNED.iter().any(|member| members.contains_key(*member));
    checksum.algo == SHA256 && (is_right(&[]) || (is_signed && is_right(&SIGNED)))
}

/// The digits of the seal.
fn seal(mut members: Map<String, Value>, schema: Schema, without: &[&str]) -> String {
    members.retain(|member, _| !without.contains(&member.as_str()));
    for member in UNSEALED {
        match schema {
            Schema::Lokt | Schema::Spec => _ = members.remove(member),
            Schema::Code => _ = members.insert(member.into(), "".into()),
        }
    }
    format!("{}", Digest::of(canonical(&members.into()).as_bytes()))
}

fn isolation(value: &Value) -> Option<Isolation> {
    [Isolation::Exclusive, Isolation::Shared].into_iter().find(|isolation| value == &json!(isolation.as_str()))
}
