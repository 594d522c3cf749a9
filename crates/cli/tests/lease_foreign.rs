//! Leases beside a tool that knows only the public record (`peers/lease.py`): it creates it exclusively, replaces it by rename, and removes
//! it. Each of the two keeps out while the other holds, and what the other left behind is taken over in time.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use lokt_testkit::strace::stopped_after;
use lokt_testkit::swarm::{Ended, in_parallel, now_ms, pause, put, wait_until};
use lokt_testkit::tenancy::{LONG, Tenancy, answer, as_words, token_in, token_of};
use serde_json::Value;

use crate::common::{LOKT, remove};
use crate::lease_races::{ENOUGH, before_the_view};

/// Python leaves no compiled files behind and takes no notice of its user.
const PEER: [&str; 5] = ["python3", "-B", "-E", "-s", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/lease.py")];
/// What the peer is told for a lease that a test can outlive.
const BRIEFLY: &str = "--lease-ms 400 --skew-ms 50 --grace-ms 50";
/// How long that is for others.
const BRIEFLY_MS: u64 = 500;

/// Runs the peer on a repository.
fn peer(tenancy: &Tenancy, words: &str) -> Ended {
    let dir = tenancy.place.dir().to_str().expect("a plain path").to_owned();
    let mut words: Vec<&str> = words.split_whitespace().collect();
    words.insert(1, &dir);
    tenancy.place.run_words("peer", &[&PEER, words.as_slice()].concat())
}

#[track_caller]
fn peer_acquires(tenancy: &Tenancy, flags: &str) {
    let ended = peer(tenancy, &format!("acquire {flags}"));
    assert_eq!(ended.code, Some(0), "the peer gets it: {ended:?}");
}

fn bytes(tenancy: &Tenancy) -> Option<Vec<u8>> {
    fs::read(tenancy.inside("locks/main.lock")).ok()
}

/// The names in `locks`.
fn names(tenancy: &Tenancy) -> Vec<String> {
    let entries = fs::read_dir(tenancy.inside("locks")).expect("it is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Somebody is inside, and says so: true if somebody else does, too.
fn meets_another(witness: &Path) -> bool {
    let met = File::options().write(true).create_new(true).open(witness).is_err();
    pause(Duration::from_millis(4));
    met || !witness.exists() || {
        remove(witness);
        false
    }
}

#[test]
fn ours_and_a_tool_that_knows_only_the_record_exclude_each_other() {
    const EACH: usize = 3;
    /// It goes on for as long, and until each kind had so many turns; but not for ever.
    const LASTS_MS: u64 = 3_000;
    const TURNS: usize = 15;
    const LIMIT_MS: u64 = 60_000;
    let tenancy = Tenancy::new(LOKT);
    let witness = tenancy.place.beside("inside");
    let (overlaps, tokens) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let began_ms = now_ms();
    let goes_on = || {
        let turns = tokens.lock().expect("no thread panicked with it").len();
        let lasted_ms = now_ms() - began_ms;
        (lasted_ms < LASTS_MS || turns < TURNS) && lasted_ms < LIMIT_MS
    };
    let peers: Vec<Value> = thread::scope(|scope| {
        let loops: Vec<_> = (0..EACH)
            .map(|_| {
                let words = format!("loop {} {}", LIMIT_MS / 1000, witness.display());
                let tenancy = &tenancy;
                scope.spawn(move || answer(&peer(tenancy, &words)))
            })
            .collect();
        let ours = (0..EACH).map(|nth| {
            let (tenancy, witness, overlaps, tokens) = (&tenancy, &witness, &overlaps, &tokens);
            let goes_on = &goes_on;
            scope.spawn(move || {
                let owner = format!("ours-{nth}");
                while goes_on() {
                    let wait = if nth == 0 { "" } else { "--timeout 200ms" };
                    let ended = tenancy.run(&owner, &format!("lease acquire {LONG} {wait}"));
                    if ended.code != Some(0) {
                        assert_eq!(ended.code, Some(2), "{owner} is told that it is held: {ended:?}");
                        continue;
                    }
                    overlaps.fetch_add(usize::from(meets_another(witness)), Ordering::Relaxed);
                    tokens.lock().expect("no thread panicked with it").push(token_of(&ended));
                    tenancy.says(&owner, "lease release", 0);
                    pause(Duration::from_millis(20));
                }
            })
        });
        let ours: Vec<_> = ours.collect();
        let ended: Vec<_> = ours.into_iter().map(thread::ScopedJoinHandle::join).collect();
        put(&tenancy.place.beside("inside.stop"), "");
        for ended in ended {
            ended.expect("it ran");
        }
        loops.into_iter().map(|peer| peer.join().expect("it ran")).collect()
    });
    let count = |what: &str| peers.iter().map(|peer| peer[what].as_u64().unwrap_or_default()).sum::<u64>();
    let tokens = tokens.into_inner().expect("no thread panicked with it");
    let context = format!("peers: {peers:?}; ours: {} grants", tokens.len());
    assert_eq!((count("overlaps"), overlaps.into_inner()), (0, 0), "one-holder: never two inside: {context}");
    assert_eq!(count("lost"), 0, "nobody takes away what a peer holds: {context}");
    assert!(count("grants") >= 10 && tokens.len() >= TURNS, "both get their turns: {context}");
    assert!(tokens.windows(2).all(|two| two[0] < two[1]), "token-order: {tokens:?}");
    assert_eq!(names(&tenancy), ["main.lock.d"], "nothing is left over");
    tenancy.log_is_whole(&context);
}

#[test]
fn what_a_crashed_peer_left_is_taken_over_when_its_time_is_over() {
    for leave in ["whole", "empty", "half"] {
        let tenancy = Tenancy::new(LOKT);
        // What says nothing of its own time lasts as long as ours would.
        put(&tenancy.inside("config.json"), r#"{"lease_ms":400,"renew_ms":100,"skew_ms":50,"grace_ms":50}"#);
        let before = tenancy.acquire("a", LONG);
        tenancy.says("a", "lease release", 0);
        let began_ms = now_ms();
        peer_acquires(&tenancy, &format!("{BRIEFLY} --token 41 --leave {leave}"));
        let left = bytes(&tenancy);
        let refused = tenancy.says("a", &format!("lease acquire {LONG}"), 2);
        assert_eq!(refused["code"], "E_LOCK_CONFLICT", "{leave}: {refused}");
        assert!(refused["retry_after_ms"].as_u64().is_some_and(|ms| ms <= 2 * BRIEFLY_MS), "{leave}: {refused}");
        assert_eq!(bytes(&tenancy), left, "{leave}: it is as it was");
        let taken = tenancy.says("a", &format!("lease acquire {LONG} --timeout 60s"), 0);
        let took_ms = now_ms() - began_ms;
        assert!(took_ms > BRIEFLY_MS, "{leave}: not before its time is over: {took_ms} ms");
        assert!(took_ms < 60 * BRIEFLY_MS, "{leave}: and soon after: {took_ms} ms");
        assert_eq!((&taken["status"], &taken["evidence"]), (&"stolen".into(), &"observed".into()), "{leave}: {taken}");
        let token = token_in(&taken);
        let above = if leave == "whole" { 41 } else { before };
        assert!(token > above, "token-order: {leave}: {token} after {above}");
        assert_eq!(tenancy.shown(), Some(token), "{leave}: everybody sees ours");
        assert_eq!(names(&tenancy), ["main.lock", "main.lock.d"], "{leave}: nothing else");
        // Whoever left it may come back.
        let back = peer(&tenancy, "release");
        assert_eq!(back.code, Some(4), "{leave}: it sees that it lost it: {back:?}");
        tenancy.says("a", "lease renew", 0);
        tenancy.says("a", "lease release", 0);
        tenancy.log_is_whole(leave);
        assert_eq!(tenancy.events_of("lock_steal").len(), 1, "{leave}: it is in the log");
    }
}

#[test]
fn a_peers_live_lock_is_honoured_and_can_be_broken() {
    let tenancy = Tenancy::new(LOKT);
    let ours = tenancy.acquire("a", LONG);
    tenancy.says("a", "lease release", 0);
    peer_acquires(&tenancy, "--token 2000");
    let left = bytes(&tenancy);
    for (words, code, name) in [
        ("lease acquire", 2, "E_LOCK_CONFLICT"),
        ("lease steal", 2, "E_LOCK_CONFLICT"),
        ("lease run -- true", 2, "E_LOCK_CONFLICT"),
        ("lease renew", 4, "E_LOCK_NOT_HELD"),
        ("lease release", 4, "E_LOCK_NOT_HELD"),
        ("lease fence publish --token 2000 session-a target", 6, "E_FENCING_MISMATCH"),
    ] {
        let refused = tenancy.says("a", words, code);
        assert_eq!(refused["code"], name, "{words}: {refused}");
        assert_eq!(bytes(&tenancy), left, "{words}: the peer's lock is as it was");
    }
    assert_eq!(tenancy.says("a", "lease status", 0)["state"], "foreign");
    let checkup = tenancy.says("a", "doctor --strict --fix", 0).to_string();
    assert!(checkup.contains("foreign_lock") && checkup.contains("peer.example"), "doctor says whose it is: {checkup}");
    assert_eq!(bytes(&tenancy), left, "doctor leaves it alone");
    assert_eq!(peer(&tenancy, "renew").code, Some(0), "the peer still has it");
    tenancy.says("a", "lease break --force --reason test", 0);
    assert_eq!(names(&tenancy), ["main.lock.d"], "it is gone");
    assert_eq!(peer(&tenancy, "renew").code, Some(4), "the peer sees that");
    let token = tenancy.acquire("a", LONG);
    assert!(token > 2000 && token > ours, "token-order: {token} after {ours} and the peer's 2000");
    let broken = tenancy.events_of("lock_break");
    assert!(broken.len() == 1 && broken[0].to_string().contains("peer.example"), "it is in the log: {broken:?}");
}

#[test]
fn a_peer_keeps_out_while_ours_is_held() {
    let tenancy = Tenancy::new(LOKT);
    let token = tenancy.acquire("a", "--lease 30s --skew 50ms --grace 50ms");
    for _ in 0..3 {
        assert_eq!(peer(&tenancy, "acquire").code, Some(2), "one-holder: it sees our record");
        let renewed = tenancy.run("a", "lease renew");
        assert_eq!(renewed.code, Some(0), "{renewed:?}");
    }
    assert_eq!(tenancy.shown(), Some(token), "it is still ours");
    tenancy.says("a", "lease release", 0);
    peer_acquires(&tenancy, "");
    tenancy.says("b", "lease acquire", 2);
    assert_eq!(peer(&tenancy, "release").code, Some(0), "the peer gives it back");
    let next = tenancy.acquire("b", LONG);
    assert!(next > token, "token-order: {next} after {token}");
}

#[test]
fn a_peer_that_takes_what_is_over_is_the_holder() {
    let tenancy = Tenancy::new(LOKT);
    put(&tenancy.place.beside("source"), "new");
    let token = tenancy.acquire_briefly("a", "");
    pause(Duration::from_millis(300));
    peer_acquires(&tenancy, "");
    let left = bytes(&tenancy);
    for (words, codes) in [
        ("lease renew".to_owned(), [4, 5]),
        ("lease release".to_owned(), [4, 4]),
        (format!("lease fence publish --token {token} source target"), [5, 6]),
        (format!("lease fence check --token {token}"), [5, 6]),
        ("lease acquire".to_owned(), [2, 2]),
    ] {
        let ended = tenancy.run("a", &words);
        assert!(ended.code.is_some_and(|code| codes.contains(&code)), "no-lost-thief: {words}: {ended:?}");
        assert_eq!(bytes(&tenancy), left, "no-lost-thief: {words}: the peer's lock is as it was");
    }
    assert!(!tenancy.place.beside("target").exists(), "nothing is to be seen");
    assert_eq!(peer(&tenancy, "release").code, Some(0), "the peer gives it back");
    let next = tenancy.acquire("a", LONG);
    assert!(next > token, "token-order: {next} after {token}");
}

/// A peer takes what is over by its clock at the very moment when ours is about to change the record: the peer's stays.
#[test]
fn what_a_peer_took_meanwhile_is_put_back_where_it_was() {
    lokt_testkit::need!("strace");
    in_parallel(2, ["lease renew", "lease release"], |words| {
        let call = before_the_view(words);
        let tenancy = Tenancy::new(LOKT);
        tenancy.acquire("a", ENOUGH);
        let args = tenancy.args("a", words);
        let stopped = stopped_after(&tenancy.place, "a", &as_words(&args), &call).expect("it is met in between");
        let took = || peer(&tenancy, "acquire").code == Some(0);
        assert!(wait_until(Duration::from_secs(60), took), "{words}: it is over by the peer's clock");
        let left = bytes(&tenancy);
        let ended = stopped.goes_on();
        // Giving back what one had is no harm, whoever has it by now.
        let codes: &[i32] = if words.contains("release") { &[0, 4] } else { &[4, 5] };
        assert!(ended.code.is_some_and(|code| codes.contains(&code)), "{words}: {ended:?}");
        assert_eq!(bytes(&tenancy), left, "no-lost-thief: {words}: the peer's lock is as it was");
        assert_eq!(peer(&tenancy, "renew").code, Some(0), "no-lost-thief: {words}: the peer has it");
        tenancy.says("b", "lease acquire", 2);
        assert_eq!(names(&tenancy), ["main.lock", "main.lock.d"], "{words}: nothing else");
    });
}
