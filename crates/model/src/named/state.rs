//! One moment of the world: the clock, the disk, the clients, and what is true.

use super::counter::Draw;
use super::disk::{Disk, Entry};
use super::record::{FRESH, Record};
use super::truth::Truth;

/// One of the three clients: a place where one process after another runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(pub u8);

impl Client {
    /// All of them.
    pub const ALL: [Self; 3] = [Self(0), Self(1), Self(2)];

    /// The first two work for Ann, so that an owner meets itself; the third for Bob.
    pub fn owner(self) -> Owner {
        if self.0 < 2 { Owner::Ann } else { Owner::Bob }
    }
}

/// Who a client works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Has two clients.
    Ann,
    /// Has one.
    Bob,
}

impl Owner {
    /// As in a record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ann => "ann",
            Self::Bob => "bob",
        }
    }

    pub(super) fn from_text(text: &str) -> Self {
        [Self::Ann, Self::Bob].into_iter().find(|owner| owner.as_str() == text).expect("there are two owners")
    }
}

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// `lock`: an owner part without an end.
    Lock,
    /// `lock --ttl`.
    LockLeased,
    /// `guard`: a process part that lasts as long as its process.
    Guard,
    /// `guard --ttl`.
    GuardLeased,
    /// `unlock`.
    Unlock,
    /// `unlock --force`.
    Force,
    /// `unlock --break-stale`.
    BreakStale,
    /// A guard's renewal.
    Renew,
    /// A guard's end.
    Release,
}

impl Op {
    /// What a new process may be started for.
    pub const COMMANDS: [Self; 7] =
        [Self::Lock, Self::LockLeased, Self::Guard, Self::GuardLeased, Self::Unlock, Self::Force, Self::BreakStale];

    /// As people type it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::LockLeased => "lock --ttl",
            Self::Guard => "guard",
            Self::GuardLeased => "guard --ttl",
            Self::Unlock => "unlock",
            Self::Force => "unlock --force",
            Self::BreakStale => "unlock --break-stale",
            Self::Renew => "renewal",
            Self::Release => "release",
        }
    }

    /// Asks for a process part.
    pub(super) fn is_guard(self) -> bool {
        matches!(self, Self::Guard | Self::GuardLeased)
    }

    /// Asks for a part of either kind.
    pub(super) fn takes(self) -> bool {
        self.is_guard() || matches!(self, Self::Lock | Self::LockLeased)
    }

    pub(super) fn is_leased(self) -> bool {
        matches!(self, Self::LockLeased | Self::GuardLeased)
    }
}

/// What a guard was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grip {
    /// Its hold.
    pub lock_id: u8,
    /// Its token.
    pub token: u16,
    /// Does it have to renew?
    pub leased: bool,
}

/// How an answer gets to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Publish {
    /// As a new hold: never over anything.
    Create,
    /// As one's own: over what was judged.
    Replace,
    /// By removing what was judged.
    Remove,
}

/// Why something has to go before a new hold can be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breaks {
    /// Its lease is over.
    Expired,
    /// Its process is gone.
    ProcessGone,
    /// It is no record.
    Corrupt,
}

/// What a client is going to do to the disk, after `decide`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plan {
    /// What for.
    pub op: Op,
    /// The hold that a guard has already.
    pub grip: Option<Grip>,
    /// What was there when it was decided.
    pub judged: Entry,
    /// What will be there.
    pub next: Option<Record>,
    /// How it gets there.
    pub publish: Publish,
    /// The token to draw first.
    pub draw: Option<Draw>,
    /// What to break first.
    pub breaks: Option<Breaks>,
    /// Must it be durable before the caller is answered?
    pub sync: bool,
}

impl Plan {
    /// Does a new life of a hold begin with it, in truth?
    pub fn is_birth(&self) -> bool {
        self.next.is_some_and(|next| next.life == FRESH)
    }
}

/// One effect on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Write and sync the ceiling.
    Raise,
    /// Write the next file.
    Count,
    /// Move the judged record aside.
    Aside,
    /// Publish, replace or remove the record.
    Publish,
}

/// Where a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// No process runs.
    Idle,
    /// In line with a token in hand: only where the ticket is the token.
    Ticketed(Op, u16),
    /// Has decided on a replacement and synced its bytes, outside the mutex.
    Prepared(Plan),
    /// Has the mutex; this effect comes next.
    Mutex(Plan, Effect),
    /// Acts without the mutex: only where stale records are broken by unlink.
    Loose(Plan, Effect),
    /// Has left the mutex, will sync and then answer.
    Syncing {
        /// What for.
        op: Op,
        /// The hold that a guard has or gets.
        grip: Option<Grip>,
        /// What it wrote.
        wrote: Option<Record>,
    },
    /// A guard whose command runs.
    Inside(Grip),
    /// A guard that was killed while its command runs on.
    Orphaned(Grip),
}

