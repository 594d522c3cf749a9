//! A command whose messages nobody reads: its stderr is a pipe that is full from the start. Such a command must renew, wait in
//! the queue, stop what it runs and exit as it would otherwise.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::Life;
use crate::nemesis::troubles::note;

/// What a life of this kind is called among what was done.
pub(crate) const FULL_PIPE: &str = "full pipe";

/// Runs what follows `--` so, and exits as it does.
pub(super) fn run(life: &Life) -> ExitCode {
    let (unread, full) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe can be made");
    while rustix::io::write(&full, &[b'.'; 4096]).is_ok() {}
    let left = rustix::io::write(&full, b".");
    assert_eq!(left, Err(Errno::AGAIN), "the pipe is full");
    // The command gets a pipe that blocks, as a terminal or a log would.
    rustix::io::ioctl_fionbio(&full, false).expect("a pipe can be set");
    // A copy of our own stderr, which is read, goes down to everything that is started: that it is closed shows that all have ended.
    let _read = rustix::io::dup(rustix::stdio::stderr()).expect("a descriptor can be copied");
    let mut command = Command::new(&life.command[0]);
    let ended = command.args(&life.command[1..]).stderr(full).status().expect("the command can be run");
    // Open until here: with no reader at all, a write would fail and not wait.
    drop(unread);
    note(&life.dir, FULL_PIPE);
    let code = ended.code().or_else(|| ended.signal().map(|signal| 128 + signal));
    ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(1))
}
