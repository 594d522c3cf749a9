//! Signals that arrive at the worst moment.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use lokt_core::guard::{GuardConfig, OnLost, Outcome};
use nix::sys::signal::{self, raise};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::*;
use crate::guardable::LOOK_MS;
use lokt_sys::machine::Linux;
use lokt_sys::spawn::spawn;

/// A hold whose check lasts until a signal to both has ended the command: after the guard has
/// checked for signals, and before it checks for the command's end. The signal isn't that of
/// Ctrl-C: processes in the background of a script ignore that one.
struct Ctrl(Pid);

impl Renewable for Ctrl {
    fn name(&self) -> &'static str {
        "name"
    }

    fn renew(&self) -> WithWarnings<Renewal> {
        unreachable!("it has no lease")
    }

    fn look(&self) -> Outcome {
        kill_process(self.0, Signal::TERM).expect("it is our child");
        waitid(WaitId::Pid(self.0), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("it is our child");
        // Only to this thread: the other tests run in others.
        raise(signal::Signal::SIGTERM).expect("it is a signal");
        Outcome::Kept { late_ms: None }
    }
}

struct Held {
    pid: Pid,
    /// Set once `has_heirs` has been asked and has returned true.
    asked: AtomicBool,
}

impl Guardable for Held {
    fn minded(&self) -> Arc<dyn Renewable> {
        Arc::new(Ctrl(self.pid))
    }

    fn release(self: Box<Self>, _ended: Option<Ended>) -> WithWarnings<Outcome> {
        WithWarnings { value: Outcome::Kept { late_ms: None }, warnings: Vec::new() }
    }

    fn has_heirs(&self, wakeup: &Wakeup) -> bool {
        wakeup.rope().ring();
        !self.asked.swap(true, Ordering::Relaxed)
    }
}

/// Returns the exit code, the signal that ended both, and the warnings.
fn interrupted(until_all: bool) -> (u8, Option<i32>, Vec<Warning>) {
    let mut inbox = SignalQueue::open().expect("signals can be read");
    let pid = spawn(Command::new("sleep").arg("60"), false, inbox.before(), Vec::new()).expect("it can be started");
    let (machine, mut told) = (Arc::new(Linux), Vec::new());
    let now_ms = machine.now().monotonic_ms;
    let config = GuardConfig { ttl_sec: None, on_lost: OnLost::Fail, until_all, look_ms: Some(LOOK_MS) };
    let guard = Guard::new(config, &[now_ms], now_ms);
    let kept: Box<dyn Guardable> = Box::new(Held { pid, asked: AtomicBool::new(false) });
    let shell = Shell::new(machine, vec![Some(kept)], pid, false);
    let code = shell.drive(guard, &mut inbox, &mut |notice| told.push(notice.warning.clone())).expect("it runs");
    (code, inbox.ended_by(), told)
}

#[test]
fn an_interrupt_just_before_the_command_is_reaped_is_the_end_of_both() {
    let (code, ended_by, told) = interrupted(false);
    assert_eq!((code, ended_by), (143, Some(15)), "a loop around the guard would go on");
    assert_eq!(told, []);
}

#[test]
fn what_ended_the_command_does_not_end_the_wait_for_what_it_left_behind() {
    let (code, ended_by, told) = interrupted(true);
    assert_eq!((code, ended_by), (143, Some(15)), "a loop around the guard would go on");
    assert_eq!(told, [], "it was one signal, not two");
}
