//! The other files of snapshots: receipts, intents, tombstones, pins, names.

use lokt_core::snapshot::hash::Hash;
use lokt_core::snapshot::intent::{Intent, Operation, Pulse, State};
use lokt_core::snapshot::pin::Pin;
use lokt_core::snapshot::receipt::Receipt;
use lokt_core::snapshot::reference::Reference;
use lokt_core::snapshot::tombstone::{GcState, Tombstone};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::any::{any_intent, any_pin, any_receipt, any_tombstone};
use super::one::{at, id};

const CHAIN: &str = "00112233445566778899aabbccddeeff";

fn receipt() -> Receipt {
    Receipt {
        snapshot_id: id(2),
        worktree_id: "main".into(),
        created_at: at("2026-11-15T18:00:00.25Z"),
        completed_at: at("2026-11-15T18:00:01Z"),
        engine: "copy".into(),
        descriptor_checksum: Hash { algo: "sha256".into(), value: "ab".repeat(32) },
        payload_root_hash: Hash { algo: "blake3".into(), value: "cd".repeat(32) },
        number: 9,
        chain: CHAIN.into(),
        parent: Some(id(1)),
    }
}

fn intent() -> Intent {
    Intent {
        intent_id: "snapshot-1708300800002-00000007".into(),
        operation: Operation::Snapshot,
        snapshot_id: id(2),
        worktree_id: "main".into(),
        created_at: at("2026-11-15T18:00:00.25Z"),
        state: State::Active,
        completed_at: None,
        token: Some(7),
        boot_id: Some("boot-1".into()),
        pid: Some(4242),
        pulse: Some(Pulse { dev: 66, ino: 4321 }),
        fs: Some(0xef53),
    }
}

fn tombstone() -> Tombstone {
    Tombstone {
        snapshot_id: id(2),
        worktree_id: Some("main".into()),
        parent: Some(id(1)),
        state: GcState::Committed,
        deleted_at: Some(at("2026-11-15T18:00:00Z")),
        reason: Some("keep_last".into()),
        bytes: Some(4096),
    }
}

fn pin() -> Pin {
    let created_at = Some(at("2026-11-15T18:00:00Z"));
    Pin { snapshot_id: id(2), created_at, created_by: Some("alice".into()), note: Some("release".into()) }
}

/// What was written, if it is one line.
fn line(bytes: Vec<u8>) -> String {
    let text = String::from_utf8(bytes).expect("JSON is text");
    assert_eq!(text.find('\n'), Some(text.len() - 1), "{text}");
    text.trim_end().into()
}

#[test]
fn each_is_one_line_and_reads_back() {
    let (ab, cd) = ("ab".repeat(32), "cd".repeat(32));
    assert_eq!(
        line(receipt().to_bytes()),
        format!(
            r#"{{"version":1,"snapshot_id":"1708300800002-00000007","worktree_id":"main","parent_snapshot_id":"1708300800001-00000007","created_at":"2026-11-15T18:00:00.25Z","completed_at":"2026-11-15T18:00:01Z","engine":"copy","descriptor_checksum":{{"algo":"sha256","value":"{ab}"}},"payload_root_hash":{{"algo":"blake3","value":"{cd}"}},"chain":"{CHAIN}","number":9}}"#
        )
    );
    assert_eq!(
        line(intent().to_bytes()),
        r#"{"version":1,"intent_id":"snapshot-1708300800002-00000007","operation":"snapshot","snapshot_id":"1708300800002-00000007","worktree_id":"main","created_at":"2026-11-15T18:00:00.25Z","state":"active","fencing_token":7,"boot_id":"boot-1","pid":4242,"pulse":{"dev":66,"ino":4321},"fs":61267}"#
    );
    assert_eq!(
        line(tombstone().to_bytes()),
        r#"{"version":1,"snapshot_id":"1708300800002-00000007","worktree_id":"main","parent_snapshot_id":"1708300800001-00000007","gc_state":"committed","deleted_at":"2026-11-15T18:00:00Z","reason":"keep_last","bytes":4096}"#
    );
    assert_eq!(
        line(pin().to_bytes()),
        r#"{"version":1,"pin_id":"1708300800002-00000007","snapshot_id":"1708300800002-00000007","created_at":"2026-11-15T18:00:00Z","created_by":"alice","note":"release"}"#
    );
    assert_eq!(Receipt::parse(&receipt().to_bytes()), Ok(receipt()));
    assert_eq!(Intent::parse(&intent().to_bytes()), Ok(intent()));
    assert_eq!(Tombstone::parse(&tombstone().to_bytes()), Ok(tombstone()));
    assert_eq!(Pin::parse(&pin().to_bytes()), Ok(pin()));
}

