//! How far the model goes.

use std::fmt;

use super::state::Op;

/// How it is known that a lease is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clocks {
    /// By elapsed time.
    Right,
    /// Wrongly: whoever wants a lease takes it for over. Two may believe that they hold it; whatever is fenced still is.
    Wrong,
}

/// What there is to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// Nothing.
    Unborn,
    /// A chain without slots.
    Born,
    /// The first session holds the lease.
    Held,
    /// The same, and the last client was stopped before it could make a base: it had looked when there was no chain yet.
    Stopped,
    /// A chain of four slots, and two clients that were stopped before they could create the second and the third.
    Late,
}

impl Beginning {
    fn as_str(self) -> &'static str {
        match self {
            Self::Unborn => "unborn",
            Self::Born => "free",
            Self::Held => "held",
            Self::Stopped => "held beside one that was stopped at birth",
            Self::Late => "held beside two that are late",
        }
    }
}

/// How often things happen at most. Every order of them is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// So many clients, each with one command at a time.
    pub clients: u8,
    /// Are the first two of one session?
    pub shared: bool,
    /// So many commands in all.
    pub commands: u8,
    /// Which ones.
    pub ops: &'static [Op],
    /// What there is to begin with.
    pub beginning: Beginning,
    /// Numbers in a block.
    pub block: u8,
    /// So many slots stay when the chain is pruned.
    pub kept: u8,
    /// How often time passes.
    pub ticks: u8,
    /// How often the chain is deleted.
    pub removals: u8,
    /// How often only the last slot is deleted: what `rm -rf` has done before it has done all.
    pub cuts: u8,
    /// How the end of a lease is known.
    pub clocks: Clocks,
}

impl Bounds {
    /// Leases that begin, end and are taken over.
    pub const TAKE: Self = Self {
        clients: 3,
        shared: false,
        commands: 3,
        ops: &[Op::Acquire, Op::Renew, Op::Release],
        beginning: Beginning::Held,
        block: 3,
        kept: 1,
        ticks: 5,
        removals: 0,
        cuts: 0,
        clocks: Clocks::Right,
    };
    /// A chain that is deleted and born again, beside somebody who makes a base late.
    pub const BIRTH: Self = Self {
        clients: 2,
        commands: 3,
        ops: &[Op::Acquire],
        beginning: Beginning::Stopped,
        block: 2,
        ticks: 0,
        removals: 1,
        clocks: Clocks::Wrong,
        ..Self::TAKE
    };
    /// From nothing.
    pub const UNBORN: Self = Self { beginning: Beginning::Unborn, ..Self::BIRTH };
    /// Publishing beside thieves, whatever the clocks say.
    pub const PUBLISH: Self = Self {
        clients: 2,
        ops: &[Op::Acquire, Op::Publish, Op::Release],
        block: 8,
        ticks: 0,
        removals: 1,
        clocks: Clocks::Wrong,
        ..Self::TAKE
    };
    /// Slots that are removed.
    pub const PRUNE: Self =
        Self { commands: 4, ops: &[Op::Acquire, Op::Prune], ticks: 0, block: 12, clocks: Clocks::Wrong, ..Self::TAKE };
    /// The same with two who come late. The file that one of them follows can be the other's.
    pub const LATE: Self = Self { beginning: Beginning::Late, ..Self::PRUNE };
    /// A chain that is being deleted, slot by slot.
    pub const CUT: Self =
        Self { clients: 2, ops: &[Op::Acquire], block: 4, ticks: 0, cuts: 1, clocks: Clocks::Wrong, ..Self::TAKE };
    /// Two processes of one session, and a thief.
    pub const SESSION: Self = Self { shared: true, ops: &[Op::Acquire, Op::Renew], block: 8, ticks: 4, ..Self::TAKE };
    /// What is looked at with every change.
    pub const USUAL: [Self; 8] =
        [Self::TAKE, Self::BIRTH, Self::UNBORN, Self::PUBLISH, Self::PRUNE, Self::LATE, Self::CUT, Self::SESSION];
    /// What takes longer: more of each.
    pub const LONG: [Self; 3] = [
        Self { commands: 5, kept: 2, ..Self::PRUNE },
        Self { clients: 3, ..Self::PUBLISH },
        Self { commands: 4, ..Self::SESSION },
    ];
    /// What takes minutes.
    pub const LARGE: [Self; 2] = [Self { clients: 3, ..Self::BIRTH }, Self { clients: 3, ..Self::CUT }];
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clients, shared, commands, ops, beginning, block, kept, ticks, removals, cuts, clocks } = self;
        write!(f, "{clients} clients")?;
        f.write_str(if *shared { ", two of one session, " } else { ", " })?;
        write!(f, "{commands} commands (")?;
        ops.iter().enumerate().try_for_each(|(n, op)| write!(f, "{}{}", if n == 0 { "" } else { " " }, op.as_str()))?;
        write!(f, "), {}, blocks of {block}, {ticks} ticks, deleted {removals}", beginning.as_str())?;
        if *cuts > 0 {
            write!(f, ", cut {cuts}")?;
        }
        if ops.contains(&Op::Prune) {
            write!(f, ", {kept} kept")?;
        }
        f.write_str(if *clocks == Clocks::Wrong { ", wrong clocks" } else { "" })
    }
}
