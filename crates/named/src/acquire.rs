//! Acquires a guard's holds: one name or several, all or nothing.

use std::sync::Arc;
use std::time::Duration;

use lokt_core::decide::{Broken, Terms};
use lokt_core::guard::Outcome;
use lokt_core::hold::{Hold, LockId};
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;

use crate::judge::{Story, Waited};
use crate::locks::{Lokt, Refusal, refused};
use crate::owned_hold::{OwnedHold, key_of};
use crate::shared_renewal::SharedRenewal;
use crate::store::{Ask, Committed, Done, Expiry, Op, Presence, Request, Several};
use lokt_guard::Renewer;
use lokt_sys::error::Error;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_sys::warnings::{Warning, WithWarnings};

/// Result of asking for several names at once.
pub enum Acquired {
    /// All names are held. Holds that the caller is already inside of are not ours: nothing is
    /// renewed or released for them.
    All {
        /// The granted holds.
        owned_holds: Vec<OwnedHold>,
        /// Every name with its hold, in the order of the names.
        holds: Vec<(LockName, Hold)>,
    },
    /// None of the names is held.
    Denied {
        /// The name that could not be acquired.
        name: LockName,
        /// The reason.
        refusal: Refusal,
    },
    /// None of the names is held, because the wait was interrupted.
    Interrupted,
}

