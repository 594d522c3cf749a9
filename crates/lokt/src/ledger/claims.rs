//! The current claims of a ledger.

use std::time::SystemTime;

use super::Ledger;
use crate::{Error, Holder, Token};

impl Ledger {
    /// Returns all live claims, by task. Expired claims are omitted.
    ///
    /// A missing or damaged event may have been a claim; [`verify`](Self::verify) finds such
    /// events.
    ///
    /// # Errors
    ///
    /// Fails if the ledger cannot be read.
    ///
    /// ```
    /// use lokt::ledger::Ledger;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = Ledger::create(dir.path())?;
    /// let claimed = ledger.claim("1.2").try_acquire()?;
    /// for claim in ledger.claims()? {
    ///     println!("{}: {}, until {:?}", claim.task(), claim.holder(), claim.expires_at());
    ///     assert_eq!((claim.task(), claim.token()), ("1.2", Some(claimed.token())));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn claims(&self) -> Result<Vec<Claim>, Error> {
        let claims = self.inner.claims()?.value.into_iter();
        let live = claims.filter(|entry| entry.holder.lives());
        Ok(live.map(|entry| Claim { task: entry.node, holder: Holder::of(entry.holder) }).collect())
    }

    /// Returns the holder of a task; `None` if the task is free or its claim has expired.
    ///
    /// # Errors
    ///
    /// Fails if the ledger cannot be read.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = lokt::ledger::Ledger::create(dir.path())?;
    /// assert!(ledger.holder("1.2")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn holder(&self, task: &str) -> Result<Option<Holder>, Error> {
        let claim = self.claims()?.into_iter().find(|claim| claim.task == task);
        Ok(claim.map(|claim| claim.holder))
    }
}

/// A live claim on a task, as it was when the ledger was read. Made by [`Ledger::claims`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    task: String,
    holder: Holder,
}

impl Claim {
    /// Returns the task.
    pub fn task(&self) -> &str {
        &self.task
    }

    /// Returns the holder.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Returns the fencing token; claims of other programs may have none.
    pub fn token(&self) -> Option<Token> {
        self.holder.token()
    }

    /// Returns the time at which the claim expires if it is not renewed.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.holder.expires_at()
    }
}
