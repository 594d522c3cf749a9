//! Freezing a name: nothing new is granted under it until it is unfrozen. What holds it goes on, and can be waited for.

use std::os::fd::AsFd as _;
use std::time::Duration;

use lokt_core::decide::{Broken, Decision, Terms};
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Hold, PartKind};
use lokt_core::liveness::Liveness;
use lokt_core::name::LockName;

use crate::error::{Error, ErrorKind};
use crate::inspect::newer;
use crate::locks::{End, Ended, Lokt, Refusal, Said};
use crate::store::change::Changed;
use crate::store::freezes::Frozen;
use crate::store::line::held_path;
use crate::store::record_path;
use crate::store::slot::{Found, ProcessEnd, Stored};
use crate::store::standing::Cue;
use crate::sys::bell::{Bell, sleep_on};
use crate::wait::{Armed, Clock, Patience, Waiting};

/// The answer to a `freeze`.
#[derive(Debug)]
pub enum Freezing {
    /// It is frozen now.
    Frozen(Box<FrozenNow>),
    /// It is not, or not as was asked.
    Denied(Refusal),
}

/// A freeze that was placed or got a new end.
#[derive(Debug)]
pub struct FrozenNow {
    /// The freeze as it is stored now.
    pub freeze: Hold,
    /// The freeze that was there before.
    pub before: Option<Hold>,
    /// It was over.
    pub replaced: bool,
}

/// How a wait for what still runs ended.
#[derive(Debug)]
pub enum Drained {
    /// Nothing runs under the name any more.
    Empty,
    /// This still does, but the time is over.
    TimedOut(Box<Holder>),
    /// This still does, but the wait was interrupted.
    Interrupted(Box<Holder>),
    /// The freeze ended first: whoever comes now gets in.
    Thawed,
}

impl Lokt {
    /// Freezes `name`, or gives this owner's freeze a new end. `None` and 0 have no end.
    pub fn freeze(&self, name: &LockName, terms: Terms) -> Result<Said<Freezing>, Error> {
        let Changed { decision, before, waiters, waited, warnings, .. } = self.store().place_freeze(name, terms)?;
        let value = match decision {
            Decision::Commit { next: Some(freeze), broken, .. } => {
                let replaced = matches!(broken, Some(Broken::Stale(_)));
                Freezing::Frozen(Box::new(FrozenNow { freeze: *freeze, before, replaced }))
            }
            Decision::Deny(denial) => Freezing::Denied(Refusal { denial, waiters, waited }),
            Decision::Commit { next: None, .. } | Decision::Inside => unreachable!("a freeze removes nothing"),
        };
        Ok(Said { value, warnings })
    }

    /// Ends the freeze over `name`: this owner's, or with `force` whatever is there.
    pub fn unfreeze(&self, name: &LockName, force: bool) -> Result<Said<End>, Error> {
        let Changed { decision, before, waiters, aside, waited, warnings } = self.store().end_freeze(name, force)?;
        let value = match decision {
            Decision::Commit { cause, .. } => End::Ended(Box::new(Ended { cause, before, remains: None, aside })),
            Decision::Deny(denial) => End::Denied(Refusal { denial, waiters, waited }),
            Decision::Inside => unreachable!("nobody is inside a freeze"),
        };
        Ok(Said { value, warnings })
    }

    /// The freeze over `name` that counts now: whose it is, or why it can't be read.
    pub fn frozen(&self, name: &LockName) -> Option<Result<Box<Holder>, String>> {
        self.store().freeze(name, &self.now()).map(Frozen::known)
    }

    /// What still holds `name`: a living hold, or one that is over and whose process runs on.
    pub fn still_held(&self, name: &LockName) -> Result<Option<Holder>, Error> {
        let found = self.look_at(name)?;
        Ok(found.holder().filter(|holder| holder.lives() || runs(holder)))
    }

    /// Waits until no process runs under `name`, whether its lease is over or not. A freeze keeps others from coming; locks without
    /// a process are not waited for.
    pub fn drain(&self, name: &LockName, patience: &mut Patience<'_>) -> Result<Drained, Error> {
        let clock = Clock::start(self, patience.timeout);
        loop {
            let found = self.look_at(name).map_err(|error| {
                error.hint(format!(
                    "{name} stays frozen; what can't be read counts as held: `lokt doctor` says what is wrong with it"
                ))
            })?;
            // Empty means something only for as long as it is frozen.
            if self.frozen(name).is_none() {
                return Ok(Drained::Thawed);
            }
            let Some(holder) = found.holder().filter(runs) else { return Ok(Drained::Empty) };
            let denial = Denial::Held(Box::new(holder.clone()));
            if let Some(tell) = patience.tell.as_mut() {
                let (waited, left) = (clock.waited(self), clock.left_to_tell(self));
                tell(&Waiting { name: name.as_str(), denial: &denial, ahead: 0, waited, left });
            }
            if clock.left(self).is_zero() {
                return Ok(Drained::TimedOut(Box::new(holder)));
            }
            if self.sleep_until_it_stirs(name, &found, &clock, patience)? {
                return Ok(Drained::Interrupted(Box::new(holder)));
            }
        }
    }

    /// Sleeps until there may be something to see, a second at most. True: it was interrupted.
    fn sleep_until_it_stirs(
        &self,
        name: &LockName,
        found: &Found,
        clock: &Clock,
        patience: &mut Patience<'_>,
    ) -> Result<bool, Error> {
        let cant_sleep = |source| Error::io("wait in", self.root(), source);
        let cue = match found.end {
            ProcessEnd::Pulse(number) => Cue::Pulse(held_path(number)),
            ProcessEnd::Process(pid) => Cue::Process(pid),
            ProcessEnd::Unknown => Cue::File(record_path(name)),
        };
        let bell = Bell::new().map_err(cant_sleep)?;
        // What has just ended is about to say so in the record, too.
        let Armed { fd, tick } = self.arm(&cue, &bell).unwrap_or(Armed { fd: None, tick: Duration::from_millis(10) });
        let mut fds = vec![bell.as_fd()];
        fds.extend(fd.iter().map(|fd| fd.as_fd()));
        fds.extend(patience.alarm.as_ref().map(|alarm| alarm.fd()));
        let ready = sleep_on(&fds, tick.min(clock.left(self))).map_err(cant_sleep)?;
        let rang = ready.last().copied().unwrap_or(false);
        Ok(rang && patience.alarm.as_mut().is_some_and(|alarm| alarm.went_off()))
    }

    /// What is there, if it can be understood: of anything else nobody knows whether something runs under it.
    fn look_at(&self, name: &LockName) -> Result<Found, Error> {
        let found = self.store().find(&record_path(name), name.as_str(), &self.now());
        match found.stored {
            Stored::Unreadable(error) => Err(error),
            Stored::Newer(version) => Err(newer(self.root(), name, version)),
            Stored::BeingWritten => {
                let path = self.root().join(record_path(name));
                Err(Error::new(ErrorKind::Busy, format!("{} is being written by another program", path.display())))
            }
            stored => Ok(Found { stored, ..found }),
        }
    }
}

/// Is there a process behind it, as far as can be told? One that can't be asked about counts for as long as its lease.
fn runs(holder: &Holder) -> bool {
    holder.hold.has(PartKind::Process)
        && match holder.liveness {
            Liveness::Alive | Liveness::Orphan => true,
            Liveness::Unknown => holder.part_lives(PartKind::Process),
            Liveness::Gone => false,
        }
}
