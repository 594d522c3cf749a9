//! "Held by you" is never an invitation: what is said about a hold of the same owner, about force, and about holds without a process.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::guards::Guard;
use crate::common::{LOKT, Root, alive, elsewhere, go_lease, go_record};

/// Everything that a refusal or an explanation says, in text and in JSON.
fn all_that_is_said(root: &Root, owner: &str, words: &str) -> String {
    let json =
        format!("{} --json {}", words.split(' ').next().unwrap_or_default(), words.split_once(' ').map_or("", |w| w.1));
    [words, &json]
        .map(|words| {
            let said = root.run(owner, words);
            format!("{}{}", said.stdout, said.stderr)
        })
        .concat()
}

#[test]
fn another_process_of_the_same_owner_is_called_that() {
    let root = Root::new();
    let guard = Guard::start(&root, "alice", "x");
    for words in ["guard x -- true", "unlock x", "why x", "lock x --bind 1"] {
        let said = all_that_is_said(&root, "alice", words);
        assert!(said.contains("another process of the same owner"), "{words}: {said}");
        for invitation in ["is yours", "of yours", "by you", "your lock", "joins it, "] {
            assert!(!said.contains(invitation), "{words} says {invitation:?}: {said}");
        }
    }
    let said = root.run("alice", "lock x").exits(0, "it is joined");
    said.notes("another process of the same owner (alice), a guard (pid ", "what was joined");
    drop(guard);
}

#[test]
fn force_is_nowhere_where_a_program_reads() {
    let root = Root::new();
    let guard = Guard::start(&root, "alice", "x");
    root.run("bob", "lock y").exits(0, "it is free");
    root.run("ops", "freeze z").exits(0, "it is free");
    root.put("locks/corrupt.json", "no JSON");
    root.put("locks/newer.json", r#"{"version":2}"#);
    root.put("freezes/odd.json", "no JSON");
    std::fs::create_dir(root.record_path("dir")).expect("it is new");
    for name in ["x", "y", "z", "corrupt", "newer", "odd", "dir"] {
        for words in [
            "why N",
            "lock N",
            "unlock N",
            "unlock N --break-stale",
            "guard N -- true",
            "freeze N",
            "unfreeze N",
            "status N",
        ] {
            for owner in ["alice", "carol"] {
                // What would change what is there.
                if name == "corrupt" && !words.starts_with("why") && !words.starts_with("status") {
                    continue;
                }
                if matches!((name, words), ("x" | "y", "freeze N" | "unfreeze N")) || words == "freeze N" {
                    continue;
                }
                let words = words.replace('N', name);
                let said = all_that_is_said(&root, owner, &words);
                assert!(!said.contains("--force"), "{owner}, {words}: {said}");
            }
        }
    }
    let said = all_that_is_said(&root, "carol", "unlock --owner alice");
    assert!(!said.contains("--force"), "{said}");
    drop(guard);
}

/// What `lokt WORDS` of alice says on a terminal, without colours.
fn on_a_terminal(root: &Root, words: &str) -> String {
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{LOKT} {words} --color never"), "/dev/null"]).stdin(Stdio::null());
    script.env("LOKT_ROOT", root.path()).env("LOKT_OWNER", "alice").env_remove("LOKT_HOLDS");
    let output = script.output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).replace('\r', "")
}

#[test]
fn a_person_at_a_terminal_is_told_of_force_at_the_end() {
    let root = Root::new();
    root.run("bob", "lock y").exits(0, "it is free");
    for (words, last) in [
        ("unlock y", "If you are certain: `lokt unlock --force y` removes it without asking its holder"),
        ("why y", "If you are certain: `lokt unlock --force y` removes it without asking its holder"),
    ] {
        let text = on_a_terminal(&root, words);
        assert_eq!(text.trim_end().lines().last(), Some(last), "{words}: {text}");
        assert!(!on_a_terminal(&root, "lock y").contains("force"), "who asks for it is told to wait");
        let text = on_a_terminal(&root, &format!("{words} --json"));
        assert!(!text.contains("force"), "{words}: not in JSON: {text}");
    }
}

