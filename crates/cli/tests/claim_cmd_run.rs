//! `lokt claim run`: claim, renew, run, give back.

use std::fs;

use lokt_testkit::session::PATIENCE;
use lokt_testkit::swarm::wait_until;
use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::common::ledgers::Book;
use crate::common::{Running, eventually, pid_of, put, time};

/// Starts `lokt claim run WORDS -- sh -c SCRIPT`.
fn start(book: &Book, owner: &str, words: &str, script: &str) -> Running {
    book.lokt(owner).args(["claim", "run"]).args(words.split_whitespace()).args(["--", "sh", "-c", script]).start()
}

/// Waits until the command has made the file `name`.
fn has_made(book: &Book, name: &str) {
    eventually("the command runs", || book.dir().join(name).exists());
}

fn kinds(book: &Book) -> Vec<String> {
    book.numbers().into_iter().map(|seq| book.event(seq)["type"].as_str().expect("a type").to_owned()).collect()
}

#[test]
fn the_command_runs_under_the_claim_and_its_code_is_the_answer() {
    let book = Book::new();
    for code in [0, 7] {
        let said = start(&book, "alice", "1.2", &format!("exit {code}")).wait().exits(code, "the command's own code");
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""), "and nothing else");
    }
    assert_eq!(
        kinds(&book),
        ["lock_acquired", "lock_released", "lock_acquired", "lock_released"],
        "each claim was given back"
    );
    assert_eq!((&book.event(1)["owner"], &book.event(4)["token"]), (&json!("alice"), &json!(3)));
    start(&book, "alice", "1.2", "kill -TERM $$").wait().exits(143, "it died of a signal");
    let said = book.run("alice", "claim run 1.2 --owner bob --json -- echo hi").exits(0, "it runs");
    assert_eq!(said.stdout, "hi\n", "what the command says");
    assert_eq!(book.event(7)["owner"], "bob", "for whom it was claimed");
}

#[test]
fn the_command_can_append_under_its_token() {
    let book = Book::with(1);
    let script = "cd / && lokt ledger append -d \"$LOKT_LEDGER_DIR\" --token \"$LOKT_CLAIM_TOKEN\" \"{\\\"type\\\":\\\"done\\\",\\\"node\\\":\\\"$LOKT_CLAIM_NODE\\\"}\"";
    let ours = std::path::Path::new(crate::common::LOKT).parent().expect("it is in a directory").display().to_string();
    let call = book.lokt("alice").args(["claim", "run", "1.2", "--", "sh", "-c", script]);
    let said = call.env("PATH", format!("{ours}:/usr/bin:/bin")).run().exits(0, "it is current");
    assert_eq!(said.stdout, "appended event 3\n", "{said}");
    assert_eq!(
        (&book.event(3)["claim_token"], &book.event(3)["node"]),
        (&json!(2), &json!("1.2")),
        "{}",
        book.event(3)
    );
}

#[test]
fn a_node_of_another_is_not_run_under() {
    let book = Book::new();
    book.run("alice", "claim take 1").exits(0, "it is free");
    start(&book, "bob", "1", "touch ran").wait().exits(2, "it is alice's").notes("node already locked", "it says so");
    let said = start(&book, "bob", "1 --json", "touch ran").wait().exits(2, "it is alice's");
    assert_eq!(said.json()["code"], "E_LOCK_CONFLICT", "{said}");
    start(&book, "bob", "1 --timeout 100ms", "touch ran").wait().exits(2, "she keeps it");
    assert!(!book.dir().join("ran").exists(), "nothing ran");
    let waiting = start(&book, "bob", "1 --wait", "touch ran");
    wait_until(PATIENCE, || waiting.sleeps());
    book.run("alice", "claim release 1").exits(0, "it is hers");
    waiting.wait().exits(0, "it is free");
    assert!(book.dir().join("ran").exists(), "it ran");
}

