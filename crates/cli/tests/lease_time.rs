//! A lease ends by a clock that nobody sets: wrong wall clocks, other time namespaces and other pid namespaces end none early, and keep none.
//!
//! `libfaketime` moves the wall clock of a dynamically linked build; boot clocks are read by direct system calls, which it can't move. The
//! namespaces need the superuser, and fail without: a test that can't run has shown nothing.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lokt_testkit::moved_clock;
use lokt_testkit::swarm::{Ended, in_parallel, now_ms, pause, put, wait_until, wall_text};
use lokt_testkit::tenancy::{LONG, Tenancy, answer, as_words, token_in, token_of};
use serde_json::Value;

use crate::common::{LOKT, now, time};
use crate::no_clock_trust::dynamic_binary;

const PATIENCE: Duration = Duration::from_secs(60);
const OFFSETS: [&str; 5] = ["+30s", "-30s", "+60s", "+1h", "-1h"];
/// Ends during a test; for others after 4,200 ms. Until then a few commands have to be over, also where it takes a while to start one.
const BRIEFLY: &str = "--lease 4s --renew 1s --skew 100ms --grace 100ms";
const BRIEFLY_MS: u64 = 4_200;

/// Runs a command, started by `wrap`.
fn wrapped(tenancy: &Tenancy, wrap: &[&str], owner: &str, words: &str) -> Ended {
    let args = tenancy.args(owner, words);
    let words = tenancy.place.words(&as_words(&args));
    tenancy.place.run_words(owner, &[wrap, words.as_slice()].concat())
}

/// Runs a command with the wall clock moved.
fn at(tenancy: &Tenancy, offset: &str, owner: &str, words: &str) -> Ended {
    wrapped(tenancy, &as_words(&moved_clock::by_offset(offset)), owner, words)
}

#[track_caller]
fn exits(ended: &Ended, code: i32, sentence: &str) -> Value {
    assert_eq!(ended.code, Some(code), "{sentence}: {ended:?}");
    answer(ended)
}

// --- the usual case

#[test]
fn check_26_the_lease_of_a_dead_session_is_recovered_when_it_is_over_and_not_before() {
    let tenancy = Tenancy::new(LOKT);
    let began_ms = now_ms();
    let first = tenancy.acquire("a", BRIEFLY);
    let mut refusals = 0;
    let stolen = loop {
        let ended = tenancy.run("b", &format!("lease acquire {LONG}"));
        if ended.code == Some(0) {
            break answer(&ended);
        }
        let refused = exits(&ended, 2, "it isn't over");
        let retry_ms = refused["retry_after_ms"].as_u64().unwrap_or_else(|| panic!("it says when: {refused}"));
        assert!(retry_ms <= BRIEFLY_MS + 1, "{refused}");
        refusals += 1;
    };
    let took_ms = now_ms() - began_ms;
    assert!(took_ms > BRIEFLY_MS, "check 22: never before its time: {took_ms} ms");
    assert!(took_ms < 10 * BRIEFLY_MS, "and soon after: {took_ms} ms");
    assert!(refusals > 0, "it was asked for all the time: {refusals} times");
    assert_eq!((&stolen["status"], &stolen["evidence"]), (&"stolen".into(), &"boot_clock".into()), "{stolen}");
    assert!(token_in(&stolen) > first, "token-order: {stolen}");
    // Whoever waits gets it, too, and needn't ask again and again.
    tenancy.says("b", "lease release", 0);
    tenancy.acquire("a", BRIEFLY);
    let began_ms = now_ms();
    tenancy.says("b", &format!("lease acquire {LONG} --wait"), 0);
    assert!(now_ms() - began_ms < 10 * BRIEFLY_MS, "one who waits is woken");
}

// --- wrong wall clocks

