//! What happened, as lines: which events a decision leaves, what they say, and how they are written.

mod common {
    pub(crate) mod askers;
    pub(crate) mod holds;
}

use common::askers::asker;
use common::holds::{at, fence, stored};
use lokt_core::audit::{
    Account, EVENTS, Event, Filter, LINE_BYTES_MAX, Line, Program, Wait, events, may_be_of_a_token, publish_denied,
    published, token_in,
};
use lokt_core::decide::{Broken, Cause, Decision, Token};
use lokt_core::denial::{Denial, Holder, Staleness};
use lokt_core::guard::Ended;
use lokt_core::hold::{Hold, Identity, LockId, PartKind};
use lokt_core::liveness::Liveness;
use lokt_core::time::Elapsed;
use serde_json::{Value, json};

const VICTIM_ID: &str = "5e0000000000000000000000000000f1";

/// Bob's hold, which is in the way: token 7, a lease of 60 s.
fn victim() -> Hold {
    Hold { ttl_sec: 60, ..stored("bob") }
}

/// Alice's new hold: token 8, a lease of 300 s.
fn next() -> Hold {
    let lock_id = LockId::from_bits(0xf2);
    Hold { lock_id, token: Some(fence(8)), ttl_sec: 300, pid: 4242, ..stored("alice") }
}

fn holder(hold: Hold) -> Box<Holder> {
    Box::new(Holder { hold, liveness: Liveness::Alive, elapsed: Elapsed::NOTHING })
}

fn commit(next: Option<Hold>, cause: Cause, broken: Option<Broken>) -> Decision {
    Decision::Commit { next: next.map(Box::new), token: Token::Keep, cause, broken }
}

/// The events of Alice's `decision` about "build", as the JSON that is written.
fn lines(decision: &Decision, before: Option<&Hold>, requested_ttl: Option<u64>) -> Vec<Value> {
    events(decision, before, requested_ttl, "build", &asker("alice"), at("2026-11-15T18:00:00.25Z"))
        .iter()
        .map(|event| {
            let mut line: Value = serde_json::from_slice(&event.encode()).expect("a line is JSON");
            // The actor, the name and the time are the same in every event.
            for (member, value) in [
                ("ts", json!("2026-11-15T18:00:00.25Z")),
                ("name", json!("build")),
                ("owner", json!("alice")),
                ("host", json!("vm")),
                ("pid", json!(4242)),
                ("agent_id", json!("agent-new")),
            ] {
                let members = line.as_object_mut().expect("a line is an object");
                assert_eq!(members.remove(member), Some(value), "{member} is not the actor's");
            }
            line
        })
        .collect()
}

#[test]
fn a_new_hold_is_one_acquire_with_its_own_id_lease_and_token() {
    let granted = commit(Some(next()), Cause::Acquire, None);
    let new_id = "000000000000000000000000000000f2";
    let acquire = json!({"event": "acquire", "lock_id": new_id, "ttl_sec": 300, "extra": {"fencing_token": 8}});
    assert_eq!(lines(&granted, None, Some(300)), [acquire]);
}

#[test]
fn what_was_broken_is_audited_first_with_the_victims_name() {
    for (why, reason) in [(Staleness::Expired, "expired"), (Staleness::ProcessGone, "dead_pid")] {
        let granted = commit(Some(next()), Cause::Acquire, Some(Broken::Stale(why)));
        let pruned = json!({"event": "auto-prune", "lock_id": VICTIM_ID, "extra": {
            "fencing_token": 7, "pruned_host": "vm", "pruned_owner": "bob", "pruned_pid": 100, "reason": reason,
        }});
        let lines = lines(&granted, Some(&victim()), Some(300));
        assert_eq!(lines[0], pruned);
        assert_eq!((&lines[1]["event"], lines.len()), (&json!("acquire"), 2));
    }
}

#[test]
fn a_grant_over_something_that_was_no_record_says_so_first() {
    let granted = commit(Some(next()), Cause::Acquire, Some(Broken::Corrupt));
    let lines = lines(&granted, None, Some(300));
    assert_eq!(lines[0], json!({"event": "corrupt-break"}));
    assert_eq!((&lines[1]["event"], lines.len()), (&json!("acquire"), 2));
}

