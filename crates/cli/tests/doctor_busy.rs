//! `lokt doctor` while others work: silent where nothing is wrong, harmless with --fix, not stopped by a taken mutex, and nothing bad is
//! left when it is killed.

use std::process::Command;
use std::thread;
use std::time::Duration;

use lokt_testkit::cmd::Place;
use lokt_testkit::storm::{Tally, Weather, new_seed, storm};
use lokt_testkit::strace::{calls, killed_at};
use lokt_testkit::swarm::{now_ms, pause, put};
use serde_json::Value;

use crate::common::LOKT;
use crate::mutex::Keeper;

fn answer(place: &Place, flags: &[&str]) -> (Option<i32>, Value) {
    let ended = place.run("doctor", &[&["doctor", "--json"], flags].concat());
    let json = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    (ended.code, json)
}

fn check<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let checks = answer["checks"].as_array().expect("there are checks");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("there is a check {name}: {answer}"))
}

/// Lets it storm, and looks the root over again and again for the first half of it: what the storm leaves is judged when it is over.
/// Gives how often.
fn storm_with(place: &Place, weather: &Weather, look: impl Fn() + Sync) -> (Tally, usize) {
    // The doctor may come before the first worker, and has checks for a root that is there.
    assert_eq!(place.run("first", &["guard", "first", "--", "true"]).code, Some(0), "it makes the root");
    let started = now_ms();
    let half = u64::try_from(weather.lasts.as_millis() / 2).expect("a storm is short");
    thread::scope(|scope| {
        let doctor = scope.spawn(|| {
            let mut times = 0;
            while now_ms() - started < half {
                look();
                times += 1;
            }
            times
        });
        let tally = storm(place, weather, new_seed());
        let times = doctor.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (tally.unwrap_or_else(|broken| panic!("{broken}")), times)
    })
}

#[test]
fn a_healthy_root_under_load_is_in_order_every_time_and_repairs_harm_nobody() {
    let place = Place::new(LOKT);
    let lasts = Duration::from_secs(10);
    let weather = Weather { workers: 20, names: &["one", "two", "three"], at_once: 1..=1, nemesis: false, lasts };
    let (tally, times) = storm_with(&place, &weather, || {
        for flags in [&[][..], &["--fix"]] {
            let (code, answer) = answer(&place, flags);
            assert_eq!((code, &answer["overall"]), (Some(0), &"ok".into()), "nothing is wrong: {answer:#}");
            assert!(!answer.to_string().contains("\"fixed\""), "there is nothing to repair: {answer:#}");
        }
    });
    assert!(tally.sections > 20 && times > 0, "work was done: {tally:?}, {times} looks");
}

#[test]
fn repairs_among_processes_that_are_killed_and_stopped_break_no_promise() {
    let place = Place::new(LOKT);
    let lasts = Duration::from_secs(10);
    let weather = Weather { workers: 16, names: &["one", "two"], at_once: 1..=1, nemesis: true, lasts };
    let (tally, times) = storm_with(&place, &weather, || {
        // A process that was stopped inside the mutex is rightly reported.
        let (_, answer) = answer(&place, &["--fix"]);
        for name in ["records", "freezes", "tokens", "audit", "permissions", "file_system"] {
            let status = check(&answer, name)["status"].as_str().unwrap_or_default();
            let skipped = check(&answer, name).to_string().contains("not looked at");
            assert!(status == "ok" || skipped, "{name} is in order: {answer:#}");
        }
    });
    assert!(tally.sections > 10 && times > 0, "work was done: {tally:?}, {times} looks");
}