#[test]
fn a_live_claim_of_the_same_owner_is_another_process_s() {
    let book = Book::new();
    let running = start(&book, "alice", "1", "touch ran; while ! [ -e stop ]; do sleep 0.05; done");
    has_made(&book, "ran");
    let said = start(&book, "alice", "1", "touch second").wait().exits(2, "somebody runs under it");
    said.notes("error: node already locked: node \"1\" is claimed by alice@", "it says so")
        .notes("under the same owner name", "and why that doesn't help")
        .notes("--owner or LOKT_OWNER", "what to do")
        .notes("`lokt claim take 1` refreshes", "and how it is refreshed, if that was meant");
    let json = start(&book, "alice", "1 --json", "touch second").wait().exits(2, "somebody runs under it").json();
    assert_eq!((&json["status"], &json["code"]), (&json!("blocked"), &json!("E_LOCK_CONFLICT")), "{json}");
    assert_eq!((&json["holder_owner"], &json["holder_token"]), (&json!("alice"), &json!(1)), "{json}");
    let waiting = start(&book, "alice", "1 --wait", "touch second");
    wait_until(PATIENCE, || waiting.sleeps());
    assert!(!book.dir().join("second").exists(), "never two at once");
    put(&book.dir().join("stop"), "");
    running.wait().exits(0, "nobody took it from under it");
    waiting.wait().exits(0, "it is free");
    assert!(book.dir().join("second").exists(), "its turn came");
    assert_eq!(kinds(&book), ["lock_acquired", "lock_released", "lock_acquired", "lock_released"], "one by one");
}

#[test]
fn a_claim_that_was_taken_by_hand_is_not_run_under() {
    let book = Book::new();
    book.run("alice", "claim take 1").exits(0, "it is free");
    start(&book, "alice", "1", "touch ran").wait().exits(2, "it didn't make it itself");
    assert!(!book.dir().join("ran").exists(), "nothing ran");
    book.put_claim(2, "2", "alice", -5);
    start(&book, "alice", "2", "touch ran").wait().exits(0, "it had expired");
}

#[test]
fn the_claim_is_renewed_while_the_command_runs() {
    let book = Book::new();
    let running = start(&book, "alice", "1 --ttl 4s", "touch ran; while ! [ -e stop ]; do sleep 0.05; done");
    has_made(&book, "ran");
    eventually("it is renewed several times", || book.numbers().len() >= 5);
    book.run("bob", "claim take 1").exits(2, "it is alice's, longer than its first lease");
    put(&book.dir().join("stop"), "");
    running.wait().exits(0, "it ended well");
    let kinds = kinds(&book);
    assert_eq!(kinds.last().map(String::as_str), Some("lock_released"), "given back at the end: {kinds:?}");
    assert!(book.event(3)["refresh_of"] == 1, "renewed under the same token: {}", book.event(3));
    let last = u64::try_from(kinds.len()).expect("a few");
    assert_eq!(book.event(last)["token"], 1, "{}", book.event(last));
}

/// Somebody ends the claim of a running command and claims the node for `bob`.
fn overtake(book: &Book) {
    let next = book.numbers().last().expect("there is the claim") + 1;
    // As a program would that doesn't ask whose it is.
    book.put(
        next,
        &json!({"type": "lock_released", "timestamp": "2026-01-01T00:00:00Z", "node_id": "1", "owner": "alice"}),
    );
    book.run("bob", "claim take 1").exits(0, "it is free");
}

#[test]
fn a_lost_claim_turns_success_into_79_or_is_told_or_ends_the_command() {
    for (words, wait, code, then) in [
        ("", "stop", 79, "; the command goes on, and its success will be exit code 79\n"),
        ("--on-lost fail", "stop", 79, "exit code 79\n"),
        ("--on-lost warn", "stop", 0, "; the command goes on\n"),
        ("--on-lost=stop", "never", 79, "; the command is being stopped\n"),
    ] {
        let book = Book::new();
        let script = format!("touch ran; while ! [ -e {wait} ]; do sleep 0.05; done");
        let running = start(&book, "alice", &format!("1 {words}"), &script);
        has_made(&book, "ran");
        overtake(&book);
        let before = book.events();
        if wait == "stop" {
            // It must have been noticed before it is over, or it would only be told at the end.
            lokt_testkit::swarm::pause(std::time::Duration::from_secs(6));
            put(&book.dir().join("stop"), "");
        }
        let said = running.wait().exits(code, words);
        said.notes("warning: the claim on node \"1\" was lost: it is claimed by bob@", "it says who has it")
            .notes(then, "and what follows");
        assert_eq!(book.events(), before, "{words}: bob's claim is not touched");
        book.run("carol", "claim take 1").exits(2, "it is bob's");
    }
}

