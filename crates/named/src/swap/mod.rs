//! Named locks on a remote key-value engine.
//!
//! | module | content |
//! | --- | --- |
//! | [`engine`](Engine) | the requirements for an engine |
//! | [`memory`](MemEngine) | an engine in memory, with requests that go wrong |
//! | `shown` | a look, converted into the view that a judge gets |
//! | `transact` | look, judge, and do what follows |
//! | `commit` | rulings that change something, as one change |
//! | `attempt` | sending a change until its outcome is known |
//! | `queue` | tickets, and waiters that are passed over |
//! | `session` | the presence of a request: one session for all its names |
//! | `store` | the methods of [`Store`](crate::store::Store) |
//! | `scan` | many names, a page at a time |
//! | `audit` | the audit log, read and followed |
//! | `upkeep` | creating a space, sweeping free names, checking what is stored |
//!
//! Keys, pins and writes are in [`lokt_core::swap`]; the judge is [`crate::judge`]. This module
//! sends requests, and finds out the outcome of those that weren't answered.
//!
//! **Additions** are settled: a change without an answer is voided before anything else is tried,
//! reported or given up. **Removals** are repeated until what they name is gone. If a change can't
//! be settled within the time of the call, that is an error of kind
//! [`OutcomeUnknown`](lokt_sys::error::ErrorKind::OutcomeUnknown), which is never tried again.
//!
//! # Limitations
//!
//! - A refusal isn't written to the audit log; the last one of each owner is kept apart, at most
//!   one in ten seconds. The caller waits for that.
//! - The audit log isn't pruned.
//! - Following the audit log reads all of it whenever something was added.

mod attempt;
mod audit;
mod commit;
mod engine;
mod memory;
mod queue;
mod scan;
mod session;
mod shown;
mod store;
mod transact;
mod upkeep;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lokt_core::engine::SessionId;
use lokt_core::hold::Identity;
use lokt_core::name::LockName;
use lokt_core::swap::{POLICY, Space};
use lokt_core::time::Moment;

pub use self::engine::{Card, Engine, Trouble};
pub use self::memory::{Fault, MemEngine, Of};
pub use self::upkeep::Finding;

use self::queue::{Offer, Waiting};
use crate::store::{Call, Child, Contract, Expiry, Publish, Several};
use lokt_sys::error::Error;
use lokt_sys::machine::Machine;
use lokt_sys::threads::Mutex;

/// Maximum time of a call without a deadline of its own.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time to try closing a session that isn't needed any more. It expires automatically.
const CLOSE: Duration = Duration::from_secs(1);
/// TTL of the session of a request that names none.
const SESSION_TTL: Duration = Duration::from_secs(15);

/// Guarantees of locks on an engine.
const CONTRACT: Contract = Contract {
    policy: POLICY,
    expiry: Expiry::Server,
    spans_hosts: true,
    child: Child::Dies,
    several: Several::Together,
    publish: Publish::Checked,
    look_ms: None,
};

/// A store of named locks: one space of an engine. Clones are the same store.
pub struct SwapStore<E> {
    shared: Arc<Shared<E>>,
}

impl<E> Clone for SwapStore<E> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// State that a store and the sessions of its requests have in common.
struct Shared<E> {
    engine: E,
    space: Space,
    /// Its location, for messages.
    location: PathBuf,
    machine: Arc<dyn Machine>,
    /// This process, used to recognize holders on its own machine.
    me: Identity,
    /// The waiting requests of this process.
    waiting: Mutex<Vec<Waiting>>,
    /// Waiters for which this process has found a name free.
    offers: Mutex<BTreeMap<LockName, Offer>>,
    /// Time at which the last refusal of each name was kept.
    denials: Mutex<BTreeMap<LockName, u64>>,
}

impl<E: Engine> SwapStore<E> {
    /// Returns the locks of the space `name` of an engine at `location`.
    pub fn new(engine: E, name: &LockName, location: PathBuf, machine: Arc<dyn Machine>, me: Identity) -> Self {
        let (waiting, offers, denials) = (Mutex::default(), Mutex::default(), Mutex::default());
        let space = Space::new(name);
        Self { shared: Arc::new(Shared { engine, space, location, machine, me, waiting, offers, denials }) }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &E {
        &self.shared.engine
    }

    /// Returns the space.
    pub fn space(&self) -> &Space {
        &self.shared.space
    }
}

impl<E: Engine> Shared<E> {
    fn now(&self) -> Moment {
        self.machine.now()
    }

    /// Returns `call` with a deadline.
    fn limited<'c>(&self, call: &Call<'c>) -> Call<'c> {
        let now = self.now();
        Call::within(call.limit(TIMEOUT, &now), &now).stopped_by(call.stop())
    }

    fn random(&self) -> Result<u128, Error> {
        self.machine.random().map_err(|source| Error::io("get random bits for", &self.location, source))
    }

    /// Returns an id for a session: 63 random bits, positive. Negative ones have confused engines.
    fn session_id(&self) -> Result<SessionId, Error> {
        let bits = u64::try_from(self.random()? >> 65).unwrap_or(u64::MAX);
        Ok(SessionId(bits.max(1)))
    }
}
