//! Answers that can't be written: a command that only answers has failed, one that changed something tells of the change.

use crate::common::grove::Grove;
use crate::common::{Call, LOKT, Said};

/// The same, with a stdout that takes nothing.
fn into_nothing(grove: &Grove, words: &str) -> Said {
    let call: Call = grove.call("sh").env("LOKT_OWNER", "a");
    call.args(["-c", &format!("exec \"$0\" {words} > /dev/full"), LOKT]).run()
}

/// A lokt repository with a ledger, a claim, a lock, a lease and a snapshot.
fn scene() -> (Grove, u64) {
    let grove = Grove::new();
    grove.put("main/file", "content\n");
    for words in ["lock x --ttl 1h", "ledger init", "claim take 1", "snapshot create --acquire"] {
        grove.run("a", words).exits(0, words);
    }
    let token = grove.acquire("a", "--lease 1h");
    (grove, token)
}

#[test]
fn a_command_that_only_answers_fails_without_its_answer() {
    let (grove, token) = scene();
    let lease = format!("lease fence check --token {token}");
    let readers = [
        "status",
        "status x",
        "why x",
        "why nosuch",
        "queue x",
        "root",
        "prime",
        "completions bash",
        "man",
        "man guard",
        "doctor",
        "doctor --strict",
        "fence check x --token 1",
        "fence check x --token 99",
        "audit",
        "ledger head",
        "ledger checkpoint",
        "ledger verify",
        "ledger show",
        "ledger export",
        "ledger doctor",
        "claim list",
        "worktree list",
        "lease status",
        "lease status --all",
        "lease audit",
        &lease,
        "snapshot history",
        "snapshot info",
        "snapshot show latest",
        "snapshot verify --all",
        "snapshot gc plan",
        "version",
        "lock --help",
        "lease --help",
        "lease run --help",
        "help",
        "help guard",
    ];
    let mut asked = 0;
    for words in readers {
        for words in [words.to_owned(), format!("{words} --json")] {
            let answer = grove.run("a", &words);
            // Refused words, and answers in text that are said on stderr.
            if answer.stdout.is_empty() || answer.code == 64 {
                continue;
            }
            asked += 1;
            let said = into_nothing(&grove, &words).exits(1, &words);
            said.notes("the answer could not be written to stdout: No space left on device", &words);
        }
    }
    assert!(asked > 60, "nearly all of them answer in text and in JSON: {asked}");
}

#[test]
fn an_answer_of_nothing_is_not_lost() {
    let (grove, _) = scene();
    into_nothing(&grove, "exists x").exits(0, "it says nothing");
    into_nothing(&grove, "exists nosuch").exits(3, "it says nothing");
    into_nothing(&grove, "status nosuch").exits(3, "it is said on stderr");
}

#[test]
fn a_command_that_changed_something_tells_of_that_and_warns() {
    let (grove, _) = scene();
    for (words, code) in [
        ("lock y --ttl 1s", 0),
        ("unlock y --json", 0),
        ("freeze z", 0),
        ("unfreeze z", 0),
        ("claim take 2 --json", 0),
        ("claim release 2", 0),
        ("status --prune-expired", 0),
        ("doctor --fix", 0),
        ("worktree create other", 0),
        ("lease release --json", 0),
        ("snapshot create --acquire --json", 0),
        ("snapshot gc run --json", 0),
    ] {
        let said = into_nothing(&grove, words).exits(code, words);
        said.notes("warning: the answer could not be written to stdout", words);
    }
    let refused = grove.call("sh").env("LOKT_OWNER", "b");
    let refused = refused.args(["-c", "exec \"$0\" lock x --json > /dev/full", LOKT]).run();
    refused.exits(2, "a refusal stays one").notes("warning: the answer", "it says so");
}

#[test]
fn a_watch_that_can_be_written_nowhere_fails() {
    let (grove, _) = scene();
    for words in ["status --watch", "status --watch --json"] {
        into_nothing(&grove, words).exits(1, words).notes("could not be written to stdout", words);
    }
}

#[test]
fn whoever_left_before_the_answer_did_not_want_it() {
    let (grove, _) = scene();
    // The reader is gone before the answer comes.
    let script = "set -o pipefail; { sleep 0.3; \"$0\" status --json; echo $? >&2; } | :";
    let said = grove.call("bash").env("LOKT_OWNER", "a").args(["-c", script, LOKT]).run();
    assert_eq!(said.stderr.trim(), "0", "a closed pipe is no failure{said}");
}
