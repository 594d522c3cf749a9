//! This program, tried on itself: what it says about a history in which something is wrong, what becomes of a part that panics, and what is
//! left of a run that somebody ends.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lokt_testkit::guarding::{Relative, family};
use lokt_testkit::swarm::{put, wait_until};
use lokt_torture::history::{Deed, Entry};
use rustix::process::Signal;

use crate::ours::ours;
use crate::report::{MOUNTED_AGAIN, Outcome, outcome};
use crate::roll::Roll;
use crate::scene::Scene;
use crate::traffic::{LOAD, Traffic};
use crate::validate::Check;
use crate::worker::snapshots::{Files, wrong_restore};

/// A run of so many seconds fails as soon as everything is prepared.
pub(crate) const FAILS_AT_ONCE: u64 = 0;
/// A run is under way, or is gone, long before that.
const PATIENCE: Duration = Duration::from_secs(120);
/// A process that got a signal is gone before that.
const DEATH: Duration = Duration::from_secs(20);
/// A run is under way when it has so many processes.
const UNDER_WAY: usize = 12;

/// Tries it, in a directory below that of the run.
pub(crate) fn check(scene: &Scene, seed: u64) -> Vec<Check> {
    let dir = scene.dir.join("rehearsal");
    fs::create_dir(&dir).expect("a temp directory is writable");
    vec![
        Check::new("what never happened is told apart from what is wrong", telling_apart()),
        Check::new("a part that panics is told, and nobody waits for it", panicking()),
        Check::new("a seed gives every life the same choices, whoever comes first", choosing(scene, seed)),
        Check::new("a restore that gives something else is told", restoring()),
        Check::new("what is found is told with its history", judging(&dir)),
        Check::new("what a run starts beside it ends with it", outliving()),
        Check::new("a run that fails keeps its disk, and says how to get at it", failing(seed)),
        Check::new("a run that is ended leaves nothing behind", ending(seed)),
    ]
}

fn telling_apart() -> Option<String> {
    let (well, wrong) = (|| Check::holds("x", true, ""), || Check::holds("x", false, "y"));
    let told = [
        outcome(&[well(), well().about_the_run()]),
        outcome(&[well(), wrong().about_the_run()]),
        outcome(&[wrong().about_the_run(), wrong()]),
        outcome(&[wrong(), wrong().about_the_run()]),
    ];
    let right = [Outcome::Well, Outcome::ShownTooLittle, Outcome::Wrong, Outcome::Wrong];
    (told != right).then(|| format!("{told:?}"))
}

fn panicking() -> Option<String> {
    let roll = Roll::default();
    let before = thread::scope(|scope| {
        // Without the hook, which would say it on stderr, too.
        let (go, gone) = mpsc::channel::<()>();
        let panics = move || {
            if gone.recv().is_err() {
                std::panic::resume_unwind(Box::new("planted"))
            }
        };
        roll.start(scope, "somebody", panics);
        let before = roll.at_work();
        drop(go);
        before
    });
    let well = before == ["somebody"] && roll.is_empty() && roll.panicked() == ["somebody panicked: planted"];
    (!well).then(|| format!("{before:?}, {roll:?}"))
}

fn this() -> PathBuf {
    std::env::current_exe().expect("this program has a path")
}

/// Twice the first lives of all slots, who come in two orders.
fn choosing(scene: &Scene, seed: u64) -> Option<String> {
    let lives = |slots: &mut dyn Iterator<Item = usize>| {
        let traffic = Traffic::new(scene, seed, 0);
        let mut chosen: Vec<(usize, u64)> = Vec::new();
        for slot in slots {
            chosen.extend((0..2).map(|_| (slot, traffic.born(slot).1.below(u64::MAX))));
        }
        chosen.sort_by_key(|(slot, _)| *slot);
        chosen
    };
    let (one, other) = (lives(&mut (0..LOAD.len())), lives(&mut (0..LOAD.len()).rev()));
    let all: BTreeSet<u64> = one.iter().map(|(_, choice)| *choice).collect();
    (one != other || all.len() < one.len()).then(|| format!("{one:?}, and then {other:?}"))
}

