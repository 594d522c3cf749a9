//! The seed *heartbeat*: a guard with a TTL renews its lease while the command runs. Each acceptance criterion and edge case by name.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lokt_testkit::swarm::pause;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::guards::{Guard, leftovers};
use crate::common::{Root, eventually, names_in, remove, seconds_between, time};

/// The record of `x` once it was renewed.
fn renewed(root: &Root, before: &Value) -> Value {
    eventually("the lease is renewed", || root.record("x")["acquired_ts"] != before["acquired_ts"]);
    root.record("x")
}

fn renewals(root: &Root, name: &str) -> usize {
    root.events_of(name).iter().filter(|event| *event == "renew").count()
}

/// The root's mutex, kept from everyone until it is dropped.
struct Mutex(File);

impl Mutex {
    fn of(root: &Root) -> Self {
        let file = File::open(root.path()).expect("the root is there");
        flock(&file, FlockOperation::LockExclusive).expect("it is free within milliseconds");
        Self(file)
    }
}

impl Drop for Mutex {
    fn drop(&mut self) {
        // Closing isn't enough: what another test is starting at this moment may have inherited it.
        flock(&self.0, FlockOperation::Unlock).expect("it is ours");
    }
}

// --- acceptance criteria

#[test]
fn heartbeat_interval_calculation_half_the_ttl() {
    let root = Root::new();
    // 2m30s for 5m is shown in `core`, where time is made; here the same half with a TTL that can be waited for.
    let guard = Guard::start(&root, "a", "x --ttl 2s");
    eventually("it is renewed twice", || renewals(&root, "x") >= 2);
    guard.exit(0).exits(0, "nothing was lost");
    let events = root.audit_of("x");
    // Not each for itself: one that is told late is followed by the next in less than a second.
    let both = seconds_between(&events[0]["ts"], &events[2]["ts"]);
    assert!((1.9..20.0).contains(&both), "every second, not twice within {both}");
}

#[test]
fn a_long_lease_is_not_renewed_before_half_of_it_is_over() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x --ttl 5m");
    let before = root.record_text("x");
    pause(Duration::from_millis(1_500));
    assert_eq!(root.record_text("x"), before, "2m30s are not over");
    assert_eq!(guard.threads(), 1, "no thread waits for that");
    guard.exit(0).exits(0, "nothing was lost");
    assert_eq!(root.events_of("x"), ["acquire", "release"], "no renewal");
}

#[test]
fn lock_renewal_updates_timestamp_and_nothing_of_the_holds_identity() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x --ttl 1s --reason why");
    let before = root.record("x");
    let after = renewed(&root, &before);
    assert!(time(&after["acquired_ts"]) > time(&before["acquired_ts"]), "acquired_ts is the renewal's");
    assert!(time(&after["expires_at"]) > time(&before["expires_at"]), "expires_at moves with it");
    let lease = seconds_between(&after["acquired_ts"], &after["expires_at"]);
    assert!((lease - 1.0).abs() < 1e-6, "the countdown starts anew: {lease} s");
    assert!(
        after["parts"]["process"]["monotonic_ms"].as_u64() > before["parts"]["process"]["monotonic_ms"].as_u64(),
        "also on the clock that counts"
    );
    for member in [
        "held_since",
        "lock_id",
        "fencing_token",
        "owner",
        "host",
        "pid",
        "pid_start_ns",
        "agent_id",
        "pulse",
        "ttl_sec",
        "reason",
    ] {
        assert_eq!(after[member], before[member], "{member} stays");
    }
    guard.exit(0).exits(0, "nothing was lost");
}

#[test]
fn a_lease_is_kept_beyond_its_length() {
    let root = Root::new();
    // A machine that stands still for a second keeps it.
    let guard = Guard::start(&root, "a", "x --ttl 5s");
    eventually("it lives for two leases", || {
        let said = root.run("b", "lock x");
        assert_eq!(said.code, 2, "nobody gets in while the command runs{said}");
        pause(Duration::from_millis(50));
        renewals(&root, "x") >= 4
    });
    let said = guard.exit(0).exits(0, "nothing was lost");
    assert_eq!(said.stderr, "", "and there was nothing to say{said}");
}

#[test]
fn renewal_is_atomic_no_reader_sees_half_a_record() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x --ttl 1s");
    eventually("three renewals are seen", || {
        for _ in 0..100 {
            // Reads and parses it, or fails the test.
            root.record("x");
        }
        renewals(&root, "x") >= 3
    });
    guard.exit(0).exits(0, "nothing was lost");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "and no temp is left");
}

