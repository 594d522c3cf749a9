//! `lokt claim take`, `release`, `extend`, `reap`, `list`: who has which node.

use lokt_testkit::session::PATIENCE;
use lokt_testkit::swarm::wait_until;
use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::common::ledgers::Book;
use crate::common::{host, now, pid_of, put, remove, time};

#[test]
fn a_free_node_is_claimed_with_a_token_until_a_time() {
    let book = Book::with(1);
    let json = book.run("alice", "claim take 1.2 --json").exits(0, "it is free").json();
    let end = time(&json["expires_at"]);
    let left = end.duration_since(now()).as_secs();
    assert!((240..=300).contains(&left), "five minutes are the default: {json}");
    assert_eq!(
        json,
        json!({
            "status": "claimed", "node": "1.2", "owner": "alice", "seq": 2, "token": 2, "expires_at": json["expires_at"],
            "ttl_sec": 300, "dry_run": false,
        }),
        "the answer"
    );
    let event = String::from_utf8(book.bytes(2)).expect("text");
    assert!(event.starts_with(r#"{"type":"lock_acquired","timestamp":""#), "the documented event: {event}");
    let event = book.event(2);
    assert_eq!((&event["node_id"], &event["owner"]), (&json!("1.2"), &json!("alice")), "{event}");
    assert!(event["expires_at"].is_string(), "{event}");
    let said = book.run("alice", "claim take 1.3 --ttl 90s").exits(0, "it is free");
    assert!(said.stdout.starts_with("claimed node \"1.3\" with token 3 until 20"), "in text{said}");
    assert_eq!(book.event(3)["ttl_sec"], 90, "the lease that was asked for");
}

#[test]
fn a_node_of_another_is_refused_with_2() {
    let book = Book::new();
    book.run("alice", "claim take 1").exits(0, "it is free");
    let before = book.events();
    let said = book.run("bob", "claim take 1").exits(2, "it is alice's");
    said.notes("error: node already locked: node \"1\" is claimed by alice@", "the text that is documented")
        .notes("  until:   20", "until when")
        .notes("hint: `--wait`", "and what to do");
    let said = book.run("bob", "claim take 1 --json").exits(2, "it is alice's");
    let json = said.json();
    assert_eq!((&json["status"], &json["code"]), (&json!("blocked"), &json!("E_LOCK_CONFLICT")), "{json}");
    assert_eq!(
        (&json["node"], &json["owner"], &json["holder_owner"]),
        (&json!("1"), &json!("bob"), &json!("alice")),
        "{json}"
    );
    assert_eq!((&json["holder_token"], &json["holder_host"]), (&json!(1), &json!(host())), "{json}");
    assert!(json["holder_expires_at"].is_string() && json["hint"].is_string(), "{json}");
    assert_eq!(book.events(), before, "a refusal is no event");
}

#[test]
fn the_owner_again_refreshes_under_the_same_token() {
    let book = Book::new();
    book.run("alice", "claim take 1 --ttl 60").exits(0, "it is free");
    let said = book.run("alice", "claim take 1 --ttl 120").exits(0, "it is hers");
    let made = time(&book.event(1)["timestamp"]).strftime("%FT%TZ").to_string();
    let first = format!("(pid {}) made at {made}, with token 1 until 20", book.event(1)["pid"]);
    assert!(said.stdout.starts_with("refreshed the claim on node \"1\" that alice@"), "it says plainly{said}");
    assert!(said.stdout.contains(&first), "whose it was: {first}{said}");
    let last = format!("(pid {}) refreshed last at ", book.event(2)["pid"]);
    book.run("alice", "claim take 1 --dry-run")
        .exits(0, "it is hers")
        .says("would refresh the claim on node \"1\" that alice@", "a rehearsal says the same")
        .says(&last, "and who refreshed it");
    let json = book.run("alice", "claim take 1 --json").exits(0, "it is hers").json();
    assert_eq!((&json["status"], &json["token"], &json["seq"]), (&json!("refreshed"), &json!(1), &json!(3)), "{json}");
    let json = book
        .lokt("nobody")
        .args(["claim", "take", "1", "--owner", "alice", "--json"])
        .run()
        .exits(0, "as alice")
        .json();
    assert_eq!((&json["status"], &json["owner"]), (&json!("refreshed"), &json!("alice")), "{json}");
    book.run("alice", "claim take 1 --owner bob").exits(2, "bob is another");
    book.lokt("alice").args(["claim", "take", "1", "--owner", ""]).run().exits(64, "nobody has no name");
}

#[test]
fn an_expired_claim_is_taken_over_under_a_new_token() {
    let book = Book::new();
    book.put_claim(1, "1", "old", -5);
    let said = book.run("bob", "claim take 1 --json").exits(0, "it has expired");
    let json = said.json();
    assert_eq!((&json["status"], &json["previous_owner"]), (&json!("claimed"), &json!("old")), "{said}");
    assert_eq!((&json["seq"], &json["token"]), (&json!(3), &json!(3)), "after the event that ends the old one{said}");
    assert!(
        ["lock_released", "lock_reaped"].contains(&book.event(2)["type"].as_str().expect("a type")),
        "{}",
        book.event(2)
    );
    book.put_claim(4, "2", "old", -5);
    book.run("bob", "claim take 2")
        .exits(0, "it has expired")
        .notes("note: the claim of old had expired", "it says so");
}

#[test]
fn what_names_no_node_is_a_usage_error() {
    let book = Book::new();
    for bad in ["", "a\nb", &"x".repeat(2_000)] {
        for command in ["take", "release", "extend"] {
            let said = book.lokt("a").args(["claim", command, bad]).run().exits(64, "it is no node's id");
            said.notes("is no node's id", "it says so")
                .notes("hint: a node is named by its id, like 1.2", "and what is one");
            let said = book.lokt("a").args(["claim", command, bad, "--json"]).run().exits(64, "it is no node's id");
            assert_eq!(said.failure(), "E_BAD_NAME", "{command}");
        }
    }
    let native = Book::native();
    for bad in ["01", "1.+1", "2", "1..2", "1.01", "build"] {
        let said = native.run("a", &format!("claim take {bad}"));
        assert!([3, 64].contains(&said.code), "{bad} is none of its nodes{said}");
    }
    assert_eq!(native.numbers(), [1, 2, 3, 4], "nothing was written");
}

#[test]
fn any_takes_the_first_that_is_free() {
    let book = Book::new();
    book.run("alice", "claim take 1").exits(0, "it is free");
    book.run("alice", "claim take 2").exits(0, "it is free");
    let json = book.run("bob", "claim take --any 1 2 3 4 --json").exits(0, "the third is free").json();
    assert_eq!(json["node"], "3", "the first that is free");
    book.run("bob", "claim take --any 1 2")
        .exits(2, "none is")
        .notes("node already locked: node \"1\"", "why the first isn't");
    let said = book.run("bob", "claim take 4 5").exits(64, "one or any?");
    said.notes("one node, not 2", "it says so").notes("`--any`", "and what to do");
    book.run("bob", "claim take --any").exits(64, "of which?");
    book.run("bob", "claim take").exits(64, "which?");
}

#[test]
fn whoever_waits_gets_it_when_it_is_given_back() {
    let book = Book::new();
    book.run("alice", "claim take 1").exits(0, "it is free");
    let waiting = book.lokt("bob").args(["claim", "take", "1", "--wait", "--json"]).start();
    wait_until(PATIENCE, || waiting.sleeps());
    book.run("alice", "claim release 1").exits(0, "it is hers");
    let said = waiting.wait().exits(0, "it is free");
    assert_eq!((&said.json()["owner"], &said.json()["token"]), (&json!("bob"), &json!(3)), "{said}");
    said.notes("waiting for node \"1\": claimed by alice@", "it said so");
    let said = book.run("carol", "claim take 1 --timeout 200ms").exits(2, "nobody gave it back");
    said.notes("node already locked", "it says so");
    book.run("carol", "claim take 1 --timeout 200ms --json")
        .exits(2, "nobody gave it back")
        .says("E_LOCK_CONFLICT", "in JSON too");
}

#[test]
fn a_wait_ends_by_itself_when_the_claim_expires_or_by_a_signal() {
    let book = Book::new();
    book.run("alice", "claim take 1 --ttl 1s").exits(0, "it is free");
    book.run("bob", "claim take 1 --timeout 20s").exits(0, "her second is over");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for json in [false, true] {
            let waiting =
                book.lokt("carol").args(["claim", "take", "1", "--wait"]).args(json.then_some("--json")).start();
            wait_until(PATIENCE, || waiting.sleeps());
            kill_process(pid_of(waiting.pid()), signal).expect("it is ours");
            let said = waiting.wait().exits(code, "that ends the wait");
            if json {
                assert_eq!(said.json()["code"], "E_INTERRUPTED", "{said}");
            } else {
                said.notes("interrupted while waiting for node \"1\"", "it says so");
            }
        }
    }
}

#[test]
fn a_dry_run_changes_nothing() {
    let book = Book::new();
    book.run("alice", "claim take 1").exits(0, "it is free");
    book.put_claim(2, "old", "old", -5);
    let before = book.events();
    for (owner, words, code, answer) in [
        ("bob", "claim take 2 --dry-run", 0, "would claim node \"2\""),
        ("bob", "claim take old --dry-run", 0, "would claim node \"old\""),
        ("bob", "claim take 1 --dry-run", 2, ""),
        ("bob", "claim take 1 --dry-run --wait", 2, ""),
        ("alice", "claim take 1 --dry-run", 0, "would refresh the claim on node \"1\""),
        ("alice", "claim extend 1 --dry-run", 0, "would extend the claim on node \"1\""),
        ("alice", "claim release 1 --dry-run", 0, "would release node \"1\""),
        ("alice", "claim reap --dry-run", 0, "would end 1 expired claim"),
    ] {
        book.run(owner, words).exits(code, words).says(answer, words);
        let json = book.run(owner, &format!("{words} --json")).exits(code, words).json();
        if code == 0 {
            assert_eq!(json["dry_run"], true, "{words}: {json}");
            assert!(json["status"].as_str().is_some_and(|status| status.starts_with("would_")), "{words}: {json}");
        }
    }
    assert_eq!(book.events(), before, "nothing was written");
}

#[test]
fn a_ledger_with_holes_gives_no_claims_without_force() {
    let book = Book::with(3);
    remove(&book.path(2));
    for words in ["claim take 1", "claim take 1 --json", "claim reap"] {
        let said = book.run("alice", words).exits(65, "the missing one may be a claim");
        assert!(format!("{}{}", said.stdout, said.stderr).contains('2'), "the place is named{said}");
    }
    assert_eq!(book.run("alice", "claim take 1 --json").failure(), "E_CORRUPT");
    book.run("alice", "claim take 1 --force").exits(0, "that was wanted");
    book.run("alice", "claim extend 1").exits(65, "still").notes("error: ", "it says so");
    book.run("alice", "claim extend 1 --force").exits(0, "that was wanted");
    book.run("alice", "claim release 1 --force").exits(0, "that was wanted");
    book.run("alice", "claim reap --force").exits(0, "that was wanted");
    let damaged = Book::with(2);
    put(&damaged.path(1), "garbage");
    damaged.run("alice", "claim take 1").exits(65, "it may have been a claim");
}

#[test]
fn reap_ends_what_has_expired_and_says_so() {
    let book = Book::new();
    assert_eq!(book.run("a", "claim reap").exits(0, "nothing to do").stdout, "no expired claims\n");
    let json = book.run("a", "claim reap --json").exits(0, "nothing to do").json();
    assert_eq!(json, json!({"status": "reaped", "count": 0, "seq": null, "claims": [], "dry_run": false}));
    assert_eq!(book.numbers(), [0; 0], "nothing is no event");
    book.put_claim(1, "1", "old", -5);
    book.put_claim(2, "2", "new", 300);
    let json = book.run("a", "claim reap --json").exits(0, "one").json();
    assert_eq!(json["claims"], json!([{"node": "1", "owner": "old", "token": 1}]), "{json}");
    assert_eq!((&json["count"], &json["seq"]), (&json!(1), &json!(3)), "{json}");
    assert_eq!(book.event(3)["type"], "lock_reaped", "the documented event");
    book.put_claim(4, "3", "old", -5);
    let said = book.run("a", "claim reap").exits(0, "one");
    assert_eq!(said.stdout, "ended 1 expired claim\n");
    said.notes("note: node \"3\" was claimed by old", "whose it was");
    book.run("a", "claim list 2").exits(0, "the other lives on");
}

#[test]
fn list_shows_every_claim_and_whose_it_is() {
    let book = Book::new();
    assert_eq!(book.run("a", "claim list").exits(0, "there is none").stdout, "no claims\n");
    assert_eq!(book.run("a", "claim list --json").exits(0, "there is none").json(), json!([]));
    book.run("alice", "claim take 1.1").exits(0, "it is free");
    book.put_claim(2, "1.2", "old", -60);
    let said = book.run("a", "claim list").exits(0, "anybody may look");
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("1.1  alice@") && lines[0].contains("  token 1  until 20"), "{said}");
    assert!(lines[1].starts_with("1.2  old  token 2  expired 1m ago"), "{said}");
    let json = book.run("a", "claim list --json").exits(0, "anybody may look").json();
    let row = &json[0];
    assert_eq!(
        (&row["node"], &row["owner"], &row["status"]),
        (&json!("1.1"), &json!("alice"), &json!("claimed")),
        "{row}"
    );
    assert_eq!((&row["seq"], &row["token"]), (&json!(1), &json!(1)), "{row}");
    assert!(row["remaining_sec"].as_i64().is_some_and(|left| (1..=300).contains(&left)), "{row}");
    time(&row["expires_at"]);
    assert_eq!(json[1]["status"], "expired", "{json}");
    assert_eq!(book.run("a", "claim list 1.1 --json").exits(0, "it is there").json()["node"], "1.1", "one object");
    book.run("a", "claim list 9").exits(3, "nobody has it").notes("nobody has claimed node \"9\"", "it says so");
    assert_eq!(book.run("a", "claim list 9 --json").exits(3, "nobody has it").failure(), "E_NOT_FOUND");
    book.run("a", "claim list 1 2").exits(64, "one or all");
}

