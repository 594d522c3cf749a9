//! Each disk call of each change fails, tears, dies or loses power once; every promise must hold afterwards.

mod frozen;
mod guards;
mod meanwhile;
mod world;

use std::sync::Arc;

use lokt_core::decide::Breaking;
use lokt_core::hold::Hold;
use lokt_named::{Condition, Grant};
use lokt_testkit::fault_disk::{Fault, FaultDisk};
use lokt_testkit::mem_disk::PowerCut;
use world::{RECORD, SCENARIOS, Said, Scenario, World, name, ttl};

const EIO: i32 = 5;
const EINTR: i32 = 4;
const ENOSPC: i32 = 28;

/// How many disk calls the scenario makes when nothing goes wrong.
fn calls_of(scenario: &Scenario) -> usize {
    let world = World::new();
    (scenario.prepare)(&world);
    let disk = Arc::new(FaultDisk::counting(Arc::new(world.mem.clone())));
    (scenario.act)(&world.lokt_on("actor", disk.clone())).expect("nothing goes wrong");
    disk.calls()
}

/// Runs the scenario with a fault (what is refused must change nothing); gives what the command said and every token that was ever visible.
fn run(world: &World, scenario: &Scenario, at: usize, fault: Fault) -> (Said, u64) {
    (scenario.prepare)(world);
    let (before, record_before) = (visible_token(world), world.mem.peek(RECORD));
    let disk = Arc::new(FaultDisk::new(Arc::new(world.mem.clone()), at, fault));
    let said = (scenario.act)(&world.lokt_on("actor", disk)).unwrap_or(Said::Failed);
    if said == Said::Refused {
        assert_eq!(
            world.mem.peek(RECORD),
            record_before,
            "{}, call {at}, {fault:?}: refused, yet changed",
            scenario.title
        );
    }
    let told = if let Said::Granted { token, .. } = said { token } else { 0 };
    let token = before.max(told).max(visible_token(world));
    (said, token)
}

fn visible_token(world: &World) -> u64 {
    world.mem.peek(RECORD).map_or(0, |bytes| match lokt_core::record::parse(&bytes) {
        lokt_core::record::Parsed::Hold(hold) => hold.token.map_or(0, lokt_core::hold::Fence::get),
        _ => 0,
    })
}

/// Is the command's answer what the disk says?
fn answer_is_true(said: &Said, stored: Option<&Hold>) -> bool {
    match said {
        Said::Granted { lock_id, token } => stored.is_some_and(|hold| {
            hold.lock_id.as_str() == lock_id && hold.token.map(lokt_core::hold::Fence::get) == Some(*token)
        }),
        Said::Ended => stored.is_none(),
        // A freeze that can't be read is a freeze: any lock may be refused. What is refused changes nothing, which is checked apart.
        Said::Refused | Said::Failed => true,
    }
}

/// The next command deals with whatever was left, by itself: the name is never wedged, tokens grow, temp files go.
fn goes_on(world: &World, highest: u64, context: &str) {
    // Whoever is recorded may hold it; force is the user's own way past that, and must always work.
    if world.mem.peek(RECORD).is_some_and(|bytes| !bytes.is_empty()) {
        let forced = world.lokt("next").unlock(&name(), Breaking::Force, Condition::default());
        forced.unwrap_or_else(|error| panic!("{context}: force failed: {error}"));
    }
    let taken = world.lokt("next").take(&name(), ttl(60)).unwrap_or_else(|error| panic!("{context}: wedged: {error}"));
    let Grant::Granted(granted) = taken.value else { panic!("{context}: wedged: {:?}", taken.value) };
    let token = granted.hold.token.expect("every new hold has one").get();
    assert!(token > highest, "token-order: {context}: token {token} after {highest}");
    assert_eq!(world.mem.below("state/tmp"), Vec::<String>::new(), "{context}: temp files are cleaned up");
}

