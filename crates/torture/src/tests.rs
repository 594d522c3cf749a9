//! Tortures by processes of the shell, which tell whatever a test wants them to.

use std::cell::Cell;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd};

use crate::history::{Deed, Entry};
use lokt_core::decide::Terms;
use lokt_core::name::LockName;
use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// Goes off at a moment, as a signal does: once.
struct Late<'a> {
    readable: File,
    at: &'a Cell<u64>,
}

impl Interrupt for Late<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }

    fn is_raised(&mut self) -> bool {
        let goes_off = monotonic_ns() >= self.at.get();
        if goes_off {
            self.at.set(NEVER);
        }
        goes_off
    }
}

/// A torture with such processes, in a directory of its own, with an alarm at this moment.
fn tortured(time: Duration, worker: &dyn Fn(&Path, &Orders) -> Command, alarm_at: &Cell<u64>) -> Result<Ordeal, Error> {
    let dir = tempfile::tempdir().expect("temp");
    tortured_in(dir.path(), false, time, worker, alarm_at)
}

fn tortured_in(
    dir: &Path,
    keep: bool,
    time: Duration,
    worker: &dyn Fn(&Path, &Orders) -> Command,
    alarm_at: &Cell<u64>,
) -> Result<Ordeal, Error> {
    let rival = &|_: &Path| Command::new("true");
    let torture = Torture { dir, also: None, procs: 3, time, seed: 1, keep, without_locks: false, worker, rival };
    let readable = File::open("/dev/zero").expect("it is always there");
    torture.run(&mut Late { readable, at: alarm_at }, &mut |_| {})
}

#[test]
fn nobody_fights_alone() {
    for procs in [0, 1] {
        let (dir, rival) = (tempfile::tempdir().expect("temp"), &|_: &Path| Command::new("true"));
        let (dir, time, worker) = (dir.path(), Duration::from_secs(1), &|_: &Path, _: &Orders| shell("exit 1"));
        let torture =
            Torture { dir, also: None, procs, time, seed: 1, keep: false, without_locks: false, worker, rival };
        let readable = File::open("/dev/zero").expect("it is always there");
        let never = Cell::new(u64::MAX);
        let done = torture.run(&mut Late { readable, at: &never }, &mut |_| {});
        assert!(done.is_err_and(|error| error.to_string().contains("fight with nobody")), "{procs} processes");
    }
}

/// A process of the shell.
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}

/// For the shell: tells of two who were inside at once, shortly before the end of the round.
fn overlap(orders: &Orders) -> String {
    let tell = |before: u64, who: u64, deed: Deed| {
        format!("echo '{}'\n", Entry { at: orders.until - before, who, deed }.encode().trim_end())
    };
    let (entered, left) =
        (|| Deed::Entered { name: "hot".into(), token: None, until: None }, || Deed::Left { name: "hot".into() });
    tell(9, 101, entered()) + &tell(8, 102, entered()) + &tell(7, 101, left()) + &tell(6, 102, left())
}

const NEVER: u64 = u64::MAX;
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn an_alarm_while_a_round_is_ending_ends_everything() {
    let at = Cell::new(NEVER);
    let worker = |_: &Path, orders: &Orders| {
        // Its time is over by then, and it waits for those who sleep.
        at.set(orders.until + 100_000_000);
        shell("exec sleep 60")
    };
    let done = tortured(Duration::from_millis(200), &worker, &at);
    assert!(done.is_ok_and(|ordeal| ordeal.interrupted), "whoever stops a torture has stopped it");
}

#[test]
fn what_was_broken_before_an_error_is_not_forgotten() {
    for (what_else, why) in [
        ("echo '!write count: No space left on device'; exec sleep 60", "write count: No space left on device"),
        ("exit 3", "ended by itself: exit status: 3"),
        ("echo nonsense; exec sleep 60", "a process told something else"),
    ] {
        let broken = |_: &Path, orders: &Orders| shell(&(overlap(orders) + what_else));
        let ordeal = tortured(MINUTE, &broken, &Cell::new(NEVER)).expect("a promise was broken");
        assert!(ordeal.broken.overlaps > 0, "two were inside at once: {ordeal:?}");
        assert!(ordeal.errors.first().is_some_and(|error| error.contains(why)), "and {why:?} is told: {ordeal:?}");
        let innocent = |_: &Path, _: &Orders| shell(what_else);
        let error = tortured(MINUTE, &innocent, &Cell::new(NEVER)).expect_err("nothing can be said about locks");
        assert!(error.to_string().contains(why) && error.next_step() == Some(MEND), "{error}");
    }
}

