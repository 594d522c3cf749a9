//! Freezes a name: nothing new is granted under it until it is unfrozen. Its current holder
//! continues, and can be waited for.

use std::time::Duration;

use lokt_core::decide::{Broken, Intent, Terms};
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Hold, PartKind};
use lokt_core::liveness::Liveness;
use lokt_core::name::LockName;

use crate::locks::{End, Lokt, Refusal, ended, refused};
use crate::store::{Committed, Depth, Done, Frozen, Slot, Target, View, WakeOn};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::nap::{Nap, Subscription, WaitClock, Woken};
use lokt_sys::wait_policy::WaitPolicy;
use lokt_sys::wakeup::Wakeup;
use lokt_sys::warnings::WithWarnings;

/// Result of a `freeze`.
#[derive(Debug)]
pub enum Freezing {
    /// The name is frozen now.
    Frozen(Box<FrozenNow>),
    /// The name is not frozen, or not as was asked.
    Denied(Refusal),
}

/// A freeze that was placed or got a new end.
#[derive(Debug)]
pub struct FrozenNow {
    /// The freeze as it is stored now.
    pub freeze: Hold,
    /// The freeze that was there before.
    pub before: Option<Hold>,
    /// True if that had ended.
    pub replaced: bool,
}

/// Result of a wait for what still runs.
#[derive(Debug)]
pub enum Drained {
    /// Nothing runs under the name any more.
    Empty,
    /// This holder still runs, but the time is up.
    TimedOut(Box<Holder>),
    /// This holder still runs, but the wait was interrupted.
    Interrupted(Box<Holder>),
    /// The freeze ended first: new callers get in.
    Thawed,
}

/// The freezes of a root.
#[derive(Clone, Copy)]
pub struct Freezes<'a> {
    lokt: &'a Lokt,
}

impl Lokt {
    /// Returns the freezes of this root.
    pub fn freezes(&self) -> Freezes<'_> {
        Freezes { lokt: self }
    }
}

impl Freezes<'_> {
    /// Freezes `name`, or gives this owner's freeze a new end. `None` and 0 mean no end.
    pub fn freeze(self, name: &LockName, terms: Terms) -> Result<WithWarnings<Freezing>, Error> {
        Ok(match self.lokt.requests().ask(name, Target::Freeze, Intent::Freeze(terms))? {
            Done::Committed(committed) => {
                let Committed { hold, broken, before, warnings, .. } = *committed;
                let freeze = *hold.expect("a freeze removes nothing");
                let (before, replaced) = (before.map(|before| before.hold), matches!(broken, Some(Broken::Stale(_))));
                WithWarnings { value: Freezing::Frozen(Box::new(FrozenNow { freeze, before, replaced })), warnings }
            }
            Done::Stayed(stayed) => {
                let (refusal, warnings) = refused(*stayed, None);
                WithWarnings { value: Freezing::Denied(refusal), warnings }
            }
            Done::Queued(_) | Done::Failed(_) => unreachable!("a freeze doesn't wait"),
        })
    }

    /// Ends the freeze over `name`: this owner's, or with `force` any that is there.
    pub fn unfreeze(self, name: &LockName, force: bool) -> Result<WithWarnings<End>, Error> {
        ended(self.lokt.requests().ask(name, Target::Freeze, Intent::Unfreeze { force })?)
    }

    /// Returns the freeze over `name` that counts now: its holder, or why it can't be read.
    pub fn frozen(self, name: &LockName) -> Option<Result<Box<Holder>, String>> {
        match self.lokt.look(name, Depth::FREEZE) {
            Ok(view) => view.frozen.map(Frozen::known),
            // An unreadable freeze counts.
            Err(error) => Some(Err(error.to_string())),
        }
    }

    /// Returns the holder of `name`: a living hold, or one that has ended and whose process still
    /// runs.
    pub fn still_held(self, name: &LockName) -> Result<Option<Holder>, Error> {
        let holder = self.look_at(name)?.slot.into_holder();
        Ok(holder.map(|holder| *holder).filter(|holder| holder.lives() || runs(holder)))
    }

    /// Waits until no process runs under `name`, whether its lease has expired or not. A freeze
    /// keeps others from coming; locks without a process are not waited for.
    pub fn drain(self, name: &LockName, patience: &mut WaitPolicy<'_>) -> Result<Drained, Error> {
        let clock = WaitClock::start(self.lokt.machine(), patience.timeout);
        loop {
            let view = self.look_at(name).map_err(|error| {
                error.hint(format!(
                    "{name} stays frozen; what can't be read counts as held: `lokt doctor` says what is wrong with it"
                ))
            })?;
            // An empty name means something only while it is frozen.
            if self.frozen(name).is_none() {
                return Ok(Drained::Thawed);
            }
            let Some(holder) = view.slot.into_holder().filter(|holder| runs(holder)) else { return Ok(Drained::Empty) };
            let denial = Denial::Held(holder.clone());
            clock.tell(patience, name.as_str(), &denial, 0);
            if clock.left().is_zero() {
                return Ok(Drained::TimedOut(holder));
            }
            if self.sleep_until_it_stirs(name, view.ends, &clock, patience)? {
                return Ok(Drained::Interrupted(holder));
            }
        }
    }

    /// Sleeps until there may be something to see, a second at most. Returns true if it was
    /// interrupted.
    fn sleep_until_it_stirs(
        self,
        name: &LockName,
        ends: WakeOn,
        clock: &WaitClock<'_>,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<bool, Error> {
        let wakeup = Wakeup::new().map_err(|source| self.lokt.requests().cant_sleep(source))?;
        // The process has ended; its record will follow within milliseconds.
        let soon = || Subscription { fd: None, tick: Duration::from_millis(10) };
        let subscription = self.lokt.store().arm(name, ends, &wakeup).unwrap_or_else(soon);
        let mut nap = Nap::new(clock).on(&wakeup).subscribed(&subscription);
        let woken =
            nap.sleep(patience.alarm.as_deref_mut()).map_err(|source| self.lokt.requests().cant_sleep(source))?;
        Ok(woken == Woken::Interrupted)
    }

    /// Returns what is stored, if it can be understood: otherwise nobody knows whether something
    /// runs under the name.
    fn look_at(self, name: &LockName) -> Result<View, Error> {
        let view = self.lokt.look(name, Depth::HOLDER)?;
        match view.slot {
            Slot::Unreadable(error) => Err(error),
            Slot::Newer(version) => Err(self.lokt.newer(name, version)),
            Slot::BeingWritten => {
                let place = self.lokt.store().location(Some(name));
                let message = format!("{} is being written by another program", place.display());
                Err(Error::new(ErrorKind::Busy, message))
            }
            slot => Ok(View { slot, ..view }),
        }
    }
}

/// Reports whether there is a process behind it, as far as can be told. One that can't be checked
/// counts as long as its lease lasts.
fn runs(holder: &Holder) -> bool {
    holder.hold.has(PartKind::Process)
        && match holder.liveness {
            Liveness::Alive | Liveness::Orphan => true,
            Liveness::Unknown => holder.part_lives(PartKind::Process),
            Liveness::Gone => false,
        }
}