#[test]
fn what_jvs_wrote_is_read() {
    let theirs = r#"{"snapshot_id":"1708300800002-00000007","worktree_name":"main","started_at":"2026-11-15T18:00:00.25Z","engine":"copy"}"#;
    let bare = Intent { token: None, boot_id: None, pid: None, pulse: None, fs: None, ..intent() };
    let code = Intent { intent_id: id(2).to_string(), ..bare.clone() };
    assert_eq!(Intent::parse(theirs.as_bytes()), Ok(code));
    let theirs = r#"{"intent_id":"i","operation":"worktree_fork","snapshot_id":"1708300800002-00000007","worktree_id":"main","created_at":"2026-11-15T18:00:00.25Z","state":"completed","completed_at":"2026-11-15T18:00:01Z"}"#;
    let (operation, completed_at) = (Operation::Other("worktree_fork".into()), Some(at("2026-11-15T18:00:01Z")));
    let spec = Intent { intent_id: "i".into(), operation, state: State::Completed, completed_at, ..bare };
    assert_eq!(Intent::parse(theirs.as_bytes()), Ok(spec));

    let theirs = r#"{"snapshot_id":"1708300800002-00000007","deleted_at":"2026-11-15T18:00:00Z","reclaimable":true}"#;
    let code = Tombstone { worktree_id: None, parent: None, reason: None, bytes: None, ..tombstone() };
    assert_eq!(Tombstone::parse(theirs.as_bytes()), Ok(code), "one that is left is of one that is gone");
    let theirs = r#"{"snapshot_id":"1708300800002-00000007","gc_state":"failed","reason":"busy"}"#;
    assert!(Tombstone::parse(theirs.as_bytes()).is_ok_and(|stone| stone.state == GcState::Failed));

    let theirs = r#"{"pin_id":"p","snapshot_id":"1708300800002-00000007","reason":"release"}"#;
    assert_eq!(Pin::parse(theirs.as_bytes()), Ok(Pin { created_at: None, created_by: None, ..pin() }));

    let named = Reference {
        name: "v1".into(),
        snapshot_id: id(2),
        created_at: Some(at("2026-11-15T18:00:00Z")),
        created_by: None,
        note: Some("first".into()),
    };
    let code = r#"{"name":"v1","target_id":"1708300800002-00000007","created_at":"2026-11-15T18:00:00Z","description":"first"}"#;
    assert_eq!(Reference::parse(code.as_bytes()), Ok(named.clone()));
    let spec = r#"{"ref_name":"v1","snapshot_id":"1708300800002-00000007","created_at":"2026-11-15T18:00:00Z","created_by":"bob","note":"first"}"#;
    assert_eq!(Reference::parse(spec.as_bytes()), Ok(Reference { created_by: Some("bob".into()), ..named }));
}

/// What reading the members says, some of them changed.
fn changed<T>(bytes: &[u8], parse: fn(&[u8]) -> Result<T, String>, name: &str, value: Value) -> Result<T, String> {
    let mut members: Value = serde_json::from_slice(bytes).expect("JSON");
    members[name] = value;
    parse(members.to_string().as_bytes())
}

