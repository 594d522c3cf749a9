//! A hold in the hand of the process that got it: to renew, to look after, to give back.

use std::os::fd::OwnedFd;
use std::time::Duration;

use lokt_core::badges::Badges;
use lokt_core::decide::{Broken, Decision, Grip, Intent, Terms};
use lokt_core::denial::Denial;
use lokt_core::guard::{Ended, Outcome};
use lokt_core::hold::Hold;
use lokt_core::name::LockName;
use lokt_core::time::{Elapsed, Lease};

use crate::error::Error;
use crate::locks::{Lokt, Refusal, Said};
use crate::minder::Minder;
use crate::store::ask::Ask;
use crate::store::change::{Changed, Several};
use crate::store::record_path;
use crate::store::seat::Seat;
use crate::store::slot::Stored;
use crate::sys::bell::Bell;
use crate::sys::spawn::Record;
use crate::wait::Patience;

/// One hold of ours, with its pulse.
pub(crate) struct Grasp {
    pub(crate) lokt: Lokt,
    pub(crate) name: LockName,
    pub(crate) hold: Hold,
    /// It took the place of what another program left. Such a program may have judged that, too, and remove ours for it.
    pub(crate) was_foreign: bool,
    seat: Option<Seat>,
    /// When it was granted, by the boot clock.
    granted_ms: u64,
}

/// What it takes to be known as the process of a hold, from any thread.
#[derive(Clone)]
pub(crate) struct Proof {
    pub(crate) lokt: Lokt,
    pub(crate) name: LockName,
    grip: Grip,
}

/// What came of asking for several names at once.
pub(crate) enum Grasped {
    /// All of them are ours. Those that we are inside of already are not: nothing is renewed or released for them.
    All {
        /// What was granted.
        grasps: Vec<Grasp>,
        /// Every name with its hold, in the order of the names.
        holds: Vec<(LockName, Hold)>,
    },
    /// None of them is.
    Denied {
        /// Which one stood in the way.
        name: LockName,
        /// Why.
        refusal: Refusal,
    },
    /// None of them is, because the wait was interrupted.
    Interrupted,
}

impl Lokt {
    /// Asks for a guard's hold of each of `names`, all or nothing, one after the other in their byte order: whoever asks for several
    /// asks in the same order, so nobody waits for somebody who waits for them. Without patience all are checked in one hold of
    /// the mutex.
    pub(crate) fn grasp(
        &self,
        names: &[LockName],
        terms: &Terms,
        inside: &Badges,
        patience: &mut Patience<'_>,
    ) -> Result<Said<Grasped>, Error> {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        if patience.timeout.is_once() && names.len() > 1 {
            return self.grasp_at_once(&names, terms, inside);
        }
        let start_ms = self.now().monotonic_ms;
        let mut left = patience.timeout;
        loop {
            let mut taken = Taken::default();
            for name in &names {
                let began_ms = self.now().monotonic_ms;
                let mut ask = Ask::guard(name, terms.clone(), self.me(), inside.of(name).cloned());
                ask.program = self.program();
                ask.profile.holds = taken.badges(inside).to_string();
                patience.timeout = left;
                let changed = match self.obtain(&mut ask, patience) {
                    Ok(Some(changed)) => changed,
                    Ok(None) => {
                        taken.give_back();
                        return Ok(Said { value: Grasped::Interrupted, warnings: taken.warnings });
                    }
                    Err(error) => {
                        taken.give_back();
                        return Err(error);
                    }
                };
                if let Some(mut denied) = taken.add(self, name, ask.seat.take(), changed) {
                    if let Grasped::Denied { refusal: Refusal { waited: Some(waited), .. }, .. } = &mut denied.value {
                        *waited = Duration::from_millis(self.now().monotonic_ms.saturating_sub(start_ms));
                    }
                    return Ok(denied);
                }
                if names.len() > 1 && terms.ttl_sec.is_some() {
                    taken.mind(terms.ttl_sec);
                }
                // The timeout is for all of them together.
                let waited = Duration::from_millis(self.now().monotonic_ms.saturating_sub(began_ms));
                left = left.rest_after(waited);
            }
            if taken.minders.iter().all(Minder::is_held) && (names.len() == 1 || taken.is_whole()) {
                return Ok(taken.all());
            }
            // One was lost meanwhile, so it isn't all of them: from the beginning.
            taken.give_back();
        }
    }

