//! A guard and its command, started for real and killed for real.
//!
//! Commands say a line when they run, and end when they are told to, or when nobody is there to tell them: their standard input is a
//! pipe that ends with the test.

use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use lokt_sys::machine::{Linux, Machine as _};
use lokt_sys::wakeup::sleep_on;
use rustix::process::{Pid, Signal, kill_process};

use crate::cmd::Place;
use crate::swarm::wait_until;
use crate::tally::{self, Trial};

/// Nothing that a test waits for takes this long, unless it never comes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A command that keeps what it inherits. It says `on` when it runs.
pub const KEEPS: [&str; 3] = ["sh", "-c", "echo on; read line"];
/// A command that closes what it inherits, as many programs do before they run another.
pub const CLOSES: [&str; 3] =
    ["python3", "-c", "import os, sys; os.closerange(3, 1000); print('on', flush=True); sys.stdin.readline()"];
/// A command that closes what it inherits, and whose own child kept it.
pub const LEAVES: [&str; 3] = [
    "sh",
    "-c",
    "exec 3<&0; cat <&3 >/dev/null & exec python3 -c \
     \"import os, sys; os.closerange(3, 1000); print('on', flush=True); sys.stdin.readline()\"",
];

/// A running `lokt guard`, or one that waits, with everything that it started. All of it is killed when this is dropped.
pub struct Guarding {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    stderr: ChildStderr,
    /// Everyone who was ever found below it.
    met: Vec<Relative>,
}

/// A process below another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relative {
    /// Its pid, as this process sees it.
    pub pid: i64,
    start: i64,
}

impl Relative {
    /// The process that has this pid now.
    pub fn of(pid: i64) -> Self {
        Self { pid, start: Linux.process(pid).map_or(0, |stat| stat.start) }
    }

    /// Does it still run?
    pub fn lives(&self) -> bool {
        Linux.process(self.pid).is_some_and(|stat| !stat.has_ended() && stat.start == self.start)
    }

    /// `SIGKILL`. It may be gone before, or take a moment.
    pub fn kill(&self) {
        if self.lives() {
            tally::count(Trial::Kill);
            self.signal(Signal::KILL);
        }
    }

    /// Any signal, if it is there.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// `SIGKILL`, and waits until it has ended.
    pub fn end(&self) {
        self.kill();
        assert!(wait_until(PATIENCE, || !self.lives()), "process {} ends when it is killed", self.pid);
    }
}

impl Guarding {
    /// Starts `lokt guard ARGS -- COMMAND` as `owner`, in `wrap` if that has words.
    pub fn start(place: &Place, owner: &str, wrap: &[&str], args: &[&str], command: &[&str]) -> Self {
        let guard = place.words(&["guard"]);
        Self::start_words(place, owner, &[wrap, guard.as_slice(), args, &["--"], command].concat())
    }

