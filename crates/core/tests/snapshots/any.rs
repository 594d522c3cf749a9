//! Any tree, snapshot and file of one that there could be.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lokt_core::hold::Fence;
use lokt_core::lease::config::Isolation;
use lokt_core::snapshot::descriptor::{Consistency, Descriptor, Era, Schema};
use lokt_core::snapshot::entry::{Entry, Kind, SourceStamp, Time};
use lokt_core::snapshot::hash::{Hash, SHA256};
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::intent::{Intent, Operation, Pulse, State};
use lokt_core::snapshot::manifest::{Header, Manifest};
use lokt_core::snapshot::pin::Pin;
use lokt_core::snapshot::receipt::Receipt;
use lokt_core::snapshot::risk::{Risk, Skipped};
use lokt_core::snapshot::tombstone::{GcState, Tombstone};
use proptest::prelude::*;

pub(crate) fn any_file_time() -> impl Strategy<Value = Time> {
    (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Time { secs, nanos })
}

/// A name of any bytes.
fn any_name() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => b'a'..=b'c', 1 => Just(b'.'), 1 => any::<u8>()];
    prop::collection::vec(byte, 1..5).prop_filter("a name", |name| {
        !matches!(name.as_slice(), b"." | b"..") && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
    })
}

fn any_xattrs() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let name = prop_oneof!["user\\.[a-c]{1,3}".prop_map(String::into_bytes), any_name()];
    prop::collection::btree_map(name, any::<Vec<u8>>(), 0..3).prop_map(|xattrs| xattrs.into_iter().collect())
}

fn any_stamp() -> impl Strategy<Value = SourceStamp> {
    (any::<u64>(), any::<u64>(), any_file_time()).prop_map(|(dev, ino, ctime)| SourceStamp { dev, ino, ctime })
}

/// An entry whose kind is a directory, a file or a symbolic link.
pub(crate) fn any_entry() -> impl Strategy<Value = Entry> {
    let kind = prop_oneof![
        Just(Kind::Dir),
        (any::<u64>(), any::<[u8; 32]>()).prop_map(|(size, hash)| Kind::File { size, hash }),
        any_name().prop_map(|target| Kind::Symlink { target }),
    ];
    let path = prop::collection::vec(any_name(), 1..4).prop_map(|names| names.join(&b'/'));
    let stat = (0..=0o7777_u32, any::<u32>(), any::<u32>(), any_file_time());
    (path, kind, stat, any_xattrs(), prop::option::of(any_stamp())).prop_map(
        |(path, kind, (mode, uid, gid, mtime), xattrs, source)| Entry {
            path,
            kind,
            mode,
            uid,
            gid,
            mtime,
            xattrs,
            source,
        },
    )
}

/// A whole tree, sorted, with hard links among its files.
pub(crate) fn any_tree() -> impl Strategy<Value = Vec<Entry>> {
    (prop::collection::vec((any_entry(), any::<bool>()), 1..20)).prop_map(|entries| {
        let mut tree: BTreeMap<Vec<u8>, Entry> = BTreeMap::new();
        for (entry, _) in &entries {
            // What is above something is a directory.
            let ends = entry.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            for end in [0].into_iter().chain(ends) {
                let dir = Entry { path: entry.path[..end].to_vec(), kind: Kind::Dir, ..entry.clone() };
                tree.insert(dir.path.clone(), dir);
            }
        }
        let mut first_file: Option<Vec<u8>> = None;
        for (entry, is_link) in entries {
            let Some((path, kind)) =
                Some((entry.path.clone(), entry.kind.clone())).filter(|_| !tree.contains_key(&entry.path))
            else {
                continue;
            };
            let kind = match (kind, &first_file) {
                (Kind::File { .. } | Kind::Symlink { .. }, Some(to)) if is_link && *to < path => {
                    Kind::HardLink { to: to.clone() }
                }
                (kind @ (Kind::File { .. } | Kind::Symlink { .. }), None) => {
                    first_file = Some(path.clone());
                    kind
                }
                (kind, _) => kind,
            };
            tree.insert(path, Entry { kind, ..entry });
        }
        tree.into_values().collect()
    })
}

pub(crate) fn any_manifest() -> impl Strategy<Value = Manifest> {
    (any_file_time(), any::<bool>(), any_tree())
        .prop_map(|(scanned_at, trusted, entries)| Manifest { header: Header { scanned_at, trusted }, entries })
}

/// A time of which everything is written.
fn any_moment() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_i64, 0..1_000_000_000_i32).prop_map(|(secs, nanos)| Timestamp::new(secs, nanos).expect("a time"))
}

fn any_id() -> impl Strategy<Value = SnapshotId> {
    (0..10_000_000_000_000_u64, any::<u32>()).prop_map(|(ms, random)| SnapshotId::new(ms, random))
}

fn any_hash(algos: &'static [&'static str]) -> impl Strategy<Value = Hash> {
    (prop::sample::select(algos), any::<[u8; 32]>()).prop_map(|(algo, digest)| Hash::new(algo, &digest))
}

/// With what must be escaped.
const TEXT: &str = "[<>&\u{2028}\u{2029}\"\\\\\\PC\\n\\t\u{1}]{1,12}";

/// As far as whole numbers are told apart by what is hashed: as Go's doubles.
const COUNT: std::ops::Range<u64> = 0..Fence::LIMIT;

