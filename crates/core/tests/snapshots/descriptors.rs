//! Descriptors in their three schemas. The seals in here were computed by another program, from the recipes alone.

use lokt_core::lease::config::Isolation;
use lokt_core::snapshot::descriptor::{Consistency, Descriptor, Era, Schema};
use lokt_core::snapshot::hash::{BLAKE3, Hash, SHA256};
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::risk::{NAMED_MAX, Risk, Skipped};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::any::any_descriptor;
use super::one::at;

fn hash(algo: &str, digits: &str) -> Hash {
    Hash { algo: algo.into(), value: digits.repeat(32) }
}

fn snapshot_id(text: &str) -> SnapshotId {
    SnapshotId::parse(text).expect("tests write ids")
}

fn ours() -> Descriptor {
    Descriptor {
        id: snapshot_id("1708300800000-a3f7c1b2"),
        worktree: "main".into(),
        parent: Some(snapshot_id("1708300700000-00000001")),
        created_at: at("2026-11-15T18:00:00.25Z"),
        note: Some("before <the> step\u{2028}".into()),
        engine: "reflink-copy".into(),
        consistency: Consistency::BestEffort,
        token: Some(7),
        root_hash: hash(BLAKE3, "ef"),
        jvs_root_hash: None,
        checksum: hash(SHA256, "00"),
        checksum_valid: false,
        integrity_state: "verified".into(),
        risk: Some(Risk { changed: vec!["a/b".into()], changed_count: 1 }),
        files: Some(3),
        bytes: Some(4096),
        skipped: vec![Skipped { path: "run/sock".into(), kind: "socket".into() }],
        skipped_count: 1,
        isolation: Isolation::Shared,
        schema: Schema::Lokt,
    }
}

const OURS: &str = r#"{
  "snapshot_id": "1708300800000-a3f7c1b2",
  "parent_snapshot_id": "1708300700000-00000001",
  "worktree_id": "main",
  "created_at": "2026-11-15T18:00:00.25Z",
  "note": "before <the> stepSEPARATOR",
  "engine": "reflink-copy",
  "consistency_level": "best_effort",
  "fencing_token": 7,
  "payload_root_hash": {
    "algo": "blake3",
    "value": "efefefefefefefefefefefefefefefefefefefefefefefefefefefefefefefef"
  },
  "descriptor_checksum": {
    "algo": "sha256",
    "value": "8acd1e39c55dfdfd6c531b23b9cf3e6c15b34baca6b116c5ba3dc0ae3b2133c3"
  },
  "integrity_state": "verified",
  "lokt": {
    "bytes": 4096,
    "files": 3,
    "isolation": "shared",
    "risk": {
      "changed_count": 1,
      "changed_during_copy": [
        "a/b"
      ],
      "label": "best_effort"
    },
    "skipped": [
      {
        "kind": "socket",
        "path": "run/sock"
      }
    ],
    "skipped_count": 1,
    "version": 1
  }
}
"#;

#[test]
fn ours_reads_back_to_the_byte_and_its_seal_is_the_one_others_compute() {
    let text = OURS.replace("SEPARATOR", "\u{2028}");
    assert_eq!(String::from_utf8(ours().to_bytes()).as_deref(), Ok(text.as_str()));
    let read = Descriptor::parse(text.as_bytes());
    assert_eq!(read, Ok(ours().sealed()));
    assert!(read.is_ok_and(|read| read.checksum_valid && read.to_bytes() == text.as_bytes()));
    // What somebody finds out later isn't sealed.
    let corrupt = text.replace("\"verified\"", "\"corrupt\"");
    assert!(
        Descriptor::parse(corrupt.as_bytes())
            .is_ok_and(|read| read.checksum_valid && read.integrity_state == "corrupt")
    );
    for (from, to) in
        [("4096", "4097"), ("main", "mine"), ("\"a/b\"", "\"a/c\""), ("shared", "exclusive"), ("efef", "efee")]
    {
        let changed = Descriptor::parse(text.replacen(from, to, 1).as_bytes()).expect("still a descriptor");
        assert!(!changed.checksum_valid, "that {from} became {to} is seen");
    }
}

