//! Watches over a run from a process of its own: whatever ends the run, and if nothing does, its processes, its small disk and its shared
//! memory don't stay.
//!
//! The run has mounts of its own: the kernel takes its disk down with the last process that can see it, and the loop device with that.

use std::fs;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use lokt_sys::signals::{SignalQueue, die_of};
use lokt_sys::wakeup::sleep_on;
use lokt_testkit::moved_clock;
use lokt_testkit::storm::new_seed;
use lokt_testkit::swarm::now_ms;

use crate::SHOWN_TOO_LITTLE;
use crate::options::SECONDS;
use crate::ours::{end, ours};
use crate::report::{Outcome, again, complain, say};

/// A run that should have been over for so long never ends. Looking at the disk takes a minute on a slow machine.
const OVERDUE_MS: u64 = 900_000;
/// Whoever was killed without a signal to us is noticed by then.
const LOOK: Duration = Duration::from_secs(1);

/// How a run ended.
enum End {
    ByItself(ExitStatus),
    /// Somebody ended us.
    Signal(i32),
    Never,
}

/// Runs it all, and says whether all is well. Where something that should have happened never did, as on a slow machine, once more.
pub(crate) fn over(seconds: u64, seed: u64) -> bool {
    // Built before any time is measured.
    let dynamic = moved_clock::dynamic_build(env!("CARGO"), env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"));
    let first = once(seconds, seed, &dynamic);
    if first != Outcome::ShownTooLittle {
        return first == Outcome::Well;
    }
    if seconds < SECONDS {
        say("nothing is wrong; a run of less than a minute doesn't show everything");
        return true;
    }
    say("once more, with other choices and for twice as long");
    let second = once(2 * seconds, new_seed(), &dynamic);
    if second == Outcome::ShownTooLittle {
        complain("it is still not shown: the machine is too slow for that, or what should be tried isn't");
    }
    second == Outcome::Well
}

/// Runs it. What was found is kept, unless somebody ended it.
fn once(seconds: u64, seed: u64, dynamic: &str) -> Outcome {
    say(&format!("\nseed {seed}, {seconds} seconds"));
    let broom = moved_clock::Broom::take();
    let dir = tempfile::Builder::new().prefix(&format!("lokt-torture-{seed}-")).tempdir();
    let dir = dir.expect("a temp directory can be made").keep();
    say(&format!("in {}", dir.display()));
    let mut child = start(&dir, seconds, seed, dynamic);
    // After the start: what it blocks, the run would block too.
    let mut inbox = SignalQueue::open().expect("signals can be read");
    let ended = wait(&mut child, &mut inbox, now_ms() + 1_000 * seconds + OVERDUE_MS);
    if !matches!(ended, End::ByItself(_)) {
        complain(&format!("the run of seed {seed} is ended"));
        if matches!(ended, End::Never) {
            for (_, words) in ours(&dir) {
                complain(&format!("it had to be ended: {words}"));
            }
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    if !end(&dir) {
        complain(&format!("processes are left that can't be killed: {:?}", ours(&dir)));
    }
    drop(broom);
    match ended {
        End::ByItself(status) if status.success() => {
            let _ = fs::remove_dir_all(&dir);
            Outcome::Well
        }
        End::ByItself(status) if status.code() == Some(SHOWN_TOO_LITTLE.into()) => {
            let _ = fs::remove_dir_all(&dir);
            Outcome::ShownTooLittle
        }
        End::ByItself(status) => {
            complain(&format!("the run ended with {status}"));
            say(&again(&dir, seconds, seed));
            Outcome::Wrong
        }
        End::Signal(number) => {
            let _ = fs::remove_dir_all(&dir);
            die_of(number);
            Outcome::Wrong
        }
        End::Never => {
            complain("it should have been over long ago");
            say(&again(&dir, seconds, seed));
            Outcome::Wrong
        }
    }
}

/// Starts this program as the run itself. It ends when this process does.
fn start(dir: &Path, seconds: u64, seed: u64, dynamic: &str) -> Child {
    let this = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]).arg(this);
    command.arg("--inside").arg(dir).args([seconds.to_string(), seed.to_string()]).arg(dynamic);
    command.spawn().expect("this program can be run")
}

fn wait(child: &mut Child, inbox: &mut SignalQueue, limit_ms: u64) -> End {
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return End::ByItself(status);
        }
        while let Some(arrived) = inbox.take() {
            if arrived.ends() {
                return End::Signal(arrived.number);
            }
        }
        if now_ms() > limit_ms {
            return End::Never;
        }
        let _ = sleep_on(&[inbox.as_fd()], LOOK);
    }
}
