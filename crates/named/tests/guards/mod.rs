//! Each disk call of each thing that a guard does fails, tears, dies or loses power once: taking, waiting, leaving the line, renewing,
//! giving back. The promises hold, and the next guard enters by itself: nothing that failed counts as alive.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use lokt_core::decide::{Breaking, Terms};
use lokt_core::guard::Outcome;
use lokt_core::hold::{Fence, Hold, Identity, PartKind};
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;
use lokt_core::time::Moment;
use lokt_named::{Condition, Guarded, Guarding, Held, Lokt};
use lokt_sys::disk::Disk;
use lokt_sys::machine::{Machine, ProcessStat};
use lokt_sys::wait_policy::{Interrupt, WaitPolicy, Waiting};
use lokt_sys::wakeup::Wakeup;
use lokt_testkit::fault_disk::{Fault, FaultDisk};
use lokt_testkit::held::held as try_hold;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::PowerCut;

use crate::world::{World, name, ttl};
use crate::{EINTR, EIO, ENOSPC};

const ACTOR: i64 = 100;
const OTHER: i64 = 200;
const NEXT: i64 = 300;
/// The lease that a waiter sees the end of.
const SHORT_SEC: u64 = 30;

/// A machine on which every look at the clock takes a second: whoever waits has waited soon.
struct Ticking(Arc<FakeMachine>);

impl Machine for Ticking {
    fn now(&self) -> Moment {
        self.0.advance_secs(1);
        self.0.now()
    }

    fn random(&self) -> std::io::Result<u128> {
        self.0.random()
    }

    fn process(&self, pid: i64) -> Option<ProcessStat> {
        self.0.process(pid)
    }
}

/// An alarm that is always looked at.
struct Insistent {
    bell: Wakeup,
    goes_off: bool,
}

impl Interrupt for Insistent {
    fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn is_raised(&mut self) -> bool {
        self.goes_off
    }
}

fn process_of(world: &World, owner: &str, pid: i64, disk: Arc<dyn Disk>, machine: Arc<dyn Machine>) -> Lokt {
    world.machine.start_process(pid, 7);
    let me = Identity { pid, pid_start: 7, ..somebody(owner, world.boot) };
    Lokt::with("/root-of-the-test".as_ref(), disk, machine, me)
}

fn healthy(world: &World, owner: &str, pid: i64) -> Lokt {
    process_of(world, owner, pid, Arc::new(world.mem.clone()), world.machine.clone())
}

/// What the actor has in its hand.
enum Hand {
    Held(Box<Held>),
    Guarded(Box<Guarded>),
}

impl Hand {
    fn hold(&self) -> &Hold {
        match self {
            Self::Held(held) => held.hold(),
            Self::Guarded(guarded) => &guarded.holds()[0].1,
        }
    }
}

/// What the actor was told.
enum Told {
    Granted(Hand),
    Renewed(Held),
    NotRenewed(Held),
    Released,
    NotReleased,
    Refused,
    Failed,
}

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Granted(_) => "granted",
            Self::Renewed(_) => "renewed",
            Self::NotRenewed(_) => "not renewed",
            Self::Released => "released",
            Self::NotReleased => "not released",
            Self::Refused => "refused",
            Self::Failed => "failed",
        })
    }
}

/// Everybody at one moment.
struct Stage<'a> {
    world: &'a World,
    actor: Lokt,
    mine: Option<Held>,
    other: Option<Box<Guarded>>,
}

/// Something that a guard does.
struct Deed {
    title: &'static str,
    /// What others have done before.
    prepare: fn(&World) -> Option<Box<Guarded>>,
    /// What the actor has done before, when nothing went wrong yet.
    first: fn(&World, &Lokt) -> Option<Held>,
    act: fn(&mut Stage<'_>) -> Told,
    /// The actor's owner has a `lock` too, which goes on whatever becomes of the guard.
    owner_part: bool,
}

fn names() -> [LockName; 1] {
    [name()]
}

fn owned(lokt: &Lokt, names: &[LockName], terms: &Terms, patience: &mut WaitPolicy<'_>) -> Told {
    match lokt.guard(names, terms, &InheritedHolds::default(), patience).map(|said| said.value) {
        Ok(Guarding::Granted(guarded)) => Told::Granted(Hand::Guarded(guarded)),
        Ok(Guarding::Denied { .. } | Guarding::Interrupted) => Told::Refused,
        Err(_) => Told::Failed,
    }
}

fn take(stage: &mut Stage<'_>) -> Told {
    match try_hold(&stage.actor, "x", &Terms::default()) {
        Ok(Some(held)) => Told::Granted(Hand::Held(Box::new(held))),
        Ok(None) => Told::Refused,
        Err(_) => Told::Failed,
    }
}

/// Waits in line; the other gives it back meanwhile if `frees`.
fn wait(stage: &mut Stage<'_>, timeout_sec: u64, frees: bool, goes_off: bool) -> Told {
    let bell = Wakeup::new().expect("there are descriptors");
    bell.rope().ring();
    let mut alarm = Insistent { bell, goes_off };
    let (mem, other) = (stage.world.mem.clone(), &mut stage.other);
    let mut tell = |_: &Waiting<'_>| {
        assert_eq!(mem.below("state/line/x").len(), 1, "who waits is in line");
        if frees {
            drop(other.take());
        }
    };
    let timeout = Duration::from_secs(timeout_sec).into();
    let mut patience = WaitPolicy { timeout, alarm: Some(&mut alarm), tell: Some(&mut tell) };
    owned(&stage.actor, &names(), &Terms::default(), &mut patience)
}

