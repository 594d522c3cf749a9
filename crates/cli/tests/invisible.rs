//! Text that can't be seen, in everything that people and agents read.

use serde_json::json;

use crate::common::grove::Grove;
use crate::common::{Root, alive, go_lease, go_record};

/// Letters that only programs see, which say "deploy".
const TAGS: &str = "\u{e0064}\u{e0065}\u{e0070}\u{e006c}\u{e006f}\u{e0079}";
const UNSEEN: [&str; 14] = [
    TAGS,
    "\u{34f}",
    "\u{115f}",
    "\u{1160}",
    "\u{3164}",
    "\u{ffa0}",
    "\u{180b}",
    "\u{180e}",
    "\u{206a}",
    "\u{fe0f}",
    "\u{fff9}",
    "\u{1d173}",
    "\u{2800}",
    "\u{e0100}",
];

fn has_unseen(text: &str) -> Option<char> {
    text.chars().find(|c| UNSEEN.iter().any(|unseen| unseen.contains(*c)))
}

#[test]
fn no_command_shows_what_cannot_be_seen() {
    let root = Root::used();
    let everything = UNSEEN.concat();
    for (name, owner) in [("x", format!("al{everything}ice")), ("y", format!("b{everything}"))] {
        let mut record = alive(go_record(name, &owner));
        record["agent_id"] = format!("agent{everything}").into();
        record["reason"] = format!("because{everything}").into();
        record["host"] = format!("{}{everything}", record["host"].as_str().unwrap_or_default()).into();
        root.put_record(name, &record);
    }
    root.put_freeze("z", &go_lease("z", &format!("ops{everything}"), 600, 500));
    root.run(&format!("carol{everything}"), "lock w --reason r").exits(0, "it is free");
    root.put("locks/v.json", format!("no JSON{everything}"));
    for words in [
        "status",
        "status x",
        "status w",
        "why x",
        "why z",
        "why v",
        "why w",
        "lock x",
        "unlock x",
        "unlock --break-stale x",
        "guard x -- true",
        "guard z -- true",
        "freeze z",
        "unfreeze z",
        "queue x",
        "audit",
        "prime",
        "doctor",
        "fence check w --token 99",
    ] {
        for words in [words.to_owned(), words.replacen(' ', " --json ", 1), format!("{words} --json")] {
            let said = root.run("b", &words);
            for text in [&said.stdout, &said.stderr] {
                assert_eq!(has_unseen(text), None, "{words}: it can't be seen, and is there: {text:?}");
            }
        }
    }
    let json = root.run("b", "status x --json").exits(0, "it is held").json();
    assert_eq!(json["owner"], json!(format!("al{everything}ice")), "in JSON it is the same text");
    root.run("b", "status x").says("al\\u{e0064}", "people see that there is something");
}

#[test]
fn no_note_of_a_snapshot_and_no_event_of_a_ledger_shows_what_cannot_be_seen() {
    let grove = Grove::new();
    let everything = UNSEEN.concat();
    let owner = format!("al{everything}ice");
    let note = format!("note{everything}");
    let create = grove.lokt(&owner).args(["snapshot", "create", "--acquire", "--note", &note]).run();
    create.exits(0, "nobody has the lease");
    grove.run(&owner, "ledger init").exits(0, "a ledger is made");
    let event = json!({"type": "note", "text": note}).to_string();
    grove.lokt(&owner).args(["ledger", "append", &event]).run().exits(0, "an event");
    grove.run(&owner, "claim take 1").exits(0, "it is free");
    grove.run(&owner, "lease acquire --lease 1h").exits(0, "it is free");
    for words in [
        "snapshot history",
        "snapshot show latest",
        "snapshot info",
        "lease status",
        "lease audit",
        "lease acquire",
        "ledger show",
        "ledger show --raw",
        "ledger export",
        "claim list",
        "claim take 1",
        "worktree list",
        "doctor --strict",
    ] {
        for words in [words.to_owned(), format!("{words} --json")] {
            let said = grove.run("b", &words);
            for text in [&said.stdout, &said.stderr] {
                assert_eq!(has_unseen(text), None, "{words}: {text:?}");
            }
        }
    }
    let exported = grove.run("b", "ledger export").exits(0, "all of it");
    let first: serde_json::Value = serde_json::from_str(exported.stdout.lines().next().unwrap_or_default())
        .unwrap_or_else(|error| panic!("a line is JSON: {error}{exported}"));
    assert_eq!(first["text"], json!(note), "an escape means the same");
}
