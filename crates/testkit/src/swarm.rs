//! Many real processes, released at one instant.
//!
//! Each waits at a gate: a shell that reads one line from a pipe before it becomes the command. When the gate opens they all run.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use lokt_sys::machine::{Linux, Machine as _};

/// How one process of a swarm ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it said beside that.
    pub stderr: String,
}

/// Processes at a gate.
pub struct Swarm {
    gate: OwnedFd,
    children: Vec<Child>,
}

impl Swarm {
    /// Starts one process per command line and keeps them at the gate. `envs` are set for that one.
    pub fn at_gate<'a>(commands: impl IntoIterator<Item = (Vec<&'a str>, Vec<(&'a str, String)>)>) -> io::Result<Self> {
        // All wait for the end of one pipe; closing the write end lets them go at once.
        let (read, gate) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let mut children = Vec::new();
        for (words, envs) in commands {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "read _ <&0; exec \"$@\" </dev/null", "sh"]).args(&words);
            command.envs(envs.iter().map(|(key, value)| (*key, value.as_str())));
            command.stdin(Stdio::from(read.try_clone()?)).stdout(Stdio::piped()).stderr(Stdio::piped());
            children.push(command.spawn()?);
        }
        Ok(Self { gate, children })
    }

    /// Opens the gate and waits for all.
    pub fn release(self) -> io::Result<Vec<Ended>> {
        drop(self.gate);
        let mut ended = Vec::new();
        for child in self.children {
            let output = child.wait_with_output()?;
            ended.push(Ended {
                code: output.status.code(),
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            });
        }
        Ok(ended)
    }
}

/// Tells those who work beside a test that it is over, also when it fails.
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits until `done`, at most `patience`; says whether it happened.
pub fn wait_until(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let start = Linux.now().monotonic_ms;
    let limit = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
    loop {
        if done() {
            return true;
        }
        if Linux.now().monotonic_ms - start > limit {
            return false;
        }
        pause(Duration::from_millis(2));
    }
}

/// Milliseconds on a clock that nobody sets.
pub fn now_ms() -> u64 {
    Linux.now().monotonic_ms
}

/// Does nothing for a while.
#[expect(clippy::disallowed_methods, reason = "tests of real processes have nothing else to wait on")]
pub fn pause(duration: Duration) {
    thread::sleep(duration);
}

/// Writes a fixture file.
#[expect(clippy::disallowed_methods, reason = "a fixture that stands for what another program wrote")]
pub fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).expect("a test directory is writable");
    }
    std::fs::write(path, bytes).expect("a test directory is writable");
}

/// The wall clock now, `secs` moved, as a record has it.
pub fn wall_text(secs: i64) -> String {
    let now: Timestamp = Linux.now().wall;
    now.checked_add(jiff::SignedDuration::from_secs(secs)).expect("a time near now").to_string()
}

/// Checks every case, `at_once` of them at a time.
pub fn in_parallel<T, I>(at_once: usize, cases: I, check: impl Fn(T) + Sync)
where
    T: Send,
    I: IntoIterator<Item = T>,
    I::IntoIter: Send,
{
    let queue = Mutex::new(cases.into_iter());
    let next = || queue.lock().expect("no thread panicked with it").next();
    thread::scope(|scope| {
        for _ in 0..at_once {
            // Named as the test is: what they do counts as done by it.
            let name = thread::current().name().unwrap_or_default().to_owned();
            let works = || {
                while let Some(case) = next() {
                    check(case);
                }
            };
            thread::Builder::new().name(name).spawn_scoped(scope, works).expect("a thread can be had");
        }
    });
}