    /// Starts any command line with `owner`'s environment.
    pub fn start_words(place: &Place, owner: &str, words: &[&str]) -> Self {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).envs(place.env(owner)).env_remove("LOKT_HOLDS").current_dir(place.dir());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("run {words:?}: {error}"));
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("it is piped");
        let stderr = child.stderr.take().expect("it is piped");
        Self { child, stdin, stdout, stderr, met: Vec::new() }
    }

    /// The pid of what was started: the guard's, if nothing is around it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What was started, as a process to kill.
    pub fn itself(&self) -> Relative {
        Relative::of(i64::from(self.pid()))
    }

    /// The next line that the command says, if it comes within `patience`.
    pub fn line_within(&mut self, patience: Duration) -> Option<String> {
        line(&mut self.stdout, patience)
    }

    /// Waits until the command runs.
    #[track_caller]
    pub fn runs(&mut self) -> String {
        match self.line_within(PATIENCE) {
            Some(line) => line,
            None => panic!("the command runs within {PATIENCE:?}; the guard said {:?}", self.complaint()),
        }
    }

    /// Waits until it is in line and asleep.
    #[track_caller]
    pub fn waits(&mut self) {
        assert!(self.is_in_line(), "a waiter says that it waits; it said {:?}", self.complaint());
    }

    /// Does it say that it waits, before it ends?
    pub fn is_in_line(&mut self) -> bool {
        line(&mut self.stderr, PATIENCE).is_some_and(|said| said.starts_with("waiting for lock"))
    }

    /// What it says on stderr next, if it does soon.
    pub fn complaint(&mut self) -> String {
        line(&mut self.stderr, Duration::from_millis(200)).unwrap_or_default()
    }

    /// Everyone below it, and itself first. They are remembered.
    pub fn meet(&mut self) -> Vec<Relative> {
        let found = family(i64::from(self.pid()));
        for relative in &found {
            if !self.met.contains(relative) {
                self.met.push(relative.clone());
            }
        }
        found
    }

    /// The guard itself: the process below us that runs `binary`.
    pub fn guard(&mut self, binary: &str) -> Relative {
        let runs = |relative: &Relative| {
            std::fs::read_link(format!("/proc/{}/exe", relative.pid)).is_ok_and(|exe| exe == Path::new(binary))
        };
        let mut family = self.meet().into_iter();
        family.find(runs).unwrap_or_else(|| panic!("a process below {} runs {binary}", self.pid()))
    }

    /// The children of `parent`, a process of the family, in the order of their pids.
    pub fn children(&mut self, parent: &Relative) -> Vec<Relative> {
        self.meet();
        children(parent.pid)
    }

    /// The guard and its command.
    pub fn pair(&mut self, binary: &str) -> (Relative, Relative) {
        let guard = self.guard(binary);
        let mut children = self.children(&guard);
        assert_eq!(children.len(), 1, "a guard has one command");
        (guard, children.remove(0))
    }

    /// Tells the command to end.
    pub fn tell(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            // It may have been killed.
            let _ = stdin.write_all(b"end\n");
        }
    }

    /// What was started has ended; how?
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Waits for the end of what was started.
    #[track_caller]
    pub fn ends(&mut self) -> ExitStatus {
        let mut status = None;
        let over = wait_until(PATIENCE, || {
            status = self.has_ended();
            status.is_some()
        });
        assert!(over, "process {} ends within {PATIENCE:?}", self.pid());
        status.expect("it has ended")
    }
}

impl Drop for Guarding {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if self.has_ended().is_none() {
            self.meet();
        }
        self.met.iter().for_each(Relative::kill);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `pid` and everyone below it.
pub fn family(pid: i64) -> Vec<Relative> {
    let mut found = vec![Relative::of(pid)];
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|relative| relative.pid) {
        found.extend(children(parent));
        next += 1;
    }
    found
}

/// The processes whose parent is `parent`.
fn children(parent: i64) -> Vec<Relative> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i64>().ok());
    let mut pids: Vec<i64> = pids.filter(|pid| parent_of(*pid) == Some(parent)).collect();
    pids.sort_unstable();
    pids.into_iter().map(Relative::of).collect()
}

fn parent_of(pid: i64) -> Option<i64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// One line, without its end. Byte by byte: whatever comes after it stays in the pipe.
fn line(pipe: &mut (impl std::io::Read + AsFd), patience: Duration) -> Option<String> {
    let began = Linux.now().monotonic_ms;
    let mut text = Vec::new();
    loop {
        let waited = Duration::from_millis(Linux.now().monotonic_ms - began);
        let ready = sleep_on(&[pipe.as_fd()], patience.saturating_sub(waited));
        let ready =
            ready.unwrap_or_else(|error| panic!("descriptor {} can be polled: {error}", pipe.as_fd().as_raw_fd()));
        if !ready[0] {
            if waited >= patience {
                return None;
            }
            continue;
        }
        let mut byte = [0];
        match pipe.read(&mut byte) {
            Ok(1) if byte[0] == b'\n' => return Some(String::from_utf8_lossy(&text).into_owned()),
            Ok(1) => text.push(byte[0]),
            _ => return None,
        }
    }
}
