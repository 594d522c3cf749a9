//! Any lease, link and event that there could be, also ones that nobody would write.

use jiff::Timestamp;
use lokt_core::hold::{Fence, LockId, PulseRef};
use lokt_core::lease::audit::{Anchor, Event};
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::record::{Binding, Record};
use lokt_core::lease::slot::{Kind, Slot};
use lokt_core::lease::state::{Head, Published, Restore, State};
use lokt_core::snapshot::id::SnapshotId;
use proptest::prelude::*;
use serde_json::{Map, Value};

/// A time as it is written: to the millisecond.
fn any_time() -> impl Strategy<Value = Timestamp> {
    (Timestamp::MIN.as_millisecond()..=Timestamp::MAX.as_millisecond())
        .prop_map(|ms| Timestamp::from_millisecond(ms).expect("it is between the first and the last"))
}

pub(crate) fn any_token() -> impl Strategy<Value = Fence> {
    (1..Fence::LIMIT).prop_map(|number| Fence::new(number).expect("it is in range"))
}

/// Any value, its names and texts with what must be escaped.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[<>&\u{2028}\u{2029}\"\\\\\\PC\\n\\t\u{1}]{0,8}".prop_map(Value::from),
        any_time().prop_map(|at| Value::from(at.to_string())),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,6}", inner, 0..5).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn any_details() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("\\PC{0,6}", any_json(), 0..4).prop_map(|members| members.into_iter().collect())
}

pub(crate) fn any_record() -> impl Strategy<Value = Record> {
    let texts = ["\\PC{1,20}", "\\PC{0,20}", "\\PC{0,20}", "\\PC{0,20}", "\\PC{0,20}"];
    let policy = any::<[u64; 4]>().prop_map(|[lease_ms, renew_ms, skew_ms, grace_ms]| LeasePolicy {
        lease_ms,
        renew_ms,
        skew_ms,
        grace_ms,
    });
    let times = [any_time(), any_time(), any_time()];
    let binding = prop::sample::select(vec![None, Some(Binding::Session), Some(Binding::Process)]);
    let pulse = any::<[u64; 3]>().prop_map(|[number, dev, ino]| PulseRef { number, dev, ino });
    let options = (
        prop::option::of(any_token()),
        prop::option::of("\\PC{1,20}"),
        any::<[Option<u64>; 3]>(),
        prop::option::of(pulse),
        [prop::option::of("\\PC{0,20}"), prop::option::of("\\PC{0,20}"), prop::option::of("\\PC{0,20}")],
    );
    (texts, policy, times, binding, 0..=Fence::LIMIT, options).prop_map(
        |(texts, policy, times, binding, acquire_seq, options)| {
            let [lock_id, worktree, holder_id, nonce, session_id] = texts;
            let [created_at, last_renewed_at, lease_expires_at] = times;
            let (token, boot_id, [boottime_ms, pid_ns, fs], pulse, [agent_id, purpose, evidence]) = options;
            Record {
                lock_id: LockId::from_text(lock_id),
                worktree,
                holder_id,
                nonce,
                session_id,
                acquire_seq,
                created_at,
                last_renewed_at,
                policy,
                lease_expires_at,
                token,
                binding,
                boot_id,
                // Another tool's readings mean nothing to us.
                boottime_ms: boottime_ms.filter(|_| binding.is_some()),
                pid_ns,
                fs,
                pulse,
                agent_id,
                purpose,
                evidence,
            }
        },
    )
}

pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    let texts = ["\\PC{0,20}", "\\PC{0,12}", "\\PC{0,20}", "\\PC{0,20}"];
    let options = (prop::option::of(1..Fence::LIMIT), prop::option::of("\\PC{0,20}"), prop::option::of(".{0,20}"));
    (texts, any_time(), options, any_details()).prop_map(|(texts, timestamp, (token, session_id, reason), details)| {
        let [event_id, operation, actor, target] = texts;
        Event { event_id, timestamp, operation, actor, target, token, session_id, reason, details }
    })
}

