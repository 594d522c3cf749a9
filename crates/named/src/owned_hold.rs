//! A hold in the hand of the process that got it: to renew, to look after, to give back.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use lokt_core::decide::{HoldKey, Intent};
use lokt_core::denial::{Denial, Holder};
use lokt_core::guard::{Ended, Guard, GuardConfig, OnLost, Outcome};
use lokt_core::hold::{Hold, LockId};
use lokt_core::name::LockName;
use lokt_core::time::Lease;

use crate::judge::Story;
use crate::locks::Lokt;
use crate::shared_renewal::SharedRenewal;
use crate::store::{Ask, Call, CommandRecord, Depth, Done, Lasts, Op, Presence, Request, Slot, Target};
use lokt_guard::{ClockKind, Renewal, Renewer};
use lokt_sys::wakeup::Wakeup;
use lokt_sys::warnings::WithWarnings;

/// One hold of ours, with its pulse.
pub struct OwnedHold {
    /// The root that it is in.
    pub lokt: Lokt,
    /// Its name.
    pub name: LockName,
    /// The hold as it was granted.
    pub hold: Hold,
    /// It took the place of what another program left. Such a program may have judged that, too, and remove ours for it.
    pub was_foreign: bool,
    presence: Option<Arc<dyn Presence>>,
    /// What renews it together with the other holds of its request, where a store ends leases by itself.
    shared: Option<Arc<SharedRenewal>>,
    /// How long it lasted when it was granted, where a store ends leases by itself.
    lasts: Option<Lasts>,
    /// When it was granted, by the boot clock.
    granted_ms: u64,
}

/// What it takes to be known as the process of a hold, from any thread.
#[derive(Clone)]
pub struct HoldHandle {
    pub lokt: Lokt,
    pub name: LockName,
    key: HoldKey,
    shared: Option<Arc<SharedRenewal>>,
}

impl OwnedHold {
    /// A hold that was just granted.
    pub(crate) fn granted(
        lokt: &Lokt,
        hold: Hold,
        name: &LockName,
        presence: Option<Arc<dyn Presence>>,
        lasts: Option<Lasts>,
    ) -> Self {
        let granted_ms = lokt.now().boottime_ms;
        let (lokt, name) = (lokt.clone(), name.clone());
        Self { lokt, name, hold, was_foreign: false, presence, shared: None, lasts, granted_ms }
    }

    /// Lets it be renewed together with the other holds of its request.
    pub(crate) fn renew_by(&mut self, shared: Arc<SharedRenewal>) {
        self.shared = Some(shared);
    }

    /// When its lease began: on the monotonic clock, or on the boot clock where the store ends leases.
    pub fn began_ms(&self) -> u64 {
        if let Some(lasts) = self.lasts {
            return lasts.sent.boottime_ms;
        }
        let part = self.hold.parts.as_ref().and_then(|parts| parts.process.as_ref());
        part.and_then(|part| part.clock_ms).unwrap_or_else(|| self.lokt.now().monotonic_ms)
    }

    /// Starts a thread that renews the hold and tells once if it is lost. Without a lease it only
    /// checks.
    pub(crate) fn renewer(
        &self,
        ttl_sec: Option<u64>,
        tell: impl FnOnce(Option<Box<Holder>>) + Send + 'static,
    ) -> Renewer {
        let (guard, clock) = self.renewals(ttl_sec);
        let machine = self.lokt.shared_machine();
        Renewer::start(Arc::new(self.proof()), guard, move || clock.now_ms(&*machine), tell)
    }