#[test]
fn a_native_ledger_gives_its_own_nodes_and_its_own_events() {
    let book = Book::native();
    let json = book.run("alice", "claim take 1.1 --json").exits(0, "it is free").json();
    assert_eq!((&json["seq"], &json["token"]), (&json!(5), &json!(5)), "{json}");
    assert_eq!(book.event(5)["type"], "nodes_claimed", "what that program understands");
    book.run("bob", "claim take 1.1").exits(2, "it is alice's").notes("node already locked", "it says so");
    book.run("bob", "claim take 1.9").exits(3, "there is none").notes("there is no node \"1.9\"", "it says so");
    assert_eq!(book.run("bob", "claim take 1.9 --json").exits(3, "there is none").json()["code"], "E_NOT_FOUND");
    book.run("alice", "claim extend 1.1").exits(0, "it is hers");
    assert_eq!(book.event(6)["type"], "claim_refreshed", "what that program understands");
    book.run("alice", "claim release 1.1").exits(0, "it is hers");
    assert_eq!(book.event(7)["type"], "nodes_released", "what that program understands");
    book.run("bob", "claim take --any 1.9 1.1").exits(0, "the first that is free");
    book.put_claim(9, "1.2", "old", -5);
    book.run("bob", "claim reap").exits(0, "one");
    assert_eq!((&book.event(10)["type"], &book.event(10)["node_ids"]), (&json!("nodes_released"), &json!(["1.2"])));
}

