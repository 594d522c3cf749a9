//! **frozen-means-frozen** on a disk that fails: each call of `freeze`, an extension and `unfreeze` fails, tears, dies or loses power
//! once. What was acknowledged is so; what failed left the old or the new.

use std::sync::Arc;

use lokt_core::decide::Terms;
use lokt_core::hold::Hold;
use lokt_core::record::{self, Parsed};
use lokt_named::{End, Freezing, Grant, Lokt};
use lokt_sys::error::Error;
use lokt_testkit::fault_disk::{Fault, FaultDisk};
use lokt_testkit::mem_disk::PowerCut;

use crate::world::{World, name, ttl};

const FREEZE: &str = "freezes/x.json";
const EIO: i32 = 5;
const EINTR: i32 = 4;
const ENOSPC: i32 = 28;

/// What a command said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Frozen,
    Thawed,
    Refused,
    Failed,
}

/// A change of a freeze, always by `actor`, and what there may be afterwards whatever goes wrong.
struct Scenario {
    title: &'static str,
    prepare: fn(&World),
    act: fn(&Lokt) -> Result<Said, Error>,
    /// It was frozen before, and nothing that fails may end that.
    stays: bool,
}

fn freeze(lokt: &Lokt, secs: u64) -> Result<Said, Error> {
    let said = lokt.freezes().freeze(&name(), Terms { reason: Some("incident".into()), ..ttl(secs) })?;
    Ok(if matches!(said.value, Freezing::Frozen(_)) { Said::Frozen } else { Said::Refused })
}

fn unfreeze(lokt: &Lokt, force: bool) -> Result<Said, Error> {
    let said = lokt.freezes().unfreeze(&name(), force)?;
    Ok(if matches!(said.value, End::Ended(_)) { Said::Thawed } else { Said::Refused })
}

fn frozen_by(world: &World, owner: &str, secs: u64) {
    assert_eq!(freeze(&world.lokt(owner), secs).expect("the healthy disk works"), Said::Frozen, "{owner} may freeze");
}

const SCENARIOS: [Scenario; 9] = [
    Scenario { title: "freeze in a new root", prepare: |_| {}, act: |lokt| freeze(lokt, 300), stays: false },
    Scenario {
        title: "freeze a name that is held",
        prepare: |world| {
            world.take("other", ttl(300));
        },
        act: |lokt| freeze(lokt, 300),
        stays: false,
    },
    Scenario {
        title: "freeze again what was frozen before",
        prepare: |world| {
            frozen_by(world, "actor", 300);
            unfreeze(&world.lokt("actor"), false).expect("the healthy disk works");
        },
        act: |lokt| freeze(lokt, 300),
        stays: false,
    },
    Scenario {
        title: "freeze over an expired freeze",
        prepare: |world| {
            frozen_by(world, "other", 10);
            world.machine.advance_secs(11);
        },
        act: |lokt| freeze(lokt, 300),
        stays: false,
    },
    Scenario {
        title: "freeze over another's freeze",
        prepare: |world| frozen_by(world, "other", 900),
        act: |lokt| freeze(lokt, 300),
        stays: true,
    },
    Scenario {
        title: "extend a freeze",
        prepare: |world| {
            frozen_by(world, "actor", 900);
            world.machine.advance_secs(5);
        },
        act: |lokt| freeze(lokt, 600),
        stays: true,
    },
    Scenario {
        title: "unfreeze",
        prepare: |world| frozen_by(world, "actor", 900),
        act: |lokt| unfreeze(lokt, false),
        stays: false,
    },
    Scenario {
        title: "unfreeze by force",
        prepare: |world| frozen_by(world, "other", 900),
        act: |lokt| unfreeze(lokt, true),
        stays: false,
    },
    Scenario {
        title: "unfreeze another's",
        prepare: |world| frozen_by(world, "other", 900),
        act: |lokt| unfreeze(lokt, false),
        stays: true,
    },
];

fn calls_of(scenario: &Scenario) -> usize {
    let world = World::new();
    (scenario.prepare)(&world);
    let disk = Arc::new(FaultDisk::counting(Arc::new(world.mem.clone())));
    (scenario.act)(&world.lokt_on("actor", disk.clone())).expect("nothing goes wrong");
    disk.calls()
}

fn run(world: &World, scenario: &Scenario, at: usize, fault: Fault) -> Said {
    (scenario.prepare)(world);
    let disk = Arc::new(FaultDisk::new(Arc::new(world.mem.clone()), at, fault));
    (scenario.act)(&world.lokt_on("actor", disk)).unwrap_or(Said::Failed)
}

/// The stored freeze. Anything that is neither nothing nor a whole record breaks whole-records.
fn stored(world: &World, context: &str) -> Option<Hold> {
    world.mem.peek(FREEZE).map(|bytes| match record::parse(&bytes) {
        Parsed::Hold(hold) => *hold,
        other => panic!("whole-records: {context}: the freeze is {other:?}, {} bytes", bytes.len()),
    })
}

