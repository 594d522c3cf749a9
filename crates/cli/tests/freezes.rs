//! `freeze` and `unfreeze`; freezes of other programs; what stands where a freeze should be.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use crate::common::guards::Guard;
use crate::common::{Root, elsewhere, eventually, go_lease, go_record, host, make_old, names_in, seconds_between};

fn freeze_file(root: &Root, name: &str) -> PathBuf {
    root.path().join(format!("freezes/{name}.json"))
}

fn freeze(root: &Root, name: &str) -> Value {
    let text = fs::read_to_string(freeze_file(root, name)).unwrap_or_else(|error| panic!("{name} is frozen: {error}"));
    serde_json::from_str(&text).expect("a freeze is JSON")
}

pub(crate) fn is_frozen(root: &Root, name: &str) -> bool {
    fs::symlink_metadata(freeze_file(root, name)).is_ok()
}

#[test]
fn a_freeze_refuses_new_holds_and_says_so() {
    let root = Root::used();
    root.put_freeze("build", &go_lease("build", "ops", 600, 600));
    let said = root.run("a", "lock build").exits(2, "nothing is granted under a freeze");
    said.notes(&format!("error: operation \"build\" frozen by ops (agent: agent-beef)@{} for", host()), "it says who")
        .notes("remaining", "it says how long");
    let said = root.run("a", "lock build --json").exits(2, "nothing is granted under a freeze");
    assert_eq!(said.json()["status"], "blocked", "a freeze blocks");
    assert_eq!(said.json()["code"], "E_FROZEN", "the code says freeze");
    assert!(said.json()["freeze_owner"].is_string(), "it says who froze it");
    assert!(said.json().get("holder_owner").is_none(), "whoever froze it doesn't hold it");
    assert!(!root.has_record("build"), "no record was made");
    assert_eq!(root.events_of("build"), ["freeze-deny", "freeze-deny"], "each refusal leaves one event");
    assert_eq!(root.audit_of("build")[0]["extra"]["freeze_owner"], "ops", "the event names whoever froze it");
}

#[test]
fn a_freeze_does_not_stop_the_refresh_of_a_live_hold() {
    let root = Root::new();
    root.run("a", "lock build --ttl 5m").exits(0, "it is free");
    root.put_freeze("build", &go_lease("build", "ops", 600, 600));
    root.run("a", "lock build --ttl 5m").exits(0, "a live hold is refreshed under a freeze");
    root.run("a", "unlock build").exits(0, "a freeze doesn't keep anybody from leaving");
    root.run("a", "lock build").exits(2, "but nobody gets in again");
}

#[test]
fn a_freeze_stops_the_revival_of_an_expired_hold() {
    let root = Root::used();
    root.put_record("build", &go_lease("build", "a", 60, -10));
    root.put_freeze("build", &go_lease("build", "ops", 600, 600));
    root.run("a", "lock build").exits(2, "an expired hold is not revived under a freeze");
}