/// A snapshot that is brought back in part, and one that is brought back although the answer is that it isn't.
fn restoring() -> Option<String> {
    let files = |texts: [&str; 2]| -> Files {
        (0..).zip(texts).map(|(nth, text): (u8, _)| (format!("{nth}").into(), text.into())).collect()
    };
    let (taken, changed, half) = (files(["a", "b"]), files(["c", "d"]), files(["a", "d"]));
    let cases = [
        (Some(0), &taken, false),
        (Some(0), &changed, true),
        (Some(0), &half, true),
        (None, &taken, false),
        (None, &changed, false),
        (None, &half, true),
    ];
    let missed =
        cases.iter().find(|(code, now, wrong)| wrong_restore(*code, &taken, &changed, now).is_some() != *wrong);
    missed.map(|case| format!("{case:?}"))
}

/// Two who are inside at once, and one who has nothing to do with it.
fn judging(dir: &Path) -> Option<String> {
    let deeds = |name: &str| {
        let name = || name.to_owned();
        let entered = Deed::Entered { name: name(), token: None, until: None };
        [Deed::Asked { name: name() }, entered, Deed::Left { name: name() }]
    };
    let life = |who: u64, name: &str| -> String {
        let entry =
            |(step, deed): (u64, Deed)| Entry { at: 7_000_000_000 + 1_000_000 * step + who, who, deed }.encode();
        (0..).zip(deeds(name)).map(entry).collect()
    };
    let (found, other) = ([life(1, "main/planted"), life(2, "main/planted")].concat(), life(3, "main/other"));
    put(&dir.join("history/planted.jsonl"), format!("{found}{other}"));
    let ended = Command::new(this()).arg("--judge").arg(dir).output().expect("this program can be run");
    let said = String::from_utf8_lossy(&ended.stdout);
    let has = |line: &str| said.lines().any(|one| one.trim() == line);
    let well = ended.status.code() == Some(1) && found.lines().all(has) && !other.lines().any(has);
    (!well).then(|| format!("{ended:?}"))
}

/// Words before a command line that gets `SIGTERM` when whoever started it is gone. A run that is started beside this one has neither its
/// mark nor its mounts, so nobody else would end it; and it cleans up before it ends, which it couldn't if it were killed.
const WITH_US: [&str; 3] = ["setpriv", "--pdeathsig", "TERM"];

/// Somebody who starts something in that way is killed.
fn outliving() -> Option<String> {
    let script = "\"$@\" & wait";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).args(WITH_US).args(["sleep", "600"]).stdin(Stdio::null());
    let mut shell = shell.spawn().expect("a shell can be run");
    let mut started = None;
    // Before that program runs nothing ends it.
    wait_until(PATIENCE, || {
        let sleeps = |one: &Relative| {
            let words = fs::read(format!("/proc/{}/cmdline", one.pid)).unwrap_or_default();
            words.starts_with(b"sleep\0")
        };
        started = family(i64::from(shell.id())).into_iter().find(sleeps);
        started.is_some()
    });
    let _ = shell.kill();
    let _ = shell.wait();
    let Some(started) = started else { return Some("it was never started".into()) };
    let gone = wait_until(DEATH, || !started.lives());
    started.kill();
    (!gone).then(|| "it outlived whoever had started it".into())
}

