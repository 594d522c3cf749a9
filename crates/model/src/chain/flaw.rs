//! Mistakes that lokt does not make, put back one at a time.
//!
//! The first five are how worktree leases were really built, or specified; the others are what the design could be misread for, and what
//! earlier drafts of it said. A model that can't tell them from the protocol proves nothing, so every one of them has a test that says
//! which promise it breaks.

use super::bounds::{Beginning, Bounds, Clocks};
use super::state::Op;

/// One mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The protocol as it is.
    None,
    /// A lease is taken by replacing what is there: every thief wins.
    GrantReplaces,
    /// A renewal replaces what is there: also a thief's lease.
    RenewReplaces,
    /// A release deletes what is there: also a thief's lease.
    ReleaseDeletes,
    /// A release forgets which numbers were used.
    TokenRestarts,
    /// The token is looked at, and then the file is put in place.
    ValidateThenPublish,
    /// Who finds the block used up goes on in the next one without saying so in the chain.
    JumpWithoutSlot,
    /// A block that somebody else has made is used by the chain, too.
    SharedBlock,
    /// The ceiling is one file that is replaced, and so can go down.
    CeilingByRename,
    /// The ceiling is made after the chain has gone on above the last one.
    RaiseLate,
    /// A chain that is born again begins after the last token that was given.
    LastToken,
    /// A base whose maker was stopped while others lived and died is used as it is.
    StaleBase,
    /// Whether the base is like that is judged by ceilings that were looked at before it.
    CeilingBeforeBase,
    /// Nobody looks again after it has created its slot.
    NoGhostCheck,
    /// Slots don't say of which chain they are; only numbers are compared.
    NoChainId,
    /// A slot that follows any file of the right number is taken for a good one.
    FollowsAnyFile,
    /// Slots are removed without a note.
    PruneUnnoted,
    /// Instead of a note, the first slot is never removed.
    FirstKept,
    /// Whoever finds that its slot came too late removes it.
    GhostRemoved,
    /// A lease is counted from the answer.
    CountedFromAnswer,
    /// A renewal is stamped with a clock that was read before the look.
    StampedBefore,
    /// Nobody notices that the last slot is missing.
    TailUnnoticed,
    /// Which grant was noted is read before the slots are listed.
    NoteFirst,
    /// A grant is noted although the same one was noted before.
    NoteReplaced,
    /// A grant is noted after the last look.
    NoteLast,
    /// Who was too late gives the lease back although another process of its session has renewed it since.
    GivesBackAny,
    /// The staging isn't emptied before the new lease is answered, but after.
    EmptyAfterAnswer,
    /// The staging is emptied before the chain is read.
    EmptyFirst,
    /// Everything is removed from the staging, also what came after the look.
    EmptyAll,
    /// Renewals are files beside the chain.
    RenewBeside,
    /// The same, and one that comes too late counts.
    LateBeside,
    /// The same as the first, and the clock is read after the chain.
    ClockLastBeside,
    /// The clock is read after the chain.
    ClockLast,
    /// A renewal that comes after the end, but before a thief, counts.
    LateRenewal,
    /// The staging is emptied after the grant, before it is answered.
    EmptyAfterGrant,
    /// A release leaves the staging as it is.
    ReleaseKeepsStaging,
}