#[test]
fn a_command_that_fails_under_a_lost_claim_keeps_its_code() {
    let book = Book::new();
    let running = start(&book, "alice", "1", "touch ran; while ! [ -e stop ]; do sleep 0.05; done; exit 7");
    has_made(&book, "ran");
    overtake(&book);
    put(&book.dir().join("stop"), "");
    running
        .wait()
        .exits(7, "it failed for a reason of its own")
        .notes("was lost: it is claimed by bob@", "found out at the end at the latest, and by whom")
        .notes(" until 20", "and until when");
}

/// What the shell says about itself when it is told to end: the time in milliseconds.
const TELLS_WHEN: &str = "trap 'date +%s%3N > told; exit 0' TERM; touch ran; while :; do sleep 0.05; done";

#[test]
fn a_command_is_stopped_at_the_end_of_its_claim_while_a_renewal_waits_for_the_lock() {
    let book = Book::new();
    let running = start(&book, "alice", "1 --ttl 2s --on-lost stop", TELLS_WHEN);
    has_made(&book, "ran");
    // A program that keeps the lock, and is alive.
    fs::create_dir(book.ledger().join("ledger.lock")).expect("it is free");
    let said = running.wait().exits(79, "it was stopped");
    said.notes("could not be renewed: timeout waiting for lock", "a renewal doesn't wait longer than the claim lasts")
        .notes("was lost: it ended before it could be renewed; the command is being stopped\n", "and then it is over");
    let last = book.event(*book.numbers().last().expect("there is the claim"));
    let told = fs::read_to_string(book.dir().join("told")).expect("it was told to end");
    let late = told.trim().parse::<i64>().expect("a number") - time(&last["expires_at"]).as_millisecond();
    assert!((-1_000..2_500).contains(&late), "it was told {late} ms after the claim's end");
    fs::remove_dir(book.ledger().join("ledger.lock")).expect("it is there");
    book.run("bob", "claim take 1").exits(0, "nobody has it");
}

#[test]
fn a_ledger_that_goes_away_takes_the_claim_with_it() {
    for (words, then) in [("--on-lost stop", "is being stopped\n"), ("", "its success will be exit code 79\n")] {
        let book = Book::new();
        let script = "touch ran; while ! [ -e stop ]; do sleep 0.05; done";
        let running = start(&book, "alice", &format!("1 --ttl 1s {words}"), script);
        has_made(&book, "ran");
        move_away(&book);
        if words.is_empty() {
            lokt_testkit::swarm::pause(std::time::Duration::from_secs(6));
            put(&book.dir().join("stop"), "");
        }
        let said = running.wait().exits(79, "it ran on without a claim");
        said.notes("could not be renewed: ", "why")
            .notes("was lost: it ended before it could be renewed", "so")
            .notes(then, "and what follows");
        assert!(!book.ledger().exists(), "nothing is made in its place");
    }
}

#[expect(clippy::disallowed_methods, reason = "a test moves what a user would")]
fn move_away(book: &Book) {
    fs::rename(book.ledger(), book.dir().join("elsewhere")).expect("it is ours");
}

