//! audited: every grant, refusal, renewal, release, break and freeze leaves one event, in order per name; a line is lost only if the
//! process is killed between the change and the line; and no trouble with the log stops anybody.

use std::collections::HashMap;
use std::fs;

use lokt_testkit::cmd::Place;
use lokt_testkit::judge::{Told, read_audit, verdict};
use lokt_testkit::strace::{self, killed_at};
use lokt_testkit::swarm::{Ended, Swarm};
use serde_json::Value;

use crate::common::guards::Guard;
use crate::common::{Root, alive, elsewhere, go_lease, go_record, remove};

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_lokt"))
}

// --- one event per outcome

#[test]
fn every_outcome_of_every_command_leaves_its_events_and_no_others() {
    type Prepare = fn(&Root);
    let nothing: Prepare = |_| ();
    let held: Prepare = |root| drop(root.run("bob", "lock x --ttl 1h").exits(0, "it is free"));
    let mine: Prepare = |root| drop(root.run("alice", "lock x --ttl 1h").exits(0, "it is free"));
    let expired: Prepare = |root| root.put_record("x", &go_lease("x", "bob", 60, -60));
    let dead: Prepare = |root| root.put_record("x", &go_record("x", "bob"));
    let guarded: Prepare = |root| root.put_record("x", &alive(go_record("x", "alice")));
    let remote: Prepare = |root| root.put_record("x", &elsewhere(go_record("x", "bob")));
    let corrupt: Prepare = |root| root.put("locks/x.json", "{");
    let newer: Prepare = |root| root.put("locks/x.json", r#"{"version":2}"#);
    let frozen: Prepare = |root| root.put_freeze("x", &go_lease("x", "ops", 600, 600));
    let thawed: Prepare = |root| root.put_freeze("x", &go_lease("x", "ops", 600, -600));
    let froze: Prepare = |root| drop(root.run("alice", "freeze x --ttl 1h").exits(0, "it isn't frozen"));
    for (before, words, code, events) in [
        (nothing, "lock x", 0, &["acquire"][..]),
        (mine, "lock x", 0, &["renew"]),
        (held, "lock x", 2, &["deny"]),
        (held, "lock x --timeout 50ms", 2, &["deny"]),
        (expired, "lock x", 0, &["auto-prune", "acquire"]),
        (dead, "lock x", 0, &["auto-prune", "acquire"]),
        (remote, "lock x", 2, &["deny"]),
        (corrupt, "lock x", 0, &["corrupt-break", "acquire"]),
        (newer, "lock x", 65, &[]),
        (frozen, "lock x", 2, &["freeze-deny"]),
        (frozen, "lock x --timeout 50ms", 2, &["freeze-deny"]),
        (thawed, "lock x", 0, &["acquire"]),
        (nothing, "guard x -- true", 0, &["acquire", "release"]),
        (nothing, "guard x -- false", 1, &["acquire", "release"]),
        (nothing, "guard x -- /no/such/command", 127, &["acquire", "release"]),
        (mine, "guard x -- true", 0, &["renew", "release"]),
        (held, "guard x -- true", 2, &["deny"]),
        (expired, "guard x -- true", 0, &["auto-prune", "acquire", "release"]),
        (corrupt, "guard x -- true", 0, &["corrupt-break", "acquire", "release"]),
        (frozen, "guard x -- true", 2, &["freeze-deny"]),
        (mine, "unlock x", 0, &["release"]),
        (nothing, "unlock x", 3, &[]),
        (held, "unlock x", 4, &[]),
        (held, "unlock x --force", 0, &["force-break"]),
        (guarded, "unlock x --break-stale", 1, &[]),
        (expired, "unlock x --break-stale", 0, &["stale-break"]),
        (held, "unlock x --break-stale", 1, &[]),
        (corrupt, "unlock x --force", 0, &["corrupt-break"]),
        (newer, "unlock x --force", 0, &["force-break"]),
        (mine, "unlock --all", 0, &["release"]),
        (held, "unlock --owner bob --force", 0, &["force-break"]),
        (expired, "status --prune-expired", 0, &["auto-prune"]),
        (expired, "status x --prune-expired", 0, &["auto-prune"]),
        (thawed, "status --prune-expired", 0, &["auto-prune"]),
        (nothing, "freeze x --ttl 1h", 0, &["freeze"]),
        (froze, "freeze x --ttl 2h", 0, &["freeze"]),
        (frozen, "freeze x --ttl 1h", 2, &["freeze-deny"]),
        (froze, "unfreeze x", 0, &["unfreeze"]),
        (frozen, "unfreeze x", 4, &[]),
        (frozen, "unfreeze x --force", 0, &["force-unfreeze"]),
        (nothing, "unfreeze x", 3, &[]),
        (held, "status", 0, &[]),
        (held, "why x", 2, &[]),
        (held, "exists x", 0, &[]),
        (held, "queue x", 0, &[]),
        (held, "audit", 0, &[]),
    ] {
        let root = Root::used();
        before(&root);
        let already = root.events_of("x").len();
        let said = root.run("alice", words);
        let left = root.events_of("x").split_off(already);
        assert_eq!(left, events, "audited: {words} leaves its events{said}");
        assert_eq!(said.code, code, "{words}{said}");
        let all: Vec<Value> = root.audit_of("x").split_off(already);
        assert!(all.iter().all(|event| event["owner"] == "alice"), "audited: {words}: the actor is named: {all:?}");
        let kinds: Vec<String> = events.iter().map(|event| format!("audit --json --event {event}")).collect();
        for kind in kinds {
            assert!(!root.run("alice", &kind).exits(0, "a known event").stdout.is_empty(), "{kind} finds it");
        }
    }
}

// --- order

/// Each name's events are a history: taken, then given back, the same hold.
fn alternates(history: &[Told]) -> Vec<String> {
    let mut holds: HashMap<&str, Option<&Told>> = HashMap::new();
    let mut broken = Vec::new();
    for told in history {
        let holder = holds.entry(&told.name).or_default();
        match (told.event.as_str(), &holder) {
            ("acquire", None) => *holder = Some(told),
            ("release", Some(before)) if before.lock_id == told.lock_id => *holder = None,
            ("deny", _) => {}
            (event, before) => broken.push(format!("{event} of {} after {before:?}", told.name)),
        }
    }
    broken
}

#[test]
fn under_load_each_name_has_a_possible_history_and_every_answer_its_event() {
    const WORKERS: usize = 24;
    const ROUNDS: usize = 8;
    let place = place();
    let script = r#"
        for round in 1 2 3 4 5 6 7 8; do
            name=n$((($1 + round) % 3))
            case $((($1 + round) % 2)) in
            0) "$0" guard $name --timeout 60s -- true && echo got $name ;;
            1) "$0" lock $name > /dev/null 2>&1 && echo got $name && "$0" unlock $name > /dev/null ;;
            esac
            test $? -le 2 || exit 9
        done
    "#;
    let numbers: Vec<String> = (0..WORKERS).map(|worker| worker.to_string()).collect();
    let commands = numbers.iter().map(|worker| {
        let words = vec!["sh", "-c", script, env!("CARGO_BIN_EXE_lokt"), worker.as_str()];
        (words, place.env(&format!("w{worker}")))
    });
    let ended = Swarm::at_gate(commands).and_then(Swarm::release).expect("processes can be started");
    let history = read_audit(&place.root()).expect("audited: every line is whole");
    assert_eq!(verdict(&history), Vec::<String>::new());
    assert_eq!(alternates(&history), Vec::<String>::new(), "audited: in order per name");
    for (worker, ended) in ended.iter().enumerate() {
        assert_eq!((ended.code, ended.stderr.contains("warning")), (Some(0), false), "{ended:?}");
        let owner = format!("w{worker}");
        let count = |event: &str| history.iter().filter(|told| told.owner == owner && told.event == event).count();
        let got = ended.stdout.lines().count();
        assert_eq!(count("acquire"), got, "audited: one acquire for each grant of {owner}");
        assert_eq!(count("release"), got, "audited: one release for each of them");
        assert_eq!(count("deny"), ROUNDS - got, "audited: one deny for each refusal");
    }
}

