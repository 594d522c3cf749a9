//! What can happen next, and to which client.

use std::fmt;

use lokt_core::engine::SessionId;

use super::bounds::Step;
use super::state::Number;

/// One step of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A client looks, decides and sends: the next command, or another try of a waiter.
    Go(Number, Step),
    /// The same for a waiter whose renewal a server answered that has lost its charge.
    GoOld(Number, Step),
    /// The engine works on a client's request, and the client is answered.
    Deliver(Number),
    /// The engine works on it, and the answer is lost.
    Lose(Number),
    /// The client gives up waiting; the engine may work on the request at any time, or never.
    Delay(Number),
    /// The engine works on it and answers; a copy is still under way.
    Double(Number),
    /// The engine works on it twice, and the client gets the second answer.
    Echo(Number),
    /// The engine works on a request that no client waits for.
    Stray(usize),
    /// A session ends.
    End(SessionId),
    /// A late copy of a request opens a session that was closed.
    Reopen(SessionId),
    /// Time passes.
    Tick,
    /// Another server takes charge, and starts every session anew.
    Elect,
    /// A renewal is worked on and answered.
    Renew(Number),
    /// A renewal of a session that is gone is answered as if it weren't.
    Lie(Number),
    /// A renewal is answered by a server that has lost its charge.
    Old(Number),
    /// A client looks at its life key after a renewal.
    Verify(Number),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Go(client, step) => write!(f, "client {client} goes on with {}", step.as_str()),
            Self::GoOld(client, step) => {
                write!(f, "client {client}, renewed by the former server, goes on with {}", step.as_str())
            }
            Self::Deliver(client) => write!(f, "the request of client {client} is answered"),
            Self::Lose(client) => {
                write!(f, "the request of client {client} is worked on, its answer is lost")
            }
            Self::Delay(client) => write!(f, "the request of client {client} is late"),
            Self::Double(client) => {
                write!(f, "the request of client {client} is answered, a copy is under way")
            }
            Self::Echo(client) => {
                write!(f, "the request of client {client} is worked on twice, and the second answered")
            }
            Self::Stray(number) => write!(f, "late request {number} arrives"),
            Self::End(session) => write!(f, "session {:x} ends", session.0),
            Self::Reopen(session) => write!(f, "a late request opens session {:x}", session.0),
            Self::Tick => f.write_str("time passes"),
            Self::Elect => f.write_str("another server takes charge"),
            Self::Renew(client) => write!(f, "the renewal of client {client} is answered"),
            Self::Lie(client) => write!(f, "the renewal of client {client} is answered falsely"),
            Self::Old(client) => {
                write!(f, "the renewal of client {client} is answered by the former server")
            }
            Self::Verify(client) => write!(f, "client {client} looks at its life key"),
        }
    }
}
