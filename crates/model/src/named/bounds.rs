//! How far the model goes.

use std::fmt;

/// How often things happen at most. Every order of them is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Commands and renewals, all clients together. Releases and kills are not counted: each needs something that was started.
    pub ops: u8,
    /// Ticks of the clock; each ends every running lease.
    pub ticks: u8,
    /// Power cuts.
    pub cuts: u8,
    /// Records deleted by hand.
    pub deletes: u8,
}

impl Bounds {
    /// Enough for every known mistake.
    pub const SMALL: Self = Self { ops: 3, ticks: 1, cuts: 1, deletes: 1 };
    /// What is looked at with every change: everything once, then more time, then more power cuts.
    pub const USUAL: [Self; 3] = [
        Self { ops: 4, ticks: 1, cuts: 1, deletes: 1 },
        Self { ops: 4, ticks: 2, cuts: 0, deletes: 1 },
        Self { ops: 3, ticks: 2, cuts: 2, deletes: 1 },
    ];
    /// What takes minutes: a fifth operation, with and without power cuts, and both kinds of more.
    pub const LARGE: [Self; 3] = [
        Self { ops: 5, ticks: 2, cuts: 0, deletes: 1 },
        Self { ops: 5, ticks: 1, cuts: 1, deletes: 0 },
        Self { ops: 4, ticks: 2, cuts: 2, deletes: 1 },
    ];
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ops, ticks, cuts, deletes } = self;
        write!(f, "operations {ops}, ticks {ticks}, power cuts {cuts}, deletes {deletes}")
    }
}
