//! Following a ledger: events as they come.
//!
//! The kernel wakes the follower when a name changes in the ledger. It then tries the next numbers
//! until one is missing, without a listing. There is a gap only if a higher number exists and the
//! next one still doesn't. The event that was shown last is checked each time. If it is missing or
//! another file, an earlier state of the ledger was restored (`git checkout`), and the follower
//! continues after the last event that is still the same.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use lokt_core::ledger::seq::Seq;

use super::FileLog;
use super::read::Raw;
use crate::answers::Slot;
use lokt_core::ledger::stored::Stored;
use lokt_sys::changes::Changes;
use lokt_sys::disk::Stamp;
use lokt_sys::error::{At as _, Error};
use lokt_sys::look::look;
use lokt_sys::nap::{LOOK, Nap, POLL, WaitClock, Woken};
use lokt_sys::os_disk::OsDisk;
use lokt_sys::wait_policy::Interrupt;

/// Maximum number of numbers past a missing one that are tried at each check.
const PROBES: u64 = 64;
/// Number of checks without news after which everything is listed: there may be a number far above.
const LISTED_EVERY: u32 = 60;
/// Number of events after which the interrupt is checked while there is much to show.
const ALARM_EVERY: u64 = 64;
/// Maximum number of shown events that are remembered.
const REMEMBERED: usize = 1024;

impl FileLog {
    /// Follows the log after number `after`.
    pub(crate) fn follower(&self, after: u64) -> Follower {
        Follower {
            log: self.clone(),
            next: after.saturating_add(1),
            shown: VecDeque::new(),
            watch: None,
            idle: LISTED_EVERY,
            found: None,
        }
    }
}

