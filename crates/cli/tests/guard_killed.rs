//! **crash-frees** and **child-counts** for guards that are killed: ten thousand times in front of a waiter, and at every system call
//! around their spawn and their release.

use std::io::Write as _;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use lokt_sys::machine::{Linux, Machine as _};
use lokt_testkit::cmd::Place;
use lokt_testkit::dice::Dice;
use lokt_testkit::guarding::{CLOSES, Guarding, KEEPS, Relative};
use lokt_testkit::strace::{Call, calls, guard_killed_at, read_log};
use lokt_testkit::swarm::{in_parallel, pause, wait_until};
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

const LOKT: &str = env!("CARGO_BIN_EXE_lokt");

fn now_ms() -> u64 {
    Linux.now().monotonic_ms
}

// --- ten thousand kills

const KILLS: usize = 10_000;
/// Lines of waiters beside each other, each in a root of its own.
const LINES: usize = 4;
/// Who is woken by the kernel enters within milliseconds.
const LATE_MS: u64 = 100;
/// Who had to look for itself, because nothing woke it, enters after a second.
const UNWOKEN_MS: u64 = 900;
/// So many of each line may be that slow.
const UNWOKEN_MAX: usize = 25;
/// Nobody who hasn't entered by now will.
const ASLEEP: Duration = Duration::from_secs(10);

/// A command that says its pid.
const SAYS_PID: [&str; 3] = ["sh", "-c", "echo $$; read line"];

/// Kills one holder after the other, guard and command, each in front of a waiter. Gives how long each waiter took that was asleep
/// already.
fn kill_in_a_row(line: usize, kills: usize) -> Vec<u64> {
    let place = Place::new(LOKT);
    let start = || Guarding::start(&place, "a", &[], &["x", "--timeout", "60s"], &SAYS_PID);
    let command = |said: &str| Relative::of(said.parse().unwrap_or_else(|error| panic!("{said} is a pid: {error}")));
    let mut dice = Dice::new(u64::try_from(line).expect("a small number"));
    let mut holder = start();
    let mut child = command(&holder.runs());
    let mut took = Vec::new();
    let mut unwoken = 0;
    for kill in 0..kills {
        let mut waiter = start();
        // Some are killed while the waiter arrives: at its look, at its queueing, before it sleeps.
        let asleep = dice.below(4) > 0;
        if asleep {
            waiter.waits();
        } else {
            pause(Duration::from_micros(dice.below(8_000)));
        }
        let guard = holder.itself();
        let began = now_ms();
        match dice.below(3) {
            0 => {
                guard.kill();
                child.kill();
            }
            1 => {
                child.kill();
                guard.kill();
            }
            _ => {
                guard.kill();
                pause(Duration::from_micros(dice.below(2_000)));
                child.kill();
            }
        }
        let said = waiter.line_within(ASLEEP);
        let ms = now_ms() - began;
        let said = said.unwrap_or_else(|| panic!("crash-frees: line {line}, kill {kill}: the next one entered"));
        assert!(!child.lives(), "child-counts: line {line}, kill {kill}: the next one runs, the last one has ended");
        holder.ends();
        reap(&child);
        if asleep {
            took.push(ms);
            unwoken += usize::from(ms > UNWOKEN_MS);
            // A loaded machine may let somebody wait for a second; a wake-up that gets lost shows more often than that.
            assert!(
                unwoken <= UNWOKEN_MAX,
                "crash-frees: line {line}, kill {kill}: they look for themselves: {took:?}"
            );
        }
        (holder, child) = (waiter, command(&said));
    }
    took
}

/// An orphan that became ours, see [`set_child_subreaper`].
fn reap(orphan: &Relative) {
    let pid = i32::try_from(orphan.pid).ok().and_then(Pid::from_raw);
    // Not ours if its guard lived long enough to see it end.
    let _ = waitpid(pid, WaitOptions::NOHANG);
}

#[test]
fn of_ten_thousand_kills_none_leaves_a_waiter_asleep() {
    // Not everybody's first process takes care of orphans, and ten thousand are many.
    set_child_subreaper(Some(getpid())).expect("a process may do that for its own");
    let took: Vec<u64> = thread::scope(|scope| {
        let lines: Vec<_> = (0..LINES).map(|line| scope.spawn(move || kill_in_a_row(line, KILLS / LINES))).collect();
        lines.into_iter().flat_map(|line| line.join().expect("every waiter entered")).collect()
    });
    let mut sorted = took;
    sorted.sort_unstable();
    let (count, longest) = (sorted.len(), sorted.last().copied().unwrap_or(0));
    let over = |limit: u64| sorted.iter().filter(|ms| **ms > limit).count();
    let (late, unwoken) = (over(LATE_MS), over(UNWOKEN_MS));
    let median = sorted[count / 2];
    let _ = writeln!(
        std::io::stdout(),
        "{count} sleepers woken: median {median} ms, longest {longest} ms, {late} over {LATE_MS} ms, {unwoken} over {UNWOKEN_MS} ms"
    );
    assert!(count > KILLS / 2, "most waiters slept: {count}");
    assert!(median <= LATE_MS, "crash-frees: the next in line enters in milliseconds, not {median}");
}