    fn grasp_at_once(&self, names: &[LockName], terms: &Terms, inside: &Badges) -> Result<Said<Grasped>, Error> {
        let ask = |name| Ask::guard(name, terms.clone(), self.me(), inside.of(name).cloned());
        let mut asks: Vec<Ask<'_>> = names.iter().map(ask).collect();
        for ask in &mut asks {
            ask.profile.holds = inside.to_string();
            ask.program = self.program();
        }
        let mut taken = Taken::default();
        let Several { granted, failure } = self.store().pursue_all(&mut asks)?;
        for (number, changed) in granted {
            let ask = &mut asks[number];
            if let Some(denied) = taken.add(self, ask.name, ask.seat.take(), changed) {
                return Ok(denied);
            }
        }
        let Some(error) = failure else { return Ok(taken.all()) };
        taken.give_back();
        for ask in &mut asks {
            self.store().give_up(ask);
        }
        Err(error)
    }
}

/// What was granted so far.
#[derive(Default)]
struct Taken {
    grasps: Vec<Grasp>,
    holds: Vec<(LockName, Hold)>,
    /// What we have must not run out while we wait for the rest. One for each of the first grasps.
    minders: Vec<Minder>,
    warnings: Vec<String>,
}

impl Taken {
    /// Looks after what isn't looked after yet.
    fn mind(&mut self, ttl_sec: Option<u64>) {
        let new = self.grasps[self.minders.len()..].iter().map(|grasp| Minder::of(grasp, ttl_sec, |_| {}));
        self.minders.extend(new);
    }

    /// Is the first still ours, now that the last is? The root may have been deleted while we waited.
    fn is_whole(&self) -> bool {
        self.grasps.iter().all(|grasp| !matches!(grasp.proof().look(), Outcome::Lost(_)))
    }

    /// What we hold by now, for those who look for deadlocks.
    fn badges(&self, inside: &Badges) -> Badges {
        let mut badges = inside.clone();
        for grasp in &self.grasps {
            badges.push(grasp.name.clone(), &grasp.hold);
        }
        badges
    }

    /// Keeps what was granted; gives everything back if it was refused.
    fn add(&mut self, lokt: &Lokt, name: &LockName, seat: Option<Seat>, changed: Changed) -> Option<Said<Grasped>> {
        self.warnings.extend(changed.warnings);
        match (changed.decision, changed.before) {
            (Decision::Commit { next: Some(hold), broken, .. }, before) => {
                self.holds.push((name.clone(), (*hold).clone()));
                // What can't be read may be what another program was about to write.
                let was_foreign = broken == Some(Broken::Corrupt)
                    || before.is_some_and(|before| before.is_foreign() || before.has_foreign_process());
                let (lokt, name, granted_ms) = (lokt.clone(), name.clone(), lokt.now().boottime_ms);
                self.grasps.push(Grasp { lokt, name, hold: *hold, was_foreign, seat, granted_ms });
                None
            }
            (Decision::Inside, Some(hold)) => {
                self.holds.push((name.clone(), hold));
                None
            }
            (Decision::Deny(denial), _) => {
                self.give_back();
                let refusal = Refusal { denial, waiters: changed.waiters, waited: changed.waited };
                let value = Grasped::Denied { name: name.clone(), refusal };
                Some(Said { value, warnings: std::mem::take(&mut self.warnings) })
            }
            (Decision::Commit { next: None, .. } | Decision::Inside, _) => {
                unreachable!("a guard removes nothing, and is inside of something")
            }
        }
    }

    /// The last one first: whoever waits for the first of them may want the others too.
    fn give_back(&mut self) {
        self.minders.clear();
        while let Some(grasp) = self.grasps.pop() {
            let Said { value, warnings } = grasp.release();
            self.warnings.extend(warnings);
            if let Outcome::Failed(why) = value {
                self.warnings.push(why);
            }
        }
    }

    fn all(self) -> Said<Grasped> {
        Said { value: Grasped::All { grasps: self.grasps, holds: self.holds }, warnings: self.warnings }
    }
}

impl Grasp {
    /// When its lease began, on the monotonic clock.
    pub(crate) fn began_ms(&self) -> u64 {
        let part = self.hold.parts.as_ref().and_then(|parts| parts.process.as_ref());
        part.and_then(|part| part.clock_ms).unwrap_or_else(|| self.lokt.now().monotonic_ms)
    }