#[test]
fn a_refresh_is_one_renew_with_what_the_hold_has_now() {
    let before = Hold { token: None, ..next() };
    let renew =
        json!({"event": "renew", "lock_id": next().lock_id.as_str(), "ttl_sec": 300, "extra": {"fencing_token": 8}});
    assert_eq!(lines(&commit(Some(next()), Cause::Renew, None), Some(&before), Some(300)), [renew]);
}

#[test]
fn a_hold_without_a_lease_or_a_token_says_neither() {
    let bare = Hold { ttl_sec: 0, token: None, ..next() };
    let renew = json!({"event": "renew", "lock_id": next().lock_id.as_str()});
    assert_eq!(lines(&commit(Some(bare), Cause::Renew, None), Some(&next()), None), [renew]);
}

#[test]
fn a_release_names_the_part_that_ended() {
    for (part, name) in [(PartKind::Process, "process"), (PartKind::Owner, "owner")] {
        let release = json!({"event": "release", "lock_id": VICTIM_ID, "ttl_sec": 60,
            "extra": {"fencing_token": 7, "part": name}});
        let removed = commit(None, Cause::Release(part), None);
        assert_eq!(lines(&removed, Some(&victim()), None), std::slice::from_ref(&release));
        let rest = Hold { ttl_sec: 60, ..victim() };
        let remains = commit(Some(rest), Cause::Release(part), None);
        assert_eq!(lines(&remains, Some(&victim()), None), [release]);
    }
}

#[test]
fn a_break_names_its_victim() {
    for (cause, name) in [(Cause::ForceBreak, "force-break"), (Cause::StaleBreak, "stale-break")] {
        let broken = json!({"event": name, "lock_id": VICTIM_ID, "ttl_sec": 60, "extra": {
            "fencing_token": 7, "pruned_host": "vm", "pruned_owner": "bob", "pruned_pid": 100,
        }});
        assert_eq!(lines(&commit(None, cause, None), Some(&victim()), None), [broken]);
    }
    // Where an owner part ends beside a guard, the victim is the hold as it was.
    let rest = Hold { ttl_sec: 5, ..victim() };
    let line = &lines(&commit(Some(rest), Cause::ForceBreak, None), Some(&victim()), None)[0];
    assert_eq!((&line["ttl_sec"], &line["extra"]["pruned_owner"]), (&json!(60), &json!("bob")));
}

#[test]
fn a_break_of_something_that_names_nobody_names_nobody() {
    assert_eq!(lines(&commit(None, Cause::ForceBreak, None), None, None), [json!({"event": "force-break"})]);
    assert_eq!(lines(&commit(None, Cause::CorruptBreak, None), None, None), [json!({"event": "corrupt-break"})]);
}

#[test]
fn tidying_is_an_auto_prune_like_any_other() {
    let pruned = json!({"event": "auto-prune", "lock_id": VICTIM_ID, "extra": {
        "fencing_token": 7, "pruned_host": "vm", "pruned_owner": "bob", "pruned_pid": 100, "reason": "expired",
    }});
    assert_eq!(lines(&commit(None, Cause::Prune, None), Some(&victim()), None), [pruned]);
}

#[test]
fn a_refusal_names_the_holder_and_what_was_asked_for() {
    let denied = Decision::Deny(Denial::Held(holder(victim())));
    let deny = json!({"event": "deny", "ttl_sec": 300,
        "extra": {"holder_host": "vm", "holder_owner": "bob", "holder_pid": 100}});
    assert_eq!(lines(&denied, Some(&victim()), Some(300)), [deny]);
    let endless = &lines(&denied, Some(&victim()), None)[0];
    assert_eq!(endless.get("ttl_sec"), None, "nothing was asked for");
    let huge = &lines(&denied, Some(&victim()), Some(u64::MAX))[0];
    assert_eq!(huge.get("ttl_sec"), None, "a lease that no record can have");
}

#[test]
fn a_refusal_by_the_line_or_by_an_empty_record_is_a_deny_too() {
    let queued = Decision::Deny(Denial::Queued { ahead: 3 });
    assert_eq!(lines(&queued, None, Some(5)), [json!({"event": "deny", "ttl_sec": 5, "extra": {"waiters": 3}})]);
    let empty = Decision::Deny(Denial::BeingWritten);
    assert_eq!(lines(&empty, None, Some(5)), [json!({"event": "deny", "ttl_sec": 5})]);
}

