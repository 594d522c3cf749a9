//! From a release to the next waiter's grant, beside a bare `flock` that changes hands in the same way, in the same run.
//!
//!     cargo bench -p lokt-named --bench handoff
//!
//! Two threads, each with acquisitions of its own, hand one lock to and fro. The clock runs from just before the release until the other
//! one has it; the releaser waits until the other is in line and asleep, so every round wakes a sleeper.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lokt_core::decide::Terms;
use lokt_core::name::LockName;
use lokt_named::{Holding, Lokt};
use lokt_sys::wait_policy::WaitPolicy;
use rustix::fs::{FlockOperation, flock};

const ROUNDS: usize = 2_000;
/// How long a waiter is given to fall asleep: nobody can see whether it has.
const ASLEEP: Duration = Duration::from_millis(1);

fn main() {
    // Below the target directory, so that it is the disk that is measured and not a temp file system.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable");
    let lokt = Lokt::open(dir.path().join("root")).expect("a new root");
    let name = LockName::new("x").expect("a good name");
    let path = dir.path().join("bare");
    File::create(&path).expect("a new file");

    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    // In blocks, so that a noisy moment hits both.
    for _ in 0..10 {
        bare.extend(hand_over(ROUNDS / 10, || Bare::lock(&path), || pause(ASLEEP)));
        let in_line = || {
            while lokt.inspect().queue(&name).expect("the disk works").is_empty() {}
            pause(ASLEEP);
        };
        let hold = || {
            let mut patience = WaitPolicy { timeout: Duration::from_secs(60).into(), ..WaitPolicy::none() };
            let held = lokt.hold(std::slice::from_ref(&name), &Terms::default(), &mut patience);
            held.ok().filter(|held| matches!(held.value, Holding::Held(_)))
        };
        ours.extend(hand_over(ROUNDS / 10, hold, in_line));
    }
    report("bare flock", &mut bare);
    report("lokt", &mut ours);
}

/// Two threads hand a lock to and fro; gives how long each hand-over took.
fn hand_over<L: Send>(rounds: usize, lock: impl Fn() -> Option<L> + Sync, in_line: impl Fn() + Sync) -> Vec<Duration> {
    std::thread::scope(|scope| {
        let (begin, begun) = mpsc::sync_channel::<()>(0);
        let (got, gets) = mpsc::sync_channel::<Instant>(0);
        let lock = &lock;
        scope.spawn(move || {
            while begun.recv().is_ok() {
                let held = lock().expect("the wait is long enough");
                let at = now();
                drop(held);
                if got.send(at).is_err() {
                    return;
                }
            }
        });
        (0..rounds)
            .map(|_| {
                let held = lock().expect("nobody else wants it now");
                begin.send(()).expect("the other thread lives");
                in_line();
                let released = now();
                drop(held);
                gets.recv().expect("the other thread lives").saturating_duration_since(released)
            })
            .collect()
    })
}

/// A plain `flock` on a descriptor of its own.
struct Bare(File);

impl Bare {
    fn lock(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        flock(&file, FlockOperation::LockExclusive).ok()?;
        Some(Self(file))
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        flock(&self.0, FlockOperation::Unlock).expect("it is ours");
    }
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_micros();
    let (p50, p90, p99) = (at(50), at(90), at(99));
    writeln!(
        io::stdout(),
        "{what}: release to grant p50 {p50} us, p90 {p90} us, p99 {p99} us ({} rounds)",
        times.len()
    )
    .expect("stdout is open");
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "nobody can see whether a bare waiter sleeps")]
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
