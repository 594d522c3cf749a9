//! Whoever takes a snapshot is killed: what is visible is complete, and what isn't can be removed, also beside one that goes on.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lokt_testkit::dice::Dice;
use lokt_testkit::strace::{Call, traced};
use lokt_testkit::swarm::{in_parallel, now_ms, pause};
use lokt_testkit::tally::{self, Trial};
use lokt_testkit::tenancy::as_words;
use rustix::process::{Pid, Signal, kill_process};

use crate::say;
use crate::store::Store;

const FILES: usize = 5_000;
const ROUNDS: usize = 10;
const KILLS: usize = 10;

fn start(store: &Store) -> Child {
    let args = store.args();
    let words = store.tenancy.place.words(&as_words(&args));
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).envs(store.tenancy.place.env("a")).current_dir(store.tenancy.place.dir());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it starts")
}

fn pid(child: &Child) -> Pid {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("it has a pid")
}

/// Kills snapshots at random moments of the time that one takes; `prepare` comes before each.
fn killed_at_random(parent: Option<&Path>, rounds: usize, prepare: fn(&Store)) -> (usize, usize) {
    let store = Store::new(FILES, parent);
    let began = now_ms();
    assert!(start(&store).wait().expect("it is ours").success(), "a snapshot can be taken");
    let mut whole_ms = now_ms() - began;
    let (mut dice, mut early, mut late) = (Dice::new(rounds as u64), 0, 0);
    for round in 0..rounds {
        for kill in 0..KILLS {
            prepare(&store);
            let context = format!("round {round}, kill {kill} of {whole_ms} ms");
            let before = store.visible(&context);
            let began = now_ms();
            let mut child = start(&store);
            pause(Duration::from_millis(dice.below(whole_ms + whole_ms / 10)));
            tally::count(Trial::Kill);
            child.kill().expect("it is ours");
            if child.wait().expect("it is ours").success() {
                // It was faster than the one before.
                whole_ms = (now_ms() - began).min(whole_ms).max(10);
            }
            let after = store.visible(&context);
            assert!(before.is_subset(&after) && after.len() <= before.len() + 1, "{context}: {before:?} {after:?}");
            if after.len() > before.len() { late += 1 } else { early += 1 }
        }
        // One goes on, while somebody clears up after the others.
        let mut running = start(&store);
        pause(Duration::from_millis(dice.below(whole_ms)));
        tally::count(Trial::Stop);
        let has_stopped = kill_process(pid(&running), Signal::STOP).is_ok();
        store.says("doctor --strict --fix", "beside one that goes on");
        assert!(!has_stopped || kill_process(pid(&running), Signal::CONT).is_ok(), "it is there");
        let before = store.visible("beside").len();
        assert!(running.wait().expect("it is ours").success(), "round {round}: a running one is untouched");
        assert!(store.visible("after").len() >= before, "round {round}");
        store.is_whole(&format!("round {round}"));
        store.says("snapshot gc run --keep-last 1 --now", "the old ones go");
    }
    (early, late)
}

#[test]
fn check_49_killed_at_random_points_a_snapshot_is_whole_or_not_there() {
    let (memory, disk) = (Path::new("/dev/shm"), None);
    let totals = (AtomicUsize::new(0), AtomicUsize::new(0));
    let touched: fn(&Store) = Store::touch;
    // All files copied, or all of them as before; with and without times that can be trusted.
    let cases = [(Some(memory), ROUNDS / 2, None), (disk, ROUNDS * 2 / 5, None), (disk, ROUNDS / 10, Some(touched))];
    in_parallel(2, cases, |(parent, rounds, prepare)| {
        let (early, late) = killed_at_random(parent, rounds, prepare.unwrap_or(|_| {}));
        totals.0.fetch_add(early, Ordering::Relaxed);
        totals.1.fetch_add(late, Ordering::Relaxed);
    });
    let (early, late) = (totals.0.into_inner(), totals.1.into_inner());
    say(&format!("{early} of {} were killed before they were visible", early + late));
    assert_eq!(early + late, ROUNDS * KILLS, "so many were killed");
    assert!(early > 50, "most were killed before: {early}");
}