#[test]
fn a_record_deleted_externally_gives_a_warning_and_the_child_goes_on() {
    for ttl in ["--ttl 2s", ""] {
        let root = Root::new();
        let mut guard = Guard::start(&root, "a", &format!("x {ttl}"));
        remove(&root.record_path("x"));
        guard.warns(
            "warning: lock \"x\" was lost: its record was removed; the command goes on, and its success will be exit code 79\n",
            "it is noticed within a second or so",
        );
        guard.does("echo 'still here'");
        assert!(!root.has_record("x"), "no renewal brings it back");
        let said = guard.exit(0).exits(79, "it was lost");
        assert_eq!(said.stderr.lines().count(), 1, "it is said once{said}");
        assert_eq!(root.events_of("x"), ["acquire"], "nothing is renewed or released that isn't there");
        assert_eq!(leftovers(&root), Vec::<String>::new(), "the guard takes its pulse away");
    }
}

#[test]
fn stolen_lock_detection_names_the_new_holder_and_leaves_the_thief_alone() {
    for ttl in ["--ttl 1s", ""] {
        let root = Root::new();
        let mut guard = Guard::start(&root, "a", &format!("x {ttl}"));
        // While it stands still, so that it finds the new holder and not a moment without one.
        guard.stop();
        root.run("thief", "unlock --force x").exits(0, "force takes everything");
        let thief = Guard::start(&root, "thief", "x");
        guard.signal(Signal::CONT);
        guard.warns("warning: lock \"x\" was lost: now held by thief (agent: ", "the warning names the new holder");
        guard.warns(&format!("(pid {}); the command goes on", thief.pid()), "down to its process");
        let stolen = root.record_text("x");
        guard.does("echo 'still here'");
        let said = guard.exit(0).exits(79, "it was lost");
        assert_eq!(said.stderr.lines().count(), 1, "it is said once{said}");
        assert_eq!(root.record_text("x"), stolen, "the thief's hold is untouched");
        root.run("c", "lock x").exits(2, "and held");
        thief.exit(0).exits(0, "the thief never noticed");
        assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left of either");
    }
}

#[test]
fn a_lock_that_was_force_broken_and_taken_again_is_lost_to_its_new_holder() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x --ttl 1s");
    guard.stop();
    root.run("thief", "unlock --force x").exits(0, "force takes everything");
    root.lokt("thief").env("LOKT_AGENT_ID", "agent-t").args(["lock", "x", "--ttl", "5m"]).run().exits(0, "it is free");
    let stolen = root.record("x");
    guard.signal(Signal::CONT);
    let who = format!("now held by thief (agent: agent-t)@{};", crate::common::host());
    guard.warns(&who, "the warning names the new holder");
    guard.exit(0).exits(79, "it was lost");
    assert_eq!(root.record("x"), stolen, "the thief's hold is untouched");
    assert_eq!(root.events_of("x"), ["acquire", "force-break", "acquire"], "the guard released nothing");
}

#[test]
fn child_completion_stops_the_heartbeat_and_leaves_nothing() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x --ttl 1s");
    renewed(&root, &root.record("x"));
    guard.exit(0).exits(0, "nothing was lost");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "no record, no pulse, no temp");
    let events = root.events_of("x");
    pause(Duration::from_millis(1_200));
    assert_eq!(root.events_of("x"), events, "nothing renews any more");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing comes back");
}

#[test]
fn audit_events_for_renewal_one_each() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x --ttl 1s");
    eventually("it is renewed twice", || renewals(&root, "x") >= 2);
    let pid = guard.pid();
    guard.exit(0).exits(0, "nothing was lost");
    let events = root.audit_of("x");
    let (acquire, release) = (&events[0], &events[events.len() - 1]);
    assert_eq!((&acquire["event"], &release["event"]), (&json!("acquire"), &json!("release")), "from beginning to end");
    for event in &events[1..events.len() - 1] {
        assert_eq!(event["event"], "renew", "in between it is only renewed");
        for member in ["lock_id", "owner", "host", "agent_id"] {
            assert_eq!(event[member], acquire[member], "the renewal's {member} is the hold's");
        }
        assert_eq!((&event["pid"], &event["ttl_sec"]), (&json!(pid), &json!(1)), "by the guard, for its TTL");
        assert_eq!(event["extra"]["fencing_token"], acquire["extra"]["fencing_token"], "under the same token");
    }
}

