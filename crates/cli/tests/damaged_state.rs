//! Nothing odd in `state/` wedges a name or slows it down for good.

use std::time::Duration;

use lokt_testkit::cmd::Place;
use lokt_testkit::strace::{calls, delayed_at};
use lokt_testkit::swarm::{in_parallel, pause, put};

use crate::common::{Root, eventually};

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_lokt"))
}

#[test]
fn a_line_that_cannot_be_read_does_not_keep_anybody_from_unlocking() {
    for args in [["unlock", "x"].as_slice(), &["unlock", "--force", "x"]] {
        let place = place();
        place.take("a", &["x"]);
        put(&place.root().join("state/line/x"), "not a directory");
        let ended = place.run("a", args);
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn a_line_that_cannot_be_read_does_not_keep_anybody_from_looking() {
    let place = place();
    place.take("a", &["x"]);
    put(&place.root().join("state/line/x"), "not a directory");
    for args in [["status"].as_slice(), &["status", "x"], &["status", "--json"], &["exists", "x"]] {
        let ended = place.run("b", args);
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn a_token_file_that_is_too_long_costs_one_leap_and_not_one_per_token() {
    let place = place();
    let (_, first) = place.take("a", &["a"]);
    let next = place.root().join("state/next");
    let mut bytes = std::fs::read(&next).expect("it exists");
    bytes.extend_from_slice(b"junk");
    put(&next, bytes);
    let (_, second) = place.take("a", &["b"]);
    let (_, third) = place.take("a", &["c"]);
    assert!(second > first, "token-order");
    assert_eq!(third, second + 1, "it is repaired");
}

#[test]
fn state_that_is_deleted_in_the_middle_does_not_make_a_command_fail_that_did_its_work() {
    const DELAY_MS: u64 = 1_000;
    lokt_testkit::need!("strace");
    for args in [["unlock", "x"].as_slice(), &["lock", "x", "--ttl", "1h"]] {
        let held = || {
            let place = place();
            place.take("a", &["x"]);
            place
        };
        let mut all = calls(&held(), "a", args);
        all.retain(|call| call.name == "newfstatat" || call.name == "fstat");
        // Most of the time all wait.
        in_parallel(8, all, |call| {
            let place = held();
            let ended = std::thread::scope(|scope| {
                let late = scope.spawn(|| delayed_at(&place, "a", args, &call, DELAY_MS));
                pause(Duration::from_millis(DELAY_MS / 2));
                // On a slow machine it may make something in it while it goes.
                eventually("it can be deleted", || std::fs::remove_dir_all(place.root().join("state")).is_ok());
                late.join().expect("it ran")
            });
            assert_eq!(ended.code, Some(0), "{args:?} delayed at {call:?}: {}", ended.stderr);
            assert_eq!(place.stored("x").is_some(), args[0] == "lock", "{args:?} delayed at {call:?}");
        });
    }
}

#[test]
fn what_was_moved_aside_is_where_the_note_says() {
    let root = Root::used();
    for words in ["lock build", "unlock --force build"] {
        root.put("locks/build.json", "garbage");
        let said = root.run("a", words).exits(0, "garbage is no lock");
        let path = said.stderr.lines().find_map(|line| line.split("it was moved to ").nth(1)).expect("it says where");
        assert_eq!(std::fs::read_to_string(path).expect("the path is whole"), "garbage", "{words}{said}");
    }
}