fn nobody(_: &World) -> Option<Box<Guarded>> {
    None
}

/// Another guard holds it.
fn another(world: &World) -> Box<Guarded> {
    match owned(&healthy(world, "other", OTHER), &names(), &ttl(SHORT_SEC), &mut WaitPolicy::none()) {
        Told::Granted(Hand::Guarded(guarded)) => guarded,
        told => panic!("the healthy disk works, but it was {told:?}"),
    }
}

fn nothing(_: &World, _: &Lokt) -> Option<Held> {
    None
}

fn held(actor: &Lokt) -> Held {
    try_hold(actor, "x", &ttl(3600)).expect("the healthy disk works").expect("it is free")
}

/// The actor's owner locks it, from the command line of another terminal.
fn lock(world: &World) {
    healthy(world, "actor", OTHER).take(&name(), ttl(7200)).expect("the healthy disk works");
}

fn renew(stage: &mut Stage<'_>) -> Told {
    stage.world.machine.advance_secs(5);
    let held = stage.mine.take().expect("it was taken first");
    match held.renew() {
        Outcome::Kept { .. } => Told::Renewed(held),
        Outcome::Failed(_) => Told::NotRenewed(held),
        Outcome::Lost(holder) => panic!("nobody took it, but it is lost to {holder:?}"),
    }
}

fn release(stage: &mut Stage<'_>) -> Told {
    match stage.mine.take().expect("it was taken first").release() {
        Ok(()) => Told::Released,
        Err(lokt_named::NotReleased::Failed(_)) => Told::NotReleased,
        Err(lokt_named::NotReleased::Lost(lost)) => panic!("nobody took it, but it is lost to {lost:?}"),
    }
}

const DEEDS: [Deed; 16] = [
    Deed { title: "take in a new root", prepare: nobody, first: nothing, act: take, owner_part: false },
    Deed {
        title: "take a name that was used before",
        prepare: |world| {
            drop(another(world));
            None
        },
        first: nothing,
        act: take,
        owner_part: false,
    },
    Deed {
        title: "take from a guard that was killed",
        prepare: |world| {
            std::mem::forget(another(world));
            world.mem.drop_locks();
            world.machine.end_process(OTHER);
            None
        },
        first: nothing,
        act: take,
        owner_part: false,
    },
    Deed {
        title: "take from a guard whose lease is over",
        prepare: |world| {
            let other = another(world);
            world.machine.advance_secs(SHORT_SEC + 1);
            Some(other)
        },
        first: nothing,
        act: take,
        owner_part: false,
    },
    Deed {
        title: "take what another has",
        prepare: |world| Some(another(world)),
        first: nothing,
        act: take,
        owner_part: false,
    },
    Deed {
        title: "take two names at once",
        prepare: nobody,
        first: nothing,
        act: |stage| {
            let names = [name(), LockName::new("y").expect("a good name")];
            owned(&stage.actor, &names, &Terms::default(), &mut WaitPolicy::none())
        },
        owner_part: false,
    },
    Deed {
        title: "take two names of which another has one",
        prepare: |world| Some(another(world)),
        first: nothing,
        act: |stage| {
            let names = [LockName::new("a").expect("a good name"), name()];
            owned(&stage.actor, &names, &Terms::default(), &mut WaitPolicy::none())
        },
        owner_part: false,
    },
    Deed {
        title: "join one's own lock",
        prepare: |world| {
            lock(world);
            None
        },
        first: nothing,
        act: take,
        owner_part: true,
    },
    Deed {
        title: "wait until it is given back",
        prepare: |world| Some(another(world)),
        first: nothing,
        act: |stage| wait(stage, 3600, true, false),
        owner_part: false,
    },
    Deed {
        title: "wait until a lease is over",
        prepare: |world| Some(another(world)),
        first: nothing,
        act: |stage| wait(stage, 3600, false, false),
        owner_part: false,
    },
    Deed {
        title: "wait until patience is over",
        prepare: |world| Some(another(world)),
        first: nothing,
        act: |stage| wait(stage, 15, false, false),
        owner_part: false,
    },
    Deed {
        title: "leave the line",
        prepare: |world| Some(another(world)),
        first: nothing,
        act: |stage| wait(stage, 3600, false, true),
        owner_part: false,
    },
    Deed { title: "renew", prepare: nobody, first: |_, actor| Some(held(actor)), act: renew, owner_part: false },
    Deed {
        title: "renew beside an owner part",
        prepare: nobody,
        first: |world, actor| {
            let mine = held(actor);
            lock(world);
            Some(mine)
        },
        act: renew,
        owner_part: true,
    },
    Deed { title: "release", prepare: nobody, first: |_, actor| Some(held(actor)), act: release, owner_part: false },
    Deed {
        title: "release beside an owner part",
        prepare: nobody,
        first: |world, actor| {
            let mine = held(actor);
            lock(world);
            Some(mine)
        },
        act: release,
        owner_part: true,
    },
];