#[test]
fn members_that_make_no_sense_are_told() {
    for (name, value) in [
        ("version", json!(2)),
        ("version", json!(null)),
        ("snapshot_id", json!("latest")),
        ("worktree_id", json!("")),
        ("parent_snapshot_id", json!("")),
        ("created_at", json!("soon")),
        ("completed_at", json!(null)),
        ("engine", json!(7)),
        ("descriptor_checksum", json!("abab")),
        ("payload_root_hash", json!({"algo": "blake3", "value": ""})),
        ("number", json!(0)),
        ("number", json!(1.5)),
        ("chain", json!("main")),
    ] {
        let read = changed(&receipt().to_bytes(), Receipt::parse, name, value.clone());
        assert!(read.is_err(), "{name}: {value}");
    }
    for (name, value) in [
        ("version", json!(2)),
        ("snapshot_id", json!(null)),
        ("operation", json!(7)),
        ("state", json!("done")),
        ("created_at", json!(null)),
        ("worktree_id", json!(null)),
        ("pid", json!(-1)),
        ("pulse", json!({"dev": 1})),
        ("fs", json!("ext4")),
    ] {
        let read = changed(&intent().to_bytes(), Intent::parse, name, value.clone());
        assert!(read.is_err(), "{name}: {value}");
    }
    for (name, value) in
        [("version", json!(2)), ("snapshot_id", json!("x")), ("gc_state", json!("gone")), ("deleted_at", json!(7))]
    {
        assert!(changed(&tombstone().to_bytes(), Tombstone::parse, name, value.clone()).is_err(), "{name}: {value}");
    }
    for (name, value) in [("version", json!(2)), ("snapshot_id", json!(null)), ("created_at", json!("x"))] {
        assert!(changed(&pin().to_bytes(), Pin::parse, name, value.clone()).is_err(), "{name}: {value}");
    }
    for bad in [
        "",
        "{}",
        "[]",
        r#"{"name":"v1"}"#,
        r#"{"name":"","target_id":"1708300800002-00000007"}"#,
        r#"{"name":"v1","target_id":"x"}"#,
    ] {
        assert!(Reference::parse(bad.as_bytes()).is_err(), "{bad}");
        assert!(Receipt::parse(bad.as_bytes()).is_err() && Intent::parse(bad.as_bytes()).is_err(), "{bad}");
        assert!(Tombstone::parse(bad.as_bytes()).is_err() && Pin::parse(bad.as_bytes()).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn every_one_reads_back(receipt in any_receipt(), intent in any_intent(), tombstone in any_tombstone(), pin in any_pin()) {
        prop_assert_eq!(Receipt::parse(&receipt.to_bytes()), Ok(receipt));
        prop_assert_eq!(Intent::parse(&intent.to_bytes()), Ok(intent));
        prop_assert_eq!(Tombstone::parse(&tombstone.to_bytes()), Ok(tombstone));
        prop_assert_eq!(Pin::parse(&pin.to_bytes()), Ok(pin));
    }

    #[test]
    fn no_bytes_make_reading_panic(which in 0..4_usize, cut in any::<prop::sample::Index>(), byte in any::<u8>(), raw in any::<Vec<u8>>()) {
        let mut bytes = [receipt().to_bytes(), intent().to_bytes(), tombstone().to_bytes(), pin().to_bytes()][which].clone();
        let at = cut.index(bytes.len() - 1);
        let all = |bytes: &[u8]| {
            let read = [Receipt::parse(bytes).is_ok(), Intent::parse(bytes).is_ok(), Tombstone::parse(bytes).is_ok(), Pin::parse(bytes).is_ok()];
            read.contains(&true) || Reference::parse(bytes).is_ok()
        };
        prop_assert!(!all(&bytes[..at]), "half of one is none");
        bytes[at] = byte;
        let _ = (all(&bytes), all(&raw));
    }
}