fn any_anchor() -> impl Strategy<Value = Anchor> {
    let numbers = (0..Fence::LIMIT, any::<u128>(), 0..Fence::LIMIT, 0..Fence::LIMIT);
    (numbers, any::<Option<u8>>()).prop_map(|((count, hash, size, logged), boot)| Anchor {
        count,
        hash: if count == 0 { String::new() } else { format!("{hash:064x}") },
        size,
        logged,
        boot_id: boot.map(|boot| format!("boot-{boot}")),
    })
}

pub(crate) fn any_snapshot_id() -> impl Strategy<Value = SnapshotId> {
    (0..10_000_000_000_000_u64, any::<u32>()).prop_map(|(ms, random)| SnapshotId::new(ms, random))
}

fn any_head() -> impl Strategy<Value = Head> {
    prop_oneof![Just(Head::Unknown), Just(Head::None), any_snapshot_id().prop_map(Head::Snapshot)]
}

fn any_restore() -> impl Strategy<Value = Restore> {
    (
        any_snapshot_id(),
        "[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}",
        any::<Option<u64>>(),
        any::<u64>(),
        any_head(),
        any::<bool>(),
    )
        .prop_map(|(snapshot_id, tree, dev, ino, was_head, in_parts)| Restore {
            snapshot_id,
            tree,
            dev,
            ino,
            was_head,
            in_parts,
        })
}

fn any_state() -> impl Strategy<Value = State> {
    (any_head(), prop::collection::vec(any_snapshot_id(), 0..4), prop::option::of(any_restore()))
        .prop_map(|(head, pending, restore)| State { head, pending, restore })
}

/// The same state, or one that a link of this kind can have, and what it published.
fn fitting(kind: Kind, mut state: State, parent: Option<SnapshotId>, is_file: bool) -> (State, Option<Published>) {
    match (kind, state.head.id().cloned()) {
        (Kind::Publish, Some(id)) if !is_file => {
            state.pending.push(id.clone());
            (state, Some(Published { id, parent }))
        }
        (Kind::Restore, _) => {
            let snapshot_id = SnapshotId::new(7, 7);
            let nothing = Restore {
                snapshot_id,
                tree: "w.7.ab".into(),
                dev: None,
                ino: 1,
                was_head: Head::Unknown,
                in_parts: false,
            };
            state.restore.get_or_insert(nothing);
            (state, None)
        }
        _ => (state, None),
    }
}

/// Any link that doesn't contradict itself.
pub(crate) fn any_slot() -> impl Strategy<Value = Slot> {
    let kind =
        prop::sample::select(vec![Kind::Grant, Kind::Release, Kind::Renew, Kind::Publish, Kind::Restore, Kind::Rebase]);
    let numbers = (2..Fence::LIMIT - 2_000, any::<prop::sample::Index>(), 0_u64..900, 0_u64..1_000, any::<bool>());
    let snapshots = (any_state(), prop::option::of(any_snapshot_id()), any::<bool>());
    (any::<u128>(), kind, numbers, 0..Fence::LIMIT, any_record(), any_anchor(), any_event(), snapshots).prop_map(
        |(chain, kind, (number, token, jump, room, has_record), acquire_seq, record, anchor, event, snapshots)| {
            let (state, snapshot) = fitting(kind, snapshots.0, snapshots.1, snapshots.2);
            let below = 1 + token.index(usize::try_from(number - 1).unwrap_or(usize::MAX)) as u64;
            let token = if kind == Kind::Grant { number } else { below };
            let has_record = match kind {
                Kind::Grant | Kind::Renew => true,
                Kind::Release => false,
                Kind::Publish => has_record || snapshot.is_none(),
                Kind::Restore | Kind::Rebase => has_record,
            };
            let record = has_record.then(|| Box::new(Record { token: Fence::new(token), ..record }));
            let next = number + 1 + if kind == Kind::Rebase { jump } else { 0 };
            Slot {
                chain: format!("{chain:032x}"),
                number,
                kind,
                record,
                acquire_seq,
                next,
                ceiling: next + room,
                state,
                snapshot,
                anchor,
                event,
            }
        },
    )
}
