//! A lock that hangs on a process: `lock --bind`, and a guard's hold.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{Pulse, Root, Said, Sleeper, start_of};

// --- what lock --bind says

#[test]
fn binding_to_a_process_says_what_will_end_it() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    let pid = sleeper.pid();
    root.run("a", &format!("lock build --bind {pid}"))
        .exits(0, "it is free")
        .notes(&format!("note: it ends with process {pid}"), "a bound lock says what ends it");
    assert_eq!(root.record("build")["pid"], json!(pid), "the record names the bound process");
    assert_eq!(root.record("build")["pid_start_ns"], json!(start_of(pid)), "with its own start time");
    assert!(root.record("build")["parts"]["process"].is_object(), "it is a process part");
    assert_eq!(root.record("build")["parts"].get("owner"), None, "and no owner part");
    let said = root.run("b", "lock build").exits(2, "it is held");
    said.notes(&format!("  until:   process {pid} ends"), "whoever is refused hears what they wait for");
}

#[test]
fn binding_with_a_ttl_ends_with_whichever_comes_first() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    let pid = sleeper.pid();
    let said = root.run("a", &format!("lock build --bind {pid} --ttl 5m"));
    said.exits(0, "it is free").notes(&format!("note: it ends with process {pid}, at the latest at "), "it says both");
    let json = root.run("b", "lock build --json").exits(2, "it is held").json();
    assert!(json["holder_remaining_sec"].as_i64().is_some_and(|left| (290..=300).contains(&left)), "the lease runs");
}

#[test]
fn binding_to_no_process_is_a_clear_error() {
    let root = Root::new();
    root.run("a", "lock build --bind 4194304")
        .exits(1, "there is no such process")
        .notes("error: can't bind to process 4194304: there is none", "it says what is wrong");
    let said = root.run("a", "lock build --bind 4194304 --json").exits(1, "there is no such process");
    assert_eq!(said.failure(), "E_NO_PROCESS", "the code is stable");
    assert!(!root.has_record("build"), "nothing was granted");
}

#[test]
fn binding_to_a_zombie_is_binding_to_no_process() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    sleeper.kill();
    root.run("a", &format!("lock build --bind {}", sleeper.pid())).exits(1, "a zombie has ended");
}

#[test]
fn a_bind_that_is_no_pid_is_a_usage_error() {
    let root = Root::new();
    for pid in ["0", "-1", "abc", "1.5", "99999999999999999999"] {
        root.run("a", &format!("lock build --bind={pid}")).exits(64, "it is no pid");
    }
    assert!(!root.path().exists(), "a usage error touches nothing");
}

#[test]
fn a_lock_held_in_two_ways_says_what_ends_both() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    let pid = sleeper.pid();
    root.run("a", "lock build --ttl 10m").exits(0, "it is free");
    let said = root.run("a", &format!("lock build --bind {pid} --ttl 5m")).exits(0, "a process part is added");
    said.notes(&format!("note: it ends when both have happened: process {pid} ends (at the latest at "), "the process")
        .notes("), `lokt unlock build` (at the latest at ", "and the owner's TTL, which comes later");
    let said = root.run("a", "lock build").exits(0, "the owner part loses its end");
    assert!(said.stderr.ends_with("), `lokt unlock build`\n"), "now only an unlock ends it{said}");
}

#[test]
fn who_is_refused_by_ones_own_bound_process_hears_that_it_is_ones_own() {
    let (root, one, two) = (Root::new(), Sleeper::new(), Sleeper::new());
    root.run("a", &format!("lock build --bind {}", one.pid())).exits(0, "it is free");
    let said = root.run("a", &format!("lock build --bind {}", two.pid())).exits(2, "two processes exclude each other");
    said.notes(&format!("(pid {})", one.pid()), "it says which process")
        .notes("hint: held by another process of the same owner (a)", "`why` would say that lock succeeds");
}

// --- how long it holds

fn bind(root: &Root, owner: &str, sleeper: &Sleeper, more: &str) -> Said {
    root.run(owner, &format!("lock x --bind {} {more}", sleeper.pid()))
}

#[test]
fn a_bound_lock_lives_as_long_as_its_process() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    bind(&root, "a", &sleeper, "").exits(0, "it is free");
    root.run("b", "lock x").exits(2, "its process lives");
    sleeper.end();
    root.run("b", "lock x").exits(0, "its process is gone").notes("(dead_pid)", "b is told what it broke");
    assert_eq!(root.events_of("x"), ["acquire", "deny", "auto-prune", "acquire"], "and it is audited");
}

