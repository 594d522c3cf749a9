//! A child process that runs a few steps of ours before it becomes the command.
//!
//! `posix_spawn` has no step that writes the child's pid into a file, and its child runs before its
//! parent can write it. So this does what `posix_spawn` itself does: `clone` with
//! `CLONE_VM | CLONE_VFORK`. The child shares our memory, on its own stack; the calling thread is
//! suspended until the child has become the command or has exited. Copying the address space, as
//! `fork` does, or starting our own program first would take much longer.
//!
//! Requirements for code in such a child, and why they are met here:
//!
//! - Signal handlers would run on shared memory: the caller blocks all signals, and the child drops
//!   all handlers before it unblocks any.
//! - Other threads may hold locks of the process: everything is allocated before. The child only
//!   makes system calls and writes to buffers that only it uses. `errno` and other thread-local
//!   storage are those of the suspended thread.
//! - A panic must not unwind into the caller's frames: an `extern "C"` function aborts instead.
//!   Nothing below indexes or unwraps.
//! - The compiler doesn't know that the memory changes: all results are atomics, or are reached
//!   through the pointer that `clone` got.
//!
//! If the caller is killed in the meantime, the child loses nothing: memory lives as long as one
//! process uses it, and so do the child's copies of all descriptors until it becomes the command.
//! So the pulse stays locked until the pid is in it.
#![expect(
    unsafe_code,
    reason = "there is no safe way to do something between fork and exec; docs/architecture.md says why it must be"
)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use lokt_core::proc::start_in;
use lokt_core::pulse::{ProcessRef, Stencil};
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{pwrite, read, retry_on_intr};
use rustix::process::{Signal, set_parent_process_death_signal, setpgid};

use super::signals::Blocked;

/// Size of the child's stack. Its calls are few and not deep; most of this is never touched.
const STACK_BYTES: usize = 64 << 10;
/// Exit code of a child that couldn't become the command. Only its caller sees it.
const NOT_STARTED: i32 = 127;
/// Buffer size for `/proc/<pid>/stat`: more than its length.
const STAT_BYTES: usize = 1024;
/// The highest signal number; the lowest is 1.
const SIGNAL_MAX: c_int = 64;

/// Signals by which a terminal suspends a process.
const STOPS: [c_int; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Everything that the child needs.
pub(super) struct Start<'a> {
    /// Candidate paths of the program, in the order in which to try them.
    pub(super) paths: &'a [CString],
    /// Its words, the first of which is its name.
    pub(super) words: &'a [CString],
    pub(super) environment: &'a [CString],
    /// Starts the command in its own process group.
    pub(super) own_group: bool,
    pub(super) mask: &'a SigSet,
    /// The command ignores SIGPIPE.
    pub(super) ignores_pipes: bool,
    /// Pulses in which the command is recorded before it runs.
    pub(super) records: Vec<Record<'a>>,
    /// True if a start time read here may be compared with those that other processes read.
    pub(super) knows_start: bool,
    /// The command dies with the calling thread.
    pub(super) lifeline: Option<&'a Lifeline>,
}

/// A pulse, and the content to write to it.
pub struct Record<'a> {
    /// The file in which the command is recorded.
    pub pulse: BorrowedFd<'a>,
    /// The content, with room for pid and start.
    pub content: Stencil,
}

/// A pipe whose read end only we have: the kernel closes it before it tells our children that we
/// are gone.
pub(super) struct Lifeline {
    pub(super) ours: OwnedFd,
    pub(super) child: OwnedFd,
}

/// The reason why there is no command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// It couldn't be started.
    Start(Errno),
    /// Its pid couldn't be recorded, so it was not started.
    Record(Errno),
}

/// The data that the child and its caller share.
struct Shared<'a, 's> {
    start: &'s mut Start<'a>,
    /// Ends with a null pointer, as `execve` wants it.
    words: &'s [*const c_char],
    environment: &'s [*const c_char],
    pid: &'s AtomicI32,
    failed: Option<Failed>,
}

impl Start<'_> {
    /// Starts the command. The child's pid, in the caller's namespace, is in `pid` before the child
    /// runs. A child that dies on the way counts as started: it is waited for like any other.
    pub(super) fn run(mut self, pid: &AtomicI32) -> Result<i32, Failed> {
        let (words, environment) = (pointers(self.words), pointers(self.environment));
        let mut stack = Vec::<u8>::with_capacity(STACK_BYTES);
        let blocked = Blocked::all();
        let mut shared = Shared { start: &mut self, words: &words, environment: &environment, pid, failed: None };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
        // SAFETY: the end of the allocation; stacks grow downwards.
        let top = unsafe { stack.as_mut_ptr().add(stack.capacity()) };
        let top = top.wrapping_sub(top.addr() % 16).cast::<c_void>();
        // SAFETY: `begin` gets the pointer that it expects. Stack and `shared` outlive its use of
        // them, because this call returns when the child has its own memory or has exited. The
        // other requirements are at the top of this module.
        let cloned = unsafe { libc::clone(begin, top, flags, (&raw mut shared).cast::<c_void>(), pid.as_ptr()) };
        let failed = shared.failed;
        drop(blocked);
        let cloned = Errno::result(cloned).map_err(Failed::Start)?;
        match failed {
            None => Ok(cloned),
            Some(failed) => {
                let child = rustix::process::Pid::from_raw(cloned);
                let _ = retry_on_intr(|| rustix::process::waitpid(child, rustix::process::WaitOptions::empty()));
                Err(failed)
            }
        }
    }
}

