//! **no-clock-trust**: a machine that sleeps stops a guard and its lease alike. What only an owner holds goes on ageing.

use std::sync::Arc;

use lokt_core::decide::Terms;
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;
use lokt_named::{Grant, Guarded, Guarding, Lokt};
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::MemDisk;

const HOUR: u64 = 3_600;

struct World {
    disk: MemDisk,
    machine: Arc<FakeMachine>,
}

impl World {
    fn new() -> Self {
        let machine = FakeMachine::new();
        // Everyone of `somebody` is this process, and it runs.
        machine.start_process(4242, 7);
        Self { disk: MemDisk::new(), machine: Arc::new(machine) }
    }

    fn lokt(&self, owner: &str) -> Lokt {
        let disk = Arc::new(self.disk.clone());
        Lokt::with("/root-of-the-test".as_ref(), disk, self.machine.clone(), somebody(owner, 1))
    }

    /// A guard's hold, if it is granted.
    fn guard(&self, owner: &str) -> Option<Box<Guarded>> {
        let terms = Terms { ttl_sec: Some(10), reason: None };
        let guarding = self.lokt(owner).guard(&[name()], &terms, &InheritedHolds::default(), &mut WaitPolicy::none());
        match guarding.expect("the disk works").value {
            Guarding::Granted(guarded) => Some(guarded),
            Guarding::Denied { .. } | Guarding::Interrupted => None,
        }
    }

    /// An owner's hold, if it is granted.
    fn lock(&self, owner: &str) -> bool {
        let said = self.lokt(owner).take(&name(), Terms { ttl_sec: Some(10), reason: None });
        matches!(said.expect("the disk works").value, Grant::Granted(_))
    }

    fn is_live(&self) -> bool {
        let entry = self.lokt("looker").inspect().entry(&name()).expect("the disk works");
        entry.is_some_and(|entry| entry.is_live())
    }
}

fn name() -> LockName {
    LockName::new("x").expect("a good name")
}

#[test]
fn no_clock_trust_an_hour_of_sleep_doesnt_end_a_guards_hold() {
    let world = World::new();
    let guarded = world.guard("alice").expect("it is free");
    world.machine.suspend_secs(HOUR);
    assert!(world.is_live(), "the guard couldn't renew either while the machine slept");
    assert!(world.guard("bob").is_none(), "another guard is refused");
    assert!(!world.lock("bob"), "and so is another owner");
    world.machine.advance_secs(9);
    assert!(world.guard("bob").is_none(), "nine seconds awake are less than the lease of ten");
    world.machine.advance_secs(2);
    assert!(!world.is_live(), "a guard that is awake and doesn't renew loses it");
    assert!(world.lock("bob"), "to the next one who asks");
    drop(guarded);
    assert!(world.is_live(), "and gives nothing back that isn't its own any more");
}

#[test]
fn no_clock_trust_an_hour_of_sleep_ends_an_owners_hold() {
    let world = World::new();
    assert!(world.lock("alice"), "it is free");
    assert!(!world.lock("bob"), "it is alice's");
    world.machine.suspend_secs(HOUR);
    assert!(!world.is_live(), "a lease that nobody renews runs on");
    assert!(world.guard("bob").is_some(), "and it is free afterwards");
}

#[test]
fn no_clock_trust_of_a_hold_with_both_parts_sleep_ends_the_owners() {
    let world = World::new();
    let guarded = world.guard("alice").expect("it is free");
    assert!(world.lock("alice"), "a lock of the same owner joins it");
    world.machine.suspend_secs(HOUR);
    assert!(world.guard("bob").is_none(), "the guard's part goes on");
    drop(guarded);
    assert!(!world.is_live(), "the owner's part was over when the guard's ended");
    assert!(world.lock("bob"), "so it is free");
}
