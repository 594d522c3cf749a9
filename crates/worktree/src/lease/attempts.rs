//! Repeated attempts: read the lease, decide, add a link after what was read, or read again.

use super::commit::Writer;
use super::scene::{Caller, LeaseSnapshot};
use super::sight::Sight;
use lokt_sys::disk::Unlock;
use lokt_sys::error::{Error, ErrorKind};

/// Maximum number of attempts. Each one that fails means that another process has succeeded.
const ATTEMPTS_MAX: usize = 10_000;

/// One decision about a lease: for which caller, and when it waits for other processes.
pub(crate) struct Turn<'t> {
    pub(crate) caller: Caller<'t>,
    /// Sightings of earlier decisions.
    pub(crate) sight: &'t mut Sight,
    /// The advisory mutex, if the caller has it.
    pub(crate) gate: Option<Box<dyn Unlock>>,
    /// Maximum wait for the mutex after a conflict, in milliseconds. `None`: it isn't acquired.
    pub(crate) gate_after_conflict_ms: Option<u64>,
}

impl Writer<'_> {
    /// Decides by the current lease until a decision stands. `decide` returns `None` if another
    /// process added a link first; it gets `None` if there is no chain.
    pub(crate) fn decide<T>(
        &self,
        mut turn: Turn<'_>,
        mut decide: impl FnMut(Option<&LeaseSnapshot>) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        self.retry(|| {
            let lease = self.worktree.observer().read(turn.caller, turn.sight)?;
            let decided = decide(lease.as_ref())?;
            if decided.is_none() && turn.gate.is_none() {
                turn.gate = turn.gate_after_conflict_ms.and_then(|most_ms| self.gate(most_ms));
            }
            Ok(decided)
        })
    }

    /// Repeats an attempt until it succeeds.
    pub(crate) fn retry<T>(&self, mut attempt: impl FnMut() -> Result<Option<T>, Error>) -> Result<T, Error> {
        for _ in 0..ATTEMPTS_MAX {
            if let Some(done) = attempt()? {
                return Ok(done);
            }
        }
        Err(self.too_busy())
    }

    pub(crate) fn too_busy(&self) -> Error {
        let name = &self.worktree.name;
        let message = format!("others change the lease of worktree \"{name}\" all the time");
        Error::new(ErrorKind::Busy, message)
    }
}
