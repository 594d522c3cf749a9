//! What the engine and each client know.

use std::collections::BTreeMap;
use std::mem::Discriminant;
use std::sync::Arc;

use lokt_core::decide::Cause;
use lokt_core::engine::{Change, Key, Keyspace, Lasts, Rev, SessionId, Term, Write};
use lokt_core::hold::LockId;
use lokt_core::name::LockName;
use lokt_core::swap::keep::Known;
use lokt_core::swap::record::Meta;
use lokt_core::swap::{Op, Plan, Space};

use super::bounds::{Bounds, Step};
use super::truth::Truth;

/// A client's number.
pub(super) type Number = usize;

/// The whole world.
#[derive(Debug, Clone, PartialEq, Hash)]
pub struct State {
    /// The engine.
    pub keys: Keyspace,
    /// When each session is over at the server, in a world with time.
    pub expiry: BTreeMap<SessionId, u8>,
    /// Sessions that were closed or ended.
    pub closed: Vec<SessionId>,
    /// Ticks so far.
    pub now: u8,
    /// The clients.
    pub clients: Vec<Client>,
    /// Requests that nobody waits for, and that may still be made.
    pub strays: Vec<Arc<Sent>>,
    /// What went wrong so far.
    pub used: Used,
    /// What was told to clients, and what can't be.
    pub truth: Truth,
}

/// How much went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Used {
    /// Late or doubled requests, lost answers.
    pub faults: u8,
    /// Ended sessions.
    pub ends: u8,
    /// Late openings.
    pub reopens: u8,
    /// Elections.
    pub elections: u8,
    /// Lies.
    pub lies: u8,
}

/// A client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Client {
    /// Which command is next, or runs.
    pub at: usize,
    /// What it does.
    pub phase: Phase,
    /// The revision of the first look of its request.
    pub place: Option<Rev>,
    /// When the session of its request was opened or renewed.
    pub known: Known<u8>,
    /// What it holds.
    pub grip: Option<HoldKey>,
    /// Changes whose outcome it never asked for.
    pub doubts: Vec<Key>,
}

/// What a client does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It begins its next command.
    Ready,
    /// It waits for the answer to a change.
    Sent(Arc<Sent>),
    /// It settles a change: the change, and the request that settles it.
    Settling(Arc<Sent>, Arc<Sent>),
    /// It waits in a queue.
    Queued,
    /// It has sent a renewal, then.
    Keeping(u8),
    /// Its renewal was answered, and it is about to look.
    Answered(Option<Lasts>),
}

/// A request under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sent {
    /// By which client.
    pub client: Number,
    /// For which of its commands.
    pub at: usize,
    /// The plan; of a request that settles one, only the change counts.
    pub plan: Plan,
    /// What was decided; `None` for tickets, sweeps and requests that settle.
    pub ruling: Option<Ruling>,
}

impl Sent {
    /// The change.
    pub fn change(&self) -> &Change {
        &self.plan.change
    }
}

/// What was decided, of each name: why, and whether a token is drawn.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ruling {
    /// Why.
    pub causes: Vec<Discriminant<Cause>>,
    /// Is a token drawn?
    pub draws: Vec<bool>,
}

/// What a guard has in its hand.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HoldKey {
    /// Its session.
    pub session: SessionId,
    /// The revision of the grant.
    pub born: Rev,
    /// Name, lock id and token of each hold.
    pub holds: Vec<(LockName, LockId, u64)>,
    /// Its command is dead by then.
    pub deadline: u8,
}

/// The space of this world.
pub(super) fn space() -> Space {
    Space::new(&LockName::new("w").expect("a good name"))
}

impl State {
    /// An empty space.
    pub fn new(bounds: &Bounds) -> Self {
        let mut keys = Keyspace::default();
        let meta = Write::Put(space().meta(), Meta::new("w").encode(), None);
        let made = keys.apply(&Change { writes: vec![meta], ..Change::default() });
        made.expect("it has no session");
        let client = Client {
            at: 0,
            phase: Phase::Ready,
            place: None,
            known: Known::proven(0, Term(0)),
            grip: None,
            doubts: Vec::new(),
        };
        Self {
            keys,
            expiry: BTreeMap::new(),
            closed: Vec::new(),
            now: 0,
            clients: vec![client; bounds.programs.len()],
            strays: Vec::new(),
            used: Used::default(),
            truth: Truth::default(),
        }
    }

    /// Ends a session.
    pub fn close(&mut self, session: SessionId) {
        if self.keys.end(session) {
            self.expiry.remove(&session);
            self.closed.push(session);
            self.closed.sort_unstable();
        }
    }
}

/// The command that a client runs; `None` at the end of its program.
pub(super) fn step(bounds: &Bounds, client: Number, at: usize) -> Option<Step> {
    bounds.programs[client].1.get(at).copied()
}

/// The request of a command, over all its tries.
pub(super) fn op(client: Number, at: usize) -> Op {
    Op((client as u128 + 1) * 0x10 + at as u128)
}

/// The session of a command's process parts and tickets.
pub(super) fn session(client: Number, at: usize) -> SessionId {
    SessionId((client as u64 + 1) * 0x10 + at as u64)
}

/// The session of its owner part or freeze.
pub(super) fn lease(client: Number, at: usize) -> SessionId {
    SessionId(session(client, at).0 + 0x100)
}
