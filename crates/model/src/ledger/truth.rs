//! What is true, whatever lokt's notes say: what was acknowledged, and what was done wrong.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::disk::{Fold, Inode};
use super::foreign::Foreign;
use super::state::State;

/// A promise that is broken by a step rather than by a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Offence {
    /// One of ours replaced an event.
    Replaced,
    /// A condition was judged wrongly.
    Misjudged,
    /// The lock of one of ours that goes on was removed by somebody else.
    Freed,
    /// One of ours published, or deleted temporary files, beside a foreign writer that was not taken over.
    Intruded,
}

/// What is known beside the files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Truth {
    /// Number and file of every event that was acknowledged.
    pub acknowledged: Vec<(u8, Inode)>,
    /// What was done wrong.
    pub offences: BTreeSet<Offence>,
}

impl Truth {
    /// Remembers it, if that is what happened.
    pub(super) fn note(&mut self, offence: Offence, happened: bool) {
        if happened {
            self.offences.insert(offence);
        }
    }
}

impl State {
    /// Is every acknowledged event where it was, and did none of ours replace any?
    pub fn has_no_overwrite(&self) -> bool {
        let is_there = |(number, inode): &(u8, Inode)| self.disk.inode(*number) == Some(*inode);
        !self.truth.offences.contains(&Offence::Replaced) && self.truth.acknowledged.iter().all(is_there)
    }

    /// Is every acknowledged event either where it was, or among the hard links, where it is missed?
    pub fn has_no_unseen_loss(&self) -> bool {
        let is_seen = |event: &(u8, Inode)| self.disk.inode(event.0) == Some(event.1) || self.disk.kept.contains(event);
        self.truth.acknowledged.iter().all(is_seen)
    }

    /// Is there an event under every number?
    pub fn has_no_gap(&self) -> bool {
        self.disk.slots.iter().all(Option::is_some)
    }

    /// Does every event of ours that is there carry the digest of all before it?
    pub fn has_sound_chain(&self) -> bool {
        let disk = &self.disk;
        (1..=disk.head()).all(|number| match disk.at(number) {
            Some(event) if matches!(event.inode, Inode::Ours(..)) => {
                event.chain == disk.digest(number - 1, event.names_filler)
            }
            _ => true,
        })
    }

    /// Is at most one of ours inside?
    pub fn has_one_inside(&self) -> bool {
        self.writers.iter().filter(|writer| writer.is_inside()).count() <= 1
    }

    /// One of ours is about to publish: is everybody else out, or as good as?
    pub(super) fn note_entry(&mut self) {
        let intruded = self.foreign.iter().any(|foreign| foreign.is_inside() && !foreign.is_overtaken);
        self.truth.note(Offence::Intruded, intruded);
    }

    /// One of ours is about to delete temporary files.
    pub(super) fn note_cleaning(&mut self) {
        let is_live = |foreign: &Foreign| foreign.has_temp && !foreign.is_overtaken;
        self.truth.note(Offence::Intruded, self.foreign.iter().any(is_live));
    }

    /// One of ours has folded up to a number, and acts upon what it believes.
    pub(super) fn note_fold(&mut self, fold: &Fold) {
        self.truth.note(Offence::Misjudged, self.holds_claim(1..=fold.through) != fold.claimed);
    }

    /// One of ours is about to publish a claim under `number`: it must have folded all that comes before.
    ///
    /// What a late writer puts into a filler's place after that was read comes too late for everybody, and isn't looked
    /// at again.
    pub(super) fn note_claim(&mut self, fold: &Fold, number: u8) {
        self.truth.note(Offence::Misjudged, self.holds_claim(fold.through + 1..=number - 1));
    }

    fn holds_claim(&self, mut numbers: RangeInclusive<u8>) -> bool {
        numbers.any(|number| self.disk.at(number).is_some_and(|event| event.claims))
    }
}