#[test]
fn a_zombie_holds_nothing() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    bind(&root, "a", &sleeper, "").exits(0, "it is free");
    sleeper.kill();
    root.run("b", "lock x").exits(0, "a zombie has ended; only its parent hasn't looked yet");
}

#[test]
fn binding_the_same_process_again_is_a_refresh() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    let first = bind(&root, "a", &sleeper, "--json").exits(0, "it is free").json();
    let second = bind(&root, "a", &sleeper, "--ttl 5m --json").exits(0, "the same owner and process").json();
    assert_eq!(second["refreshed"], true, "it is a refresh");
    assert_eq!(
        (&second["lock_id"], &second["fencing_token"]),
        (&first["lock_id"], &first["fencing_token"]),
        "of one hold"
    );
    assert_eq!(root.events_of("x"), ["acquire", "renew"], "and it is audited as one");
    bind(&root, "b", &sleeper, "").exits(2, "another owner is refused, whatever process it names");
}

#[test]
fn another_process_of_the_same_owner_is_refused() {
    let (root, one, two) = (Root::new(), Sleeper::new(), Sleeper::new());
    bind(&root, "a", &one, "").exits(0, "it is free");
    bind(&root, "a", &two, "").exits(2, "two processes of one owner exclude each other");
    assert_eq!(root.record("x")["pid"], json!(one.pid()), "the first has it");
}

#[test]
fn a_bound_lock_with_a_ttl_ends_with_its_process() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    bind(&root, "a", &sleeper, "--ttl 1h").exits(0, "it is free");
    root.run("b", "lock x").exits(2, "its process lives, its lease runs");
    sleeper.end();
    root.run("b", "lock x").exits(0, "its process is gone");
}

#[test]
fn a_bound_lock_with_a_ttl_ends_with_its_lease() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    bind(&root, "a", &sleeper, "--ttl 1h").exits(0, "it is free");
    let end = root.record("x")["expires_at"].as_str().expect("it has an end").to_owned();
    root.edit("x", &format!("\"expires_at\": \"{end}\""), "\"expires_at\": \"2026-01-01T00:00:00Z\"");
    root.run("b", "lock x").exits(0, "its lease is over, whoever lives");
}

#[test]
fn a_process_lives_whatever_it_calls_itself() {
    let root = Root::new();
    // A name that is no text and looks like the end of the name and a zombie's state.
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", "printf ') Z \\377' > /proc/self/comm; echo ready; read line"]);
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh can be started");
    let mut ready = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    output.read_line(&mut ready).expect("it says that it is ready");
    let bound = root.run("a", &format!("lock x --bind {}", child.id()));
    let refused = root.run("b", "lock x");
    child.kill().expect("it is ours");
    child.wait().expect("it is our child");
    bound.exits(0, "it is a process like any other");
    refused.exits(2, "and lives");
    root.run("b", "lock x").exits(0, "until it ends");
}

#[test]
fn an_owner_part_outlives_the_bound_process() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    bind(&root, "a", &sleeper, "").exits(0, "it is free");
    root.run("a", "lock x --ttl 5m").exits(0, "an owner part is added");
    assert_eq!(root.record("x").get("expires_at"), None, "one part has no end, so the hold has none");
    sleeper.end();
    let json = root.run("b", "lock x --json").exits(2, "the owner part holds it").json();
    assert!(json["holder_remaining_sec"].as_i64().is_some_and(|left| left <= 300), "until its own end: {json}");
    assert_eq!(parts(&root), ["owner"], "which is all that is left");
}

#[test]
fn a_bound_process_joins_its_owners_lock() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    root.run("a", "lock x --ttl 5m").exits(0, "it is free");
    let before = root.record("x");
    bind(&root, "a", &sleeper, "").exits(0, "a process part is added");
    let after = root.record("x");
    assert_eq!(
        (&after["lock_id"], &after["fencing_token"]),
        (&before["lock_id"], &before["fencing_token"]),
        "one hold"
    );
    assert_eq!(parts(&root), ["process", "owner"], "held in two ways");
    sleeper.end();
    assert_eq!(parts(&root), ["owner"], "the owner part is what remains");
    root.run("b", "lock x").exits(2, "and holds it");
}

fn parts(root: &Root) -> Vec<String> {
    let json = root.run("c", "status x --json").exits(0, "it is held").json();
    let parts = json["parts"].as_array().expect("it is a list");
    parts.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

#[test]
fn a_bound_lock_of_a_process_that_ended_is_refreshed_by_its_owner() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    let first = bind(&root, "a", &sleeper, "--json").exits(0, "it is free").json();
    sleeper.end();
    let second = root.run("a", "lock x --json").exits(0, "its owner takes it again").json();
    assert_eq!(second["lock_id"], first["lock_id"], "the same hold");
    assert!(second["fencing_token"].as_u64() > first["fencing_token"].as_u64(), "with a new token");
    assert_eq!(parts(&root), ["owner"], "the process part is dropped");
}

