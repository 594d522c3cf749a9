//! Opens the windows between system calls: `strace` delays or kills a real process at each of them in turn.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::cmd::Place;
use crate::guarding::Guarding;
use crate::swarm::{Ended, wait_until};
use crate::tally::{self, Trial};

/// Calls of start-up and exit, at which nothing of ours has begun or everything is over. And the one with which a thread waits for another:
/// whether it is made at all depends on which of them was first, so the next run may not come by.
const UNINTERESTING: [&str; 13] = [
    "execve",
    "brk",
    "arch_prctl",
    "set_tid_address",
    "set_robust_list",
    "rseq",
    "prlimit64",
    "mprotect",
    "mmap",
    "munmap",
    "sigaltstack",
    "exit_group",
    "futex",
];

/// The n-th call of one name, counted from 1 as strace counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The system call.
    pub name: String,
    /// Which one of that name.
    pub nth: usize,
}

/// The system calls that `args` makes as `owner`, in order. Runs the command for real.
pub fn calls(place: &Place, owner: &str, args: &[&str]) -> Vec<Call> {
    let log = place.beside("strace.log");
    let log_text = log.to_str().expect("a plain path");
    let words = [&["strace", "-o", log_text], place.words(args).as_slice()].concat();
    let ended = place.run_words(owner, &words);
    assert!(ended.code.is_some(), "strace works here: {}", ended.stderr);
    read_log(&log)
}

/// The system calls in a log that strace wrote.
pub fn read_log(log: &Path) -> Vec<Call> {
    traced(log).into_iter().map(|(call, _)| call).collect()
}

/// The same with the line of each.
pub fn traced(log: &Path) -> Vec<(Call, String)> {
    let text = std::fs::read_to_string(log).expect("strace wrote its log");
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let Some((name, _)) = line.split_once('(') else { continue };
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        let nth = seen.entry(name).or_default();
        *nth += 1;
        if !UNINTERESTING.contains(&name) {
            calls.push((Call { name: name.to_owned(), nth: *nth }, line.to_owned()));
        }
    }
    assert!(!calls.is_empty(), "strace saw calls");
    calls
}

/// Runs `args` as `owner`, and gives its calls with the paths of their descriptors.
pub fn with_paths(place: &Place, owner: &str, args: &[&str]) -> (Ended, Vec<(Call, String)>) {
    let log = place.beside("strace.log");
    let log_text = log.to_str().expect("a plain path");
    // Descriptors with what they are of, and whole strings.
    let words = [&["strace", "-y", "-s", "4096", "-o", log_text], place.words(args).as_slice()].concat();
    let ended = place.run_words(owner, &words);
    assert!(ended.code.is_some(), "strace works here: {}", ended.stderr);
    (ended, traced(&log))
}

/// A call that changes something, or takes or drops a lock. Between two of them nothing on the disk changes: whoever is killed there leaves
/// what it would leave at the next one.
pub fn changes((call, line): &(Call, String)) -> bool {
    let changing =
        ["write", "pwrite64", "fsync", "fdatasync", "syncfs", "ftruncate", "fallocate", "flock", "copy_file_range"];
    let making = ["mkdir", "link", "unlink", "rename", "symlink", "rmdir", "utimensat", "fchmod", "fchown"];
    let opens = call.name.starts_with("open") && (line.contains("O_CREAT") || line.contains("O_TMPFILE"));
    opens || changing.contains(&call.name.as_str()) || making.iter().any(|name| call.name.starts_with(name))
}

/// Runs `args` as `owner` and kills it at that call.
pub fn killed_at(place: &Place, owner: &str, args: &[&str], call: &Call) -> Ended {
    tally::count(Trial::Kill);
    inject(place, owner, args, call, "signal=KILL")
}

/// Runs `args` as `owner` and delays it before that call.
pub fn delayed_at(place: &Place, owner: &str, args: &[&str], call: &Call, delay_ms: u64) -> Ended {
    tally::count(Trial::Stop);
    inject(place, owner, args, call, &format!("delay_enter={}", delay_ms * 1000))
}

fn inject(place: &Place, owner: &str, args: &[&str], call: &Call, what: &str) -> Ended {
    let inject = injection(call, what);
    let words = [&["strace", "-o", "/dev/null", "-e", &inject], place.words(args).as_slice()].concat();
    place.run_words(owner, &words)
}

/// A process that stands still. It is killed when this is dropped.
pub struct Stopped {
    strace: Option<Child>,
    pid: Pid,
}

/// Nothing takes this long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `args` as `owner` and stops it after that call has been made, before the next one. `None`: it ended before.
pub fn stopped_after(place: &Place, owner: &str, args: &[&str], call: &Call) -> Option<Stopped> {
    let log: PathBuf = place.beside(&format!("stopped-{owner}-{}.log", call.nth));
    let inject = injection(call, "signal=STOP");
    let words = place.words(args);
    let mut command = Command::new("strace");
    command.arg("-o").arg(&log).args(["-e", &inject]).args(&words).envs(place.env(owner)).current_dir(place.dir());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let strace = command.spawn().unwrap_or_else(|error| panic!("strace starts: {error}"));
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let (stopped, over) = ("--- stopped by SIGSTOP ---", "+++ ");
    assert!(wait_until(PATIENCE, || said().contains(stopped) || said().contains(over)), "{words:?} stops at {call:?}");
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", strace.id())).unwrap_or_default();
    let pid = children.split_whitespace().next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    match pid {
        Some(pid) if said().contains(stopped) => {
            tally::count(Trial::Stop);
            Some(Stopped { strace: Some(strace), pid })
        }
        _ => {
            drop(strace.wait_with_output());
            None
        }
    }
}

impl Stopped {
    /// Lets it go on, and waits for its end.
    pub fn goes_on(mut self) -> Ended {
        kill_process(self.pid, Signal::CONT).expect("it is there, and ours");
        let strace = self.strace.take().expect("it is waited for once");
        let output = strace.wait_with_output().expect("it is our child");
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(strace) = &mut self.strace {
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = strace.wait();
        }
    }
}

/// Starts `lokt guard ARGS -- COMMAND` as `owner` and kills the guard at that call, which then doesn't happen. Its command isn't touched.
pub fn guard_killed_at(place: &Place, owner: &str, args: &[&str], command: &[&str], call: &Call) -> Guarding {
    tally::count(Trial::Kill);
    let inject = injection(call, "signal=KILL");
    Guarding::start(place, owner, &["strace", "-o", "/dev/null", "-e", &inject], args, command)
}

fn injection(call: &Call, what: &str) -> String {
    format!("inject={}:{what}:when={}", call.name, call.nth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::put;

    #[test]
    fn a_call_is_counted_as_strace_counts_and_left_out_where_another_run_may_not_make_it() {
        let log = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        put(log.path(), "read(3) = 0\nfutex(0x7f) = 0\nmmap(0) = 0\nread(3) = 1\n--- SIGCHLD ---\nfutex(0x7f) = 0\n");
        let call = |nth| Call { name: "read".to_owned(), nth };
        assert_eq!(read_log(log.path()), [call(1), call(2)]);
    }
}