#[test]
fn a_refusal_by_a_freeze_names_the_freeze() {
    let frozen = Decision::Deny(Denial::Frozen(Some(holder(victim()))));
    let deny = json!({"event": "freeze-deny", "lock_id": VICTIM_ID,
        "extra": {"freeze_host": "vm", "freeze_owner": "bob", "freeze_pid": 100}});
    assert_eq!(lines(&frozen, None, Some(300)), [deny]);
    assert_eq!(lines(&Decision::Deny(Denial::Frozen(None)), None, Some(300)), [json!({"event": "freeze-deny"})]);
}

/// Alice's freeze, for a reason.
fn freeze() -> Hold {
    Hold { token: None, reason: Some("incident 7".into()), ..next() }
}

#[test]
fn a_freeze_tells_its_lease_and_its_reason_and_has_no_token() {
    let id = next().lock_id.to_string();
    let frozen = json!({"event": "freeze", "lock_id": id, "ttl_sec": 300, "extra": {"reason": "incident 7"}});
    let placed = commit(Some(freeze()), Cause::Freeze, None);
    assert_eq!(lines(&placed, None, None), std::slice::from_ref(&frozen));
    assert_eq!(lines(&placed, Some(&freeze()), None), [frozen], "an extension is the same event");
    let bare = commit(Some(Hold { reason: None, ttl_sec: 0, ..freeze() }), Cause::Freeze, None);
    assert_eq!(lines(&bare, None, None), [json!({"event": "freeze", "lock_id": id})], "without either it says neither");
}

#[test]
fn a_freeze_over_one_that_was_over_names_that_first() {
    let old = Hold { token: None, ..victim() };
    let placed = commit(Some(freeze()), Cause::Freeze, Some(Broken::Stale(Staleness::Expired)));
    let lines = lines(&placed, Some(&old), None);
    assert_eq!(lines[0]["event"], "auto-prune");
    assert_eq!(lines[0]["extra"]["pruned_owner"], "bob", "whose it was");
    assert_eq!((&lines[1]["event"], lines.len()), (&json!("freeze"), 2));
}

#[test]
fn an_unfreeze_is_about_the_freeze_that_ended_and_a_forced_one_names_its_victim() {
    let old = Hold { token: None, ..victim() };
    let ended = json!({"event": "unfreeze", "lock_id": VICTIM_ID, "ttl_sec": 60});
    assert_eq!(lines(&commit(None, Cause::Unfreeze, None), Some(&old), None), [ended]);
    let forced = json!({"event": "force-unfreeze", "lock_id": VICTIM_ID, "ttl_sec": 60,
        "extra": {"pruned_host": "vm", "pruned_owner": "bob", "pruned_pid": 100}});
    assert_eq!(lines(&commit(None, Cause::ForceUnfreeze, None), Some(&old), None), [forced]);
    let unread = json!({"event": "force-unfreeze"});
    assert_eq!(
        lines(&commit(None, Cause::ForceUnfreeze, None), None, None),
        [unread],
        "what can't be read has no name"
    );
}

#[test]
fn a_publication_tells_its_token_and_a_refused_one_only_what_was_claimed() {
    let (me, now) = (asker("alice"), at("2026-11-15T18:00:00Z"));
    let done = published(&next(), "build", "/srv/site", &me, now);
    assert_eq!((done.event.as_str(), done.lock_id.as_str()), ("publish", next().lock_id.as_str()));
    assert_eq!((&done.extra["target"], &done.extra["fencing_token"]), (&json!("/srv/site"), &json!(8)));
    assert_eq!(done.ttl_sec, 0, "it isn't about a lease");
    assert_eq!(token_in(&done.encode()), Some(fence(8)), "token-order: it is about a hold");
    let denied = publish_denied(99, "build", "/srv/site", &me, now);
    assert_eq!((denied.event.as_str(), denied.lock_id.as_str()), ("publish-deny", ""));
    assert_eq!(denied.extra["named_token"], json!(99));
    assert_eq!(token_in(&denied.encode()), None, "token-order: anybody can name a token that was never given");
}

