//! **no-clock-trust**: a wall clock an hour ahead or behind neither ends a live hold nor revives an expired one on the same boot.
//!
//! `libfaketime` moves the clock of the standard library by preloading, so it needs a dynamically linked build of the command; boot clocks
//! are read by direct system calls, which it can't move. Each test first shows that a record *without* boot fields does follow the
//! wall clock, so that none can pass because the clock wasn't moved at all.

use std::sync::OnceLock;
use std::time::Duration;

use lokt_testkit::cmd::Place;
use lokt_testkit::moved_clock;
use lokt_testkit::swarm::{Ended, put, wait_until, wall_text};
use lokt_testkit::tenancy::as_words;

/// The command, linked dynamically. Built once, beside the usual build.
pub(crate) fn dynamic_binary() -> &'static str {
    static BINARY: OnceLock<String> = OnceLock::new();
    let build = || moved_clock::dynamic_build(env!("CARGO"), env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"));
    BINARY.get_or_init(build)
}

struct Clock {
    place: Place,
}

impl Clock {
    fn new() -> Self {
        Self { place: Place::new(dynamic_binary()) }
    }

    /// Runs the command with the wall clock moved.
    fn at(&self, offset: &str, owner: &str, args: &[&str]) -> Ended {
        let moved = moved_clock::by_offset(offset);
        let mut words = as_words(&moved);
        words.extend(self.place.words(args));
        self.place.run_words(owner, &words)
    }