fn any_risk() -> impl Strategy<Value = Risk> {
    (prop::collection::vec(TEXT, 0..3), COUNT).prop_map(|(changed, changed_count)| Risk { changed, changed_count })
}

/// A descriptor in any schema, with what that can say.
pub(crate) fn any_descriptor() -> impl Strategy<Value = Descriptor> {
    let schema = prop::sample::select(vec![
        Schema::Lokt,
        Schema::Spec,
        Schema::Code(Era::Locks),
        Schema::Code(Era::V8),
        Schema::Both(Era::Locks),
        Schema::Both(Era::V8),
    ]);
    let names = (any_id(), prop::option::of(any_id()), TEXT, prop::option::of(TEXT), TEXT, ".{0,8}");
    let counts = (prop::option::of(COUNT), prop::option::of(COUNT), COUNT);
    let skipped = (".{0,8}", TEXT).prop_map(|(path, kind)| Skipped { path, kind });
    let own = (prop::option::of(any_risk()), counts, prop::collection::vec(skipped, 0..3), any::<bool>());
    let token = prop::option::of(1..Fence::LIMIT);
    let rest = (any_moment(), any::<bool>(), token, any_hash(&["blake3", "sha256", "other"]));
    (schema, names, own, rest).prop_map(|(schema, names, own, (created_at, is_quiesced, token, root_hash))| {
        let (id, parent, worktree, note, engine, integrity_state) = names;
        let (risk, (files, bytes, skipped_count), skipped, is_shared) = own;
        let is_ours = schema.is_ours();
        let says_how = schema != Schema::Code(Era::V8);
        let is_both = matches!(schema, Schema::Both(_));
        Descriptor {
            id,
            worktree,
            parent,
            created_at,
            note,
            engine,
            consistency: if is_quiesced && says_how { Consistency::Quiesced } else { Consistency::BestEffort },
            token: token.filter(|_| says_how),
            jvs_root_hash: is_both.then(|| Hash { algo: SHA256.into(), ..root_hash.clone() }),
            root_hash: if matches!(schema, Schema::Code(_)) {
                Hash { algo: SHA256.into(), ..root_hash }
            } else {
                root_hash
            },
            checksum: Hash::new(SHA256, &[]),
            checksum_valid: false,
            integrity_state,
            risk: risk.filter(|_| is_ours),
            files: files.filter(|_| is_ours),
            bytes: bytes.filter(|_| is_ours),
            skipped: if is_ours { skipped } else { Vec::new() },
            skipped_count: if is_ours { skipped_count } else { 0 },
            isolation: if is_ours && is_shared { Isolation::Shared } else { Isolation::Exclusive },
            schema,
        }
    })
}

pub(crate) fn any_receipt() -> impl Strategy<Value = Receipt> {
    let hashes = (any_hash(&["sha256"]), any_hash(&["blake3", "sha256"]));
    let link = (1..Fence::LIMIT, any::<u128>());
    ((any_id(), prop::option::of(any_id())), TEXT, (any_moment(), any_moment()), TEXT, hashes, link).prop_map(
        |((snapshot_id, parent), worktree_id, (created_at, completed_at), engine, hashes, (number, chain))| Receipt {
            snapshot_id,
            worktree_id,
            created_at,
            completed_at,
            engine,
            descriptor_checksum: hashes.0,
            payload_root_hash: hashes.1,
            number,
            chain: format!("{chain:032x}"),
            parent,
        },
    )
}

pub(crate) fn any_intent() -> impl Strategy<Value = Intent> {
    let operation =
        prop_oneof![Just(Operation::Snapshot), Just(Operation::Restore), "[a-z]{0,3}_x".prop_map(Operation::Other),];
    let state = prop::sample::select(vec![State::Active, State::Completed, State::Abandoned]);
    let pulse = prop::option::of(any::<[u64; 2]>().prop_map(|[dev, ino]| Pulse { dev, ino }));
    let names = (TEXT, any_id(), TEXT, prop::option::of(".{0,8}"));
    (operation, state, names, (any_moment(), prop::option::of(any_moment())), any::<[Option<u64>; 3]>(), pulse)
        .prop_map(
            |(operation, state, (intent_id, snapshot_id, worktree_id, boot_id), times, [token, pid, fs], pulse)| {
                Intent {
                    intent_id,
                    operation,
                    snapshot_id,
                    worktree_id,
                    created_at: times.0,
                    state,
                    completed_at: times.1,
                    token,
                    boot_id,
                    pid,
                    pulse,
                    fs,
                }
            },
        )
}

pub(crate) fn any_tombstone() -> impl Strategy<Value = Tombstone> {
    let state = prop::sample::select(vec![GcState::Marked, GcState::Committed, GcState::Failed]);
    let ids = (any_id(), prop::option::of(any_id()));
    let options =
        (prop::option::of(TEXT), prop::option::of(any_moment()), prop::option::of(".{0,8}"), any::<Option<u64>>());
    (ids, state, options).prop_map(|((snapshot_id, parent), state, (worktree_id, deleted_at, reason, bytes))| {
        Tombstone { snapshot_id, worktree_id, parent, state, deleted_at, reason, bytes }
    })
}

pub(crate) fn any_pin() -> impl Strategy<Value = Pin> {
    (any_id(), prop::option::of(any_moment()), prop::option::of(".{0,8}"), prop::option::of(".{0,8}"))
        .prop_map(|(snapshot_id, created_at, created_by, note)| Pin { snapshot_id, created_at, created_by, note })
}
