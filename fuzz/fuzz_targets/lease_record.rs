//! Any bytes where a lease, a session, or a configuration should be: read without a panic; what is a lease can be judged and asked for.
#![cfg_attr(fuzzing, no_main)]

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use lokt_core::hold::{Identity, LockId};
use lokt_core::lease::config::{WorktreeConfig, policy};
use lokt_core::lease::deciding::{Answer, Ask, Stored, ask};
use lokt_core::lease::evidence::{Clues, judge};
use lokt_core::lease::names::{File, fence_number, kept_fence_number, tree_token};
use lokt_core::lease::record::{HolderId, Parsed, Record, parse};
use lokt_core::lease::session::Session;
use lokt_core::lease::sighting::Sighting;
use lokt_core::liveness::Liveness;
use lokt_core::time::Moment;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(session) = Session::parse(bytes) {
        assert_eq!(Session::parse(&session.to_bytes()), Ok(session), "a session reads back");
    }
    if let Ok(config) = WorktreeConfig::parse(bytes) {
        assert_eq!(WorktreeConfig::parse(&config.to_bytes()), Ok(config), "a worktree reads back");
    }
    if let Some(sighting) = Sighting::parse(bytes) {
        assert_eq!(Sighting::parse(&sighting.to_bytes()), Some(sighting), "a sighting reads back");
    }
    let _ = policy(bytes).map(lokt_core::lease::policy::PolicyWish::policy);
    if let Ok(text) = core::str::from_utf8(bytes) {
        named(text);
    }
    let Parsed::Record(record) = parse(bytes) else { return };
    let written = serde_json::to_vec(&*record).expect("a lease is JSON");
    let Parsed::Record(again) = parse(&written) else { panic!("what was written is no lease: {written:?}") };
    assert_eq!(serde_json::to_vec(&*again).expect("a lease is JSON"), written, "a rewrite changes nothing more");
    decides(&record);
});

fn named(text: &str) {
    let file = File::parse(text);
    assert!(file == File::Other || file.name() == text, "a file has one name");
    let _ = (fence_number(text), kept_fence_number("main", text));
    if let Some(token) = tree_token("main", text) {
        assert!(text.starts_with("main.") && !text.contains('/'), "{token} is that of a tree of main");
    }
    let holder = HolderId::parse(text);
    assert_eq!(HolderId::parse(&holder.text()), holder, "a holder reads back");
}

fn decides(record: &Record) {
    let wall = Timestamp::from_second(1_800_000_000).expect("a time");
    let now = Moment { wall, monotonic_ms: 90_000, boottime_ms: 95_000 };
    let host = HolderId::parse(&record.holder_id).host;
    let here = Identity {
        host,
        boot_id: record.boot_id.clone(),
        pid_ns: record.pid_ns,
        boot_clocks: true,
        fs: Some(0xef53),
        ..Identity::default()
    };
    let rebooted = Identity { boot_id: Some("another".into()), ..here.clone() };
    let id = LockId::from_bits(7);
    let (nonce, session_id) = (record.nonce.as_str(), record.session_id.as_str());
    for me in [here, rebooted, Identity::default()] {
        let _ = record.renewed(&now, &me);
        for (liveness, server_ms) in [(Liveness::Unknown, None), (Liveness::Gone, Some(40_000))] {
            for own in [true, false] {
                let clues = Clues { liveness, server_ms, seen_ms: 50_000, cache_ms: 1, skew_ms: Some(-9_000) };
                let verdict = judge(record, &now, &me, &clues, own);
                assert_eq!(verdict.retry_after_ms.is_none(), verdict.is_over(), "what is over isn't waited for");
                let stored = Stored::Held(record, verdict);
                let said = |question| ask(question, stored, &id, now, &me);
                let acquired = said(Ask::Acquire { nonce: "new", session_id });
                assert_eq!(matches!(acquired, Answer::Grant { .. }), verdict.is_over(), "only what is over is granted");
                let renewed = said(Ask::Renew { nonce, session_id });
                assert_eq!(renewed == Answer::Renew, !verdict.is_over(), "only what lives goes on");
                assert!(matches!(said(Ask::Release { nonce, session_id }), Answer::End(_)), "one's own can be ended");
                assert!(matches!(said(Ask::Break), Answer::End(_)), "so can anybody's");
            }
        }
    }
}
