//! **no-lost-thief** for what happens between two calls of one command, put there call by call.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::world::{RECORD, World, name, ttl};
use lokt_core::decide::Breaking;
use lokt_core::hold::Hold;
use lokt_named::{Condition, Grant};
use lokt_sys::disk::Disk as _;
use lokt_testkit::hook_disk::{Hook, HookDisk};
use lokt_testkit::mem_disk::PowerCut;

const EIO: i32 = 5;

/// `owner` at work on a disk on which something else happens first.
fn lokt_with(world: &World, owner: &str, hook: Arc<Hook>) -> lokt_named::Lokt {
    world.lokt_on(owner, Arc::new(HookDisk::new(Arc::new(world.mem.clone()), hook)))
}

/// The lock was taken by one process and refreshed by another one of the same owner, who was told so; then the first can't make it
/// durable. What was acknowledged to the second is not the first one's to give back.
#[test]
fn what_was_refreshed_meanwhile_is_not_given_back() {
    let world = Arc::new(World::new());
    let there = world.clone();
    let hook = move |call: &str, path: &str| {
        if (call, path) == ("sync_dir", "locks") {
            there.machine.advance_secs(1);
            there.take("actor", ttl(600));
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(())
    };
    let said = lokt_with(&world, "actor", Arc::new(hook)).take(&name(), ttl(300));
    assert!(said.is_err(), "it can't be made durable");
    assert_eq!(world.stored().map(|hold| hold.owner).as_deref(), Some("actor"), "the refresh was acknowledged");
    let other = world.lokt("other").take(&name(), ttl(60)).expect("the disk works");
    assert!(matches!(other.value, Grant::Denied(_)), "one-holder: it is held");
    world.lokt("actor").unlock(&name(), Breaking::No, Condition::default()).expect("it is actor's");
}

/// A record as a program that doesn't know the mutex writes it.
fn foreign(owner: &str) -> Vec<u8> {
    format!(r#"{{"name":"x","owner":"{owner}","host":"elsewhere","pid":1,"acquired_ts":"2026-01-01T00:00:00Z"}}"#)
        .into_bytes()
}

fn owner_of(hold: Option<Hold>) -> Option<String> {
    hold.map(|hold| hold.owner)
}

/// A program that doesn't know the mutex replaces the record before a refresh swaps its own in, and once more before that is
/// swapped back. The last one stands, whatever was in its place for a moment.
#[test]
fn what_a_foreign_program_wrote_last_stands_after_a_swap_back() {
    for rounds in 1..=3 {
        let world = Arc::new(World::new());
        world.take("actor", ttl(300));
        let (there, swaps) = (world.clone(), AtomicUsize::new(0));
        let hook = move |call: &str, _: &str| {
            if call == "exchange" {
                let swap = swaps.fetch_add(1, Ordering::SeqCst) + 1;
                if swap <= rounds {
                    there.mem.plant(RECORD, &foreign(&format!("foreign{swap}")));
                }
            }
            Ok(())
        };
        let said = lokt_with(&world, "actor", Arc::new(hook)).take(&name(), ttl(600)).expect("the disk works");
        assert!(matches!(said.value, Grant::Denied(_)), "no-lost-thief: {rounds} rounds: {:?}", said.value);
        let last = format!("foreign{rounds}");
        assert_eq!(owner_of(world.stored()), Some(last), "no-lost-thief: {rounds} rounds");
    }
}

/// The log as a power cut leaves it.
fn durable_log(world: &World) -> String {
    world.mem.power_cut(PowerCut::SyncedOnly);
    let files = ["audit.log", "audit.log.1"].map(|file| world.mem.peek(file).unwrap_or_default());
    String::from_utf8(files.concat()).expect("the log is text")
}

/// audited: a break is on the disk before it is answered, also if another process rotates the log before it is synced.
#[test]
fn a_line_that_is_rotated_away_meanwhile_is_synced_all_the_same() {
    let world = Arc::new(World::new());
    world.take("other", ttl(300));
    let there = world.clone();
    let hook = move |call: &str, path: &str| {
        if (call, path) == ("sync", "audit.log") {
            there.mem.rename("audit.log", "audit.log.1")?;
            there.mem.append("audit.log", b"{}\n")?;
        }
        Ok(())
    };
    let lokt = lokt_with(&world, "actor", Arc::new(hook));
    let said = lokt.unlock(&name(), Breaking::Force, Condition::default()).expect("the disk works");
    assert_eq!(said.warnings, []);
    assert!(durable_log(&world).contains("force-break"), "audited: the break was acknowledged");
}

/// audited: the first line of a log asks for no sync, so nobody has synced its name when the first break is answered.
#[test]
fn a_break_is_durable_in_a_log_that_others_began() {
    let world = World::new();
    world.take("other", ttl(300));
    world.lokt("actor").unlock(&name(), Breaking::Force, Condition::default()).expect("the disk works");
    assert!(durable_log(&world).contains("force-break"), "audited: the break was acknowledged");
}

/// audited: what was broken stays broken, also if the new hold has to be given back.
#[test]
fn a_break_is_durable_also_if_what_came_of_it_is_given_back() {
    let world = World::new();
    world.take("other", ttl(10));
    world.machine.advance_secs(11);
    let fails = |call: &str, path: &str| match (call, path) {
        ("sync_dir", "locks") => Err(io::Error::from_raw_os_error(EIO)),
        _ => Ok(()),
    };
    let said = lokt_with(&world, "actor", Arc::new(fails)).take(&name(), ttl(300));
    assert!(said.is_err(), "it can't be made durable");
    assert_eq!(world.stored(), None, "it is given back");
    assert!(durable_log(&world).contains("auto-prune"), "audited: the break happened");
}
