//! What a snapshot is, in the words of its maker: ours, and those of the schemas of `jvs`.
//!
//! | member | spec and ours | code of `jvs` |
//! | --- | --- | --- |
//! | whose | `worktree_id` | `worktree_name` |
//! | the one before | `parent_snapshot_id`, null if none | `parent_id`, absent if none |
//! | hashes | `{algo, value}` | the digits of SHA-256 |
//! | sealed by | SHA-256 of the canonical JSON without `descriptor_checksum` and `integrity_state` | the same with both empty |
//!
//! Ours has `lokt` too, with what the others have no member for. In a repository that `jvs` reads, ours is written with the members of
//! its code, so that `jvs` finds its way from one snapshot to the one before. `jvs` seals the members that it knows and ignores the rest,
//! so `lokt` then has a seal of its own over everything, and the hash of the manifest.

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
/// What `jvs` seals, beside the two that are empty then. The first two only the version with locks knows, the third only later ones.
const CODE_SEALED: [&str; 10] = [
    "consistency_level",
    "fencing_token",
    "tags",
    "snapshot_id",
    "parent_id",
    "worktree_name",
    "created_at",
    "note",
    "engine",
    "payload_root_hash",
];
/// The member of `lokt` that seals a descriptor in the schema of `jvs`.
const OWN_SEAL: &str = "checksum";

/// Who wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// We.
    Lokt,
    /// A program that follows the specification of `jvs`.
    Spec,
    /// `jvs` itself.
    Code(Era),
    /// We, with the members of the code of `jvs`.
    Both(Era),
}

/// The versions of `jvs`, as far as they differ in what they hash and seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// The versions with locks. They hash the times of files.
    Locks,
    /// All tagged versions, v8.0 and later. Descriptors have neither `consistency_level` nor `fencing_token`.
    V8,
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
    /// The same by the recipe of `jvs`, in a snapshot of ours that `jvs` reads.
    pub jvs_root_hash: Option<Hash>,
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
        let value =
            if matches!(self.schema, Schema::Both(_)) { own_seal(members) } else { seal(members, self.schema, &[]) };
        self.checksum = Hash { algo: SHA256.into(), value };
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
        let own = if members.0.contains_key("lokt") { members.must("lokt", Members::of)? } else { Members(Map::new()) };
        let schema = match (members.0.get("lokt"), members.0.get("payload_root_hash")) {
            (Some(_), Some(Value::String(_))) => Schema::Both(own.must("jvs", |value| Era::parse(value.as_str()?))?),
            (Some(_), _) => Schema::Lokt,
            (None, Some(Value::String(_))) if members.0.contains_key("consistency_level") => Schema::Code(Era::Locks),
            (None, Some(Value::String(_))) => Schema::Code(Era::V8),
            (None, _) => Schema::Spec,
        };
        let names = schema.names();
        let is_code = schema.era().is_some();
        let hash = |value: &Value| if is_code { Hash::from_digits(value) } else { Hash::from_value(value) };
        if schema.is_ours() {
            own.must("version", Value::as_u64)?;
            own.check_version(VERSION)?;
        }
        let (mut checksum, mut root_hash) =
            (members.must("descriptor_checksum", hash)?, members.must("payload_root_hash", hash)?);
        let mut checksum_valid = is_seal(&checksum, &members.0, schema);
        let mut jvs_root_hash = None;
        if let Schema::Both(_) = schema {
            checksum = own.must(OWN_SEAL, Hash::from_value)?;
            jvs_root_hash = Some(core::mem::replace(&mut root_hash, own.must("payload_root_hash", Hash::from_value)?));
            checksum_valid &= checksum.algo == SHA256 && checksum.value == own_seal(members.0.clone());
        }
        let consistency = members.may("consistency_level", |value| Consistency::parse(value.as_str()?))?;
        let consistency = match (consistency, schema) {
            (Some(consistency), _) => consistency,
            // It doesn't say: whether something moved nobody looked.
            (None, Schema::Code(Era::V8)) => Consistency::BestEffort,
            (None, _) => return Err("it has no consistency_level".into()),
        };
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
            consistency,
            // No lease has the number 0: it is how the code of `jvs` says that there was none.
            token: members
                .may("fencing_token", Value::as_u64)?
                .filter(|token| *token > 0 && schema != Schema::Code(Era::V8)),
            root_hash,
            jvs_root_hash,
            integrity_state: members.may("integrity_state", owned)?.unwrap_or_default(),
            risk: own.may("risk", Risk::from_value)?,
            files: own.may("files", Value::as_u64)?,
            bytes: own.may("bytes", Value::as_u64)?,
            skipped,
            skipped_count,
            isolation: own.may("isolation", isolation)?.unwrap_or_default(),
            schema,
            checksum_valid,
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
        let is_code = self.schema.era().is_some();
        let hash = |hash: &Hash| if is_code { hash.value.as_str().into() } else { hash.to_value() };
        // What jvs knows of a tree it finds in its own words.
        let root_hash = self.jvs_root_hash.as_ref().filter(|_| is_code).unwrap_or(&self.root_hash);
        let says_how = self.schema != Schema::Code(Era::V8);
        let parent = self.parent.as_ref().map(SnapshotId::as_str);
        let mut entries = vec![("snapshot_id", Value::from(self.id.as_str()))];
        if parent.is_some() || !is_code {
            entries.push((names.parent, parent.into()));
        }
        entries.push((names.worktree, self.worktree.as_str().into()));
        entries.push(("created_at", show_wall(self.created_at).into()));
        entries.extend(self.note.as_deref().map(|note| ("note", note.into())));
        entries.push(("engine", self.engine.as_str().into()));
        if says_how {
            entries.push(("consistency_level", self.consistency.as_str().into()));
            entries.push(("fencing_token", if is_code { self.token.unwrap_or(0).into() } else { self.token.into() }));
        }
        entries.push(("payload_root_hash", hash(root_hash)));
        entries.push((UNSEALED[0], hash(&self.checksum)));
        entries.push((UNSEALED[1], self.integrity_state.as_str().into()));
        if self.schema.is_ours() {
            let own = self.own().into_iter().map(|(name, value)| (String::from(name), value));
            let mut own: Map<String, Value> = own.collect();
            own.insert("version".into(), VERSION.into());
            if let Schema::Both(era) = self.schema {
                own.insert("jvs".into(), era.as_str().into());
                own.insert("payload_root_hash".into(), self.root_hash.to_value());
                own.insert(OWN_SEAL.into(), self.checksum.to_value());
            }
            entries.push(("lokt", own.into()));
        }
        if let Schema::Both(_) = self.schema {
            let members = entries.iter().map(|(name, value)| (String::from(*name), value.clone())).collect();
            let digits = seal(members, self.schema, &[]);
            for (name, value) in &mut entries {
                if *name == UNSEALED[0] {
                    *value = digits.as_str().into();
                }
            }
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
            Self::Code(_) | Self::Both(_) => Names { worktree: "worktree_name", parent: "parent_id" },
        }
    }

    /// Did we write it? Then it has a manifest and a receipt.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Lokt | Self::Both(_))
    }

    /// The version of `jvs` whose members, hash and seal it has, if it has those.
    pub fn era(self) -> Option<Era> {
        match self {
            Self::Code(era) | Self::Both(era) => Some(era),
            Self::Lokt | Self::Spec => None,
        }
    }
}