/// Is somebody who comes now refused, as far as the healthy disk goes?
fn refuses(world: &World, context: &str) -> bool {
    // Whoever holds it still would refuse, too.
    let _ = world.lokt("next").unlock(&name(), lokt_core::decide::Breaking::Force, lokt_named::Condition::default());
    let taken = world.lokt("next").take(&name(), ttl(60));
    let taken = taken.unwrap_or_else(|error| panic!("{context}: wedged: {error}")).value;
    match taken {
        Grant::Granted(_) => {
            let again =
                world.lokt("next").unlock(&name(), lokt_core::decide::Breaking::No, lokt_named::Condition::default());
            again.unwrap_or_else(|error| panic!("{context}: {error}"));
            false
        }
        Grant::Denied(_) => true,
        Grant::Interrupted => panic!("{context}: nobody interrupted it"),
    }
}

/// What was said is so, and what is there is the old or the new.
fn holds(world: &World, scenario: &Scenario, said: Said, context: &str) {
    let is_frozen = refuses(world, context);
    match said {
        Said::Frozen => assert!(is_frozen, "frozen-means-frozen: {context}: it was answered, and isn't so"),
        Said::Thawed => assert!(!is_frozen, "frozen-means-frozen: {context}: an ended freeze came back"),
        Said::Refused | Said::Failed => {}
    }
    assert!(is_frozen || !scenario.stays, "frozen-means-frozen: {context}: what was acknowledged before is lost");
    let expired = |hold: &Hold| scenario.title.contains("expired") && hold.ttl_sec == 10;
    let stored = stored(world, context).filter(|hold| !expired(hold));
    assert_eq!(stored.is_some(), is_frozen, "{context}: frozen by a whole record, or not at all");
    if let Some(freeze) = stored {
        let old_or_new = [(300, "actor"), (600, "actor"), (900, "actor"), (900, "other")];
        let found = (freeze.ttl_sec, freeze.owner.as_str());
        assert!(old_or_new.contains(&found), "{context}: it is the old one or the new one: {found:?}");
        assert_eq!(freeze.token, None, "{context}: a freeze has no token");
        if said == Said::Frozen {
            assert!(matches!(freeze.ttl_sec, 300 | 600), "{context}: what was answered is what is there: {freeze:?}");
        }
    }
    // Whatever is there can be ended, and then it is gone.
    world
        .lokt("boss")
        .freezes()
        .unfreeze(&name(), true)
        .unwrap_or_else(|error| panic!("{context}: can't be ended: {error}"));
    assert!(!refuses(world, context), "{context}: and then locks can be had");
    assert_eq!(world.mem.below("state/tmp"), Vec::<String>::new(), "{context}: temp files are cleaned up");
}

#[test]
fn every_call_of_a_freeze_may_fail_once_and_what_is_said_is_so() {
    for scenario in &SCENARIOS {
        for at in 0..calls_of(scenario) {
            for fault in [Fault::Errno(EIO), Fault::Errno(ENOSPC), Fault::Errno(EINTR), Fault::Torn(ENOSPC)] {
                let context = format!("{}, call {at}, {fault:?}", scenario.title);
                let world = World::new();
                let said = run(&world, scenario, at, fault);
                holds(&world, scenario, said, &context);
            }
        }
    }
}

#[test]
fn a_freeze_killed_at_any_call_leaves_it_frozen_or_not() {
    for scenario in &SCENARIOS {
        for at in 0..=calls_of(scenario) {
            for fault in [Fault::DieBefore, Fault::DieAfter] {
                let context = format!("{}, killed at call {at}, {fault:?}", scenario.title);
                let world = World::new();
                let said = run(&world, scenario, at, fault);
                world.mem.drop_locks();
                holds(&world, scenario, said, &context);
            }
        }
    }
}

#[test]
fn an_acknowledged_freeze_or_unfreeze_survives_a_power_cut_at_any_call() {
    for scenario in &SCENARIOS {
        for at in 0..=calls_of(scenario) {
            for cut in [PowerCut::SyncedOnly, PowerCut::NamesWithoutContents, PowerCut::Everything] {
                let context = format!("{}, power gone at call {at}, {cut:?}", scenario.title);
                let mut world = World::new();
                let said = run(&world, scenario, at, Fault::DieBefore);
                world.mem.power_cut(cut);
                world.machine.reboot();
                world.boot = 2;
                // A freeze that was never answered may be an empty file, which counts as one until it is moved aside.
                if said == Said::Failed
                    && !scenario.stays
                    && world.mem.peek(FREEZE).is_some_and(|bytes| bytes.is_empty())
                {
                    assert!(refuses(&world, &context), "frozen-means-frozen: {context}: what can't be read counts");
                    let force = world.lokt("boss").freezes().unfreeze(&name(), true);
                    force.unwrap_or_else(|error| panic!("{context}: can't be ended: {error}"));
                    assert!(!refuses(&world, &context), "{context}: and then locks can be had");
                    continue;
                }
                holds(&world, scenario, said, &context);
            }
        }
    }
}