// --- kills

/// Runs `args` and kills it at each of its system calls in turn, each time on a root that `prepare` made. `is_done` tells by the record
/// whether the change was made; the line `event` must tell the same, except in the moment before it is written.
fn killed_everywhere(args: &[&str], event: &str, prepare: fn(&Place), is_done: fn(&Place) -> bool) {
    let fresh = || {
        let place = place();
        prepare(&place);
        place
    };
    let calls = strace::calls(&fresh(), "a", args);
    let mut unwritten = Vec::new();
    for call in &calls {
        let place = fresh();
        let before = fs::read_to_string(place.root().join("audit.log")).unwrap_or_default();
        let _ = killed_at(&place, "a", args, call);
        let after = fs::read_to_string(place.root().join("audit.log")).unwrap_or_default();
        let added =
            after.strip_prefix(&before).unwrap_or_else(|| panic!("audited: {call:?}: nothing is ever taken back"));
        let told = added.contains(&format!("\"event\":\"{event}\""));
        match (is_done(&place), told) {
            (true, false) => unwritten.push(call.clone()),
            (false, true) => panic!("audited: killed at {call:?}: it is told and did not happen"),
            _ => {}
        }
        // Whoever comes next writes whole lines, on lines of their own.
        for args in [&["lock", "next"][..], &["unlock", "next"]] {
            let ended = place.run("b", args);
            assert_eq!(ended.code, Some(0), "killed at {call:?}: {ended:?}");
            assert!(!ended.stderr.contains("warning"), "audited: killed at {call:?}: {ended:?}");
        }
        let history = read_audit(&place.root()).unwrap_or_else(|why| panic!("audited: killed at {call:?}: {why}"));
        let next: Vec<&str> =
            history.iter().filter(|told| told.name == "next").map(|told| told.event.as_str()).collect();
        assert_eq!(next, ["acquire", "release"], "audited: killed at {call:?}");
    }
    // One stretch of calls, from the one after the change to the write of the line.
    let first =
        calls.iter().position(|call| Some(call) == unwritten.first()).expect("killed at the write, it is missing");
    assert_eq!(calls[first..first + unwritten.len()], unwritten, "audited: only between the change and the line");
    assert_eq!(
        unwritten.last().map(|call| call.name.as_str()),
        Some("write"),
        "audited: up to the write: {unwritten:?}"
    );
    assert!(unwritten.len() < 16, "audited: right after the change: {unwritten:?}");
}

