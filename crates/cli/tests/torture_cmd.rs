//! `lokt torture`: it says whether a directory is safe for locks, finds locks that don't work, and leaves nothing behind.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use lokt_testkit::cmd::Place;
use lokt_testkit::mounted::Mounted;
use lokt_torture::history::{Deed, Entry};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use crate::common::seen_twice::SeenTwice;
use crate::common::{Call, LOKT, Root, Said, eventually, names_in, put};

pub(crate) fn temp() -> TempDir {
    tempfile::tempdir().expect("there is room for a temp directory")
}

/// One fight at a time: each is as many processes as a machine can bear beside other tests.
static RING: Mutex<()> = Mutex::new(());

pub(crate) fn ring() -> MutexGuard<'static, ()> {
    RING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `lokt torture` in `dir`, with these words.
pub(crate) fn torture(dir: &Path, words: &str) -> Call {
    Call::new(LOKT).cwd(dir).args(["torture"]).args(words.split_whitespace())
}

/// Processes whose command line names a directory below `dir`.
pub(crate) fn processes_in(dir: &Path) -> Vec<PathBuf> {
    let dir = fs::canonicalize(dir).expect("it is there");
    let names_it = |process: &PathBuf| {
        let words = fs::read(process.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(&format!("{}/.lokt-torture-", dir.display()))
    };
    names_in(Path::new("/proc")).into_iter().filter(names_it).collect()
}

pub(crate) fn nothing_is_left_in(dir: &Path) {
    assert_eq!(names_in(dir), Vec::<PathBuf>::new(), "no file is left");
    assert_eq!(processes_in(dir), Vec::<PathBuf>::new(), "no process is left");
}

/// Waits until all of them fight.
pub(crate) fn fights(dir: &Path, procs: usize) {
    eventually("they fight", || processes_in(dir).len() >= procs && has_locks(dir));
}

fn has_locks(dir: &Path) -> bool {
    names_in(dir).iter().any(|arena| arena.join("root/audit.log").exists())
}

#[test]
fn a_disk_of_this_machine_holds_every_promise_and_it_says_so() {
    let _ring = ring();
    let (one, other) = (temp(), temp());
    let said = torture(other.path(), "--seconds 3s --seed 7 --json").run().exits(0, "every promise held");
    let told = said.json();
    assert_eq!((&told["status"], &told["trusted"]), (&"held".into(), &true.into()), "{told}");
    for none in ["overlaps", "lost_updates", "late_writes_taken", "tokens_out_of_order", "out_of_turn", "stuck"] {
        assert_eq!(told[none], 0, "{none}: {told}");
    }
    assert_eq!((&told["processes"], &told["seed"]), (&8.into(), &7.into()), "as it was asked for: {told}");
    for some in ["holds", "hand_offs", "updates", "updates_refused"] {
        assert!(told[some].as_u64().is_some_and(|count| count > 0), "something was tried: {some}: {told}");
    }
    assert!(told["lasted_ms"].as_u64() >= Some(3_000), "it lasts as long as it was told to: {told}");
    assert_eq!((&told["dir"], &told["errors"]), (&".".into(), &serde_json::json!([])), "{told}");
    assert_eq!(told["locks"], true, "{told}");
    let hit = told["killed"].as_u64().unwrap_or(0) + told["stopped"].as_u64().unwrap_or(0);
    assert!(hit > 0, "somebody was killed or stopped: {told}");
    for times in ["wait_ns", "hand_over_ns"] {
        let (half, longest) = (told[times]["p50"].as_u64(), told[times]["max"].as_u64());
        assert!(half > Some(0) && half <= longest, "{times}: {told}");
    }
    let verdict = told["verdict"].as_str().expect("there is one").to_owned();
    let (system, point) = (told["file_system"].as_str().expect("text"), told["mount_point"].as_str().expect("text"));
    let held = format!("{system} at {point}: every promise held");
    assert_eq!(verdict, held + &never_tried(&told));
    let said = torture(one.path(), "--seconds 3 --procs 4 --seed 9").run().exits(0, "every promise held");
    let said = said.says(&format!("\n{system} at {point}: every promise held"), "the same in text");
    for row in [
        "processes     4 for ",
        "holds",
        "overlaps      0\n",
        "lost updates  0 of ",
        "late writes   0 taken, ",
        "token order   0 wrong",
        "line          0 out of turn",
        "stuck         0\n",
        "waiting       p50 ",
        "handing on    p50 ",
        "seed          9\n",
    ] {
        assert!(said.stdout.contains(&format!("  {row}")), "{row} is told{said}");
    }
    assert_eq!(said.stderr, "", "there is nothing else to say");
    nothing_is_left_in(one.path());
    nothing_is_left_in(other.path());
}

/// What the verdict adds about what JSON calls untried: on a slow machine some of it doesn't happen.
fn never_tried(told: &serde_json::Value) -> String {
    let untried: Vec<&str> =
        told["untried"].as_array().expect("it is a list").iter().filter_map(|what| what.as_str()).collect();
    for surely in ["late writes", "asking when all are gone", "reading when all are gone"] {
        assert!(!untried.contains(&surely), "{surely} is tried in every run: {told}");
    }
    if untried.is_empty() { String::new() } else { format!("; never tried: {}", untried.join(", ")) }
}

/// Whether somebody is seen beside another is a matter of luck: where nothing keeps them apart, several runs have it.
fn condemned(call: impl Fn() -> Call, why: &str) -> Said {
    let mut said = call().run();
    for _ in 1..5 {
        if said.code == 10 {
            break;
        }
        said = call().run();
    }
    said.exits(10, why)
}

#[test]
fn locks_that_do_not_lock_are_condemned() {
    let _ring = ring();
    let dir = temp();
    let call = || torture(dir.path(), "--without-locks --seconds 3 --procs 4 --json");
    let told = condemned(call, "nobody keeps them apart").json();
    assert_eq!((&told["status"], &told["locks"]), (&"broken".into(), &false.into()), "{told}");
    assert!(told["overlaps"].as_u64() > Some(0) && told["lost_updates"].as_u64() > Some(0), "both are seen: {told}");
    let verdict = told["verdict"].as_str().expect("there is one");
    assert!(verdict.contains(": NOT SAFE (without locks): ") && verdict.contains(" overlaps"), "{verdict}");
    let first = told["violations"][0].as_str().expect("the first is spelt out");
    assert!(first.contains(" entered at ") && first.contains("was inside, from "), "{first}");
    let call = || torture(dir.path(), "--without-locks --seconds 2 --procs 4");
    let said = condemned(call, "the same in text").says(": NOT SAFE (without locks): ", "it says that there were none");
    let said = said
        .says(" was inside, from ", "a violation is spelt out")
        .says("  stuck         -\n", "no lock was asked for");
    assert!(!said.stdout.contains("hint:"), "nothing is wrong with the disk{said}");
    nothing_is_left_in(dir.path());
}

/// As if nobody had made anything in it for a long time.
pub(crate) fn long_ago(dir: &Path) {
    let aged = File::open(dir).and_then(|dir| dir.set_modified(SystemTime::UNIX_EPOCH));
    aged.expect("it is ours");
}

#[test]
fn on_bindfs_it_holds_from_one_side_and_is_not_trusted() {
    lokt_testkit::need!(root, "bindfs");
    let _ring = ring();
    let seen = SeenTwice::new();
    let said = torture(&seen.bound(), "--seconds 3 --procs 3").run().exits(11, "locks can't be trusted there");
    let said = said.says("every promise held among these processes, but locks there CAN'T BE TRUSTED", "it held");
    let said =
        said.says("that was tried", "and that it isn't so for all was shown").says("hint: set LOKT_ROOT", "a way out");
    assert!(said.stdout.contains("fuse"), "the file system is named{said}");
    // From here one that goes on behind the mount looks like one that was left.
    let other = seen.real().join(".lokt-torture-other");
    fs::create_dir(&other).expect("temp");
    long_ago(&other);
    let said = torture(&seen.bound(), "--seconds 3 --procs 3 --json").run().exits(11, "the same again");
    assert_eq!(said.stderr, "", "nobody is told to delete it");
    let told = said.json();
    assert_eq!((&told["status"], &told["trusted"]), (&"untrusted".into(), &false.into()), "{told}");
    assert!(told["verdict"].as_str().is_some_and(|text| text.contains("CAN'T BE TRUSTED")), "{told}");
    assert!(told["left_over"].is_null() && told["stuck"] == 0, "{told}");
    let said = torture(&seen.real(), "--seconds 3 --procs 3").run().exits(0, "beside it locks work");
    said.notes("a run left this behind", "and there it is told");
    fs::remove_dir(&other).expect("it is empty");
    nothing_is_left_in(&seen.real());
}

#[test]
fn two_ways_to_one_directory_that_do_not_exclude_each_other_are_condemned() {
    lokt_testkit::need!(root, "bindfs");
    let _ring = ring();
    let seen = SeenTwice::new();
    let call = || torture(&seen.bound(), "--seconds 3 --procs 6 --also").args([seen.real()]);
    let said = condemned(call, "half of them go the other way").says(": NOT SAFE: ", "the verdict");
    // Which promise falls is a matter of luck: tokens are given twice, the line isn't kept, two are inside at once.
    said.says("process ", "it says who").says("hint: set LOKT_ROOT", "and a way out");
    let call = || torture(&seen.real(), "--seconds 3 --procs 6 --json --also").args([seen.bound()]);
    let told = condemned(call, "whichever way is called the other").json();
    assert!(told["violations"].as_array().is_some_and(|told| !told.is_empty()), "it says which: {told}");
    assert_eq!(told["trusted"], false, "one of the two can't be trusted: {told}");
    let warnings = told["warnings"].to_string();
    assert!(warnings.contains("fuse") && warnings.contains("locks can't be trusted"), "it says why: {told}");
    nothing_is_left_in(&seen.real());
}

#[test]
fn two_ways_to_one_directory_that_are_the_same_hold() {
    lokt_testkit::need!(root);
    let _ring = ring();
    let dir = temp();
    for name in ["one", "other"] {
        fs::create_dir(dir.path().join(name)).expect("temp");
    }
    // A bind mount is the same file system, and so are its locks.
    let script = "mount --bind one other && exec \"$0\" torture --dir one --also other --seconds 3 --procs 4 --json";
    let call = Call::new("unshare").cwd(dir.path()).args(["--mount", "sh", "-c", script, LOKT]);
    let told = call.run().exits(0, "both ways lead to the same locks").json();
    assert_eq!(told["overlaps"], 0, "{told}");
    let said = torture(dir.path(), "--dir one --also other --seconds 1").run().exits(64, "it is another directory");
    said.notes("other is not another path to one", "and that is said");
    nothing_is_left_in(&dir.path().join("one"));
}

#[test]
fn each_file_system_is_named() {
    lokt_testkit::need!(root);
    let _ring = ring();
    for mounted in [Mounted::tmpfs(), Mounted::overlay()] {
        let words = ["torture", "--procs", "2", "--seconds", "3s", "--json", "--dir"];
        let told = Call::new(LOKT).args(words).args([mounted.at()]).cwd(Path::new("/")).run();
        let told = told.exits(0, "it is this kernel's own").json();
        let verdict = format!("{} at {}: every promise held", mounted.kind(), mounted.at().display());
        assert_eq!(told["verdict"], (verdict + &never_tried(&told)).as_str(), "{told}");
        let notes = told["notes"].as_array().map_or(0, Vec::len);
        assert_eq!(notes, usize::from(mounted.kind() == "overlay"), "what is to be known of an overlay: {told}");
        nothing_is_left_in(&mounted.at());
    }
}

#[test]
fn what_is_in_the_directory_is_left_alone() {
    let _ring = ring();
    let root = Root::used();
    root.run("a", "lock build").exits(0, "it is free");
    put(&root.outside().join("mine"), "text");
    let before = (root.snapshot(), names_in(root.outside()));
    root.run("a", "torture --seconds 3s --procs 2").exits(0, "beside a root");
    let call = root.lokt("a").args(["torture", "--seconds", "3s", "--procs", "2", "--dir"]).args([root.path()]);
    call.run().exits(0, "in the directory of a root");
    assert_eq!((root.snapshot(), names_in(root.outside())), before, "nothing changed, and nothing is left");
}

#[test]
fn what_is_kept_is_where_the_verdict_says_with_the_whole_history() {
    let _ring = ring();
    let dir = temp();
    let told = torture(dir.path(), "--keep --seconds 3 --procs 3 --json").run().exits(0, "it held").json();
    let kept = PathBuf::from(told["kept"].as_str().expect("it says where"));
    assert_eq!(names_in(dir.path()), [fs::canonicalize(&kept).expect("it is there")], "nothing else is left");
    let history = fs::read_to_string(kept.join("history.jsonl")).expect("it is there");
    let entries: Vec<Entry> =
        history.lines().map(|line| Entry::parse(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect();
    let entered = entries.iter().filter(|entry| matches!(entry.deed, Deed::Entered { .. })).count() as u64;
    assert_eq!(Some(entered), told["holds"].as_u64(), "every hold is in it");
    let killed = entries.iter().filter(|entry| entry.deed == Deed::Killed).count() as u64;
    assert!(told["killed"].as_u64() <= Some(killed), "and what was done to them: {killed}, {told}");
    let said = torture(dir.path(), "--keep --seconds 3s --procs 2").run().exits(0, "another run");
    assert_eq!(said.stderr, "", "what was kept is nobody's left-over");
    let kept = said.stdout.lines().find_map(|line| line.strip_prefix("  kept in       ")).map(PathBuf::from);
    assert!(kept.is_some_and(|kept| kept.join("history.jsonl").exists()), "text says where, too{said}");
}

#[test]
fn crash_frees_locks_that_nobody_can_have_any_more_are_stuck() {
    let _ring = ring();
    let dir = temp();
    let running = torture(dir.path(), "--seconds 15 --procs 2").start();
    fights(dir.path(), 2);
    let root = names_in(dir.path())[0].join("root");
    // An owner's lock, with nothing that ends it.
    let lock = Call::new(LOKT).cwd(dir.path()).env("LOKT_ROOT", &root).env("LOKT_OWNER", "somebody");
    lock.args(["lock", "hot", "--timeout", "60"]).run().exits(0, "it is free for a moment");
    let said = running.wait().exits(10, "nobody gets it any more").says(": NOT SAFE: 1 lock stuck\n", "the verdict");
    let said =
        said.says("  stuck         1\n", "a row").says("hot: stuck: all are gone, and it can't be had in ", "which");
    said.says(": somebody holds it\n", "and why");
    nothing_is_left_in(dir.path());
}

#[test]
fn where_nothing_can_be_made_it_says_so() {
    let _ring = ring();
    let dir = temp();
    put(&dir.path().join("file"), "");
    for (words, said_is) in [
        ("--dir /proc", "make a directory in /proc: "),
        ("--dir missing", "find missing: No such file or directory"),
        ("--dir file", "make a directory in file: Not a directory"),
        ("--also missing", "find missing: No such file or directory"),
    ] {
        let said = torture(dir.path(), words).run().exits(1, "it can't be tried there");
        assert!(said.stderr.contains(said_is) && said.stderr.contains("\nhint: "), "{said_is:?} and a hint{said}");
        assert_eq!(said.stdout, "", "there is no verdict");
    }
    assert_eq!(names_in(dir.path()).len(), 1, "nothing is left");
}

#[test]
fn a_full_disk_is_an_error_and_no_verdict() {
    lokt_testkit::need!(root);
    let _ring = ring();
    let place = Place::new(LOKT);
    let script = "mount -t tmpfs -o size=24k none . || exit 99; cd \"$PWD\"; \"$0\" torture --seconds 5 --json; code=$?
        test -z \"$(ls -A)\" || exit 98; exit $code";
    let ended = place.run_words("a", &["unshare", "--mount", "sh", "-c", script, LOKT]);
    assert_ne!(ended.code, Some(99), "this test needs root, for a mount: {}", ended.stderr);
    assert_eq!(ended.code, Some(1), "it is an error, and nothing is left: {ended:?}");
    let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a failure is JSON too");
    assert_eq!(json["code"], "E_IO", "{json}");
    assert!(json["message"].as_str().is_some_and(|text| text.contains("No space left")), "it says why: {json}");
}

/// How often somebody who asked and was not answered waited 20 ms before it asked again, and how often it asked again.
fn pauses_after_errors(arena: &Path) -> (usize, usize) {
    let history = fs::read_to_string(arena.join("history.jsonl")).expect("it is there");
    let mut asked: BTreeMap<u64, u64> = BTreeMap::new();
    let mut gaps = Vec::new();
    for entry in history.lines().filter_map(|line| Entry::parse(line).ok()) {
        match entry.deed {
            Deed::Asked { .. } => gaps.extend(asked.insert(entry.who, entry.at).map(|before| entry.at - before)),
            Deed::Entered { .. } | Deed::GaveUp { .. } => drop(asked.remove(&entry.who)),
            _ => {}
        }
    }
    (gaps.iter().filter(|gap| **gap >= 20_000_000).count(), gaps.len())
}

#[test]
fn one_whose_root_is_deleted_ends_soon_and_says_where_the_rest_is_kept() {
    let _ring = ring();
    let dir = temp();
    let running = torture(dir.path(), "--seconds 1h --procs 3 --keep --json").start();
    fights(dir.path(), 3);
    let arena = fs::canonicalize(&names_in(dir.path())[0]).expect("it is there");
    put(&arena.join("gone"), "no directory");
    let (root, gone) = (arena.join("root"), arena.join("gone"));
    renameat_with(CWD, &root, CWD, &gone, RenameFlags::EXCHANGE).expect("this file system can");
    eventually("whoever was in it has ended", || fs::remove_dir_all(&gone).is_ok());
    let json = running.wait().exits(1, "nothing can be said about locks").json();
    assert!(json["message"].as_str().is_some_and(|text| text.starts_with("nobody gets on any more: ")), "{json}");
    let kept = format!("; what was told by then is kept in {}", arena.display());
    assert!(json["hint"].as_str().is_some_and(|text| text.ends_with(&kept)), "{kept:?} {json}");
    let (pauses, errors) = pauses_after_errors(&arena);
    // Whoever was killed and replaced meanwhile errs before it asks; those aren't counted.
    assert!(errors > 3 && pauses > errors / 2, "whoever errs pauses before it asks again: {pauses} of {errors}");
    assert_eq!(processes_in(dir.path()), Vec::<PathBuf>::new(), "no process is left");
}

#[test]
fn what_can_not_be_meant_is_a_usage_error_and_nothing_is_made() {
    let _ring = ring();
    let dir = temp();
    for (words, why) in [
        ("--procs 1", "not a number from 2 to 256"),
        ("--procs 257", "not a number from 2 to 256"),
        ("--procs many", "not a number from 2 to 256"),
        ("--seconds 0", "that is no time at all"),
        ("--seconds 25h", "longer than a day"),
        ("--seconds soon", "not a duration"),
        ("--seed x", "invalid digit"),
        ("--worker 1", "these are no orders"),
        ("somewhere", "unexpected argument"),
    ] {
        torture(dir.path(), words).run().exits(64, "it is no torture").notes(why, words);
    }
    assert_eq!(names_in(dir.path()), Vec::<PathBuf>::new(), "nothing was made");
}
