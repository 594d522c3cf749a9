//! How far the model goes.

use std::fmt;

/// Are processes stopped and continued, and who can tell?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stops {
    /// They are not.
    Never,
    /// Everybody can.
    Seen,
    /// They run in two pid namespaces; those of the other one can't be seen to be stopped, and it is known that they can't.
    Apart,
    /// Nobody can, and nobody knows: a frozen process that looks like one that sleeps.
    Unseen,
}

/// How many processes there are at a time and what may befall them. How often is not limited: whatever can happen may happen again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Processes at a time. When one has ended, another may come.
    pub processes: usize,
    /// Waiters look around once a second. Without that only the kernel wakes them.
    pub seconds: bool,
    /// Processes may be stopped and continued.
    pub stops: Stops,
    /// Commands may close the pulse that they inherit, or leave something behind that keeps it; locks may be taken by force.
    pub strays: bool,
}

impl Bounds {
    /// The kernel alone wakes waiters: nothing that only a look each second would mend.
    pub const KERNEL: Self = Self { processes: 4, seconds: false, stops: Stops::Never, strays: false };
    /// Everything that may happen on one machine.
    pub const WORLD: Self = Self { processes: 3, seconds: true, stops: Stops::Seen, strays: true };
    /// The same, where a stopped process can't always be told from a slow one.
    pub const APART: Self = Self { stops: Stops::Apart, ..Self::WORLD };
    /// The same, where it never can.
    pub const UNSEEN: Self = Self { stops: Stops::Unseen, ..Self::WORLD };
    /// What is looked at with every change.
    pub const USUAL: [Self; 4] = [Self::KERNEL, Self::WORLD, Self::APART, Self::UNSEEN];
    /// What takes longer: a fourth process.
    pub const LONG: Self = Self { processes: 4, strays: false, ..Self::WORLD };
    /// What takes minutes: one process more, without anything else and with everything else.
    pub const LARGE: [Self; 2] = [Self { processes: 5, ..Self::KERNEL }, Self { processes: 4, ..Self::WORLD }];
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stops = match self.stops {
            Stops::Never => "",
            Stops::Seen => ", stops",
            Stops::Apart => ", stops in two pid namespaces",
            Stops::Unseen => ", stops that nobody sees",
        };
        let seconds = if self.seconds { ", a look each second" } else { "" };
        let strays = if self.strays { ", strays" } else { "" };
        write!(f, "{} processes{seconds}{stops}{strays}", self.processes)
    }
}
