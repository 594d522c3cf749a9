//! Running a command under locks, under a claim or under the lease of a worktree. What to do next is decided by [`lokt_core::guard::Guard`]; this does it.
//!
//! [`shell`] drives it: one thread sleeps on the signals of the process, and on the clock. Renewals run in threads of their own, one per renewal and only when
//! there is one, so a busy root never keeps a signal from the command. Everything that was granted is released when the direct child has
//! ended; the pulse, which the command inherits, keeps the lock if the guard is killed first.

mod boottime;
mod claim;
mod kept;
mod lease;
mod lease_pulse;
mod shell;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;

use lokt_core::badges::Badges;
use lokt_core::decide::Terms;
use lokt_core::guard::{Ended, Guard, Manners, OnLost, Outcome, Warning};
use lokt_core::hold::{Fence, Hold};
use lokt_core::name::LockName;

use crate::error::Error;
use crate::grasp::{Grasp, Grasped};
use crate::locks::{Lokt, Refusal, Said};
use crate::sys::signals::Inbox;
use crate::sys::spawn::spawn;
use crate::wait::{Alarm as _, Patience, Timeout};
use kept::Kept;
use shell::Shell;

pub use claim::ClaimGuard;
pub use lease::{LeaseGuard, LeaseGuarding};

/// What came of asking for a guard's holds.
pub enum Guarding {
    /// They are ours: run something.
    Granted(Box<Guarded>),
    /// None of them is.
    Denied {
        /// Which name stood in the way.
        name: LockName,
        /// Why.
        refusal: Refusal,
    },
    /// None of them is, because the wait was interrupted.
    Interrupted,
}

/// Holds under which a command can run. Dropped without running one, they are given back.
pub struct Guarded {
    lokt: Lokt,
    grasps: Vec<Option<Grasp>>,
    holds: Vec<(LockName, Hold)>,
    inside: Badges,
    terms: Terms,
    /// How long they may be waited for, since when on the monotonic clock.
    timeout: Timeout,
    asked_ms: u64,
    /// One of them took the place of what another program left.
    beside_foreign: bool,
}

/// Another program took away what a guard had been granted before its command was started, and it could not be granted again. An error of
/// [`Guarded::run`] has it in it.
#[derive(Debug)]
pub enum Overtaken {
    /// It is refused now.
    Refused {
        /// Which name stood in the way.
        name: LockName,
        /// Why.
        refusal: Refusal,
    },
    /// Asking again failed.
    Failed(Error),
}

impl fmt::Display for Overtaken {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { name, .. } => write!(to, "another program has taken lock {name} away"),
            Self::Failed(error) => error.fmt(to),
        }
    }
}

impl std::error::Error for Overtaken {}

/// How to run a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Habits {
    /// What to do about a lost lock.
    pub on_lost: OnLost,
    /// Hold the locks until everything that the command leaves behind has ended.
    pub until_all: bool,
    /// Let the command inherit the pulse, so that it keeps the lock even if the guard is killed.
    pub pass_pulse: bool,
}

/// A run that is over, with everything given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// The code to exit with.
    pub code: u8,
    /// False: a signal came before the command was started.
    pub started: bool,
}

/// Something went wrong when the command had been started.
#[derive(Debug)]
struct AfterStart(io::Error);

impl fmt::Display for AfterStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for AfterStart {}

/// Had the command been started when this error of running it came up?
pub fn had_started(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<AfterStart>)
}

/// Drives a command that was started to its end.
fn drive(shell: Shell, machine: Guard, inbox: &mut Inbox, tell: &mut dyn FnMut(&Notice<'_>)) -> io::Result<Finished> {
    let driven = shell.drive(machine, inbox, tell);
    driven.map(|code| Finished { code, started: true }).map_err(|error| io::Error::other(AfterStart(error)))
}

/// Whoever pressed Ctrl-C while something was being taken pressed it before there was a command to reach.
fn interrupted(inbox: &mut Inbox) -> Option<Finished> {
    inbox.went_off().then(|| before_start(inbox))
}

/// A run that a signal ended before there was a command.
fn before_start(inbox: &Inbox) -> Finished {
    let signal = inbox.ended_by().and_then(|signal| u8::try_from(signal).ok()).unwrap_or(0);
    Finished { code: Ended::Signal(signal).code(), started: false }
}

/// What the user should know while the command runs. Whoever is told must return at once: the thread that tells is the one that
/// renews, and that stops the command in time.
#[derive(Debug)]
pub struct Notice<'a> {
    /// About which lock or node.
    pub name: &'a str,
    /// What.
    pub warning: &'a Warning,
}