#[test]
fn a_lock_killed_at_any_system_call_misses_at_most_the_line_it_was_about_to_write() {
    lokt_testkit::need!("strace");
    killed_everywhere(
        &["lock", "x", "--ttl", "1h"],
        "acquire",
        |place| drop(place.take("b", &["other"])),
        |place| place.stored("x").is_some(),
    );
}

#[test]
fn an_unlock_killed_at_any_system_call_misses_at_most_the_line_it_was_about_to_write() {
    lokt_testkit::need!("strace");
    killed_everywhere(
        &["unlock", "x"],
        "release",
        |place| drop(place.take("a", &["x", "--ttl", "1h"])),
        |place| place.stored("x").is_none(),
    );
}

// --- writes that don't go well

/// The lines of the log: which are events, in order, and which are torn.
fn lines(place: &Place) -> Vec<Option<(String, String)>> {
    let log = fs::read(place.root().join("audit.log")).expect("there is a log");
    let text = String::from_utf8_lossy(&log).into_owned();
    assert!(text.ends_with('\n'), "the last writer was fine: {text}");
    let event = |line: &str| {
        let value: Value = serde_json::from_str(line).ok()?;
        Some((value["event"].as_str()?.to_owned(), value["name"].as_str()?.to_owned()))
    };
    text.lines().map(event).collect()
}