#[test]
fn what_was_broken_before_a_process_could_not_be_started_is_not_forgotten() {
    let said = tempfile::tempdir().expect("temp");
    let said = said.path().join("said");
    let worker = |_: &Path, orders: &Orders| {
        if orders.who <= 3 {
            return shell(&format!("{} : >'{}'; exec sleep 60", overlap(orders), said.display()));
        }
        // One of the three was killed; the others have something to tell.
        while !said.exists() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Command::new("/missing/program")
    };
    let ordeal = tortured(MINUTE, &worker, &Cell::new(NEVER)).expect("a promise was broken");
    assert!(ordeal.broken.overlaps > 0, "two were inside at once: {ordeal:?}");
    assert!(ordeal.errors.first().is_some_and(|error| error.contains("start a process in")), "{ordeal:?}");
}

#[test]
fn processes_that_do_nothing_but_err_end_it() {
    let worker = |_: &Path, _: &Orders| shell("while :; do echo '?open hot.json: Stale file handle' || exit; done");
    let error = tortured(60 * MINUTE, &worker, &Cell::new(NEVER)).expect_err("nothing can be said about locks");
    assert_eq!(error.to_string(), "nobody gets on any more: open hot.json: Stale file handle");
    // Those who get on now and then are let go on, here until nine of them have been replaced.
    let at = Cell::new(NEVER);
    let worker = |_: &Path, orders: &Orders| {
        if orders.who == 12 {
            at.set(0);
        }
        let gave_up = Entry { at: orders.until, who: orders.who, deed: Deed::GaveUp { name: "hot".into() } };
        shell(&format!("while :; do echo '?a mistake' && echo '{}' || exit; done", gave_up.encode().trim_end()))
    };
    let ordeal = tortured(60 * MINUTE, &worker, &at).expect("it was interrupted");
    assert!(ordeal.interrupted && ordeal.figures().gave_up > 150, "it went on: {:?}", ordeal.figures());
    assert_eq!(ordeal.errors, ["a mistake"; 5], "the first few are enough");
}

#[test]
fn whoever_keeps_everything_is_told_where_it_is_also_in_an_error() {
    let dir = tempfile::tempdir().expect("temp");
    let arenas = || names_in(dir.path());
    let silent = |_: &Path, _: &Orders| shell("echo '!write: No space left on device'; exec sleep 60");
    let error = tortured_in(dir.path(), true, MINUTE, &silent, &Cell::new(NEVER)).expect_err("the disk is full");
    assert_eq!((error.next_step(), arenas()), (Some(MEND), Vec::new()), "there is nothing to keep: {error}");
    let told = |_: &Path, orders: &Orders| {
        let asked = Entry { at: orders.until, who: orders.who, deed: Deed::Asked { name: "hot".into() } };
        shell(&format!("echo '{}'; echo '!write: No space left on device'; exec sleep 60", asked.encode().trim_end()))
    };
    let error = tortured_in(dir.path(), true, MINUTE, &told, &Cell::new(NEVER)).expect_err("the disk is full");
    let kept = arenas().pop().expect("it was kept");
    let hint = format!("{MEND}; what was told by then is kept in {}", kept.display());
    assert_eq!(error.next_step(), Some(hint.as_str()), "{error}");
}

fn names_in(dir: &Path) -> Vec<PathBuf> {
    let dir = std::fs::canonicalize(dir).expect("temp");
    std::fs::read_dir(dir).expect("temp").map(|entry| entry.expect("temp").path()).collect()
}

#[test]
fn only_blows_of_the_nemesis_are_counted() {
    // All three of each round are put down at its end, and none of them by a blow.
    let at = Cell::new(NEVER);
    let worker = |_: &Path, _: &Orders| {
        at.set(0);
        shell("exec sleep 60")
    };
    let ordeal = tortured(MINUTE, &worker, &at).expect("it was interrupted");
    assert_eq!(ordeal.figures().killed, 3, "they are put down: {:?}", ordeal.figures());
    assert_eq!((ordeal.blows.killed, ordeal.blows.stopped), (0, 0), "that is no blow");
    let at = Cell::new(NEVER);
    let worker = |_: &Path, orders: &Orders| {
        if orders.who == 6 {
            at.set(0);
        }
        shell("exec sleep 60")
    };
    let ordeal = tortured(MINUTE, &worker, &at).expect("it was interrupted");
    assert_eq!((ordeal.blows.killed, ordeal.figures().killed), (3, 6), "three were replaced");
    assert!(ordeal.blows.stopped <= ordeal.figures().stopped, "{:?} {:?}", ordeal.blows, ordeal.figures());
}