#[test]
fn every_call_may_fail_once_and_the_promises_hold() {
    for scenario in &SCENARIOS {
        for at in 0..calls_of(scenario) {
            for fault in [Fault::Errno(EIO), Fault::Errno(ENOSPC), Fault::Errno(EINTR), Fault::Torn(ENOSPC)] {
                let context = format!("{}, call {at}, {fault:?}", scenario.title);
                let world = World::new();
                let (said, highest) = run(&world, scenario, at, fault);
                // A corrupt record that a failed command left alone is still corrupt.
                if world.mem.peek(RECORD).is_some_and(|bytes| bytes == b"{not json") {
                    assert!(
                        matches!(said, Said::Failed | Said::Refused),
                        "{context}: nothing happened, but said {said:?}"
                    );
                } else {
                    let stored = world.stored();
                    assert!(answer_is_true(&said, stored.as_ref()), "{context}: said {said:?}, stored {stored:?}");
                }
                goes_on(&world, highest, &context);
            }
        }
    }
}

#[test]
fn a_failed_lock_in_a_free_name_leaves_no_hold_behind() {
    for scenario in &SCENARIOS[..2] {
        for at in 0..calls_of(scenario) {
            for errno in [EIO, ENOSPC, EINTR] {
                let world = World::new();
                let (said, _) = run(&world, scenario, at, Fault::Errno(errno));
                if said == Said::Failed {
                    assert_eq!(world.stored(), None, "{}, call {at}: nobody was told, so nobody holds", scenario.title);
                }
            }
        }
    }
}

#[test]
fn a_live_hold_of_another_survives_every_fault_of_those_who_are_refused() {
    for scenario in
        SCENARIOS.iter().filter(|scenario| scenario.title.contains("live hold") && scenario.title.contains("another"))
    {
        for at in 0..calls_of(scenario) {
            for fault in [Fault::Errno(EIO), Fault::Torn(ENOSPC), Fault::DieBefore, Fault::DieAfter] {
                let world = World::new();
                run(&world, scenario, at, fault);
                world.mem.drop_locks();
                let owner = world.stored().map(|hold| hold.owner);
                assert_eq!(owner.as_deref(), Some("other"), "no-lost-thief: {}, call {at}, {fault:?}", scenario.title);
            }
        }
    }
}

#[test]
fn a_process_killed_at_any_call_leaves_nothing_that_the_next_lock_cannot_deal_with() {
    for scenario in &SCENARIOS {
        for at in 0..=calls_of(scenario) {
            for fault in [Fault::DieBefore, Fault::DieAfter] {
                let context = format!("{}, killed at call {at}, {fault:?}", scenario.title);
                let world = World::new();
                let (_, highest) = run(&world, scenario, at, fault);
                world.mem.drop_locks();
                if world.mem.peek(RECORD).is_none_or(|bytes| bytes != b"{not json") {
                    world.stored();
                }
                goes_on(&world, highest, &context);
            }
        }
    }
}

/// What must be true after a power cut during, or after, the scenario.
fn check_after_power_cut(world: &World, said: &Said, context: &str) {
    let stored = world.stored_after_power_cut();
    match said {
        Said::Granted { lock_id, token } if !context.starts_with("bind") => {
            let kept = stored.as_ref().is_some_and(|hold| {
                hold.lock_id.as_str() == lock_id && hold.token.map(lokt_core::hold::Fence::get) == Some(*token)
            });
            assert!(kept, "{context}: an acknowledged hold was lost; there is {stored:?}");
        }
        Said::Ended => assert_eq!(stored, None, "{context}: an ended hold came back"),
        _ => {}
    }
    // What had been acknowledged before the command began, and that the command didn't end, is still there.
    let kept_owner = match context {
        _ if context.starts_with("refresh one's own live") => Some("actor"),
        _ if context.starts_with("lock over another owner's live") => Some("other"),
        _ if context.starts_with("unlock another") => Some("other"),
        _ => None,
    };
    if let Some(owner) = kept_owner {
        assert_eq!(stored.map(|hold| hold.owner).as_deref(), Some(owner), "{context}: an acknowledged hold was lost");
    }
}