#[test]
fn check_27_a_wrong_clock_steals_nothing_that_lives() {
    lokt_testkit::need!("faketime");
    let tenancy = Tenancy::new(dynamic_binary());
    let token = tenancy.acquire("a", "--lease 5m");
    let bytes = || fs::read(tenancy.inside("locks/main.lock")).expect("it is there");
    let before = bytes();
    for offset in OFFSETS {
        for words in ["lease acquire", "lease steal"] {
            let refused = exits(&at(&tenancy, offset, "b", words), 2, &format!("no-clock-trust: {words} at {offset}"));
            assert_eq!(refused["code"], "E_LOCK_CONFLICT", "{offset}: {refused}");
        }
        let status = exits(&at(&tenancy, offset, "b", "lease status"), 0, offset);
        assert_eq!(status["state"], "held", "no-clock-trust: {offset}: {status}");
        exits(&at(&tenancy, offset, "b", &format!("lease fence check --token {token}")), 0, offset);
        at(&tenancy, offset, "b", "doctor --strict --fix");
        assert_eq!(bytes(), before, "no-clock-trust: {offset}: the lease is as it was");
    }
}

#[test]
fn check_28_a_wrong_clock_keeps_nothing_that_is_over() {
    lokt_testkit::need!("faketime");
    let binary = dynamic_binary();
    // Most of the time all wait.
    in_parallel(OFFSETS.len(), OFFSETS, |offset| {
        let tenancy = Tenancy::new(binary);
        let began_ms = now_ms();
        tenancy.acquire("a", BRIEFLY);
        let stolen = at(&tenancy, offset, "b", &format!("lease acquire {LONG} --timeout 60s"));
        let took_ms = now_ms() - began_ms;
        let stolen = exits(&stolen, 0, offset);
        assert_eq!(stolen["evidence"], "boot_clock", "{offset}: {stolen}");
        assert!(took_ms > BRIEFLY_MS && took_ms < 10 * BRIEFLY_MS, "no-clock-trust: {offset}: {took_ms} ms");
    });
}

#[test]
fn check_30_a_holder_whose_clock_is_wrong_or_steps_has_its_lease_for_as_long_as_it_asked() {
    lokt_testkit::need!("faketime");
    let binary = dynamic_binary();
    in_parallel(OFFSETS.len(), OFFSETS, |offset| {
        let tenancy = Tenancy::new(binary);
        let taken = exits(&at(&tenancy, offset, "a", "lease acquire --lease 5m"), 0, offset);
        let moved = time(&taken["lock"]["created_at"]).duration_since(now()).as_secs();
        assert!(moved.abs() > 20, "faketime works: {offset} moved the clock by {moved} s");
        for words in ["lease acquire", "lease steal"] {
            tenancy.says("b", words, 2);
        }
        // The clock steps, to and fro, under a live holder.
        for step in ["+0s", "+1h", "-1h", offset] {
            let renewed =
                exits(&at(&tenancy, step, "a", "lease renew"), 0, &format!("taken at {offset}, renewed at {step}"));
            assert_eq!(token_in(&renewed), token_in(&taken), "no-clock-trust: the same lease");
            let source = format!("source{step}");
            put(&tenancy.place.beside(&source), "new");
            let words = format!("lease fence publish --token {} {source} target{step}", token_in(&taken));
            exits(&at(&tenancy, step, "a", &words), 0, &format!("taken at {offset}, published at {step}"));
            tenancy.says("b", "lease acquire", 2);
        }
        exits(&at(&tenancy, "+0s", "a", "lease release"), 0, "it is a's");
        // It isn't prolonged either.
        let began_ms = now_ms();
        exits(&at(&tenancy, offset, "a", &format!("lease acquire {BRIEFLY}")), 0, offset);
        tenancy.says("b", &format!("lease acquire {LONG} --timeout 60s"), 0);
        let took_ms = now_ms() - began_ms;
        assert!(took_ms > BRIEFLY_MS && took_ms < 10 * BRIEFLY_MS, "no-clock-trust: {offset}: {took_ms} ms");
        exits(&at(&tenancy, offset, "a", "lease renew"), 4, "no-lost-thief");
    });
}

