//! Renewal in a thread, beside the work that it is for.
//!
//! [`lokt_core::guard::Guard`] decides when to renew and when a lease counts as lost, as for a
//! command that runs under a guard.

use std::sync::Arc;
use std::time::Duration;

use lokt_core::denial::Holder;
use lokt_core::guard::{Action, Event, Guard, Outcome, Warning};

use crate::guardable::{Renewable, Renewal};
use lokt_sys::stopper::Stopper;
use lokt_sys::threads::{Builder, JoinHandle};

/// A thread that renews something until it is dropped.
pub struct Renewer {
    renewed: Arc<dyn Renewable>,
    stopper: Arc<Stopper>,
    thread: Option<JoinHandle<()>>,
}

impl Renewer {
    /// Renews `renewed` as `guard` says. Without a lease it only checks whether `renewed` is still
    /// held. When that is lost, `tell` is called once, with the new holder.
    pub fn start(
        renewed: Arc<dyn Renewable>,
        guard: Guard,
        now_ms: impl Fn() -> u64 + Send + 'static,
        tell: impl FnOnce(Option<Box<Holder>>) + Send + 'static,
    ) -> Self {
        let stopper = Arc::new(Stopper::default());
        let (theirs, stop) = (Arc::clone(&renewed), Arc::clone(&stopper));
        let renew = move || keep_renewed(&*theirs, guard, &now_ms, &stop, tell);
        // Without a thread nothing is renewed, and the lease visibly expires.
        let thread = Builder::new().name("lokt-renewer".into()).stack_size(256 << 10).spawn(renew).ok();
        Self { renewed, stopper, thread }
    }

    /// Reports whether it is still held. If there is no thread, renews the lease if that is still
    /// possible.
    pub fn is_held(&self) -> bool {
        let outcome = if self.thread.is_some() { self.renewed.look() } else { self.renewed.renew().value.outcome };
        !matches!(outcome, Outcome::Lost(_))
    }

    /// Forgets the thread in a forked child, where it is the parent's. The destructors must neither
    /// touch it nor wait for locks that it held at the moment of the fork.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Renewer {
    fn drop(&mut self) {
        self.stopper.stop();
        // No renewal may come after a release.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Renews and checks `renewed` until it is stopped or lost. `guard` knows it as its only hold.
pub fn keep_renewed(
    renewed: &dyn Renewable,
    mut guard: Guard,
    now_ms: &dyn Fn() -> u64,
    stopper: &Stopper,
    tell: impl FnOnce(Option<Box<Holder>>),
) {
    let mut events = vec![Event::Tick];
    loop {
        while let Some(event) = events.pop() {
            for action in guard.step(now_ms(), event) {
                match action {
                    Action::Renew(hold) => {
                        let Renewal { began_ms, outcome } = renewed.renew().value;
                        events.push(Event::Renewed { hold, began_ms, outcome });
                    }
                    Action::Look(hold) => events.push(Event::Looked { hold, outcome: renewed.look() }),
                    Action::Warn(Warning::Lost { holder, .. }) => return tell(holder),
                    Action::Warn(Warning::Expired { .. }) => return tell(None),
                    _ => {}
                }
            }
        }
        let Some(at) = guard.wake_at() else { return };
        if stopper.stops_within(Duration::from_millis(at.saturating_sub(now_ms()))) {
            return;
        }
        events.push(Event::Tick);
    }
}