#[test]
fn what_the_code_of_jvs_wrote_is_read_and_its_seal_checked() {
    let text = format!(
        r#"{{"snapshot_id":"1708300800000-a3f7c1b2","parent_id":"1708300700000-00000001","worktree_name":"main","created_at":"2024-02-19T00:00:00.123456789Z","note":"a \u003cb\u003e \u0026 c","engine":"juicefs-clone","consistency_level":"quiesced","payload_root_hash":"{}","descriptor_checksum":"ad43f34be63ff78aba0a28a9f30f1276fb3bbd45b224da82aad3cefffb1327d7","fencing_token":7,"integrity_state":"verified"}}"#,
        "ab".repeat(32)
    );
    let read = Descriptor::parse(text.as_bytes()).expect("a descriptor");
    let expected = Descriptor {
        created_at: at("2024-02-19T00:00:00.123456789Z"),
        note: Some("a <b> & c".into()),
        engine: "juicefs-clone".into(),
        consistency: Consistency::Quiesced,
        root_hash: hash(SHA256, "ab"),
        risk: None,
        files: None,
        bytes: None,
        skipped: Vec::new(),
        skipped_count: 0,
        isolation: Isolation::Exclusive,
        schema: Schema::Code(Era::Locks),
        ..ours()
    };
    assert_eq!(read, expected.clone().sealed());
    assert!(read.checksum_valid);
    assert!(Descriptor::parse(text.replace(":7,", ":8,").as_bytes()).is_ok_and(|read| !read.checksum_valid));

    let first = format!(
        r#"{{"snapshot_id":"1708300800000-a3f7c1b2","worktree_name":"main","created_at":"2024-02-19T00:00:00.123456789Z","engine":"juicefs-clone","consistency_level":"quiesced","payload_root_hash":"{}","descriptor_checksum":"0c70721ef1de3bc7c45377f0f94ae050c61cf3714e2dbbff5d9793f3d2dc5c8f","fencing_token":0,"integrity_state":"unknown"}}"#,
        "ab".repeat(32)
    );
    let read = Descriptor::parse(first.as_bytes()).expect("a descriptor");
    assert_eq!((read.parent, read.token, read.note, read.checksum_valid), (None, None, None, true));
}