/// With one processor one thread does everything, in the same order each time.
fn alone<'a>(processor: &'a str, strace: &[&'a str], words: &[&'a str]) -> Vec<&'a str> {
    [&["taskset", "-c", processor, "strace"], strace, words].concat()
}

/// A call that changes something, or takes or drops a lock.
fn changes(line: &str) -> bool {
    let making = ["write(", "fsync(", "flock(", "mkdir", "link", "unlink", "rename", "rmdir"];
    let opens = line.starts_with("open") && (line.contains("O_CREAT") || line.contains("O_TMPFILE"));
    opens || making.iter().any(|name| line.starts_with(name))
}

/// From the manifest to the end of the intent.
fn near_the_commit(store: &Store) -> Vec<Call> {
    let args = store.args();
    let log = store.tenancy.place.beside("strace.log");
    let strace = ["-y", "-s", "300", "-o", log.to_str().expect("a plain path")];
    let words = store.tenancy.place.words(&as_words(&args));
    let ended = store.tenancy.place.run_words("a", &alone("0", &strace, &words));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let calls = traced(&log);
    let from = calls.iter().position(|(_, line)| line.contains(".manifest\", O_WRONLY")).expect("it has a manifest");
    let is_end = |(_, line): &(Call, String)| line.starts_with("unlinkat(") && line.contains(".pulse\"");
    let to = calls.iter().rposition(is_end).expect("its intent ends");
    calls[from..=to].iter().filter(|(_, line)| changes(line)).map(|(call, _)| call.clone()).collect()
}

#[test]
fn check_49_killed_at_each_call_of_its_commit_a_snapshot_is_whole_or_not_there() {
    lokt_testkit::need!("strace");
    let stores = [Store::new(FILES, None), Store::new(FILES, None)];
    // The first one copies; those that are killed find everything as it was.
    for store in &stores {
        near_the_commit(store);
    }
    let calls = near_the_commit(&stores[0]);
    // The head is noted by a thread of its own meanwhile, which strace doesn't follow here; the library's tests stop that, too.
    for name in ["linkat", "unlinkat", "fsync"] {
        assert!(calls.iter().any(|call| call.name == name), "strace sees {name}: {calls:?}");
    }
    say(&format!("killed at {} calls", calls.len()));
    near_the_commit(&stores[1]);
    in_parallel(2, [0, 1], |which: usize| {
        let (store, processor) = (&stores[which], which.to_string());
        let (mut visible, mut invisible) = (0, 0);
        for call in calls.iter().skip(which).step_by(2) {
            let context = format!("killed at {}#{}", call.name, call.nth);
            let before = store.visible(&context);
            let inject = format!("inject={}:signal=KILL:when={}", call.name, call.nth);
            let strace = ["-o", "/dev/null", "-e", &inject];
            let args = store.args();
            let words = store.tenancy.place.words(&as_words(&args));
            let ended = store.tenancy.place.run_words("a", &alone(&processor, &strace, &words));
            assert!(matches!(ended.code, None | Some(0 | 137)), "{context}: {ended:?}");
            let after = store.visible(&context);
            assert!(before.is_subset(&after), "{context}: {before:?} {after:?}");
            if after.len() > before.len() {
                visible += 1;
            } else {
                invisible += 1;
            }
            // The next link is added by somebody else.
            store.tenancy.says("a", "lease renew", 0);
            assert_eq!(store.visible(&context), after, "{context}: that changes nothing");
            store.is_whole(&context);
            store.says("snapshot gc run --keep-last 1 --now", &context);
        }
        say(&format!("visible after {visible}, not after {invisible}"));
        assert!(visible > 0 && invisible > 0, "before and after the link: {visible}, {invisible}");
    });
}
