//! **all-or-nothing** for `publish`: it is delayed before, or killed at, each of its system calls, while another owner takes the lock. A
//! stale token publishes nothing; what was published came before the thief's grant.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use lokt_testkit::cmd::{Place, granted};
use lokt_testkit::strace::{Call, calls, delayed_at, killed_at};
use lokt_testkit::swarm::{Ended, in_parallel, pause};
use serde_json::Value;

use crate::common::{LOKT, names_in, put};

/// How long a publication is held up. The thief needs about 10 ms for both of its commands.
const DELAY_MS: u64 = 300;
/// How many windows are open at a time; most of that time is sleep.
const AT_ONCE: usize = 8;
/// The old and the new content, long enough to be torn.
static OLD: [u8; 20_000] = [b'o'; 20_000];
static NEW: [u8; 30_000] = [b'n'; 30_000];

/// `a` holds `x`; old content is in its place, new content waits beside it. Gives the token.
fn prepared(lease: &[&str]) -> (Place, String) {
    let place = Place::new(LOKT);
    let (_, token) = place.take("a", &[&["x"], lease].concat());
    put(&place.beside("new"), NEW);
    put(&place.beside("out/site"), OLD);
    (place, token.to_string())
}

fn publish(token: &str) -> [&str; 6] {
    ["publish", "x", "new", "out/site", "--token", token]
}

fn every_call() -> Vec<Call> {
    let (place, token) = prepared(&[]);
    let all = calls(&place, "a", &publish(&token));
    for name in ["flock", "renameat", "fsync"] {
        assert!(all.iter().any(|call| call.name == name), "strace sees {name}");
    }
    all
}

/// Event and owner of everything that happened to `x`.
fn events(place: &Place) -> Vec<(String, String)> {
    let text = fs::read_to_string(place.root().join("audit.log")).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let word = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    events.filter(|event| event["name"] == "x").map(|event| (word(&event, "event"), word(&event, "owner"))).collect()
}

fn leftovers(place: &Place) -> Vec<PathBuf> {
    names_in(&place.beside("out")).into_iter().filter(|path| !path.ends_with("site")).collect()
}

/// Published before the thief was granted, or not at all. True: published.
fn is_all_or_nothing(place: &Place, published: &Ended, thief: &Ended, context: &str) -> bool {
    assert_eq!(thief.code, Some(0), "{context}: the thief gets the lock: {thief:?}");
    assert!(granted(thief).1 > 0, "{context}: with a token");
    let events = events(place);
    let at = |event: &str, owner: &str| events.iter().position(|(e, o)| e == event && o == owner);
    let content = fs::read(place.beside("out/site")).expect("it is there");
    assert_eq!(leftovers(place), Vec::<PathBuf>::new(), "{context}: nothing is left beside it");
    let theft = at("acquire", "thief").unwrap_or_else(|| panic!("{context}: the thief is in the log: {events:?}"));
    if published.code == Some(0) {
        assert!(content == NEW, "{context}: what was published is there, whole");
        let done = at("publish", "a").unwrap_or_else(|| panic!("audited: {context}: {events:?}"));
        assert!(done < theft, "all-or-nothing: {context}: published after the thief was granted: {events:?}");
        return true;
    }
    assert!(matches!(published.code, Some(5 | 6)), "{context}: its token is stale: {published:?}");
    assert!(content == OLD, "all-or-nothing: {context}: a stale token changed the target");
    assert!(at("publish-deny", "a").is_some(), "audited: {context}: {events:?}");
    assert_eq!(at("publish", "a"), None, "audited: {context}: {events:?}");
    false
}

/// Both orders were tried, or the windows were not open.
fn saw_both(seen: Mutex<Vec<bool>>) {
    let seen = seen.into_inner().expect("no thread panicked with it");
    let published = seen.iter().filter(|published| **published).count();
    assert!(published > 0 && published < seen.len(), "both orders were seen: {published} of {} came first", seen.len());
}

#[test]
fn a_publication_delayed_at_any_system_call_comes_before_the_thief_or_not_at_all() {
    lokt_testkit::need!("strace");
    let seen = Mutex::new(Vec::new());
    in_parallel(AT_ONCE, every_call(), |call| {
        let context = format!("publish delayed at {}#{}", call.name, call.nth);
        let (place, token) = prepared(&[]);
        let (published, thief) = std::thread::scope(|scope| {
            let late = scope.spawn(|| delayed_at(&place, "a", &publish(&token), &call, DELAY_MS));
            pause(Duration::from_millis(DELAY_MS / 2));
            place.run("thief", &["unlock", "--force", "x"]);
            let thief = place.run("thief", &["lock", "x", "--json"]);
            (late.join().expect("it ran"), thief)
        });
        let published = is_all_or_nothing(&place, &published, &thief, &context);
        seen.lock().expect("no thread panicked with it").push(published);
    });
    saw_both(seen);
}

/// The lease runs out by itself, and somebody who waits takes the lock.
#[test]
fn a_publication_that_outlives_its_lease_comes_before_the_next_holder_or_not_at_all() {
    lokt_testkit::need!("strace");
    let names = ["copy_file_range", "fchmod", "fsync", "flock", "linkat", "renameat"];
    let cases = every_call().into_iter().filter(|call| names.contains(&call.name.as_str()));
    let seen = Mutex::new(Vec::new());
    in_parallel(AT_ONCE, cases, |call| {
        let context = format!("publish under a lease, delayed at {}#{}", call.name, call.nth);
        let (place, token) = prepared(&["--ttl", "2s"]);
        let (published, thief) = std::thread::scope(|scope| {
            let late = scope.spawn(|| delayed_at(&place, "a", &publish(&token), &call, 3000));
            let thief = place.run("thief", &["lock", "x", "--timeout", "1m", "--json"]);
            (late.join().expect("it ran"), thief)
        });
        let published = is_all_or_nothing(&place, &published, &thief, &context);
        seen.lock().expect("no thread panicked with it").push(published);
    });
    saw_both(seen);
}

#[test]
fn a_publication_killed_at_any_system_call_leaves_the_old_file_or_the_new_one_whole() {
    lokt_testkit::need!("strace");
    let seen = Mutex::new(Vec::new());
    in_parallel(AT_ONCE, every_call(), |call| {
        let context = format!("publish killed at {}#{}", call.name, call.nth);
        let (place, token) = prepared(&[]);
        killed_at(&place, "a", &publish(&token), &call);
        let content = fs::read(place.beside("out/site")).expect("it is there");
        assert!(content == OLD || content == NEW, "all-or-nothing: {context}: {} bytes", content.len());
        // The one window that is documented: the copy has its name, and not yet its place.
        let left = leftovers(&place);
        let window = call.name == "renameat";
        assert_eq!(left.len(), usize::from(window), "{context}: left beside it: {left:?}");
        assert!(left.iter().all(|path| path.to_string_lossy().contains("/.lokt-publish-")), "{context}: {left:?}");
        let again = place.run("a", &publish(&token));
        assert_eq!(again.code, Some(0), "{context}: the next one works: {again:?}");
        assert!(fs::read(place.beside("out/site")).is_ok_and(|content| content == NEW), "{context}: and is there");
        seen.lock().expect("no thread panicked with it").push(content == NEW);
    });
    saw_both(seen);
}
