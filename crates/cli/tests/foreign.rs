//! **one-holder** beside a program that doesn't know the mutex.

use std::time::Duration;

use lokt_testkit::cmd::Place;
use lokt_testkit::strace::{calls, delayed_at, stopped_after};
use lokt_testkit::swarm::{pause, put, wait_until, wall_text};

/// So long the other program has for what it does.
const DELAY_MS: u64 = 4_000;

/// a's hold is over.
fn expired() -> Place {
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    place.take("a", &["x", "--ttl", "1s"]);
    let over = wait_until(Duration::from_secs(30), || place.run("a", &["exists", "x"]).code == Some(3));
    assert!(over, "a one-second lease ends");
    place
}

/// The other program breaks what is over, or anything with force, and takes the name; false if it is held.
fn foreign_takes(place: &Place, force: bool) -> bool {
    if !force && place.run("foreign", &["exists", "x"]).code != Some(3) {
        return false;
    }
    let (since, until) = (wall_text(0), wall_text(600));
    let record = format!(
        r#"{{"version":1,"name":"x","lock_id":"f0","owner":"foreign","host":"elsewhere","pid":1,"acquired_ts":"{since}","ttl_sec":600,"expires_at":"{until}"}}"#
    );
    put(&place.beside("foreign"), record);
    let text = "rm -f \"$LOKT_ROOT/locks/x.json\" && ln foreign \"$LOKT_ROOT/locks/x.json\"";
    place.run_words("foreign", &["sh", "-c", text]).code == Some(0)
}

#[test]
fn reviving_an_expired_hold_does_not_overwrite_whoever_took_it_meanwhile() {
    lokt_testkit::need!("strace");
    let place = expired();
    let mut all = calls(&place, "a", &["lock", "x", "--ttl", "1h"]);
    all.retain(|call| call.name.starts_with("rename"));
    assert!(!all.is_empty(), "a record is renamed into place");
    for call in all {
        let place = expired();
        let (late, taken) = std::thread::scope(|scope| {
            let late = scope.spawn(|| delayed_at(&place, "a", &["lock", "x", "--ttl", "1h"], &call, DELAY_MS));
            pause(Duration::from_millis(DELAY_MS / 4));
            let taken = foreign_takes(&place, false);
            (late.join().expect("it ran"), taken)
        });
        let owner = place.stored("x").and_then(|record| Some(record["owner"].as_str()?.to_owned()));
        assert!(taken, "{call:?}: the delay came before a held it again");
        assert_eq!(owner.as_deref(), Some("foreign"), "one-holder: {call:?}: it was granted to the other program");
        assert_eq!(late.code, Some(2), "{call:?}: and a is refused: {}", late.stderr);
    }
}

#[test]
fn refreshing_a_hold_that_was_taken_by_force_meanwhile_does_not_take_it_back() {
    lokt_testkit::need!("strace");
    let held = || {
        let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
        place.take("a", &["x", "--ttl", "1h"]);
        place
    };
    let mut all = calls(&held(), "a", &["lock", "x", "--ttl", "2h"]);
    all.retain(|call| call.name.starts_with("rename"));
    for call in all {
        let place = held();
        let late = std::thread::scope(|scope| {
            let late = scope.spawn(|| delayed_at(&place, "a", &["lock", "x", "--ttl", "2h"], &call, DELAY_MS));
            pause(Duration::from_millis(DELAY_MS / 4));
            assert!(foreign_takes(&place, true));
            late.join().expect("it ran")
        });
        let owner = place.stored("x").and_then(|record| Some(record["owner"].as_str()?.to_owned()));
        assert_eq!(owner.as_deref(), Some("foreign"), "no-lost-thief: {call:?}: it was taken by force");
        assert_eq!(late.code, Some(2), "{call:?}: and a is refused: {}", late.stderr);
    }
}