impl Era {
    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::V8 => "v8",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Locks, Self::V8].into_iter().find(|era| era.as_str() == text)
    }

    /// What this version seals, of what it finds in a file.
    fn sealed(self) -> &'static [&'static str] {
        match self {
            Self::Locks => &CODE_SEALED,
            Self::V8 => &CODE_SEALED[2..],
        }
    }
}

/// Is this what the members are sealed with?
fn is_seal(checksum: &Hash, members: &Map<String, Value>, schema: Schema) -> bool {
    let is_right = |without: &[&str]| checksum.value == seal(members.clone(), schema, without);
    // Later versions have members that they don't seal.
    if schema == Schema::Code(Era::V8) {
        let mut known = members.clone();
        known.retain(|member, _| Era::V8.sealed().contains(&member.as_str()));
        return checksum.value == seal(known, schema, &[]);
    }
    let is_signed = schema == Schema::Spec && SIGNED.iter().any(|member| members.contains_key(*member));
    checksum.algo == SHA256 && (is_right(&[]) || (is_signed && is_right(&SIGNED)))
}

/// The digits of the seal.
fn seal(mut members: Map<String, Value>, schema: Schema, without: &[&str]) -> String {
    members.retain(|member, _| !without.contains(&member.as_str()));
    if let Schema::Both(era) = schema {
        members.retain(|member, _| era.sealed().contains(&member.as_str()));
    }
    for member in UNSEALED {
        match schema {
            Schema::Lokt | Schema::Spec => _ = members.remove(member),
            Schema::Code(_) | Schema::Both(_) => _ = members.insert(member.into(), "".into()),
        }
    }
    format!("{}", Digest::of(canonical(&members.into()).as_bytes()))
}

/// The digits of our own seal over a descriptor in the schema of `jvs`: over everything that says something.
fn own_seal(mut members: Map<String, Value>) -> String {
    members.retain(|member, _| !UNSEALED.contains(&member.as_str()));
    if let Some(own) = members.get_mut("lokt").and_then(Value::as_object_mut) {
        own.remove(OWN_SEAL);
    }
    format!("{}", Digest::of(canonical(&members.into()).as_bytes()))
}

fn isolation(value: &Value) -> Option<Isolation> {
    [Isolation::Exclusive, Isolation::Shared].into_iter().find(|isolation| value == &json!(isolation.as_str()))
}
