//! A command that dies with its caller, even if the caller is killed with SIGKILL.
//!
//! On request, the kernel kills a process when the *thread* that started it ends. Starting takes as
//! long as the program's disk needs to answer, and the caller's time is limited. So a separate
//! thread starts the command, and lives as long as it.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use lokt_core::pulse::Stencil;
use nix::sys::signal::SigSet;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};

use super::spawn::{Prepared, Record};
use super::vfork::Lifeline;

/// A command that is killed when this is dropped.
pub struct Mortal {
    /// The process.
    pub pid: Pid,
    /// Dropping it ends the thread that started the process.
    _hold: mpsc::Sender<()>,
}

/// Starts `command` as [`super::spawn::spawn`] does, recorded in one pulse. Fails with `TimedOut`
/// if it couldn't be started within `patience`; then it won't be started any more.
pub fn spawn(
    command: &Command,
    own_group: bool,
    mask: &SigSet,
    (pulse, content): (OwnedFd, Stencil),
    patience: Duration,
) -> io::Result<Mortal> {
    let prepared = Prepared::new(command, own_group, mask)?;
    let (ours, child) = pipe_with(PipeFlags::CLOEXEC)?;
    let pid = Arc::new(AtomicI32::new(0));
    let known = Arc::clone(&pid);
    let (tell, told) = mpsc::channel();
    let (hold, held) = mpsc::channel::<()>();
    thread::Builder::new().spawn(move || {
        let lifeline = Lifeline { ours, child };
        let record = Record { pulse: pulse.as_fd(), content };
        let started = prepared.start(vec![record], Some(&lifeline), &known);
        drop((lifeline, pulse));
        let _ = tell.send(started);
        // Blocks until the sender is dropped.
        let _ = held.recv();
    })?;
    if let Ok(started) = told.recv_timeout(patience) {
        return Ok(Mortal { pid: started?, _hold: hold });
    }
    if let Some(pid) = Pid::from_raw(pid.load(Ordering::Relaxed)) {
        let _ = kill_process(pid, Signal::KILL);
    }
    Err(ErrorKind::TimedOut.into())
}