#[test]
fn a_damaged_freeze_is_called_a_freeze() {
    let root = Root::used();
    root.put("freezes/x.json", "garbage");
    root.put("freezes/y.json", r#"{"version": 2}"#);
    let said = root.run("a", "status").exits(0, "the list can be made");
    said.says("freeze \"x\" has corrupted data", "it is no lock").says("freeze \"y\": unsupported", "neither is this");
    let json = root.run("a", "status --json").exits(0, "the list can be made").json();
    for row in json.as_array().expect("it is a list") {
        let hint = row["hint"].as_str().expect("there is one");
        assert!(
            hint.contains(&format!("freezes/{}.json", row["name"].as_str().expect("a name"))),
            "what helps: {hint}"
        );
        assert!(!hint.contains("lokt lock") && !hint.contains("--force"), "neither would help: {hint}");
    }
    let said = root.run("a", "why x").exits(2, "it counts as a freeze");
    let path = root.path().join("freezes/x.json");
    said.says(&format!("  - lokt doctor  (says what is wrong with {}, ", path.display()), "it says where to look");
}

#[test]
fn a_freeze_is_placed_refuses_everybody_and_is_ended_by_its_owner() {
    let root = Root::new();
    let said = root.run("ops", "freeze build --ttl 90s --reason incident").exits(0, "anybody may freeze");
    said.says("frozen \"build\" for 1m30s\n", "it says for how long");
    let stored = freeze(&root, "build");
    assert_eq!((&stored["owner"], &stored["name"]), (&json!("ops"), &json!("build")), "whose it is, and of what");
    assert_eq!((&stored["ttl_sec"], &stored["reason"]), (&json!(90), &json!("incident")), "for how long, and why");
    assert!(stored.get("fencing_token").is_none(), "a freeze has no token");
    assert!((seconds_between(&stored["acquired_ts"], &stored["expires_at"]) - 90.0).abs() < 0.001, "its end");
    assert!(!root.has_record("build"), "it is no hold");

    let owner = root.run("ops", "lock build").exits(2, "whoever froze it is no exception");
    owner.notes("hint: frozen by the same owner (ops), who ends it with `lokt unfreeze build`", "it says what to do");
    let said = root.run("a", "guard build -- true").exits(2, "a guard is refused");
    said.notes("frozen by ops", "by whom").notes("  reason:  incident", "why").notes("remaining", "for how long");
    let json = root.run("a", "lock build --json").exits(2, "a lock is refused").json();
    assert_eq!((&json["code"], &json["freeze_owner"]), (&json!("E_FROZEN"), &json!("ops")), "in JSON too: {json}");
    assert_eq!(json["freeze_reason"], "incident", "and why: {json}");

    root.run("ops", "unfreeze build").exits(0, "its owner ends it").says("unfrozen \"build\"\n", "it says so");
    assert!(!is_frozen(&root, "build"), "it is gone");
    root.run("a", "lock build").exits(0, "the lock can be had again");
    assert_eq!(
        root.events_of("build"),
        ["freeze", "freeze-deny", "freeze-deny", "freeze-deny", "unfreeze", "acquire"],
        "audited: each step is in the log, in order"
    );
    let events = root.audit_of("build");
    assert_eq!(events[0]["extra"]["reason"], "incident", "audited: with its reason");
    assert_eq!(events[0]["lock_id"], events[4]["lock_id"], "audited: the end is that of this freeze");
}

#[test]
fn freeze_and_unfreeze_answer_in_json() {
    let root = Root::new();
    let said = root.run("ops", "freeze build --ttl 5m --reason why --json").exits(0, "it is free");
    assert_eq!(
        said.members(),
        ["status", "name", "extended", "owner", "lock_id", "expires_at", "ttl_sec", "reason", "held"],
        "members in order"
    );
    let first = said.json();
    assert_eq!(
        (&first["status"], &first["extended"], &first["held"]),
        (&json!("frozen"), &json!(false), &json!(false))
    );
    let again = root.run("ops", "freeze build --json").exits(0, "it is one's own").json();
    assert_eq!((&again["extended"], &again["lock_id"]), (&json!(true), &first["lock_id"]), "the same freeze goes on");
    assert!(again.get("ttl_sec").is_none() && again.get("expires_at").is_none(), "without an end: {again}");
    assert_eq!(again["reason"], "why", "the reason stays");
    let refused = root.run("b", "unfreeze build --json").exits(4, "it is another's").json();
    assert_eq!((&refused["status"], &refused["code"]), (&json!("error"), &json!("E_LOCK_NOT_HELD")));
    assert_eq!(refused["holder_owner"], "ops", "whose: {refused}");
    let ended = root.run("b", "unfreeze build --force --json").exits(0, "by force it is").json();
    let expected = json!({"status": "unfrozen", "name": "build", "event": "force-unfreeze", "owner": "ops",
        "lock_id": first["lock_id"]});
    assert_eq!(ended, expected);
    assert_eq!(root.run("b", "unfreeze build --json").exits(3, "there is none").failure(), "E_NOT_FOUND");
}

#[test]
fn without_a_ttl_or_with_zero_a_freeze_has_no_end() {
    let root = Root::new();
    for words in ["freeze x", "freeze x --ttl 0", "freeze x --ttl 0s"] {
        let said = root.run("ops", words).exits(0, "no TTL is a freeze without end");
        said.says("frozen \"x\"\n", "it claims no span")
            .notes("note: it has no TTL: only `lokt unfreeze x` ends it", "it warns");
        assert!(freeze(&root, "x").get("ttl_sec").is_none(), "{words}: no lease is stored");
    }
    let said = root.run("a", "lock x").exits(2, "it is frozen");
    said.notes("  until:   `lokt unfreeze x` by ops; it has no TTL", "what will end it");
}

#[test]
fn a_short_ttl_is_rounded_up_and_freezes() {
    let root = Root::new();
    let said = root.run("ops", "freeze x --ttl 500ms").exits(0, "half a second is a lease");
    said.says("frozen \"x\" for 1s\n", "rounded up");
    assert_eq!(freeze(&root, "x")["ttl_sec"], 1, "to a whole second");
}

#[test]
fn bad_durations_names_and_flags_freeze_nothing() {
    let root = Root::new();
    for words in [
        "freeze x --ttl 5x",
        "freeze x --ttl",
        "freeze x --ttl -5s",
        "freeze x --ttl=-1",
        "freeze x --ttl 1e9",
        "freeze ../x",
        "freeze",
        "freeze x y",
        "freeze x --timeout 5s",
        "freeze x --drain --timeout 5x",
        "freeze x --force",
        "unfreeze",
        "unfreeze ../x",
        "unfreeze x --ttl 5s",
    ] {
        root.run("ops", words).exits(64, words);
        root.run("ops", &format!("{words} --json")).exits(64, words);
        assert!(!root.path().exists(), "{words}: nothing was made");
    }
}

#[test]
fn its_owner_may_make_a_freeze_shorter_longer_or_endless_and_keeps_the_reason() {
    let root = Root::new();
    root.run("ops", "freeze x --ttl 10m --reason incident").exits(0, "it is free");
    let first = freeze(&root, "x");
    for (words, ttl_sec) in
        [("--ttl 20m", json!(1200)), ("--ttl 5s", json!(5)), ("", Value::Null), ("--ttl 1m", json!(60))]
    {
        let said = root.run("ops", &format!("freeze x {words}")).exits(0, "its owner may");
        said.notes("note: it was frozen already; it ", "it says what it replaced");
        let now = freeze(&root, "x");
        assert_eq!((&now["lock_id"], &now["held_since"]), (&first["lock_id"], &first["held_since"]), "the same freeze");
        assert_eq!(now["ttl_sec"], ttl_sec, "freeze x {words}: counted from now");
        assert_eq!(now["reason"], "incident", "freeze x {words}: the reason stays");
    }
    root.run("ops", "freeze x --reason other").exits(0, "its owner may");
    assert_eq!(freeze(&root, "x")["reason"], "other", "a new reason replaces it");
    assert_eq!(root.events_of("x"), ["freeze"; 6], "audited: an extension is a freeze");
    assert!(names_in(&root.path().join("state/tmp")).is_empty(), "nothing is left behind");
}

#[test]
fn another_owners_freeze_is_neither_extended_nor_ended() {
    let root = Root::new();
    root.run("ops", "freeze x --ttl 10m --reason incident").exits(0, "it is free");
    let before = fs::read(freeze_file(&root, "x")).expect("it is there");
    let said = root.run("b", "freeze x --ttl 1s").exits(2, "it is another's");
    said.notes("error: operation \"x\" frozen by ops", "by whom")
        .notes("  reason:  incident", "why")
        .notes("hint: only its owner can give it a new end\n", "what to do");
    let json = root.run("b", "freeze x --json").exits(2, "it is another's").json();
    assert_eq!((&json["status"], &json["code"]), (&json!("blocked"), &json!("E_FROZEN")), "{json}");
    let said = root.run("b", "unfreeze x").exits(4, "it is another's");
    said.notes("error: freeze \"x\" owned by ops@", "whose")
        .notes("LOKT_OWNER=ops lokt unfreeze x", "how it ends")
        .notes("lokt unfreeze x", "and who can end it");
    assert_eq!(fs::read(freeze_file(&root, "x")).expect("it is there"), before, "nothing changed");
    let said = root.run("b", "unfreeze x --force").exits(0, "by force");
    said.notes("note: it was frozen by ops@", "it says whose it was");
    let event = root.audit_of("x").pop().expect("there are events");
    assert_eq!((&event["event"], &event["owner"]), (&json!("force-unfreeze"), &json!("b")), "audited: who did it");
    assert_eq!(event["extra"]["pruned_owner"], "ops", "audited: to whom");
}

#[test]
fn an_expired_freeze_freezes_nothing_and_is_replaced_by_anybody() {
    let root = Root::used();
    root.put_freeze("x", &go_lease("x", "ops", 60, -10));
    root.run("a", "lock x").exits(0, "it is over");
    root.run("a", "unlock x").exits(0, "it is ours");
    root.run("b", "unfreeze x").exits(3, "somebody else's that is over is nothing to end");
    let said = root.run("b", "freeze x --ttl 1m").exits(0, "it is over, so anybody may");
    said.says("frozen \"x\" for 1m0s\n", "as if there had been none");
    assert_eq!(freeze(&root, "x")["owner"], "b", "it is b's now");
    let events = root.audit_of("x");
    let [.., pruned, frozen] = &events[..] else { panic!("there are events: {events:?}") };
    assert_eq!(
        (&pruned["event"], &frozen["event"]),
        (&json!("auto-prune"), &json!("freeze")),
        "audited: both, in order"
    );
    assert_eq!(pruned["extra"]["freeze"], true, "audited: it was a freeze that was pruned, not a lock");
    assert_eq!(pruned["extra"]["pruned_owner"], "ops", "audited: whose");
    root.put_freeze("y", &go_lease("y", "ops", 60, -10));
    root.run("ops", "unfreeze y").exits(0, "one's own that is over can be tidied away");
    assert!(!is_frozen(&root, "y"), "it is gone");
}

#[test]
fn unfreeze_of_nothing_is_not_found_with_and_without_a_root() {
    let root = Root::new();
    for words in ["unfreeze x", "unfreeze x --force"] {
        root.run("a", words).exits(3, "there is no root").notes("error: freeze \"x\" not found", "it says so");
        root.run("a", &format!("{words} --json")).exits(3, "there is no root");
        assert!(!root.path().exists(), "{words} makes no root");
    }
    let root = Root::used();
    root.run("a", "lock x").exits(0, "it is free");
    root.run("a", "unfreeze x")
        .exits(3, "a lock is no freeze")
        .notes("`lokt status` lists what is frozen", "what helps");
    assert!(root.has_record("x"), "the lock is untouched");
    assert_eq!(root.events_of("x"), ["acquire"], "and nothing happened");
}

/// What can stand where a freeze should be, and is none: its name, how it is made, and the exit codes of `freeze` and `unfreeze`.
type Odd = (&'static str, fn(&Root), i32, i32);

const ODD: [Odd; 9] = [
    ("corrupt", |root| root.put("freezes/x.json", "garbage"), 2, 65),
    ("null", |root| root.put("freezes/x.json", "null"), 2, 65),
    ("empty and young", |root| root.put("freezes/x.json", ""), 2, 2),
    (
        "empty and old",
        |root| {
            root.put("freezes/x.json", "");
            make_old(&freeze_file(root, "x"));
        },
        2,
        65,
    ),
    ("newer", |root| root.put("freezes/x.json", r#"{"version": 2, "owner": "ops"}"#), 65, 65),
    ("a directory", |root| fs::create_dir(freeze_file(root, "x")).expect("it is new"), 65, 65),
    ("a FIFO", |root| mkfifoat(CWD, freeze_file(root, "x"), Mode::RUSR | Mode::WUSR).expect("it is new"), 65, 65),
    ("a symlink", |root| symlink("elsewhere", freeze_file(root, "x")).expect("it is new"), 65, 65),
    ("too big", |root| root.put("freezes/x.json", vec![b' '; 3 << 20]), 65, 65),
];

#[test]
fn frozen_means_frozen_whatever_stands_in_its_place_and_only_force_moves_it_aside() {
    for (what, make, frozen, unfrozen) in ODD {
        let root = Root::used();
        fs::create_dir_all(root.path().join("freezes")).expect("it is ours");
        // What is young would be old after a few commands.
        let run = |owner: &str, words: &str| {
            if what == "empty and young" {
                make(&root);
            }
            root.run(owner, words)
        };
        make(&root);
        run("a", "lock x").exits(2, &format!("frozen-means-frozen: {what}"));
        run("a", "guard x -- true").exits(2, &format!("frozen-means-frozen: {what}"));
        run("a", "why x").exits(2, &format!("{what}: why agrees"));
        run("a", "lock x --json").exits(2, what);
        let said = run("ops", "freeze x --ttl 1m").exits(frozen, &format!("{what}: it is frozen already"));
        assert!(!said.stderr.contains("--force"), "{what}: nobody is invited to use force{said}");
        run("ops", "freeze x --json").exits(frozen, what);
        let said = run("ops", "unfreeze x").exits(unfrozen, &format!("{what}: nobody knows whose it is"));
        assert!(!said.stderr.contains("--force"), "{what}: nobody is invited to use force{said}");
        assert!(is_frozen(&root, "x"), "{what}: it is left alone");
        assert_eq!(root.aside(), Vec::<PathBuf>::new(), "{what}: nothing was moved");
        let said = run("ops", "unfreeze x --force --json").exits(0, &format!("{what}: force moves it aside"));
        let aside = root.aside();
        assert_eq!(aside.len(), 1, "{what}: it is not lost");
        let told = said.json()["aside"].as_str().map(|path| root.path().join(path));
        assert_eq!(told.as_ref(), aside.first(), "{what}: the answer says where it is");
        assert!(!is_frozen(&root, "x"), "{what}: it is gone from its place");
        let event = root.audit_of("x").pop().expect("there are events");
        assert_eq!(event["event"], "force-unfreeze", "audited: {what}");
        root.run("a", "lock x").exits(0, &format!("{what}: the lock can be had again"));
    }
}

#[test]
fn status_why_and_queue_show_a_freeze_with_its_reason() {
    let root = Root::new();
    root.run("ops", "freeze build --ttl 10m --reason incident-7").exits(0, "it is free");
    root.run("a", "status").exits(0, "a look").says("[FROZEN]", "the list marks it");
    let rows = root.run("a", "status --json").exits(0, "a look").json();
    assert_eq!((&rows[0]["name"], &rows[0]["freeze"]), (&json!("build"), &json!(true)), "{rows}");
    assert_eq!(rows[0]["reason"], "incident-7", "with the reason: {rows}");
    root.run("a", "why build").exits(2, "it is frozen").says("incident-7", "why says why");
    let why = root.run("a", "why build --json").exits(2, "it is frozen").json();
    assert_eq!(why["reasons"][0]["type"], "frozen", "{why}");
    assert!(why.to_string().contains("incident-7"), "why says why in JSON too: {why}");
    let waiter = Guard::ask(root.lokt("w"), "build --wait");
    waiter.warns("waiting", "it waits in line");
    eventually("the line shows who waits", || root.run("a", "queue build").stdout.contains('w'));
    let queue = root.run("a", "queue build").exits(0, "a look");
    queue
        .says("operation \"build\" frozen by ops", "the line stands because of the freeze")
        .says("remaining: incident-7", "and why");
    let queue = root.run("a", "queue build --json").exits(0, "a look").json();
    assert_eq!((&queue["held"], &queue["frozen"]), (&json!(false), &json!(true)), "in JSON too: {queue}");
    assert_eq!((&queue["freeze_owner"], &queue["freeze_reason"]), (&json!("ops"), &json!("incident-7")), "{queue}");
}

// Freezes of an old program, among the locks.

#[test]
fn a_lock_called_freeze_x_freezes_nothing_and_is_not_unfrozen() {
    let root = Root::new();
    root.run("a", "lock freeze-x").exits(0, "a name like any other");
    for words in ["unfreeze x", "unfreeze x --force"] {
        root.run("a", words).exits(3, "x is not frozen");
        assert!(root.has_record("freeze-x"), "{words}: a lock is a lock");
    }
    root.run("b", "lock x").exits(0, "x can be had");
    root.run("b", "unlock x").exits(0, "it is b's");
    root.run("a", "freeze x").exits(0, "x can be frozen");
    root.run("a", "unfreeze x").exits(0, "and unfrozen");
    assert!(root.has_record("freeze-x"), "and the lock is still there");
    let guard = Guard::start(&root, "g", "freeze-z");
    root.run("b", "guard z -- true").exits(0, "a guard's lock freezes nothing either");
    guard.exit(0).exits(0, "it ends");
    root.run("a", "freeze freeze-x").exits(0, "a lock of that name can be frozen itself");
    root.run("b", "lock x").exits(0, "which doesn't freeze x");
}

#[test]
fn a_freeze_of_another_host_counts_until_it_is_over() {
    let root = Root::used();
    root.put_freeze("x", &elsewhere(go_record("x", "ops")));
    root.run("a", "lock x").exits(2, "its process can't be asked, and wouldn't be");
    root.put_freeze("x", &go_record("x", "ops"));
    root.run("a", "lock x").exits(2, "that its process has ended doesn't end a freeze");
    root.run("ops", "freeze x --ttl 1m").exits(0, "its owner may extend it");
    assert_eq!(freeze(&root, "x")["lock_id"], go_record("x", "ops")["lock_id"], "it is the same freeze");
}

#[test]
fn a_record_that_was_copied_among_the_freezes_does_not_take_the_guards_pulse_away() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x");
    let pulses = || names_in(&root.path().join("state/held")).len();
    for end in ["unfreeze x", "freeze x --ttl 1m"] {
        root.put_freeze("x", &root.record("x"));
        root.run("a", end).exits(0, "it says that it is a's");
        assert_eq!(pulses(), 1, "child-counts: after {end} the guard still has its pulse");
        assert!(root.has_record("x"), "and its lock");
    }
    assert!(freeze(&root, "x").get("fencing_token").is_none(), "a freeze has no token, wherever it came from");
    guard.exit(0).exits(0, "it ends");
}

#[test]
fn token_order_a_root_whose_first_command_is_freeze_begins_with_token_one() {
    for first in [
        "freeze y --ttl 1s",
        "freeze y; unfreeze y",
        "freeze y; unfreeze y --force",
        "freeze y; lock y; unfreeze y",
        "freeze x; guard x -- true; unfreeze x",
    ] {
        let root = Root::new();
        for words in first.split("; ") {
            root.run("ops", words);
        }
        if first.contains("--ttl 1s") {
            eventually("a second passes", || root.run("a", "why y").code == 0);
            root.run("ops", "freeze y").exits(0, "what is over is replaced");
        }
        let granted = root.run("a", "lock x --json").exits(0, "it is free").json();
        let token = granted["fencing_token"].as_u64().expect("a grant has a token");
        assert!(token < 10, "after {first:?} nothing was lost that would need a leap: token {token}");
    }
}

#[test]
fn a_freeze_outlives_the_boot_on_which_it_was_placed() {
    let root = Root::new();
    root.run("ops", "freeze long --ttl 10m").exits(0, "it is free");
    root.run("ops", "freeze endless").exits(0, "it is free");
    root.run("ops", "freeze short --ttl 1s").exits(0, "it is free");
    for name in ["long", "endless", "short"] {
        let mut record = freeze(&root, name);
        record["boot_id"] = "00000000-0000-0000-0000-000000000000".into();
        root.put_freeze(name, &record);
    }
    root.run("a", "lock long").exits(2, "after a reboot the wall clock says that it lasts");
    root.run("a", "lock endless").exits(2, "and what has no end has none");
    eventually("by the wall clock it ends, too", || root.run("a", "lock short").code == 0);
    root.run("ops", "freeze long --ttl 20m").exits(0, "its owner extends it");
    assert_ne!(freeze(&root, "long")["boot_id"], "00000000-0000-0000-0000-000000000000", "on this boot now");
    root.run("ops", "unfreeze endless").exits(0, "or ends it");
}

#[test]
fn a_lock_that_cannot_be_read_does_not_hide_that_it_is_frozen_now() {
    let root = Root::used();
    fs::create_dir(root.record_path("x")).expect("it is new");
    let said = root.run("ops", "freeze x").exits(0, "it is frozen");
    said.says("frozen \"x\"\n", "it says so")
        .notes("warning: what holds the lock can't be told: ", "and that nobody knows who holds it")
        .notes("locks/x.json is a directory", "with the path");
    let json = root.run("ops", "freeze x --json").exits(0, "it is frozen").json();
    assert_eq!((&json["status"], &json["held"]), (&json!("frozen"), &json!(true)), "what can't be read counts: {json}");
    let said = root.run("ops", "freeze x --drain").exits(65, "nobody can tell when it is empty");
    said.notes("hint: x stays frozen", "but it is frozen").notes("`lokt doctor` says what is wrong", "and what to do");
    root.run("ops", "unlock --force x").exits(0, "it is moved aside");
    root.run("ops", "freeze x --drain").exits(0, "then it is empty");
}

#[test]
fn a_drain_claims_nothing_about_a_lock_that_it_does_not_understand() {
    for (record, code) in [(r#"{"version": 2, "name": "x", "owner": "a"}"#, 65), ("", 75)] {
        let root = Root::used();
        root.put("locks/x.json", record);
        let said = root.run("ops", "freeze x --drain --timeout 50ms").exits(code, "nobody knows what runs under it");
        said.notes("/locks/x.json", "the path is named");
        root.put("locks/x.json", record);
        let said = root.run("ops", "freeze x --drain --timeout 50ms --json").exits(code, "in JSON too");
        said.failure();
        root.put("locks/x.json", record);
        let json = root.run("ops", "freeze x --json").exits(0, "it can be frozen").json();
        assert_eq!(json["held"], true, "what isn't understood counts as held: {json}");
    }
}

#[test]
fn an_unfreeze_that_is_refused_changes_nothing() {
    let root = Root::used();
    root.run("bob", "freeze deploy --ttl 5m").exits(0, "nothing is frozen");
    root.put_record("freeze-deploy", &go_lease("freeze-deploy", "alice", 600, 600));
    let before = root.events_of("deploy");
    root.run("alice", "unfreeze deploy").exits(4, "the one that counts is bob's");
    assert!(root.has_record("freeze-deploy"), "alice's own is still there");
    assert_eq!(root.events_of("deploy"), before, "and nothing is told of");
}

#[test]
fn token_order_a_rotated_log_of_freezes_is_no_proof_that_there_were_no_tokens() {
    let root = Root::used();
    root.run("a", "freeze x --ttl 5m").exits(0, "nothing is frozen");
    let told = root.audit_of("x").iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n";
    root.put("audit.log", &told);
    root.put("audit.log.1", &told);
    fs::remove_dir_all(root.path().join("state")).expect("it is there");
    root.run("a", "unfreeze x").exits(0, "it is a's");
    let token = root.run("a", "lock y --json").exits(0, "it is free").json()["fencing_token"].as_u64();
    assert!(
        token.is_some_and(|token| token >= 1_000_000),
        "tokens go on above all that may have been given: {token:?}"
    );
}

#[test]
fn a_drain_under_the_guard_that_it_would_wait_for_is_refused() {
    let root = Root::used();
    let script = ["guard", "x", "--", crate::common::LOKT, "freeze", "x", "--ttl", "5m", "--drain"];
    let said = root.lokt("a").args(script).run().exits(64, "it would wait for itself");
    said.notes("--drain would wait for the guard", "it says why");
    assert!(!is_frozen(&root, "x"), "and nothing is frozen");
}

#[test]
fn a_lock_that_is_held_and_frozen_is_shown_as_both() {
    let root = Root::used();
    root.run("alice", "lock build --ttl 1h").exits(0, "it is free");
    root.run("ops", "freeze build --ttl 5m").exits(0, "nothing is frozen");
    root.run("alice", "status build").exits(0, "it is held").says("\nfrozen:   by ops@", "and by whom it is frozen");
    let json = root.run("alice", "status build --json").exits(0, "it is held").json();
    assert_eq!((&json["frozen"], &json["freeze_owner"]), (&json!(true), &json!("ops")), "in JSON too");
    let said = root.run("alice", "why build").exits(2, "a guard would be refused");
    said.says("  guard: would be refused (exit code 2)\n  lock:  would refresh it\n", "what a refresh doesn't show");
    let said = root.run("alice", "why build --for lock").exits(0, "a refresh is granted");
    said.says("a guard would be refused, because it is frozen", "what a refresh doesn't show")
        .says("Ask ops@", "and who can end it");
    root.run("ops", "unfreeze build").exits(0, "it is theirs");
    let json = root.run("alice", "status build --json").exits(0, "it is held").json();
    assert_eq!(json.get("frozen"), None, "nothing is said of what isn't there");
}
