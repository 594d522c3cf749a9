//! A lock in a program: held until it is dropped.

use std::fmt;
use std::sync::Arc;

use lokt_core::decide::Terms;
use lokt_core::denial::Holder;
use lokt_core::guard::Outcome;
use lokt_core::hold::{Fence, Hold};
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;

use crate::acquire::Acquired;
use crate::locks::{Lokt, Refusal};
use crate::owned_hold::{HoldHandle, OwnedHold};
use lokt_guard::Renewer;
use lokt_sys::error::Error;
use lokt_sys::one_shot::OneShot;
use lokt_sys::threads::mpsc::Receiver;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_sys::warnings::WithWarnings;

/// Result of a request for holds that last as long as a program keeps them.
#[derive(Debug)]
pub enum Holding {
    /// All names are held now, each once, in byte order.
    Held(Vec<Held>),
    /// None of the names is held.
    Denied {
        /// The name that was refused.
        name: LockName,
        /// The reason.
        refusal: Refusal,
    },
    /// None of the names is held, because the wait was interrupted.
    Interrupted,
}

impl Lokt {
    /// Holds each of `names` as `lokt guard` does, all or nothing, for as long as this process and
    /// its [`Held`] live.
    pub fn hold(
        &self,
        names: &[LockName],
        terms: &Terms,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<WithWarnings<Holding>, Error> {
        let WithWarnings { value, warnings } = self.owned(names, terms, &InheritedHolds::default(), patience)?;
        let value = match value {
            Acquired::Denied { name, refusal } => Holding::Denied { name, refusal },
            Acquired::Interrupted => Holding::Interrupted,
            Acquired::All { owned_holds, .. } => {
                Holding::Held(owned_holds.into_iter().map(|owned| Held::new(owned, terms.ttl_sec)).collect())
            }
        };
        Ok(WithWarnings { value, warnings })
    }
}

/// The loss of a lock: its record was deleted, or another holder was granted it.
#[derive(Debug, Clone)]
pub struct Lost {
    /// The current holder.
    pub holder: Option<Box<Holder>>,
}

/// A lock that is held. It is renewed while this value lives and released when it is dropped.
/// Dropping it in a forked child does nothing.
pub struct Held {
    owned: Option<OwnedHold>,
    proof: HoldHandle,
    hold: Hold,
    maker: u32,
    loss: Arc<OneShot<Lost>>,
    renewer: Option<Renewer>,
    ttl_sec: Option<u64>,
}

impl Held {
    fn new(owned: OwnedHold, ttl_sec: Option<u64>) -> Self {
        let (proof, hold) = (owned.proof(), owned.hold.clone());
        let mut held = Self {
            owned: Some(owned),
            proof,
            hold,
            maker: std::process::id(),
            loss: Arc::default(),
            renewer: None,
            ttl_sec,
        };
        let has_lease = held.owned.as_ref().is_some_and(|owned| owned.lasts().is_some());
        if ttl_sec.is_some() || has_lease {
            held.start_minder();
        }
        held
    }

    /// Returns the name that it holds.
    pub fn name(&self) -> &LockName {
        &self.proof.name
    }

    /// Returns the fencing token: pass it to whatever must refuse a stale holder.
    pub fn token(&self) -> Fence {
        self.hold.token.expect("the store draws a token for each hold that is granted")
    }

    /// Returns the hold as it was granted.
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Checks whether it is still held. A lock that can't be checked is not lost.
    pub fn check(&self) -> Result<(), Lost> {
        if let Some(lost) = self.loss.known() {
            return Err(lost);
        }
        match self.proof.look() {
            Outcome::Lost(holder) => Err(self.loss.tell(Lost { holder })),
            Outcome::Kept { .. } | Outcome::Failed(_) => Ok(()),
        }
    }

    /// Returns a receiver that is notified when it is lost, within about a second.
    pub fn losses(&mut self) -> Receiver<Lost> {
        if self.renewer.is_none() {
            self.start_minder();
        }
        self.loss.listen()
    }

    /// Renews the lease now, as happens automatically half-way through it. For tests that don't
    /// wait that long.
    #[doc(hidden)]
    pub fn renew(&self) -> Outcome {
        self.proof.renew().value.outcome
    }

    /// Releases it, and reports whether it was held to the end.
    pub fn release(mut self) -> Result<(), NotReleased> {
        self.end()
    }

    fn start_minder(&mut self) {
        let Some(owned) = &self.owned else { return };
        let loss = Arc::clone(&self.loss);
        self.renewer = Some(owned.renewer(self.ttl_sec, move |holder| drop(loss.tell(Lost { holder }))));
    }

    fn end(&mut self) -> Result<(), NotReleased> {
        let Some(owned) = self.owned.take() else { return Ok(()) };
        if self.maker != std::process::id() {
            // A forked child: the lock is its parent's.
            std::mem::forget(owned);
            if let Some(renewer) = self.renewer.take() {
                renewer.forget();
            }
            return Ok(());
        }
        drop(self.renewer.take());
        match owned.release().value {
            Outcome::Kept { .. } => Ok(()),
            Outcome::Lost(holder) => Err(NotReleased::Lost(Lost { holder })),
            Outcome::Failed(why) => Err(NotReleased::Failed(why)),
        }
    }
}

/// A release that found something other than its own hold, or couldn't be written.
#[derive(Debug)]
pub enum NotReleased {
    /// It was no longer held.
    Lost(Lost),
    /// The record is still there, but without a pulse it counts as dead.
    Failed(String),
}

impl fmt::Display for NotReleased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(_) => f.write_str("the lock was lost before it was released"),
            Self::Failed(why) => write!(f, "the lock couldn't be released: {why}"),
        }
    }
}

impl std::error::Error for NotReleased {}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("hold", &self.hold).field("lost", &self.loss.known()).finish_non_exhaustive()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::{Holding, LockName, Terms, WaitPolicy};
    use crate::owned_hold::tests::lokt_in_memory;

    #[test]
    fn a_lock_without_a_ttl_is_renewed_where_the_store_ends_leases() {
        let name = LockName::new("x").expect("a good name");
        let held = lokt_in_memory().hold(&[name], &Terms::default(), &mut WaitPolicy::none());
        let Holding::Held(held) = held.expect("it works").value else { panic!("it is free") };
        assert!(held[0].renewer.is_some(), "its session would end after 15 s");
    }
}
