//! A loss, and everybody who wants to know of it.

use std::sync::Arc;
use std::time::Duration;

use lokt::Lost;
use lokt_sys::threads::mpsc::{Receiver, TryRecvError};
use shuttle::thread;

use crate::explore::explore;
use crate::world::World;

/// Between its last look and its next one a renewer sleeps once.
const A_LOOK: u32 = 2;

fn is_told_once(losses: &Receiver<Lost>, who: &str) {
    let lost = losses.recv().unwrap_or_else(|_| panic!("a loss is told to {who}"));
    assert_eq!(
        lost.holder.map(|holder| holder.hold.owner).as_deref().unwrap_or("carol"),
        "carol",
        "to carol, or nobody"
    );
    assert!(
        matches!(losses.try_recv(), Err(TryRecvError::Empty | TryRecvError::Disconnected)),
        "a loss is told to {who} once"
    );
}

fn a_loss(ttl: Option<Duration>, checks: bool) {
    let world = Arc::new(World::new());
    let mut held = world.alices(ttl);
    let early = held.losses();
    let carol = thread::spawn({
        let world = Arc::clone(&world);
        move || world.carol_takes_it()
    });
    world.time.allow(1);
    let amid = held.losses();
    if checks {
        let _ = held.check();
    }
    carol.join().expect("it doesn't panic");
    let after = held.losses();
    // Whatever was seen so far, from here on there is enough time to see it.
    world.time.allow(A_LOOK);
    is_told_once(&early, "who listened before");
    is_told_once(&amid, "who began to listen meanwhile");
    is_told_once(&after, "who began to listen afterwards");
    is_told_once(&held.losses(), "who comes when all have been told");
    drop(held);
    world.alices_has_ended();
    for losses in [early, amid, after] {
        assert!(matches!(losses.try_recv(), Err(TryRecvError::Disconnected)), "and never again");
    }
    world.is_carols();
}

#[test]
fn a_loss_is_told_once_to_everyone_who_listens_whenever_they_came() {
    explore("a loss is told once to everyone", || a_loss(None, false));
}

#[test]
fn a_loss_of_a_lease_is_told_once_to_everyone_who_listens_whenever_they_came() {
    explore("a loss of a lease is told once to everyone", || a_loss(Some(Duration::from_secs(1)), false));
}

#[test]
fn a_loss_that_a_check_may_find_first_is_told_once_to_everyone() {
    explore("a loss that a check may find first is told once to everyone", || a_loss(None, true));
}