#[test]
fn what_the_specification_says_is_read_and_its_seal_checked() {
    let text = |seal: &str, more: &str| {
        let hash = "cd".repeat(32);
        format!(
            r#"{{"snapshot_id":"1708300800000-a3f7c1b2","worktree_id":"main","parent_snapshot_id":null,"created_at":"2024-02-19T00:00:00Z","engine":"copy","consistency_level":"best_effort","fencing_token":null,"descriptor_checksum":{{"algo":"sha256","value":"{seal}"}},"payload_root_hash":{{"algo":"sha256","value":"{hash}"}},"integrity_state":"unverified"{more}}}"#
        )
    };
    let seal = "b1b9da6c5cea460401c0a6433b57d8558d455caa9f8e0ac0f04ae1a80663c783";
    let read = Descriptor::parse(text(seal, "").as_bytes()).expect("a descriptor");
    assert_eq!((read.schema, read.checksum_valid, read.token), (Schema::Spec, true, None));
    assert_eq!((&read.root_hash, read.consistency), (&hash(SHA256, "cd"), Consistency::BestEffort));
    assert_eq!(Descriptor::parse(&read.to_bytes()), Ok(read.clone()), "it reads back");
    let risk = &read.members()["risk"];
    assert_eq!(
        risk,
        &json!({"label": "best_effort", "changed_during_copy": [], "changed_count": null}),
        "nobody looked"
    );

    let signature = r#","signature":{"algo":"ed25519","value":"00"},"signing_key_id":"k","signed_at":"2024-02-19T00:00:00Z","tamper_evidence_state":"trusted""#;
    let with_all = "2fff42306eb0ffb2a04f35c0d808ee1dc0adfab281fcbde438b2e780bd04d562";
    for (seal, more, is_valid) in
        [(seal, signature, true), (with_all, signature, true), (with_all, "", false), (seal, r#","label":"x""#, false)]
    {
        let read = Descriptor::parse(text(seal, more).as_bytes()).expect("a descriptor");
        assert_eq!(read.checksum_valid, is_valid, "{seal} {more}");
    }
    let other = text(seal, "").replace("\"algo\":\"sha256\",\"value\":\"b1", "\"algo\":\"md5\",\"value\":\"b1");
    assert!(Descriptor::parse(other.as_bytes()).is_ok_and(|read| !read.checksum_valid), "that is no seal of ours");
}

#[test]
fn members_that_make_no_sense_are_told() {
    let text: Value = serde_json::from_slice(&ours().to_bytes()).expect("JSON");
    for changes in [
        json!({"snapshot_id": "latest"}),
        json!({"snapshot_id": null}),
        json!({"worktree_id": ""}),
        json!({"parent_snapshot_id": "../x"}),
        json!({"created_at": "soon"}),
        json!({"note": 7}),
        json!({"engine": null}),
        json!({"consistency_level": "perfect"}),
        json!({"fencing_token": -1}),
        json!({"fencing_token": "7"}),
        json!({"payload_root_hash": {"algo": "blake3"}}),
        json!({"payload_root_hash": {"algo": "blake3", "value": "EF"}}),
        json!({"payload_root_hash": {"algo": "blake3", "value": "efe"}}),
        json!({"payload_root_hash": {"algo": "", "value": "ef"}}),
        json!({"payload_root_hash": "ef"}),
        json!({"descriptor_checksum": null}),
        json!({"lokt": 7}),
        json!({"lokt": null}),
        json!({"lokt": {}}),
        json!({"lokt": {"version": 2}}),
        json!({"lokt": {"version": 1, "isolation": "Shared"}}),
        json!({"lokt": {"version": 1, "files": -1}}),
        json!({"lokt": {"version": 1, "risk": {"changed_during_copy": [7], "changed_count": 1}}}),
        json!({"lokt": {"version": 1, "risk": {}}}),
        json!({"lokt": {"version": 1, "skipped": [{"path": "a"}]}}),
    ] {
        let mut members = text.clone();
        for (name, value) in changes.as_object().expect("tests write objects") {
            members[name] = value.clone();
        }
        let why = Descriptor::parse(members.to_string().as_bytes()).expect_err("that is no descriptor");
        assert!(!why.is_empty(), "{changes}");
    }
    let twice = OURS.replace("\"engine\"", "\"engine\": \"copy\",\n  \"engine\"");
    assert!(Descriptor::parse(twice.as_bytes()).is_err(), "which one is sealed, readers disagree about");
    for bad in ["", " ", "{}", "[]", "7", "{\"lokt\":{\"version\":1}}"] {
        assert!(Descriptor::parse(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn an_answer_has_the_same_members_whoever_wrote_it() {
    let members = ours().sealed().members();
    assert_eq!(members["risk"], json!({"label": "best_effort", "changed_during_copy": ["a/b"], "changed_count": 1}));
    assert_eq!(
        (&members["isolation"], &members["files"], &members["bytes"]),
        (&json!("shared"), &json!(3), &json!(4096))
    );
    assert_eq!(members["skipped"], json!([{"path": "run/sock", "kind": "socket"}]));
    let plain = Descriptor {
        consistency: Consistency::Quiesced,
        risk: None,
        note: None,
        schema: Schema::Code(Era::Locks),
        parent: None,
        ..ours()
    };
    let code = plain.members();
    assert_eq!((&code["risk"], &code["note"], &code["parent_snapshot_id"]), (&Value::Null, &Value::Null, &Value::Null));
    assert_eq!(code["worktree_id"], json!("main"));
    let names = |members: &serde_json::Map<String, Value>| members.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&members), names(&code));
}

#[test]
fn the_first_are_named_and_all_are_counted() {
    let paths: Vec<Vec<u8>> = (0..250).map(|number: u32| format!("a/{number}").into_bytes()).collect();
    let risk = Risk::new(paths.iter().map(Vec::as_slice));
    assert_eq!((risk.changed.len(), risk.changed_count, risk.changed[0].as_str()), (NAMED_MAX, 250, "a/0"));
    let (skipped, count) = Skipped::list(paths.iter().map(|path| (path.as_slice(), "fifo")));
    assert_eq!((skipped.len(), count, skipped[99].path.as_str()), (NAMED_MAX, 250, "a/99"));
    assert_eq!(Risk::new([&b"\xff"[..]]).changed, ["\u{fffd}"]);
    assert_eq!(Risk::new([]), Risk::default());
    // Whatever they are called, a descriptor can be read again.
    let long = vec![1_u8; 60_000];
    let risk = Risk::new([long.as_slice(), b"a", long.as_slice(), b"b"]);
    assert_eq!((risk.changed.len(), risk.changed_count), (2, 4), "none is named after one that wasn't");
    let (skipped, skipped_count) = Skipped::list([(long.as_slice(), "fifo")]);
    let full = Descriptor { risk: Some(risk), skipped, skipped_count, ..ours() };
    assert_eq!(Descriptor::parse(&full.to_bytes()), Ok(full.sealed()));
}

proptest! {
    #[test]
    fn every_descriptor_reads_back_in_every_schema(descriptor in any_descriptor()) {
        let bytes = descriptor.to_bytes();
        let read = Descriptor::parse(&bytes).expect("it is one");
        prop_assert!(read.checksum_valid);
        prop_assert_eq!(read.to_bytes(), bytes);
        prop_assert_eq!(read, descriptor.sealed());
    }

    #[test]
    fn no_bytes_make_reading_panic(descriptor in any_descriptor(), cut in any::<prop::sample::Index>(), byte in any::<u8>(), raw in any::<Vec<u8>>()) {
        let mut bytes = descriptor.to_bytes();
        let at = cut.index(bytes.len() - 2);
        prop_assert!(Descriptor::parse(&bytes[..at]).is_err());
        let was = core::mem::replace(&mut bytes[at], byte);
        if let Ok(read) = Descriptor::parse(&bytes) {
            let sealed = descriptor.sealed();
            let is_same = Descriptor { integrity_state: sealed.integrity_state.clone(), ..read.clone() } == sealed;
            prop_assert!(was == byte || is_same || !read.checksum_valid, "a change is seen");
            let _ = read.members();
        }
        let _ = Descriptor::parse(&raw);
    }
}