#[test]
fn no_renewal_without_ttl() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x");
    let zero = Guard::start(&root, "a", "y --ttl 0");
    let before = (root.record_text("x"), root.record_text("y"));
    pause(Duration::from_millis(1_500));
    assert_eq!((root.record_text("x"), root.record_text("y")), before, "nothing is written");
    assert_eq!((guard.threads(), zero.threads()), (1, 1), "no thread renews");
    for (guard, name) in [(guard, "x"), (zero, "y")] {
        guard.exit(0).exits(0, "nothing was lost");
        assert_eq!(root.events_of(name), ["acquire", "release"], "no renewal is audited");
    }
}

// --- edge cases

#[test]
fn ttl_too_short_is_rounded_up_to_a_second_and_renewed_every_500_ms() {
    for ttl in ["1ms", "100ms", "999ms", "1ns"] {
        let root = Root::new();
        let guard = Guard::start(&root, "a", &format!("x --ttl {ttl}"));
        assert_eq!(root.record("x")["ttl_sec"], 1, "{ttl} is a second");
        eventually("it is renewed", || renewals(&root, "x") >= 1);
        guard.exit(0).exits(0, "nothing was lost");
        let events = root.audit_of("x");
        let interval = seconds_between(&events[0]["ts"], &events[1]["ts"]);
        assert!(interval > 0.45, "every 500 ms, not {interval} s: a lease of a millisecond would be all renewals");
    }
    let root = Root::new();
    let said = root.run("a", "guard x --ttl 1001ms -- cat root/locks/x.json").exits(0, "it is free");
    assert_eq!(said.json()["ttl_sec"], 2, "TTLs round up to whole seconds");
}

#[test]
fn renewal_races_with_unlock_a_hundred_children_end_near_the_tick() {
    const GUARDS: usize = 100;
    let root = Root::used();
    let start = |n: usize| {
        let seconds = format!("0.{}", 450 + n);
        let name = format!("n{n}");
        root.lokt("a").args(["guard", &name, "--ttl", "1s", "--", "sleep", &seconds]).start()
    };
    let guards: Vec<usize> = (0..GUARDS).collect();
    for batch in guards.chunks(20) {
        let running: Vec<_> = batch.iter().map(|n| start(*n)).collect();
        for guard in running {
            let said = guard.wait().exits(0, "nothing is lost by ending near the tick");
            assert!(!said.stderr.contains("lost"), "nothing is lost by ending near the tick{said}");
        }
    }
    assert_eq!(leftovers(&root), Vec::<String>::new(), "no record, no pulse, no temp");
    for n in 0..GUARDS {
        let events = root.events_of(&format!("n{n}"));
        let (first, last) = (events.first().map(String::as_str), events.last().map(String::as_str));
        assert_eq!((first, last), (Some("acquire"), Some("release")), "n{n} begins and ends: {events:?}");
        assert!(events[1..events.len() - 1].iter().all(|event| event == "renew"), "once each: {events:?}");
    }
}

#[test]
fn renewal_races_with_unlock_the_release_waits_for_a_renewal_under_way() {
    let root = Root::used();
    let mut guard = Guard::start(&root, "a", "x --ttl 1s");
    let mutex = Mutex::of(&root);
    eventually("a renewal is under way", || guard.threads() > 1);
    let command = guard.command();
    guard.tell("exit 0");
    eventually("the command ends", || std::fs::read_link(format!("/proc/{command}/exe")).is_err());
    drop(mutex);
    let said = guard.wait().exits(0, "nothing was lost");
    assert!(!said.stderr.contains("lost"), "nothing was lost{said}");
    let events = root.events_of("x");
    assert_eq!(events.last().map(String::as_str), Some("release"), "the release comes last: {events:?}");
    assert_eq!(events.iter().filter(|event| *event == "release").count(), 1, "once: {events:?}");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left");
}

#[test]
fn lock_deleted_during_renewal_is_lost_and_the_child_goes_on() {
    let root = Root::used();
    let mut guard = Guard::start(&root, "a", "x --ttl 1s");
    let mutex = Mutex::of(&root);
    eventually("a renewal is under way", || guard.threads() > 1);
    remove(&root.record_path("x"));
    drop(mutex);
    guard.warns("warning: lock \"x\" was lost: its record was removed", "it is noticed");
    guard.does("echo 'still here'");
    guard.exit(3).exits(3, "a code of its own is passed on");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left, and nothing was brought back");
}

