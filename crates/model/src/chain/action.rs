//! What can happen next, and to whom.

use std::fmt;

use super::state::Op;

/// One step of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A client begins.
    Start(u8, Op),
    /// A client takes its next step, which is this in words.
    Step(u8, &'static str),
    /// SIGKILL.
    Kill(u8),
    /// Time passes.
    Tick,
    /// Somebody deletes the chain: `rm -rf`.
    Remove,
    /// Somebody deletes the last slot, on the way to all of them.
    Cut,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |client: &u8| char::from(b'A' + client);
        match self {
            Self::Start(client, op) => write!(f, "{} begins to {}", name(client), op.as_str()),
            Self::Step(client, deed) => write!(f, "{} {deed}", name(client)),
            Self::Kill(client) => write!(f, "{} is killed", name(client)),
            Self::Tick => f.write_str("time passes"),
            Self::Cut => f.write_str("somebody deletes the last slot"),
            Self::Remove => f.write_str("somebody deletes the chain"),
        }
    }
}

impl Op {
    /// As people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Publish => "publish",
            Self::Prune => "prune",
        }
    }
}