impl Lokt {
    /// Acquires a guard's hold of each of `names`, all or nothing: in one request, if the store
    /// supports that or the caller doesn't wait. Otherwise one after the other in byte order: all
    /// callers use the same order, so no two of them wait for each other.
    pub fn owned(
        &self,
        names: &[LockName],
        terms: &Terms,
        inside: &InheritedHolds,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<WithWarnings<Acquired>, Error> {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        let together = patience.timeout.is_once() || self.store().contract().several == Several::Together;
        if names.len() == 1 || together {
            return self.acquire_together(&names, terms, inside, patience);
        }
        let start_ms = self.now().monotonic_ms;
        let mut left = patience.timeout;
        loop {
            let mut taken = Taken::default();
            for name in &names {
                let began_ms = self.now().monotonic_ms;
                patience.timeout = left;
                let holds = taken.inherited_holds(inside);
                match self.acquire(std::slice::from_ref(name), terms, inside, &holds, patience, &mut taken) {
                    Ok(None) => {}
                    Ok(Some(Acquired::Denied { name, mut refusal })) => {
                        if let Some(waited) = &mut refusal.waited {
                            *waited = Duration::from_millis(self.now().monotonic_ms.saturating_sub(start_ms));
                        }
                        return Ok(taken.with(Acquired::Denied { name, refusal }));
                    }
                    Ok(Some(other)) => return Ok(taken.with(other)),
                    Err(error) => return Err(error),
                }
                if terms.ttl_sec.is_some() {
                    taken.mind(terms.ttl_sec);
                }
                // The timeout is for all of them together.
                let waited = Duration::from_millis(self.now().monotonic_ms.saturating_sub(began_ms));
                left = left.rest_after(waited);
            }
            if taken.renewers.iter().all(Renewer::is_held) && taken.is_whole() {
                return Ok(taken.all());
            }
            // A hold was lost during the wait for the others: start again.
            taken.give_back();
        }
    }

    fn acquire_together(
        &self,
        names: &[LockName],
        terms: &Terms,
        inside: &InheritedHolds,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<WithWarnings<Acquired>, Error> {
        let mut taken = Taken::default();
        Ok(match self.acquire(names, terms, inside, inside, patience, &mut taken)? {
            Some(not) => taken.with(not),
            None => taken.all(),
        })
    }

    /// Asks for all of `names` in one request. `holds` is what the caller already holds. `Some`:
    /// not all names were granted, and everything in `taken` has been released. The same holds for
    /// an error.
    fn acquire(
        &self,
        names: &[LockName],
        terms: &Terms,
        inside: &InheritedHolds,
        holds: &InheritedHolds,
        patience: &mut WaitPolicy<'_>,
        taken: &mut Taken,
    ) -> Result<Option<Acquired>, Error> {
        let holds = holds.to_string();
        let ask = |name| {
            let bits = self.requests().random()?;
            let id = LockId::from_bits(bits);
            let mut ask = Ask::guard(name, terms.clone(), self.me(), inside.of(name).cloned(), id);
            ask.profile.holds.clone_from(&holds);
            Ok((Op(bits), ask))
        };
        let asks: Result<Vec<(Op, Ask<'_>)>, Error> = names.iter().map(ask).collect();
        let (ops, asks): (Vec<Op>, Vec<Ask<'_>>) = asks.inspect_err(|_| taken.give_back())?.into_iter().unzip();
        let Some(op) = ops.first() else { return Ok(None) };
        let mut stories = vec![Story { program: self.program(), ..Story::default() }; asks.len()];
        let mut request = Request::of(self.me(), *op, &asks);
        let answers =
            self.requests().obtain(&mut request, &mut stories, patience).inspect_err(|_| taken.give_back())?;
        let Some((answers, warnings)) = answers else {
            taken.give_back();
            return Ok(Some(Acquired::Interrupted));
        };
        taken.warnings.extend(warnings);
        let mut failure = None;
        let first = taken.owned_holds.len();
        for (number, done) in answers {
            match done {
                Done::Failed(error) => failure = Some(error),
                done => {
                    let (name, waited) = (&names[number], stories[number].waited);
                    if let Some(denied) = taken.add(self, name, request.presence.as_ref(), done, waited) {
                        return Ok(Some(denied));
                    }
                }
            }
        }
        if let Some(error) = failure {
            taken.give_back();
            self.requests().give_up(&mut request);
            return Err(error);
        }
        if self.store().contract().expiry == Expiry::Server {
            taken.share(first, request.presence.take());
        }
        Ok(None)
    }
}

/// Holds granted so far.
#[derive(Default)]
struct Taken {
    owned_holds: Vec<OwnedHold>,
    holds: Vec<(LockName, Hold)>,
    /// Renewers for the first holds, one each: they must not expire while we wait for the rest.
    renewers: Vec<Renewer>,
    warnings: Vec<Warning>,
}

impl Taken {
    /// Starts a renewer for each hold that has none yet.
    fn mind(&mut self, ttl_sec: Option<u64>) {
        let new = self.owned_holds[self.renewers.len()..].iter().map(|owned| owned.renewer(ttl_sec, |_| {}));
        self.renewers.extend(new);
    }

    /// Reports whether all holds are still ours when the last one is. The root may have been
    /// deleted while we waited.
    fn is_whole(&self) -> bool {
        self.owned_holds.iter().all(|owned| !matches!(owned.proof().look(), Outcome::Lost(_)))
    }

    /// Holds of this process by now, for deadlock detection.
    fn inherited_holds(&self, inside: &InheritedHolds) -> InheritedHolds {
        let mut inherited_holds = inside.clone();
        for owned in &self.owned_holds {
            inherited_holds.push(owned.name.clone(), &owned.hold);
        }
        inherited_holds
    }

    /// Keeps a granted hold. If it was refused, releases all of them.
    fn add(
        &mut self,
        lokt: &Lokt,
        name: &LockName,
        presence: Option<&Arc<dyn Presence>>,
        done: Done,
        waited: Option<Waited>,
    ) -> Option<Acquired> {
        match done {
            Done::Committed(committed) => {
                let Committed { hold, broken, before, lasts, warnings, .. } = *committed;
                self.warnings.extend(warnings);
                let hold = *hold.expect("a guard removes nothing");
                self.holds.push((name.clone(), hold.clone()));
                // An unreadable record may be one that another program was about to write.
                let is_foreign = |before: &Hold| before.is_foreign() || before.has_foreign_process();
                let was_foreign =
                    broken == Some(Broken::Corrupt) || before.is_some_and(|before| is_foreign(&before.hold));
                let mut owned = OwnedHold::granted(lokt, hold, name, presence.cloned(), lasts);
                owned.was_foreign = was_foreign;
                self.owned_holds.push(owned);
                None
            }
            Done::Stayed(stayed) if stayed.why.is_none() => {
                self.warnings.extend(stayed.warnings);
                let holder = stayed.holder.expect("a guard is inside of something");
                self.holds.push((name.clone(), holder.hold));
                None
            }
            Done::Stayed(stayed) => {
                let (refusal, warnings) = refused(*stayed, waited);
                self.warnings.extend(warnings);
                self.give_back();
                Some(Acquired::Denied { name: name.clone(), refusal })
            }
            Done::Queued(_) | Done::Failed(_) => unreachable!("a wait ends with an answer"),
        }
    }

    /// Makes the holds from `first` on, which belong to one request, renew together.
    fn share(&mut self, first: usize, presence: Option<Arc<dyn Presence>>) {
        let Some(presence) = presence else { return };
        let holds = self.owned_holds[first..].iter().map(|owned| (owned.name.clone(), key_of(&owned.hold)));
        let shared = Arc::new(SharedRenewal::new(presence, holds.collect()));
        for owned in &mut self.owned_holds[first..] {
            owned.renew_by(Arc::clone(&shared));
        }
    }

    fn with(self, value: Acquired) -> WithWarnings<Acquired> {
        WithWarnings { value, warnings: self.warnings }
    }

    /// Releases the last one first: a waiter for the first name may want the others too.
    fn give_back(&mut self) {
        self.renewers.clear();
        while let Some(owned) = self.owned_holds.pop() {
            let WithWarnings { value, warnings } = owned.release();
            self.warnings.extend(warnings);
            if let Outcome::Failed(why) = value {
                self.warnings.push(Warning::NotReleased(why));
            }
        }
    }

    fn all(self) -> WithWarnings<Acquired> {
        WithWarnings {
            value: Acquired::All { owned_holds: self.owned_holds, holds: self.holds },
            warnings: self.warnings,
        }
    }
}
