//! Who is doing what.

use super::LEASE;
use super::disk::{Base, Disk, File, Kind, Record, Slot};
use super::truth::Truth;

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Wants the lease, free or over.
    Acquire,
    /// Wants more time.
    Renew,
    /// Ends it.
    Release,
    /// Puts a file in its place under its token.
    Publish,
    /// Removes old slots.
    Prune,
}

/// What was read of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Known {
    /// Its birth.
    pub base: Base,
    /// Its last slot, if it has one.
    pub last: Option<File>,
    /// Slots up to this number may be removed.
    pub old: u8,
    /// The number of the next slot.
    pub next: u8,
    /// No number above this may be used.
    pub ceiling: u8,
    /// The lease.
    pub record: Option<Record>,
    /// How often it was renewed, beside the chain.
    pub renewed: u8,
}

/// A slot that is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Aim {
    /// The slot.
    pub slot: Slot,
    /// The slot that it follows, if it isn't the first.
    pub after: Option<File>,
    /// The end of the lease that it renews.
    pub ends: u8,
    /// In truth: had a token as great as this one been given before it was there?
    pub is_old: bool,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Copies its file into the staging.
    Staging,
    /// Empties the staging before everything else. Only where that is the mistake.
    EmptyingFirst,
    /// Reads the clock and the birth of the chain. It may know the highest ceiling already.
    ReadingBase(Option<u8>),
    /// Lists the slots and reads the highest.
    Listing(Base, Option<u8>),
    /// Reads which grant was noted last.
    Comparing(Known),
    /// Lists the slots once more: that grant isn't among them.
    Suspecting(Base, u8),
    /// Notes its grant outside of the chain, exclusively.
    Recording(Aim),
    /// Reads the clock only now.
    Timing(Known),
    /// Looks at the ceilings, because the chain has no slot.
    Doubting(Known),
    /// Chain unborn: looks at the ceilings.
    Conceiving,
    /// Chain unborn: makes a block above that ceiling.
    Fencing(u8),
    /// Chain unborn: makes its base, with numbers above that.
    Bearing(u8),
    /// Numbers go on elsewhere: looks at the ceilings.
    Measuring(Known),
    /// Makes a block above that ceiling.
    Raising(Known, u8),
    /// Makes it after it has been used.
    RaisingLate(u8),
    /// Empties the staging.
    Emptying(Known),
    /// Creates a slot exclusively.
    Linking(Aim),
    /// Creates a renewal beside the chain.
    Writing(Known, u8),
    /// Looks whether it has become a ghost.
    Checking(Aim),
    /// The same for a renewal beside the chain.
    Confirming(Record, u8),
    /// Was too late, and gives back what it got in that slot.
    Returning(Slot),
    /// Is a ghost, and removes its slot. Only where that is the mistake.
    Vanishing(u8),
    /// Empties the staging after its grant, and answers after that or has answered.
    EmptyingLate(Slot, bool),
    /// Puts its file in place.
    Renaming,
    /// Notes that slots will be removed.
    Noting(Known),
    /// Removes the lowest slot up to there.
    Sweeping(u8),
}

impl Phase {
    /// What comes next, in words.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Staging => "stages its file",
            Self::EmptyingFirst => "empties the staging, early",
            Self::ReadingBase(_) => "reads the clock and the base",
            Self::Listing(..) => "lists the slots and decides",
            Self::Comparing(_) => "reads which grant was noted last",
            Self::Suspecting(..) => "looks for a grant that was noted",
            Self::Recording(_) => "notes its grant",
            Self::Timing(_) => "reads the clock and decides",
            Self::Doubting(_) => "compares the ceiling with the base",
            Self::Conceiving => "looks for the highest ceiling",
            Self::Fencing(_) => "makes a ceiling for a new chain",
            Self::Bearing(_) => "makes the base",
            Self::Measuring(_) => "looks for the highest ceiling, to go on above it",
            Self::Raising(..) => "makes a higher ceiling",
            Self::RaisingLate(_) => "makes the ceiling that is in use",
            Self::Emptying(_) => "empties the staging",
            Self::Linking(..) => "creates its slot",
            Self::Writing(..) => "creates its renewal",
            Self::Checking(..) => "looks again and answers",
            Self::Confirming(..) => "looks again and answers for its renewal",
            Self::Returning(_) => "gives back what came too late",
            Self::Vanishing(_) => "removes its ghost",
            Self::EmptyingLate(..) => "empties the staging, late",
            Self::Renaming => "puts its file in place",
            Self::Noting(_) => "notes that it prunes",
            Self::Sweeping(_) => "removes an old slot",
        }
    }
}

/// A command under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Command {
    /// The how manyth command it is.
    pub serial: u8,
    /// What it is.
    pub op: Op,
    /// Under which token; 0 if it has none.
    pub token: u8,
    /// Its clock, read before it looked.
    pub time: u8,
    /// What comes next.
    pub phase: Phase,
}

