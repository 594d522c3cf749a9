//! The end of a round: whoever does not end by itself is killed, all at once, and waited for, all together.

use std::mem;
use std::os::unix::process::ExitStatusExt as _;

use crate::history::{Deed, Entry};
use rustix::process::Signal;

use super::Tidings;
use super::round::{Round, Worker};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::machine::monotonic_ns;
use lokt_sys::wait_policy::Interrupt;

/// How long after its time a process may take to end by itself: it may wait for somebody who was stopped.
const ENDING_NS: u64 = 5_000_000_000;
/// How long those that were killed may take to end, all together. Until a slow disk has answered a system call nothing ends it.
const DYING_NS: u64 = 60_000_000_000;
/// Whoever waits for that longer than this is told so.
const DYING_TOLD_NS: u64 = 2_000_000_000;
/// How often it is looked whether they have ended; mostly the first look finds it.
const DYING_LOOK_NS: u64 = 2_000_000;
/// How those end that were killed.
const SIGKILL: i32 = Signal::KILL.as_raw();
const HANGS: &str =
    "they hang in a system call that does not return: the disk, or the server behind it, is too slow or broken";

impl Round<'_> {
    /// Sees to it that nobody is left: they end by themselves, or are killed. True: the alarm went off meanwhile.
    pub(super) fn end(
        &mut self,
        mut workers: Vec<Worker>,
        interrupted: bool,
        alarm: &mut dyn Interrupt,
        tell: &mut dyn FnMut(Tidings),
    ) -> Result<bool, Error> {
        self.go_on(&mut workers, u64::MAX)?;
        let deadline = if interrupted || self.trouble.is_some() { 0 } else { self.until + ENDING_NS };
        let mut is_raised = false;
        while !workers.is_empty() && monotonic_ns() < deadline && !is_raised {
            is_raised = self.listen(deadline, alarm)?;
            self.leave_those_who_run(&mut workers)?;
        }
        self.leave_those_who_run(&mut workers)?;
        // All of them first: whoever waits for one, waits for all.
        for mut worker in workers {
            self.kill(&mut worker)?;
            self.dying.push(worker);
        }
        is_raised |= self.see_them_end(alarm, tell)?;
        // What they told before their end is in the pipe, and nothing comes after it.
        self.hear()?;
        Ok(is_raised)
    }

    fn leave_those_who_run(&self, workers: &mut Vec<Worker>) -> Result<(), Error> {
        for mut worker in mem::take(workers) {
            if worker.beast.ended().map_err(|error| self.cant("look after", error))?.is_none() {
                workers.push(worker);
            }
        }
        Ok(())
    }

    /// Waits for the end of those that were killed. True: the alarm went off, and nobody is waited for any more.
    fn see_them_end(&mut self, alarm: &mut dyn Interrupt, tell: &mut dyn FnMut(Tidings)) -> Result<bool, Error> {
        let since = monotonic_ns();
        loop {
            self.bury()?;
            let (left, now) = (self.dying.len(), monotonic_ns());
            if left == 0 {
                return Ok(false);
            }
            if now >= since + DYING_NS {
                let why = format!("{left} killed processes have not ended in {} s", DYING_NS / 1_000_000_000);
                self.give_up(Error::new(ErrorKind::Io, why).hint(HANGS));
                return Ok(false);
            }
            if now >= since + DYING_TOLD_NS {
                tell(Tidings::Dying(left));
            }
            if self.listen(now + DYING_LOOK_NS, alarm)? {
                return Ok(true);
            }
        }
    }

    /// Kills it. What it is inside of it has had until now, whether or not it was stopped and could say so.
    pub(super) fn kill(&self, worker: &mut Worker) -> Result<(), Error> {
        let now = monotonic_ns();
        // Whoever was killed before may be losing its locks at this moment.
        if worker.seen_alive.is_none()
            && worker.beast.ended().map_err(|error| self.cant("look after", error))?.is_none()
        {
            worker.seen_alive = Some(now);
        }
        worker.beast.kill().map_err(|error| self.cant("kill", error))
    }

    /// Writes down who of those that were killed has ended by now.
    pub(super) fn bury(&mut self) -> Result<(), Error> {
        for mut worker in mem::take(&mut self.dying) {
            let Some(how) = worker.beast.ended().map_err(|error| self.cant("look after", error))? else {
                self.dying.push(worker);
                continue;
            };
            // One that was ending by itself loses its locks a moment before that can be seen.
            if let (Some(at), Some(SIGKILL)) = (worker.seen_alive, how.signal()) {
                self.add(Entry { at, who: worker.who, deed: Deed::Killing });
            }
            self.note(worker.who, Deed::Killed);
        }
        Ok(())
    }
}