#[test]
fn inside_its_own_claim_nothing_else_runs_under_it() {
    let book = Book::new();
    let ours = std::path::Path::new(crate::common::LOKT).parent().expect("it is in a directory").display().to_string();
    let call = book.lokt("alice").args(["claim", "run", "1", "--", "lokt", "claim", "run", "1", "--", "touch", "ran"]);
    let said = call.env("PATH", format!("{ours}:/usr/bin:/bin")).run().exits(2, "the inner one's answer");
    said.notes("under the same owner name", "it says why");
    assert!(!book.dir().join("ran").exists(), "nothing ran");
    assert_eq!(kinds(&book), ["lock_acquired", "lock_released"], "the outer one's claim was its own to the end");
}

#[test]
fn a_runner_that_was_stopped_beyond_its_claim_says_who_has_it_now() {
    let book = Book::new();
    let running = start(&book, "alice", "1 --ttl 1s", "touch ran; while ! [ -e stop ]; do sleep 0.05; done");
    has_made(&book, "ran");
    kill_process(pid_of(running.pid()), Signal::STOP).expect("it is ours");
    book.run("bob", "claim take 1 --timeout 20s").exits(0, "nobody renews it");
    put(&book.dir().join("stop"), "");
    kill_process(pid_of(running.pid()), Signal::CONT).expect("it is ours");
    running.wait().exits(79, "it ran on without a claim").notes("was lost: it is claimed by bob@", "who has it now");
    book.run("carol", "claim take 1").exits(2, "it is bob's");
}

#[test]
fn help_says_what_becomes_of_a_command_whose_runner_is_killed() {
    let said = Book::none().run("a", "claim run --help").exits(0, "help");
    let text = said.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("SIGKILL, the command goes on, nobody renews the claim"), "{said}");
}

#[test]
fn a_command_that_cannot_be_run_gives_the_claim_back() {
    let book = Book::new();
    let said = book.run("alice", "claim run 1 -- no-such-command").exits(127, "there is none");
    said.notes("command not found: no-such-command", "it says so")
        .notes("the claim was given back", "and what follows");
    put(&book.dir().join("plain"), "not a program");
    let said = book.run("alice", "claim run 1 --json -- ./plain").exits(126, "it can't be run");
    assert_eq!(said.failure(), "E_NOT_EXECUTABLE");
    assert_eq!(kinds(&book), ["lock_acquired", "lock_released", "lock_acquired", "lock_released"], "given back");
    book.run("alice", "claim run 1").exits(64, "which command?").notes("two dashes", "it says how");
    book.run("alice", "claim run -- true").exits(64, "which node?");
    book.run("alice", "claim run 1 2 -- true").exits(64, "one node");
}

#[test]
fn a_signal_is_passed_on_and_the_claim_given_back() {
    let book = Book::new();
    let script = "trap 'touch got; exit 9' TERM; touch ran; while :; do sleep 0.05; done";
    let running = start(&book, "alice", "1", script);
    has_made(&book, "ran");
    kill_process(pid_of(running.pid()), Signal::TERM).expect("it is ours");
    running.wait().exits(9, "the command's own code");
    assert!(book.dir().join("got").exists(), "it was passed on");
    assert_eq!(kinds(&book).last().map(String::as_str), Some("lock_released"), "given back");
}

#[test]
fn a_killed_runner_leaves_a_claim_that_ends_by_itself() {
    let book = Book::new();
    let running = start(&book, "alice", "1 --ttl 1s", "touch ran; while ! [ -e stop ]; do sleep 0.05; done");
    has_made(&book, "ran");
    kill_process(pid_of(running.pid()), Signal::KILL).expect("it is ours");
    book.run("bob", "claim take 1 --timeout 20s").exits(0, "nobody renews it");
    put(&book.dir().join("stop"), "");
    running.wait().exits(137, "it was killed");
    assert!(fs::exists(book.dir().join("ran")).expect("it can be looked for"), "it ran");
}

#[test]
fn in_a_native_ledger_the_events_are_those_of_its_program() {
    let book = Book::native();
    start(&book, "alice", "1.1", "true").wait().exits(0, "it is free");
    assert_eq!(kinds(&book)[4..], ["nodes_claimed", "nodes_released"], "what that program understands");
    start(&book, "alice", "1.9", "true").wait().exits(3, "there is no such node");
}
