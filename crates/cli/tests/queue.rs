//! `lokt queue NAME`, and what `status` and `why` say of those who wait.

use lokt_testkit::line::{Process, ticket_of};
use lokt_testkit::swarm::wait_until;
use serde_json::{Value, json};
use std::time::Duration;

use crate::common::{LOKT, Pulse, Root, eventually, host, names_in, now, put, start_of, time};

/// In line for `x` with an agent's name and a reason.
fn waits(root: &Root, owner: &str, agent: &str, reason: &str) -> Process {
    let words = [LOKT, "lock", "x", "--wait", "--reason", reason];
    let mut process = Process::with(&root.path(), owner, &words, &[("LOKT_AGENT_ID", agent)]);
    let queued = || ticket_of(&root.path(), "x", process.pid()).is_some();
    assert!(wait_until(Duration::from_secs(20), queued), "{owner} waits in line");
    assert!(!process.is_over(), "{owner} waits");
    process
}

fn held() -> Root {
    let root = Root::new();
    root.lokt("a").args(["lock", "x"]).env("LOKT_AGENT_ID", "agent-a").run().exits(0, "it is free");
    root
}

/// A ticket with this content, locked by this process.
fn ticket(root: &Root, number: u64, pulse: &Value) -> std::fs::File {
    let path = root.path().join(format!("state/line/x/{number}"));
    put(&path, pulse.to_string());
    let file = std::fs::File::open(&path).expect("it was just made");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("nobody else knows it");
    file
}

#[test]
fn the_line_is_shown_in_order() {
    let root = held();
    let first = waits(&root, "b", "agent-b", "deploy 7");
    let second = waits(&root, "c", "agent-c", "");
    let said = root.run("z", "queue x").exits(0, "looking is never an error");
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "a line for the holder and for each waiter{said}");
    let holder = format!("lock \"x\" held by a (agent: agent-a)@{} for ", host());
    assert!(lines[0].starts_with(&holder), "who holds it{said}");
    let head = format!("  1. b (agent: agent-b) (pid {})  waiting ", first.pid());
    assert!(lines[1].starts_with(&head) && lines[1].ends_with("s  deploy 7"), "the head, with its reason{said}");
    let tail = format!("  2. c (agent: agent-c) (pid {})  waiting ", second.pid());
    assert!(lines[2].starts_with(&tail) && lines[2].ends_with('s'), "the next, without{said}");
    assert_eq!(said.stderr, "", "there is nothing else to say");
}

#[test]
fn the_line_in_json_has_everything() {
    let root = held();
    let first = waits(&root, "b", "agent-b", "deploy 7");
    let second = waits(&root, "c", "agent-c", "");
    let said = root.run("z", "queue x --json").exits(0, "looking is never an error");
    let json = said.json();
    assert_eq!((&json["name"], &json["held"]), (&json!("x"), &json!(true)), "which lock{said}");
    assert_eq!((&json["holder_owner"], &json["holder_agent_id"]), (&json!("a"), &json!("agent-a")), "who holds it");
    let waiters = json["waiters"].as_array().expect("waiters are a list");
    assert_eq!(waiters.len(), 2, "both are there{said}");
    let head = &waiters[0];
    assert_eq!((&head["position"], &head["owner"]), (&json!(1), &json!("b")), "the head");
    assert_eq!((&head["agent_id"], &head["pid"]), (&json!("agent-b"), &json!(first.pid())), "who that is");
    assert_eq!((&head["reason"], &head["passed_over"]), (&json!("deploy 7"), &json!(false)), "and why");
    assert_eq!(head["ticket"].as_u64(), ticket_of(&root.path(), "x", first.pid()), "its number");
    let since = now().duration_since(time(&head["since"])).as_secs_f64();
    assert!((-1.0..60.0).contains(&since), "since when: {since} s ago");
    assert!(head["waiting_sec"].as_i64().is_some_and(|secs| (0..60).contains(&secs)), "how long: {head}");
    assert_eq!((&waiters[1]["position"], &waiters[1]["pid"]), (&json!(2), &json!(second.pid())), "the next");
    assert!(waiters[1].get("reason").is_none(), "an empty member is left out: {}", waiters[1]);
}

#[test]
fn an_empty_line_is_no_error() {
    let root = held();
    for name in ["x", "never-held"] {
        let said = root.run("z", &format!("queue {name}")).exits(0, "nobody waits");
        assert_eq!(said.stdout, format!("nobody waits for lock \"{name}\"\n"), "it says so");
    }
    let json = root.run("z", "queue x --json").exits(0, "nobody waits").json();
    assert_eq!((&json["held"], &json["waiters"]), (&json!(true), &json!([])), "it is held, and nobody waits");
    let said = root.run("z", "queue y --json").exits(0, "nobody waits");
    assert_eq!(said.json(), json!({"name": "y", "held": false, "waiters": []}), "neither held nor waited for");
}

#[test]
fn a_root_that_is_not_there_has_no_line_and_is_not_made() {
    let root = Root::new();
    assert_eq!(root.run("z", "queue x").exits(0, "nobody waits").stdout, "nobody waits for lock \"x\"\n", "it says so");
    let json = root.run("z", "queue x --json").exits(0, "nobody waits").json();
    assert_eq!(json, json!({"name": "x", "held": false, "waiters": []}), "in JSON too");
    assert!(!root.path().exists(), "looking makes nothing");
}

