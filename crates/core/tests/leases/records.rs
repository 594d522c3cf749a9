//! A lease as bytes: what every tool reads, and what others write.

use lokt_core::hold::{Fence, Identity};
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::record::{Binding, HolderId, Parsed, RECORD_BYTES_MAX, Record, owner_of, parse};
use lokt_core::liveness::Liveness;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::any::{any_json, any_record};
use super::one::{NONCE, SESSION, at, fence, later, leased, neighbour, run_lease};

/// The fourteen members that every tool knows.
const SEED: [&str; 14] = [
    "lock_id",
    "worktree_id",
    "holder_id",
    "holder_nonce",
    "session_id",
    "acquire_seq",
    "created_at",
    "last_renewed_at",
    "lease_duration_ms",
    "renew_interval_ms",
    "max_clock_skew_ms",
    "steal_grace_ms",
    "lease_expires_at",
    "fencing_token",
];

/// As another tool writes it: the fourteen members, numbers and times its own way.
const FOREIGN: &str = r#"{
  "lock_id": "7b1c", "worktree_id": "main", "holder_id": "host-b:bob:77:2026-11-15T18:00:00Z", "holder_nonce": "n0",
  "session_id": "s0", "acquire_seq": 2.0, "created_at": "2026-11-15T19:59:00+02:00",
  "last_renewed_at": "2026-11-15T20:00:00.123456789+02:00", "lease_duration_ms": 3e4, "renew_interval_ms": 10000.0,
  "max_clock_skew_ms": 2000, "steal_grace_ms": 1e3, "lease_expires_at": "2026-11-15T20:00:30.123456789+02:00",
  "fencing_token": 4.1e1
}"#;

fn read(text: &str) -> Record {
    match parse(text.as_bytes()) {
        Parsed::Record(record) => *record,
        Parsed::Corrupt(why) => panic!("{text} should be a lease, but {why}"),
    }
}

fn is_corrupt(bytes: &[u8]) -> bool {
    matches!(parse(bytes), Parsed::Corrupt(why) if !why.is_empty())
}

fn text_of(record: &Record) -> String {
    serde_json::to_string(record).expect("a lease is JSON")
}

/// The foreign lease with some members changed, or without them (`null`).
fn foreign_with(changes: &Value) -> String {
    let mut members: Map<String, Value> = serde_json::from_str(FOREIGN).expect("the fixture is JSON");
    for (name, value) in changes.as_object().expect("tests write objects") {
        members.insert(name.clone(), value.clone());
    }
    Value::Object(members).to_string()
}

#[test]
fn a_lease_is_written_with_the_members_of_the_seed_first_and_then_ours() {
    let record = Record {
        agent_id: Some("agent-1".into()),
        purpose: Some("nightly".into()),
        evidence: Some("boot_clock".into()),
        ..run_lease()
    };
    let expected = format!(
        concat!(
            r#"{{"lock_id":"5e0000000000000000000000000000f1","worktree_id":"main","holder_id":"vm:alice:100:1000","#,
            r#""holder_nonce":"{nonce}","session_id":"{session}","acquire_seq":3,"created_at":"2026-11-15T17:59:00.000Z","#,
            r#""last_renewed_at":"2026-11-15T18:00:00.250Z","lease_duration_ms":30000,"renew_interval_ms":10000,"#,
            r#""max_clock_skew_ms":2000,"steal_grace_ms":1000,"lease_expires_at":"2026-11-15T18:00:30.250Z","fencing_token":7,"#,
            r#""holder_binding":"process","holder_boot_id":"boot-1","holder_boottime_ms":700000,"holder_initial_time_ns":true,"#,
            r#""holder_pid_ns":1,"holder_fs":61267,"holder_pulse":{{"dev":66,"ino":1234,"number":3}},"holder_agent_id":"agent-1","#,
            r#""purpose":"nightly","evidence":"boot_clock"}}"#,
        ),
        nonce = NONCE,
        session = SESSION,
    );
    assert_eq!(text_of(&record), expected);
    assert_eq!(read(&expected), record);
    let names: Vec<String> = record.members().keys().cloned().collect();
    assert_eq!(names.len(), 24, "{names:?}");
    assert!(SEED.iter().all(|name| names.iter().any(|other| other == name)), "{names:?}");
}

#[test]
fn what_other_tools_write_is_read() {
    let record = read(FOREIGN);
    assert_eq!(record.last_renewed_at, at("2026-11-15T18:00:00.123456789Z"));
    assert_eq!((record.policy, record.acquire_seq, record.token), (LeasePolicy::DEFAULT, 2, Some(fence(41))));
    assert_eq!((record.binding, record.boot_id, record.boottime_ms, record.pulse), (None, None, None, None));
    let holder = HolderId::parse(&record.holder_id);
    assert_eq!((holder.host.as_str(), holder.user.as_str(), holder.pid, holder.start), ("host-b", "bob", 77, 0));
}