fn event(event: &str, name: &str) -> (String, String) {
    (event.to_owned(), name.to_owned())
}

/// Runs `args` while something is injected into what it does to the log.
fn injected(place: &Place, args: &[&str], what: &str) -> Ended {
    let (log, inject) = (place.root().join("audit.log"), format!("inject={what}"));
    let log = log.to_str().expect("a plain path");
    let strace = ["strace", "-o", "/dev/null", "-P", log, "-e", &inject];
    place.run_words("a", &[&strace[..], place.words(args).as_slice()].concat())
}

#[test]
fn a_line_that_loses_a_piece_costs_no_other() {
    lokt_testkit::need!("strace");
    let place = place();
    place.take("a", &["x"]);
    // The kernel says that seven bytes were written, and they are lost: what follows is no event.
    let ended = injected(&place, &["unlock", "x"], "write:retval=7:when=1");
    assert_eq!(ended.code, Some(0), "an unlock doesn't need the log: {ended:?}");
    place.take("a", &["y"]);
    assert_eq!(
        lines(&place),
        [Some(event("acquire", "x")), None, Some(event("acquire", "y"))],
        "audited: one torn line at most"
    );
    let said = place.run("a", &["audit"]);
    assert_eq!((said.code, said.stdout.lines().count()), (Some(0), 2), "audited: the rest is shown: {said:?}");
    assert!(said.stderr.contains("warning: 1 line that is no event was skipped"), "{said:?}");
}

#[test]
fn a_write_or_sync_that_fails_is_said_and_stops_nobody() {
    lokt_testkit::need!("strace");
    for (what, args, code, warning) in [
        ("write:error=ENOSPC", &["unlock", "x"][..], 0, "audit: can't write"),
        ("write:error=EIO", &["unlock", "x"], 0, "audit: can't write"),
        ("write:error=ENOSPC", &["lock", "x"], 0, "audit: can't write"),
        ("write:error=ENOSPC", &["lock", "held"], 2, "audit: can't write"),
        ("write:error=ENOSPC", &["guard", "free", "--", "true"], 0, "audit: can't write"),
        ("write:error=ENOSPC", &["unlock", "held", "--force"], 0, "audit: can't write"),
        ("fsync:error=EIO", &["unlock", "held", "--force"], 0, "audit: can't sync"),
    ] {
        let place = place();
        place.take("a", &["x"]);
        place.take("b", &["held"]);
        let ended = injected(&place, args, what);
        assert_eq!(ended.code, Some(code), "audited: {what}: {args:?} does what it does: {ended:?}");
        assert!(ended.stderr.contains(&format!("warning: {warning}")), "audited: {what}: {args:?} says so: {ended:?}");
        assert!(ended.stderr.contains("audit.log"), "and where: {ended:?}");
        place.take("a", &["after"]);
        assert_eq!(
            lines(&place).last(),
            Some(&Some(event("acquire", "after"))),
            "audited: {what}: {args:?}: the next is fine"
        );
        assert!(lines(&place).iter().all(Option::is_some), "audited: {what}: {args:?}: nothing is torn");
    }
}

