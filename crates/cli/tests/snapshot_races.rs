//! A snapshot whose publisher is stopped at the worst moment, or that takes longer than its lease lasts.

use std::path::Path;

use lokt_testkit::strace::{Call, delayed_at, stopped_after, with_paths};
use lokt_testkit::swarm::{Ended, in_parallel, put};
use lokt_testkit::tenancy::{LONG, Tenancy, answer, as_words, token_of};
use serde_json::Value;

use crate::common::LOKT;
use crate::lease_races::ENOUGH;

/// Under what the publisher acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Acting {
    Token,
    Session,
}

/// A repository with a file to save, the token of `a`, and the arguments of its snapshot.
fn ready(acting: Acting, lease: &str) -> (Tenancy, u64, Vec<String>) {
    let tenancy = Tenancy::new(LOKT);
    put(&tenancy.place.beside("main/page"), "saved");
    let token = tenancy.acquire("a", lease);
    let args = match acting {
        Acting::Token => tenancy.args("a", &format!("snapshot create --token {token}")),
        Acting::Session => tenancy.args("a", &format!("snapshot create --session {}", tenancy.session("a").display())),
    };
    (tenancy, token, args)
}

/// All calls of a snapshot.
fn rehearsed(acting: Acting) -> Vec<(Call, String)> {
    let (tenancy, _, args) = ready(acting, LONG);
    let (ended, calls) = with_paths(&tenancy.place, "a", &as_words(&args));
    assert_eq!(ended.code, Some(0), "{acting:?}: {ended:?}");
    calls
}

#[track_caller]
fn place_of(calls: &[(Call, String)], what: &str, is_it: impl Fn(&str) -> bool) -> usize {
    calls.iter().position(|(_, line)| is_it(line)).unwrap_or_else(|| panic!("{what}: {calls:#?}"))
}

/// The link that makes it visible: the first one after its description is there.
fn commit(calls: &[(Call, String)]) -> usize {
    let described = place_of(calls, "it is described", |line| {
        line.contains("descriptors>, \"") && line.contains("O_WRONLY|O_CREAT")
    });
    let is_slot = |line: &str| line.starts_with("linkat(") && line.contains("main.lock.d>, \"0000");
    described + place_of(&calls[described..], "it commits", is_slot)
}

fn names(tenancy: &Tenancy, dir: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(tenancy.inside(dir)) else { return Vec::new() };
    entries.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect()
}

fn history(tenancy: &Tenancy) -> Vec<Value> {
    let json = tenancy.says("observer", "snapshot history --all", 0);
    json["snapshots"].as_array().expect("it is a list").clone()
}

/// Nothing is there of what nobody sees.
#[track_caller]
fn nothing_is_left(tenancy: &Tenancy, context: &str) {
    for dir in ["snapshots", "descriptors", "intents"] {
        assert_eq!(names(tenancy, dir), [""; 0], "{context}: nothing is left in {dir}");
    }
}

/// What happens while the publisher stands still between its last look and its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    /// Its time runs out, and another takes the lease.
    Stolen,
    /// Its own session gives the lease back, and another acquires it.
    GivenBack,
    /// The same, and the other publishes a snapshot and gives it back, too.
    GivenBackTwice,
    /// Everything about locks is deleted, and another acquires.
    Deleted,
}

fn is_refused(acting: Acting, call: &Call, meanwhile: Meanwhile) {
    let context = format!("{acting:?}, {meanwhile:?}");
    let (tenancy, old, args) = ready(acting, if meanwhile == Meanwhile::Stolen { ENOUGH } else { LONG });
    let stopped = stopped_after(&tenancy.place, "a", &as_words(&args), call);
    let stopped = stopped.unwrap_or_else(|| panic!("{context}: it is met before its commit"));
    match meanwhile {
        Meanwhile::Stolen => {}
        Meanwhile::GivenBack | Meanwhile::GivenBackTwice => drop(tenancy.says("a", "lease release", 0)),
        Meanwhile::Deleted => std::fs::remove_dir_all(tenancy.inside("locks")).expect("they are there"),
    }
    let thief = tenancy.acquire("thief", &format!("{LONG} --timeout 60s"));
    assert!(thief > old, "token-order: {context}: {thief} after {old}");
    let mut published = Vec::new();
    if meanwhile == Meanwhile::GivenBackTwice {
        let taken = tenancy.says("thief", &format!("snapshot create --token {thief}"), 0);
        published.push(taken["snapshot_id"].clone());
        tenancy.says("thief", "lease release", 0);
    }
    let ended = stopped.goes_on();
    assert_eq!(ended.code, Some(6), "{context}: it is refused: {ended:?}");
    assert_eq!(answer(&ended)["code"], "E_FENCING_MISMATCH", "{context}");
    let visible: Vec<Value> = history(&tenancy).iter().map(|one| one["snapshot_id"].clone()).collect();
    assert_eq!(visible, published, "{context}: nothing of it is visible");
    tenancy.says("doctor", "doctor --strict --fix", 0);
    if published.is_empty() {
        nothing_is_left(&tenancy, &context);
        assert_eq!(tenancy.says("observer", "snapshot info", 0)["head"], Value::Null, "{context}");
    } else {
        assert_eq!(names(&tenancy, "snapshots").len(), 3, "{context}: only what the other published is left");
        assert_eq!(tenancy.says("observer", "snapshot info", 0)["head"], published[0], "{context}");
    }
    tenancy.log_is_whole(&context);
}

