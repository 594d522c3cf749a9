//! Guards and locks of one owner: who excludes whom, who joins whom, and what remains.

use std::time::Duration;

use lokt_testkit::swarm::pause;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::guards::{Guard, leftovers};
use crate::common::{Call, LOKT, Root, eventually, time};

/// Which parts `x` is held by.
fn parts(root: &Root) -> Value {
    root.run("c", "status x --json").exits(0, "it is held").json()["parts"].clone()
}

/// `lokt` without `LOKT_OWNER`: whoever is logged in.
fn anonymous(root: &Root) -> Call {
    root.lokt("nobody").env_remove("LOKT_OWNER")
}

/// Whose hold it is, of which life.
fn identity(record: &Value) -> (Value, Value) {
    (record["lock_id"].clone(), record["fencing_token"].clone())
}

#[test]
fn two_guards_of_one_user_without_a_name_exclude_each_other() {
    let root = Root::new();
    let first = Guard::ask(anonymous(&root), "x");
    first.runs();
    let said = anonymous(&root).args(["guard", "x", "--", "true"]).run().exits(2, "two terminals of one user");
    said.notes(&format!("(pid {})", first.pid()), "it says which process")
        .notes("hint: held by another process of the same owner", "and no invitation");
    let second = Guard::ask(anonymous(&root), "x --wait");
    second.warns("waiting for lock \"x\"", "it waits like anyone else");
    first.exit(0).exits(0, "the first ends");
    second.runs();
    assert_eq!(root.record("x")["pid"], second.pid(), "then the second has it");
    second.exit(0).exits(0, "and ends");
    assert_eq!(root.events_of("x"), ["acquire", "deny", "release", "acquire", "release"], "two holds");
}

#[test]
fn two_guards_of_one_named_owner_exclude_each_other() {
    let root = Root::new();
    let _first = Guard::start(&root, "a", "x");
    root.run("a", "guard x -- true").exits(2, "a name doesn't open a guard's lock");
}

#[test]
fn a_guard_inside_of_a_guard_inside_of_a_guard_runs() {
    let root = Root::new();
    let words = ["guard", "a", "--", LOKT, "guard", "b", "--", LOKT, "guard", "a", "--ttl", "1s", "--", "sh", "-c"];
    let script = "echo ran; cat root/locks/a.json; exit 7";
    for call in [root.lokt("me"), anonymous(&root)] {
        let said = call.args(words).args([script]).run().exits(7, "a, b and a again");
        let record: Value = serde_json::from_str(said.stdout.strip_prefix("ran\n").expect("it ran")).expect("a record");
        assert_eq!(record.get("expires_at"), None, "the outermost hold is what it is: the innermost changes nothing");
    }
    let once = ["acquire", "release"];
    assert_eq!(root.events_of("a"), [once, once].concat(), "the innermost takes and releases nothing");
    assert_eq!(root.events_of("b"), [once, once].concat(), "the middle one does");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left");
}

#[test]
fn a_nested_guard_needs_no_place_in_line() {
    let root = Root::new();
    let mut outer = Guard::start(&root, "a", "x");
    let waiter = Guard::ask(root.lokt("b"), "x --wait");
    waiter.warns("waiting for lock", "somebody waits");
    outer.does(&format!("{LOKT} guard x -- echo nested"));
    assert!(outer.stdout().contains("nested\n"), "it is inside already: {}", outer.stderr());
    outer.exit(0).exits(0, "the outer one ends");
    waiter.runs();
    waiter.exit(0).exits(0, "the waiter had its turn");
}

#[test]
fn a_nested_guard_of_another_owner_is_inside_too() {
    let root = Root::new();
    let mut outer = Guard::start(&root, "a", "x");
    outer.does(&format!("LOKT_OWNER=somebody {LOKT} guard x -- echo nested"));
    assert!(outer.stdout().contains("nested\n"), "the hold is what counts, not the owner: {}", outer.stderr());
}

#[test]
fn a_forged_or_outdated_badge_opens_nothing() {
    let root = Root::new();
    let guard = Guard::start(&root, "a", "x");
    let (id, token) = identity(&root.record("x"));
    let (id, token) = (id.as_str().expect("a text").to_owned(), token.as_u64().expect("a number"));
    let pulse = root.record("x")["pulse"]["n"].as_u64().expect("a guard has a pulse");
    let with = |holds: &str| root.lokt("a").env("LOKT_HOLDS", holds).args(["guard", "x", "--", "true"]).run();
    with(&format!("x={id}:{token}:{pulse}")).exits(0, "this is what the command has");
    for holds in [
        format!("x={id}:{}:{pulse}", token + 1),
        format!("x={id}:{}:{pulse}", token - 1),
        format!("x={id}:{token}:{}", pulse + 1),
        format!("x={id}:{token}"),
        format!("x={id}"),
        format!("x=:{token}:{pulse}"),
        format!("x=00:{token}:{pulse}"),
        format!("y={id}:{token}:{pulse}"),
        "x=".to_owned(),
        "garbage".to_owned(),
    ] {
        with(&holds).exits(2, &holds);
    }
    guard.exit(0).exits(0, "its command ends");
    with(&format!("x={id}:{token}")).exits(0, "what is over is no obstacle");
    assert_eq!(
        root.events_of("x").iter().filter(|event| *event == "acquire").count(),
        2,
        "and a new hold is a new hold"
    );
}

