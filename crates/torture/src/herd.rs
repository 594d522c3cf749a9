//! Many processes of this program: started, stopped, continued and killed, and what they tell through one pipe.
//!
//! They are signalled through descriptors, so that nobody else is, and die with whoever started them, also if they are stopped. Nothing here
//! waits for an end: one that hangs in a system call of a slow disk takes as long as that.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, set_parent_process_death_signal};
use rustix::stdio::stdout;

use lokt_sys::wakeup::sleep_on;

const READ_BYTES: usize = 64 << 10;

/// The pipe that they all write to, a line at a time.
pub(crate) struct Herd {
    told: OwnedFd,
    tells: OwnedFd,
    /// The beginning of a line.
    part: Vec<u8>,
}

/// One of them. Killed when dropped, and not waited for.
pub(crate) struct Beast {
    child: Child,
    fd: OwnedFd,
}

impl Herd {
    pub(crate) fn new() -> io::Result<Self> {
        let (told, tells) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { told, tells, part: Vec::new() })
    }

    /// Starts one.
    pub(crate) fn start(&self, mut command: Command) -> io::Result<Beast> {
        // In a group of its own: what is typed at a terminal is for whoever started it.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::from(self.tells.try_clone()?));
        let mut child = command.spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::Other)?;
        // Nobody has waited for it, so the pid is its own.
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Ok(Beast { child, fd }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// Whole lines that were written by now.
    pub(crate) fn lines(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0_u8; READ_BYTES];
        while sleep_on(&[self.told.as_fd()], Duration::ZERO)? == [true] {
            let read = retry_on_intr(|| rustix::io::read(&self.told, &mut bytes))?;
            self.part.extend_from_slice(&bytes[..read]);
            if read < bytes.len() {
                break;
            }
        }
        let whole = self.part.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.part.split_off(whole);
        Ok(std::mem::replace(&mut self.part, rest))
    }
}

impl AsFd for Herd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }
}

impl Beast {
    pub(crate) fn stop(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    pub(crate) fn go_on(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Has it ended? Then how.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Kills it. Its end comes when it comes.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    /// One that has ended by itself just now needs none.
    fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.fd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Beast {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.kill();
        }
    }
}

/// Has this process die with the one that started it.
pub(crate) fn die_with_the_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Writes a line to whoever started this process: in one piece, if it isn't longer than a pipe takes in one.
pub(crate) fn tell(line: &str) -> io::Result<()> {
    let written = retry_on_intr(|| rustix::io::write(stdout(), line.as_bytes()))?;
    if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its end may come between a look at it and a signal.
    #[test]
    fn whoever_has_ended_by_itself_may_be_stopped_continued_and_killed() {
        let mut beast = Herd::new().and_then(|herd| herd.start(Command::new("true"))).expect("it starts");
        assert!(beast.child.wait().expect("it is our child").success());
        for signalled in [beast.stop(), beast.go_on(), beast.kill()] {
            assert!(signalled.is_ok(), "that is no error: {signalled:?}");
        }
        assert!(beast.ended().expect("it is our child").is_some());
    }
}
