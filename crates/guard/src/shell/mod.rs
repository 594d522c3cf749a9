//! A running guard: feeds signals, the clock, renewals and the command's state to the state machine
//! in `core`, and carries out the actions that it returns.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use lokt_core::guard::{Action, Ended, Event, Guard, Warning};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgrp, getpid, getsid, kill_process, kill_process_group, waitpid,
};

use crate::clock::ClockKind;
use crate::guardable::{Guardable, Renewable, Renewal};
use crate::run::Notice;
use lokt_sys::boot_timer::BootTimer;
use lokt_sys::machine::Machine;
use lokt_sys::signals::{Arrived, Blocked, SignalQueue};
use lokt_sys::terminal::Terminal;
use lokt_sys::wakeup::{Wakeup, sleep_on};
use lokt_sys::warnings::{self, WithWarnings};

/// Maximum sleep when the state machine names no time to wake.
const NAP_MAX: Duration = Duration::from_secs(60);

/// Result of a job that ran in a thread, with its warnings.
type Done = (Event, Vec<warnings::Warning>);

/// A running guard.
pub struct Shell {
    machine: Arc<dyn Machine>,
    clock: ClockKind,
    kept: Vec<Option<Box<dyn Guardable>>>,
    minded: Vec<Arc<dyn Renewable>>,
    pid: Pid,
    own_group: bool,
    /// The terminal, while the command has the foreground that we gave it.
    terminal: Option<Terminal>,
    /// Rung by renewals and by the last heir of the pulse; created when first needed.
    wakeup: Option<Wakeup>,
    /// Wakes us in time even if the machine was suspended, where that matters.
    waker: Option<BootTimer>,
    /// Results of renewals and checks, with their warnings.
    send: mpsc::Sender<Done>,
    done: mpsc::Receiver<Done>,
    /// Number of jobs under way. Stop signals are blocked while there are any: a guard that the
    /// terminal suspends must not keep the mutex locked.
    stops: Option<(usize, Blocked)>,
    /// The end of the command. Processes that it left behind may still be waited for.
    ended: Option<Ended>,
    /// Set once the command was told to terminate.
    terminated: bool,
    /// Indices of the lost holds.
    lost: Vec<usize>,
}

impl Shell {
    /// Returns a shell for the command `pid`, which runs under `kept`.
    pub fn new(machine: Arc<dyn Machine>, kept: Vec<Option<Box<dyn Guardable>>>, pid: Pid, own_group: bool) -> Self {
        let minded = kept.iter().flatten().map(|kept| kept.minded()).collect();
        let (send, done) = mpsc::channel();
        Self {
            machine,
            clock: ClockKind::default(),
            kept,
            minded,
            pid,
            own_group,
            terminal: None,
            wakeup: None,
            waker: None,
            send,
            done,
            stops: None,
            ended: None,
            terminated: false,
            lost: Vec::new(),
        }
    }