#[test]
fn clock_skew_a_record_that_was_edited_into_the_past_is_renewed_from_now() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x --ttl 2s");
    let before = root.record("x");
    let old = before["acquired_ts"].as_str().expect("a time").to_owned();
    root.edit("x", &format!("\"acquired_ts\": \"{old}\""), "\"acquired_ts\": \"2020-01-01T00:00:00Z\"");
    eventually("it is renewed", || time(&root.record("x")["acquired_ts"]) > time(&before["acquired_ts"]));
    assert_eq!(root.record("x")["lock_id"], before["lock_id"], "the same hold");
    guard.exit(0).exits(0, "nothing was lost");
}

#[test]
fn signal_during_renewal_reaches_the_child_at_once_while_the_root_is_busy() {
    let root = Root::used();
    let mut guard = Guard::start(&root, "a", "x --ttl 1s");
    guard.catches("TERM");
    guard.catches("USR1");
    let mutex = Mutex::of(&root);
    eventually("a renewal is under way", || guard.threads() > 1);
    let before = root.record_text("x");
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::USR1, "USR1")] {
        guard.signal(signal);
        guard.heard(&format!("{name} arrived"));
    }
    assert_eq!(root.record_text("x"), before, "the renewal couldn't have happened yet");
    assert_eq!(guard.stderr(), "", "nor has it been given up: the signals didn't wait for its end");
    drop(mutex);
    renewed(&root, &serde_json::from_str(&before).expect("a record"));
    guard.exit(0).exits(0, "nothing was lost");
}

/// `strace`, attached to a running guard; it lets go when dropped.
struct Tracer(Child);

impl Tracer {
    /// Delays every rename of the process from now on.
    fn delays_renames(pid: u32, root: &Root) -> Self {
        let inject = "inject=rename,renameat,renameat2:delay_enter=5000000";
        let log = root.outside().join("strace.log");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-e", inject, "-o"]).arg(&log).args(["-p", &pid.to_string()]);
        let child = strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let tracer = Self(child.expect("strace runs"));
        eventually("strace is attached", || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
        });
        tracer
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // Killed, the kernel detaches it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn signal_during_the_very_write_of_a_renewal_reaches_the_child_at_once() {
    lokt_testkit::need!("strace");
    let root = Root::used();
    let mut guard = Guard::start(&root, "a", "x --ttl 10s");
    guard.catches("TERM");
    let before = root.record_text("x");
    let tracer = Tracer::delays_renames(guard.pid(), &root);
    eventually("the new record is written and about to be renamed", || {
        !names_in(&root.path().join("state/tmp")).is_empty()
    });
    assert_eq!(root.record_text("x"), before, "it is not in place yet");
    guard.signal(Signal::TERM);
    guard.heard("TERM arrived");
    assert_eq!(root.record_text("x"), before, "it is still not in place: the signal didn't wait for it");
    renewed(&root, &serde_json::from_str(&before).expect("a record"));
    drop(tracer);
    let said = guard.exit(0).exits(0, "nothing was lost");
    assert!(!said.stderr.contains("lost"), "nothing was lost{said}");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left");
}

#[test]
fn a_renewal_that_fails_is_tried_again() {
    let root = Root::used();
    let guard = Guard::start(&root, "a", "x --ttl 1s");
    let mutex = Mutex::of(&root);
    guard.warns("warning: lock renewal failed: ", "it gives up after five seconds and says so");
    guard.warns("; it is tried again", "and what comes next");
    let before = root.record("x");
    drop(mutex);
    renewed(&root, &before);
    guard.warns("was renewed late: its lease had been over for ", "the lease was over meanwhile");
    guard.exit(0).exits(0, "but nobody took it, so nothing was lost");
}

#[test]
fn a_late_renewal_that_finds_its_own_hold_goes_on_with_a_warning() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x --ttl 4s");
    let before = root.record("x");
    guard.stop();
    pause(Duration::from_millis(4_500));
    guard.signal(Signal::CONT);
    guard.warns("warning: lock \"x\" was renewed late: its lease had been over for ", "it says so");
    let after = root.record("x");
    assert_eq!(
        (&after["lock_id"], &after["fencing_token"]),
        (&before["lock_id"], &before["fencing_token"]),
        "nobody was granted it, so it is the same hold"
    );
    root.run("b", "lock x").exits(2, "and it is held");
    let said = guard.exit(0).exits(0, "nothing was lost");
    assert!(said.stderr.contains("; nobody took it meanwhile\n"), "it says why that is no loss{said}");
}