// --- another tool's clock

/// Another tool's record, written an hour from now or before.
fn skewed(secs: i64) -> String {
    let (at, end) = (wall_text(secs), wall_text(secs + 4));
    let times = format!(r#""created_at":"{at}","last_renewed_at":"{at}","lease_expires_at":"{end}""#);
    let ids =
        r#""lock_id":"1","holder_id":"elsewhere:joe:7:9","holder_nonce":"n","session_id":"s","worktree_id":"main""#;
    let policy = r#""lease_duration_ms":4000,"renew_interval_ms":1000,"max_clock_skew_ms":100,"steal_grace_ms":100"#;
    format!(r#"{{{ids},{times},{policy},"acquire_seq":3,"fencing_token":41}}"#)
}

#[test]
fn check_29_a_record_whose_clock_is_an_hour_off_is_named_and_recovered_by_looking() {
    for (secs, way) in [(3_600, "ahead of"), (-3_600, "behind")] {
        let tenancy = Tenancy::new(LOKT);
        let record = skewed(secs);
        put(&tenancy.inside("locks/main.lock"), &record);
        let began_ms = now_ms();
        let refused = tenancy.says("a", &format!("lease acquire {LONG}"), 7);
        assert_eq!(refused["code"], "E_CLOCK_SKEW_EXCEEDED", "{way}: {refused}");
        let skew_ms = refused["skew_ms"].as_i64().unwrap_or_else(|| panic!("{way}: it names the figure: {refused}"));
        assert!((skew_ms - secs * 1_000).abs() < 10_000, "{way}: {skew_ms} ms");
        let session = tenancy.session("a").display().to_string();
        let text = tenancy.place.run("a", &["lease", "acquire", "--session", &session]);
        assert_eq!(text.code, Some(7), "{way}: {text:?}");
        let figure = if secs > 0 { ["59m5", "1h0m"] } else { ["1h0m", "59m5"] };
        let named =
            figure.iter().any(|figure| text.stderr.contains(figure) && text.stderr.contains(&format!("s {way}")));
        assert!(named, "{way}: the figure is in the text, too: {}", text.stderr);
        let left = fs::read_to_string(tenancy.inside("locks/main.lock")).expect("it is there");
        assert_eq!(left, record, "{way}: the record is as it was");
        let taken = tenancy.says("a", &format!("lease acquire {LONG} --wait"), 0);
        let took_ms = now_ms() - began_ms;
        assert_eq!((&taken["status"], &taken["evidence"]), (&"stolen".into(), &"observed".into()), "{way}: {taken}");
        assert!(took_ms > BRIEFLY_MS && took_ms < 10 * BRIEFLY_MS, "{way}: after its time: {took_ms} ms");
        assert!(token_in(&taken) > 41, "token-order: {way}: {taken}");
    }
}

// --- namespaces

const OTHER_TIME: [&str; 5] = ["unshare", "--time", "--boottime", "100000", "--fork"];
const OTHER_PIDS: [&str; 5] = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];

#[track_caller]
fn must_work(wrap: &[&str]) {
    let ended = Command::new(wrap[0]).args(&wrap[1..]).arg("true").status();
    assert!(ended.is_ok_and(|status| status.success()), "this test needs root, for {wrap:?}");
}

#[test]
fn another_time_namespace_is_not_fooled() {
    lokt_testkit::need!(root);
    must_work(&OTHER_TIME);
    // Who looks from there, and who holds from there.
    for (holder, thief) in [(&[][..], &OTHER_TIME[..]), (&OTHER_TIME[..], &[][..]), (&OTHER_TIME[..], &OTHER_TIME[..])]
    {
        let context = format!("holder {holder:?}, thief {thief:?}");
        let tenancy = Tenancy::new(LOKT);
        let began_ms = now_ms();
        let taken = exits(&wrapped(&tenancy, holder, "a", &format!("lease acquire {BRIEFLY}")), 0, &context);
        for words in ["lease acquire", "lease steal"] {
            exits(&wrapped(&tenancy, thief, "b", words), 2, &format!("one-holder: {context}"));
        }
        let words = format!("lease acquire {LONG} --timeout 60s");
        let stolen = exits(&wrapped(&tenancy, thief, "b", &words), 0, &context);
        let took_ms = now_ms() - began_ms;
        assert!(took_ms > BRIEFLY_MS && took_ms < 10 * BRIEFLY_MS, "{context}: {took_ms} ms");
        assert_eq!(stolen["evidence"], "observed", "{context}: there was no other way to know: {stolen}");
        assert!(token_in(&stolen) > token_in(&taken), "token-order: {context}");
        exits(&wrapped(&tenancy, holder, "a", "lease renew"), 4, &format!("no-lost-thief: {context}"));
    }
}

/// A process of ours; it ends with the test at the latest.
struct Running(Child);

impl Running {
    /// Starts `lease run` with a lease of an hour, and waits until its command runs.
    fn lease(tenancy: &Tenancy, wrap: &[&str]) -> Self {
        let args = tenancy.args("a", "lease run --lease 1h -- sleep 100");
        let binary = tenancy.place.words(&as_words(&args));
        let words = [wrap, binary.as_slice()].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).envs(tenancy.place.env("a")).current_dir(tenancy.place.dir());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Self(command.spawn().expect("it starts"));
        assert!(wait_until(PATIENCE, || tenancy.shown().is_some()), "it gets the lease");
        running
    }

    fn dies(mut self) {
        self.0.kill().expect("it is ours");
        self.0.wait().expect("it is ours");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A killed `lease run` takes its command with it; that is a moment later.
const AT_ONCE: &str = "--timeout 20s";

#[test]
fn check_31_what_a_killed_run_held_is_free_at_once() {
    let tenancy = Tenancy::new(LOKT);
    let running = Running::lease(&tenancy, &[]);
    let held = tenancy.shown().expect("it is held");
    tenancy.says("b", "lease acquire", 2);
    running.dies();
    let taken = tenancy.says("b", &format!("lease acquire {LONG} {AT_ONCE}"), 0);
    assert_eq!(taken["status"], "stolen", "an hour before its time: {taken}");
    assert!(token_in(&taken) > held, "token-order: {taken}");
    // A command that has ended proves nothing: its lease belongs to a session.
    tenancy.says("b", "lease release", 0);
    tenancy.acquire("b", LONG);
    pause(Duration::from_millis(100));
    tenancy.says("a", "lease steal", 2);
}

#[test]
fn check_32_a_holder_in_another_pid_namespace_is_not_dead() {
    lokt_testkit::need!(root);
    must_work(&OTHER_PIDS);
    let tenancy = Tenancy::new(LOKT);
    // The host name is the same on both sides.
    for (inside, outside) in
        [(&OTHER_PIDS[..], &[][..]), (&[][..], &OTHER_PIDS[..]), (&OTHER_PIDS[..], &OTHER_PIDS[..])]
    {
        let context = format!("holder {inside:?}, thief {outside:?}");
        let running = Running::lease(&tenancy, inside);
        for words in ["lease acquire", "lease steal", "lease acquire --timeout 300ms"] {
            exits(&wrapped(&tenancy, outside, "b", words), 2, &format!("one-holder: {context}: {words}"));
        }
        wrapped(&tenancy, outside, "b", "doctor --strict --fix");
        exits(&wrapped(&tenancy, outside, "b", "lease acquire"), 2, &format!("one-holder: {context}: after doctor"));
        running.dies();
        let over = || tenancy.run("b", "lease acquire --lease 1h").code == Some(0);
        assert!(wait_until(PATIENCE, over), "{context}: whoever sees all processes sees its end");
        assert!(token_of(&tenancy.run("b", "lease release")) > 0, "{context}");
    }
}
