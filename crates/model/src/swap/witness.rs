//! What must be reachable, lest the promises hold only because nothing happens.

use stateright::Property;

use super::Swap;
use super::state::State;

/// Something that should happen in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Witness {
    /// A grant in place of a stale member.
    OverStale,
    /// A stale hold lives again under its lock id.
    Revived,
    /// A live hold gets a new end, or an owner part.
    Refreshed,
    /// A guard joins its owner's part.
    Joined,
    /// A guard joins it under a new token, because one before it was overtaken.
    Overtaken,
    /// One of two parts ends, and the other stays.
    Left,
    /// A hold is removed by force.
    Forced,
    /// A grant to a waiter.
    Waited,
    /// Two names are granted at once.
    Together,
    /// A ticket is passed over.
    Passed,
    /// A caller is refused because of a freeze.
    FrozenOut,
    /// A name is granted after its freeze has expired.
    Thawed,
    /// A cell is swept.
    Swept,
    /// A change without an answer is voided.
    Void,
    /// A change without an answer is found to be made.
    Proven,
    /// A change fails because its session is gone.
    NoSession,
    /// A renewal counts.
    Kept,
    /// A renewal shows that a hold is lost.
    Lost,
    /// A renewal proves nothing.
    Unproven,
}

impl Witness {
    /// As people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OverStale => "a grant in place of a stale member",
            Self::Revived => "a stale hold is revived",
            Self::Refreshed => "a live hold is refreshed",
            Self::Joined => "a guard joins its owner's part",
            Self::Overtaken => "a guard joins under a new token",
            Self::Left => "one of two parts ends",
            Self::Forced => "a hold is removed by force",
            Self::Waited => "a waiter is granted",
            Self::Together => "two names are granted at once",
            Self::Passed => "a ticket is passed over",
            Self::FrozenOut => "a freeze refuses a guard",
            Self::Thawed => "a guard is granted after a freeze expired",
            Self::Swept => "a cell is swept",
            Self::Void => "a change without an answer is voided",
            Self::Proven => "a change without an answer is proven",
            Self::NoSession => "a change fails for its session",
            Self::Kept => "a renewal counts",
            Self::Lost => "a renewal shows a loss",
            Self::Unproven => "a renewal proves nothing",
        }
    }

    /// That it happens.
    pub(super) fn property(self) -> Property<Swap> {
        fn seen<const N: usize>(_: &Swap, state: &State) -> bool {
            state.truth.seen.iter().any(|witness| *witness as usize == N)
        }
        let test = match self {
            Self::OverStale => seen::<0>,
            Self::Revived => seen::<1>,
            Self::Refreshed => seen::<2>,
            Self::Joined => seen::<3>,
            Self::Overtaken => seen::<4>,
            Self::Left => seen::<5>,
            Self::Forced => seen::<6>,
            Self::Waited => seen::<7>,
            Self::Together => seen::<8>,
            Self::Passed => seen::<9>,
            Self::FrozenOut => seen::<10>,
            Self::Thawed => seen::<11>,
            Self::Swept => seen::<12>,
            Self::Void => seen::<13>,
            Self::Proven => seen::<14>,
            Self::NoSession => seen::<15>,
            Self::Kept => seen::<16>,
            Self::Lost => seen::<17>,
            Self::Unproven => seen::<18>,
        };
        Property::sometimes(self.as_str(), test)
    }
}
