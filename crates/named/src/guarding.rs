//! Running a command under named locks.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lokt_core::decide::Terms;
use lokt_core::guard::{Ended, Guard, GuardConfig, OnLost, Outcome, Warning};
use lokt_core::hold::{Fence, Hold};
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;
use lokt_guard::{
    ClockKind, Finished, Guardable, Notice, Renewable, Renewal, RunOptions, Shell, before_start, drive, interrupted,
};

use crate::acquire::Acquired;
use crate::locks::{Lokt, Refusal};
use crate::owned_hold::{HoldHandle, OwnedHold};
use crate::store::{CommandRecord, Lasts};
use lokt_sys::error::Error;
use lokt_sys::signals::SignalQueue;
use lokt_sys::spawn::{Pid, spawn};
use lokt_sys::wait_policy::{Timeout, WaitPolicy};
use lokt_sys::wakeup::Wakeup;
use lokt_sys::warnings::WithWarnings;

/// Result of asking for a guard's holds.
pub enum Guarding {
    /// All names are held: run something.
    Granted(Box<Guarded>),
    /// None of the names is held.
    Denied {
        /// The name that could not be acquired.
        name: LockName,
        /// The reason.
        refusal: Refusal,
    },
    /// None of the names is held, because the wait was interrupted.
    Interrupted,
}

/// Holds under which a command can run. If they are dropped without running one, they are released.
pub struct Guarded {
    lokt: Lokt,
    owned_holds: Vec<Option<OwnedHold>>,
    holds: Vec<(LockName, Hold)>,
    inside: InheritedHolds,
    terms: Terms,
    /// Maximum time to wait for them, counted from `asked_ms` on the monotonic clock.
    timeout: Timeout,
    asked_ms: u64,
    /// True if one of them took the place of what another program left.
    beside_foreign: bool,
}

