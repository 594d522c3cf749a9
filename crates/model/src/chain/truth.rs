//! What is true, whatever the files say: which tokens were given, and what was done wrong.

use std::collections::BTreeSet;

use super::Leases;
use super::look;
use super::state::State;

/// A promise that is broken by a step rather than by a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Offence {
    /// A token was given that isn't greater than all before it.
    OldToken,
    /// A renewal or a release was answered with yes although a greater token had been given.
    Overtaken,
    /// The last slot of a chain was removed by one of ours.
    EndLost,
    /// A file got into its place although a greater token had been given.
    StaleFile,
    /// The file of a living holder was removed from the staging by somebody who didn't become the holder.
    Disturbed,
}

/// What is known beside the files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Truth {
    /// The greatest token that was given.
    pub last: u8,
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
    /// Does at most one session believe that it holds?
    pub fn has_one_holder(&self) -> bool {
        self.sessions.iter().filter(|session| self.believes(session)).count() <= 1
    }

    /// Does the chain still say so of the last one who was told that it holds, and believes so?
    pub(super) fn keeps_grant(&self, model: Leases) -> bool {
        let holder = self.sessions.iter().find(|session| session.token == self.truth.last && self.believes(session));
        holder.is_none_or(|holder| {
            let known = self.disk.base.map(|base| look::look(model, &self.disk, base));
            known.and_then(|known| known.record).is_some_and(|record| record.token == holder.token)
        })
    }
}