#[test]
fn a_nested_guard_under_a_hold_that_was_overtaken_is_not_inside() {
    let root = Root::new();
    let mut outer = Guard::start(&root, "a", "x");
    root.run("b", "unlock --force x").exits(0, "force takes everything");
    let other = Guard::start(&root, "b", "x");
    outer.does(&format!("{LOKT} guard x -- echo nested; echo \"code $?\""));
    assert!(!outer.stdout().contains("nested"), "nothing runs beside the new holder");
    assert!(outer.stdout().contains("code 2\n"), "it is refused like anyone else: {}", outer.stdout());
    other.exit(0).exits(0, "the other never noticed");
    outer.exit(0).exits(79, "the outer one lost it");
}

#[test]
fn a_nested_guard_under_a_lease_that_ran_out_and_was_taken_again_by_lock_is_not_inside() {
    let root = Root::new();
    let mut outer = Guard::start(&root, "a", "x --ttl 1s");
    let before = identity(&root.record("x"));
    outer.stop();
    pause(Duration::from_millis(1_300));
    root.run("a", "lock x").exits(0, "its own owner takes it again");
    let after = identity(&root.record("x"));
    assert_eq!(after.0, before.0, "the same hold by its id");
    assert_ne!(after.1, before.1, "but with a new token");
    outer.does(&format!("LOKT_OWNER=b {LOKT} guard x -- echo nested; echo \"code $?\""));
    assert!(outer.stdout().contains("code 2\n"), "the old token opens nothing: {}", outer.stdout());
    outer.signal(Signal::CONT);
    outer.warns("was lost: it is held by `lokt lock` of a", "the guard notices, and says how");
    outer.exit(0).exits(79, "it was lost");
    assert_eq!(identity(&root.record("x")), after, "the lock stays");
}

#[test]
fn a_lock_of_the_same_owner_under_a_guard_leaves_the_guard_the_holder_and_survives_it() {
    let root = Root::used();
    let mut guard = Guard::start(&root, "a", "x");
    let before = root.record("x");
    guard.does(&format!("{LOKT} lock x --ttl 10m && echo joined"));
    assert!(guard.stdout().contains("joined\n"), "the owner may: {}", guard.stderr());
    let both = root.record("x");
    for member in ["pid", "pid_start_ns", "agent_id", "pulse", "lock_id", "fencing_token", "held_since"] {
        assert_eq!(both[member], before[member], "the guard's {member} stays");
    }
    assert_eq!(parts(&root), json!(["process", "owner"]), "held in two ways");
    root.run("a", "guard x -- true").exits(2, "the guard still excludes others of its owner");
    guard.exit(5).exits(5, "nothing was lost");
    assert_eq!(parts(&root), json!(["owner"]), "the owner part is what remains");
    let after = root.record("x");
    assert_eq!(identity(&after), identity(&before), "of the same hold");
    assert_eq!(after.get("pulse"), None, "without the guard's pulse");
    let end = time(&after["expires_at"]).duration_since(time(&both["parts"]["owner"]["since"])).as_secs_f64();
    assert!((599.9..600.1).contains(&end), "until its own end, {end} s after it was taken");
    root.run("b", "guard x -- true").exits(2, "and holds it");
    assert_eq!(root.events_of("x")[..2], ["acquire", "renew"], "joined, not acquired");
    root.run("a", "unlock x").exits(0, "until it is unlocked");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left");
}

#[test]
fn a_guard_renews_its_own_part_beside_an_owners() {
    let root = Root::used();
    let guard = Guard::start(&root, "a", "x --ttl 4s");
    root.run("a", "lock x --ttl 10m").exits(0, "the owner joins");
    let joined = root.record("x");
    eventually("it is renewed", || {
        root.record("x")["parts"]["process"]["since"] != joined["parts"]["process"]["since"]
    });
    let renewed = root.record("x");
    assert_eq!(renewed["parts"]["owner"], joined["parts"]["owner"], "the owner part is copied as it was");
    assert_eq!(identity(&renewed), identity(&joined), "the same hold");
    guard.exit(0).exits(0, "nothing was lost");
    assert_eq!(parts(&root), json!(["owner"]), "the owner part remains");
}

