//! Signals: blocked for a thread that is inside the mutex, and received one by one where they are
//! forwarded.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lokt_core::proc::ignores_signal;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::{DumpableBehavior, Resource, getrlimit, set_dumpable_behavior};

use super::inherited::listen_to_children;
use super::wakeup::{WakeHandle, Wakeup, sleep_on};
use crate::wait_policy::Interrupt;

/// Blocks signals of this thread until it is dropped.
pub struct Blocked {
    before: Option<SigSet>,
}

impl Blocked {
    /// Blocks the signals by which a terminal suspends a process; Ctrl-C still ends it.
    pub fn stops() -> Self {
        let mut stops = SigSet::empty();
        for signal in [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU] {
            stops.add(signal);
        }
        // Continue if this fails: a signal inside the mutex costs other processes time, never
        // safety.
        Self { before: stops.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok() }
    }

    /// Blocks every signal that can be blocked.
    pub fn all() -> Self {
        Self { before: SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK).ok() }
    }

    /// Blocks the signal that the kernel sends for a write beyond the file size limit: the error is
    /// enough.
    pub fn file_size() -> Self {
        Self { before: file_size().thread_swap_mask(SigmaskHow::SIG_BLOCK).ok() }
    }

    /// Also blocks all other signals that can be blocked, until it is dropped.
    #[must_use]
    pub fn and_all(self) -> Self {
        let _ = SigSet::all().thread_block();
        self
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = before.thread_set_mask();
        }
    }
}

/// Starts a thread that receives no signals: every signal that can be blocked is blocked from its
/// start.
pub fn spawn_deaf(work: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    let _blocked = Blocked::all();
    thread::Builder::new().stack_size(DEAF_STACK_BYTES).spawn(work)
}

/// Consumes the signal that the kernel sent after a write at `position` failed because of the file
/// size limit, if the signal is blocked. Otherwise it would end the process later, when the change
/// is made but not yet reported.
pub(super) fn forget_file_size(position: u64) {
    let is_blocked = SigSet::thread_get_mask().is_ok_and(|mask| mask.contains(Signal::SIGXFSZ));
    // Below the limit, or without one, the error has another cause and there is no signal, so
    // waiting for it would never end.
    if is_blocked && getrlimit(Resource::Fsize).current.is_some_and(|limit| limit <= position) {
        let _ = file_size().wait();
    }
}

fn file_size() -> SigSet {
    SigSet::from(Signal::SIGXFSZ)
}

/// Dies of this signal, so that our parent sees what ended us; a shell needs that to end its loop
/// at Ctrl-C. Returns if the signal doesn't end the process. There is no handler in the way: a
/// [`SignalQueue`] blocks signals. There is no core dump, because nothing went wrong.
pub fn die_of(number: i32) {
    let Ok(signal) = Signal::try_from(number) else { return };
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = SigSet::from(signal).thread_unblock();
    let _ = raise(signal);
}

/// Lets signals end this process again, for its last step: writing an answer that may have no
/// reader. A [`SignalQueue`] blocks them, and by then it is no longer read.
pub fn let_signals_end_us() {
    let mut ends = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        ends.add(signal);
    }
    let _ = ends.thread_unblock();
}

/// Signals that are forwarded to a command.
const FORWARDED: [Signal; 7] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];
/// `si_code` of a signal sent by the kernel itself, as for a terminal, to a whole process group.
const SI_KERNEL: i32 = 0x80;

/// Stack size of a thread that does little.
const DEAF_STACK_BYTES: usize = 64 << 10;

/// Maximum sleep without an event; any event ends it.
const LISTENING: Duration = Duration::from_secs(3_600);

/// A received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub number: i32,
    /// True if the terminal sent it, to all processes in the foreground.
    pub from_terminal: bool,
}

impl Arrived {
    /// Reports whether a child of ours changed its state.
    pub fn is_child(self) -> bool {
        self.number == Signal::SIGCHLD as i32
    }

    /// Reports whether it ends a process that doesn't handle it.
    pub fn ends(self) -> bool {
        !self.is_child() && self.number != Signal::SIGWINCH as i32
    }
}

