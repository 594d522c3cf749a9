//! A command that dies with whoever started it, even if that is killed with SIGKILL.
//!
//! The kernel does that for a process that asks for it, so somebody has to ask in the new process before it becomes the command. Between
//! `fork` and `exec` nothing of ours may run, so our own program is started first: it asks, sees that the parent is still there, and
//! becomes the command: same pid, words, environment, directory and descriptors. A program that calls `spawn` begins with [`take_part`].
//!
//! A pipe connects the two until then. What the command couldn't be started for comes through it; that nobody reads it any more tells of
//! a parent that went before it could be asked for. (Its pid would tell too, but not across pid namespaces.)

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid};

use super::bell::sleep_on;
use super::pulse_file::INHERITED_FD_MIN;
use super::spawn::{environment, launch, text};

/// What our own program is called with to become a command. For nobody to type.
const WORD: &CStr = c"dies-with-its-parent";
/// Where a program is looked for if nobody says.
const PATH_USUAL: &[u8] = b"/bin:/usr/bin";

/// Starts `command` as [`super::spawn::spawn`] does, as one that is killed when this thread ends. An error of kind `TimedOut`: it couldn't
/// be started within `patience`.
pub(crate) fn spawn(command: &Command, own_group: bool, mask: &SigSet, patience: Duration) -> io::Result<Pid> {
    let (told, tells) = pipe_with(PipeFlags::CLOEXEC)?;
    // Out of the way of descriptors that scripts use by number.
    let tells = fcntl_dupfd_cloexec(&tells, INHERITED_FD_MIN).unwrap_or(tells);
    fcntl_setfd(&tells, FdFlags::empty())?;
    let mut words = vec![c"lokt".to_owned(), WORD.to_owned(), CString::new(tells.as_raw_fd().to_string())?];
    words.push(text(command.get_program())?);
    for word in command.get_args() {
        words.push(text(word)?);
    }
    let started = launch(c"/proc/self/exe", &words, &environment(command)?, own_group, mask);
    drop(tells);
    let pid = started.map_err(|error| match error.kind() {
        ErrorKind::NotFound => io::Error::new(ErrorKind::Unsupported, "that takes /proc, and it isn't mounted"),
        _ => error,
    })?;
    if sleep_on(&[told.as_fd()], patience)? == [false] {
        let _ = kill_process(pid, Signal::KILL);
        return Err(ErrorKind::TimedOut.into());
    }
    let Some(error) = failure(&told)? else { return Ok(pid) };
    waitpid(Some(pid), WaitOptions::empty())?;
    Err(error)
}

/// Why the command couldn't be started; `None`: it was, or the process died before that, which is seen like any end of it.
fn failure(told: &OwnedFd) -> io::Result<Option<io::Error>> {
    let mut bytes = [0_u8; 4];
    let read = retry_on_intr(|| rustix::io::read(told, &mut bytes))?;
    Ok((read == bytes.len()).then(|| io::Error::from_raw_os_error(i32::from_ne_bytes(bytes))))
}

/// Becomes the command that `spawn` started this process for; comes back at once if it was started for something else. `words` are
/// those after the program's name. To be called before anything else: what this process has by then, the command gets. What it gives is
/// a code to exit with: it couldn't become the command, and its parent knows why.
pub fn take_part(words: &[OsString]) -> Option<u8> {
    let [word, fd, program, ..] = words else { return None };
    if word.as_bytes() != WORD.to_bytes() {
        return None;
    }
    let tells = take_over(fd)?;
    let errno = become_command(&tells, program, &words[2..]);
    // Whoever should read it may be gone, and then it doesn't matter.
    let _ = rustix::io::write(&tells, &(errno as i32).to_ne_bytes());
    Some(127)
}

/// The inherited end of the pipe, as a descriptor that the command won't inherit. `None`: that is no such descriptor.
fn take_over(fd: &OsStr) -> Option<OwnedFd> {
    let number: i32 = fd.to_str()?.parse().ok().filter(|number| *number > 2)?;
    // By its name it can be had without believing that the number is ours. Without a reader that fails: nobody waits for us any more.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tells = open(format!("/proc/self/fd/{number}"), flags, Mode::empty()).ok()?;
    let is_pipe = fstat(&tells).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    if !is_pipe {
        return None;
    }
    nix::unistd::close(number).ok()?;
    Some(tells)
}

fn become_command(tells: &OwnedFd, program: &OsStr, words: &[OsString]) -> Errno {
    let asked = set_parent_process_death_signal(Some(Signal::KILL));
    if let Err(error) = asked {
        return Errno::from_raw(error.raw_os_error());
    }
    // Whoever died before that was asked for kills nobody.
    let mut parent = [PollFd::new(tells, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if !matches!(poll(&mut parent, Some(&now)), Ok(0)) {
        return Errno::ESRCH;
    }
    let Ok(words) = words.iter().map(|word| text(word)).collect::<io::Result<Vec<CString>>>() else {
        return Errno::EINVAL;
    };
    let mut denied = None;
    for path in places(program) {
        let Ok(path) = text(&path) else { return Errno::EINVAL };
        let Err(errno) = nix::unistd::execv(&path, &words);
        match errno {
            Errno::EACCES => denied = Some(errno),
            Errno::ENOENT | Errno::ESTALE | Errno::ENOTDIR | Errno::ENODEV | Errno::ETIMEDOUT => {}
            _ => return errno,
        }
    }
    denied.unwrap_or(Errno::ENOENT)
}

/// Where a program may be, as a shell looks for it. What is found but is no program isn't given to a shell.
fn places(program: &OsStr) -> Vec<OsString> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.to_owned()];
    }
    if program.is_empty() {
        return Vec::new();
    }
    let path = std::env::vars_os().find(|(name, _)| name == "PATH").map(|(_, path)| path);
    let path = path.as_ref().map_or(PATH_USUAL, |path| path.as_bytes());
    let place = |dir: &[u8]| {
        let mut place = OsStr::from_bytes(dir).to_owned();
        if !dir.is_empty() {
            place.push("/");
        }
        place.push(program);
        place
    };
    path.split(|byte| *byte == b':').map(place).collect()
}