#[test]
fn power_may_go_at_any_call() {
    for scenario in &SCENARIOS {
        for at in 0..=calls_of(scenario) {
            for cut in [PowerCut::SyncedOnly, PowerCut::NamesWithoutContents, PowerCut::Everything] {
                let context = format!("{}, power gone at call {at}, {cut:?}", scenario.title);
                let mut world = World::new();
                let (said, highest) = run(&world, scenario, at, Fault::DieBefore);
                world.mem.power_cut(cut);
                world.machine.reboot();
                world.boot = 2;
                if world.mem.peek(RECORD).is_none_or(|bytes| bytes != b"{not json") {
                    check_after_power_cut(&world, &said, &context);
                }
                goes_on(&world, highest, &context);
            }
        }
    }
}

/// A disk that is pulled out and mounted again loses un-synced writes under the same boot id.
#[test]
fn token_order_survives_a_remount_under_the_same_boot_id() {
    for cut in [PowerCut::SyncedOnly, PowerCut::NamesWithoutContents] {
        let world = World::new();
        let mut highest = 0;
        for round in 0..5 {
            for _ in 0..5 {
                let token = world.take("a", ttl(60));
                assert!(token > highest, "token-order: {cut:?}, round {round}: {token} after {highest}");
                highest = token;
                world.lokt("a").unlock(&name(), Breaking::No, Condition::default()).expect("it is ours");
            }
            world.mem.power_cut(cut);
        }
    }
}

/// What can't be understood is moved aside, never lost: whatever fails while it is, and whatever the next command does.
#[test]
fn a_corrupt_record_is_somewhere_after_every_failure() {
    let scenario = SCENARIOS.iter().find(|one| one.title == "lock over a corrupt record").expect("there is one");
    for at in 0..calls_of(scenario) {
        for fault in [Fault::Errno(EIO), Fault::Errno(ENOSPC)] {
            let world = World::new();
            run(&world, scenario, at, fault);
            world.mem.drop_locks();
            goes_on(&world, 0, &format!("call {at}, {fault:?}"));
            let kept = world.mem.below("state/aside");
            let found = kept.iter().any(|path| world.mem.peek(path).as_deref() == Some(b"{not json"));
            assert!(found, "call {at}, {fault:?}: the corrupt record is lost; kept are {kept:?}");
        }
    }
}

/// audited: whatever fails, the log's last word about the name is what is stored.
#[test]
fn a_hold_that_is_given_back_is_released_in_the_log_too() {
    let scenario = &SCENARIOS[0];
    for at in 0..calls_of(scenario) {
        let world = World::new();
        run(&world, scenario, at, Fault::Errno(EIO));
        let log = String::from_utf8(world.mem.peek("audit.log").unwrap_or_default()).expect("the log is text");
        let acquired = log.matches("\"event\":\"acquire\"").count();
        let released = log.matches("\"event\":\"release\"").count();
        let held = usize::from(world.stored().is_some());
        // The call that failed may have been the line itself.
        assert!(acquired == released + held || acquired == 0, "audited: call {at}: {held} held, log: {log}");
    }
}

/// audited: a hold that was broken is named in the log, also where the new one then failed.
#[test]
fn what_was_broken_is_in_the_log_even_if_nothing_came_of_it() {
    for (title, event) in [
        ("lock over another owner's expired hold", "\"auto-prune\""),
        ("lock over a corrupt record", "\"corrupt-break\""),
    ] {
        let scenario = SCENARIOS.iter().find(|one| one.title == title).expect("there is one");
        for at in 0..calls_of(scenario) {
            let world = World::new();
            let (said, _) = run(&world, scenario, at, Fault::Errno(EIO));
            let log = String::from_utf8(world.mem.peek("audit.log").unwrap_or_default()).expect("the log is text");
            let gone = world.mem.peek(RECORD).is_none();
            assert!(said != Said::Failed || !gone || log.contains(event), "audited: {title}, call {at}: {log}");
        }
    }
}