#[test]
fn no_process_is_behind_an_owners_hold_and_none_is_called_dead() {
    let root = Root::new();
    root.run("alice", "lock x --ttl 1h").exits(0, "it is free");
    root.run("ops", "freeze z --ttl 1h").exits(0, "it is free");
    for name in ["x", "z"] {
        let rows = root.run("bob", "status --json").exits(0, "a list").json();
        let row = rows.as_array().expect("a list").iter().find(|row| row["name"] == name).expect("it is there").clone();
        assert_eq!((&row["pid_status"], &row["live"]), (&json!("none"), &json!(true)), "{row}");
    }
    for words in ["lock x --json", "guard --json x -- true", "why x --json", "unlock x --json"] {
        let said = root.run("bob", words);
        let answer: Value = said.json();
        let holder = if words.starts_with("why") { &answer["reasons"][0] } else { &answer };
        assert_eq!(holder["holder_pid_status"], "none", "{words}{said}");
    }
    for words in ["lock x", "guard x -- true", "why x", "status x", "status", "queue x"] {
        let said = root.run("bob", words);
        let (out, pid) = (format!("{}{}", said.stdout, said.stderr), root.record("x")["pid"].to_string());
        assert!(
            !out.contains("(pid ") && !out.contains(&format!(" {pid} ")),
            "{words} shows a pid that means nothing{said}"
        );
    }
    let guard = Guard::start(&root, "alice", "g");
    let json = root.run("bob", "lock g --json").exits(2, "a guard runs").json();
    assert_eq!(json["holder_pid_status"], "alive", "a guard is a process");
    root.run("bob", "lock g").exits(2, "a guard runs").notes(&format!("(pid {})", guard.pid()), "which is shown");
}

#[test]
fn why_says_first_what_to_type() {
    let root = Root::used();
    let guard = Guard::start(&root, "alice", "guarded");
    root.run("alice", "lock leased --ttl 5m").exits(0, "it is free");
    root.run("alice", "lock endless").exits(0, "it is free");
    root.run("ops", "freeze frozen --ttl 5m").exits(0, "it is free");
    root.run("ops", "freeze stopped").exits(0, "it is free");
    root.run("bob", "lock frozen-own --ttl 1h").exits(0, "it is free");
    root.run("ops", "freeze frozen-own").exits(0, "it is free");
    root.put_record("dead", &go_record("dead", "alice"));
    root.put_record("alive", &alive(go_record("alive", "alice")));
    root.put_record("remote", &elsewhere(go_lease("remote", "alice", 600, 500)));
    root.put_record("expired", &go_lease("expired", "alice", 60, -5));
    root.put("locks/corrupt.json", "no JSON");
    root.put("locks/newer.json", r#"{"version":2}"#);
    root.put("freezes/odd.json", "no JSON");
    for (name, stale) in [
        ("guarded", None),
        ("leased", None),
        ("endless", None),
        ("frozen", None),
        ("stopped", None),
        ("frozen-own", None),
        ("dead", Some("dead_pid")),
        ("alive", None),
        ("remote", Some("unknown")),
        ("expired", Some("expired")),
        ("corrupt", None),
        ("newer", None),
        ("odd", None),
    ] {
        for owner in ["alice", "bob"] {
            let why = root.run(owner, &format!("why {name} --json")).json();
            let first = why["suggestions"][0].as_str().unwrap_or_default().to_owned();
            assert!(first.starts_with("lokt "), "{owner}, {name}: the first suggestion is a command: {why}");
            if name != "frozen-own" {
                assert_eq!(why["reasons"][0]["holder_stale_reason"].as_str(), stale, "{owner}, {name}: {why}");
            }
        }
    }
    let json = root.run("bob", "why leased --json").json();
    let waits = json["suggestions"][0].as_str().unwrap_or_default();
    assert!(waits.starts_with("lokt lock leased --wait") && waits.contains("it ends by itself in 4m"), "{json}");
    drop(guard);
}

#[test]
fn why_of_a_freeze_says_which_agent_and_how_much_is_left() {
    let root = Root::new();
    let call = root.lokt("ops").env("LOKT_AGENT_ID", "agent-7");
    call.args(["freeze", "x", "--ttl", "5m"]).run().exits(0, "it is free");
    let said = root.run("bob", "why x");
    said.says("FROZEN by ops (agent: agent-7)@", "who").says("    Remaining: 4m", "how long");
}