/// A guard's hold was taken away by another program before its command was started, and could not
/// be granted again. Contained in an error of [`Guarded::run`].
#[derive(Debug)]
pub enum Overtaken {
    /// The lock is refused now.
    Refused {
        /// The name that could not be acquired.
        name: LockName,
        /// The reason.
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

impl Lokt {
    /// Acquires a guard's hold of each of `names`, all or nothing. `inside` is what the caller
    /// already runs under.
    pub fn guard(
        &self,
        names: &[LockName],
        terms: &Terms,
        inside: &InheritedHolds,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<WithWarnings<Guarding>, Error> {
        let (timeout, asked_ms) = (patience.timeout, self.now().monotonic_ms);
        let WithWarnings { value, warnings } = self.owned(names, terms, inside, patience)?;
        let value = match value {
            Acquired::All { owned_holds, holds } => {
                let beside_foreign = owned_holds.iter().any(|owned| owned.was_foreign);
                let owned_holds = owned_holds.into_iter().map(Some).collect();
                let (lokt, inside, terms) = (self.clone(), inside.clone(), terms.clone());
                let guarded = Guarded { lokt, owned_holds, holds, inside, terms, timeout, asked_ms, beside_foreign };
                Guarding::Granted(Box::new(guarded))
            }
            Acquired::Denied { name, refusal } => Guarding::Denied { name, refusal },
            Acquired::Interrupted => Guarding::Interrupted,
        };
        Ok(WithWarnings { value, warnings })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Guarded {
    /// Returns every name with its hold, in byte order.
    pub fn holds(&self) -> &[(LockName, Hold)] {
        &self.holds
    }

    /// Runs `command` and releases the locks when it has ended. Of the command only arguments and
    /// environment count; it runs in our directory and with our descriptors. It runs only after its
    /// pid was recorded in each pulse. An error that contains a [`lokt_sys::spawn::NotRecorded`]
    /// means that this failed; one with an [`Overtaken`] means that another program took a lock
    /// away before. Other errors are about starting it, unless it [had
    /// started](lokt_guard::had_started).
    pub fn run(
        mut self,
        command: &mut Command,
        ttl_sec: Option<u64>,
        options: RunOptions,
        inbox: &mut SignalQueue,
        tell: &mut dyn FnMut(&Notice<'_>),
    ) -> io::Result<Finished> {
        if self.beside_foreign && !self.make_sure(inbox, tell)? {
            return Ok(before_start(inbox));
        }
        self.describe(command);
        let own_group = options.on_lost == OnLost::Stop;
        let pulses = self.inheritable(options.pass_pulse)?;
        if let Some(finished) = interrupted(inbox) {
            return Ok(finished);
        }
        let pid = self.spawn(command, own_group, inbox)?;
        drop(pulses);
        let began: Vec<u64> = self.owned_holds.iter().flatten().map(OwnedHold::began_ms).collect();
        let (on_lost, until_all) = (options.on_lost, options.until_all);
        let look_ms = self.lokt.store().contract().look_ms;
        let config = GuardConfig { ttl_sec, on_lost, until_all, look_ms };
        // A lease that the store ends keeps running while the machine is suspended, and can't be
        // revived.
        let lasts: Vec<Lasts> = self.owned_holds.iter().flatten().filter_map(OwnedHold::lasts).collect();
        let shortest = lasts.iter().map(|lasts| lasts.ttl).min();
        let clock = if shortest.is_some() { ClockKind::BootTime } else { ClockKind::Monotonic };
        let system = self.lokt.shared_machine();
        let mut machine = Guard::new(config, &began, clock.now_ms(&*system));
        if let Some(ttl) = shortest {
            machine = machine.stopping_ahead(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX), &began);
        }
        let kept = |owned: Option<OwnedHold>| owned.map(|owned| Box::new(owned) as Box<dyn Guardable>);
        let kept = std::mem::take(&mut self.owned_holds).into_iter().map(kept).collect();
        let mut shell = Shell::new(system, kept, pid, own_group).on_clock(clock);
        shell.pass_foreground();
        drive(shell, machine, inbox, tell)
    }

    /// Starts the command, which is recorded in each pulse before it runs.
    fn spawn(&self, command: &Command, own_group: bool, inbox: &SignalQueue) -> io::Result<Pid> {
        let records: Vec<CommandRecord> = self.owned_holds.iter().flatten().filter_map(OwnedHold::record).collect();
        let records = records.iter().map(CommandRecord::as_record).collect::<io::Result<_>>()?;
        spawn(command, own_group, inbox.before(), records)
    }

    /// Releases the holds, the last one first.
    fn give_back(&mut self) {
        while let Some(owned) = self.owned_holds.pop() {
            owned.map(OwnedHold::release);
        }
    }

    /// Asks again for holds that another program took away: it may have judged the same stale
    /// record, and have removed ours in its place. Returns false if a signal came.
    fn make_sure(&mut self, inbox: &mut SignalQueue, tell: &mut dyn FnMut(&Notice<'_>)) -> io::Result<bool> {
        let is_lost = |owned: &OwnedHold| matches!(owned.proof().look(), Outcome::Lost(_));
        while self.owned_holds.iter().flatten().any(is_lost) {
            self.give_back();
            let names: Vec<LockName> = self.holds.iter().map(|(name, _)| name.clone()).collect();
            let waited = Duration::from_millis(self.lokt.now().monotonic_ms.saturating_sub(self.asked_ms));
            let timeout = self.timeout.rest_after(waited);
            let mut patience = WaitPolicy { timeout, alarm: Some(inbox), tell: None };
            let asked = self.lokt.guard(&names, &self.terms, &self.inside, &mut patience);
            let WithWarnings { value, warnings } = asked.map_err(|error| io::Error::other(Overtaken::Failed(error)))?;
            for what in warnings {
                tell(&Notice {
                    name: names[0].as_str(),
                    warning: &Warning::Beside { hold: 0, what: what.to_string() },
                });
            }
            match value {
                Guarding::Granted(mut next) => {
                    (self.owned_holds, self.holds) =
                        (std::mem::take(&mut next.owned_holds), std::mem::take(&mut next.holds));
                }
                Guarding::Denied { name, refusal } => {
                    return Err(io::Error::other(Overtaken::Refused { name, refusal }));
                }
                Guarding::Interrupted => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Tells the command, in its environment, under which holds it runs.
    fn describe(&self, command: &mut Command) {
        let list = |show: &dyn Fn(&(LockName, Hold)) -> String| -> String {
            self.holds.iter().map(show).collect::<Vec<String>>().join(",")
        };
        command.env("LOKT_NAME", list(&|(name, _)| name.to_string()));
        command.env("LOKT_LOCK_ID", list(&|(_, hold)| hold.lock_id.to_string()));
        let token = |hold: &Hold| hold.token.map(Fence::get).unwrap_or_default().to_string();
        command.env("LOKT_FENCING_TOKEN", list(&|(_, hold)| token(hold)));
        let mut inherited_holds = self.inside.clone();
        for owned in self.owned_holds.iter().flatten() {
            inherited_holds.push(owned.name.clone(), &owned.hold);
        }
        command.env("LOKT_HOLDS", inherited_holds.to_string());
    }

    fn inheritable(&self, pass_pulse: bool) -> io::Result<Vec<OwnedFd>> {
        let owned_holds = self.owned_holds.iter().flatten().filter(|_| pass_pulse);
        owned_holds.filter_map(OwnedHold::inheritable).collect()
    }
}

impl Guardable for OwnedHold {
    fn minded(&self) -> Arc<dyn Renewable> {
        Arc::new(self.proof())
    }

    fn release(self: Box<Self>, ended: Option<Ended>) -> WithWarnings<Outcome> {
        self.release_after(ended)
    }

    fn leave_to_heirs(&mut self) {
        Self::leave_to_heirs(self);
    }

    fn has_heirs(&self, wakeup: &Wakeup) -> bool {
        Self::has_heirs(self, wakeup)
    }
}

impl Renewable for HoldHandle {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn renew(&self) -> WithWarnings<Renewal> {
        Self::renew(self)
    }

    fn look(&self) -> Outcome {
        Self::look(self)
    }
}