/// Follows a ledger: shows its events, and waits for those to come.
pub struct Follower {
    log: FileLog,
    /// The number to be shown next.
    next: u64,
    /// The events that were shown last, in order, with the identities of their files.
    shown: VecDeque<(u64, Option<Stamp>)>,
    /// Readable when a name changes.
    watch: Option<Changes>,
    /// Number of checks without news since everything was listed.
    idle: u32,
    /// Number of events that this check has found; `None` between two checks.
    found: Option<u64>,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Follower {
    /// Waits for the next event; `None`: `alarm` was raised. A gap is shown once, by its first
    /// number. A ledger that is shortened or replaced in the meantime is reported as
    /// [`Slot::Rewound`], and shown again from there.
    pub fn next(&mut self, mut alarm: Option<&mut (dyn Interrupt + '_)>) -> Result<Option<(Seq, Slot)>, Error> {
        loop {
            if self.found.is_none() {
                self.arm()?;
                let rewound = self.rewind()?;
                self.found = Some(0);
                if rewound.is_some() {
                    return Ok(rewound);
                }
            }
            let found = self.found.unwrap_or(0);
            let is_due = found > 0 && found.is_multiple_of(ALARM_EVERY);
            if is_due && alarm.as_mut().is_some_and(|alarm| alarm.is_raised()) {
                return Ok(None);
            }
            if let Some(slot) = self.find()? {
                self.found = Some(found + 1);
                return Ok(Some(slot));
            }
            self.idle = if found > 0 { 0 } else { self.idle.saturating_add(1) };
            self.found = None;
            if self.sleep(alarm.as_deref_mut())? {
                return Ok(None);
            }
        }
    }

    /// Subscribes to changes before anything is read, so that any later write wakes the follower.
    fn arm(&mut self) -> Result<(), Error> {
        self.reopen()?;
        match &self.watch {
            Some(watch) => drop(watch.drain()),
            None => self.watch = self.log.disk.changes(".").ok(),
        }
        Ok(())
    }

    /// Opens the directory again if it was deleted and made anew.
    fn reopen(&mut self) -> Result<(), Error> {
        // A disk that isn't this machine's own can't be inspected.
        let Ok(there) = look(&self.log.path) else { return Ok(()) };
        let opened = self.log.disk.stamp(".").at("look at", &self.log.path, "")?;
        let opened = opened.map(|stamp| (stamp.dev, stamp.ino));
        if there.is_some_and(|there| there.is_dir && Some(there.id) != opened)
            && let Ok(disk) = OsDisk::open(&self.log.path)
        {
            self.log.disk = Arc::new(disk);
            self.watch = None;
        }
        Ok(())
    }

    /// Reads the next event, if it is there.
    fn find(&mut self) -> Result<Option<(Seq, Slot)>, Error> {
        while let Some(seq) = Seq::new(self.next) {
            let slot = match self.log.raw(seq)? {
                Raw::File(content) => {
                    self.remember(seq, Some(content.stamp));
                    match Stored::parse(&content.bytes) {
                        Ok(_) => Slot::Event(content.bytes),
                        Err(damage) => Slot::Damaged(damage),
                    }
                }
                Raw::Odd(damage) => {
                    self.remember(seq, self.stamp(seq)?);
                    Slot::Damaged(damage)
                }
                Raw::Missing => match self.beyond(seq)? {
                    None => return Ok(None),
                    // It appeared while higher numbers were tried.
                    Some(_) if self.stamp(seq)?.is_some() => continue,
                    Some(next) => {
                        self.next = next;
                        Slot::Missing
                    }
                },
            };
            return Ok(Some((seq, slot)));
        }
        Ok(None)
    }

    fn remember(&mut self, seq: Seq, stamp: Option<Stamp>) {
        self.next = seq.get() + 1;
        self.shown.push_back((seq.get(), stamp));
        if self.shown.len() > REMEMBERED {
            self.shown.pop_front();
        }
    }

    fn stamp(&self, seq: Seq) -> Result<Option<Stamp>, Error> {
        let file = self.log.file(seq);
        self.log.disk.stamp(&file).at("look at", &self.log.path, &file)
    }

    /// The lowest number above a missing one, if there is any.
    fn beyond(&mut self, missing: Seq) -> Result<Option<u64>, Error> {
        for seq in (missing.get() + 1..=missing.get() + PROBES).filter_map(Seq::new) {
            if self.stamp(seq)?.is_some() {
                return Ok(Some(seq.get()));
            }
        }
        if self.idle < LISTED_EVERY {
            return Ok(None);
        }
        self.idle = 0;
        Ok(self.log.numbers()?.into_iter().find(|number| *number > missing.get()))
    }

    /// Checks that the event that was shown last is still there. If not, goes back to after the
    /// last one that is.
    fn rewind(&mut self) -> Result<Option<(Seq, Slot)>, Error> {
        let Some((last, _)) = self.shown.back().copied() else { return Ok(None) };
        if self.is_as_shown(self.shown.len() - 1)? {
            return Ok(None);
        }
        // Restoring an earlier state removes and writes many files: the changed events are a run up
        // to the last.
        let (mut low, mut high) = (0, self.shown.len() - 1);
        while low < high {
            let middle = low.midpoint(high);
            if self.is_as_shown(middle)? { low = middle + 1 } else { high = middle }
        }
        let head = self.log.numbers()?.last().copied().unwrap_or(0);
        let from = self.shown[low].0.min(head + 1);
        if head >= last && self.stamp_of(last)?.is_none() {
            // Only that one was removed: a gap, which isn't shown a second time.
            self.shown.pop_back();
            return Ok(None);
        }
        self.shown.truncate(low);
        self.next = from;
        Ok(Seq::new(from).map(|from| (from, Slot::Rewound { head })))
    }

    fn is_as_shown(&self, at: usize) -> Result<bool, Error> {
        let (number, stamp) = self.shown[at];
        Ok(self.stamp_of(number)? == stamp)
    }

    fn stamp_of(&self, number: u64) -> Result<Option<Stamp>, Error> {
        Seq::new(number).map_or(Ok(None), |seq| self.stamp(seq))
    }

    /// Sleeps until there may be something new. Returns true if the interrupt was raised.
    fn sleep(&self, alarm: Option<&mut (dyn Interrupt + '_)>) -> Result<bool, Error> {
        let clock = WaitClock::endless(&*self.log.machine);
        let every = if self.watch.is_some() { LOOK } else { POLL };
        let woken = Nap::new(&clock).on_all(&self.watch).every(every).sleep(alarm);
        Ok(woken.map_err(|source| Error::io("wait in", &self.log.path, source))? == Woken::Interrupted)
    }
}
