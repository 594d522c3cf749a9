//! Any hold that there could be, also one that no program would write.

use jiff::Timestamp;
use lokt_core::hold::{Fence, Hold, LockId, Part, Parts, PulseRef};
use proptest::prelude::*;
use serde_json::{Map, Value};

/// Any JSON value, members of records among its keys.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        any_time().prop_map(|at| Value::from(at.to_string())),
    ];
    let key = prop_oneof![
        prop::sample::select(vec![
            "version",
            "owner",
            "ttl_sec",
            "expires_at",
            "acquired_ts",
            "parts",
            "pulse",
            "for",
            "since",
            "process",
            "fencing_token",
        ])
        .prop_map(String::from),
        "\\PC{0,6}",
    ];
    leaf.prop_recursive(4, 40, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..10).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

pub(crate) fn any_time() -> impl Strategy<Value = Timestamp> {
    (Timestamp::MIN.as_nanosecond()..=Timestamp::MAX.as_nanosecond())
        .prop_map(|ns| Timestamp::from_nanosecond(ns).expect("it is between the first and the last"))
}

fn any_part() -> impl Strategy<Value = Part> {
    (any_time(), prop::option::of(1..=u64::MAX), any::<Option<u64>>()).prop_map(|(since, ttl_sec, clock_ms)| Part {
        since,
        ttl_sec,
        clock_ms,
    })
}

fn any_parts() -> impl Strategy<Value = Option<Parts>> {
    (prop::option::of(any_part()), prop::option::of(any_part())).prop_map(|(process, owner)| {
        (process.is_some() || owner.is_some()).then_some(Parts { process, owner, edited: false })
    })
}

/// Members that no record has, so that they are kept as unknown.
fn any_extra() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("x_\\PC{0,8}", any_json(), 0..4).prop_map(|members| members.into_iter().collect())
}

/// Any hold, also one that no program would write.
pub(crate) fn any_hold() -> impl Strategy<Value = Hold> {
    let texts = ["\\PC{0,20}"; 6];
    let numbers = (..=1_i64, any::<i64>(), any::<i64>(), any::<i64>());
    let options = (
        prop::option::of((1..Fence::LIMIT).prop_map(|number| Fence::new(number).expect("it is in range"))),
        any_parts(),
        prop::option::of(any::<[u64; 3]>().prop_map(|[number, dev, ino]| PulseRef { number, dev, ino })),
        any::<Option<u64>>(),
        any::<Option<u64>>(),
        prop::option::of("\\PC{0,20}"),
    );
    let times = [prop::option::of(any_time()), prop::option::of(any_time()), prop::option::of(any_time())];
    (texts, numbers, options, times, any_extra()).prop_map(|(texts, numbers, options, times, extra)| {
        let [name, lock_id, owner, host, agent_id, boot_id] = texts;
        let (version, pid, pid_start, ttl_sec) = numbers;
        let (token, parts, pulse, pid_ns, fs, reason) = options;
        let [acquired, expires_at, held_since] = times;
        Hold {
            version,
            name,
            lock_id: LockId::from_text(lock_id),
            owner,
            host,
            pid,
            pid_start,
            agent_id,
            acquired,
            ttl_sec,
            expires_at,
            token,
            parts,
            pulse,
            boot_id: Some(boot_id),
            pid_ns,
            fs,
            held_since,
            reason,
            extra,
        }
    })
}