#[test]
fn looking_changes_nothing() {
    let root = held();
    let mut gone = waits(&root, "b", "agent-b", "");
    gone.kill();
    let before = root.snapshot();
    for words in ["queue x", "queue x --json", "status x", "status", "why x"] {
        root.run("z", words);
    }
    assert_eq!(root.snapshot(), before, "not even the ticket of a dead process is touched");
}

#[test]
fn a_bad_name_has_no_line() {
    let root = held();
    for name in ["../x", "a/b", ".", "-x", ""] {
        let said = root.lokt("z").args(["queue", "--json", "--", name]).run().exits(64, "it is no name");
        assert_eq!(said.failure(), "E_BAD_NAME", "it says so: {name:?}");
    }
    root.run("z", "queue").exits(64, "a name is wanted");
    root.run("z", "queue x y").exits(64, "one name is wanted");
}

#[test]
fn a_free_lock_with_a_line_is_called_free() {
    let root = Root::used();
    let _pulse = Pulse::waiting(&root, "x", "early");
    let said = root.run("z", "queue x").exits(0, "it can be read").says("lock \"x\" is free\n", "nobody holds it");
    said.says(&format!("  1. early (pid {})  waiting ", std::process::id()), "who is first");
    let json = root.run("z", "queue x --json").exits(0, "it can be read").json();
    assert_eq!((&json["held"], json.get("holder_owner")), (&json!(false), None), "in JSON too");
}

#[test]
fn status_and_why_show_who_waits() {
    let root = held();
    let first = waits(&root, "b", "agent-b", "");
    let _second = waits(&root, "c", "agent-c", "");
    root.run("z", "status").exits(0, "it can be read").says("  2 waiting\n", "the list counts them");
    root.run("z", "status x").exits(0, "it is held").says("waiting:  2\n", "the detail does");
    assert_eq!(root.run("z", "status x --json").json()["waiters"], 2, "and JSON");
    assert_eq!(root.run("z", "status --json").json()[0]["waiters"], 2, "and the JSON list");
    let said = root.run("z", "why x").exits(2, "it is held").says("2 WAITING", "why counts them");
    said.says(&format!("    b (agent: agent-b) (pid {})  waiting ", first.pid()), "and names them");
    let json = root.run("z", "why x --json").exits(2, "it is held").json();
    let queued = json["reasons"].as_array().expect("reasons").iter().find(|reason| reason["type"] == "queued").cloned();
    assert_eq!(json["waiters"], 2, "in JSON too");
    assert_eq!(queued.expect("it is a reason")["message"], "2 waiting: b, c", "with their names");
    let json = root.run("z", "lock x --json").exits(2, "it is held").json();
    assert_eq!(json["waiters"], 2, "and a refusal counts them");
    root.run("z", "lock x").exits(2, "it is held").notes("  waiting: 2\n", "in text too");
}

#[test]
fn what_a_pulse_says_cannot_move_a_cursor() {
    // `run` fails the test if anything that is printed has a control character in it.
    let root = Root::used();
    let nasty = "e\u{1b}[31m\nvil\u{202e}\u{9b}2J";
    let pulse = json!({
        "version": 1, "name": "x", "owner": nasty, "agent_id": nasty, "reason": nasty, "holds": nasty,
        "since": nasty, "process": {"pid": std::process::id(), "start": start_of(std::process::id())},
    });
    let _ticket = ticket(&root, 1, &pulse);
    let shown = "e\\u{1b}[31m\\nvil\\u{202e}\\u{9b}2J";
    let said = root.run("z", "queue x").exits(0, "it can be read");
    assert_eq!(said.stdout.lines().count(), 2, "no pulse makes a line of its own{said}");
    said.says(&format!("  1. {shown} (agent: {shown}) (pid "), "escaped")
        .says(&format!("  {shown}\n"), "the reason too");
    let said = root.run("z", "queue x --json").exits(0, "it can be read");
    assert_eq!(said.json()["waiters"][0]["owner"], nasty, "JSON says what it says");
    assert_eq!(said.json()["waiters"][0]["reason"], nasty, "JSON says what it says");
    assert!(!said.stdout.contains('\u{202e}') && !said.stdout.contains('\u{9b}'), "in escapes{said}");
    root.run("z", "why x").exits(2, "it is first").says(shown, "escaped");
    root.run("z", "why x --json").exits(2, "it is first");
    root.run("z", "status").exits(0, "it can be read");
    root.run("z", "lock x").exits(2, "it is first");
    root.run("z", "lock x --timeout 200ms").exits(2, "it is first");
}

#[test]
fn a_waiters_own_words_are_escaped_too() {
    let root = held();
    let nasty = "b\u{1b}[2J\n\u{7f}";
    let words = [LOKT, "guard", "x", "--wait", "--reason", nasty, "--", "true"];
    let waiter = Process::with(&root.path(), nasty, &words, &[("LOKT_AGENT_ID", nasty)]);
    eventually("it waits in line", || ticket_of(&root.path(), "x", waiter.pid()).is_some());
    let shown = "b\\u{1b}[2J\\n\\u{7f}";
    root.run("z", "queue x").says(&format!("  1. {shown} (agent: {shown}) (pid "), "escaped").says(shown, "the reason");
    root.run("z", "why x").exits(2, "it is held").says(&format!("    {shown} (agent: {shown}) (pid "), "escaped");
    assert_eq!(root.run("z", "queue x --json").json()["waiters"][0]["reason"], nasty, "JSON says what it says");
    root.run("a", "unlock x").exits(0, "it is a's");
    assert_eq!(waiter.end().code, Some(0), "it is served like anyone");
    assert!(names_in(&root.path().join("state/held")).is_empty(), "and leaves nothing");
}