    pub(crate) fn proof(&self) -> Proof {
        let grip = Grip { lock_id: self.hold.lock_id.clone(), token: self.hold.token, pulse: self.hold.pulse };
        Proof { lokt: self.lokt.clone(), name: self.name.clone(), grip }
    }

    /// Where a command that runs under it is to be recorded.
    pub(crate) fn record(&self) -> Option<std::io::Result<Record<'_>>> {
        self.seat.as_ref().and_then(Seat::record)
    }

    /// A descriptor that keeps the pulse beating, for a command to inherit.
    pub(crate) fn inheritable(&self) -> Option<std::io::Result<OwnedFd>> {
        self.seat.as_ref().and_then(Seat::inheritable)
    }

    /// Leaves the pulse to those who inherited it.
    pub(crate) fn leave_to_heirs(&mut self) {
        self.seat.iter_mut().for_each(Seat::leave_to_heirs);
    }

    /// Does anybody keep the pulse? Rings when nobody does any more.
    pub(crate) fn has_heirs(&self, bell: &Bell) -> bool {
        self.seat.as_ref().is_some_and(|seat| self.lokt.disk().watch(&seat.path(), bell).unwrap_or(false))
    }

    /// Gives it back. Whatever comes of it, the pulse stops: what couldn't be given back counts as dead.
    pub(crate) fn release(self) -> Said<Outcome> {
        self.release_after(None)
    }

    /// The same after a command that ran under it.
    pub(crate) fn release_after(mut self, ended: Option<Ended>) -> Said<Outcome> {
        let proof = self.proof();
        let store = self.lokt.store();
        let mut ask = Ask::release(&self.name, proof.grip, self.seat.take(), (self.granted_ms, ended));
        match store.pursue(&mut ask) {
            Ok(crate::store::change::Outcome::Done(changed)) => {
                let value = match changed.decision {
                    Decision::Deny(Denial::Lost(holder)) => Outcome::Lost(holder),
                    _ => Outcome::Kept { late_ms: None },
                };
                Said { value, warnings: changed.warnings }
            }
            Ok(crate::store::change::Outcome::Waits(_)) => unreachable!("a release doesn't wait"),
            Err(error) => {
                // The record still names the pulse; without its lock it is the pulse of a dead process.
                ask.seat.iter().for_each(Seat::let_go);
                Said { value: Outcome::Failed(error.to_string()), warnings: Vec::new() }
            }
        }
    }
}

impl Proof {
    /// Begins the lease anew.
    pub(crate) fn renew(&self) -> Said<Outcome> {
        let changed = match self.lokt.store().change(&self.name, Intent::Renew(self.grip.clone())) {
            Ok(changed) => changed,
            Err(error) => return Said { value: Outcome::Failed(error.to_string()), warnings: Vec::new() },
        };
        let value = match (changed.decision, changed.before) {
            (Decision::Deny(Denial::Lost(holder)), _) => Outcome::Lost(holder),
            (Decision::Commit { .. }, Some(before)) => {
                let late_ms = match Elapsed::of(&before, &self.lokt.now(), self.lokt.me()).process {
                    Lease::Over(ms) => Some(ms),
                    _ => None,
                };
                Outcome::Kept { late_ms }
            }
            _ => Outcome::Kept { late_ms: None },
        };
        Said { value, warnings: changed.warnings }
    }

    /// Is it still ours? A look without the mutex.
    pub(crate) fn look(&self) -> Outcome {
        let now = self.lokt.now();
        let found = self.lokt.store().find(&record_path(&self.name), self.name.as_str(), &now);
        match &found.stored {
            Stored::Held(hold)
                if hold.lock_id == self.grip.lock_id
                    && hold.token == self.grip.token
                    && hold.pulse == self.grip.pulse =>
            {
                Outcome::Kept { late_ms: None }
            }
            Stored::Held(_) => Outcome::Lost(found.holder().map(Box::new)),
            Stored::Free | Stored::Corrupt(_) => Outcome::Lost(None),
            Stored::BeingWritten | Stored::Newer(_) | Stored::Unreadable(_) => {
                Outcome::Failed(format!("the record of {} can't be read now", self.name))
            }
        }
    }
}