#[test]
fn a_log_without_tokens_does_not_look_like_that_of_a_root_that_gave_some() {
    let (me, now) = (asker("alice"), at("2026-11-15T18:00:00Z"));
    let line = |event: &str| Event::new(event, "build", &me, now);
    for event in ["acquire", "renew", "deny", "release", "force-break", "stale-break", "corrupt-break", "auto-prune"] {
        assert!(!may_be_of_a_token(&line(event).encode()), "as the Go program writes it, {event} is about no token");
    }
    for event in ["freeze", "unfreeze", "force-unfreeze", "freeze-deny"] {
        assert!(!may_be_of_a_token(&line(event).encode()), "{event} is about no token");
    }
    let named = line("publish-deny").with("named_token", 7);
    assert!(!may_be_of_a_token(&named.encode()), "what was only named may never have been given");
    for event in ["acquire", "renew", "release", "auto-prune", "publish", "something new"] {
        let event = line(event).with("fencing_token", 7);
        assert!(may_be_of_a_token(&event.encode()), "token-order: {} is about a token", event.event);
    }
    let odd = line("acquire").with("fencing_token", "seven");
    assert!(may_be_of_a_token(&odd.encode()), "token-order: so is one that can't be read");
    assert!(may_be_of_a_token(b"{torn"), "token-order: what can't be read may be anything");
    assert!(!may_be_of_a_token(b""), "an empty line is none");
}

#[test]
fn what_changes_nothing_and_refuses_no_hold_leaves_no_event() {
    let silent = [
        Denial::Newer { version: 2 },
        Denial::Corrupt { why: "no JSON".into() },
        Denial::Missing,
        Denial::NotYours(holder(victim())),
        Denial::Guarded(holder(victim())),
        Denial::OtherHold(holder(victim())),
        Denial::StaleToken { named: 1, current: None },
        Denial::OtherIssuer { named: 1, holder: holder(victim()) },
        Denial::Over(holder(victim())),
        Denial::NotStale(holder(victim())),
        Denial::Lost(Some(holder(victim()))),
        Denial::Lost(None),
        Denial::Kept,
    ];
    for denial in silent {
        let decision = Decision::Deny(denial);
        assert_eq!(lines(&decision, Some(&victim()), Some(300)), Vec::<Value>::new(), "{decision:?}");
    }
    assert_eq!(lines(&Decision::Inside, Some(&victim()), Some(300)), Vec::<Value>::new());
}

#[test]
fn a_line_is_exact_to_the_byte() {
    let granted = commit(Some(next()), Cause::Acquire, Some(Broken::Stale(Staleness::ProcessGone)));
    let me = asker("alice");
    let written: Vec<String> =
        events(&granted, Some(&victim()), Some(300), "build", &me, at("2026-11-15T17:48:13.22130836Z"))
            .iter()
            .map(|event| String::from_utf8(event.encode()).expect("a line is UTF-8"))
            .collect();
    assert_eq!(
        written,
        [
            concat!(
                r#"{"ts":"2026-11-15T17:48:13.22130836Z","event":"auto-prune","name":"build","#,
                r#""lock_id":"5e0000000000000000000000000000f1","owner":"alice","host":"vm","pid":4242,"agent_id":"agent-new","#,
                r#""extra":{"fencing_token":7,"pruned_host":"vm","pruned_owner":"bob","pruned_pid":100,"reason":"dead_pid"}}"#,
                "\n"
            ),
            concat!(
                r#"{"ts":"2026-11-15T17:48:13.22130836Z","event":"acquire","name":"build","#,
                r#""lock_id":"000000000000000000000000000000f2","owner":"alice","host":"vm","pid":4242,"agent_id":"agent-new","#,
                r#""ttl_sec":300,"extra":{"fencing_token":8}}"#,
                "\n"
            ),
        ]
    );
}

#[test]
fn text_with_newlines_stays_one_line() {
    let mut me = asker("alice\nbob\r\u{2028}");
    me.agent_id = String::new();
    let line = Event::new("renew", "build", &me, at("2026-11-15T18:00:00Z")).with("reason", "a\nb").encode();
    let line = String::from_utf8(line).expect("a line is UTF-8");
    assert_eq!(line.find('\n'), Some(line.len() - 1), "one event, one line");
    assert!(!line.contains("agent_id"), "an empty agent is left out");
}