// --- killed at every system call

/// How many guards are killed at a time.
const AT_ONCE: usize = 4;

/// The calls of a guard's life, in a root that has been used.
struct Life {
    calls: Vec<Call>,
    /// The first mutex.
    mutex: usize,
    spawn: usize,
    /// It sleeps until the command ends.
    asleep: usize,
}

fn used() -> Place {
    let place = Place::new(LOKT);
    assert_eq!(place.run("setup", &["guard", "x", "--", "true"]).code, Some(0), "a fresh root can be used");
    place
}

/// A command that is alive when its guard looks at it after the spawn. One that has ended already is looked at twice: the same guard
/// would make other calls in another run.
const LASTS: [&str; 2] = ["sleep", "0.4"];

fn life(args: &[&str]) -> Life {
    let calls = calls(&used(), "a", &[&["guard", "x"], args, &["--"], &LASTS].concat());
    let from = |start: usize, names: &[&str]| {
        let found = calls[start..].iter().position(|call| names.contains(&call.name.as_str()));
        start + found.unwrap_or_else(|| panic!("strace sees one of {names:?}: {calls:?}"))
    };
    let mutex = from(0, &["flock"]);
    let spawn = from(mutex, &["clone3", "clone", "vfork"]);
    let asleep = from(spawn, &["ppoll", "poll"]);
    Life { calls, mutex, spawn, asleep }
}

#[track_caller]
fn is_free(place: &Place, context: &str) {
    let tried = place.run("next", &["guard", "x", "--", "true"]);
    assert_eq!(tried.code, Some(0), "crash-frees: {context}: it is free at once: {tried:?}");
}

/// What is there beside the fixed files.
fn litter(place: &Place) -> Vec<String> {
    let mut found = Vec::new();
    for dir in ["locks", "state/tmp", "state/line", "state/held"] {
        let entries = std::fs::read_dir(place.root().join(dir)).into_iter().flatten().flatten();
        found.extend(entries.map(|entry| format!("{dir}/{}", entry.file_name().to_string_lossy())));
    }
    found
}

/// Nothing is left but, perhaps, the pulse of the dead; and that goes when the counter begins anew, as it does every thousand grants.
#[track_caller]
fn is_tidy(place: &Place, context: &str) {
    let left = litter(place);
    assert!(left.len() <= 1 && left.iter().all(|path| path.starts_with("state/held/")), "{context}: {left:?} is left");
    let next = place.root().join("state/next");
    assert!(std::process::Command::new("rm").arg(next).status().is_ok_and(|status| status.success()), "rm runs");
    is_free(place, context);
    assert_eq!(litter(place), Vec::<String>::new(), "{context}: nothing is left in the end");
}

#[test]
fn a_guard_killed_at_any_call_around_its_spawn_lets_nobody_in_while_its_command_runs() {
    lokt_testkit::need!("strace");
    for (title, flags, command) in [
        ("keeps the pulse", ["--ttl", "1h"].as_slice(), KEEPS),
        ("closes the pulse", &[], CLOSES),
        ("doesn't get the pulse", &["-o"], KEEPS),
    ] {
        let life = life(flags);
        let started = Mutex::new(0);
        in_parallel(AT_ONCE, life.mutex..=life.asleep, |at| {
            let call = &life.calls[at];
            let context = format!("a command that {title}, guard killed at {}#{}", call.name, call.nth);
            let place = used();
            let mut held = guard_killed_at(&place, "a", &[&["x"], flags].concat(), &command, call);
            let ended = held.ends();
            assert!(ended.code().is_none(), "{context}: it is killed there: {ended:?}");
            if at <= life.spawn {
                assert_eq!(held.line_within(ASLEEP), None, "{context}: there is no command yet");
                is_free(&place, &context);
                return is_tidy(&place, &context);
            }
            held.runs();
            *started.lock().expect("no thread panicked with it") += 1;
            let tried = place.run("b", &["guard", "x", "--", "true"]);
            assert_eq!(tried.code, Some(2), "child-counts: {context}: the command runs: {tried:?}");
            let mut waiter = Guarding::start(&place, "c", &[], &["x", "--timeout", "60s"], &KEEPS);
            waiter.waits();
            assert_eq!(waiter.line_within(Duration::from_millis(50)), None, "child-counts: {context}");
            held.tell();
            assert!(waiter.line_within(ASLEEP).is_some(), "crash-frees: {context}: the next one enters");
            waiter.tell();
            assert_eq!(waiter.ends().code(), Some(0), "{context}: and gives it back");
            let free = wait_until(ASLEEP, || place.run("next", &["guard", "x", "--", "true"]).code == Some(0));
            assert!(free, "crash-frees: {context}: in the end it is free");
            is_tidy(&place, &context);
        });
        let started = started.into_inner().expect("no thread panicked with it");
        assert_eq!(started, life.asleep - life.spawn, "{title}: every command after the spawn ran");
    }
}