/// `SIGTERM`, as from whoever has waited for too long.
fn ending(seed: u64) -> Option<String> {
    let mut command = Command::new(WITH_US[0]);
    command.args(&WITH_US[1..]).arg(this()).args(["--seconds", "600", "--seed", &seed.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("this program can be run");
    let place = place_of(&mut child);
    let process = Relative::of(i64::from(child.id()));
    let under_way = place.as_ref().is_some_and(|dir| wait_until(PATIENCE, || ours(dir).len() >= UNDER_WAY));
    let disk = place.as_ref().is_some_and(|dir| has_loop(dir));
    process.signal(Signal::TERM);
    let ended = end_of(&mut child);
    let Some(dir) = place else { return Some("it doesn't say where it is".into()) };
    let left: Vec<String> = ours(&dir).into_iter().map(|(_, words)| words).collect();
    let disk_left = !wait_until(PATIENCE, || !has_loop(&dir));
    let by_signal = ended.is_some_and(|status| status.signal() == Some(Signal::TERM.as_raw()));
    let well = under_way && disk && by_signal && left.is_empty() && !disk_left && !dir.exists();
    (!well).then(|| {
        let there = dir.exists();
        format!(
            "under way {under_way}, with its disk {disk}; {ended:?}; left: {left:?}, disk {disk_left}, files {there}"
        )
    })
}

/// Where a run takes place, if it says so in time. Nobody reads what it says later.
fn place_of(run: &mut Child) -> Option<PathBuf> {
    let stdout = BufReader::new(run.stdout.take().expect("it is piped"));
    let (sender, said) = mpsc::channel();
    // A thread of its own: the pipe may never end, and then nobody waits for it.
    thread::spawn(move || {
        let place = |line: String| Some(PathBuf::from(line.strip_prefix("in ")?));
        let _ = sender.send(stdout.lines().map_while(Result::ok).find_map(place));
    });
    said.recv_timeout(PATIENCE).ok().flatten()
}

/// What a run is that fails at once: something is on its disk, nothing is judged.
pub(crate) fn fail(dir: &Path, dynamic: &str) -> Outcome {
    let scene = Scene::new(dir, dynamic);
    put(&scene.base("disk").join(PROOF.0), PROOF.1);
    Outcome::Wrong
}

/// What is on the disk of a run that fails.
const PROOF: (&str, &str) = ("proof", "kept\n");

/// Mounts the disk of a run that failed as that says, in the mounts of this run alone.
fn failing(seed: u64) -> Option<String> {
    let mut command = Command::new(WITH_US[0]);
    command.args(&WITH_US[1..]).arg(this()).args([
        "--seconds",
        &FAILS_AT_ONCE.to_string(),
        "--seed",
        &seed.to_string(),
    ]);
    let ended = command.stdin(Stdio::null()).output().expect("this program can be run");
    let said = String::from_utf8_lossy(&ended.stdout);
    let place = said.lines().find_map(|line| line.strip_prefix("in ")).map(PathBuf::from);
    let place = place.filter(|dir| dir.starts_with(std::env::temp_dir()) && dir.join("history").is_dir());
    // As long as the old device is there, another one would write to the same image.
    wait_until(PATIENCE, || place.as_ref().is_none_or(|dir| !has_loop(dir)));
    let mount = said.lines().skip_while(|line| *line != MOUNTED_AGAIN).nth(1).unwrap_or("false");
    let script = format!("{mount} && cat \"${{0##* }}\"/{}; umount \"${{0##* }}\"", PROOF.0);
    let looked = Command::new("sh").args(["-c", &script, mount]).output().expect("a shell can be run");
    let left = place.is_none_or(|dir| fs::remove_dir_all(dir).is_err());
    let well = ended.status.code() == Some(1) && looked.stdout == PROOF.1.as_bytes() && !left;
    (!well).then(|| format!("{ended:?}, and then {looked:?}, left {left}"))
}

fn end_of(child: &mut Child) -> Option<ExitStatus> {
    let mut status = None;
    wait_until(PATIENCE, || {
        status = child.try_wait().expect("it is our child");
        status.is_some()
    });
    if status.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    status
}

/// Is a file below `dir` a block device?
fn has_loop(dir: &Path) -> bool {
    let listed = Command::new("losetup").args(["--list", "--noheadings", "--output", "BACK-FILE"]).output();
    String::from_utf8_lossy(&listed.expect("losetup runs").stdout).contains(&dir.display().to_string())
}