    /// When to renew it, and by which clock. A store that ends leases by itself gives every hold one, also
    /// without `ttl_sec`, which goes on while the machine sleeps and can't be revived.
    fn renewals(&self, ttl_sec: Option<u64>) -> (Guard, ClockKind) {
        let look_ms = self.lokt.store().contract().look_ms;
        let config = GuardConfig { ttl_sec, on_lost: OnLost::Warn, until_all: false, look_ms };
        let clock = if self.lasts.is_some() { ClockKind::BootTime } else { ClockKind::Monotonic };
        let began = [self.began_ms()];
        let guard = Guard::new(config, &began, clock.now_ms(self.lokt.machine()));
        let guard = match self.lasts {
            Some(Lasts { ttl, .. }) => guard.stopping_ahead(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX), &began),
            None => guard,
        };
        (guard, clock)
    }

    /// How long it lasts without a renewal, where the store ends leases by itself.
    pub(crate) fn lasts(&self) -> Option<Lasts> {
        self.lasts
    }

    /// Returns what renews and checks it, from any thread.
    pub fn proof(&self) -> HoldHandle {
        let (lokt, name, shared) = (self.lokt.clone(), self.name.clone(), self.shared.clone());
        HoldHandle { lokt, name, key: key_of(&self.hold), shared }
    }

    /// Where a command that runs under it is to be recorded.
    pub(crate) fn record(&self) -> Option<CommandRecord> {
        self.presence.as_ref().and_then(|presence| presence.record(&self.name))
    }

    /// A descriptor that keeps the pulse beating, for a command to inherit.
    pub fn inheritable(&self) -> Option<std::io::Result<OwnedFd>> {
        self.presence.as_ref().and_then(|presence| presence.inheritable(&self.name))
    }

    /// Leaves the pulse to those who inherited it.
    pub fn leave_to_heirs(&mut self) {
        if let Some(presence) = &self.presence {
            presence.leave_to_heirs(&self.name);
        }
    }

    /// Does anybody keep the pulse? Rings when nobody does any more.
    pub fn has_heirs(&self, wakeup: &Wakeup) -> bool {
        self.presence.as_ref().is_some_and(|presence| presence.has_heirs(&self.name, wakeup))
    }

    /// Gives it back. Whatever comes of it, the pulse stops: what couldn't be given back counts as dead.
    pub fn release(self) -> WithWarnings<Outcome> {
        self.release_after(None)
    }

    /// The same after a command that ran under it.
    pub fn release_after(self, ended: Option<Ended>) -> WithWarnings<Outcome> {
        let lokt = &self.lokt;
        let released = lokt.requests().random().and_then(|bits| {
            let intent = Intent::Release(key_of(&self.hold));
            let asks = [Ask::lock(&self.name, intent, LockId::from_bits(bits))];
            let story = [Story { held: Some((self.granted_ms, ended)), ..Story::default() }];
            let presence = self.presence.clone();
            let mut request = Request { presence, ..Request::of(lokt.me(), Op(bits), &asks) };
            lokt.requests().carry_out_one(&mut request, &story)
        });
        match released {
            Ok(Done::Stayed(stayed)) => {
                let value = match stayed.why {
                    Some(Denial::Lost(holder)) => Outcome::Lost(holder),
                    _ => Outcome::Kept { late_ms: None },
                };
                WithWarnings { value, warnings: stayed.warnings }
            }
            Ok(Done::Committed(committed)) => {
                WithWarnings { value: Outcome::Kept { late_ms: None }, warnings: committed.warnings }
            }
            Ok(Done::Queued(_) | Done::Failed(_)) => unreachable!("a release doesn't wait"),
            Err(error) => {
                if let Some(presence) = &self.presence {
                    presence.abandon(&self.name);
                }
                WithWarnings { value: Outcome::Failed(error.to_string()), warnings: Vec::new() }
            }
        }
    }
}

