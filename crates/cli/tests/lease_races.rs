//! Many want a lease at once, one is stopped at the worst moment, and a reader looks all the time.

use std::sync::Mutex;
use std::time::Duration;

use lokt_testkit::strace::{Call, Stopped, stopped_after, with_paths};
use lokt_testkit::swarm::{in_parallel, put, wait_until};
use lokt_testkit::tenancy::{LONG, Tenancy, answer, as_words, token_of, whole_in_every_look};

use crate::common::LOKT;

const PATIENCE: Duration = Duration::from_secs(60);

/// Everything about locks is deleted, as a migration or an impatient person does.
fn delete_locks(tenancy: &Tenancy) {
    std::fs::remove_dir_all(tenancy.inside("locks")).expect("they are there");
}

// --- at once

#[test]
fn check_09_of_sixteen_that_acquire_at_once_one_succeeds() {
    let tenancy = Tenancy::new(LOKT);
    let mut last = 0;
    for round in 0..6 {
        let context = format!("round {round}");
        let (winner, token) = tenancy.one_wins(16, &format!("lease acquire {LONG}"), &[], &context);
        assert!(token > last, "token-order: {context}: {token} after {last}");
        last = token;
        tenancy.says(&winner, "lease release", 0);
        assert_eq!(tenancy.shown(), None, "{context}: it is free again");
        if round >= 2 {
            // The next sixteen find no chain, and all begin one.
            delete_locks(&tenancy);
        }
    }
    tenancy.log_is_whole("after all rounds");
}

// --- a reader

#[test]
fn check_10_a_reader_never_sees_an_empty_or_torn_record() {
    let looks = whole_in_every_look(LOKT, 8, 25);
    assert!(looks > 1_000, "the reader looked often enough to mean something: {looks} times");
}

// --- durable

/// Where something happens in a log.
#[track_caller]
fn place_of(calls: &[(Call, String)], from: usize, what: &str, is_it: impl Fn(&str) -> bool) -> usize {
    let found = calls[from..].iter().position(|(_, line)| is_it(line));
    let Some(found) = found else {
        let lines: Vec<&str> = calls.iter().map(|(_, line)| line.get(..200).unwrap_or(line)).collect();
        panic!("{what}, after call {from}:\n{}", lines.join("\n"))
    };
    from + found
}

/// A link of the chain gets its number.
fn is_slot(line: &str) -> bool {
    line.starts_with("linkat(") && line.contains("main.lock.d>, \"0000") && line.ends_with("= 0")
}

fn syncs(line: &str, what: &str) -> bool {
    line.starts_with("fsync(") && line.contains(what)
}

#[test]
fn check_11_what_is_reported_is_on_the_disk() {
    lokt_testkit::need!("strace");
    let tenancy = Tenancy::new(LOKT);
    let source = tenancy.place.beside("source");
    put(&source, "new");
    let mut token = 0;
    for (owner, words) in [
        ("a", "lease acquire --lease 1h"),
        ("a", "lease renew"),
        ("a", "lease fence publish --token TOKEN source target"),
        ("a", "lease release"),
        ("a", "lease acquire --lease 2s --renew 500ms --skew 0s --grace 0s"),
        ("thief", "lease steal --lease 1h"),
    ] {
        let words = words.replace("TOKEN", &token.to_string());
        if owner == "thief" {
            let over = || tenancy.says("reader", "lease status", 0)["state"] == "expired";
            assert!(wait_until(PATIENCE, over), "it ends");
        }
        let args = tenancy.args(owner, &words);
        let (ended, calls) = with_paths(&tenancy.place, owner, &as_words(&args));
        assert_eq!(ended.code, Some(0), "{words}: {ended:?}");
        token = token_of(&ended);
        let written = place_of(&calls, 0, "the link is written", |line| {
            line.starts_with("write(") && line.contains(r#""chain":{"#.replace('"', "\\\"").as_str())
        });
        let file = calls[written].1.split(['(', ',']).nth(1).expect("a call has arguments").to_owned();
        let synced = place_of(&calls, written, "the link is synced", |line| syncs(line, &file));
        let linked = place_of(&calls, 0, "the link gets its number", is_slot);
        assert!(synced < linked, "{words}: whole before it is visible");
        let kept = place_of(&calls, linked, "the chain is synced", |line| syncs(line, "main.lock.d>"));
        let told = place_of(&calls, linked, "it is told", |line| line.starts_with("write(1<"));
        assert!(kept < told, "{words}: durable before it is told");
        if words.contains("acquire") || words.contains("steal") {
            let is_view = |line: &str| {
                (line.starts_with("linkat(") || line.starts_with("renameat")) && line.contains("locks>, \"main.lock\"")
            };
            let shown = place_of(&calls, linked, "the view is there", is_view);
            let kept = place_of(&calls, shown, "the view's directory is synced", |line| syncs(line, ".jvs/locks>"));
            assert!(kept < told, "{words}: the view, too");
        }
        if words.contains("publish") {
            let moved = place_of(&calls, linked, "it takes its place", |line| {
                line.starts_with("rename") && line.contains("\"target\"")
            });
            assert!(kept < moved, "{words}: the link is durable before anything is to be seen");
            let dir = format!("<{}>", tenancy.place.dir().display());
            assert!(place_of(&calls, moved, "its directory is synced", |line| syncs(line, &dir)) < told, "{words}");
        }
    }
}

#[test]
fn check_11_a_new_chain_is_on_the_disk_before_it_is_used() {
    lokt_testkit::need!("strace");
    let tenancy = Tenancy::new(LOKT);
    delete_locks(&tenancy);
    let args = tenancy.args("a", &format!("lease acquire {LONG}"));
    let (ended, calls) = with_paths(&tenancy.place, "a", &as_words(&args));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let fence =
        place_of(&calls, 0, "a ceiling is made", |line| line.contains("\"fence.2048\"") && line.contains("O_EXCL"));
    let kept = place_of(&calls, fence, "it is synced", |line| syncs(line, "worktrees/main>"));
    let linked = place_of(&calls, 0, "a link gets its number", is_slot);
    assert!(kept < linked, "the ceiling is durable before a number below it is used");
    let told = place_of(&calls, linked, "it is told", |line| line.starts_with("write(1<"));
    for dir in ["main.lock.d>", ".jvs/locks>"] {
        assert!(place_of(&calls, linked, "it is synced", |line| syncs(line, dir)) < told, "{dir}");
    }
    // The new `locks` itself is an entry of `.jvs`.
    let above = place_of(&calls, 0, "`.jvs` is synced", |line| syncs(line, "/.jvs>"));
    assert!(above < told, "the directory survives, too");
}

// --- stopped between check and commit

/// What happens while somebody stands still between its last look and its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    /// Its time runs out, and another takes the lease.
    Stolen,
    /// Its own session gives the lease back, and another acquires it.
    GivenBack,
    /// An administrator breaks it, and another acquires it.
    Broken,
    /// Everything about locks is deleted.
    Deleted,
    /// The same, and another acquires.
    DeletedAndTaken,
}