/// Those who trace others; they are stopped until this is dropped.
struct Tracers(tempfile::TempDir);

impl Tracers {
    fn file(&self) -> PathBuf {
        self.0.path().join("pids")
    }

    fn pids(&self) -> Vec<Pid> {
        let pids = std::fs::read_to_string(self.file()).unwrap_or_default();
        pids.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
    }

    /// How many of them are stopped.
    fn stopped(&self) -> u64 {
        let stat = |pid: &Pid| std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        self.pids().iter().filter(|pid| stat(pid).is_ok_and(|stat| stat.contains(") T "))).count() as u64
    }

    /// A process whose end nobody is told of before its tracer goes on, which it has stopped. That is what one in a system call of a slow
    /// disk looks like.
    fn slow_to_die(&self) -> Command {
        let script = format!(
            "while read what pid; do test \"$what\" = TracerPid: && tracer=$pid; done </proc/$$/status
            echo $tracer >>'{}'; kill -STOP $tracer; exec sleep 60",
            self.file().display()
        );
        let mut command = Command::new("strace");
        command.args(["-D", "-o", "/dev/null", "sh", "-c", &script]);
        command
    }
}

impl Drop for Tracers {
    fn drop(&mut self) {
        for pid in self.pids() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
fn whoever_takes_long_to_die_keeps_nobody_waiting_and_is_waited_for_once() {
    lokt_testkit::need!("strace");
    let tracers = Tracers(tempfile::tempdir().expect("temp"));
    let at = Cell::new(NEVER);
    let worker = |_: &Path, orders: &Orders| {
        // Before anybody is hit there are two of them, and both are traced: whoever is killed sooner leaves its tracer behind.
        while tracers.stopped() < 2.min(orders.who - 1) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        if orders.who == 6 {
            at.set(0);
        }
        if orders.who <= 2 { tracers.slow_to_die() } else { shell("exec sleep 60") }
    };
    let dir = tempfile::tempdir().expect("temp");
    let rival = &|_: &Path| Command::new("true");
    let (procs, time, worker) = (3, MINUTE, &worker);
    let torture =
        Torture { dir: dir.path(), also: None, procs, time, seed: 1, keep: false, without_locks: false, worker, rival };
    let readable = File::open("/dev/zero").expect("it is always there");
    let mut dying = 0;
    let mut alarm = Late { readable, at: &at };
    let ordeal = torture.run(&mut alarm, &mut |news| {
        if let Tidings::Dying(many) = news {
            dying = many;
            // Once more.
            at.set(0);
        }
    });
    let ordeal = ordeal.expect("it was interrupted");
    assert!(ordeal.interrupted, "the second alarm ended the wait for those who die");
    assert_eq!(ordeal.blows.killed, 3, "three were replaced although some of them had not ended");
    assert_eq!(dying, 2, "it was said that they are waited for");
}

#[test]
fn whoever_was_inside_and_silent_until_it_was_killed_was_inside_all_the_time() {
    let at = Cell::new(NEVER);
    let said = tempfile::tempdir().expect("temp");
    // Three are let in one after the other and say nothing more, as if they were stopped.
    let worker = |_: &Path, orders: &Orders| {
        if orders.who == 6 {
            while names_in(said.path()).len() < 2 {
                std::thread::park_timeout(Duration::from_millis(1));
            }
            at.set(0);
        }
        let entered = Deed::Entered { name: "hot".into(), token: None, until: None };
        let entered = Entry { at: monotonic_ns(), who: orders.who, deed: entered };
        let file = said.path().join(orders.who.to_string());
        shell(&format!("echo '{}'; : >'{}'; exec sleep 60", entered.encode().trim_end(), file.display()))
    };
    let ordeal = tortured(MINUTE, &worker, &at).expect("it was interrupted");
    assert!(ordeal.broken.overlaps > 0, "each lived when the next came: {ordeal:?}");
}

/// Over before the first blow.
const BRIEF: Duration = Duration::from_millis(10);

/// A worker that tells of one short lease, and ends after its round.
fn enters(orders: &Orders) -> Command {
    let deed = |deed| Entry { at: monotonic_ns(), who: orders.who, deed }.encode();
    let entered = deed(Deed::Entered { name: "cold-1".into(), token: None, until: Some(monotonic_ns() + 1) });
    shell(&format!("echo '{}'; exec sleep 0.3", entered.trim_end()))
}

#[test]
fn crash_frees_a_lock_that_nobody_can_have_any_more_is_stuck() {
    let dir = tempfile::tempdir().expect("temp");
    let at = Cell::new(NEVER);
    let worker = |arena: &Path, orders: &Orders| {
        if orders.who == 1 {
            // Nobody of them: no process, no end.
            let owner = Lokt::create(&root_in(arena), identity("somebody".to_owned(), None)).expect("it is there");
            for name in ["hot", "cold-2"] {
                let name = LockName::new(name).expect("it is one");
                owner.take(&name, Terms::default()).expect("it is free");
            }
        }
        enters(orders)
    };
    let ordeal = tortured_in(dir.path(), false, BRIEF, &worker, &at).expect("two are stuck");
    assert_eq!((ordeal.broken.stuck, ordeal.broken.count()), (2, 2), "{ordeal:?}");
    let told = &ordeal.broken.told;
    assert!(told[0].starts_with("cold-2: stuck: all are gone, and it can't be had in "), "{told:?}");
    assert!(told[1].starts_with("hot: stuck: ") && told[1].ends_with(": somebody holds it"), "{told:?}");
    let innocent = |_: &Path, orders: &Orders| enters(orders);
    let ordeal = tortured(BRIEF, &innocent, &Cell::new(NEVER)).expect("nothing is stuck");
    assert!(ordeal.broken.count() == 0 && ordeal.afterwards.asked, "{ordeal:?}");
}

#[test]
fn what_the_last_of_all_wrote_is_compared_with_the_disk() {
    let told = |orders: &Orders, made| {
        let deed = Deed::Wrote { register: "count-hot".into(), token: None, seen: made - 1, made, taken: true };
        let wrote = Entry { at: monotonic_ns(), who: orders.who, deed };
        let mut command = enters(orders);
        let script = command.get_args().last().map(|script| script.to_string_lossy().into_owned()).unwrap_or_default();
        command = shell(&format!("echo '{}'; {script}", wrote.encode().trim_end()));
        command
    };
    for (on_disk, lost) in [(Some("3"), 0), (Some("4"), 0), (Some("2"), 1), (Some(""), 1), (Some("no"), 1), (None, 1)] {
        let worker = |arena: &Path, orders: &Orders| {
            if let Some(text) = on_disk {
                let mut file = File::create(arena.join("count-hot")).expect("it is there");
                file.write_all(text.as_bytes()).expect("there is room");
            }
            told(orders, orders.who)
        };
        let ordeal = tortured(BRIEF, &worker, &Cell::new(NEVER)).expect("nobody erred");
        assert_eq!(ordeal.broken.lost_updates, lost, "three were made, and {on_disk:?} is there: {ordeal:?}");
        assert!(ordeal.afterwards.read, "it was read");
        let told =
            ordeal.broken.told.first().is_none_or(|told| told.contains("made it 3 by ") && told.contains("in the end"));
        assert!(told, "{ordeal:?}");
    }
}

#[test]
fn each_round_has_one_who_comes_too_late_and_is_not_hit_before() {
    let at = Cell::new(NEVER);
    let (late, lives) = (Cell::new(0), Cell::new(false));
    let told = tempfile::tempdir().expect("temp");
    let told = told.path().join("pid");
    let worker = |_: &Path, orders: &Orders| {
        if orders.who == 9 {
            at.set(0);
            let pid = || std::fs::read_to_string(&told).unwrap_or_default();
            // On a busy machine it may not have run so far. If it was hit, it never tells.
            let until = monotonic_ns() + 30_000_000_000;
            while !pid().ends_with('\n') && monotonic_ns() < until {
                std::thread::park_timeout(Duration::from_millis(1));
            }
            // A dead one has no command line.
            let words = std::fs::read(format!("/proc/{}/cmdline", pid().trim()));
            lives.set(words.is_ok_and(|words| !words.is_empty()));
        }
        late.set(late.get() + u64::from(orders.oversleeps));
        let tells = if orders.oversleeps { format!("echo $$ >'{}';", told.display()) } else { String::new() };
        shell(&format!("{tells} exec sleep 60"))
    };
    let ordeal = tortured(MINUTE, &worker, &at).expect("it was interrupted");
    assert_eq!((late.get(), ordeal.blows.killed), (1, 6), "six of the others were replaced: {ordeal:?}");
    assert!(lives.get(), "the one that is to come too late was never hit");
}
