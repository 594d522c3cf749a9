//! Flaws that the same tests must find.

use std::sync::Arc;
use std::time::Duration;

use lokt_sys::stopper::Stopper;
use lokt_sys::threads::mpsc::{self, Receiver, Sender};
use lokt_sys::threads::{Condvar, Mutex, let_joins_wait, locked, scope, sleep_until, spawn_in};

use crate::explore::{explore_all, explore_until_found};
use crate::holds::{meet, release_amid_renewals};
use crate::pieces::{Stops, Tells, panic_beside, stop_a_sleeper, tell_and_listen};
use crate::testkit::hook_disk::HookDisk;
use crate::world::World;

#[test]
#[should_panic(expected = "no renewal comes after a release")]
fn a_release_that_does_not_wait_for_the_renewer_is_found() {
    explore_until_found("planted: a release that doesn't wait", || {
        let world = World::new();
        let_joins_wait(false);
        release_amid_renewals(&world);
    });
}

#[test]
#[should_panic(expected = "one-holder")]
fn a_mutex_that_keeps_nobody_out_is_found() {
    explore_until_found("planted: a mutex that keeps nobody out", || {
        let world = World::new();
        let open = world.disk.clone();
        let hook = move |_: &str, _: &str| {
            open.drop_locks();
            Ok(())
        };
        let disk = Arc::new(HookDisk::new(Arc::new(world.disk.clone()), Arc::new(hook)));
        meet(&world, &world.lokt_on("alice", disk));
    });
}

/// Looks whether it happened before it listens.
#[derive(Default)]
struct Hasty {
    known: Mutex<Option<u32>>,
    listeners: Mutex<Vec<Sender<u32>>>,
}

impl Tells for Hasty {
    fn tell(&self, what: u32) {
        let known = *locked(&self.known).get_or_insert(what);
        locked(&self.listeners).drain(..).for_each(|listener| listener.send(known).unwrap_or_default());
    }

    fn listen(&self) -> Receiver<u32> {
        let (send, receive) = mpsc::channel();
        let known = *locked(&self.known);
        match known {
            Some(known) => drop(send.send(known)),
            None => locked(&self.listeners).push(send),
        }
        receive
    }
}

#[test]
#[should_panic(expected = "news are told once to everyone")]
fn a_listener_that_looks_before_it_listens_is_found() {
    explore_all("planted: a listener that looks before it listens", tell_and_listen::<Hasty>);
}

/// What it says is behind another mutex than the one that the sleeper lets go of when it falls asleep.
#[derive(Default)]
struct Apart {
    told: Arc<Mutex<bool>>,
    state: Mutex<Arc<Mutex<bool>>>,
    wakeup: Condvar,
}

impl Stops for Apart {
    fn stop(&self) {
        *locked(&self.told) = true;
        self.wakeup.notify_all();
    }

    fn stops_within(&self, time: Duration) -> bool {
        *locked(&self.state) = Arc::clone(&self.told);
        sleep_until(&self.state, &self.wakeup, time, |told| *locked(told))
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_stop_that_may_be_missed_is_found() {
    explore_all("planted: a stop that may be missed", stop_a_sleeper::<Apart>);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_thread_that_outlives_the_panic_of_its_work_is_found() {
    explore_all("planted: a thread that outlives the panic of its work", || {
        panic_beside(|beside, work| {
            let stopper = Stopper::default();
            scope(|scope| {
                spawn_in(scope, || beside(&stopper));
                work();
                stopper.stop();
            });
        });
    });
}