/// Signals of this process as a readable queue. Once it is open, they have no effect of their own.
/// Threads that are started later also block them, and so do commands that are started by `std`; a
/// guard's command doesn't.
pub struct SignalQueue {
    fd: SignalFd,
    /// The signals that were blocked before.
    before: SigSet,
    /// The received signals, as bits by number; one of them may have ended the command, too.
    came: u64,
    /// The signal that ended a wait, or the command together with us.
    ended_by: Option<i32>,
}

impl SignalQueue {
    /// Opens the queue. Must be called before the first thread is started.
    pub fn open() -> io::Result<Self> {
        listen_to_children();
        let mut set = SigSet::empty();
        for signal in FORWARDED {
            set.add(signal);
        }
        set.add(Signal::SIGCHLD);
        let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { fd, before, came: 0, ended_by: None })
    }

    /// Returns the next signal. Signals that our parent told us to ignore are skipped: `nohup`
    /// applies to the command, too.
    pub fn take(&mut self) -> Option<Arrived> {
        loop {
            let info = self.fd.read_signal().ok()??;
            let arrived = Arrived {
                number: i32::try_from(info.ssi_signo).unwrap_or(0),
                from_terminal: info.ssi_code == SI_KERNEL,
            };
            if arrived.is_child() || !is_ignored(arrived.number) {
                self.came |= bit(arrived.number);
                return Some(arrived);
            }
        }
    }

    /// Runs `work`, and sets `halt` when a signal arrives that would end the process, so that the
    /// work can stop and clean up. Returns the first such signal. Afterwards signals have their
    /// previous effect.
    pub fn during<T>(mut self, halt: &AtomicBool, work: impl FnOnce() -> T) -> io::Result<(T, Option<i32>)> {
        let over = Wakeup::new()?;
        let before = self.before;
        let done = thread::scope(|scope| {
            // Also if the work panics: otherwise the scope would wait for a listener that never
            // ends.
            let ring = RingAtEnd(over.rope());
            let listener = thread::Builder::new().spawn_scoped(scope, || {
                let mut first = None;
                while sleep_on(&[self.as_fd(), over.as_fd()], LISTENING).is_ok() {
                    if self.is_raised() {
                        halt.store(true, Ordering::Relaxed);
                        first = first.or(self.ended_by);
                    }
                    if over.heard() {
                        break;
                    }
                }
                first
            })?;
            let done = work();
            drop(ring);
            Ok((done, listener.join().unwrap_or_default()))
        });
        let _ = before.thread_set_mask();
        done
    }

    /// The signals that were blocked before the queue was opened: the mask for a command.
    pub fn before(&self) -> &SigSet {
        &self.before
    }

    /// Notes that the command died of this signal. If we received it too, it ends both.
    pub fn command_died_of(&mut self, number: i32) {
        if self.came & bit(number) != 0 {
            self.ended_by = Some(number);
        }
    }

    /// The signal that ended a wait, or the command together with us.
    pub fn ended_by(&self) -> Option<i32> {
        self.ended_by
    }
}

/// Rings the wakeup when it is dropped.
struct RingAtEnd(WakeHandle);

impl Drop for RingAtEnd {
    fn drop(&mut self) {
        self.0.ring();
    }
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Interrupt for SignalQueue {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }

    fn is_raised(&mut self) -> bool {
        while let Some(arrived) = self.take() {
            if arrived.ends() {
                self.ended_by = Some(arrived.number);
                return true;
            }
        }
        false
    }
}

/// Reports whether this process ignores this signal. Checked when one arrives, because most guards
/// never get any.
fn is_ignored(number: i32) -> bool {
    // It contains our own name, which need not be valid text.
    let status = fs::read("/proc/self/status").unwrap_or_default();
    ignores_signal(&String::from_utf8_lossy(&status), number)
}

/// The bit of a signal in a set of signals.
fn bit(number: i32) -> u64 {
    number.checked_sub(1).and_then(|shift| 1_u64.checked_shl(u32::try_from(shift).ok()?)).unwrap_or(0)
}