#[test]
fn two_members_make_a_lease_and_the_rest_is_default() {
    let record = read(r#"{"lock_id":"x","last_renewed_at":"2026-11-15T18:00:00Z"}"#);
    assert_eq!(record.policy, LeasePolicy::DEFAULT);
    assert_eq!((record.created_at, record.token), (record.last_renewed_at, None));
    assert_eq!(record.lease_expires_at, at("2026-11-15T18:00:30Z"));
    for missing in [
        json!({"lock_id": null}),
        json!({"lock_id": ""}),
        json!({"lock_id": 7}),
        json!({"last_renewed_at": null}),
        json!({"last_renewed_at": "soon"}),
        json!({"last_renewed_at": 1_700_000_000}),
    ] {
        assert!(is_corrupt(foreign_with(&missing).as_bytes()), "{missing} was taken for a lease");
    }
}

#[test]
fn numbers_that_make_no_sense_stop_nobody() {
    for (written, token) in [
        (json!(0), None),
        (json!(-1), None),
        (json!(1.5), None),
        (json!(9_007_199_254_740_991_u64), Fence::new(9_007_199_254_740_991)),
        (json!(9_007_199_254_740_992_u64), None),
        (json!(u64::MAX), None),
        (json!(1e300), None),
        (json!("7"), None),
        (json!(null), None),
    ] {
        assert_eq!(read(&foreign_with(&json!({"fencing_token": written}))).token, token, "{written}");
    }
    for (written, lease_ms) in [
        (json!(-5), 0),
        (json!(1e300), u64::MAX),
        (json!(u64::MAX), u64::MAX),
        (json!("30s"), 30_000),
        (json!([]), 30_000),
    ] {
        let record = read(&foreign_with(&json!({"lease_duration_ms": written})));
        assert_eq!(record.policy.lease_ms, lease_ms, "{written}");
        assert_eq!(record.policy.clamped().checked(), Ok(record.policy.clamped()));
    }
    let late = read(&foreign_with(&json!({"lease_expires_at": "2036-01-01T00:00:00Z"})));
    assert_eq!(late.policy.lease_ms, 30_000, "what it says of its end isn't what it lasts");
}

#[test]
fn readings_of_clocks_that_run_apart_are_not_read() {
    let written = text_of(&leased());
    assert_eq!(read(&written).boottime_ms, Some(700_000));
    for (good, bad) in [
        ("\"holder_initial_time_ns\":true", "\"holder_initial_time_ns\":false"),
        ("\"holder_initial_time_ns\":true,", ""),
        ("\"holder_binding\":\"session\",", ""),
        ("\"holder_boottime_ms\":700000", "\"holder_boottime_ms\":-1"),
    ] {
        assert_eq!(read(&written.replace(good, bad)).boottime_ms, None, "{bad}");
    }
    let apart = leased().renewed(&later(5), &Identity { boot_clocks: false, ..neighbour() });
    assert!(text_of(&apart).contains("\"holder_initial_time_ns\":false"));
    assert_eq!(apart.boottime_ms, None);
}

#[test]
fn what_is_no_lease_is_told() {
    let long = format!("{}{}", FOREIGN, " ".repeat(RECORD_BYTES_MAX));
    for bad in ["", " \n", "{", "[]", "null", "7", "{}", &FOREIGN[..100], &long] {
        assert!(is_corrupt(bad.as_bytes()), "{bad:.40} was taken for a lease");
    }
    assert!(is_corrupt(b"{\"lock_id\":\"\xff\"}"));
}

#[test]
fn a_renewal_lasts_exactly_as_long_as_it_says() {
    let mut now = later(12_345);
    now.wall = at("2026-11-15T18:00:12.345999999Z");
    let renewed = leased().renewed(&now, &neighbour());
    assert_eq!(
        renewed.last_renewed_at,
        at("2026-11-15T18:00:12.345Z"),
        "what is finer than a millisecond is dropped first"
    );
    assert_eq!(renewed.lease_expires_at, at("2026-11-15T18:00:42.345Z"));
    assert_eq!(renewed.boottime_ms, Some(712_345));
    let unchanged = Record {
        last_renewed_at: leased().last_renewed_at,
        lease_expires_at: leased().lease_expires_at,
        boottime_ms: leased().boottime_ms,
        ..renewed
    };
    assert_eq!(unchanged, leased(), "everything else stays");
}

#[test]
fn a_lease_that_is_renewed_elsewhere_is_no_machines() {
    for me in [Identity { host: "elsewhere".into(), ..neighbour() }, Identity { pid_ns: Some(9), ..neighbour() }] {
        let renewed = leased().renewed(&later(1), &me);
        assert_eq!(renewed.pid_ns, None, "whose boot would it be that is gone?");
        assert_eq!((renewed.boot_id, renewed.fs), (me.boot_id, me.fs));
    }
    let nfs = Identity { fs: Some(0x6969), boot_id: Some("boot-2".into()), ..neighbour() };
    let renewed = leased().renewed(&later(1), &nfs);
    assert_eq!((renewed.fs, renewed.boot_id.as_deref()), (Some(0x6969), Some("boot-2")));
}

#[test]
fn a_lease_is_a_hold_of_its_session_or_its_process() {
    let session = leased().hold();
    let parts = session.parts.as_ref().expect("it has parts");
    assert!(parts.process.is_none() && parts.owner.is_some());
    assert_eq!((session.owner, session.pulse), (owner_of(NONCE, SESSION), None));
    assert_eq!((session.host.as_str(), session.pid, session.pid_start), ("vm", 100, 1_000));
    let run = run_lease().hold();
    let parts = run.parts.as_ref().expect("it has parts");
    assert!(parts.process.is_some() && parts.owner.is_none());
    assert_eq!(run.pulse, run_lease().pulse);
    let foreign = read(FOREIGN).hold();
    assert!(!foreign.is_foreign(), "another tool's lease ends by its time alone");
    assert_eq!(lokt_core::liveness::weigh(&foreign, &neighbour(), NO_CLUES), Liveness::Unknown);
}

const NO_CLUES: lokt_core::liveness::Clues = lokt_core::liveness::Clues {
    pulse: lokt_core::liveness::PulseClue::None,
    holder: lokt_core::liveness::Process::Dead,
    command: None,
};

#[test]
fn nothing_in_a_holders_id_looks_like_the_mark_between_its_fields() {
    for (user, encoded) in [
        ("alice", "alice"),
        ("a:b", "a%3Ab"),
        ("100%", "100%25"),
        ("two words\n", "two%20words%0A"),
        ("\u{e9}\u{a0}\u{85}", "\u{e9}%C2%A0%C2%85"),
        ("", ""),
    ] {
        let id = HolderId { host: "h".into(), user: user.into(), pid: 1, start: 2 };
        assert_eq!(id.text(), format!("h:{encoded}:1:2"));
        assert_eq!(HolderId::parse(&id.text()), id);
    }
    for (odd, host, user, pid) in [
        ("", "", "", 0),
        ("h", "h", "", 0),
        ("h:u:x:y", "h", "u", 0),
        ("h:5%:7:1", "h", "5%", 7),
        ("%zz%4:%41:7", "%zz%4", "A", 7),
        ("%ff", "\u{fffd}", "", 0),
    ] {
        let id = HolderId::parse(odd);
        assert_eq!((id.host.as_str(), id.user.as_str(), id.pid), (host, user, pid), "{odd:?}");
    }
}

proptest! {
    #[test]
    fn every_lease_reads_back(record in any_record()) {
        prop_assert_eq!(read(&text_of(&record)), record.clone());
        prop_assert_eq!(read(&Value::Object(record.members()).to_string()), record);
    }

    #[test]
    fn every_holders_id_reads_back(host in any::<String>(), user in any::<String>(), pid in any::<i64>(), start in any::<i64>()) {
        let id = HolderId { host, user, pid, start };
        prop_assert_eq!(id.text().matches(':').count(), 3);
        prop_assert!(!id.text().contains(|c: char| c.is_whitespace() || c.is_control()));
        prop_assert_eq!(HolderId::parse(&id.text()), id);
    }

    /// Whatever is where a number, a text or a time should be.
    #[test]
    fn no_member_makes_reading_panic(name in prop::sample::select(SEED.to_vec()), value in any_json(), ours in any_json()) {
        let mut changes = json!({"holder_binding": "process", "holder_initial_time_ns": true, "holder_pulse": ours, "holder_boottime_ms": ours, "holder_fs": ours});
        changes[name] = value;
        if let Parsed::Record(record) = parse(foreign_with(&changes).as_bytes()) {
            let _ = (record.hold(), record.renewed(&later(0), &neighbour()), HolderId::parse(&record.holder_id));
            let again = read(&text_of(&record));
            prop_assert_eq!(text_of(&again), text_of(&record), "what was written is what is read");
        }
    }

    #[test]
    fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>(), byte in any::<u8>()) {
        prop_assert!(is_corrupt(&bytes));
        let mut damaged = text_of(&run_lease()).into_bytes();
        let at = cut.index(damaged.len());
        damaged[at] = byte;
        let _ = parse(&damaged);
        prop_assert!(is_corrupt(&damaged[..at]), "half a lease is none");
    }

    #[test]
    fn a_lease_lasts_exactly_as_long_as_it_says(lease_ms in 100_u64..86_400_000, nanos in 0_i64..4_000_000_000_000_000_000) {
        let policy = LeasePolicy { lease_ms, ..LeasePolicy::DEFAULT };
        let wall = jiff::Timestamp::from_nanosecond(nanos.into()).expect("a time of this century");
        let renewed = Record { policy, ..leased() }.renewed(&lokt_core::time::Moment { wall, ..later(0) }, &neighbour());
        let read = read(&text_of(&renewed));
        prop_assert_eq!(&read, &renewed);
        let lasts = read.lease_expires_at.duration_since(read.last_renewed_at);
        prop_assert_eq!(lasts.as_millis(), i128::from(lease_ms));
        prop_assert!(read.last_renewed_at <= wall);
    }
}

#[test]
fn bindings_are_called_what_the_record_says() {
    assert_eq!((Binding::Process.as_str(), Binding::Session.as_str()), ("process", "session"));
}