/// Everybody before the deed; with the number of disk calls that the actor has made by then.
fn stage<'a>(world: &'a World, deed: &Deed, disk: &Arc<FaultDisk>) -> Stage<'a> {
    let machine: Arc<dyn Machine> = if deed.title.contains("line") || deed.title.starts_with("wait") {
        Arc::new(Ticking(world.machine.clone()))
    } else {
        world.machine.clone()
    };
    let other = (deed.prepare)(world);
    let actor = process_of(world, "actor", ACTOR, disk.clone(), machine);
    let mine = (deed.first)(world, &actor);
    Stage { world, actor, mine, other }
}

/// The disk calls of the deed when nothing goes wrong.
fn calls_of(deed: &Deed) -> std::ops::Range<usize> {
    let world = World::new();
    let disk = Arc::new(FaultDisk::counting(Arc::new(world.mem.clone())));
    let mut stage = stage(&world, deed, &disk);
    let before = disk.calls();
    let told = (deed.act)(&mut stage);
    let after = disk.calls();
    let expected = match deed.title {
        title if title.contains("another has") || title == "leave the line" || title.contains("patience") => "refused",
        title if title.starts_with("renew") => "renewed",
        title if title.starts_with("release") => "released",
        _ => "granted",
    };
    assert_eq!(format!("{told:?}"), expected, "{}: nothing goes wrong", deed.title);
    before..after
}

/// The highest token that is in the record.
fn visible_token(world: &World) -> u64 {
    world.stored_after_power_cut().and_then(|hold| hold.token).map_or(0, Fence::get)
}

/// Runs the deed with a fault; gives everybody afterwards, what the actor was told, and the highest token that anybody saw.
fn run<'a>(world: &'a World, deed: &Deed, at: usize, fault: Fault) -> (Stage<'a>, Told, u64) {
    let disk = Arc::new(FaultDisk::new(Arc::new(world.mem.clone()), at, fault));
    let mut stage = stage(world, deed, &disk);
    let before = visible_token(world);
    let told = (deed.act)(&mut stage);
    let given = match &told {
        Told::Granted(hand) => hand.hold().token.map_or(0, Fence::get),
        _ => 0,
    };
    let highest = before.max(given).max(visible_token(world));
    (stage, told, highest)
}

/// Nobody but the holder gets it.
#[track_caller]
fn is_held(world: &World, context: &str) {
    let tried = try_hold(&healthy(world, "next", NEXT), "x", &Terms::default());
    assert!(matches!(tried, Ok(None)), "one-holder: {context}: it is held, but {tried:?}");
}

