//! Mistakes that lokt does not make, put back one at a time.
//!
//! The first four are how ledgers were really written to, or nearly so; the others are what the design could be misread
//! for. A model that can't tell them from the protocol proves nothing, so every one of them has a test that says which
//! promise it breaks.

use super::bounds::{Bounds, Claims, Limit};
use super::foreign::Tool;

/// One mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The protocol as it is.
    None,
    /// A lock that is too old is deleted, as the documented protocol says.
    DeleteStale,
    /// A take-over publishes its event at the number that the paused writer has counted.
    NoFiller,
    /// The claims are looked at before the lock is taken.
    ValidateOutside,
    /// The cached claims are trusted although a filler has become another event.
    CacheWithoutFillers,
    /// A filler's file is looked up when the cache is written, not when it was read.
    FillerLookedUpLate,
    /// A take-over puts a file in the stale lock's place.
    FileAtTakeOver,
    /// It isn't noted that somebody may come back, so that locks of ours are files again after a take-over.
    NeverWary,
    /// What a take-over displaced isn't looked at.
    NotInspected,
    /// Temporary files are deleted before the displaced lock is looked at.
    CleanFirst,
    /// What a dead take-over displaced isn't looked at by the next one.
    ShelfForgotten,
    /// A dead take-over's lock is replaced as any lock of ours is, without a filler.
    DebtForgotten,
    /// The filler is published together with the event, and not at all if that is refused.
    FillerWithEvent,
    /// A filler that is the head already is taken for the one that is owed.
    FillerReused,
    /// A filler after a filler doesn't name it.
    FillerNamesNone,
    /// A take-over that is refused leaves its filler without an event that names it.
    FillerUnnamed,
    /// The claims are read outside the lock, and inside only on from there.
    FoldUnchecked,
    /// An event is renamed into its place, whatever is there.
    PublishReplaces,
    /// Where the number is taken, the next one is tried, without a look at what took it.
    NextNumberBlindly,
    /// The hint is trusted without a look at the head event that it names.
    HintUnchecked,
    /// There is no mutex: whoever finds a lock of ours takes its owner for dead.
    NoMutex,
    /// The hard link is made after the answer.
    KeptLast,
}

impl Flaw {
    /// Every mistake with the promise that it breaks.
    pub const ALL: [(Self, &'static str); 21] = [
        (Self::DeleteStale, super::NO_OVERWRITE),
        (Self::NoFiller, super::NO_OVERWRITE),
        (Self::ValidateOutside, super::RIGHT_DECISION),
        (Self::CacheWithoutFillers, super::RIGHT_DECISION),
        (Self::FillerLookedUpLate, super::RIGHT_DECISION),
        (Self::FileAtTakeOver, super::LOCK_KEPT),
        (Self::NeverWary, super::NO_OVERWRITE),
        (Self::NotInspected, super::LIVE_RESPECTED),
        (Self::CleanFirst, super::LIVE_RESPECTED),
        (Self::ShelfForgotten, super::LIVE_RESPECTED),
        (Self::DebtForgotten, super::NO_OVERWRITE),
        (Self::FillerWithEvent, super::NO_OVERWRITE),
        (Self::FillerReused, super::NO_OVERWRITE),
        (Self::FillerNamesNone, super::SOUND_CHAIN),
        (Self::FillerUnnamed, super::SOUND_CHAIN),
        (Self::FoldUnchecked, super::RIGHT_DECISION),
        (Self::PublishReplaces, super::NO_OVERWRITE),
        (Self::NextNumberBlindly, super::RIGHT_DECISION),
        (Self::HintUnchecked, super::NO_GAP),
        (Self::NoMutex, super::ONE_INSIDE),
        (Self::KeptLast, super::NO_UNSEEN_LOSS),
    ];

    /// As people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::DeleteStale => "delete the stale lock",
            Self::NoFiller => "no filler",
            Self::ValidateOutside => "validate outside the lock",
            Self::CacheWithoutFillers => "cache without fillers",
            Self::FillerLookedUpLate => "a filler's file looked up late",
            Self::FileAtTakeOver => "a file at the take-over",
            Self::NeverWary => "files again after a take-over",
            Self::NotInspected => "displaced lock not inspected",
            Self::CleanFirst => "temporary files deleted first",
            Self::ShelfForgotten => "a dead take-over not inspected",
            Self::DebtForgotten => "a dead take-over owes nothing",
            Self::FillerWithEvent => "no filler if refused",
            Self::FillerReused => "a filler used twice",
            Self::FillerNamesNone => "a filler that names none",
            Self::FillerUnnamed => "a filler that nothing names",
            Self::FoldUnchecked => "claims read outside, then on",
            Self::PublishReplaces => "publish with replace",
            Self::NextNumberBlindly => "the next number without a look",
            Self::HintUnchecked => "hint trusted without its event",
            Self::NoMutex => "no mutex",
            Self::KeptLast => "hard link after the answer",
        }
    }

    /// Far enough to catch it.
    pub fn bounds(self) -> Bounds {
        let one = Bounds { foreign: &[Tool::Documented], ..Bounds::SMALL };
        let two = Bounds { ours: 2, foreign: &[Tool::Documented, Tool::Shell], ..Bounds::SMALL };
        match self {
            Self::NeverWary | Self::NotInspected | Self::CleanFirst | Self::ShelfForgotten => two,
            Self::FillerReused | Self::FillerUnnamed => Bounds { claims: Claims::Taken, ..two },
            Self::FillerWithEvent => Bounds { claims: Claims::Taken, ours: 2, ..one },
            Self::HintUnchecked => Bounds { shortened: 1, foreign: &[], ..Bounds::SMALL },
            Self::KeptLast => Bounds { limit: Limit::StoppedBeforeCount, ..one },
            _ => Bounds { claims: Claims::Free, ..one },
        }
    }
}
