//! The state of a ledger that events are composed for: its head, the fold of its events, and when
//! both were read.

use lokt_core::ledger::fold::Folded;
use lokt_core::ledger::seq::Seq;
use lokt_core::time::Moment;

use super::FileLog;
use super::failures::is_full;
use super::head::Head;
use super::inside::Inside;
use crate::log::{Compose, Composed, LedgerView, Need};
use lokt_sys::error::Error;

/// Maximum age of a basis in milliseconds: what was decided on an older one is decided anew.
const FRESH_MS: u64 = 100;

/// Whether the cache of the fold may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cache {
    Believed,
    /// An event was replaced, and the cache may know of it.
    Doubted,
}

/// Way in which the head is found, outside the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadBy {
    /// By the last writer's note, if the directory hasn't changed since. Another writer may have
    /// been faster than the directory's clock ticks: good enough to prepare what is checked again
    /// inside, and no reason to refuse anything.
    Note,
    /// By inspecting the directory.
    Look,
}

/// The state of the ledger that events are composed for.
pub(super) struct Basis<'l> {
    log: &'l FileLog,
    pub(super) head: Head,
    pub(super) folded: Option<Folded>,
    /// Time at which it was read: decisions are made for that time.
    pub(super) now: Moment,
    /// Timestamp of the composed events. Not always as new as `now`: events that differ only in
    /// their time would be synced again, inside.
    pub(super) written: Moment,
}

impl<'l> Basis<'l> {
    /// Reads as much of the ledger as `need` says.
    pub(super) fn read(log: &'l FileLog, need: Need, cache: Cache, by: HeadBy) -> Result<Self, Error> {
        let head = match by {
            _ if need < Need::Head => Head::default(),
            HeadBy::Note => log.heads().catch_up_since(Some(log.heads().changed()?))?,
            HeadBy::Look => log.heads().catch_up()?,
        };
        let folded = match (need, cache) {
            (Need::Nothing | Need::Head, _) => None,
            (Need::Fold, Cache::Believed) => Some(log.folder().folded(head.seq)?),
            (Need::Fold, Cache::Doubted) => Some(log.folder().folded_anew(head.seq)?),
        };
        let now = log.now();
        Ok(Self { log, head, folded, now, written: now })
    }

    /// Reads on up to `head`. `read_again`: what was read before isn't true any more.
    pub(super) fn move_on(
        &mut self,
        head: &Head,
        read_again: Option<Cache>,
        _inside: &Inside<'_>,
    ) -> Result<(), Error> {
        // A claim that came since would be younger than an earlier reading of the boot clock, and
        // be judged by the wall clock.
        self.now = self.log.now();
        if is_old(&self.written, &self.now) {
            self.written = self.now;
        }
        let folder = self.log.folder();
        if let Some(folded) = &mut self.folded {
            match read_again {
                Some(Cache::Doubted) => *folded = folder.folded_anew(head.seq)?,
                None if folded.through <= head.seq => folder.fold_on(folded, head.seq)?,
                _ => *folded = folder.folded(head.seq)?,
            }
        }
        self.head = head.clone();
        Ok(())
    }

    /// Reports whether a decision on it may have expired.
    pub(super) fn is_old(&self) -> bool {
        is_old(&self.now, &self.log.now())
    }

    /// Reports whether the folded events differ from those that are there.
    pub(super) fn is_other(&self) -> bool {
        self.folded.as_ref().is_some_and(|folded| !self.log.folder().holds(folded))
    }

    /// Asks `composer` what follows. `filler`: a number that this commit filled, which isn't shown.
    pub(super) fn compose(&mut self, composer: &mut dyn Compose, filler: Option<Seq>) -> Result<Composed, Error> {
        let seq = self.head.seq;
        let next = Seq::new(seq + 1).ok_or_else(|| is_full(self.log))?;
        let head = filler.filter(|filler| filler.get() == seq).map_or(seq, |filler| filler.get() - 1);
        let folder = self.log.folder();
        let (gap, folded, now) = (self.head.gap, self.folded.as_mut(), self.now);
        let composed = composer.compose(&mut LedgerView { head, next, gap, folded, now, keys: &folder })?;
        Ok(match composed {
            Composed::Add(pieces) if pieces.is_empty() => Composed::Nothing,
            composed => composed,
        })
    }
}

fn is_old(look: &Moment, now: &Moment) -> bool {
    now.boottime_ms.saturating_sub(look.boottime_ms) > FRESH_MS
}
