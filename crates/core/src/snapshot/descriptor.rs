//! The descriptor of a snapshot: in our own schema, and in those of `jvs`.
//!
//! | member | spec and ours | code of `jvs` |
//! | --- | --- | --- |
//! | worktree | `worktree_id` | `worktree_name` |
//! | predecessor | `parent_snapshot_id`, null if none | `parent_id`, absent if none |
//! | hashes | `{algo, value}` | the digits of SHA-256 |
//! | seal | SHA-256 of the canonical JSON without `descriptor_checksum` and `integrity_state` | the same with both empty |
//!
//! Ours also has `lokt`, for what the others have no member for. In a repository that `jvs` reads,
//! ours is written with the members of its code, so that `jvs` can follow a snapshot to its
//! predecessor. `jvs` seals the members that it knows and ignores the rest. So `lokt` then has its
//! own seal over everything, and the hash of the manifest.

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

/// Version of the content of `lokt`.
const VERSION: u64 = 1;
/// Members that aren't sealed: the seal, and results of later checks.
const UNSEALED: [&str; 2] = ["descriptor_checksum", "integrity_state"];
/// Members that a signature adds after sealing; descriptors of some versions of `jvs` have them.
const SIGNED: [&str; 4] = ["signature", "signing_key_id", "signed_at", "tamper_evidence_state"];
/// Members that `jvs` seals, beside the two that are empty at that time. Only the version with
/// locks knows the first two, only later ones know the third.
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

/// Writer of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// lokt.
    Lokt,
    /// A program that follows the specification of `jvs`.
    Spec,
    /// `jvs` itself.
    Code(Era),
    /// lokt, with the members of the code of `jvs`.
    Both(Era),
}

/// The versions of `jvs`, as far as they differ in what they hash and seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// The versions with locks. They hash the times of files.
    Locks,
    /// All tagged versions, v8.0 and later. Descriptors have neither `consistency_level` nor
    /// `fencing_token`.
    V8,
}

/// Consistency that a snapshot promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// Nothing changed while it was taken.
    Quiesced,
    /// Something may have changed.
    BestEffort,
}

/// A descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// Id of the snapshot.
    pub id: SnapshotId,
    /// Its worktree.
    pub worktree: String,
    /// Its predecessor in the worktree.
    pub parent: Option<SnapshotId>,
    /// Time at which it was taken.
    pub created_at: Timestamp,
    /// Purpose, in words.
    pub note: Option<String>,
    /// Method by which the tree was copied.
    pub engine: String,
    /// Its promised consistency.
    pub consistency: Consistency,
    /// Token of the lease under which it was published.
    pub token: Option<u64>,
    /// Hash over the tree.
    pub root_hash: Hash,
    /// The same hash by the recipe of `jvs`, in a snapshot of ours that `jvs` reads.
    pub jvs_root_hash: Option<Hash>,
    /// Seal, as it was read; a new one is made for every write.
    pub checksum: Hash,
    /// True if the seal was right.
    pub checksum_valid: bool,
    /// Result of an earlier check, which isn't sealed.
    pub integrity_state: String,
    /// Entries that changed during the copy, if that was allowed.
    pub risk: Option<Risk>,
    /// Number of files; other programs don't record it.
    pub files: Option<u64>,
    /// Their total size in bytes.
    pub bytes: Option<u64>,
    /// The first few entries that aren't in it.
    pub skipped: Vec<Skipped>,
    /// Number of entries that aren't in it.
    pub skipped_count: u64,
    /// Write access while it was taken; other programs know only exclusive access.
    pub isolation: Isolation,
    /// Writer of the descriptor.
    pub schema: Schema,
}

impl Consistency {
    /// Returns its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quiesced => "quiesced",
            Self::BestEffort => "best_effort",
        }
    }

    /// Parses the name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Quiesced, Self::BestEffort].into_iter().find(|level| level.as_str() == text)
    }
}

impl Descriptor {
    /// Returns the descriptor with its seal.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        let members = self.entries().into_iter().map(|(name, value)| (String::from(name), value)).collect();
        let value =
            if matches!(self.schema, Schema::Both(_)) { own_seal(members) } else { seal(members, self.schema, &[]) };
        self.checksum = Hash { algo: SHA256.into(), value };
        self.checksum_valid = true;
        self
    }

    /// Returns its bytes with the seal, indented by two.
    pub fn to_bytes(&self) -> Vec<u8> {
        let sealed = self.clone().sealed();
        let mut bytes = serde_json::to_vec_pretty(&Ordered(sealed.entries())).expect("JSON values are JSON");
        bytes.push(b'\n');
        bytes
    }

    /// Parses a descriptor of any schema; the error says what is wrong. [`Self::checksum_valid`]
    /// reports a wrong seal.
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
            // That version doesn't record it: nothing checked whether files changed.
            (None, Schema::Code(Era::V8)) => Consistency::BestEffort,
            (None, _) => return Err("it has no consistency_level".into()),
        };
        let (skipped, skipped_count) = skipped_from(&own)?;
        Ok(Self {
            id: members.must("snapshot_id", id)?,
            worktree: members.must(names.worktree, said)?,
            // Without a predecessor it is absent, null or, in Go, empty.
            parent: members
                .may(names.parent, |value| if value == "" { Some(None) } else { id(value).map(Some) })?
                .flatten(),
            created_at: members.must("created_at", time)?,
            note: members.may("note", owned)?.filter(|note| !note.is_empty()),
            engine: members.must("engine", said)?,
            consistency,
            // No lease has the number 0: the code of `jvs` writes it if there was none.
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

    /// Returns the members for answers: the names of the specification, and ours beside them.
    pub fn members(&self) -> Map<String, Value> {
        let known = Self { schema: Schema::Spec, ..self.clone() };
        let mut members: Map<String, Value> =
            known.entries().into_iter().map(|(name, value)| (String::from(name), value)).collect();
        members.insert("note".into(), self.note.as_deref().into());
        members.extend(self.own().into_iter().map(|(name, value)| (String::from(name), value)));
        // Possible changes are reported, whichever program wrote the descriptor.
        if self.consistency == Consistency::BestEffort {
            members.insert("risk".into(), changed_value(self.risk.as_ref()));
        }
        members
    }

    /// Returns the members in their order.
    fn entries(&self) -> Vec<(&'static str, Value)> {
        let names = self.schema.names();
        let is_code = self.schema.era().is_some();
        let hash = |hash: &Hash| if is_code { hash.value.as_str().into() } else { hash.to_value() };
        // `jvs` finds the hash by its own recipe.
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

    /// Returns the members that only our schema has.
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

/// Names of members in a schema.
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

    /// Reports whether lokt wrote it. If so, it has a manifest and a receipt.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Lokt | Self::Both(_))
    }

    /// Returns the version of `jvs` whose members, hash and seal it has, if any.
    pub fn era(self) -> Option<Era> {
        match self {
            Self::Code(era) | Self::Both(era) => Some(era),
            Self::Lokt | Self::Spec => None,
        }
    }
}

impl Era {
    /// Returns its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::V8 => "v8",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Locks, Self::V8].into_iter().find(|era| era.as_str() == text)
    }

    /// Returns the members that this version seals, if a file has them.
    fn sealed(self) -> &'static [&'static str] {
        match self {
            Self::Locks => &CODE_SEALED,
            Self::V8 => &CODE_SEALED[2..],
        }
    }
}

/// Reports whether `checksum` is the seal of the members.
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

/// Returns the digits of the seal.
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

/// Returns the digits of our own seal over a descriptor in the schema of `jvs`. It covers
/// everything except the seals and the results of later checks.
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
