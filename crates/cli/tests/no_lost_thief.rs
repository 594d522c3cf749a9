//! **no-lost-thief**, with real processes: a command is delayed before, or killed at, each of its system calls, while another owner breaks
//! the lock and takes it. The new holder's record survives.

use std::sync::Mutex;
use std::time::Duration;

use lokt_testkit::cmd::{Place, granted};
use lokt_testkit::strace::{Call, calls, delayed_at, killed_at};
use lokt_testkit::swarm::{Ended, pause, wait_until};

/// How long the victim is held up. The thief needs about 10 ms for both of its commands.
const DELAY_MS: u64 = 400;
/// How many windows are open at a time; most of that time is sleep.
const AT_ONCE: usize = 6;

/// A command about a's hold, in the words of a person who knows that hold's id.
struct Victim {
    title: &'static str,
    owner: &'static str,
    /// How a takes the lock first.
    taken: &'static [&'static str],
    /// The command; `ID` stands for the lock id of a's hold.
    args: &'static [&'static str],
}

const VICTIMS: [Victim; 5] = [
    Victim { title: "unlock", owner: "a", taken: &["x", "--ttl", "1h"], args: &["unlock", "x"] },
    Victim { title: "refresh", owner: "a", taken: &["x", "--ttl", "1h"], args: &["lock", "x", "--ttl", "2h"] },
    Victim {
        title: "break of this hold",
        owner: "admin",
        taken: &["x", "--ttl", "1h"],
        args: &["unlock", "--force", "--lock-id", "ID", "x"],
    },
    Victim {
        title: "break if stale",
        owner: "admin",
        taken: &["x", "--ttl", "1s"],
        args: &["unlock", "--break-stale", "x"],
    },
    Victim { title: "unlock all", owner: "a", taken: &["x", "--ttl", "1h"], args: &["unlock", "--all"] },
];

/// a holds x; for the stale victim, no longer.
fn prepared(victim: &Victim) -> (Place, Vec<String>) {
    let place = Place::new(env!("CARGO_BIN_EXE_lokt"));
    let (lock_id, _) = place.take("a", victim.taken);
    let word = |word: &&str| if *word == "ID" { lock_id.clone() } else { (*word).to_owned() };
    let args = victim.args.iter().map(word).collect();
    if victim.taken.contains(&"1s") {
        let over = wait_until(Duration::from_secs(5), || place.run("a", &["exists", "x"]).code == Some(3));
        assert!(over, "a one-second lease ends");
    }
    (place, args)
}

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// b takes the lock away from whoever has it.
fn steal(place: &Place) -> Ended {
    let _ = place.run("b", &["unlock", "--force", "x"]);
    place.run("b", &["lock", "x", "--json", "--ttl", "1h"])
}

fn the_thief_survives(place: &Place, thief: &Ended, context: &str) {
    if thief.code != Some(0) {
        // The victim's refresh came between b's two commands: then a holds, and b was rightly refused.
        assert_eq!(thief.code, Some(2), "{context}: {thief:?}");
        return;
    }
    let stored = place.stored("x");
    let id = stored.as_ref().and_then(|record| record["lock_id"].as_str());
    assert_eq!(id, Some(granted(thief).0.as_str()), "no-lost-thief: {context}: the thief's record is {stored:?}");
}

/// Every system call of every victim.
fn cases() -> Vec<(&'static Victim, Call)> {
    let mut cases = Vec::new();
    for victim in &VICTIMS {
        let (place, args) = prepared(victim);
        let all = calls(&place, victim.owner, &words(&args));
        assert!(all.iter().any(|call| call.name == "flock"), "{}: strace sees the mutex", victim.title);
        cases.extend(all.into_iter().map(|call| (victim, call)));
    }
    cases
}

fn in_parallel(check: impl Fn(&Victim, &Call) + Sync) {
    let queue = Mutex::new(cases().into_iter());
    let next = || queue.lock().expect("no thread panicked with it").next();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((victim, call)) = next() {
                    check(victim, &call);
                }
            });
        }
    });
}

#[test]
fn the_new_holder_survives_a_command_delayed_at_any_system_call() {
    lokt_testkit::need!("strace");
    let stolen = Mutex::new(0);
    in_parallel(|victim, call| {
        let context = format!("{} delayed at {}#{}", victim.title, call.name, call.nth);
        let (place, args) = prepared(victim);
        let thief = std::thread::scope(|scope| {
            let late = scope.spawn(|| delayed_at(&place, victim.owner, &words(&args), call, DELAY_MS));
            pause(Duration::from_millis(DELAY_MS / 4));
            let thief = steal(&place);
            let late = late.join().expect("the victim ran");
            assert!(late.code.is_some(), "{context}: the victim ends by itself: {late:?}");
            thief
        });
        the_thief_survives(&place, &thief, &context);
        *stolen.lock().expect("no thread panicked with it") += usize::from(thief.code == Some(0));
    });
    let stolen = stolen.into_inner().expect("no thread panicked with it");
    assert!(stolen > 100, "the thief got in between often enough to mean something: {stolen} times");
}

#[test]
fn the_new_holder_survives_a_command_killed_at_any_system_call() {
    lokt_testkit::need!("strace");
    in_parallel(|victim, call| {
        let context = format!("{} killed at {}#{}", victim.title, call.name, call.nth);
        let (place, args) = prepared(victim);
        let before = place.stored("x").and_then(|record| record["fencing_token"].as_u64()).unwrap_or(0);
        killed_at(&place, victim.owner, &words(&args), call);
        let thief = steal(&place);
        assert_eq!(thief.code, Some(0), "{context}: the name is not wedged: {thief:?}");
        the_thief_survives(&place, &thief, &context);
        assert!(granted(&thief).1 > before, "token-order: {context}");
        let left: Vec<_> = std::fs::read_dir(place.root().join("state/tmp")).expect("it exists").collect();
        assert!(left.is_empty(), "{context}: temp files are cleaned up: {left:?}");
    });
}