impl Phase {
    /// The decision on its way to disk.
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Self::Prepared(plan) | Self::Mutex(plan, _) | Self::Loose(plan, _) => Some(plan),
            Self::Idle | Self::Ticketed(..) | Self::Syncing { .. } | Self::Inside(_) | Self::Orphaned(_) => None,
        }
    }

    /// The hold that a guard has, or gets when its record is durable.
    pub fn grip(&self) -> Option<&Grip> {
        match self {
            Self::Inside(grip) | Self::Orphaned(grip) => Some(grip),
            Self::Syncing { grip, .. } => grip.as_ref(),
            _ => self.plan()?.grip.as_ref(),
        }
    }

    /// The token that this client's command was told and may be using right now.
    pub fn told(&self) -> Option<u16> {
        match self {
            // Not told yet.
            Self::Syncing { op, .. } if op.is_guard() => None,
            // The command has ended.
            _ if self.plan().is_some_and(|plan| plan.op == Op::Release) => None,
            _ => self.grip().map(|grip| grip.token),
        }
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        let records = match self {
            Self::Syncing { wrote, .. } => [wrote.as_ref(), None],
            _ => self.plan().map_or([None; 2], |plan| [plan.judged.record(), plan.next.as_ref()]),
        };
        records.into_iter().flatten()
    }

    fn records_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        let records = match self {
            Self::Prepared(plan) | Self::Mutex(plan, _) | Self::Loose(plan, _) => {
                [plan.judged.record_mut(), plan.next.as_mut()]
            }
            Self::Syncing { wrote, .. } => [wrote.as_mut(), None],
            Self::Idle | Self::Ticketed(..) | Self::Inside(_) | Self::Orphaned(_) => [None, None],
        };
        records.into_iter().flatten()
    }

    pub(super) fn grip_mut(&mut self) -> Option<&mut Grip> {
        match self {
            Self::Prepared(plan) | Self::Mutex(plan, _) | Self::Loose(plan, _) => plan.grip.as_mut(),
            Self::Syncing { grip, .. } => grip.as_mut(),
            Self::Inside(grip) | Self::Orphaned(grip) => Some(grip),
            Self::Idle | Self::Ticketed(..) => None,
        }
    }
}

/// The world.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The tick.
    pub now: u8,
    /// Which boot this is.
    pub boot: u8,
    /// The tick in which it began.
    pub booted: u8,
    /// How many commands and renewals there were.
    pub ops: u8,
    /// How many records were deleted by hand.
    pub deletes: u8,
    /// The files.
    pub disk: Disk,
    /// The clients.
    pub clients: [Phase; 3],
    /// What is true, whatever the files say.
    pub truth: Truth,
}

impl State {
    /// A new root, and nobody there.
    pub(super) fn new() -> Self {
        Self {
            now: 0,
            boot: 0,
            booted: 0,
            ops: 0,
            deletes: 0,
            disk: Disk::new(),
            clients: [Phase::Idle; 3],
            truth: Truth::default(),
        }
    }

    /// Where that client is.
    pub fn phase(&self, client: Client) -> &Phase {
        &self.clients[usize::from(client.0)]
    }

    pub(super) fn set(&mut self, client: Client, phase: Phase) {
        self.clients[usize::from(client.0)] = phase;
    }

    /// Could somebody take the mutex? The kernel gives it back when its process dies.
    pub fn is_mutex_free(&self) -> bool {
        !self.clients.iter().any(|phase| matches!(phase, Phase::Mutex(..)))
    }

    /// Do all running commands have tokens of their own?
    pub fn has_own_tokens(&self) -> bool {
        let told = |client: usize| self.clients[client].told();
        let differ = |one: usize, other: usize| told(one).is_none() || told(one) != told(other);
        differ(0, 1) && differ(0, 2) && differ(1, 2)
    }

    /// Is there anything that time can change?
    pub(super) fn has_running_lease(&self) -> bool {
        self.records().any(|record| {
            [record.process, record.owned].into_iter().flatten().any(|part| part.leased && self.now < part.end())
        })
    }

    /// The client's process ends, and with it every proof that it lives.
    pub(super) fn end(&mut self, client: Client) {
        self.set(client, Phase::Idle);
        for record in self.records_mut().filter(|record| record.pid == Some(client)) {
            record.pid = None;
        }
        self.truth.ended(client);
    }

    /// The smallest number that names no life and no lock id anywhere. A name that nobody knows any more may be used again.
    pub(super) fn fresh(&self) -> u8 {
        let mut used = 0_u32;
        let mut mark = |number: u8| used |= 1_u32.checked_shl(u32::from(number)).unwrap_or(0);
        for record in self.records() {
            mark(record.life);
            mark(record.lock_id);
        }
        self.clients.iter().filter_map(Phase::grip).for_each(|grip| mark(grip.lock_id));
        self.truth.claims.iter().for_each(|claim| mark(claim.life));
        u8::try_from(used.trailing_ones()).expect("at most 32")
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.disk.records().chain(self.clients.iter().flat_map(Phase::records))
    }

    pub(super) fn records_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.disk.records_mut().chain(self.clients.iter_mut().flat_map(Phase::records_mut))
    }
}