#[test]
fn a_line_of_the_go_program_reads_as_an_event() {
    let line = concat!(
        r#"{"ts":"2026-11-15T17:48:13.22130836Z","event":"auto-prune","name":"x","lock_id":"cdc1","owner":"bob","#,
        r#""host":"vm","pid":29442,"agent_id":"agent-c800","#,
        r#""extra":{"pruned_host":"vm","pruned_owner":"alice","pruned_pid":29437}}"#,
    );
    let event: Event = serde_json::from_str(line).expect("it is an event");
    assert_eq!((event.event.as_str(), event.pid, event.ttl_sec), ("auto-prune", 29442, 0));
    assert_eq!(event.extra["pruned_owner"], json!("alice"));
    assert_eq!(String::from_utf8(event.encode()).expect("a line is UTF-8"), format!("{line}\n"));
}

#[test]
fn only_what_took_something_from_somebody_or_froze_is_synced() {
    let event = |name: &str| Event::new(name, "build", &asker("alice"), at("2026-11-15T18:00:00Z")).is_synced();
    for name in [
        "force-break",
        "stale-break",
        "corrupt-break",
        "auto-prune",
        "token-rebase",
        "freeze",
        "unfreeze",
        "force-unfreeze",
    ] {
        assert!(event(name), "{name} could be lost in a power cut");
    }
    for name in ["acquire", "renew", "release", "deny", "freeze-deny", "publish", "publish-deny"] {
        assert!(!event(name), "{name} costs a sync");
    }
}

#[test]
fn token_order_every_event_about_a_hold_tells_its_token() {
    let me = asker("alice");
    let decisions = [
        commit(Some(next()), Cause::Acquire, Some(Broken::Stale(Staleness::Expired))),
        commit(Some(next()), Cause::Renew, None),
        commit(None, Cause::Release(PartKind::Owner), None),
        commit(None, Cause::ForceBreak, None),
        commit(None, Cause::StaleBreak, None),
        commit(None, Cause::Prune, None),
    ];
    for decision in decisions {
        for event in events(&decision, Some(&victim()), None, "build", &me, at("2026-11-15T18:00:00Z")) {
            let token = token_in(&event.encode());
            assert!(token == Some(fence(7)) || token == Some(fence(8)), "{} hides its token", event.event);
        }
    }
}