#[test]
fn a_guard_killed_at_any_call_of_its_release_leaves_the_lock_free_and_nothing_behind() {
    lokt_testkit::need!("strace");
    for flags in [[].as_slice(), &["--ttl", "1h"]] {
        let life = life(flags);
        in_parallel(AT_ONCE, life.asleep + 1..life.calls.len(), |at| {
            let call = &life.calls[at];
            let context = format!("{flags:?}, guard killed at {}#{}", call.name, call.nth);
            let place = used();
            // On a loaded machine even such a command may end before its guard looks at it; or it is met by that call sooner, and the command
            // runs for a moment longer than its guard.
            let killed = (0..5).any(|_| {
                let ended = guard_killed_at(&place, "a", &[&["x"], flags].concat(), &LASTS, call).ends();
                let free = || place.run("next", &["guard", "x", "--", "true"]).code == Some(0);
                assert!(wait_until(Duration::from_secs(5), free), "crash-frees: {context}: it is free");
                ended.code().is_none()
            });
            assert!(killed, "{context}: it is killed there");
            is_tidy(&place, &context);
        });
    }
}

/// Two wait for a holder, the first of them in `wrap`. Says whether the first got into the line and whether its command ran; the
/// second enters in any case, but not beside the first.
fn two_in_line(place: &Place, wrap: &[&str], context: &str) -> (bool, bool) {
    let waiter = |owner: &str, wrap: &[&str]| Guarding::start(place, owner, wrap, &["x", "--timeout", "60s"], &KEEPS);
    let mut holder = waiter("holder", &[]);
    holder.runs();
    let mut first = waiter("first", wrap);
    let queued = first.is_in_line();
    let mut second = waiter("second", &[]);
    second.waits();
    holder.tell();
    // Killed, it closes its end of the pipe.
    let ran = first.line_within(ASLEEP).is_some();
    if ran {
        assert_eq!(second.line_within(Duration::from_millis(50)), None, "child-counts: {context}: the first runs");
        first.tell();
    }
    assert!(second.line_within(ASLEEP).is_some(), "crash-frees: {context}: the second enters");
    first.ends();
    second.tell();
    assert_eq!(second.ends().code(), Some(0), "{context}: and gives it back");
    (queued, ran)
}

#[test]
fn a_waiter_killed_at_any_call_from_the_line_to_its_command_lets_the_next_one_in() {
    lokt_testkit::need!("strace");
    let place = used();
    let log = place.beside("strace.log");
    let logged = ["strace", "-o", log.to_str().expect("a plain path")];
    assert_eq!(two_in_line(&place, &logged, "nobody is killed"), (true, true), "nobody is killed");
    let calls = read_log(&log);
    let mutex = calls.iter().position(|call| call.name == "flock").expect("it takes the mutex to queue");
    let counts = Mutex::new((0, 0));
    in_parallel(AT_ONCE, calls.iter().skip(mutex), |call| {
        let context = format!("the first in line killed at {}#{}", call.name, call.nth);
        let place = used();
        let inject = format!("inject={}:signal=KILL:when={}", call.name, call.nth);
        let (queued, ran) = two_in_line(&place, &["strace", "-o", "/dev/null", "-e", &inject], &context);
        is_free(&place, &context);
        is_tidy(&place, &context);
        let mut counts = counts.lock().expect("no thread panicked with it");
        *counts = (counts.0 + usize::from(queued), counts.1 + usize::from(ran));
    });
    let (queued, ran) = counts.into_inner().expect("no thread panicked with it");
    assert!(0 < ran && ran < queued && queued < calls.len() - mutex, "{queued} were in line, {ran} ran");
}
