//! `gc` beside those who take and restore snapshots in other worktrees, and killed at each step.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lokt_testkit::strace::{Call, killed_at, with_paths};
use lokt_testkit::swarm::{Ended, Over, in_parallel, pause, put, wait_until};
use lokt_testkit::tenancy::{Tenancy, answer, as_words};
use serde_json::Value;

use crate::{LOKT, say};

/// For so long they work beside each other.
const WHILE: Duration = Duration::from_secs(6);

/// Did it do what it was to do? Nothing else may keep it from that than others who are at work.
#[track_caller]
fn is_done(ended: &Ended, context: &str) -> bool {
    match ended.code {
        Some(0) => true,
        Some(75) => {
            assert_eq!(answer(ended)["code"], "E_BUSY", "{context}: {ended:?}");
            false
        }
        _ => panic!("{context}: {ended:?}"),
    }
}

#[test]
fn gc_beside_those_who_take_and_restore_removes_nothing_that_is_used() {
    let tenancy = Tenancy::new(LOKT);
    for name in ["one", "two"] {
        tenancy.says("setup", &format!("worktree create {name}"), 0);
    }
    let (over, heads) = (AtomicBool::new(false), Mutex::new(Vec::<(String, Value)>::new()));
    let (taken, restored, removed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let goes_on = || !over.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        for name in ["one", "two"] {
            let (tenancy, heads, taken, restored) = (&tenancy, &heads, &taken, &restored);
            scope.spawn(move || {
                let mut last: Option<(String, String)> = None;
                for round in 0.. {
                    if !goes_on() {
                        break;
                    }
                    let text = format!("{name} {round}");
                    put(&tenancy.place.beside(&format!("worktrees/{name}/page")), &text);
                    let context = format!("{name}, round {round}");
                    let ended = tenancy.run(name, &format!("snapshot create --acquire --worktree {name}"));
                    if !is_done(&ended, &context) {
                        continue;
                    }
                    taken.fetch_add(1, Ordering::Relaxed);
                    let id = answer(&ended)["snapshot_id"].as_str().expect("it has an id").to_owned();
                    if let Some((before, page)) = last.replace((id.clone(), text)) {
                        // It may have been let go by now, unless it is kept: then it is said to be gone, or to be going.
                        let back = format!("snapshot restore {before} --in-place --acquire --worktree {name}");
                        let ended = tenancy.run(name, &back);
                        if matches!(ended.code, Some(3 | 9)) {
                            continue;
                        }
                        if is_done(&ended, &format!("{context}: back to {before}")) {
                            restored.fetch_add(1, Ordering::Relaxed);
                            let now = std::fs::read_to_string(tenancy.place.beside(&format!("worktrees/{name}/page")));
                            assert_eq!(now.ok(), Some(page.clone()), "{context}: it is back");
                            last = Some((before, page));
                        }
                    }
                }
                let info = tenancy.says(name, &format!("snapshot info --worktree {name}"), 0);
                heads.lock().expect("nobody panics with it").push((name.to_owned(), info["head"].clone()));
            });
        }
        let (tenancy, removed) = (&tenancy, &removed);
        for words in ["snapshot gc run --keep-last 1 --now", "snapshot gc run --keep-within 0", "snapshot gc run --now"]
        {
            scope.spawn(move || {
                while goes_on() {
                    let ended = tenancy.run("collector", words);
                    if is_done(&ended, words) {
                        let count = answer(&ended)["removed"].as_array().map_or(0, Vec::len);
                        removed.fetch_add(count, Ordering::Relaxed);
                        assert_eq!(answer(&ended)["failed"], serde_json::json!([]), "{words}: {ended:?}");
                    }
                    pause(Duration::from_millis(20));
                }
            });
        }
        let _over = Over(&over);
        pause(WHILE);
        // On a slow machine for a while longer.
        let is_enough = || [&taken, &restored, removed].iter().all(|count| count.load(Ordering::Relaxed) >= 3);
        wait_until(Duration::from_secs(90), is_enough);
    });
    let history = tenancy.says("observer", "snapshot history --all", 0);
    for (name, head) in heads.into_inner().expect("nobody panicked with it") {
        let is_there =
            history["snapshots"].as_array().expect("it is a list").iter().any(|one| one["snapshot_id"] == head);
        assert!(is_there, "what {name} is at is there: {head}: {history}");
    }
    tenancy.says("observer", "snapshot verify --all", 0);
    let told = tenancy.says("observer", "doctor --strict", 0);
    assert_eq!(told["overall"], "ok", "nothing is wrong: {told}");
    let counts = [taken.into_inner(), restored.into_inner(), removed.into_inner()];
    say(&format!("taken, restored, removed: {counts:?}"));
    assert!(counts.iter().all(|count| *count >= 3), "everybody got something done: {counts:?}");
}

