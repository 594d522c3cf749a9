//! **token-order**, with real processes: every new hold has a greater token than all before it, whatever was lost in between.

use lokt_testkit::cmd::Place;
use lokt_testkit::strace::{calls, killed_at};
use lokt_testkit::swarm::put;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_lokt"))
}

fn grows(place: &Place, last: &mut u64, context: &str) {
    let (_, token) = place.take("a", &["x", "--ttl", "1h"]);
    assert!(token > *last, "token-order {context}: {token} after {last}");
    *last = token;
}

fn remove(path: &std::path::Path) {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { delete(path) };
    removed.expect("the test's own root");
}

#[expect(clippy::disallowed_methods, reason = "a user deletes the file by hand")]
fn delete(path: &std::path::Path) -> std::io::Result<()> {
    std::fs::remove_file(path)
}

#[test]
fn tokens_grow_after_release_force_break_and_deletions_by_hand() {
    let place = place();
    let mut last = 0;
    grows(&place, &mut last, "at first");
    assert_eq!(place.run("a", &["unlock", "x"]).code, Some(0));
    grows(&place, &mut last, "after a release");
    assert_eq!(place.run("b", &["unlock", "--force", "x"]).code, Some(0));
    grows(&place, &mut last, "after a force-break");
    remove(&place.record("x"));
    grows(&place, &mut last, "after the record was deleted by hand");
    assert_eq!(place.run("a", &["unlock", "x"]).code, Some(0));
    remove(&place.root().join("state"));
    grows(&place, &mut last, "after state/ was deleted");
    assert_eq!(place.run("a", &["unlock", "x"]).code, Some(0));
    remove(&place.root().join("state/next"));
    grows(&place, &mut last, "after state/next was deleted");
    assert_eq!(place.run("a", &["unlock", "x"]).code, Some(0));
    remove(&place.root().join("state/ceiling"));
    grows(&place, &mut last, "after state/ceiling was deleted");
    assert_eq!(place.run("a", &["unlock", "x"]).code, Some(0));
    put(&place.root().join("state/next"), "damaged");
    grows(&place, &mut last, "after state/next was damaged");
    assert_eq!(place.run("a", &["unlock", "x"]).code, Some(0));
    put(&place.root().join("state/ceiling"), "{}");
    put(&place.root().join("state/next"), "");
    grows(&place, &mut last, "after both were damaged");
}

#[test]
fn state_deleted_while_the_lock_is_held_is_noticed_in_the_audit_log() {
    let place = place();
    let (_, before) = place.take("a", &["x"]);
    remove(&place.root().join("state"));
    let (_, after) = place.take("b", &["y"]);
    assert!(after > before, "token-order: {after} after {before}");
    let audit = std::fs::read_to_string(place.root().join("audit.log")).expect("there is a log");
    assert!(audit.contains("\"token-rebase\""), "audited: counting anew leaves an event:\n{audit}");
}

#[test]
fn a_counter_older_than_the_record_is_not_believed() {
    let place = place();
    place.take("a", &["x"]);
    let old = std::fs::read(place.root().join("state/next")).expect("it was written");
    for _ in 0..3 {
        assert_eq!(place.run("a", &["unlock", "x"]).code, Some(0));
        place.take("a", &["x", "--ttl", "1s"]);
    }
    let (_, last) = place.take("a", &["x", "--ttl", "1s"]);
    put(&place.root().join("state/next"), old);
    lokt_testkit::swarm::wait_until(std::time::Duration::from_secs(30), || {
        place.run("b", &["exists", "x"]).code == Some(3)
    });
    let (_, token) = place.take("b", &["x"]);
    assert!(token > last, "token-order: an old state/next was put back: {token} after {last}");
}

#[test]
fn a_record_ahead_of_the_counter_is_remembered_when_it_ends() {
    for end in [&["unlock", "x"][..], &["unlock", "--force", "x"], &["unlock", "--all"]] {
        for refreshed in [false, true] {
            let place = place();
            place.take("a", &["y"]);
            let old = std::fs::read(place.root().join("state/next")).expect("it was written");
            for name in ["p", "q", "x"] {
                place.take("a", &[name]);
            }
            let ahead = place.stored("x").and_then(|record| record["fencing_token"].as_u64()).expect("it has a token");
            put(&place.root().join("state/next"), &old);
            if refreshed {
                place.take("a", &["x"]);
            }
            assert_eq!(place.run("a", end).code, Some(0), "{end:?}");
            let (_, token) = place.take("b", &["x"]);
            assert!(
                token > ahead,
                "token-order: after {end:?} of a record ahead of the counter: {token} after {ahead}"
            );
        }
    }
}

#[test]
fn the_ceiling_never_comes_down() {
    let place = place();
    let (_, token) = place.take("a", &["x"]);
    put(&place.root().join("state/ceiling"), "{\"version\":1,\"ceiling\":5001001}\n");
    let record = std::fs::read_to_string(place.record("x")).expect("it is held");
    put(&place.record("x"), record.replace(&format!("\"fencing_token\": {token}"), "\"fencing_token\": 500"));
    assert_eq!(place.run("a", &["unlock", "x"]).code, Some(0));
    let ceiling = std::fs::read_to_string(place.root().join("state/ceiling")).expect("it is there");
    let ceiling: serde_json::Value = serde_json::from_str(&ceiling).expect("it is JSON");
    assert!(ceiling["ceiling"].as_u64() >= Some(5_001_001), "token-order: the synced ceiling is now {ceiling}");
    let (_, next) = place.take("b", &["x"]);
    assert!(next > 500, "token-order: {next} after a record with 500");
}

#[test]
fn tokens_are_shared_by_all_names_of_a_root() {
    let place = place();
    let mut last = 0;
    for name in ["x", "y", "z", "x.y"] {
        let (_, token) = place.take("a", &[name]);
        assert!(token > last, "token-order: {name} got {token} after {last}");
        last = token;
    }
}

/// In a new root, and in one that has been used: `lock` dies at each of its system calls; the next one goes on by itself.
#[test]
fn a_lock_killed_at_any_system_call_costs_no_token_and_leaves_nothing_behind() {
    lokt_testkit::need!("strace");
    for used in [false, true] {
        let prepared = || {
            let place = place();
            if used {
                place.take("a", &["x"]);
                assert_eq!(place.run("a", &["unlock", "x"]).code, Some(0));
            }
            place
        };
        for call in calls(&prepared(), "a", &["lock", "x", "--ttl", "1h"]) {
            let context = format!("killed at {}#{}, used root: {used}", call.name, call.nth);
            let place = prepared();
            killed_at(&place, "a", &["lock", "x", "--ttl", "1h"], &call);
            // What another saw in the meantime, it may have acted upon.
            let seen = place.stored("x").and_then(|record| record["fencing_token"].as_u64());
            let mut last = seen.unwrap_or(u64::from(used));
            assert!(matches!(place.run("a", &["unlock", "x"]).code, Some(0 | 3)), "{context}: a can unlock or needn't");
            grows(&place, &mut last, &context);
            let left: Vec<_> = std::fs::read_dir(place.root().join("state/tmp")).expect("it exists").collect();
            assert!(left.is_empty(), "{context}: temp files are cleaned up: {left:?}");
        }
    }
}
