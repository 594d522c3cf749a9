//! How a ledger stands when something is decided about it: its head, what its events say, and when that was looked at.

use lokt_core::ledger::fold::Folded;
use lokt_core::time::Moment;

use super::Ledger;
use super::commit::Need;
use super::head::Head;
use crate::error::Error;

/// What was decided this long ago is decided anew.
const FRESH_MS: u64 = 100;

/// May the cache of what the events say be used?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cache {
    Believed,
    /// An event was replaced, and the cache may know of it.
    Doubted,
}

/// How the head is found, outside the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadBy {
    /// As the last of us noted it, if the directory wasn't changed since. Somebody may have been faster than its clock ticks: good enough to
    /// prepare what is looked at again inside, and no reason to refuse anything.
    Note,
    /// By looking at what is there.
    Look,
}

/// How the ledger stood when it was composed for.
pub(super) struct Standing {
    pub(super) head: Head,
    pub(super) folded: Option<Folded>,
    /// When it was looked at: what is decided about it is decided for then.
    pub(super) now: Moment,
    /// What its events say about when they were written. Not as new as `now`: events that only have another time would be synced again, inside.
    pub(super) written: Moment,
}

impl Ledger {
    /// How the ledger stands, as far as somebody needs to know.
    pub(super) fn standing(&self, need: Need, cache: Cache, by: HeadBy) -> Result<Standing, Error> {
        let head = match by {
            _ if need < Need::Head => Head::default(),
            HeadBy::Note => self.catch_up_since(Some(self.changed()?))?,
            HeadBy::Look => self.catch_up()?,
        };
        let folded = match (need, cache) {
            (Need::Nothing | Need::Head, _) => None,
            (Need::Fold, Cache::Believed) => Some(self.folded(head.seq)?),
            (Need::Fold, Cache::Doubted) => Some(self.folded_anew(head.seq)?),
        };
        let now = self.now();
        Ok(Standing { head, folded, now, written: now })
    }

    /// What all events up to `head` say.
    pub(crate) fn folded(&self, head: u64) -> Result<Folded, Error> {
        let mut folded = self.folder().cached();
        if folded.through > head {
            folded = Folded::new(self.settings.style);
        }
        self.folder().fold_on(&mut folded, head)?;
        Ok(folded)
    }

    /// The same, from the first event on.
    fn folded_anew(&self, head: u64) -> Result<Folded, Error> {
        let mut folded = Folded::new(self.settings.style);
        self.folder().fold_on(&mut folded, head)?;
        Ok(folded)
    }

    /// Inside the lock: how it stands now. `read_again`: what was read before doesn't hold any more.
    pub(super) fn move_on(&self, standing: &mut Standing, head: &Head, read_again: Option<Cache>) -> Result<(), Error> {
        // A claim that came since would be younger than an earlier look at the boot clock, and be judged by the wall clock.
        standing.now = self.now();
        if is_old(&standing.written, &standing.now) {
            standing.written = standing.now;
        }
        if let Some(folded) = &mut standing.folded {
            match read_again {
                Some(Cache::Doubted) => *folded = self.folded_anew(head.seq)?,
                None if folded.through <= head.seq => self.folder().fold_on(folded, head.seq)?,
                _ => *folded = self.folded(head.seq)?,
            }
        }
        standing.head = head.clone();
        Ok(())
    }

    pub(super) fn is_old(&self, standing: &Standing) -> bool {
        is_old(&standing.now, &self.now())
    }
}

fn is_old(look: &Moment, now: &Moment) -> bool {
    now.boottime_ms.saturating_sub(look.boottime_ms) > FRESH_MS
}
