//! The worlds: which commands run, and how much goes wrong.

use std::fmt;

use super::witness::Witness;

/// One command of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// `guard x`.
    Guard,
    /// `guard --wait x`.
    WaitGuard,
    /// `guard --wait x y`.
    WaitBoth,
    /// The end of the command under a guard.
    Release,
    /// A guard's renewal.
    Keep,
    /// `lock x`.
    Lock,
    /// `lock --ttl 60s x`.
    LockLeased,
    /// `unlock x`.
    Unlock,
    /// `unlock --force x`.
    Force,
    /// `freeze x`.
    Freeze,
    /// `freeze --ttl 60s x`.
    FreezeLeased,
    /// `unfreeze x`.
    Unfreeze,
    /// Removes the first ticket that isn't the caller's.
    PassOver,
    /// Deletes the cells of free names.
    Sweep,
}

impl Step {
    /// As people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::WaitGuard => "guard --wait",
            Self::WaitBoth => "guard --wait of both names",
            Self::Release => "release",
            Self::Keep => "a renewal",
            Self::Lock => "lock",
            Self::LockLeased => "lock --ttl",
            Self::Unlock => "unlock",
            Self::Force => "unlock --force",
            Self::Freeze => "freeze",
            Self::FreezeLeased => "freeze --ttl",
            Self::Unfreeze => "unfreeze",
            Self::PassOver => "pass over",
            Self::Sweep => "sweep",
        }
    }

    /// Is the caller put into the queue if it is refused?
    pub fn waits(self) -> bool {
        matches!(self, Self::WaitGuard | Self::WaitBoth)
    }

    /// Does it begin a process part?
    pub fn guards(self) -> bool {
        matches!(self, Self::Guard | Self::WaitGuard | Self::WaitBoth)
    }

    /// Does it need a hold of the same client?
    pub fn needs_hold(self) -> bool {
        matches!(self, Self::Release | Self::Keep)
    }

    /// Does it begin an owner part or a freeze with a TTL?
    pub fn leases(self) -> bool {
        matches!(self, Self::LockLeased | Self::FreezeLeased)
    }
}

/// A client: its owner, and its commands in their order.
pub type Program = (&'static str, &'static [Step]);

/// A world. Every order of everything within it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// What it is about.
    pub called: &'static str,
    /// The clients.
    pub programs: &'static [Program],
    /// Requests that are late, doubled, or whose answers are lost.
    pub faults: u8,
    /// Sessions that end at any moment, in a world without time.
    pub ends: u8,
    /// Late openings of sessions that were closed.
    pub reopens: u8,
    /// Ticks of the clock. With any, sessions end only by time, and holders have deadlines.
    pub ticks: u8,
    /// Changes of the server in charge.
    pub elections: u8,
    /// Renewals that a server answers although the session is gone.
    pub lies: u8,
    /// What must be reachable here.
    pub witnesses: &'static [Witness],
}

/// A session lasts this many ticks.
pub(super) const TTL: u8 = 2;

use Step::{
    Force, Freeze, FreezeLeased, Guard, Keep, Lock, LockLeased, PassOver, Release, Sweep, Unfreeze, Unlock, WaitBoth,
    WaitGuard,
};

impl Bounds {
    const NOTHING: Self = Self {
        called: "",
        programs: &[],
        faults: 0,
        ends: 0,
        reopens: 0,
        ticks: 0,
        elections: 0,
        lies: 0,
        witnesses: &[],
    };