#[test]
fn how_long_a_claim_lasts_may_stand_in_meta_json() {
    let book = Book::new();
    for (meta, ttl) in [(r#"{"lock_timeout":"90s"}"#, 90), (r#"{"lock_timeout":90000000000}"#, 90), ("{}", 300)] {
        put(&book.dir().join("meta.json"), meta);
        let json = book.run("alice", "claim take 1 --json").exits(0, "it is hers").json();
        assert_eq!(json["ttl_sec"], ttl, "{meta}");
    }
    put(&book.dir().join("meta.json"), r#"{"lock_timeout":"90s"}"#);
    assert_eq!(book.run("alice", "claim take 1 --ttl 7s --json").json()["ttl_sec"], 7, "the flag is stronger");
}

#[test]
fn where_there_is_no_ledger_every_command_says_so() {
    let book = Book::none();
    for command in ["take 1", "release 1", "extend 1", "reap", "list", "list 1", "run 1 -- true"] {
        let (before, after) =
            command.split_once(" -- ").map_or((command, String::new()), |(a, b)| (a, format!(" -- {b}")));
        book.run("a", &format!("claim {command}")).exits(3, "there is none").notes("`lokt ledger init`", command);
        let said = book.run("a", &format!("claim {before} --json{after}")).exits(3, "there is none");
        assert_eq!(said.failure(), "E_NOT_FOUND", "{command}");
    }
    assert!(!book.ledger().exists(), "nothing was made");
}

#[test]
fn a_time_before_all_years_is_shown_as_one_that_can_be_read() {
    let book = Book::new();
    let end = "0000-01-01T00:00:00+24:60";
    book.put(1, &json!({"type": "lock_acquired", "timestamp": end, "node_id": "n", "owner": "b", "expires_at": end}));
    let json = book.run("a", "claim list n --json").exits(0, "somebody claimed it").json();
    assert_eq!((&json["status"], &json["expires_at"]), (&json!("expired"), &json!("0000-01-01T00:00:00Z")), "{json}");
    assert_eq!(json["claimed_at"], "0000-01-01T00:00:00Z", "{json}");
    book.run("a", "claim list").exits(0, "somebody claimed it").says("n  b  token 1  expired ", "in text");
}