#[test]
fn check_40_41_a_publisher_that_was_stopped_before_its_commit_is_refused() {
    lokt_testkit::need!("strace");
    let mut cases = Vec::new();
    for acting in [Acting::Token, Acting::Session] {
        let calls = rehearsed(acting);
        let call = calls[commit(&calls) - 1].0.clone();
        assert_eq!(call.name, "fsync", "what is committed is synced first");
        let all = [Meanwhile::Stolen, Meanwhile::GivenBack, Meanwhile::GivenBackTwice, Meanwhile::Deleted];
        cases.extend(all.map(|meanwhile| (acting, call.clone(), meanwhile)));
    }
    // Most of the time all wait.
    in_parallel(8, cases, |(acting, call, meanwhile)| is_refused(acting, &call, meanwhile));
}

/// Stands still after `call`, while somebody clears up.
fn is_left_alone(call: &Call, line: &str) {
    let context = format!("stopped after {}#{}: {line}", call.name, call.nth);
    let (tenancy, _, args) = ready(Acting::Token, LONG);
    let stopped = stopped_after(&tenancy.place, "a", &as_words(&args), call);
    let stopped = stopped.unwrap_or_else(|| panic!("{context}: it is met there"));
    let fixed = tenancy.run("doctor", "doctor --strict --fix");
    assert_eq!(fixed.code, Some(0), "{context}: {fixed:?}");
    tenancy.says("collector", "snapshot gc plan --keep-within 0", 0);
    let ended: Ended = stopped.goes_on();
    assert_eq!(ended.code, Some(0), "{context}: whoever is at it isn't disturbed: {ended:?}");
    let id = answer(&ended)["snapshot_id"].clone();
    assert_eq!(history(&tenancy)[0]["snapshot_id"], id, "{context}: it is there");
    tenancy.says("observer", "snapshot verify --all", 0);
    let tree = format!("snapshots/{}", id.as_str().expect("an id is text"));
    assert!(Path::new(&tenancy.inside(&tree)).join("page").exists(), "{context}: with its file");
}

#[test]
fn check_49_a_snapshot_that_is_being_taken_is_left_alone_by_doctor() {
    lokt_testkit::need!("strace");
    let calls = rehearsed(Acting::Token);
    let after = |what: &str, is_it: &dyn Fn(&str) -> bool| place_of(&calls, what, is_it);
    let commit = commit(&calls);
    let at = [
        after("it is announced", &|line| line.contains("intents>, \"snapshot-") && line.contains(".json\"")),
        after("its tree is made", &|line| line.starts_with("mkdirat") && line.contains("snapshots")),
        after("its manifest is made", &|line| line.contains(".manifest\", O_WRONLY")),
        commit - 1,
        commit,
    ];
    in_parallel(5, at.map(|at| calls[at].clone()), |(call, line)| is_left_alone(&call, &line));
}

#[test]
fn a_lease_that_is_shorter_than_the_snapshot_is_renewed_meanwhile() {
    lokt_testkit::need!("strace");
    let calls = rehearsed(Acting::Session);
    let call = calls[commit(&calls) - 1].0.clone();
    let (tenancy, token, args) = ready(Acting::Session, "--lease 3s --renew 500ms --skew 50ms --grace 50ms");
    let ended = delayed_at(&tenancy.place, "a", &as_words(&args), &call, 6_000);
    assert_eq!(ended.code, Some(0), "its holder works on: {ended:?}");
    assert_eq!(token_of(&ended), token, "under the same token");
    assert_eq!(history(&tenancy).len(), 1, "it is there");
}

/// The token alone doesn't say who may renew it.
#[test]
fn a_lease_that_ends_while_a_snapshot_is_taken_under_its_token_publishes_nothing() {
    lokt_testkit::need!("strace");
    let calls = rehearsed(Acting::Token);
    let manifest =
        place_of(&calls, "its manifest is written", |line| line.starts_with("write(") && line.contains(".manifest>"));
    let (tenancy, _, args) = ready(Acting::Token, ENOUGH);
    let stopped = stopped_after(&tenancy.place, "a", &as_words(&args), &calls[manifest].0).expect("it is met there");
    let over = || tenancy.says("reader", "lease status", 0)["state"] == "expired";
    assert!(lokt_testkit::swarm::wait_until(std::time::Duration::from_secs(60), over), "it ends");
    let ended = stopped.goes_on();
    assert_eq!(ended.code, Some(5), "its time is over: {ended:?}");
    assert_eq!(answer(&ended)["code"], "E_LOCK_EXPIRED");
    assert_eq!(history(&tenancy).len(), 0, "nothing is visible");
    nothing_is_left(&tenancy, "expired");
}
