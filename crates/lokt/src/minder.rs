//! A thread that looks after a hold: renews its lease and tells when it is lost. Programs that hold a lock have one, and so has a guard
//! that waits for the rest of its names.

use std::sync::Arc;
use std::time::Duration;

use lokt_core::denial::Holder;
use lokt_core::guard::{Action, Event, Guard, Manners, OnLost, Outcome, Warning};

use crate::grasp::{Grasp, Proof};
use crate::sys::stopper::Stopper;
use crate::sys::threads::{Builder, JoinHandle};

/// Looks after a hold until it is dropped.
pub(crate) struct Minder {
    proof: Proof,
    stopper: Arc<Stopper>,
    thread: Option<JoinHandle<()>>,
}

impl Minder {
    /// Looks after `grasp`; without a lease only whether it is lost, which `tell` is told, with who has it now.
    pub(crate) fn of(grasp: &Grasp, ttl_sec: Option<u64>, tell: impl Fn(Option<Box<Holder>>) + Send + 'static) -> Self {
        let stopper = Arc::new(Stopper::default());
        let (proof, began_ms) = (grasp.proof(), grasp.began_ms());
        let theirs = (proof.clone(), Arc::clone(&stopper));
        let minds = move || look_after(&theirs.0, began_ms, ttl_sec, &theirs.1, tell);
        // Without a thread nothing is renewed, and the lease says so to everyone.
        let thread = Builder::new().name("lokt-minder".into()).stack_size(256 << 10).spawn(minds).ok();
        Self { proof, stopper, thread }
    }

    /// Is it ours? A lease that no thread could be had for is begun anew, if nobody else has it.
    pub(crate) fn is_held(&self) -> bool {
        let outcome = if self.thread.is_some() { self.proof.look() } else { self.proof.renew().value };
        !matches!(outcome, Outcome::Lost(_))
    }

    /// In a forked child: the thread is the parent's. Not even the destructors may touch it, or wait for what it had locked at the
    /// moment of the fork.
    pub(crate) fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Minder {
    fn drop(&mut self) {
        self.stopper.stop();
        // No renewal may come after a release.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Renews and looks, as a guard does, until it is told to stop or the lock is lost.
fn look_after(
    proof: &Proof,
    began_ms: u64,
    ttl_sec: Option<u64>,
    stopper: &Stopper,
    tell: impl Fn(Option<Box<Holder>>),
) {
    let now_ms = || proof.lokt.now().monotonic_ms;
    let manners = Manners { ttl_sec, on_lost: OnLost::Warn, until_all: false };
    let mut machine = Guard::new(manners, &[began_ms], now_ms());
    let mut events = vec![Event::Tick];
    loop {
        while let Some(event) = events.pop() {
            for action in machine.step(now_ms(), event) {
                match action {
                    Action::Renew(hold) => {
                        let began_ms = now_ms();
                        events.push(Event::Renewed { hold, began_ms, outcome: proof.renew().value });
                    }
                    Action::Look(hold) => events.push(Event::Looked { hold, outcome: proof.look() }),
                    Action::Warn(Warning::Lost { holder, .. }) => return tell(holder),
                    _ => {}
                }
            }
        }
        let Some(at) = machine.wake_at() else { return };
        if stopper.stops_within(Duration::from_millis(at.saturating_sub(now_ms()))) {
            return;
        }
        events.push(Event::Tick);
    }
}