#[test]
fn token_order_tokens_are_found_in_lines_and_nowhere_else() {
    for (line, token) in [
        (r#"{"extra":{"fencing_token":7}}"#, Some(7)),
        (
            r#"{"ts":"x","event":"acquire","pid":1,"extra":{"a":[{}],"fencing_token":9007199254740991}}"#,
            Some((1 << 53) - 1),
        ),
        (r#"{"extra":{"fencing_token":null}}"#, None),
        (r#"{"extra":{"fencing_token":0}}"#, None),
        (r#"{"extra":{"fencing_token":9007199254740992}}"#, None),
        (r#"{"extra":{"fencing_token":-1}}"#, None),
        (r#"{"extra":{"fencing_token":"7"}}"#, None),
        (r#"{"extra":{"fencing_token":7.0}}"#, None),
        (r#"{"fencing_token":7}"#, None),
        (r#"{"extra":{}}"#, None),
        (r#"{"extra":null}"#, None),
        ("{}", None),
        ("", None),
        ("null", None),
        (r#"{"extra":{"fencing_token":7}"#, None),
        (r#"{"extra":{"fencing_token":7}}{"extra":{"fencing_token":8}}"#, None),
    ] {
        assert_eq!(token_in(line.as_bytes()), token.map(fence), "{line}");
    }
    assert_eq!(token_in(b"{\"extra\":{\"fencing_token\":7}}\n"), Some(fence(7)), "with its newline");
    assert_eq!(token_in(b"\xff\xfe"), None);
}

#[test]
fn no_line_is_longer_than_readers_take() {
    let monster = "\u{1}é".repeat(300_000);
    let me =
        Identity { owner: monster.clone(), host: monster.clone(), agent_id: monster.clone(), ..Identity::default() };
    let event = Event::new("deny", "x", &me, jiff::Timestamp::UNIX_EPOCH)
        .with("holder_owner", monster.as_str())
        .with("holder_pid", 7);
    let line = event.encode();
    assert!(line.len() <= LINE_BYTES_MAX, "{} bytes", line.len());
    let read: Event = serde_json::from_slice(&line).expect("a cut line is still an event");
    assert!(read.owner.ends_with("… (cut)"), "it says that it was cut");
    assert_eq!(read.extra["holder_pid"], 7, "numbers stay");

    let long = "o".repeat(70_000);
    let me = Identity { owner: long.clone(), ..Identity::default() };
    let line = Event::new("acquire", "x", &me, jiff::Timestamp::UNIX_EPOCH).encode();
    let read: Event = serde_json::from_slice(&line).expect("an event");
    assert_eq!(read.owner, long, "nothing is cut without need");
}

#[test]
fn every_event_that_a_decision_leaves_is_a_known_one() {
    let decisions = [
        commit(Some(next()), Cause::Acquire, Some(Broken::Stale(Staleness::Expired))),
        commit(Some(next()), Cause::Acquire, Some(Broken::Corrupt)),
        commit(Some(next()), Cause::Renew, None),
        commit(None, Cause::Release(PartKind::Owner), None),
        commit(None, Cause::ForceBreak, None),
        commit(None, Cause::StaleBreak, None),
        commit(None, Cause::CorruptBreak, None),
        commit(None, Cause::Prune, None),
        Decision::Deny(Denial::Held(holder(victim()))),
        Decision::Deny(Denial::Frozen(None)),
    ];
    for decision in decisions {
        for event in events(&decision, Some(&victim()), None, "build", &asker("alice"), at("2026-11-15T18:00:00Z")) {
            assert!(EVENTS.contains(&event.event.as_str()), "{} can be asked for", event.event);
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    let event = Event::new("deny", "build", &asker("alice"), at("2026-11-15T18:00:00.25Z")).with("holder_pid", 7);
    let bytes = event.encode();
    let line = Line::parse(&bytes).expect("it is an event");
    assert_eq!(
        (line.event(), line.name(), line.text_of("owner"), line.number("pid")),
        ("deny", "build", "alice", 4242)
    );
    assert_eq!(line.at, at("2026-11-15T18:00:00.25Z"));
    assert_eq!(line.extra("holder_pid"), Some(&json!(7)));
    assert_eq!(format!("{}\n", line.text).as_bytes(), bytes, "the text is the line without its newline");
}

#[test]
fn a_line_needs_a_time_an_event_and_a_name_and_nothing_else() {
    let line = Line::parse(br#" {"ts":"2026-11-15T13:00:00-05:00","event":"x","name":"","pid":"7","new":[1]} "#);
    let line = line.expect("members of another kind are not there");
    assert_eq!((line.number("pid"), line.text_of("owner"), line.extra("a")), (0, "", None));
    assert_eq!(line.at, at("2026-11-15T18:00:00Z"), "any offset will do");
    assert!(line.text.starts_with('{') && line.text.ends_with('}'), "what surrounds the object is cut off");
    for text in [
        "",
        " ",
        "null",
        "[]",
        "7",
        "{}",
        r#"{"event":"x","name":"y"}"#,
        r#"{"ts":"yesterday","event":"x","name":"y"}"#,
        r#"{"ts":1,"event":"x","name":"y"}"#,
        r#"{"ts":"2026-11-15T18:00:00Z","event":"x"}"#,
        r#"{"ts":"2026-11-15T18:00:00Z","event":7,"name":"y"}"#,
        r#"{"ts":"2026-11-15T18:00:00Z","event":"x","name":"y""#,
        r#"{"ts":"2026-11-15T18:00:00Z","event":"x","name":"y"}{}"#,
    ] {
        assert!(Line::parse(text.as_bytes()).is_none(), "{text} tells of no event");
    }
    let mut torn = br#"{"ts":"2026-11-15T18:00:00Z","event":"x","name":"y","z":"?"}"#.to_vec();
    assert!(Line::parse(&torn).is_some(), "it is an event");
    let place = torn.iter().position(|byte| *byte == b'?').expect("it is there");
    torn[place] = 0xff;
    assert!(Line::parse(&torn).is_none(), "what is no text is no event, wherever it is");
}

#[test]
fn a_filter_wants_any_of_each_list_and_all_lists() {
    let line = |event: &str, name: &str, owner: &str| {
        Event::new(event, name, &asker(owner), at("2026-11-15T18:00:00Z")).with("pruned_owner", "victim").encode()
    };
    let of = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    let filter = Filter {
        since: None,
        names: of(&["a", "b"]),
        owners: of(&["alice", "bob"]),
        events: of(&["acquire", "release"]),
    };
    let wants = |filter: &Filter, bytes: &[u8]| filter.wants(&Line::parse(bytes).expect("it is an event"));
    for (event, name, owner, wanted) in [
        ("acquire", "a", "alice", true),
        ("release", "b", "bob", true),
        ("renew", "a", "alice", false),
        ("acquire", "c", "alice", false),
        ("acquire", "a", "carol", false),
        ("acquire", "A", "alice", false),
    ] {
        assert_eq!(wants(&filter, &line(event, name, owner)), wanted, "{event} of {name} by {owner}");
    }
    assert!(wants(&Filter::default(), &line("whatever", "z", "z")), "without lists everything is wanted");
    let victim = Filter { owners: of(&["victim"]), ..Filter::default() };
    assert!(!wants(&victim, &line("auto-prune", "a", "alice")), "an owner is who did it, not to whom");
    for (since, wanted) in
        [("2026-11-15T17:59:59Z", true), ("2026-11-15T18:00:00Z", true), ("2026-11-15T18:00:00.000000001Z", false)]
    {
        let filter = Filter { since: Some(at(since)), ..Filter::default() };
        assert_eq!(wants(&filter, &line("acquire", "a", "alice")), wanted, "since {since}");
    }
}

fn acquired() -> [Event; 3] {
    ["acquire", "release", "deny"].map(|kind| Event::new(kind, "build", &asker("alice"), at("2026-11-15T18:00:00Z")))
}

#[test]
fn how_a_hold_was_come_by_and_how_it_ended_are_told_to_the_events_that_they_are_about() {
    let words = ["/usr/bin/make".to_owned(), "-j8".to_owned()];
    let account = Account {
        wait: Some(Wait { ms: 1500, position: 2 }),
        program: Some(Program::of(&words, true)),
        ended: Some(Ended::Code(2)),
        held_ms: Some(30),
    };
    let mut events = acquired();
    account.complete(&mut events);
    let extra = |event: &Event| serde_json::to_value(&event.extra).expect("it is JSON");
    let [acquire, release, deny] = &events;
    assert_eq!(
        extra(acquire),
        json!({"command": ["/usr/bin/make", "-j8"], "program": "make", "queue_position": 2, "waited_ms": 1500})
    );
    assert_eq!(extra(release), json!({"exit_code": 2, "held_ms": 30}));
    assert_eq!(extra(deny), json!({}), "nothing was held");
    let mut events = acquired();
    Account { ended: Some(Ended::Signal(9)), ..Account::default() }.complete(&mut events);
    assert_eq!(
        (extra(&events[0]), extra(&events[1])),
        (json!({}), json!({"signal": 9})),
        "what isn't known is left out"
    );
    assert_eq!(Event::parse(&events[1].encode()), Some(events[1].clone()), "it reads back");
}

#[test]
fn a_program_is_the_last_component_of_its_path() {
    let name = |path: &str| Program::of(&[path.to_owned()], false).name;
    for (path, expected) in
        [("make", "make"), ("./build.sh", "build.sh"), ("/usr/bin/env", "env"), ("a/", "a"), ("/", "/"), ("", "")]
    {
        assert_eq!(name(path), expected, "of {path:?}");
    }
    assert_eq!(Program::of(&["true".to_owned(), "secret".to_owned()], false).command, None);
    let mut words = vec!["x".to_owned(); 3];
    words[1] = "y".repeat(LINE_BYTES_MAX);
    let program = Program::of(&words, true);
    assert_eq!(program.command, Some(vec!["x".to_owned(), "… (cut)".to_owned()]), "a line has room for it");
}