#[test]
fn a_process_that_was_stopped_inside_the_mutex_is_named_with_what_to_do() {
    lokt_testkit::need!("pkill");
    let place = Place::new(LOKT);
    place.take("a", &["x", "--ttl", "1h"]);
    let keeper = Keeper::of(&place);
    keeper.signal("-STOP");
    for flags in [&[][..], &["--fix"]] {
        let (code, answer) = answer(&place, flags);
        assert_eq!(code, Some(1), "nobody can work: {answer:#}");
        let mutex = check(&answer, "mutex").to_string();
        for word in [
            &format!("process {} (flock)", keeper.pid()),
            "is stopped (state T)",
            &format!("kill -CONT {}", keeper.pid()),
        ] {
            assert!(mutex.contains(word), "the process is named, {word}: {mutex}");
        }
        for name in ["pulses", "tokens", "audit"] {
            let skipped = check(&answer, name);
            assert!(
                skipped["message"].as_str().is_some_and(|text| text.contains("not looked at")),
                "{name}: {skipped}"
            );
        }
        assert_eq!(check(&answer, "records")["status"], "ok", "what needs no mutex is looked at");
    }
    let text = place.run("a", &["doctor"]);
    assert!(text.stdout.contains("[FAIL]  Mutex"), "text too: {}", text.stdout);
    keeper.signal("-CONT");
    drop(keeper);
    assert_eq!(answer(&place, &[]).1["overall"], "ok", "and then it is over");
}

#[test]
fn one_that_keeps_the_mutex_without_being_stopped_is_named_too() {
    let place = Place::new(LOKT);
    place.take("a", &["x"]);
    let keeper = Keeper::of(&place);
    put(&place.root().join("locks/bad.json"), "{");
    let started = now_ms();
    let (code, answer) = answer(&place, &["--fix"]);
    assert!(now_ms() - started < 50_000, "it doesn't wait for ever");
    assert_eq!(code, Some(1));
    let mutex = check(&answer, "mutex").to_string();
    assert!(mutex.contains(&format!("process {} (flock", keeper.pid())), "{mutex}");
    let records = check(&answer, "records").to_string();
    assert!(records.contains("could not be repaired: the mutex of this root is taken"), "{records}");
    assert!(place.root().join("locks/bad.json").exists(), "nothing was touched");
}

#[test]
fn a_doctor_that_is_killed_leaves_nothing_that_the_next_one_does_not_clear_away() {
    lokt_testkit::need!("strace", "pgrep");
    let place = Place::new(LOKT);
    let damage = || {
        put(&place.root().join("locks/bad.json"), "{");
        put(&place.root().join("state/held/999"), "");
    };
    place.take("a", &["x", "--ttl", "1h"]);
    damage();
    let all = calls(&place, "doctor", &["doctor", "--fix"]);
    // Those that change something, and some in between.
    let changing =
        ["mkdir", "mkdirat", "unlinkat", "renameat2", "renameat", "fsync", "write", "flock", "fchmod", "kill"];
    let chosen: Vec<_> = all.iter().filter(|call| changing.contains(&call.name.as_str())).step_by(3).collect();
    assert!(chosen.len() > 5, "there is something to kill it at: {all:?}");
    for call in chosen {
        damage();
        killed_at(&place, "doctor", &["doctor", "--fix"], call);
        let held = place.run("b", &["lock", "x"]);
        assert_eq!(held.code, Some(2), "one-holder: killed at {call:?}: {held:?}");
        let free = place.run("b", &["guard", "y", "--", "true"]);
        assert_eq!(free.code, Some(0), "the root works: killed at {call:?}: {free:?}");
    }
    // What it tried things in counts as left behind when it is old.
    pause(Duration::from_millis(5_500));
    let (code, answer) = answer(&place, &["--fix"]);
    assert_eq!((code, &answer["overall"]), (Some(0), &"ok".into()), "{answer:#}");
    let left = std::fs::read_dir(place.root().join("state/tmp")).expect("it is there").count();
    assert_eq!(left, 0, "nothing is left");
    let helpers = Command::new("pgrep").args(["-f", &format!("doctor --rival {}", place.root().display())]).output();
    assert_eq!(helpers.expect("pgrep runs").stdout, b"", "no helper is left either");
}

#[test]
fn ten_thousand_locks_are_looked_over_in_about_a_second() {
    let place = Place::new(LOKT);
    place.take("a", &["x", "--ttl", "1h"]);
    let record = std::fs::read_to_string(place.record("x")).expect("it is held");
    for number in 0..10_000 {
        let path = place.record(&format!("n{number}"));
        put(&path, &record);
        crate::common::chmod(&path, 0o600);
    }
    let started = now_ms();
    let (code, answer) = answer(&place, &[]);
    let took = now_ms() - started;
    assert_eq!((code, &answer["overall"]), (Some(0), &"ok".into()), "{answer:#}");
    assert!(took < 10_000, "it took {took} ms");
}
