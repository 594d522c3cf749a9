//! Claims, row by row: what events of both families mean, what is decided about them, and which events that becomes.

/// The figures of docs/guarantees.md. The testkit depends on this crate, so its file is included.
#[path = "../../testkit/src/tally.rs"]
#[expect(dead_code, unreachable_pub, reason = "it has more than properties need, and others use it, too")]
mod tally;
mod claims {
    pub(crate) mod book;
    mod play;
    mod properties;
}

use claims::book::{Book, at, member};
use lokt_core::denial::{Denial, Holder};
use lokt_core::ledger::claiming::{Refused, check_node};
use lokt_core::ledger::claims::{End, Remark};
use lokt_core::ledger::lock_file::LockFile;
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::time::parse_wall;

fn seq(number: u64) -> Seq {
    Seq::new(number).expect("not zero")
}

fn held(refused: &Refused) -> &Holder {
    match refused {
        Refused::Hold(Denial::Held(holder)) => holder,
        other => panic!("it is held, but was {other:?}"),
    }
}

#[test]
fn the_documented_family_is_folded_as_documented() {
    let mut book = Book::new(Style::Documented);
    book.write(r#"{"type":"custom_event","timestamp":"2024-01-15T10:30:00Z"}"#);
    book.write(
        r#"{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"1.2.3","owner":"a","expires_at":"2024-01-15T10:35:00Z"}"#,
    );
    let claim = book.table.claim("1.2.3").expect("it was acquired");
    assert_eq!((claim.owner.as_str(), claim.token, claim.seq), ("a", seq(2), seq(2)));
    assert_eq!(claim.end, End::At(parse_wall("2024-01-15T10:35:00Z").expect("a time")));
    book.write(
        r#"{"type":"lock_acquired","timestamp":"2024-01-15T10:31:00Z","node_id":"1.2.3","owner":"b","expires_at":"2024-01-15T10:36:00Z"}"#,
    );
    let displaced = Remark::Displaced { node: "1.2.3".into(), owner: "a".into(), token: seq(2), live: true };
    assert_eq!(book.remarks, [displaced], "the last one holds, and that it displaced another is told");
    assert_eq!(book.table.claim("1.2.3").map(|claim| (claim.owner.as_str(), claim.token)), Some(("b", seq(3))));
    book.write(r#"{"type":"lock_released","timestamp":"2024-01-15T10:32:00Z","node_id":"1.2.3","owner":"somebody"}"#);
    assert!(book.table.is_empty(), "any release frees, whoever wrote it");
    book.write(r#"{"type":"lock_reaped","timestamp":"2024-01-15T10:32:00Z","node_id":"1.2.3","owner":"b"}"#);
    assert_eq!(book.remarks.last(), Some(&Remark::Unheld { node: "1.2.3".into() }));
}

#[test]
fn a_refresh_keeps_the_token_only_of_the_claim_that_it_names() {
    let mut book = Book::new(Style::Documented);
    let acquired = |owner: &str, refresh_of: &str| {
        format!(
            r#"{{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"n","owner":"{owner}","expires_at":"2024-01-15T10:35:00Z"{refresh_of}}}"#
        )
    };
    book.write(&acquired("a", ""));
    book.write(&acquired("a", r#","refresh_of":1"#));
    assert_eq!(book.table.claim("n").map(|claim| (claim.token, claim.seq)), Some((seq(1), seq(2))));
    book.write(&acquired("a", ""));
    assert_eq!(book.table.claim("n").map(|claim| claim.token), Some(seq(3)), "without refresh_of a claim begins");
    book.write(&acquired("a", r#","refresh_of":1"#));
    assert_eq!(book.table.claim("n").map(|claim| claim.token), Some(seq(4)), "that claim is over");
    book.write(&acquired("b", r#","refresh_of":4"#));
    assert_eq!(book.table.claim("n").map(|claim| claim.token), Some(seq(5)), "nobody refreshes another's claim");
}

#[test]
fn the_native_family_says_the_same_in_other_words() {
    let mut book = Book::with_nodes(&["1", "1.1"]);
    let first = book.head + 1;
    book.write(
        r#"{"type":"nodes_claimed","timestamp":"2024-01-15T10:30:00Z","node_ids":["1","1.1"],"owner":"a","timeout":"2024-01-15T11:30:00Z"}"#,
    );
    book.write(
        r#"{"type":"claim_refreshed","timestamp":"2024-01-15T10:30:00Z","node_id":"1","owner":"a","new_timeout":"2024-01-15T12:30:00Z"}"#,
    );
    let claim = book.table.claim("1").expect("it is claimed");
    assert_eq!((claim.token, claim.seq), (seq(first), seq(first + 1)));
    assert_eq!(claim.end, End::At(parse_wall("2024-01-15T12:30:00Z").expect("a time")));
    assert_eq!(book.table.of_token(seq(first)).count(), 2, "one event claims two nodes under one token");
    for (owner, node) in [("b", "1"), ("a", "1.9")] {
        book.write_refused(&format!(
            r#"{{"type":"claim_refreshed","timestamp":"2024-01-15T10:30:00Z","node_id":"{node}","owner":"{owner}","new_timeout":"2034-01-15T12:30:00Z"}}"#
        ));
        let remark = Remark::NotRefreshed { node: node.into(), owner: owner.into() };
        assert_eq!(book.remarks.last(), Some(&remark));
    }
    book.write(r#"{"type":"nodes_released","timestamp":"2024-01-15T10:30:00Z","node_ids":["1"]}"#);
    assert!(book.table.claim("1").is_none() && book.table.claim("1.1").is_some());
    book.write(r#"{"type":"nodes_released","timestamp":"2024-01-15T10:30:00Z","node_ids":[]}"#);
    book.write(r#"{"type":"nodes_released","timestamp":"2024-01-15T10:30:00Z","node_ids":null}"#);
    assert_eq!(book.table.len(), 1, "releasing nothing is a no-op");
}

#[test]
fn a_node_that_is_made_again_has_the_claim_that_it_is_made_with() {
    let mut book = Book::with_nodes(&["1"]);
    book.take("a", "1").expect("it is free");
    book.create("1");
    assert!(book.table.claim("1").is_none(), "the new node is nobody's");
    book.write(
        r#"{"type":"node_created","timestamp":"2024-01-15T10:30:00Z","node":{"id":"1","workflow_state":"claimed","epistemic_state":"pending","claimed_by":"z","claimed_at":"2034-01-15T10:30:00Z"}}"#,
    );
    assert_eq!(book.table.claim("1").map(|claim| claim.owner.as_str()), Some("z"));
    let mut documented = Book::new(Style::Documented);
    documented.take("a", "1").expect("it is free");
    documented.create("1");
    assert!(documented.table.claim("1").is_some(), "in the documented style that type means nothing");
}

#[test]
fn odd_claims_are_never_a_panic() {
    // (events, owner of the claim on n, is it damage)
    for (json, owner, is_damage) in [
        (r#"{"type":"lock_acquired","node_id":"n","owner":"a"}"#, Some("a"), false),
        (r#"{"type":"lock_acquired","node_id":"n","owner":"a","expires_at":"0001-01-01T00:00:00Z"}"#, Some("a"), false),
        (r#"{"type":"lock_acquired","node_id":"n","expires_at":"2034-01-15T10:30:00Z"}"#, Some(""), false),
        (r#"{"type":"lock_acquired","node_id":"n","owner":null,"expires_at":null}"#, Some(""), false),
        (r#"{"type":"lock_acquired","node_id":"n","owner":"a","expires_at":"soon"}"#, Some("a"), false),
        (r#"{"type":"lock_acquired","node_id":"n","owner":"a","expires_at":12}"#, Some("a"), false),
        (r#"{"type":"lock_acquired","node_id":"n","owner":"a","expires_at":"9999-12-31T23:59:59Z"}"#, Some("a"), false),
        (
            r#"{"type":"lock_acquired","node_id":"n","owner":"a","expires_at":"2034-01-15T10:30:00,5+02:00"}"#,
            Some("a"),
            false,
        ),
        (r#"{"type":"lock_acquired","node_id":"n","owner":7,"expires_at":"2034-01-15T10:30:00Z"}"#, None, true),
        (r#"{"type":"lock_acquired","owner":"a","expires_at":"2034-01-15T10:30:00Z"}"#, None, true),
        (r#"{"type":"lock_acquired","node_id":7,"owner":"a"}"#, None, true),
        (r#"{"type":"lock_released"}"#, None, true),
        (r#"{"type":"nodes_claimed","node_ids":"n"}"#, None, true),
        (r#"{"type":"nodes_claimed","node_ids":[1]}"#, None, true),
        (r#"{"type":"nodes_claimed","node_ids":["n"]}"#, Some(""), false),
        (r#"{"type":"nodes_claimed","node_ids":["n","n"],"owner":"a","ttl_sec":0,"boot_id":7}"#, Some("a"), false),
        (r#"{"type":"nodes_released"}"#, None, false),
    ] {
        let mut book = Book::new(Style::Documented);
        book.write(json);
        assert_eq!(book.table.claim("n").map(|claim| claim.owner.as_str()), owner, "{json}");
        assert_eq!(book.remarks.iter().any(Remark::is_damage), is_damage, "{json}: {:?}", book.remarks);
        let _ = book.take("me", "n");
        let _ = book.reap("me");
    }
}

#[test]
fn a_claim_without_an_end_that_can_be_read_is_kept_and_the_refusal_says_why() {
    let mut book = Book::new(Style::Documented);
    book.write(
        r#"{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"n","owner":"a","expires_at":"soon"}"#,
    );
    book.pass(1_000_000);
    assert!(book.reap("b").claims.is_empty(), "nobody can say that it is over");
    match book.take("b", "n") {
        Err(Refused::Hold(Denial::Corrupt { why })) => {
            assert!(why.contains("soon") && why.contains("event 1"), "{why}");
        }
        other => panic!("it can't be had, but: {other:?}"),
    }
    let again = book.take("a", "n").expect("its owner goes on");
    assert_eq!(again.token, Some(seq(1)));
    assert!(matches!(book.table.claim("n").map(|claim| &claim.end), Some(End::At(_))), "and it has an end now");
}

#[test]
fn a_claim_with_zero_expiry_is_anybodys() {
    let mut book = Book::with_nodes(&["1"]);
    book.write(r#"{"type":"nodes_claimed","timestamp":"2024-01-15T10:30:00Z","node_ids":["1"]}"#);
    let taken = book.take("b", "1").expect("it has expired since the beginning of time");
    assert_eq!(taken.from.as_deref(), Some(""));
}

#[test]
fn our_documented_events_have_the_members_in_their_order() {
    let mut book = Book::new(Style::Documented);
    book.take("a", "n").expect("it is free");
    let taken = r#"{"type":"lock_acquired","timestamp":"2026-11-16T00:00:00Z","node_id":"n","owner":"a","expires_at":"2026-11-16T00:01:00Z","ttl_sec":60,"boot_id":"boot","boottime_ms":1000000,"host":"here","pid":77}"#;
    assert_eq!(book.lines, [taken]);
    book.take("a", "n").expect("it is ours");
    let refreshed = r#"{"type":"lock_acquired","timestamp":"2026-11-16T00:00:00Z","node_id":"n","owner":"a","expires_at":"2026-11-16T00:01:00Z","refresh_of":1,"ttl_sec":60,"boot_id":"boot","boottime_ms":1000000,"host":"here","pid":77}"#;
    assert_eq!(book.lines[1..], [refreshed]);
    book.release("a", "n", None).expect("it is ours");
    let released = r#"{"type":"lock_released","timestamp":"2026-11-16T00:00:00Z","node_id":"n","owner":"a","token":1}"#;
    assert_eq!(book.lines[2..], [released]);
    book.take("a", "n").expect("it is free");
    book.pass(61_000);
    book.reap("b");
    let reaped = r#"{"type":"lock_reaped","timestamp":"2026-11-16T00:01:01Z","node_id":"n","owner":"a","token":4,"boot_id":"boot","boottime_ms":1061000}"#;
    assert_eq!(book.lines[4..], [reaped]);
}

#[test]
fn our_native_events_have_the_members_in_their_order() {
    let mut book = Book::with_nodes(&["1", "1.1"]);
    let start = book.lines.len();
    let token = book.head + 1;
    book.take("a", "1").expect("it is free");
    book.take("a", "1").expect("it is ours");
    book.release("a", "1", None).expect("it is ours");
    let signature = r#""ttl_sec":60,"boot_id":"boot","boottime_ms":1000000,"host":"here","pid":77}"#;
    let expected = [
        format!(
            r#"{{"type":"nodes_claimed","timestamp":"2026-11-16T00:00:00Z","node_ids":["1"],"owner":"a","timeout":"2026-11-16T00:01:00Z",{signature}"#
        ),
        format!(
            r#"{{"type":"claim_refreshed","timestamp":"2026-11-16T00:00:00Z","node_id":"1","owner":"a","new_timeout":"2026-11-16T00:01:00Z","refresh_of":{token},{signature}"#
        ),
        format!(
            r#"{{"type":"nodes_released","timestamp":"2026-11-16T00:00:00Z","node_ids":["1"],"owner":"a","token":{token}}}"#
        ),
    ];
    assert_eq!(book.lines[start..], expected);
    let (one, two) = (book.head + 1, book.head + 2);
    book.take("a", "1").expect("it is free");
    book.take("b", "1.1").expect("it is free");
    book.pass(61_000);
    assert_eq!(book.reap("c").claims.len(), 2);
    let reaped = format!(
        r#"{{"type":"nodes_released","timestamp":"2026-11-16T00:01:01Z","node_ids":["1","1.1"],"reason":"expired","previous_owners":["a","b"],"tokens":[{one},{two}]}}"#
    );
    assert_eq!(book.lines.last(), Some(&reaped), "one event for all");
}

#[test]
fn a_node_has_one_owner_until_its_end_and_an_expired_one_is_taken_over_in_two_events() {
    for mut book in [Book::new(Style::Documented), Book::with_nodes(&["1"])] {
        let token = seq(book.head + 1);
        let taken = book.take("a", "1").expect("it is free");
        assert_eq!((taken.token, taken.from, taken.expires_at), (None, None, at(60_000)));
        let refused = book.take("b", "1").expect_err("it is a's");
        assert_eq!((held(&refused).hold.owner.as_str(), held(&refused).left_ms()), ("a", Some(60_000)));
        book.pass(60_000);
        book.take("b", "1").expect_err("its last moment is its owner's");
        book.pass(1);
        let before = book.head;
        let taken = book.take("b", "1").expect("it has expired");
        assert_eq!((taken.token, taken.from.as_deref(), book.head - before), (None, Some("a"), 2));
        assert_eq!(book.table.claim("1").map(|claim| claim.token), Some(seq(before + 2)));
        // The old owner comes late.
        for refused in [book.extend("a", "1", None).err(), book.release("a", "1", None).err()] {
            assert!(matches!(refused, Some(Refused::Hold(Denial::NotYours(_)))), "{refused:?}");
        }
        for refused in [book.extend("a", "1", Some(token)).err(), book.release("a", "1", Some(token)).err()] {
            assert!(matches!(refused, Some(Refused::Hold(Denial::StaleToken { .. }))), "{refused:?}");
        }
        assert!(matches!(book.check("a", token), Err(Denial::StaleToken { .. })));
        assert_eq!(book.head, before + 2, "what was refused wrote nothing");
    }
}

#[test]
fn an_expired_claim_of_ones_own_is_neither_extended_nor_released_but_taken_anew() {
    for mut book in [Book::new(Style::Documented), Book::with_nodes(&["1"])] {
        let token = seq(book.head + 1);
        book.take("a", "1").expect("it is free");
        book.pass(60_001);
        for refused in [book.extend("a", "1", None).err(), book.release("a", "1", None).err()] {
            assert!(matches!(refused, Some(Refused::Hold(Denial::Over(_)))), "{refused:?}");
        }
        let denial = book.check("a", token).expect_err("it is over");
        assert_eq!(denial.code(), "E_LOCK_EXPIRED");
        let before = book.head;
        let taken = book.take("a", "1").expect("nobody was faster");
        assert_eq!((taken.token, taken.from.as_deref(), book.head - before), (None, Some("a"), 2));
        assert!(matches!(book.check("a", token), Err(Denial::StaleToken { .. })), "the old token is stale");
    }
}

#[test]
fn nothing_is_not_ended_and_not_extended() {
    for mut book in [Book::new(Style::Documented), Book::with_nodes(&["1"])] {
        for refused in [book.extend("a", "1", None).err(), book.release("a", "1", None).err()] {
            assert_eq!(refused, Some(Refused::Hold(Denial::Missing)));
        }
        assert!(book.reap("a").drafts.is_empty(), "there is nothing to reap, so nothing is written");
    }
}

#[test]
fn an_extension_counts_from_now_and_keeps_the_token() {
    for mut book in [Book::new(Style::Documented), Book::with_nodes(&["1"])] {
        let token = seq(book.head + 1);
        book.take("a", "1").expect("it is free");
        book.pass(50_000);
        let extended = book.extend("a", "1", Some(token)).expect("it lives");
        assert_eq!((extended.token, extended.expires_at), (Some(token), at(110_000)));
        book.pass(50_000);
        assert!(book.reap("b").claims.is_empty(), "it was extended");
        assert_eq!(book.check("a", token), Ok(()));
    }
}

#[test]
fn on_its_boot_a_claim_of_ours_ends_by_the_boot_clock_elsewhere_by_the_wall_clock() {
    let mut book = Book::new(Style::Documented);
    book.take("a", "n").expect("it is free");
    book.wall_shift_ms = 3_600_000;
    book.take("b", "n").expect_err("only the wall clock was set");
    book.boot = "next".into();
    book.take("b", "n").expect("by the wall clock it is over, and on another boot that is all there is");
    let mut book = Book::new(Style::Documented);
    book.take("a", "n").expect("it is free");
    book.pass(61_000);
    book.wall_shift_ms = -3_600_000;
    book.take("b", "n").expect("the boot clock went on");
}

#[test]
fn a_claim_keeps_its_token_over_a_reboot() {
    for mut book in [Book::new(Style::Documented), Book::with_nodes(&["1"])] {
        let token = seq(book.head + 1);
        book.take("a", "1").expect("it is free");
        book.boot = "next".into();
        assert_eq!(book.take("a", "1").expect("it is a's").token, Some(token), "the log is durable");
        assert_eq!(book.extend("a", "1", None).expect("it is a's").token, Some(token));
    }
}

#[test]
fn copied_members_without_the_times_do_not_count() {
    let mut book = Book::new(Style::Documented);
    book.write(
        r#"{"type":"lock_acquired","timestamp":"2026-11-16T00:00:00Z","node_id":"n","owner":"a","expires_at":"2026-11-16T00:00:05Z","ttl_sec":6000,"boot_id":"boot","boottime_ms":1000000}"#,
    );
    book.pass(6_000);
    book.take("b", "n").expect("its end is what it says, not what somebody copied");
}

#[test]
fn of_several_nodes_the_first_that_can_be_had_is_taken() {
    let mut book = Book::with_nodes(&["1", "1.1", "1.2"]);
    book.take("a", "1").expect("it is free");
    let refused = book.take_any("b", &["1", "1.9"]).expect_err("neither can be had");
    assert_eq!((refused[0].0.as_str(), held(&refused[0].1).hold.owner.as_str()), ("1", "a"));
    assert_eq!(refused[1], ("1.9".into(), Refused::NoSuchNode));
    let taken = book.take_any("b", &["1.9", "1", "1.2", "1.1"]).expect("1.2 is free");
    assert_eq!(taken.node, "1.2");
}

#[test]
fn a_native_node_must_exist_and_be_available() {
    let mut book = Book::with_nodes(&["1"]);
    book.write(
        r#"{"type":"node_created","timestamp":"2024-01-15T10:30:00Z","node":{"id":"1.1","workflow_state":"blocked","epistemic_state":"pending"}}"#,
    );
    assert_eq!(book.take("a", "1.2").expect_err("there is none"), Refused::NoSuchNode);
    assert_eq!(book.release("a", "1.2", None).expect_err("there is none"), Refused::NoSuchNode);
    assert_eq!(book.take("a", "1.1").expect_err("it is blocked"), Refused::NotAvailable("blocked".into()));
    // Somebody wrote an event of the other family: it counts, although the native program can't read it.
    let until = "2034-01-15T10:30:00Z";
    book.write_refused(&format!(
        r#"{{"type":"lock_acquired","timestamp":"2024-01-15T10:30:00Z","node_id":"1","owner":"x","expires_at":"{until}"}}"#
    ));
    assert_eq!(held(&book.take("a", "1").expect_err("it is x's")).hold.owner, "x");
    assert!(matches!(book.release("x", "1", None), Err(Refused::NotAvailable(_))), "a release would make it worse");
    // When it has ended, nobody has to release it, and its node can be claimed.
    book.pass(10 * 365 * 86_400_000);
    assert!(book.reap("a").drafts.is_empty(), "the native program knows of no claim to end");
    let taken = book.take("a", "1").expect("it has ended");
    assert_eq!(taken.drafts.len(), 1, "and none is ended for it");
}

#[test]
fn a_lock_file_that_has_not_ended_keeps_others_out() {
    let json = |until: &str| {
        format!(r#"{{"node_id":"n","owner":"z","acquired_at":"2026-11-15T23:59:00Z","expires_at":"{until}"}}"#)
    };
    let mut book = Book::new(Style::Documented);
    book.files.push(LockFile::parse(json("2026-11-16T00:00:30.5Z").as_bytes()).expect("it has all four"));
    assert_eq!(held(&book.take("a", "n").expect_err("it is z's")).hold.owner, "z");
    book.take("a", "m").expect("another node");
    book.take("z", "n").expect("it is z's");
    book.release("z", "n", None).expect("it is z's");
    book.pass(31_000);
    book.take("a", "n").expect("the file has ended");
    for bad in ["", "[]", "{}", &json("soon"), &json("").replace('z', " "), r#"{"node_id":"n","owner":"z"}"#] {
        LockFile::parse(bad.as_bytes()).expect_err(bad);
    }
}

#[test]
fn a_claim_that_the_native_program_gives_to_another_is_neither_ended_nor_taken_over() {
    let mut book = Book::with_nodes(&["1"]);
    book.write(
        r#"{"type":"nodes_claimed","timestamp":"2026-11-16T00:00:00Z","node_ids":["1"],"owner":"a","timeout":"2026-11-16T00:01:00Z"}"#,
    );
    // An event of the other family, which that program doesn't read.
    book.write_refused(
        r#"{"type":"lock_acquired","timestamp":"2026-11-16T00:00:00Z","node_id":"1","owner":"b","expires_at":"2026-11-16T00:01:00Z"}"#,
    );
    let unread = "claimed for the native program, which can't read event 3".to_owned();
    assert_eq!(book.release("b", "1", None), Err(Refused::NotAvailable(unread.clone())));
    assert_eq!(book.extend("b", "1", None), Err(Refused::NotAvailable(unread)));
    book.pass(60_001);
    assert_eq!(
        book.take("c", "1"),
        Err(Refused::NotAvailable("claimed by a".into())),
        "it is over for us, not for them"
    );
    assert_eq!(book.reap("c").drafts, [], "nor is it ended in passing");
}

#[test]
fn ids_of_nodes_are_checked_by_style() {
    for node in ["n", "1", "01", "a b", "ü/ö", &"x".repeat(1024)] {
        assert_eq!(check_node(Style::Documented, node), Ok(()), "{node:?}");
    }
    for node in ["", "a\nb", "\u{7f}", "\u{85}", &"x".repeat(1025)] {
        let bad = check_node(Style::Documented, node).expect_err(node);
        let said = bad.to_string();
        assert!(
            !said.contains('\n') && said.contains("1 to 1024 bytes"),
            "a message is one line, with the rule: {said}"
        );
    }
    assert_eq!(check_node(Style::Native, "1.2"), Ok(()));
    for node in ["01", "1.+1", "2", "1..2", "", "n"] {
        let said = check_node(Style::Native, node).expect_err(node).to_string();
        assert_eq!(said, format!("{node:?} is no node's id: in a native ledger they are like 1 or 1.2.3"));
    }
}

#[test]
fn the_table_comes_back_from_its_rows() {
    let mut book = Book::new(Style::Documented);
    book.take("a", "n").expect("it is free");
    book.take("b", "with \"quotes\"").expect("it is free");
    for json in [
        r#"{"type":"lock_acquired","node_id":"x","owner":"a","expires_at":"soon"}"#,
        r#"{"type":"lock_acquired","node_id":"y"}"#,
    ] {
        book.write(json);
    }
    let rows = book.table.rows();
    let back = lokt_core::ledger::claims::Table::from_rows(Style::Documented, rows).expect("they are rows");
    assert_eq!(back, book.table);
}

#[test]
fn what_go_refuses_is_refused() {
    let claimed = |ids: &str| format!(r#"{{"type":"nodes_claimed","node_ids":{ids},"owner":"a"}}"#);
    for json in [
        claimed(r#"["1","1"]"#),
        claimed(r#"["01"]"#),
        claimed(r#"[""]"#),
        claimed(r#"["1.7"]"#),
        claimed(r#"["1.2"]"#),
        member("nodes_released", "node_ids", r#"["1"]"#),
        member("nodes_released", "node_ids", r#"["1.2","1.2"]"#),
        member("claim_refreshed", "node_id", r#""1""#),
        member("claim_refreshed", "node_id", r#""1.2""#),
        member("node_validated", "node_id", r#""1.7""#),
        member("node_validated", "node_id", r#""1.1""#),
        member("node_archived", "node_id", r#""1.1""#),
        member("refinement_requested", "node_id", r#""1""#),
        member("node_amended", "node_id", r#""1.7""#),
        member("taint_recomputed", "node_id", r#""1.7""#),
        member("challenge_resolved", "challenge_id", r#""ch-7""#),
        member("lock_acquired", "node_id", r#""1""#),
        member("lock_released", "node_id", r#""1""#),
        member("lock_reaped", "node_id", r#""1""#),
        member("custom_event", "node_id", r#""1""#),
        member("node_created", "node", r#"{"id":"2"}"#),
        member("node_created", "node", r#"{"id":"1.3","created":"soon"}"#),
        member("node_created", "node", r#"{"id":"1.3","dependencies":["x"]}"#),
        member("node_created", "node", r#"{"id":"1.3","context":"x"}"#),
        member("node_created", "node", "[]"),
        r#"{"type":"nodes_claimed","node_ids":["1"],"owner":"a","timeout":"tomorrow"}"#.to_owned(),
        r#"{"type":"nodes_claimed","node_ids":["1"],"owner":"a","timeout":7}"#.to_owned(),
        r#"{"type":"nodes_claimed","node_ids":["1"],"owner":7}"#.to_owned(),
        member("nodes_released", "node_ids", r#""1.2""#),
        member("nodes_released", "node_ids", "[7]"),
        member("node_validated", "note", "7"),
        member("challenge_raised", "node_id", r#""n""#),
        member("def_added", "definition", r#"{"created":7}"#),
        member("lemma_extracted", "lemma", r#"{"node_id":"1."}"#),
        member("scope_closed", "discharge_node_id", "{}"),
        member("proof_initialized", "author", "[]"),
    ] {
        let mut book = Book::with_nodes(&["1", "1.1", "1.2"]);
        book.write(&member("node_validated", "node_id", r#""1.1""#));
        book.write(r#"{"type":"nodes_claimed","node_ids":["1.2"],"owner":"z"}"#);
        let before = book.proof.clone();
        book.write_refused(&json);
        assert_eq!(book.proof, before, "what is refused changes nothing: {json}");
    }
}

#[test]
fn what_go_applies_is_good() {
    let mut book = Book::with_nodes(&["1", "1.1", "1.2", "1.01"]);
    for json in [
        member("nodes_released", "node_ids", "[]"),
        member("nodes_released", "node_ids", "null"),
        r#"{"type":"nodes_claimed","node_ids":["1","1.1"]}"#.to_owned(),
        member("nodes_released", "node_ids", r#"["1.1","1"]"#),
        r#"{"type":"nodes_claimed","node_ids":["1.01"],"owner":"a"}"#.to_owned(),
        r#"{"type":"claim_refreshed","node_id":"1.01","owner":"a"}"#.to_owned(),
        member("node_validated", "node_id", r#""1""#),
        member("refinement_requested", "node_id", r#""1""#),
        member("node_validated", "node_id", r#""1""#),
        member("refinement_requested", "node_id", r#""1""#),
        member("node_admitted", "node_id", r#""1""#),
        member("node_refuted", "node_id", r#""1.1""#),
        member("node_archived", "node_id", r#""1.2""#),
        member("challenge_raised", "challenge_id", r#""ch-1""#),
        member("challenge_resolved", "challenge_id", r#""ch-1""#),
        member("taint_recomputed", "node_id", r#""1""#),
        member("node_amended", "node_id", r#""1""#),
        r#"{"type":"challenge_raised","challenge_id":"ch-2","node_id":"1.77","severity":null,"extra":[1]}"#.to_owned(),
        member("node_created", "node", "null"),
        member("def_added", "definition", r#"{"created":"2024-01-15T10:30:00,5+02:00","more":7}"#),
        member("lemma_extracted", "lemma", "{}"),
        member("node_created", "node", r#"{"id":"1","workflow_state":"available","epistemic_state":"pending"}"#),
        member("node_validated", "node_id", r#""1""#),
    ] {
        book.write(&json);
    }
}

#[test]
fn whoever_wants_a_new_claim_does_not_go_on_with_a_live_one_of_the_same_owner() {
    for mut book in [Book::new(Style::Documented), Book::with_nodes(&["1"])] {
        let token = seq(book.head + 1);
        assert_eq!(book.take_new("a", "1").expect("it is free").token, None, "a new one has no token yet");
        let refused = book.take_new("a", "1").expect_err("it is another process's");
        assert_eq!((held(&refused).hold.owner.as_str(), held(&refused).lives()), ("a", true), "whose it is");
        let again = book.take("a", "1").expect("it is a's");
        assert_eq!(
            (again.token, again.before.map(|hold| hold.pid)),
            (Some(token), Some(77)),
            "others may go on with it"
        );
        book.made = Some(token);
        assert_eq!(book.take_new("a", "1").expect("the same request made it").token, Some(token));
        book.made = Some(seq(book.head));
        book.take_new("a", "1").expect_err("it made another one");
        book.made = None;
        book.pass(61_000);
        assert_eq!(book.take_new("a", "1").expect("it has expired").from.as_deref(), Some("a"), "under a new token");
    }
}

#[test]
fn whoever_wants_a_new_claim_is_kept_out_by_a_lock_file_of_the_same_owner() {
    let mut book = Book::new(Style::Documented);
    let file =
        r#"{"node_id":"1","owner":"a","acquired_at":"2026-11-16T00:00:00Z","expires_at":"2026-11-16T00:00:30Z"}"#;
    book.files.push(LockFile::parse(file.as_bytes()).expect("it has all four"));
    assert_eq!(held(&book.take_new("a", "1").expect_err("it is another process's")).hold.owner, "a");
    book.take("a", "1").expect("whoever doesn't ask for a new one may have it");
    book.release("a", "1", None).expect("it is a's");
    book.pass(31_000);
    book.take_new("a", "1").expect("it has expired");
}