impl HoldHandle {
    /// Begins the lease anew: rewrites the record, or keeps the presence that ends it.
    pub fn renew(&self) -> WithWarnings<Renewal> {
        if let Some(shared) = &self.shared {
            return WithWarnings { value: shared.renew(&self.name, &self.lokt.now()), warnings: Vec::new() };
        }
        let began_ms = self.lokt.now().monotonic_ms;
        let done = self.lokt.requests().ask(&self.name, Target::Lock, Intent::Renew(self.key.clone()));
        let (outcome, warnings) = match done {
            Ok(Done::Stayed(stayed)) => match stayed.why {
                Some(Denial::Lost(holder)) => (Outcome::Lost(holder), stayed.warnings),
                _ => (Outcome::Kept { late_ms: None }, stayed.warnings),
            },
            Ok(Done::Committed(committed)) => {
                let late_ms = match committed.before.map(|before| before.elapsed.process) {
                    Some(Lease::Over(ms)) => Some(ms),
                    _ => None,
                };
                (Outcome::Kept { late_ms }, committed.warnings)
            }
            Ok(Done::Queued(_)) => unreachable!("a renewal doesn't wait"),
            Ok(Done::Failed(error)) | Err(error) => (Outcome::Failed(error.to_string()), Vec::new()),
        };
        WithWarnings { value: Renewal { began_ms, outcome }, warnings }
    }

    /// Is it still ours? A look that keeps nobody waiting.
    pub fn look(&self) -> Outcome {
        let view = match self.lokt.store().view(&self.name, Depth::HOLDER, None, &Call::UNLIMITED) {
            Ok(view) => view,
            Err(error) => return Outcome::Failed(error.to_string()),
        };
        match view.slot {
            Slot::Held(holder) if key_of(&holder.hold) == self.key => Outcome::Kept { late_ms: None },
            Slot::Held(holder) => Outcome::Lost(Some(holder)),
            Slot::Free | Slot::Corrupt(_) => Outcome::Lost(None),
            Slot::BeingWritten | Slot::Newer(_) | Slot::Unreadable(_) => {
                Outcome::Failed(format!("the record of {} can't be read now", self.name))
            }
        }
    }
}

/// What proves to be the process of `hold`.
pub(crate) fn key_of(hold: &Hold) -> HoldKey {
    HoldKey { lock_id: hold.lock_id.clone(), token: hold.token, pulse: hold.pulse }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use lokt_core::decide::Terms;
    use lokt_core::inherited_holds::InheritedHolds;
    use lokt_core::name::LockName;
    use lokt_guard::ClockKind;

    use crate::acquire::Acquired;
    use crate::locks::Lokt;
    use crate::store::Call;
    use crate::swap::{MemEngine, SwapStore};
    use lokt_sys::machine::{Linux, identity};
    use lokt_sys::wait_policy::WaitPolicy;

    /// The locks of a space in memory.
    pub(crate) fn lokt_in_memory() -> Lokt {
        let (engine, me) = (MemEngine::new(Arc::new(Linux)), identity("alice".into(), None));
        let space = LockName::new("acme").expect("a good name");
        let store = SwapStore::new(engine, &space, PathBuf::from("memory:/acme"), Arc::new(Linux), me.clone());
        store.create_space("9f2c04ab", &Call::UNLIMITED).expect("it is made");
        Lokt::with_store(Arc::new(store), Arc::new(Linux), me)
    }

    #[test]
    fn a_hold_without_a_ttl_is_renewed_by_the_boot_clock_where_the_store_ends_leases() {
        let lokt = lokt_in_memory();
        let names = [LockName::new("x").expect("a good name")];
        let (terms, inside) = (Terms::default(), InheritedHolds::default());
        let acquired = lokt.owned(&names, &terms, &inside, &mut WaitPolicy::none()).expect("it is answered");
        let Acquired::All { owned_holds, .. } = acquired.value else { panic!("x is free") };
        let lasts = owned_holds[0].lasts().expect("its session has an end");
        let third_ms = u64::try_from(lasts.ttl.as_millis() / 3).expect("a short time");
        let (guard, clock) = owned_holds[0].renewals(None);
        assert_eq!(clock, ClockKind::BootTime, "the server counts on while this machine sleeps");
        assert_eq!(guard.wake_at(), Some(lasts.sent.boottime_ms + third_ms), "three times a lease");
    }
}