#[test]
fn a_hold_with_a_token_of_another_kind_is_still_a_hold() {
    for token in ["0", "1760000000000000000", "-1", "1.5", "\"t-17\"", "null"] {
        let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
        let who = r#""version":1,"name":"x","owner":"foreign","host":"elsewhere","pid":1"#;
        put(&place.record("x"), format!(r#"{{{who},"acquired_ts":"{}","fencing_token":{token}}}"#, wall_text(0)));
        assert_eq!(place.run("a", &["lock", "x"]).code, Some(2), "one-holder: a hold with token {token} is one");
        let (_, ours) = place.take("foreign", &["x"]);
        assert!(ours >= 1, "its owner's refresh gives it one of ours");
    }
}

/// A record of another program that is over, and whose process is gone.
fn foreign_stale(place: &Place) {
    assert_eq!(place.run("setup", &["guard", "x", "--", "true"]).code, Some(0), "a fresh root can be used");
    let (since, until) = (wall_text(-600), wall_text(-300));
    let record = format!(
        r#"{{"version":1,"name":"x","lock_id":"f0","owner":"foreign","host":"elsewhere","pid":1,"acquired_ts":"{since}","ttl_sec":300,"expires_at":"{until}"}}"#
    );
    put(&place.record("x"), record);
}

/// The same of one that lives for so long.
fn foreign_holds(place: &Place, seconds: i64) {
    let (since, until) = (wall_text(0), wall_text(seconds));
    let record = format!(
        r#"{{"version":1,"name":"x","lock_id":"f1","owner":"foreign","host":"elsewhere","pid":1,"acquired_ts":"{since}","ttl_sec":{seconds},"expires_at":"{until}"}}"#
    );
    put(&place.record("x"), record);
}

#[test]
fn a_guard_whose_fresh_record_another_program_swept_away_does_not_start_its_command() {
    lokt_testkit::need!("strace");
    let guard = |flags: &[&'static str]| [&["guard", "x"], flags, &["--", "touch", "ran"]].concat();
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    foreign_stale(&place);
    let all = calls(&place, "a", &guard(&[]));
    let spawn = all
        .iter()
        .position(|call| ["clone", "clone3", "vfork"].contains(&call.name.as_str()))
        .expect("it starts a command");
    // The audit log is the last thing that is written inside the mutex. Then the record is there, and isn't looked at yet.
    let written = all[..spawn].iter().rposition(|call| call.name == "write").expect("it writes the audit log");
    let left = written + all[written..].iter().position(|call| call.name == "flock").expect("it leaves the mutex");
    assert!(left < spawn, "before it starts its command");
    for (flags, seconds, code, runs) in [
        // Refused, as anybody would be who came now.
        ([].as_slice(), 600, 2, false),
        // In line again, until the other's hold is over.
        (&["--timeout", "60s"], 6, 0, true),
        (&["--timeout", "2s"], 600, 2, false),
    ] {
        let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
        foreign_stale(&place);
        let args = guard(flags);
        let stopped = stopped_after(&place, "a", &args, &all[left]).expect("it gets there");
        assert_eq!(place.stored("x").map(|record| record["owner"].clone()), Some("a".into()), "it has the lock");
        foreign_holds(&place, seconds);
        let ended = stopped.goes_on();
        assert_eq!((ended.code, place.beside("ran").exists()), (Some(code), runs), "{flags:?}: {}", ended.stderr);
        if !runs {
            assert!(ended.stderr.contains("held by foreign"), "it says who has it: {}", ended.stderr);
            let owner = place.stored("x").map(|record| record["owner"].clone());
            assert_eq!(owner, Some("foreign".into()), "one-holder: the other's record is left alone");
        }
    }
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    foreign_stale(&place);
    let stopped = stopped_after(&place, "a", &guard(&[]), &all[left]).expect("it gets there");
    let gone = place.run_words("foreign", &["rm", place.record("x").to_str().expect("a plain path")]);
    assert_eq!(gone.code, Some(0), "the other program sweeps it away");
    let ended = stopped.goes_on();
    assert_eq!((ended.code, place.beside("ran").exists()), (Some(0), true), "it is taken again: {}", ended.stderr);
    assert_eq!(place.stored("x"), None, "and released");
}