    /// A record of another program, without boot fields, that ends in `secs`.
    fn foreign(&self, name: &str, secs: i64) {
        let times =
            format!(r#""acquired_ts":"{}","ttl_sec":600,"expires_at":"{}""#, wall_text(secs - 600), wall_text(secs));
        let who = format!(r#""version":1,"name":"{name}","owner":"f","host":"elsewhere","pid":1"#);
        put(&self.place.record(name), format!("{{{who},{times}}}"));
    }
}

#[test]
fn a_clock_an_hour_ahead_does_not_end_a_live_hold() {
    lokt_testkit::need!("faketime");
    let clock = Clock::new();
    clock.foreign("control", 300);
    assert_eq!(clock.place.run("b", &["exists", "control"]).code, Some(0), "the control lives by the true clock");
    assert_eq!(
        clock.at("+1h", "b", &["exists", "control"]).code,
        Some(3),
        "faketime works: the control is over an hour later"
    );

    clock.place.take("a", &["x", "--ttl", "5m"]);
    assert_eq!(clock.at("+1h", "b", &["exists", "x"]).code, Some(0), "no-clock-trust: a live hold is not over");
    assert_eq!(clock.at("+1h", "b", &["lock", "x"]).code, Some(2), "no-clock-trust: and not given to another");
    assert_eq!(clock.at("+1h", "b", &["why", "x"]).code, Some(2), "why agrees with lock");
    let refused = clock.at("+1h", "b", &["unlock", "--break-stale", "x"]);
    assert_eq!(refused.code, Some(1), "no-clock-trust: and not stale: {}", refused.stderr);
    clock.at("+1h", "b", &["status", "--prune-expired"]);
    assert!(clock.place.stored("x").is_some(), "no-clock-trust: and not pruned");
}

#[test]
fn a_clock_an_hour_behind_does_not_revive_an_expired_hold() {
    lokt_testkit::need!("faketime");
    let clock = Clock::new();
    clock.foreign("control", -300);
    assert_eq!(clock.place.run("b", &["exists", "control"]).code, Some(3), "the control is over by the true clock");
    assert_eq!(
        clock.at("-1h", "b", &["exists", "control"]).code,
        Some(0),
        "faketime works: the control lived an hour ago"
    );

    clock.place.take("a", &["x", "--ttl", "1s"]);
    let over = wait_until(Duration::from_secs(10), || clock.place.run("b", &["exists", "x"]).code == Some(3));
    assert!(over, "a one-second lease ends");
    assert_eq!(clock.at("-1h", "b", &["exists", "x"]).code, Some(3), "no-clock-trust: what is over stays over");
    assert_eq!(clock.at("-1h", "b", &["lock", "x"]).code, Some(0), "no-clock-trust: and is given to the next");
}

#[test]
fn a_holder_whose_own_clock_is_wrong_gets_the_lease_it_asked_for() {
    lokt_testkit::need!("faketime");
    for offset in ["+1h", "-1h"] {
        let clock = Clock::new();
        let taken = clock.at(offset, "a", &["lock", "x", "--ttl", "5m"]);
        assert_eq!(taken.code, Some(0), "{}", taken.stderr);
        assert_eq!(
            clock.place.run("b", &["lock", "x"]).code,
            Some(2),
            "no-clock-trust: taken at {offset}, refused by the true clock"
        );
        let short = clock.at(offset, "a", &["lock", "y", "--ttl", "1s"]);
        assert_eq!(short.code, Some(0), "{}", short.stderr);
        let over = wait_until(Duration::from_secs(10), || clock.place.run("b", &["exists", "y"]).code == Some(3));
        assert!(over, "no-clock-trust: a one-second lease taken at {offset} ends after one second");
    }
}

#[test]
fn frozen_means_frozen_also_for_those_whose_clock_is_wrong() {
    lokt_testkit::need!("faketime");
    let clock = Clock::new();
    let frozen = |name: &str| clock.place.root().join(format!("freezes/{name}.json")).exists();
    for (name, placed) in [("x", "+0"), ("ahead", "+1h"), ("behind", "-1h")] {
        let said = clock.at(placed, "ops", &["freeze", name, "--ttl", "5m"]);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        for offset in ["+1h", "+0", "-1h"] {
            let context = format!("no-clock-trust: frozen at {placed}, asked at {offset}");
            assert_eq!(clock.at(offset, "b", &["lock", name]).code, Some(2), "{context}: it is frozen");
            assert_eq!(
                clock.at(offset, "b", &["guard", name, "--", "true"]).code,
                Some(2),
                "{context}: for guards too"
            );
            assert_eq!(clock.at(offset, "b", &["why", name]).code, Some(2), "{context}: why agrees");
            assert_eq!(clock.at(offset, "b", &["freeze", name]).code, Some(2), "{context}: it is not replaced");
            clock.at(offset, "b", &["status", "--prune-expired"]);
            assert!(frozen(name), "{context}: and not pruned");
        }
    }
    let said = clock.at("+1h", "ops", &["freeze", "short", "--ttl", "1s"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let over = wait_until(Duration::from_secs(10), || clock.place.run("b", &["why", "short"]).code == Some(0));
    assert!(over, "no-clock-trust: a freeze of a second ends after a second, wherever the clock stood");
    assert_eq!(clock.at("-1h", "b", &["lock", "short"]).code, Some(0), "no-clock-trust: what is over stays over");
}

#[test]
fn an_error_that_passes_leaves_no_hold_to_the_wall_clock() {
    lokt_testkit::need!("strace");
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    let args = ["lock", "x", "--ttl", "5m"];
    let mut granted = 0;
    for call in ["open", "read", "readlink"] {
        for nth in 1..=6 {
            let inject = format!("inject={call}:error=EMFILE:when={nth}");
            let trace = format!("trace={call}");
            let traced = [&["strace", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject], &place.words(&args)[..]];
            if place.run_words("a", &traced.concat()).code != Some(0) {
                continue;
            }
            granted += 1;
            let record = place.stored("x").expect("it was granted");
            let which = format!("{call} {nth}: {record}");
            assert!(record["boot_id"].is_string(), "no-clock-trust: the boot is known, {which}");
            assert!(record["pid_ns"].is_u64(), "the pid means something, {which}");
            assert_ne!(record["pid_start_ns"], 0, "it is told from others with that pid, {which}");
            assert!(record["parts"]["owner"]["boottime_ms"].is_u64(), "no-clock-trust: the boot clock counts, {which}");
            assert_eq!(place.run("a", &["unlock", "x"]).code, Some(0), "{which}");
        }
    }
    assert!(granted > 6, "most of these calls aren't needed, or are made again: {granted}");
}
