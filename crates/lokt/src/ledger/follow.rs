//! Events as they come.
//!
//! The kernel wakes us when a name changes in the ledger; then the next number is tried, and the one after it, until nothing is there.
//! Nothing is listed for that. Only when a higher number is there and the next one still isn't, there is a gap. What was shown last is
//! looked at each time: if it isn't there any more, or another file is, somebody put back an earlier state of the ledger (`git checkout`),
//! and we go on behind the last event that is still the one that was shown.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use lokt_core::ledger::seq::Seq;

use super::Ledger;
use super::answers::Slot;
use super::read::Raw;
use crate::error::{At as _, Error};
use crate::sys::bell::sleep_on;
use crate::sys::changes::Changes;
use crate::sys::disk::Stamp;
use crate::sys::look::look;
use crate::sys::os_disk::OsDisk;
use crate::wait::Alarm;
use lokt_core::ledger::stored::Stored;

/// Where the kernel tells of changes, a look now and then catches what it doesn't: another machine's, on a network file system.
const LOOK: Duration = Duration::from_secs(1);
/// Where it can't, because the directory isn't there or too much is watched already.
const POLL: Duration = Duration::from_millis(200);
/// So many numbers past a missing one are tried at each look.
const PROBES: u64 = 64;
/// After so many looks that found nothing everything is listed: there may be a number far above.
const LISTED_EVERY: u32 = 60;
/// While there is much to show, the alarm is asked after so many.
const ALARM_EVERY: u64 = 64;
/// So many of the events that were shown can be known again.
const REMEMBERED: usize = 1024;

/// Is called for everything that is found, and says whether to go on.
type Show<'s> = dyn FnMut(Seq, Slot) -> ControlFlow<()> + 's;

impl Ledger {
    /// Shows every event after `after`, and those to come, until `alarm` goes off or `show` says so. A gap is shown once, by its first
    /// number. A ledger that is shortened or replaced meanwhile is told of as [`Slot::Rewound`], and shown again from there.
    pub fn follow(&self, after: u64, alarm: &mut dyn Alarm, show: &mut Show<'_>) -> Result<(), Error> {
        let mut follower = Follower {
            ledger: self.clone(),
            next: after.saturating_add(1),
            shown: VecDeque::new(),
            watch: None,
            idle: LISTED_EVERY,
        };
        loop {
            follower.arm()?;
            if follower.catch_up(alarm, show)?.is_break() || follower.sleep(alarm)? {
                return Ok(());
            }
        }
    }
}

struct Follower {
    ledger: Ledger,
    /// The number to be shown next.
    next: u64,
    /// What was shown last, in order, and how to know it again.
    shown: VecDeque<(u64, Option<Stamp>)>,
    /// Can be read when a name changes.
    watch: Option<Changes>,
    /// How often nothing was found since everything was listed.
    idle: u32,
}

impl Follower {
    /// Has the kernel tell of changes; before anything is read, so that whatever is written after that wakes us.
    fn arm(&mut self) -> Result<(), Error> {
        self.reopen()?;
        match &self.watch {
            Some(watch) => drop(watch.drain()),
            None => self.watch = self.ledger.disk.changes(".").ok(),
        }
        Ok(())
    }

    /// A directory that was deleted and made anew is another one.
    fn reopen(&mut self) -> Result<(), Error> {
        // On a disk that isn't this machine's own there is nothing to look at.
        let Ok(there) = look(&self.ledger.path) else { return Ok(()) };
        let opened = self.ledger.disk.stamp(".").at("look at", &self.ledger.path, "")?;
        let opened = opened.map(|stamp| (stamp.dev, stamp.ino));
        if there.is_some_and(|there| there.is_dir && Some(there.id) != opened)
            && let Ok(disk) = OsDisk::open(&self.ledger.path)
        {
            self.ledger.disk = Arc::new(disk);
            self.watch = None;
        }
        Ok(())
    }

    /// Shows what is new.
    fn catch_up(&mut self, alarm: &mut dyn Alarm, show: &mut Show<'_>) -> Result<ControlFlow<()>, Error> {
        if let Some(rewound) = self.rewind()?
            && show(rewound.0, rewound.1).is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        let mut found = 0_u64;
        while let Some(seq) = Seq::new(self.next) {
            let slot = match self.ledger.raw(seq)? {
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
                    None => break,
                    // It came while we looked further up.
                    Some(_) if self.stamp(seq)?.is_some() => continue,
                    Some(next) => {
                        self.next = next;
                        Slot::Missing
                    }
                },
            };
            found += 1;
            let told_to_stop = found.is_multiple_of(ALARM_EVERY) && alarm.went_off();
            if show(seq, slot).is_break() || told_to_stop {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.idle = if found > 0 { 0 } else { self.idle.saturating_add(1) };
        Ok(ControlFlow::Continue(()))
    }

    fn remember(&mut self, seq: Seq, stamp: Option<Stamp>) {
        self.next = seq.get() + 1;
        self.shown.push_back((seq.get(), stamp));
        if self.shown.len() > REMEMBERED {
            self.shown.pop_front();
        }
    }

    fn stamp(&self, seq: Seq) -> Result<Option<Stamp>, Error> {
        let file = self.ledger.file(seq);
        self.ledger.disk.stamp(&file).at("look at", &self.ledger.path, &file)
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
        Ok(self.ledger.numbers()?.into_iter().find(|number| *number > missing.get()))
    }

    /// Is what was shown last still there? If not, goes back to behind the last that is.
    fn rewind(&mut self) -> Result<Option<(Seq, Slot)>, Error> {
        let Some((last, _)) = self.shown.back().copied() else { return Ok(None) };
        if self.is_as_shown(self.shown.len() - 1)? {
            return Ok(None);
        }
        // Whoever puts back an earlier state removes and writes many files: what can't be known again is a run up to the last.
        let (mut low, mut high) = (0, self.shown.len() - 1);
        while low < high {
            let middle = low.midpoint(high);
            if self.is_as_shown(middle)? { low = middle + 1 } else { high = middle }
        }
        let head = self.ledger.numbers()?.last().copied().unwrap_or(0);
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

    /// Sleeps until there may be something new. True: the alarm went off.
    fn sleep(&self, alarm: &mut dyn Alarm) -> Result<bool, Error> {
        let tick = if self.watch.is_some() { LOOK } else { POLL };
        let ready = {
            let mut fds = vec![alarm.fd()];
            fds.extend(self.watch.as_ref().map(|watch| watch.as_fd()));
            sleep_on(&fds, tick).map_err(|source| Error::io("wait in", &self.ledger.path, source))?
        };
        Ok(ready.first() == Some(&true) && alarm.went_off())
    }
}
