//! How far the model goes, and what it may assume of foreign writers.

use std::fmt;

use super::foreign::Tool;

/// What can't be promised: something that foreign writers may do, or people, that no lock of ours can mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// They don't.
    None,
    /// A foreign writer is stopped between taking its lock and counting, until that lock is stale. When it goes on it
    /// counts what is there then, and stands again before its rename: there is no number that could be filled for it.
    StoppedBeforeCount,
    /// A foreign writer whose lock was taken over removes the lock of another foreign one.
    FreesAnother,
    /// Somebody deletes a lock by hand, or because it is old, as the documented protocol says: a foreign one, or one of
    /// ours that is a file.
    Deleted,
}

impl Limit {
    /// Every limit with the promises that don't hold beyond it.
    pub const ALL: [(Self, &'static [&'static str]); 3] = [
        (Self::StoppedBeforeCount, &[super::NO_OVERWRITE, super::SOUND_CHAIN]),
        (Self::FreesAnother, &[super::NO_OVERWRITE, super::LIVE_RESPECTED]),
        (Self::Deleted, &[super::NO_OVERWRITE, super::SOUND_CHAIN, super::LIVE_RESPECTED, super::LOCK_KEPT]),
    ];

    /// As people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::StoppedBeforeCount => "stopped before it counts",
            Self::FreesAnother => "frees another foreign lock",
            Self::Deleted => "a lock is deleted",
        }
    }

    /// Far enough to see it.
    pub fn bounds(self) -> Bounds {
        let foreign: &[Tool] = match self {
            Self::FreesAnother => &[Tool::Documented, Tool::Documented],
            _ => &[Tool::Documented],
        };
        Bounds { ours: 2, foreign, limit: self, ..Bounds::SMALL }
    }
}

/// Are there claims?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claims {
    /// No, only plain events.
    None,
    /// Whoever comes may claim the one node, which is free.
    Free,
    /// It is taken before anybody comes.
    Taken,
}

/// How often things happen at most. Every order of them is looked at. Kills are limited only by what there is to kill,
/// and any writer may stand still at any step for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Appends of ours, two of them at a time.
    pub ours: u8,
    /// Foreign writers; each appends once.
    pub foreign: &'static [Tool],
    /// Do they claim the node, ours and theirs?
    pub claims: Claims,
    /// How often the last event is taken away while nobody writes, as a `git checkout` does.
    pub shortened: u8,
    /// What else is assumed to happen.
    pub limit: Limit,
}

impl Bounds {
    /// Enough for most known mistakes, with foreign writers.
    pub const SMALL: Self = Self { ours: 3, foreign: &[], claims: Claims::None, shortened: 0, limit: Limit::None };
    /// Three of ours claim beside the native program.
    pub const NATIVE: Self = Self { foreign: &[Tool::Native], claims: Claims::Free, ..Self::SMALL };
    /// Three of ours claim beside a shell script.
    pub const SHELL: Self = Self { foreign: &[Tool::Shell], ..Self::NATIVE };
    /// Two foreign writers, each of which may come late.
    pub const PAIR: Self = Self { ours: 2, foreign: &[Tool::Documented, Tool::Shell], ..Self::SMALL };
    /// Two foreign writers, and claims that are refused.
    pub const REFUSED: Self = Self { foreign: &[Tool::Native, Tool::Documented], claims: Claims::Taken, ..Self::PAIR };
    /// A ledger that gets shorter.
    pub const SHORTENED: Self = Self { ours: 2, shortened: 2, ..Self::SHELL };
    /// What is looked at with every change.
    pub const USUAL: [Self; 5] = [Self::NATIVE, Self::SHELL, Self::PAIR, Self::REFUSED, Self::SHORTENED];
    /// What takes longer: everything at once, and more of each.
    pub const LONG: [Self; 4] = [
        Self { claims: Claims::Free, ..Self::PAIR },
        Self { ours: 3, ..Self::PAIR },
        Self { ours: 3, ..Self::SHORTENED },
        Self { foreign: &[Tool::Documented], ..Self::NATIVE },
    ];
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of ours", self.ours)?;
        self.foreign.iter().try_for_each(|tool| write!(f, ", {}", tool.as_str()))?;
        f.write_str(match self.claims {
            Claims::None => "",
            Claims::Free => ", claims",
            Claims::Taken => ", claims of a node that is taken",
        })?;
        if self.shortened > 0 {
            write!(f, ", shortened {}", self.shortened)?;
        }
        if self.limit != Limit::None {
            write!(f, ", {}", self.limit.as_str())?;
        }
        Ok(())
    }
}
