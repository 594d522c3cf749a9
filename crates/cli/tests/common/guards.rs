//! A guard that runs for as long as a test wants it to.

use std::fs::File;
use std::io::{Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lokt_testkit::swarm::wait_until;
use lokt_testkit::tally::{self, Trial};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, kill_process};

use super::{Call, DEADLINE, Root, Said, eventually, names_in, pid_of, without_creation};

/// What runs under it: a shell that says its pid and then does what it is told, until it is told to exit or nobody is left to tell it.
/// A signal that it catches ends `read`, not the loop.
const COMMAND: &str =
    r#"echo "runs $$"; while caught=; read -r line || [ -n "$caught" ]; do eval "$line"; line=; done"#;

/// A running `lokt guard` with a command that does what it is told. Nothing of it outlives the test.
pub(crate) struct Guard {
    what: String,
    root: PathBuf,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Heard,
    stderr: Heard,
    ended: bool,
}

impl Guard {
    /// `lokt guard WORDS`, as `owner`; its command runs when this returns.
    pub(crate) fn start(root: &Root, owner: &str, words: &str) -> Self {
        let guard = Self::ask(root.lokt(owner), words);
        guard.runs();
        guard
    }

    /// `lokt guard WORDS` by a call that is set up already; its command may not run yet, or never.
    pub(crate) fn ask(call: Call, words: &str) -> Self {
        let words = ["guard"].into_iter().chain(words.split_whitespace());
        let mut call = call.args(words.chain(["--", "sh", "-c", COMMAND]));
        call.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let what = format!("{:?}", call.command);
        let root = call.command.get_envs().find(|(name, _)| *name == "LOKT_ROOT").and_then(|(_, root)| root);
        let root = PathBuf::from(root.expect("a call of a test has a root"));
        let mut child = call.command.spawn().unwrap_or_else(|error| panic!("{what} starts: {error}"));
        let stdin = child.stdin.take();
        let stdout = Heard::from(child.stdout.take().expect("it is piped"));
        let stderr = Heard::from(child.stderr.take().expect("it is piped"));
        Self { what, root, child, stdin, stdout, stderr, ended: false }
    }

    /// Waits until the command runs.
    pub(crate) fn runs(&self) {
        self.heard("runs ");
    }

    /// The guard's own pid.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The command's pid.
    pub(crate) fn command(&self) -> u32 {
        let said = self.stdout.text();
        let pid = said.lines().find_map(|line| line.strip_prefix("runs "));
        pid.and_then(|pid| pid.parse().ok()).unwrap_or_else(|| panic!("the command has said its pid: {said}"))
    }

    /// How many threads the guard has: more than one while it renews.
    pub(crate) fn threads(&self) -> usize {
        names_in(Path::new(&format!("/proc/{}/task", self.pid()))).len()
    }

    /// What its command said so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// What it said so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Has the command do this.
    pub(crate) fn tell(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("nobody told it to end");
        writeln!(stdin, "{line}").expect("the command listens");
    }

    /// Waits until the command has said this.
    #[track_caller]
    pub(crate) fn heard(&self, text: &str) {
        let said = wait_until(DEADLINE, || self.stdout.text().contains(text));
        assert!(said, "the command says {text:?}: {:?} {:?}", self.stdout(), self.stderr());
    }

    /// Has the command do this and waits until it has.
    pub(crate) fn does(&mut self, line: &str) {
        let mark = format!("done {}", self.stdout().len());
        self.tell(&format!("{line}; echo '{mark}'"));
        self.heard(&mark);
    }

    /// Has the command say `NAME arrived` for each signal of that name.
    pub(crate) fn catches(&mut self, name: &str) {
        self.does(&format!("trap 'caught=1; echo {name} arrived' {name}"));
    }

    /// Waits until the guard has said this beside the command's own words.
    #[track_caller]
    pub(crate) fn warns(&self, text: &str, sentence: &str) {
        let said = wait_until(DEADLINE, || self.stderr.text().contains(text));
        assert!(said, "{sentence}: {text:?} is on stderr: {}", self.stderr());
    }

    /// Sends a signal to the guard alone.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid_of(self.pid()), signal).expect("it is our child, and we haven't waited for it");
    }

    /// Stops the guard alone, so that it renews nothing; its command goes on. Not inside the root's mutex, where it would stop everyone.
    pub(crate) fn stop(&self) {
        let stat = format!("/proc/{}/stat", self.pid());
        let is_stopped = || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, fields)| fields.starts_with(" T"))
        };
        eventually("it can be stopped outside of the mutex", || {
            tally::count(Trial::Stop);
            self.signal(Signal::STOP);
            eventually("a stopped process stops", is_stopped);
            let root = File::open(&self.root).expect("the root is there");
            let is_free = flock(&root, FlockOperation::NonBlockingLockExclusive).is_ok();
            // Closing isn't enough: what another test is starting at this moment may have inherited it.
            flock(&root, FlockOperation::Unlock).expect("it is ours or nobody's");
            if !is_free {
                self.signal(Signal::CONT);
            }
            is_free
        });
    }

    /// Has the command exit with `code` and waits for the guard.
    pub(crate) fn exit(mut self, code: u8) -> Said {
        self.tell(&format!("exit {code}"));
        self.wait()
    }

    /// Waits for its end; nobody tells the command anything any more, so it ends by itself.
    pub(crate) fn wait(mut self) -> Said {
        self.stdin = None;
        self.wait_for_end()
    }

    /// Waits for its end, which something else than the test must bring about.
    pub(crate) fn wait_for_end(mut self) -> Said {
        let mut status = None;
        let ended = wait_until(DEADLINE, || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        assert!(ended, "{} ends within {DEADLINE:?}: {} {}", self.what, self.stdout(), self.stderr());
        self.ended = true;
        let status = status.expect("it has ended");
        let code = status.code().unwrap_or_else(|| 128 + status.signal().expect("it exited or died of a signal"));
        let (stderr, created) = without_creation(&self.stderr.all());
        let said = Said { what: self.what.clone(), code, stdout: self.stdout.all(), stderr, created };
        assert!(!said.stderr.contains("panicked at"), "no input makes lokt panic{said}");
        said
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Nobody tells the command anything any more, so it ends by itself.
        self.stdin = None;
        if !self.ended {
            let _ = kill_process(pid_of(self.child.id()), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// What came out of a pipe so far.
struct Heard {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Heard {
    fn from(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let theirs = text.clone();
        let reader = thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut part) {
                theirs.lock().unwrap_or_else(PoisonError::into_inner).extend(&part[..count]);
            }
        });
        Self { text, reader: Some(reader) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Everything, once the other end is closed; what keeps it open after a while is left alone.
    fn all(&mut self) -> String {
        let reader = self.reader.take();
        if wait_until(Duration::from_secs(5), || reader.as_ref().is_none_or(JoinHandle::is_finished)) {
            reader.map(JoinHandle::join);
        }
        self.text()
    }
}

/// The files of a root that no guard should have left behind: records, pulses, tickets, temps.
pub(crate) fn leftovers(root: &Root) -> Vec<String> {
    let mut found = Vec::new();
    for (path, _) in root.snapshot() {
        let inside = path.strip_prefix(root.path()).expect("it is below the root").to_string_lossy().into_owned();
        let fixed = ["", ".gitignore", "audit.log", "locks", "state", "state/ceiling", "state/next"];
        let homes = ["state/held", "state/line", "state/tmp", "state/aside", "freezes"];
        if !fixed.contains(&inside.as_str()) && !homes.contains(&inside.as_str()) {
            found.push(inside);
        }
    }
    found
}