// --- a guard's hold: a process part with a pulse, which the guard and its command keep locked

/// Makes the hold of `owner` on x a running guard's: bound to `sleeper`, with a pulse that is kept locked for as long as it lives.
fn guard(root: &Root, owner: &str, sleeper: &Sleeper) -> Pulse {
    bind(root, owner, sleeper, "").exits(0, "it is free");
    let pulse = Pulse::holding(root, 7, owner, sleeper.pid());
    let (dev, ino) = pulse.id();
    root.edit("x", "\"boot_id\"", &format!("\"pulse\": {{\"n\": 7, \"dev\": {dev}, \"ino\": {ino}}},\n  \"boot_id\""));
    pulse
}

fn liveness(root: &Root) -> String {
    let json = root.run("c", "status x --json").exits(0, "it is there").json();
    json["liveness"].as_str().expect("it is a text").to_owned()
}

#[test]
fn a_guards_hold_is_not_unlocked_from_under_its_command() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    let _pulse = guard(&root, "a", &sleeper);
    let said = root.run("a", "unlock x").exits(4, "it is a's, but not by `lock`");
    said.notes("another process of the same owner (a): a running guard", "it says what holds it")
        .notes("hint: it ends with its command", "and what helps");
    let json = root.run("a", "unlock x --json").exits(4, "it is a guard's").json();
    assert_eq!(json["code"], "E_LOCK_NOT_HELD", "the code is stable");
    let said = root.run("a", "unlock --all").exits(0, "nothing else is a's");
    said.says("no locks matched", "nothing ended").notes("note: skipped \"x\": a running guard holds it", "and why");
    let json = root.run("a", "unlock --owner a --json").exits(0, "nothing else is a's").json();
    assert_eq!(json, json!({"released": [], "count": 0, "skipped": ["x"]}), "in JSON too");
    root.run("b", "unlock --force x").exits(0, "force takes everything");
    assert!(!root.has_record("x"), "it is gone");
}

#[test]
fn an_owner_part_beside_a_guard_comes_and_goes_by_itself() {
    let (root, sleeper) = (Root::new(), Sleeper::new());
    let _pulse = guard(&root, "a", &sleeper);
    let before = root.record("x");
    root.run("a", "lock x --ttl 5m").exits(0, "an owner part is added");
    let both = root.record("x");
    for member in ["pid", "pid_start_ns", "host", "agent_id", "pulse", "lock_id", "fencing_token"] {
        assert_eq!(both[member], before[member], "the guard's {member} stays");
    }
    assert_eq!(parts(&root), ["process", "owner"], "held in two ways");
    let said = root.run("a", "unlock x").exits(0, "the owner part ends beside a running guard");
    said.notes(&format!("note: a guard (pid {}) still holds it", sleeper.pid()), "and it says so");
    assert_eq!(parts(&root), ["process"], "the guard's part remains");
    assert_eq!(root.audit_of("x").pop().expect("there is one")["extra"]["part"], "owner", "the event says which ended");
}

#[test]
fn a_command_that_outlives_its_guard_holds_the_lock() {
    let (root, mut sleeper) = (Root::new(), Sleeper::new());
    let pulse = guard(&root, "a", &sleeper);
    assert_eq!(liveness(&root), "alive", "the guard runs");
    sleeper.end();
    assert_eq!(liveness(&root), "orphan", "the guard is gone, something still keeps its pulse");
    root.run("b", "lock x").exits(2, "and that counts");
    root.run("b", "status").exits(0, "it can be read").says("[ORPHAN]", "the list marks it");
    let said = root.run("b", "unlock --break-stale x").exits(1, "it is not stale");
    said.notes("its guard is gone, the command still runs", "it says why");
    drop(pulse);
    assert_eq!(liveness(&root), "gone", "now nothing is behind it");
    root.run("b", "lock x").exits(0, "and the next in line enters at once");
}

#[test]
fn two_guards_of_one_owner_exclude_each_other() {
    let (root, one, two) = (Root::new(), Sleeper::new(), Sleeper::new());
    let _pulse = guard(&root, "a", &one);
    bind(&root, "a", &two, "").exits(2, "two terminals of one user exclude each other");
    bind(&root, "a", &one, "").exits(2, "a guard's process can't be bound to a second time");
}