    /// Two guards of different owners, whose sessions end, and a third that forces its way.
    pub const GRANTS: Self = Self {
        called: "grants",
        programs: &[("alice", &[Guard, Release]), ("bob", &[Guard]), ("carol", &[Force])],
        faults: 1,
        ends: 1,
        reopens: 1,
        witnesses: &[Witness::OverStale, Witness::Forced, Witness::NoSession, Witness::Void, Witness::Proven],
        ..Self::NOTHING
    };
    /// Both parts of one owner's hold.
    pub const PARTS: Self = Self {
        called: "parts",
        programs: &[("alice", &[Lock, Unlock]), ("alice", &[Guard, Release]), ("bob", &[Lock])],
        faults: 1,
        ends: 1,
        witnesses: &[Witness::Joined, Witness::Refreshed, Witness::Left],
        ..Self::NOTHING
    };
    /// A guard that follows one whose session ended, under an owner part.
    pub const OVERTAKEN: Self = Self {
        called: "overtaken",
        programs: &[("alice", &[Lock, Guard, Release]), ("alice", &[Guard, Release])],
        faults: 1,
        ends: 1,
        witnesses: &[Witness::Overtaken],
        ..Self::NOTHING
    };
    /// Owner parts that expire.
    pub const LEASES: Self = Self {
        called: "leases",
        programs: &[("alice", &[LockLeased, LockLeased]), ("alice", &[Unlock]), ("bob", &[Lock])],
        faults: 1,
        ends: 1,
        witnesses: &[Witness::Revived, Witness::OverStale],
        ..Self::NOTHING
    };
    /// Freezes against grants.
    pub const FREEZES: Self = Self {
        called: "freezes",
        programs: &[("alice", &[FreezeLeased]), ("bob", &[Guard, Release]), ("alice", &[Freeze])],
        faults: 1,
        ends: 1,
        witnesses: &[Witness::FrozenOut, Witness::Thawed],
        ..Self::NOTHING
    };
    /// A freeze over a hold, and its end.
    pub const THAWS: Self = Self {
        called: "thaws",
        programs: &[("alice", &[Freeze, Unfreeze]), ("bob", &[Guard, Release])],
        faults: 2,
        ends: 1,
        ..Self::NOTHING
    };
    /// The queue of one name, and callers that don't wait.
    pub const QUEUE: Self = Self {
        called: "queue",
        programs: &[("alice", &[Lock, Unlock]), ("bob", &[WaitGuard, Release]), ("carol", &[WaitGuard])],
        faults: 1,
        witnesses: &[Witness::Waited],
        ..Self::NOTHING
    };
    /// The same, with a waiter that is passed over.
    pub const PASSED: Self = Self {
        called: "passed over",
        programs: &[("alice", &[Lock, Unlock]), ("bob", &[WaitGuard]), ("carol", &[PassOver, Guard])],
        faults: 1,
        witnesses: &[Witness::Passed, Witness::Waited],
        ..Self::NOTHING
    };
    /// A caller that a waiter overtakes, and whose request may arrive again when that waiter is gone.
    pub const SECOND_THOUGHTS: Self = Self {
        called: "second thoughts",
        programs: &[("alice", &[Lock, Unlock]), ("bob", &[WaitGuard]), ("carol", &[Lock])],
        faults: 1,
        ends: 1,
        ..Self::NOTHING
    };
    /// Two requests for two names, while one of the names is held.
    pub const BOTH: Self = Self {
        called: "both names",
        programs: &[("alice", &[WaitBoth, Release]), ("bob", &[WaitBoth, Release]), ("carol", &[Lock, Unlock])],
        witnesses: &[Witness::Waited, Witness::Together],
        ..Self::NOTHING
    };
    /// Cells that are swept while late copies are under way.
    pub const SWEEPS: Self = Self {
        called: "sweeps",
        programs: &[("alice", &[Lock, Unlock]), ("bob", &[Lock]), ("carol", &[Sweep, Sweep])],
        faults: 2,
        witnesses: &[Witness::Swept],
        ..Self::NOTHING
    };
    /// Time: a holder's deadline against the server's.
    pub const TIME: Self = Self {
        called: "time",
        programs: &[("alice", &[Guard, Keep, Keep]), ("bob", &[Guard])],
        ticks: 5,
        elections: 1,
        lies: 1,
        witnesses: &[Witness::Kept, Witness::Lost, Witness::Unproven, Witness::OverStale],
        ..Self::NOTHING
    };

    /// Time: a waiter whose session is renewed, or ends, before it is granted the name.
    pub const LONG_WAIT: Self = Self {
        called: "long wait",
        programs: &[("alice", &[Lock, Unlock]), ("bob", &[WaitGuard, Keep])],
        ticks: 4,
        elections: 1,
        witnesses: &[Witness::Waited, Witness::Kept],
        ..Self::NOTHING
    };

    /// Looked at with every change.
    pub const USUAL: [Self; 13] = [
        Self::GRANTS,
        Self::PARTS,
        Self::OVERTAKEN,
        Self::LEASES,
        Self::FREEZES,
        Self::THAWS,
        Self::QUEUE,
        Self::PASSED,
        Self::SECOND_THOUGHTS,
        Self::BOTH,
        Self::SWEEPS,
        Self::TIME,
        Self::LONG_WAIT,
    ];

    /// With a second fault, or a second session that ends. They take minutes.
    pub const LONG: [Self; 5] = [
        Self { faults: 2, ..Self::GRANTS },
        Self { faults: 2, ..Self::PARTS },
        Self { faults: 2, ends: 2, ..Self::LEASES },
        Self { ends: 1, ..Self::QUEUE },
        Self { faults: 1, ..Self::BOTH },
    ];
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { called, faults, ends, ticks, elections, .. } = self;
        write!(f, "{called}: faults {faults}, ended sessions {ends}, ticks {ticks}")?;
        write!(f, ", elections {elections}")
    }
}
