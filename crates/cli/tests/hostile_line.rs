//! Things in the line and among the holders' pulses that lokt didn't put there: no hang, no grant past a living waiter, no panic.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use lokt_testkit::line::{Process, in_line, line_dir, served, ticket_of};
use lokt_testkit::swarm::wait_until;
use rustix::fs::{CWD, FlockOperation, Mode, flock, mkfifoat};
use serde_json::json;

use crate::common::programs::copy_of_lokt;
use crate::common::{Call, LOKT, Pulse, Root, chmod, put, remove};

const GUARD: [&str; 6] = [LOKT, "guard", "x", "--wait", "--", "true"];

/// What somebody may have left where pulses are.
fn litter(dir: &Path, from: u64) {
    let at = |n: u64| dir.join((from + n).to_string());
    put(&at(0), "garbage");
    put(&at(1), "");
    put(&at(2), vec![b' '; 3 << 20]);
    put(&at(3), r#"{"version":2,"owner":"future"}"#);
    put(&at(4), json!({"version": 1, "owner": "e", "process": {"pid": -1, "start": -1}, "since": ""}).to_string());
    symlink("/etc/passwd", at(5)).expect("a link can be made");
    symlink(at(6), at(6)).expect("a loop can be made");
    mkfifoat(CWD, at(7), Mode::RUSR | Mode::WUSR).expect("a FIFO can be made");
    fs::create_dir_all(at(8).join("full")).expect("a directory can be made");
    put(&dir.join("note.txt"), "not a number");
    put(&dir.join("-1"), "no number of ours");
    put(&dir.join("99999999999999999999999"), "beyond every number");
    put(&dir.join("18446744073709551615"), "the last number");
    put(&dir.join("007"), "a number, but not as we write it");
}

#[test]
fn what_lies_in_a_line_is_in_nobodys_way() {
    let root = Root::used();
    litter(&line_dir(&root.path(), "x"), 1);
    assert_eq!(
        root.run("z", "queue x").exits(0, "it can be read").stdout,
        "nobody waits for lock \"x\"\n",
        "nobody does"
    );
    root.run("a", "lock x").exits(0, "nobody lives there");
    let waiter = in_line(&root.path(), "x", "b", &GUARD);
    let json = root.run("z", "status x --json").exits(0, "it is held").json();
    assert_eq!(json["waiters"], 1, "one waits");
    root.run("a", "unlock x").exits(0, "it is a's");
    assert_eq!(waiter.end_within(Duration::from_secs(20)).code, Some(0), "and is served");
    root.run("a", "why x").exits(0, "it is free");
}

#[test]
fn what_lies_between_the_waiters_lets_nobody_past_them() {
    let root = Root::used();
    root.run("a", "lock x").exits(0, "it is free");
    let first = in_line(&root.path(), "x", "b", &GUARD);
    let number = ticket_of(&root.path(), "x", first.pid()).expect("it is in line");
    litter(&line_dir(&root.path(), "x"), number + 1);
    litter(&line_dir(&root.path(), "x"), number + 100);
    let second = in_line(&root.path(), "x", "c", &GUARD);
    let stopped = in_line(&root.path(), "x", "d", &GUARD);
    stopped.stop();
    let json = root.run("z", "queue x --json").exits(0, "it can be read").json();
    let owners: Vec<_> = json["waiters"].as_array().expect("a list").iter().map(|one| one["owner"].clone()).collect();
    assert_eq!(owners, ["b", "c", "d"], "only the living are shown");
    root.run("a", "unlock x").exits(0, "it is a's");
    assert_eq!(first.end_within(Duration::from_secs(20)).code, Some(0), "the first is served");
    assert_eq!(second.end_within(Duration::from_secs(20)).code, Some(0), "then the second");
    assert_eq!(served(&root.path(), "x"), ["a", "b", "c"], "in order");
}

#[test]
fn what_lies_in_a_line_and_is_locked_hangs_nobody() {
    let root = Root::used();
    litter(&line_dir(&root.path(), "x"), 1);
    let locked: Vec<File> = (1..5)
        .map(|number| {
            let file = File::open(line_dir(&root.path(), "x").join(number.to_string())).expect("it is there");
            flock(&file, FlockOperation::NonBlockingLockExclusive).expect("nobody else has it");
            file
        })
        .collect();
    root.run("z", "queue x").exits(0, "it can be read");
    root.run("z", "why x").exits(0, "it can be read");
    // Whoever keeps it locked may be somebody; after two seconds at most it is passed over.
    let got = wait_until(Duration::from_secs(10), || root.run("a", "lock x").code == 0);
    assert!(got, "nobody waits for ever for something that can't be understood");
    drop(locked);
}

#[test]
fn a_pulse_that_is_damaged_while_its_process_waits_delays_nobody() {
    let root = Root::used();
    root.run("a", "lock x").exits(0, "it is free");
    let waiters: Vec<Process> = ["b", "c", "d"].iter().map(|who| in_line(&root.path(), "x", who, &GUARD)).collect();
    let number = ticket_of(&root.path(), "x", waiters[1].pid()).expect("it is in line");
    put(&line_dir(&root.path(), "x").join(number.to_string()), "gar");
    root.run("a", "unlock x").exits(0, "it is a's");
    for waiter in waiters {
        assert_eq!(waiter.end_within(Duration::from_secs(20)).code, Some(0), "everybody is served");
    }
    let mut order = served(&root.path(), "x");
    order.sort();
    assert_eq!(order, ["a", "b", "c", "d"], "once");
}

#[test]
fn what_lies_among_the_holders_pulses_is_in_nobodys_way() {
    let root = Root::used();
    let held = root.path().join("state/held");
    // Where the next numbers will be drawn.
    for from in [1, 20] {
        litter(&held, from);
    }
    let mut ran = 0;
    for _ in 0..40 {
        let said = root.run("a", "guard x -- true");
        assert!([0, 1, 65, 75].contains(&said.code), "it works, or says what is in the way{said}");
        assert!(said.code == 0 || said.stderr.starts_with("error: "), "a failure says what is in the way{said}");
        ran += usize::from(said.code == 0);
    }
    assert!(ran > 0, "numbers that are free are used");
    root.run("b", "lock x").exits(0, "nobody holds it");
}

#[test]
fn a_hold_whose_pulse_is_something_else_is_held_while_its_process_lives() {
    for kind in ["garbage", "empty", "link", "fifo", "directory", "missing"] {
        let root = Root::used();
        let guard = Process::start(&root.path(), "a", &[LOKT, "guard", "x", "--", "sleep", "600"]);
        assert!(wait_until(Duration::from_secs(20), || root.has_record("x")), "the guard holds it");
        let pulse = root.path().join(format!("state/held/{}", root.record("x")["pulse"]["n"]));
        assert!(pulse.exists(), "the record names the pulse: {}", root.record("x"));
        remove(&pulse);
        match kind {
            "garbage" => put(&pulse, "garbage"),
            "empty" => put(&pulse, ""),
            "link" => symlink("/etc/passwd", &pulse).expect("a link can be made"),
            "fifo" => mkfifoat(CWD, &pulse, Mode::RUSR | Mode::WUSR).expect("a FIFO can be made"),
            "directory" => fs::create_dir(&pulse).expect("a directory can be made"),
            _ => {}
        }
        root.run("b", "lock x").exits(2, &format!("its process lives: {kind}"));
        root.run("b", "status x").exits(0, "it can be read");
        let waiter = in_line(&root.path(), "x", "b", &GUARD);
        drop(guard);
        if kind == "link" {
            // It isn't followed, so nothing is known; then it is held until somebody says otherwise.
            root.run("c", "why x").exits(2, "it can't be told").says("can't be verified from here", "and it says so");
            root.run("c", "unlock --force x").exits(0, "break glass");
        }
        assert_eq!(waiter.end_within(Duration::from_secs(20)).code, Some(0), "then the next one enters: {kind}");
    }
}

#[test]
fn a_line_that_is_a_file_is_named_and_unlock_still_works() {
    let root = Root::new();
    root.run("a", "lock x").exits(0, "it is free");
    put(&root.path().join("state/line/x"), "not a line");
    for words in ["lock x", "lock x --wait --timeout 5s", "guard x -- true", "queue x", "why x"] {
        let said = root.run("b", words);
        assert_ne!(said.code, 0, "nobody is granted what can't be looked at: {words}{said}");
        said.notes("state/line/x: x is a file, not a directory", "it says what is in the way");
    }
    let said = root.run("b", "lock x --json").exits(1, "it can't be done");
    assert_eq!(said.failure(), "E_IO", "in JSON too");
    root.run("b", "lock y").exits(0, "other names are not concerned");
    root.run("a", "unlock x").exits(0, "nothing keeps anybody from leaving");
}

#[test]
fn a_line_that_leads_elsewhere_is_not_followed() {
    let root = Root::used();
    let elsewhere = root.outside().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory can be made");
    put(&elsewhere.join("1"), "somebody's");
    fs::create_dir_all(root.path().join("state/line")).expect("it is ours");
    symlink(&elsewhere, root.path().join("state/line/x")).expect("a link can be made");
    let said = root.run("b", "lock x");
    assert_ne!(said.code, 0, "what isn't a line of ours is an error{said}");
    root.run("b", "lock x --timeout 1s");
    assert_eq!(fs::read_to_string(elsewhere.join("1")).expect("it is there"), "somebody's", "nothing was touched");
    assert_eq!(fs::read_dir(&elsewhere).expect("it is there").count(), 1, "nor made");
}

#[test]
fn a_line_that_cannot_be_read_is_an_error_and_no_grant() {
    lokt_testkit::need!(root);
    let root = Root::new();
    chmod(root.outside(), 0o755);
    let lokt = copy_of_lokt(root.outside());
    fs::create_dir(root.path()).expect("a temp directory is writable");
    std::os::unix::fs::chown(root.path(), Some(20_001), Some(20_001)).expect("this test acts as another user, as root");
    let call = |words: &str| {
        let user = ["--reuid=20001", "--regid=20001", "--clear-groups", "--"];
        let call = Call::new("setpriv").args(user).args([&lokt]).args(words.split_whitespace());
        call.env("LOKT_ROOT", root.path()).env("LOKT_OWNER", "alice").cwd(root.outside()).run()
    };
    call("lock y").exits(0, "the root is alice's");
    let _ticket = Pulse::waiting(&root, "x", "early");
    chmod(&line_dir(&root.path(), "x"), 0o000);
    for words in ["lock x", "lock x --timeout 2s", "guard x -- true", "queue x"] {
        let said = call(words);
        assert!(said.code != 0, "nobody is granted what can't be looked at: {words}{said}");
        said.notes("state/line/x", "it says what can't be read");
    }
    assert!(!root.has_record("x"), "nothing was granted");
}

#[test]
fn holds_that_nobody_understands_open_nothing() {
    let root = Root::new();
    root.run("a", "lock x").exits(0, "it is free");
    let id = root.record("x")["lock_id"].as_str().expect("it has one").to_owned();
    let long = "x=1,".repeat(25_000);
    let garbage = ["", ",", "=", "x", "x=", "x=:", "x=1f:7", "\u{1b}[31m", "../x=1", "x=;rm", "x=\n", &long];
    for holds in garbage.into_iter().map(ToOwned::to_owned).chain([format!("x={id}:999999"), format!("y={id}")]) {
        let shown: String = holds.chars().take(20).collect();
        let guard = |words: &str| root.lokt("b").args(words.split_whitespace()).env("LOKT_HOLDS", &holds).run();
        guard("guard x -- true").exits(2, &format!("it isn't inside of a's hold: {shown:?}"));
        guard("guard x --timeout 100ms -- true").exits(2, &format!("nor after a wait: {shown:?}"));
        guard("lock x --timeout 100ms").exits(2, &format!("nor a lock: {shown:?}"));
        guard("guard free -- true").exits(0, &format!("other names can be had: {shown:?}"));
    }
}

#[test]
fn a_waiter_with_too_much_to_say_is_refused_and_one_with_much_is_seen() {
    let root = Root::new();
    root.run("a", "lock x").exits(0, "it is free");
    // Each of these is six times as long in JSON.
    let much = "\u{1}".repeat(100_000);
    let words = [LOKT, "lock", "x", "--wait", "--reason", &much];
    // Three of them are longer than anything that is read; whoever isn't seen would be overtaken.
    let mut waiter = Process::with(&root.path(), &much, &words, &[("LOKT_AGENT_ID", &much)]);
    assert!(wait_until(Duration::from_secs(10), || waiter.is_over()), "it is refused");
    let ended = waiter.end();
    assert_eq!(ended.code, Some(65), "nobody could read it");
    assert!(ended.stderr.contains("would be too long\nhint: shorten LOKT_OWNER, "), "it is told why: {}", ended.stderr);
    let mut waiter = Process::with(&root.path(), &much, &words[..4], &[]);
    let queued = || root.run("z", "queue x --json").json()["waiters"] != json!([]);
    assert!(wait_until(Duration::from_secs(10), queued), "one of them is not too much");
    assert!(!waiter.is_over(), "it waits");
}