    /// Uses `clock` instead of `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn on_clock(self, clock: ClockKind) -> Self {
        Self { clock, ..self }
    }

    /// Adds a timer for a guard that must not oversleep.
    #[must_use]
    pub fn waking_in_time(mut self) -> Self {
        // Without the timer, it wakes as late as the next check.
        self.waker = BootTimer::new().ok();
        self
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ms(&*self.machine)
    }

    /// Carries out the actions of `machine` until the command has ended and everything is released.
    /// Returns the exit code.
    pub fn drive(
        mut self,
        mut machine: Guard,
        inbox: &mut SignalQueue,
        tell: &mut dyn FnMut(&Notice<'_>),
    ) -> io::Result<u8> {
        let mut events = VecDeque::new();
        loop {
            if let Some(code) = self.work_off(&mut machine, &mut events, tell) {
                return Ok(code);
            }
            let nap = machine.wake_at().map_or(NAP_MAX, |at| Duration::from_millis(at.saturating_sub(self.now_ms())));
            let mut fds = vec![inbox.as_fd()];
            fds.extend(self.wakeup.as_ref().map(Wakeup::as_fd));
            fds.extend(self.waker.as_ref().and_then(|waker| waker.set(nap)));
            sleep_on(&fds, nap)?;
            let rung = self.wakeup.as_ref().is_some_and(Wakeup::heard);
            // A renewal that was done in time counts, even if we hear of it late.
            self.receive(&mut events, tell);
            events.push_back(Event::Tick);
            events.extend(self.arrived(inbox));
            // Signals may be for the command. Once it is reaped, its pid may belong to another
            // process.
            if let Some(code) = self.work_off(&mut machine, &mut events, tell) {
                return Ok(code);
            }
            // Checked on every wakeup, whatever caused it.
            let ended = self.reap()?;
            events.extend(ended.clone());
            if let Some(Event::Ended(Ended::Signal(number))) = ended {
                // Ctrl-C may have reached us both since the last check. The command already
                // received it; don't count it twice.
                let number = i32::from(number);
                let is_other = |event: &Event| !matches!(event, Event::Signal { number: came, .. } if *came == number);
                events.extend(self.arrived(inbox).into_iter().filter(is_other));
                inbox.command_died_of(number);
            }
            if rung && self.ended.is_some() && !self.has_heirs() {
                events.push_back(Event::AllGone);
            }
            self.pass_foreground();
        }
    }

    /// Returns the signals that arrived for this process.
    fn arrived(&self, inbox: &mut SignalQueue) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(arrived) = inbox.take() {
            if !arrived.is_child() {
                let from_terminal = arrived.from_terminal && self.command_has_got(arrived);
                events.push(signal(Arrived { from_terminal, ..arrived }));
            }
        }
        events
    }

    /// Collects the results of jobs that ran in threads.
    fn receive(&mut self, events: &mut VecDeque<Event>, tell: &mut dyn FnMut(&Notice<'_>)) {
        while let Ok((event, warnings)) = self.done.try_recv() {
            self.one_less_under_way();
            if let Event::Renewed { hold, .. } = event {
                self.tell_beside(hold, warnings, tell);
            }
            events.push_back(event);
        }
    }

    /// Handles all events and the actions that follow from them. Returns the exit code if the guard
    /// has finished.
    fn work_off(
        &mut self,
        machine: &mut Guard,
        events: &mut VecDeque<Event>,
        tell: &mut dyn FnMut(&Notice<'_>),
    ) -> Option<u8> {
        while let Some(event) = events.pop_front() {
            for action in machine.step(self.now_ms(), event) {
                match action {
                    Action::Finish(code) => {
                        self.leave_lost();
                        return Some(code);
                    }
                    action => events.extend(self.perform(action, tell)),
                }
            }
        }
        None
    }

    /// Removes the pulses of lost holds: no record names them any more.
    fn leave_lost(&mut self) {
        for hold in std::mem::take(&mut self.lost) {
            // Already released, if the release discovered the loss.
            if let Some(kept) = self.kept[hold].take() {
                kept.leave();
            }
        }
    }

    /// Reports whether the terminal sent this signal to the command too. It sends nothing to
    /// another process group than ours, and a hangup only to the session leader.
    fn command_has_got(&self, arrived: Arrived) -> bool {
        let leads = || getsid(None).is_ok_and(|session| session == getpid());
        let line_lost = arrived.number == Signal::HUP.as_raw() && leads();
        !(self.own_group || line_lost)
    }

    /// Returns the end of the command, if it has ended. If it was suspended, calls `stop_too`.
    fn reap(&mut self) -> io::Result<Option<Event>> {
        if self.ended.is_some() {
            return Ok(None);
        }
        let options = WaitOptions::NOHANG | if self.own_group { WaitOptions::UNTRACED } else { WaitOptions::empty() };
        let Some((_, status)) = waitpid(Some(self.pid), options)? else { return Ok(None) };
        if let Some(signal) = status.stopping_signal() {
            self.stop_too(signal);
            return Ok(None);
        }
        let ended = ended(status);
        self.ended = Some(ended);
        if self.terminated {
            // The rest of the group had as much time as its leader.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        if let Some(terminal) = self.terminal.take() {
            terminal.take_back();
        }
        Ok(Some(Event::Ended(ended)))
    }

    /// Suspends this process too, if the command was suspended in the foreground that we gave it,
    /// or because it isn't in the foreground and wants something from the terminal. The shell must
    /// see its whole job suspended, and it continues us, not the command.
    fn stop_too(&mut self, signal: i32) {
        let signal = [Signal::TTIN, Signal::TTOU].into_iter().find(|wants| wants.as_raw() == signal);
        if signal.is_some() && self.pass_foreground() {
            return;
        }
        match self.terminal.take() {
            Some(terminal) => terminal.take_back(),
            // A command that was suspended by hand is continued by hand.
            None if signal.is_none() => return,
            None => {}
        }
        let _ = kill_process_group(getpgrp(), signal.unwrap_or(Signal::TSTP));
        if !self.pass_foreground() {
            let _ = kill_process_group(self.pid, Signal::CONT);
        }
    }

    /// Makes the command the foreground if we are. A shell may move us to the foreground at any
    /// time, without notice.
    pub fn pass_foreground(&mut self) -> bool {
        let ours = if self.own_group && self.ended.is_none() { Terminal::ours() } else { None };
        let Some(terminal) = ours else { return false };
        terminal.give_to(self.pid);
        // It may have asked for the terminal too early, and been suspended for that.
        let _ = kill_process_group(self.pid, Signal::CONT);
        self.terminal = Some(terminal);
        true
    }

    fn perform(&mut self, action: Action, tell: &mut dyn FnMut(&Notice<'_>)) -> Option<Event> {
        match action {
            Action::Renew(hold) => self.renew(hold, tell),
            Action::Look(hold) => self.look(hold, tell),
            Action::Forward(number) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    let _ = kill_process(self.pid, signal);
                }
                None
            }
            Action::Warn(warning) => {
                let warning = self.with_successor(warning);
                let about = match &warning {
                    Warning::Late { hold, .. }
                    | Warning::Expired { hold, .. }
                    | Warning::RenewalFailed { hold, .. }
                    | Warning::Lost { hold, .. }
                    | Warning::ReleaseFailed { hold, .. }
                    | Warning::Beside { hold, .. } => *hold,
                    Warning::LeftBehind => 0,
                };
                if matches!(warning, Warning::Lost { .. } | Warning::Expired { .. }) {
                    self.lost.push(about);
                }
                tell(&Notice { name: self.minded[about].name(), warning: &warning });
                None
            }
            Action::Terminate => {
                self.terminated = true;
                self.end_group(Signal::TERM)
            }
            Action::Kill => self.end_group(Signal::KILL),
            Action::AwaitAll => {
                self.kept.iter_mut().flatten().for_each(|kept| kept.leave_to_heirs());
                (!self.has_heirs()).then_some(Event::AllGone)
            }
            Action::Release(hold) => self.kept[hold].take().map(|kept| {
                // By now the record may belong to another holder.
                let WithWarnings { value: outcome, warnings } = kept.release(self.ended);
                self.tell_beside(hold, warnings, tell);
                Event::Released { hold, outcome }
            }),
            Action::Finish(_) => None,
        }
    }

    /// Turns an expiry into a loss if there is a new holder: that says more.
    fn with_successor(&self, warning: Warning) -> Warning {
        match warning {
            Warning::Expired { hold, stops } => match self.minded[hold].successor() {
                Some(holder) => Warning::Lost { hold, holder: Some(Box::new(holder)), stops },
                None => warning,
            },
            _ => warning,
        }
    }

    fn tell_beside(&self, hold: usize, warnings: Vec<warnings::Warning>, tell: &mut dyn FnMut(&Notice<'_>)) {
        for what in warnings {
            tell(&Notice {
                name: self.minded[hold].name(),
                warning: &Warning::Beside { hold, what: what.to_string() },
            });
        }
    }

    fn end_group(&self, signal: Signal) -> Option<Event> {
        let _ = kill_process_group(self.pid, signal);
        None
    }

    /// Reports whether a process that the command left behind keeps a pulse. If so, the wakeup
    /// rings when none does any more.
    fn has_heirs(&mut self) -> bool {
        let Some(wakeup) = self.wakeup() else { return false };
        self.kept.iter().flatten().any(|kept| kept.has_heirs(&wakeup))
    }

    fn one_less_under_way(&mut self) {
        self.stops = self.stops.take().and_then(|(under_way, stops)| (under_way > 1).then(|| (under_way - 1, stops)));
    }

    fn wakeup(&mut self) -> Option<Wakeup> {
        if self.wakeup.is_none() {
            self.wakeup = Wakeup::new().ok();
        }
        self.wakeup.clone()
    }

    fn renew(&mut self, hold: usize, tell: &mut dyn FnMut(&Notice<'_>)) -> Option<Event> {
        let renewal = move |minded: &dyn Renewable| {
            let WithWarnings { value: Renewal { began_ms, outcome }, warnings } = minded.renew();
            (Event::Renewed { hold, began_ms, outcome }, warnings)
        };
        self.beside(hold, renewal, tell)
    }

    fn look(&mut self, hold: usize, tell: &mut dyn FnMut(&Notice<'_>)) -> Option<Event> {
        let look = move |minded: &dyn Renewable| (Event::Looked { hold, outcome: minded.look() }, Vec::new());
        if self.minded[hold].looks_aside() { self.beside(hold, look, tell) } else { Some(look(&*self.minded[hold]).0) }
    }

    /// Runs `job` in a thread, or here if no thread can be started.
    fn beside(
        &mut self,
        hold: usize,
        job: impl Fn(&dyn Renewable) -> Done + Clone + Send + 'static,
        tell: &mut dyn FnMut(&Notice<'_>),
    ) -> Option<Event> {
        let Some(wakeup) = self.wakeup() else {
            let (event, warnings) = job(&*self.minded[hold]);
            self.tell_beside(hold, warnings, tell);
            return Some(event);
        };
        let (under_way, stops) = self.stops.take().unwrap_or_else(|| (0, Blocked::stops()));
        self.stops = Some((under_way + 1, stops));
        let (minded, send, rope) = (Arc::clone(&self.minded[hold]), self.send.clone(), wakeup.rope());
        let theirs = job.clone();
        let spawned = thread::Builder::new().stack_size(256 << 10).spawn(move || {
            // Sending fails only if the guard is gone.
            let _ = send.send(theirs(&*minded));
            rope.ring();
        });
        if spawned.is_ok() {
            return None;
        }
        let (event, warnings) = job(&*self.minded[hold]);
        self.one_less_under_way();
        self.tell_beside(hold, warnings, tell);
        Some(event)
    }
}

fn signal(arrived: Arrived) -> Event {
    Event::Signal { number: arrived.number, ends: arrived.ends(), from_terminal: arrived.from_terminal }
}

fn ended(status: WaitStatus) -> Ended {
    let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ended::Code(byte(code)),
        (None, signal) => Ended::Signal(byte(signal.unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests;