const MEANWHILE: [Meanwhile; 5] =
    [Meanwhile::Stolen, Meanwhile::GivenBack, Meanwhile::Broken, Meanwhile::Deleted, Meanwhile::DeletedAndTaken];

/// A lease that lasts until the command that is stopped has made its check, on a slow machine too.
pub(crate) const ENOUGH: &str = "--lease 4s --renew 1s --skew 50ms --grace 50ms";

/// The call that is the last one before the commit of `words`.
fn before_the_commit(words: &str) -> Call {
    let tenancy = Tenancy::new(LOKT);
    put(&tenancy.place.beside("source"), "new");
    let token = tenancy.acquire("a", LONG);
    let args = tenancy.args("a", &words.replace("TOKEN", &token.to_string()));
    let (ended, calls) = with_paths(&tenancy.place, "a", &as_words(&args));
    assert_eq!(ended.code, Some(0), "{words}: {ended:?}");
    let linked = place_of(&calls, 0, "it commits", is_slot);
    calls[linked - 1].0.clone()
}

/// Stops `words` between check and commit, and lets something happen meanwhile.
fn is_refused(words: &str, call: &Call, meanwhile: Meanwhile, code: i32, name: &str) {
    let context = format!("{words}, {meanwhile:?}");
    let tenancy = Tenancy::new(LOKT);
    put(&tenancy.place.beside("source"), "new");
    let lease = if meanwhile == Meanwhile::Stolen { ENOUGH } else { LONG };
    let old = tenancy.acquire("a", lease);
    let args = tenancy.args("a", &words.replace("TOKEN", &old.to_string()));
    let stopped: Stopped = stopped_after(&tenancy.place, "a", &as_words(&args), call)
        .unwrap_or_else(|| panic!("{context}: it is met before its commit"));
    match meanwhile {
        Meanwhile::Stolen => {}
        Meanwhile::GivenBack => drop(tenancy.says("a", "lease release", 0)),
        Meanwhile::Broken => drop(tenancy.says("admin", "lease break --force --reason test", 0)),
        Meanwhile::Deleted | Meanwhile::DeletedAndTaken => delete_locks(&tenancy),
    }
    let taken = meanwhile != Meanwhile::Deleted;
    let thief = taken.then(|| tenancy.acquire("thief", &format!("{LONG} --timeout 60s")));
    let bytes = || std::fs::read(tenancy.inside("locks/main.lock")).ok();
    let before = bytes();
    let ended = stopped.goes_on();
    assert_eq!(ended.code, Some(code), "{context}: it is refused: {ended:?}");
    assert_eq!(answer(&ended)["code"], name, "{context}");
    assert_eq!(bytes(), before, "no-lost-thief: {context}: the record is as it was");
    assert!(!tenancy.place.beside("target").exists(), "{context}: nothing is to be seen");
    let staged = std::fs::read_dir(tenancy.inside("staging/main")).map_or(0, Iterator::count);
    assert_eq!(staged, 0, "{context}: nothing is left over");
    if let Some(token) = thief {
        assert!(token > old, "token-order: {context}: {token} after {old}");
        assert_eq!(token_of(&tenancy.run("thief", "lease renew")), token, "no-lost-thief: {context}: it is his");
        tenancy.says("anybody", &format!("lease fence check --token {token}"), 0);
        tenancy.says("thief", "lease release", 0);
    } else {
        let next = tenancy.acquire("next", LONG);
        assert!(next > old, "token-order: {context}: {next} after {old}");
    }
    tenancy.log_is_whole(&context);
    let steals = tenancy.events_of("lock_steal").len();
    assert_eq!(steals, usize::from(meanwhile == Meanwhile::Stolen), "{context}: each steal is in the log, once");
}

