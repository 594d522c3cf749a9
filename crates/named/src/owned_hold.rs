//! A hold owned by this process: renew it, check it, release it.

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
    /// True if it took the place of what another program left. Such a program may have judged that,
    /// too, and remove ours instead.
    pub was_foreign: bool,
    presence: Option<Arc<dyn Presence>>,
    /// Renews it together with the other holds of its request, where the store itself ends leases.
    shared: Option<Arc<SharedRenewal>>,
    /// Its lifetime when it was granted, where the store itself ends leases.
    lasts: Option<Lasts>,
    /// Time of the grant, by the boot clock.
    granted_ms: u64,
}

/// Handle that identifies the process of a hold, for any thread.
#[derive(Clone)]
pub struct HoldHandle {
    pub lokt: Lokt,
    pub name: LockName,
    key: HoldKey,
    shared: Option<Arc<SharedRenewal>>,
}

impl OwnedHold {
    /// Returns a hold that was just granted.
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

    /// Makes it renew together with the other holds of its request.
    pub(crate) fn renew_by(&mut self, shared: Arc<SharedRenewal>) {
        self.shared = Some(shared);
    }

    /// Returns when its lease began: on the monotonic clock, or on the boot clock where the store
    /// ends leases.
    pub fn began_ms(&self) -> u64 {
        if let Some(lasts) = self.lasts {
            return lasts.sent.boottime_ms;
        }
        let part = self.hold.parts.as_ref().and_then(|parts| parts.process.as_ref());
        part.and_then(|part| part.clock_ms).unwrap_or_else(|| self.lokt.now().monotonic_ms)
    }

    /// Starts a thread that renews the hold and calls `tell` once if it is lost. Without a lease it
    /// only checks.
    pub(crate) fn renewer(
        &self,
        ttl_sec: Option<u64>,
        tell: impl FnOnce(Option<Box<Holder>>) + Send + 'static,
    ) -> Renewer {
        let (guard, clock) = self.renewals(ttl_sec);
        let machine = self.lokt.shared_machine();
        Renewer::start(Arc::new(self.proof()), guard, move || clock.now_ms(&*machine), tell)
    }

    /// Returns when to renew it, and by which clock. A store that itself ends leases gives every
    /// hold one, even without `ttl_sec`. Such a lease keeps running while the machine is suspended,
    /// and can't be revived.
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

    /// Returns how long it lasts without a renewal, where the store itself ends leases.
    pub(crate) fn lasts(&self) -> Option<Lasts> {
        self.lasts
    }

    /// Returns the handle that renews and checks it, from any thread.
    pub fn proof(&self) -> HoldHandle {
        let (lokt, name, shared) = (self.lokt.clone(), self.name.clone(), self.shared.clone());
        HoldHandle { lokt, name, key: key_of(&self.hold), shared }
    }

    /// Returns where a command that runs under it is to be recorded.
    pub(crate) fn record(&self) -> Option<CommandRecord> {
        self.presence.as_ref().and_then(|presence| presence.record(&self.name))
    }

    /// Returns a descriptor that keeps the pulse locked, for a command to inherit.
    pub fn inheritable(&self) -> Option<std::io::Result<OwnedFd>> {
        self.presence.as_ref().and_then(|presence| presence.inheritable(&self.name))
    }

    /// Leaves the pulse to the processes that inherited it.
    pub fn leave_to_heirs(&mut self) {
        if let Some(presence) = &self.presence {
            presence.leave_to_heirs(&self.name);
        }
    }

    /// Reports whether a process keeps the pulse. If so, the wakeup rings when none does any more.
    pub fn has_heirs(&self, wakeup: &Wakeup) -> bool {
        self.presence.as_ref().is_some_and(|presence| presence.has_heirs(&self.name, wakeup))
    }

    /// Releases it. Whatever the result, the pulse stops: a hold that couldn't be released counts
    /// as dead.
    pub fn release(self) -> WithWarnings<Outcome> {
        self.release_after(None)
    }

    /// Releases it after a command that ran under it.
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
    /// Renews the lease: rewrites the record, or keeps the presence alive that it depends on.
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

    /// Checks whether it is still ours, without keeping any process waiting.
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

/// Returns the key that proves to be the process of `hold`.
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

    /// Returns the locks of a space in memory.
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
