//! Those who work on the file system until its power is cut. Each keeps a book of what it was answered, outside of it, and says afterwards
//! whether all of that is still so. What was asked and not answered may have happened or not.

mod breaks;
mod claims;
mod events;
mod freezes;
mod guards;
mod leases;
mod locks;
mod published;
mod restored;
mod snapshots;
mod worktrees;

use std::collections::BTreeSet;
use std::sync::Arc;

use lokt_testkit::dice::Dice;

pub(crate) use guards::GUARDS_TOKEN;

use crate::site::{Highest, Site, Stop};
use crate::tally::Tally;

/// So many of each kind were acknowledged.
pub(crate) type Acks = Vec<(&'static str, u64)>;

/// One who works.
pub(crate) trait Actor: Send {
    /// What the things are that it is answered.
    fn kind(&self) -> &'static str;
    /// The same if there are several kinds.
    fn kinds(&self) -> Vec<&'static str> {
        vec![self.kind()]
    }
    /// Makes what it needs on a new file system.
    fn move_in(&mut self, site: &Site) -> Result<(), Stop>;
    /// Asks for one thing; gives what was acknowledged.
    fn step(&mut self, site: &Site, dice: &mut Dice) -> Result<Acks, Stop>;
    /// Compares what is there with its book, and changes nothing. From then on the book says what is there.
    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop>;
    /// Does what only a user may decide, and a doctor can't.
    fn settle(&mut self, _: &Site, _: &mut Tally) -> Result<(), Stop> {
        Ok(())
    }
    /// Uses everything again, which must work at once.
    fn go_on(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop>;
    /// The planted fault: it is answered one thing of this kind, which then goes behind its back. It must notice when it looks or goes on.
    fn lose(&mut self, site: &Site, kind: &'static str) -> Result<(), Stop>;
}

/// All of them, for a new file system.
pub(crate) fn all() -> Vec<Box<dyn Actor>> {
    let tokens = Arc::new(Highest::default());
    let (documented, native) = (events::Style::documented(), events::Style::native());
    let (in_documented, in_native) = (Arc::new(Highest::default()), Arc::new(Highest::default()));
    vec![
        // Makes the ledger, so it must come before those who claim in it.
        Box::new(events::Events::new(documented, &in_documented)),
        Box::new(events::Events::new(native, &in_native)),
        Box::new(claims::Claims::new(documented, &in_documented)),
        Box::new(claims::Claims::new(native, &in_native)),
        Box::new(locks::Locks::new("alice", &tokens)),
        Box::new(locks::Locks::new("bob", &tokens)),
        Box::new(guards::Guards::new("carol", &tokens)),
        Box::new(guards::Guards::new("dave", &tokens)),
        Box::new(freezes::Freezes::new()),
        Box::new(breaks::Breaks::new(&tokens)),
        Box::new(published::Published::new(&tokens)),
        // Makes the repository of those who come after it.
        Box::new(leases::Leases::new()),
        Box::new(worktrees::Worktrees::new()),
        Box::new(snapshots::Snapshots::new()),
    ]
}

/// Everything that is acknowledged by somebody.
pub(crate) fn kinds() -> BTreeSet<&'static str> {
    all().iter().flat_map(|actor| actor.kinds()).collect()
}

/// One of so many.
fn pick(dice: &mut Dice, count: usize) -> usize {
    usize::try_from(dice.below(count as u64)).expect("it is below a length")
}