impl Flaw {
    /// Every mistake with the promise that it breaks.
    pub const ALL: [(Self, &'static str); 29] = [
        (Self::GrantReplaces, super::ONE_HOLDER),
        (Self::RenewReplaces, super::GRANT_KEPT),
        (Self::ReleaseDeletes, super::GRANT_KEPT),
        (Self::TokenRestarts, super::TOKEN_ORDER),
        (Self::ValidateThenPublish, super::FENCED),
        (Self::JumpWithoutSlot, super::ONE_HOLDER),
        (Self::SharedBlock, super::TOKEN_ORDER),
        (Self::CeilingByRename, super::TOKEN_ORDER),
        (Self::RaiseLate, super::TOKEN_ORDER),
        (Self::LastToken, super::NEXT_WORKS),
        (Self::StaleBase, super::TOKEN_ORDER),
        (Self::CeilingBeforeBase, super::TOKEN_ORDER),
        (Self::NoGhostCheck, super::TOKEN_ORDER),
        (Self::NoChainId, super::TOKEN_ORDER),
        (Self::FollowsAnyFile, super::TOKEN_ORDER),
        (Self::PruneUnnoted, super::TOKEN_ORDER),
        (Self::FirstKept, super::TOKEN_ORDER),
        (Self::GhostRemoved, super::END_KEPT),
        (Self::CountedFromAnswer, super::ONE_HOLDER),
        (Self::StampedBefore, super::ONE_HOLDER),
        (Self::NoteReplaced, super::TOKEN_ORDER),
        (Self::NoteLast, super::TOKEN_ORDER),
        (Self::GivesBackAny, super::GRANT_KEPT),
        (Self::EmptyAfterAnswer, super::FENCED),
        (Self::EmptyFirst, super::FENCED),
        (Self::EmptyAll, super::UNDISTURBED),
        (Self::RenewBeside, super::ONE_HOLDER),
        (Self::LateBeside, super::ONE_HOLDER),
        (Self::ClockLastBeside, super::ONE_HOLDER),
    ];

    /// What could be done otherwise without breaking a promise: the protocol is stricter than it has to be.
    pub const HARMLESS: [Self; 6] = [
        Self::TailUnnoticed,
        Self::NoteFirst,
        Self::ClockLast,
        Self::LateRenewal,
        Self::EmptyAfterGrant,
        Self::ReleaseKeepsStaging,
    ];

    /// As people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::GrantReplaces => "every thief wins",
            Self::RenewReplaces => "a renewal replaces a thief's lease",
            Self::ReleaseDeletes => "a release deletes a thief's lease",
            Self::TokenRestarts => "tokens start again",
            Self::ValidateThenPublish => "validate, then publish",
            Self::JumpWithoutSlot => "a jump without a slot",
            Self::SharedBlock => "a block for two chains",
            Self::CeilingByRename => "the ceiling by rename",
            Self::RaiseLate => "the ceiling raised after use",
            Self::LastToken => "born at the last token",
            Self::StaleBase => "a stale base is used",
            Self::CeilingBeforeBase => "ceilings listed before the base",
            Self::NoGhostCheck => "no second look",
            Self::NoChainId => "no chain id",
            Self::FollowsAnyFile => "any file of that number will do",
            Self::PruneUnnoted => "pruned without a note",
            Self::FirstKept => "the first slot is kept instead",
            Self::GhostRemoved => "who came too late removes its slot",
            Self::CountedFromAnswer => "a lease counted from the answer",
            Self::StampedBefore => "a renewal stamped before the look",
            Self::TailUnnoticed => "a missing end isn't noticed",
            Self::NoteFirst => "the note read before the listing",
            Self::NoteReplaced => "a grant that isn't noted exclusively",
            Self::NoteLast => "a grant noted after the last look",
            Self::GivesBackAny => "a late renewal ends a newer one",
            Self::EmptyAfterAnswer => "staging emptied after the answer",
            Self::EmptyFirst => "staging emptied before the look",
            Self::EmptyAll => "staging emptied of everything",
            Self::RenewBeside => "renewals beside the chain",
            Self::LateBeside => "late renewals beside the chain count",
            Self::ClockLastBeside => "the clock last, renewals beside",
            Self::ClockLast => "the clock last",
            Self::LateRenewal => "a late renewal counts",
            Self::EmptyAfterGrant => "staging emptied after the grant",
            Self::ReleaseKeepsStaging => "a release leaves the staging",
        }
    }

    /// Is a renewal a file beside the chain?
    pub(super) fn renews_beside(self) -> bool {
        matches!(self, Self::RenewBeside | Self::LateBeside | Self::ClockLastBeside)
    }

    /// Is the clock read after the chain?
    pub(super) fn times_last(self) -> bool {
        matches!(self, Self::ClockLast | Self::ClockLastBeside)
    }

    /// Is the staging emptied between the look and the grant?
    pub(super) fn empties_before(self) -> bool {
        !matches!(self, Self::EmptyAfterAnswer | Self::EmptyFirst | Self::EmptyAfterGrant)
    }

    /// Can a slot be the last one again, after others?
    pub(super) fn brings_old_slots_back(self) -> bool {
        matches!(
            self,
            Self::ReleaseDeletes | Self::FollowsAnyFile | Self::PruneUnnoted | Self::FirstKept | Self::GhostRemoved
        )
    }

    /// Far enough to see it.
    pub fn bounds(self) -> Bounds {
        let pair = Bounds { clients: 2, ..Bounds::TAKE };
        match self {
            Self::ValidateThenPublish | Self::EmptyAfterAnswer | Self::EmptyFirst => Bounds::PUBLISH,
            Self::ReleaseKeepsStaging | Self::EmptyAfterGrant => Bounds::PUBLISH,
            Self::EmptyAll => {
                let beginning = Beginning::Born;
                Bounds { clients: 2, beginning, removals: 0, clocks: Clocks::Right, ..Bounds::PUBLISH }
            }
            Self::SharedBlock => Bounds { block: 1, ..Bounds::BIRTH },
            Self::JumpWithoutSlot => Bounds { block: 1, removals: 0, clocks: Clocks::Right, ..Bounds::UNBORN },
            Self::CeilingByRename => Bounds::UNBORN,
            Self::LastToken => Bounds::BIRTH,
            Self::RaiseLate | Self::StaleBase | Self::CeilingBeforeBase => Bounds { clients: 3, ..Bounds::BIRTH },
            Self::NoGhostCheck | Self::NoChainId => Bounds { clients: 3, ..Bounds::BIRTH },
            Self::PruneUnnoted => Bounds { beginning: Beginning::Born, ..Bounds::PRUNE },
            Self::FirstKept => Bounds::PRUNE,
            Self::FollowsAnyFile => Bounds::LATE,
            Self::GhostRemoved => Bounds { commands: 4, kept: 2, ..Bounds::PRUNE },
            Self::TailUnnoticed | Self::NoteFirst | Self::NoteReplaced | Self::NoteLast => Bounds::CUT,
            Self::GivesBackAny => Bounds { clients: 2, ..Bounds::SESSION },
            Self::StampedBefore | Self::RenewBeside | Self::LateRenewal | Self::ClockLast => Bounds::SESSION,
            Self::LateBeside | Self::ClockLastBeside => Bounds { ops: &[Op::Acquire, Op::Renew], block: 8, ..pair },
            _ => pair,
        }
    }
}