/// Three snapshots of `main`, of which two may go.
fn three() -> (Tenancy, String) {
    let tenancy = Tenancy::new(LOKT);
    let mut head = String::new();
    for number in 0..3 {
        put(&tenancy.place.beside("main/page"), number.to_string());
        let taken = tenancy.says("a", "snapshot create --acquire", 0);
        taken["snapshot_id"].as_str().expect("it has an id").clone_into(&mut head);
    }
    (tenancy, head)
}

const RUN: &str = "snapshot gc run --keep-last 1";

#[test]
fn gc_that_was_killed_at_any_call_is_finished_by_the_next() {
    lokt_testkit::need!("strace");
    let (rehearsal, _) = three();
    let args = rehearsal.args("a", RUN);
    let (ended, calls) = with_paths(&rehearsal.place, "a", &as_words(&args));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let from = calls.iter().position(|(_, line)| line.contains("tombstones")).expect("it says what goes");
    let making = ["write", "fsync", "flock", "mkdir", "link", "unlink", "rename", "rmdir", "fchmod", "openat"];
    let matters = |call: &Call, line: &str| {
        making.iter().any(|name| call.name.starts_with(name)) && (call.name != "openat" || line.contains("O_CREAT"))
    };
    let calls: Vec<Call> =
        calls[from..].iter().filter(|(call, line)| matters(call, line)).map(|(call, _)| call.clone()).collect();
    say(&format!("gc: killed at {} calls", calls.len()));
    let fixed_by_doctor = AtomicUsize::new(0);
    in_parallel(4, calls.into_iter().enumerate(), |(at, call): (usize, Call)| {
        let context = format!("gc, killed at {}#{}", call.name, call.nth);
        let (tenancy, head) = three();
        let killed = killed_at(&tenancy.place, "a", &as_words(&args), &call);
        assert!(matches!(killed.code, None | Some(0 | 137)), "{context}: {killed:?}");
        let history = tenancy.says("observer", "snapshot history --all", 0);
        assert_eq!(history["snapshots"][0]["snapshot_id"], head.as_str(), "{context}: the head is there");
        tenancy.says("observer", "snapshot verify --all", 0);
        if at % 2 == 0 {
            tenancy.says("doctor", "doctor --strict --fix", 0);
            fixed_by_doctor.fetch_add(1, Ordering::Relaxed);
        }
        tenancy.says("next", &format!("{RUN} --now"), 0);
        let history = tenancy.says("observer", "snapshot history --all", 0);
        assert_eq!(history["snapshots"].as_array().map(Vec::len), Some(1), "{context}: all that was to go is gone");
        let count = |dir: &str| std::fs::read_dir(tenancy.inside(dir)).map_or(0, Iterator::count);
        assert_eq!((count("snapshots"), count("trash")), (3, 0), "{context}: its space is given back");
        let told = tenancy.says("observer", "doctor --strict", 0);
        assert_eq!(told["overall"], "ok", "{context}: nothing is wrong: {told}");
    });
    assert!(fixed_by_doctor.into_inner() > 3, "doctor has seen some");
}