#[test]
fn a_guard_on_ones_own_lock_leaves_that_lock_in_place_afterwards() {
    let root = Root::used();
    root.run("a", "lock x --ttl 10m --reason mine").exits(0, "it is free");
    let before = root.record("x");
    let guard = Guard::start(&root, "a", "x --ttl 10s");
    let both = root.record("x");
    assert_eq!(identity(&both), identity(&before), "the guard joins the hold");
    assert_eq!(both["pid"], guard.pid(), "and is its process");
    assert_eq!(parts(&root), json!(["process", "owner"]), "held in two ways");
    root.run("a", "guard x -- true").exits(2, "a second guard is one too many");
    guard.exit(4).exits(4, "the command's code");
    let after = root.record("x");
    assert_eq!(identity(&after), identity(&before), "the lock is in place: the same id and token");
    assert_eq!(after["parts"]["owner"], before["parts"]["owner"], "with its own beginning and end");
    let moved = time(&after["expires_at"]).duration_since(time(&before["expires_at"])).as_secs_f64();
    assert!(moved.abs() < 0.1, "the end is where it was, not {moved} s away");
    assert_eq!((&after["held_since"], &after["reason"]), (&before["held_since"], &before["reason"]), "and its story");
    assert_eq!(parts(&root), json!(["owner"]), "the guard's part is over");
    root.run("b", "lock x").exits(2, "it is still held");
    root.run("a", "unlock x").exits(0, "until its owner ends it");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "nothing is left");
}

#[test]
fn a_guard_on_ones_own_lock_without_an_end_leaves_it_without_an_end() {
    let root = Root::used();
    root.run("a", "lock x").exits(0, "it is free");
    let before = identity(&root.record("x"));
    root.run("a", "guard x --ttl 1s -- true").exits(0, "it joins");
    let after = root.record("x");
    assert_eq!(identity(&after), before, "the same hold");
    assert_eq!((after.get("expires_at"), after.get("ttl_sec")), (None, None), "without an end");
}

#[test]
fn the_owner_part_is_unlocked_beside_a_running_guard() {
    let root = Root::new();
    root.run("a", "lock x").exits(0, "it is free");
    let guard = Guard::start(&root, "a", "x");
    let json = root.run("a", "unlock x --json").exits(0, "the owner part ends").json();
    assert_eq!(
        (&json["part"], &json["still_guarded"]),
        (&json!("owner"), &json!(true)),
        "and says what remains: {json}"
    );
    assert_eq!(parts(&root), json!(["process"]), "the guard's part");
    root.run("a", "unlock x").exits(4, "there is nothing more to unlock");
    root.run("b", "lock x").exits(2, "the guard holds it");
    guard.exit(0).exits(0, "nothing was lost");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "now it is free");
    let told: Vec<Value> = root.audit_of("x").iter().map(|event| event["extra"]["part"].clone()).collect();
    assert_eq!(told[told.len() - 2..], [Value::Null, json!("process")], "each end says which part");
    assert!(told.contains(&json!("owner")), "each end says which part: {told:?}");
}

#[test]
fn an_owner_part_that_expires_beside_a_guard_is_dropped() {
    let root = Root::new();
    root.run("a", "lock x --ttl 1s").exits(0, "it is free");
    let guard = Guard::start(&root, "a", "x");
    pause(Duration::from_millis(1_300));
    root.run("b", "lock x").exits(2, "the guard's part has no end");
    guard.exit(0).exits(0, "nothing was lost");
    assert_eq!(leftovers(&root), Vec::<String>::new(), "what was over isn't brought back");
}

#[test]
fn what_a_guard_left_behind_is_not_inside_of_the_owners_next_guard() {
    let root = Root::new();
    root.run("a", "lock x").exits(0, "it is free");
    let first = Guard::start(&root, "a", "x");
    let left = holds_of(&root);
    first.exit(0).exits(0, "the first guard is over");
    let tries = || root.lokt("a").env("LOKT_HOLDS", &left).args(["guard", "x", "--", "true"]).run();
    let _second = Guard::start(&root, "a", "x");
    tries().exits(2, "one-holder: lock id and token are still those of the owner's lock, the guard is another");
}

/// What the command of the guard of `x` has in its environment.
fn holds_of(root: &Root) -> String {
    let record = root.record("x");
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    format!("x={}:{}:{}", text(&record["lock_id"]), record["fencing_token"], record["pulse"]["n"])
}

#[test]
fn whoever_has_no_name_of_their_own_is_told_that_a_lock_does_not_keep_them_out() {
    let root = Root::used();
    let nameless = |words: &str| anonymous(&root).args(words.split_whitespace()).run();
    nameless("lock x --ttl 5m").exits(0, "it is free");
    let said = nameless("guard x -- true").exits(0, "it is the same owner's");
    said.notes("took \"x\" with `lokt lock`", "whose lock it is").notes("set LOKT_OWNER", "and what helps");
    let nested = format!("guard y -- {LOKT} guard y -- true");
    assert_eq!(nameless(&nested).exits(0, "it is free").stderr, "", "nothing is said of one's own guard");
    root.run("alice", "lock z --ttl 5m").exits(0, "it is free");
    let said = root.run("alice", "guard z -- true").exits(0, "it is hers");
    assert_eq!(said.stderr, "", "whoever has a name meant it");
}