impl Lokt {
    /// Asks for a guard's hold of each of `names`, all or nothing. `inside` is what the caller runs under already.
    pub fn guard(
        &self,
        names: &[LockName],
        terms: &Terms,
        inside: &Badges,
        patience: &mut Patience<'_>,
    ) -> Result<Said<Guarding>, Error> {
        let (timeout, asked_ms) = (patience.timeout, self.now().monotonic_ms);
        let Said { value, warnings } = self.grasp(names, terms, inside, patience)?;
        let value = match value {
            Grasped::All { grasps, holds } => {
                let beside_foreign = grasps.iter().any(|grasp| grasp.was_foreign);
                let grasps = grasps.into_iter().map(Some).collect();
                let (lokt, inside, terms) = (self.clone(), inside.clone(), terms.clone());
                let guarded = Guarded { lokt, grasps, holds, inside, terms, timeout, asked_ms, beside_foreign };
                Guarding::Granted(Box::new(guarded))
            }
            Grasped::Denied { name, refusal } => Guarding::Denied { name, refusal },
            Grasped::Interrupted => Guarding::Interrupted,
        };
        Ok(Said { value, warnings })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Guarded {
    /// Every name with its hold, in byte order.
    pub fn holds(&self) -> &[(LockName, Hold)] {
        &self.holds
    }

    /// Runs `command` and gives the locks back when it has ended. Of the command only words and environment count; it runs in our directory
    /// and with our descriptors. It runs only after its pid was recorded in each pulse; an error with a
    /// [`crate::NotRecorded`] in it says that this failed, one with an [`Overtaken`] that another program
    /// took a lock away before. Other errors are of starting it, unless it [had started](had_started).
    pub fn run(
        mut self,
        command: &mut Command,
        ttl_sec: Option<u64>,
        habits: Habits,
        inbox: &mut Inbox,
        tell: &mut dyn FnMut(&Notice<'_>),
    ) -> io::Result<Finished> {
        if self.beside_foreign && !self.make_sure(inbox, tell)? {
            return Ok(before_start(inbox));
        }
        self.describe(command);
        let own_group = habits.on_lost == OnLost::Stop;
        let pulses = self.inheritable(habits.pass_pulse)?;
        if let Some(finished) = interrupted(inbox) {
            return Ok(finished);
        }
        let records = self.grasps.iter().flatten().filter_map(Grasp::record).collect::<io::Result<_>>()?;
        let pid = spawn(command, own_group, inbox.before(), records)?;
        drop(pulses);
        let began: Vec<u64> = self.grasps.iter().flatten().map(Grasp::began_ms).collect();
        let manners = Manners { ttl_sec, on_lost: habits.on_lost, until_all: habits.until_all };
        let machine = Guard::new(manners, &began, self.lokt.now().monotonic_ms);
        let kept = |grasp: Option<Grasp>| grasp.map(|grasp| Box::new(grasp) as Box<dyn Kept>);
        let kept = std::mem::take(&mut self.grasps).into_iter().map(kept).collect();
        let mut shell = Shell::new(self.lokt.shared_machine(), kept, pid, own_group);
        shell.pass_foreground();
        drive(shell, machine, inbox, tell)
    }

    /// The last one first.
    fn give_back(&mut self) {
        while let Some(grasp) = self.grasps.pop() {
            grasp.map(Grasp::release);
        }
    }

    /// Asks again for what another program took away: it may have judged the same stale record, and have removed ours in its place. False:
    /// a signal came.
    fn make_sure(&mut self, inbox: &mut Inbox, tell: &mut dyn FnMut(&Notice<'_>)) -> io::Result<bool> {
        let is_lost = |grasp: &Grasp| matches!(grasp.proof().look(), Outcome::Lost(_));
        while self.grasps.iter().flatten().any(is_lost) {
            self.give_back();
            let names: Vec<LockName> = self.holds.iter().map(|(name, _)| name.clone()).collect();
            let waited = Duration::from_millis(self.lokt.now().monotonic_ms.saturating_sub(self.asked_ms));
            let timeout = self.timeout.rest_after(waited);
            let mut patience = Patience { timeout, alarm: Some(inbox), tell: None };
            let asked = self.lokt.guard(&names, &self.terms, &self.inside, &mut patience);
            let Said { value, warnings } = asked.map_err(|error| io::Error::other(Overtaken::Failed(error)))?;
            for what in warnings {
                tell(&Notice { name: names[0].as_str(), warning: &Warning::Beside { hold: 0, what } });
            }
            match value {
                Guarding::Granted(mut next) => {
                    (self.grasps, self.holds) = (std::mem::take(&mut next.grasps), std::mem::take(&mut next.holds));
                }
                Guarding::Denied { name, refusal } => {
                    return Err(io::Error::other(Overtaken::Refused { name, refusal }));
                }
                Guarding::Interrupted => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Tells the command under which holds it runs.
    fn describe(&self, command: &mut Command) {
        let list = |show: &dyn Fn(&(LockName, Hold)) -> String| -> String {
            self.holds.iter().map(show).collect::<Vec<String>>().join(",")
        };
        command.env("LOKT_NAME", list(&|(name, _)| name.to_string()));
        command.env("LOKT_LOCK_ID", list(&|(_, hold)| hold.lock_id.to_string()));
        let token = |hold: &Hold| hold.token.map(Fence::get).unwrap_or_default().to_string();
        command.env("LOKT_FENCING_TOKEN", list(&|(_, hold)| token(hold)));
        let mut badges = self.inside.clone();
        for grasp in self.grasps.iter().flatten() {
            badges.push(grasp.name.clone(), &grasp.hold);
        }
        command.env("LOKT_HOLDS", badges.to_string());
    }

    fn inheritable(&self, pass_pulse: bool) -> io::Result<Vec<OwnedFd>> {
        let grasps = self.grasps.iter().flatten().filter(|_| pass_pulse);
        grasps.filter_map(Grasp::inheritable).collect()
    }
}