/// Entry point of the child. Its return value is its exit code.
extern "C" fn begin(shared: *mut c_void) -> c_int {
    // SAFETY: the caller gave this pointer and is suspended, so nothing else uses what it points
    // to.
    let shared = unsafe { &mut *shared.cast::<Shared<'_, '_>>() };
    shared.failed = Some(shared.become_command());
    NOT_STARTED
}

impl Shared<'_, '_> {
    /// Returns only on failure.
    fn become_command(&mut self) -> Failed {
        if let Err(failed) = self.prepare() {
            return failed;
        }
        let mut denied = Errno::ENOENT;
        for path in self.start.paths {
            // SAFETY: all three end with zero, and what they point to isn't changed.
            unsafe { libc::execve(path.as_ptr(), self.words.as_ptr(), self.environment.as_ptr()) };
            match Errno::last() {
                Errno::EACCES => denied = Errno::EACCES,
                Errno::ENOENT
                | Errno::ESTALE
                | Errno::ENOTDIR
                | Errno::ENODEV
                | Errno::ETIMEDOUT
                | Errno::ENAMETOOLONG => {}
                errno => return Failed::Start(errno),
            }
        }
        Failed::Start(denied)
    }

    fn prepare(&mut self) -> Result<(), Failed> {
        if let Some(lifeline) = self.start.lifeline {
            die_with_caller(lifeline).map_err(Failed::Start)?;
        }
        if self.start.own_group {
            setpgid(None, None).map_err(|error| Failed::Start(errno(error)))?;
        }
        self.record().map_err(Failed::Record)?;
        reset_signals(self.start.ignores_pipes);
        self.start.mask.thread_set_mask().map_err(Failed::Start)
    }

    /// Writes this process into each pulse.
    fn record(&mut self) -> Result<(), Errno> {
        if self.start.records.is_empty() {
            return Ok(());
        }
        let pid = i64::from(self.pid.load(Ordering::Relaxed));
        let start = if self.start.knows_start { started().unwrap_or(0) } else { 0 };
        for record in &mut self.start.records {
            let bytes = record.content.fill(ProcessRef { pid, start });
            let written = retry_on_intr(|| pwrite(record.pulse, bytes, 0)).map_err(errno)?;
            if written != bytes.len() {
                return Err(Errno::ENOSPC);
            }
        }
        Ok(())
    }
}

/// The start time of this process.
fn started() -> Option<i64> {
    let file = open(c"/proc/self/stat", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0_u8; STAT_BYTES];
    let length = retry_on_intr(|| read(&file, &mut text)).ok()?;
    start_in(text.get(..length)?)
}

/// Asks the kernel to kill this process when the calling thread ends. If the caller ended before
/// this request, the kernel kills nothing, but the caller's end of the pipe is closed.
fn die_with_caller(lifeline: &Lifeline) -> Result<(), Errno> {
    // Close our copy of that end, which would keep the pipe open.
    nix::unistd::close(lifeline.ours.as_raw_fd())?;
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(errno)?;
    let mut caller = [PollFd::new(&lifeline.child, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if matches!(poll(&mut caller, Some(&now)), Ok(0)) { Ok(()) } else { Err(Errno::ESRCH) }
}

/// Drops every handler: in this process it would run on the caller's memory. Ignored signals stay
/// ignored, except that SIGPIPE gets the disposition that our own parent set.
fn reset_signals(ignores_pipes: bool) {
    for signal in 1..=SIGNAL_MAX {
        // SAFETY: an action is plain data; zeros mean the default without flags.
        let (mut action, mut before) = unsafe { std::mem::zeroed::<(libc::sigaction, libc::sigaction)>() };
        // SAFETY: only queries. An invalid signal number is an error.
        if unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut before) } != 0 {
            continue;
        }
        // If one arrived in the meantime, it would suspend this process as soon as it is unblocked,
        // and with it the caller, which waits for it. Ignoring a signal discards it. The caller got
        // its own, and is suspended with its group.
        if STOPS.contains(&signal) && before.sa_sigaction == libc::SIG_DFL {
            action.sa_sigaction = libc::SIG_IGN;
            // SAFETY: neither of the two runs any code.
            unsafe {
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
                libc::sigaction(signal, &raw const before, std::ptr::null_mut());
            }
            continue;
        }
        let is_handled = !matches!(before.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
        let is_pipe = signal == libc::SIGPIPE;
        if is_pipe && ignores_pipes {
            action.sa_sigaction = libc::SIG_IGN;
        }
        if is_handled || is_pipe {
            // SAFETY: neither runs any code.
            unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        }
    }
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error())
}
