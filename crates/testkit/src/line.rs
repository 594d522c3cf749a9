//! Real processes that wait in a line: started, stopped, killed and awaited one by one.

use std::fs::FileType;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::swarm::{Ended, wait_until};
use crate::tally::{self, Trial};

/// Long enough for anything that isn't stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// What would change the outcome if it leaked in from whoever runs the tests.
const VARIABLES: [&str; 5] = ["LOKT_ROOT", "LOKT_OWNER", "LOKT_AGENT_ID", "LOKT_HOLDS", "GIT_DIR"];

/// A process in a group of its own. All of the group ends when this is dropped.
pub struct Process {
    child: Child,
    what: String,
    root: PathBuf,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts `words` as `owner` on the root directory `root`.
    pub fn start(root: &Path, owner: &str, words: &[&str]) -> Self {
        Self::with(root, owner, words, &[])
    }

    /// The same with more of an environment.
    pub fn with(root: &Path, owner: &str, words: &[&str], envs: &[(&str, &str)]) -> Self {
        let mut command = Command::new(words[0]);
        for name in VARIABLES {
            command.env_remove(name);
        }
        command.args(&words[1..]).env("LOKT_ROOT", root).env("LOKT_OWNER", owner).envs(envs.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let what = format!("{owner}: {words:?}");
        let child = command.spawn().unwrap_or_else(|error| panic!("{what} starts: {error}"));
        Self { child, what, root: root.to_owned(), status: None }
    }

    /// Its pid, which is that of its group too.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn id(&self) -> Pid {
        i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a pid is a positive number")
    }

    /// Sends it, and nobody else, a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).unwrap_or_else(|error| panic!("{} can be signalled: {error}", self.what));
    }

    /// Stops it, and sees to it that it has stopped. Not inside the root's mutex, where it would keep everybody out.
    pub fn stop(&self) {
        let is_outside = wait_until(PATIENCE, || {
            tally::count(Trial::Stop);
            self.signal(Signal::STOP);
            assert!(wait_until(PATIENCE, || self.state() == Some('T')), "{} stops", self.what);
            let is_outside = is_free(&self.root);
            if !is_outside {
                self.signal(Signal::CONT);
            }
            is_outside
        });
        assert!(is_outside, "{} can be stopped outside of the mutex", self.what);
    }

    /// The letter that the kernel has for what it does.
    pub fn state(&self) -> Option<char> {
        self.stat().first().and_then(|state| state.chars().next())
    }

    /// Microseconds of processor time so far, of all its threads. (`stat` rounds down to hundredths of a second.)
    pub fn run_us(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it runs");
        let run_ns = |task: PathBuf| {
            let schedstat = std::fs::read_to_string(task.join("schedstat")).ok()?;
            schedstat.split_whitespace().next()?.parse::<u64>().ok()
        };
        let run_ns: Vec<u64> = tasks.filter_map(|task| run_ns(task.ok()?.path())).collect();
        assert!(!run_ns.is_empty(), "the kernel tells how long {} ran", self.what);
        run_ns.iter().sum::<u64>() / 1000
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.stat().get(17).and_then(|field| field.parse().ok()).expect("it runs")
    }

    /// The fields of its `stat` from the third on.
    fn stat(&self) -> Vec<String> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        fields.split_whitespace().map(ToOwned::to_owned).collect()
    }

    /// Has it ended?
    pub fn is_over(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("it is our child");
        }
        self.status.is_some()
    }

    /// Did it end within `patience`?
    pub fn ends_within(&mut self, patience: Duration) -> bool {
        wait_until(patience, || self.is_over())
    }

    /// Waits for its end, at most `patience`. What it left running and what that says later doesn't matter.
    #[track_caller]
    pub fn end_within(mut self, patience: Duration) -> Ended {
        assert!(self.ends_within(patience), "{} ends within {patience:?}", self.what);
        let status = self.status.expect("it has ended");
        let stdout = self.child.stdout.take().map(said).unwrap_or_default();
        let stderr = self.child.stderr.take().map(said).unwrap_or_default();
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        assert!(!stderr.contains("panicked at"), "{} doesn't panic: {stderr}", self.what);
        Ended { code, stdout, stderr }
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(self) -> Ended {
        self.end_within(PATIENCE)
    }

    /// Kills it, and nothing that it started.
    pub fn kill(&mut self) {
        tally::count(Trial::Kill);
        self.signal(Signal::KILL);
        assert!(self.ends_within(PATIENCE), "{} can be killed", self.what);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It is the group's leader: what it started ends with it.
        let _ = kill_process_group(self.id(), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// What is in a pipe whose other end may still be open.
fn said(mut pipe: impl AsFd + std::io::Read) -> String {
    rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK).expect("a pipe can be read without waiting");
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = pipe.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..count]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where the tickets of `name` are.
pub fn line_dir(root: &Path, name: &str) -> PathBuf {
    root.join("state/line").join(name)
}

/// The tickets of `name`, first come first, with what they say.
pub fn tickets(root: &Path, name: &str) -> Vec<(u64, Value)> {
    let Ok(entries) = std::fs::read_dir(line_dir(root, name)) else { return Vec::new() };
    let mut tickets: Vec<(u64, Value)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            // Whoever opens a FIFO waits for ever.
            entry.file_type().ok().filter(FileType::is_file)?;
            Some((number, serde_json::from_slice(&std::fs::read(entry.path()).ok()?).ok()?))
        })
        .collect();
    tickets.sort_by_key(|(number, _)| *number);
    tickets
}

/// The ticket of a process.
pub fn ticket_of(root: &Path, name: &str, pid: u32) -> Option<u64> {
    tickets(root, name).into_iter().find(|(_, pulse)| pulse["process"]["pid"] == pid).map(|(number, _)| number)
}

/// Starts `words` as `owner`, who has a ticket for `name` when this returns, and has left the mutex: whoever is stopped inside keeps everybody out.
#[track_caller]
pub fn in_line(root: &Path, name: &str, owner: &str, words: &[&str]) -> Process {
    let mut process = Process::start(root, owner, words);
    let queued = wait_until(PATIENCE, || ticket_of(root, name, process.pid()).is_some() || process.is_over());
    assert!(queued && !process.is_over(), "{} waits in line", process.what);
    assert!(wait_until(PATIENCE, || is_free(root)), "{} leaves the mutex", process.what);
    process
}

/// Is nobody inside the mutex?
fn is_free(root: &Path) -> bool {
    let root = std::fs::File::open(root).expect("the root is there");
    let taken = flock(&root, FlockOperation::NonBlockingLockShared).is_ok();
    // Closing isn't enough: what another test is starting at this moment may have inherited it.
    taken && flock(&root, FlockOperation::Unlock).is_ok()
}

/// Who was granted `name`, in order.
pub fn served(root: &Path, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("audit.log")).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("an audit line is JSON"));
    events
        .filter(|event| event["event"] == "acquire" && event["name"] == name)
        .map(|event| event["owner"].as_str().expect("an event has an owner").to_owned())
        .collect()
}