/// The next guard enters, by itself, under a greater token; then nothing is left.
#[track_caller]
fn goes_on(world: &World, deed: &Deed, highest: u64, context: &str) {
    if deed.owner_part {
        let stored = world.stored().unwrap_or_else(|| panic!("{context}: the owner's lock is gone"));
        assert!(
            stored.has(PartKind::Owner) && stored.owner == "actor",
            "{context}: the owner's lock goes on: {stored:?}"
        );
        is_held(world, context);
        let ended = healthy(world, "actor", NEXT).unlock(&name(), Breaking::No, Condition::default());
        assert!(ended.is_ok(), "{context}: and ends by its unlock");
    }
    for name in ["a", "x", "y"] {
        let held = try_hold(&healthy(world, "next", NEXT), name, &Terms::default());
        let held = held.unwrap_or_else(|error| panic!("crash-frees: {context}: the next one enters {name}: {error}"));
        let held = held.unwrap_or_else(|| panic!("crash-frees: {context}: the next one enters {name}"));
        assert!(held.token().get() > highest, "token-order: {context}: token {} after {highest}", held.token());
        held.release().unwrap_or_else(|error| panic!("{context}: the next one gives {name} back: {error}"));
    }
    for dir in ["state/tmp", "state/line"] {
        assert_eq!(world.mem.below(dir), Vec::<String>::new(), "{context}: nothing is left in {dir}");
    }
    for pulse in world.mem.below("state/held") {
        let probe = world.mem.probe(&pulse).expect("a healthy disk").expect("it is there");
        assert!(!probe.locked, "{context}: nobody keeps {pulse}");
    }
    assert_eq!(world.mem.below("locks"), Vec::<String>::new(), "{context}: nobody holds anything");
}

#[test]
fn every_call_of_a_guard_may_fail_once_and_the_next_one_enters() {
    for deed in &DEEDS {
        for at in calls_of(deed) {
            for fault in [Fault::Errno(EIO), Fault::Errno(ENOSPC), Fault::Errno(EINTR), Fault::Torn(ENOSPC)] {
                let world = World::new();
                let (stage, told, highest) = run(&world, deed, at, fault);
                let context = format!("{}, call {at}, {fault:?}, {told:?}", deed.title);
                let stored = world.stored();
                match told {
                    Told::Granted(hand) => {
                        if let (Hand::Guarded(guarded), true) = (&hand, deed.title.contains("two names")) {
                            assert_eq!(guarded.holds().len(), 2, "{context}: all or none");
                        }
                        let (hold, stored) = (hand.hold(), stored.as_ref());
                        let same = stored.is_some_and(|stored| {
                            (&stored.lock_id, stored.token, stored.pulse) == (&hold.lock_id, hold.token, hold.pulse)
                        });
                        assert!(same, "{context}: what was granted is stored, not {stored:?}");
                        is_held(&world, &context);
                        drop(hand);
                    }
                    Told::Renewed(held) | Told::NotRenewed(held) => {
                        assert!(held.check().is_ok(), "{context}: it is still held");
                        is_held(&world, &context);
                        let released = held.release();
                        released.unwrap_or_else(|error| panic!("{context}: it can be given back: {error}"));
                    }
                    Told::Released if !deed.owner_part => assert_eq!(stored, None, "{context}: it is given back"),
                    Told::Refused | Told::Failed if stage.other.is_some() && !deed.title.contains("over") => {
                        let owner = stored.map(|hold| hold.owner);
                        assert_eq!(owner.as_deref(), Some("other"), "no-lost-thief: {context}: the other has it");
                        is_held(&world, &context);
                    }
                    Told::Released | Told::NotReleased | Told::Refused | Told::Failed => {}
                }
                drop(stage);
                // The actor still runs: what it couldn't do must not count as its hold.
                goes_on(&world, deed, highest, &context);
            }
        }
    }
}

#[test]
fn a_guard_killed_at_any_call_lets_the_next_one_in() {
    for deed in &DEEDS {
        let calls = calls_of(deed);
        for at in calls.start..=calls.end {
            for fault in [Fault::DieBefore, Fault::DieAfter] {
                let world = World::new();
                let (stage, told, highest) = run(&world, deed, at, fault);
                let context = format!("{}, killed at call {at}, {fault:?}, {told:?}", deed.title);
                // Nothing reaches the disk any more: this is the end of a process, not a release.
                drop(told);
                world.machine.end_process(ACTOR);
                world.stored();
                drop(stage);
                goes_on(&world, deed, highest, &context);
            }
        }
    }
}

#[test]
fn power_may_go_at_any_call_of_a_guard() {
    for deed in &DEEDS {
        let calls = calls_of(deed);
        for at in calls.start..=calls.end {
            for cut in [PowerCut::SyncedOnly, PowerCut::NamesWithoutContents, PowerCut::Everything] {
                let mut world = World::new();
                let (stage, told, highest) = run(&world, deed, at, Fault::DieBefore);
                let context = format!("{}, power gone at call {at}, {cut:?}, {told:?}", deed.title);
                drop(told);
                // The others have no time to give anything back.
                std::mem::forget(stage.other);
                world.mem.power_cut(cut);
                world.machine.reboot();
                world.boot = 2;
                goes_on(&world, deed, highest, &context);
            }
        }
    }
}