#[test]
fn check_21_36_40_41_whoever_is_stopped_between_check_and_commit_is_refused() {
    lokt_testkit::need!("strace");
    let mut cases = Vec::new();
    for (words, code, name) in [
        ("lease renew", 4, "E_LOCK_NOT_HELD"),
        ("lease release", 4, "E_LOCK_NOT_HELD"),
        ("lease fence publish --token TOKEN source target", 6, "E_FENCING_MISMATCH"),
    ] {
        let call = before_the_commit(words);
        assert_eq!(call.name, "fsync", "{words}: what is committed is synced first");
        cases.extend(MEANWHILE.map(|meanwhile| (words, call.clone(), meanwhile, code, name)));
    }
    // Most of the time all wait.
    in_parallel(8, cases, |(words, call, meanwhile, code, name)| {
        is_refused(words, &call, meanwhile, code, name);
    });
}

/// An acquire that was stopped before its commit doesn't get what another has got meanwhile, nor a number twice.
#[test]
fn check_21_an_acquire_that_was_stopped_before_its_commit_is_refused() {
    lokt_testkit::need!("strace");
    let rehearsal = Tenancy::new(LOKT);
    let args = rehearsal.args("a", &format!("lease acquire {LONG}"));
    let (_, calls) = with_paths(&rehearsal.place, "a", &as_words(&args));
    let call = calls[place_of(&calls, 0, "it commits", is_slot) - 1].0.clone();
    let tokens = Mutex::new(Vec::new());
    in_parallel(4, [false, true], |deleted| {
        let tenancy = Tenancy::new(LOKT);
        let args = tenancy.args("a", &format!("lease acquire {LONG}"));
        let stopped = stopped_after(&tenancy.place, "a", &as_words(&args), &call).expect("it is met before its commit");
        if deleted {
            delete_locks(&tenancy);
        }
        let other = tenancy.acquire("b", LONG);
        let ended = stopped.goes_on();
        assert_eq!(ended.code, Some(2), "one-holder: deleted {deleted}: {ended:?}");
        assert_eq!(answer(&ended)["holder_owner"], "b", "deleted {deleted}: it knows who");
        assert_eq!(tenancy.shown(), Some(other), "deleted {deleted}: the record is as it was");
        tenancy.says("b", "lease release", 0);
        let next = tenancy.acquire("a", LONG);
        assert!(next > other, "token-order: deleted {deleted}: {next} after {other}");
        tokens.lock().expect("no thread panicked with it").push((other, next));
    });
}

/// The call before the one that changes the view, in `words` of whoever holds.
pub(crate) fn before_the_view(words: &str) -> Call {
    let tenancy = Tenancy::new(LOKT);
    tenancy.acquire("a", LONG);
    let args = tenancy.args("a", words);
    let (_, calls) = with_paths(&tenancy.place, "a", &as_words(&args));
    let is_change = |line: &str| line.starts_with("rename") && line.contains("locks>, \"main.lock\"");
    let changed = place_of(&calls, 0, "the view is changed", is_change);
    calls[changed - 1].0.clone()
}

/// Whoever is stopped just before it changes the view finds there that of somebody else.
#[test]
fn check_18_36_a_view_that_is_changed_too_late_stays_that_of_the_thief() {
    lokt_testkit::need!("strace");
    in_parallel(2, ["lease renew", "lease release"], |words| {
        let call = before_the_view(words);
        let tenancy = Tenancy::new(LOKT);
        tenancy.acquire("a", ENOUGH);
        let args = tenancy.args("a", words);
        let stopped = stopped_after(&tenancy.place, "a", &as_words(&args), &call).expect("it is met in between");
        let thief = tenancy.acquire("thief", &format!("{LONG} --timeout 60s"));
        let ended = stopped.goes_on();
        assert!(matches!(ended.code, Some(4 | 5)), "{words}: it is refused: {ended:?}");
        assert_eq!(tenancy.shown(), Some(thief), "no-lost-thief: {words}: {ended:?}");
        assert_eq!(token_of(&tenancy.run("thief", "lease renew")), thief, "no-lost-thief: {words}: it is his");
        let left: Vec<_> = std::fs::read_dir(tenancy.inside("locks")).expect("it is there").collect();
        assert_eq!(left.len(), 2, "{words}: the view and the chain, and nothing else: {left:?}");
    });
}