#[test]
fn on_a_full_disk_at_most_one_line_is_torn_and_the_next_stands_alone() {
    lokt_testkit::need!(root);
    let place = place();
    // The log ends 40 bytes before a page does, and there is no other page.
    let text = r#"
        mount -t tmpfs -o size=256k,nr_inodes=60 none . || exit 99
        cd "$PWD" && export LOKT_ROOT="$PWD/root" || exit 98
        "$0" lock x > /dev/null 2>&1 && "$0" lock y > /dev/null 2>&1 || exit 97
        size=$(stat -c %s root/audit.log)
        head -c $((4096 - 40 - size - 1)) /dev/zero | tr '\0' ' ' >> root/audit.log; echo >> root/audit.log
        cat /dev/zero > full 2> /dev/null
        "$0" unlock x || exit 96
        cat /dev/zero >> full 2> /dev/null
        "$0" unlock y || exit 95
        test ! -e root/locks/x.json && test ! -e root/locks/y.json || exit 94
        rm full; "$0" lock z > /dev/null 2>&1 || exit 93
        tail -n +4 root/audit.log; "$0" audit
    "#;
    let ended = place.run_words("a", &["unshare", "--mount", "sh", "-c", text, env!("CARGO_BIN_EXE_lokt")]);
    assert_ne!(ended.code, Some(99), "this test needs root, for a mount: {}", ended.stderr);
    assert_eq!(ended.code, Some(0), "audited: an unlock needs no room: {ended:?}");
    assert_eq!(ended.stderr.matches("warning: audit: can't write").count(), 2, "audited: both say so: {ended:?}");
    let lines: Vec<&str> = ended.stdout.lines().skip_while(|line| line.starts_with("released")).collect();
    let is_event = |line: &&&str| serde_json::from_str::<Value>(line).is_ok();
    let torn = lines.iter().take_while(|line| !is_event(line)).count();
    assert_eq!(torn, 1, "audited: one torn line at most, then events alone: {lines:#?}");
    let shown: Vec<String> = lines[torn..]
        .iter()
        .map(|line| {
            let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {lines:#?}"));
            format!("{} {}", event["event"].as_str().unwrap_or_default(), event["name"].as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(shown, ["acquire z", "acquire x", "acquire y", "acquire z"], "in the log, and as `audit` shows it");
}

#[test]
fn a_renewal_and_a_release_do_not_need_the_log() {
    let root = Root::used();
    // The first renewal comes when all of this is done.
    let mut guard = Guard::start(&root, "a", "x --ttl 6s");
    let log = root.path().join("audit.log");
    remove(&log);
    fs::create_dir(&log).expect("a temp directory is writable");
    let first = root.record("x")["acquired_ts"].clone();
    crate::common::eventually("audited: a renewal that can't be told is made all the same", || {
        root.has_record("x") && root.record("x")["acquired_ts"] != first
    });
    root.run("b", "lock x").exits(2, "it is held").notes("warning: audit: can't write", "a refusal says so");
    guard.warns("warning: audit: can't write", "and so does a renewal");
    guard.tell("exit 7");
    let said = guard.wait();
    assert_eq!(said.code, 7, "audited: the exit code is the command's{said}");
    assert_eq!(said.stderr.matches("warning: audit: can't write").count(), 1, "it says so, once{said}");
    assert!(!root.has_record("x"), "audited: it was released");
}

#[test]
fn an_owner_of_seventy_kilobytes_is_told_whole() {
    let place = place();
    let owner = "o".repeat(70_000);
    place.take(&owner, &["x"]);
    let refused = place.run("b", &["lock", "x"]);
    assert_eq!(refused.code, Some(2), "it is held");
    let history = read_audit(&place.root()).expect("audited: every line is whole");
    assert!(history[0].owner == owner && history[1].extra["holder_owner"] == owner.as_str(), "audited: nothing is cut");
}

#[test]
fn a_guard_whose_release_cannot_be_told_says_so() {
    for flags in ["", "--ttl 1h"] {
        let root = Root::used();
        let mut guard = Guard::start(&root, "a", &format!("x {flags}"));
        let log = root.path().join("audit.log");
        remove(&log);
        fs::create_dir(&log).expect("a temp directory is writable");
        guard.tell("exit 7");
        let said = guard.wait();
        assert_eq!(said.code, 7, "audited: {flags:?}: the exit code is the command's{said}");
        said.notes("warning: audit: can't write", "audited: it says so");
        assert!(!root.has_record("x"), "audited: {flags:?}: it was released");
    }
}