impl Command {
    /// A kill in any other phase is like one in the phase before it, or like never having begun.
    pub(super) fn may_leave_something(&self, disk: &Disk) -> bool {
        match self.phase {
            // It may have made the base.
            Phase::ReadingBase(_) => disk.base.is_some() && disk.slots.is_empty(),
            Phase::Recording(_) => true,
            Phase::Bearing(_) | Phase::RaisingLate(_) | Phase::Checking(..) | Phase::Confirming(..) => true,
            Phase::Returning(_)
            | Phase::Vanishing(_)
            | Phase::EmptyingLate(..)
            | Phase::Renaming
            | Phase::Sweeping(_) => true,
            Phase::Linking(aim) => aim.slot.kind == Kind::Rebase,
            _ => false,
        }
    }
}

/// A session: what its commands have answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Session {
    /// The token of its last lease; 0 if it has none.
    pub token: u8,
    /// It believes that it holds until then.
    pub until: Option<u8>,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The files.
    pub disk: Disk,
    /// What each client does.
    pub clients: Vec<Option<Command>>,
    /// What each session believes. Client 1 can be of the session of client 0.
    pub sessions: Vec<Session>,
    /// The time.
    pub now: u8,
    /// So many clients have begun something.
    pub come: u8,
    /// So many commands have begun.
    pub ops: u8,
    /// So many chains were born.
    pub births: u8,
    /// How often the directory was deleted.
    pub removals: u8,
    /// How often its last slot was.
    pub cuts: u8,
    /// What is true.
    pub truth: Truth,
}

impl State {
    pub(super) fn new(clients: u8, sessions: u8) -> Self {
        Self {
            disk: Disk::default(),
            clients: vec![None; usize::from(clients)],
            sessions: vec![Session::default(); usize::from(sessions)],
            now: 0,
            come: 0,
            ops: 0,
            births: 0,
            removals: 0,
            cuts: 0,
            truth: Truth::default(),
        }
    }

    /// A chain is there already.
    pub(super) fn bear(&mut self, block: u8) {
        self.disk.dir = true;
        self.disk.base = Some(Base { chain: 0, first: 1, block });
        self.disk.fences = vec![block];
        self.births = 1;
    }

    /// The first session has its lease already.
    pub(super) fn hold(&mut self, block: u8) {
        self.bear(block);
        let record = Some(Record { token: 1, session: 0, since: 0 });
        let (number, by, chain) = (1, 0, 0);
        self.disk.put(Slot { number, by, chain, kind: Kind::Grant, record, next: 2, ceiling: block });
        self.sessions[0] = Session { token: 1, until: Some(LEASE) };
        self.truth.last = 1;
        self.disk.granted = vec![1];
        self.come = 1;
    }

    /// The first session has its lease already, and the last client was stopped in the birth of another chain.
    pub(super) fn stop(&mut self, block: u8) {
        self.hold(block);
        self.disk.fences.push(2 * block);
        self.ops = 1;
        let command = Command { serial: 0, op: Op::Acquire, token: 0, time: 0, phase: Phase::Bearing(block) };
        if let Some(last) = self.clients.last_mut() {
            *last = Some(command);
        }
    }

    /// The chain has four slots, and two clients are about to create the second and the third.
    pub(super) fn be_late(&mut self, block: u8) {
        self.hold(block);
        let grant = |number: u8, by: u8| {
            let record = Some(Record { token: number, session: 0, since: 0 });
            Slot { number, by, chain: 0, kind: Kind::Grant, record, next: number + 1, ceiling: block }
        };
        for number in 2..=4 {
            self.disk.put(grant(number, 0));
        }
        self.sessions[0].token = 4;
        self.truth.last = 4;
        self.ops = 2;
        self.come = 3;
        for (client, number) in [(1, 2), (2, 3)] {
            let serial = number - 1;
            let after = Some(File { number: number - 1, by: 0 });
            let aim = Aim { slot: grant(number, serial), after, ends: 0, is_old: false };
            let phase = Phase::Linking(aim);
            self.clients[client] = Some(Command { serial, op: Op::Acquire, token: 0, time: 0, phase });
        }
    }

    /// Is nobody under way?
    pub fn is_quiet(&self) -> bool {
        self.clients.iter().all(Option::is_none)
    }

    /// Somebody deletes the chain. Who held then can't be told so; nobody is promised anything about them.
    pub(super) fn remove(&mut self) {
        self.disk.remove_dir();
        self.removals += 1;
        for session in &mut self.sessions {
            session.until = None;
        }
    }

    /// Somebody deletes the last slot.
    pub(super) fn cut(&mut self) {
        self.disk.slots.pop();
        self.cuts += 1;
        for session in &mut self.sessions {
            session.until = None;
        }
    }

    /// Does this session believe that it holds?
    pub fn believes(&self, session: &Session) -> bool {
        session.until.is_some_and(|until| self.now <= until)
    }
}
