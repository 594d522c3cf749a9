//! Many locks ended by one command: each as if it were alone, but for what may be done for all of them at once.

use std::io;
use std::sync::{Arc, Mutex};

use lokt_core::decide::Terms;
use lokt_core::name::LockName;
use lokt_named::{Grant, Lokt};
use lokt_sys::disk::Disk;
use lokt_testkit::fault_disk::{Fault, FaultDisk};
use lokt_testkit::hook_disk::HookDisk;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::{MemDisk, PowerCut};

struct World {
    mem: MemDisk,
    machine: Arc<FakeMachine>,
}

/// What the command does.
#[derive(Debug, Clone, Copy)]
enum Way {
    Unlock,
    Prune,
}

impl Way {
    const ALL: [Self; 2] = [Self::Unlock, Self::Prune];

    /// The names that it ended.
    fn go(self, lokt: &Lokt) -> Result<Vec<String>, lokt_sys::error::Error> {
        match self {
            Self::Unlock => lokt.unlock_owner("mine").map(|said| said.value.released),
            Self::Prune => lokt.prune_all().map(|said| said.value.locks),
        }
    }

    fn event(self) -> &'static str {
        match self {
            Self::Unlock => "release",
            Self::Prune => "auto-prune",
        }
    }
}

impl World {
    /// So many locks that are to be ended, and one of somebody else.
    fn with(count: usize, way: Way) -> Self {
        let world = Self { mem: MemDisk::new(), machine: Arc::new(FakeMachine::new()) };
        for n in 0..count {
            world.take("mine", &name(n), 10);
        }
        world.take("other", "theirs", 10_000);
        if matches!(way, Way::Prune) {
            world.machine.advance_secs(11);
        }
        world
    }

    fn lokt(&self, owner: &str, disk: Arc<dyn Disk>) -> Lokt {
        Lokt::with("/root-of-the-test".as_ref(), disk, self.machine.clone(), somebody(owner, 1))
    }

    fn healthy(&self, owner: &str) -> Lokt {
        self.lokt(owner, Arc::new(self.mem.clone()))
    }

    fn take(&self, owner: &str, name: &str, ttl_sec: u64) {
        let terms = Terms { ttl_sec: Some(ttl_sec), reason: None };
        let said = self.healthy(owner).take(&LockName::new(name).expect("a good name"), terms).expect("the disk works");
        assert!(matches!(said.value, Grant::Granted(_)), "{owner} gets {name}");
    }

    fn is_held(&self, name: &str) -> bool {
        self.mem.peek(&format!("locks/{name}.json")).is_some()
    }

    /// The names in the lines of an event, in their order.
    fn told(&self, event: &str) -> Vec<String> {
        let log = self.mem.peek("audit.log").unwrap_or_default();
        let lines = String::from_utf8(log).expect("the log is text");
        let lines = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let of_event = lines.filter(|line| line["event"] == event);
        of_event.map(|line| line["name"].as_str().expect("a name").to_owned()).collect()
    }
}

fn name(n: usize) -> String {
    format!("n{n:04}")
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(name).collect()
}

#[test]
fn many_are_ended_with_few_syncs_and_each_is_told_right_after_it() {
    const COUNT: usize = 300;
    for way in Way::ALL {
        let world = World::with(COUNT, way);
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = calls.clone();
        let hook = move |call: &str, path: &str| -> io::Result<()> {
            seen.lock().expect("nobody panicked").push((call.to_owned(), path.to_owned()));
            Ok(())
        };
        let disk = Arc::new(HookDisk::watched(Arc::new(world.mem.clone()), Arc::new(hook)));
        assert_eq!(way.go(&world.lokt("mine", disk)).expect("the disk works"), names(COUNT), "{way:?}: all of them");
        let calls = calls.lock().expect("nobody panicked").clone();
        let syncs = calls.iter().filter(|(call, _)| call.starts_with("sync")).count();
        assert!(syncs <= 2 * 4, "{way:?}: {syncs} syncs for {COUNT} locks");
        let steps = calls.iter().filter_map(|(call, path)| match call.as_str() {
            "rename" if path.starts_with("locks/") => Some(path.as_str()),
            "append" => Some("told"),
            _ => None,
        });
        let expected: Vec<_> =
            names(COUNT).iter().flat_map(|name| [format!("locks/{name}.json"), "told".into()]).collect();
        assert_eq!(
            steps.collect::<Vec<_>>(),
            expected,
            "{way:?}: audited: no lock is ended before the last one was told of"
        );
        assert_eq!(world.told(way.event()), names(COUNT), "{way:?}: audited");
        assert!(world.is_held("theirs"), "{way:?}: nobody else's");
        assert_eq!(world.mem.below("state/tmp"), Vec::<String>::new(), "{way:?}: nothing is left");
    }
}

#[test]
fn a_command_killed_at_any_call_has_ended_whole_locks_and_misses_at_most_one_line() {
    const COUNT: usize = 4;
    for way in Way::ALL {
        let world = World::with(COUNT, way);
        let counting = Arc::new(FaultDisk::counting(Arc::new(world.mem.clone())));
        way.go(&world.lokt("mine", counting.clone())).expect("nothing goes wrong");
        for at in 0..=counting.calls() {
            for fault in [Fault::DieBefore, Fault::DieAfter, Fault::Errno(5), Fault::Errno(28), Fault::Torn(28)] {
                let context = format!("{way:?}, call {at}, {fault:?}");
                let world = World::with(COUNT, way);
                let disk = Arc::new(FaultDisk::new(Arc::new(world.mem.clone()), at, fault));
                let said = way.go(&world.lokt("mine", disk));
                world.mem.drop_locks();
                let gone: Vec<String> = names(COUNT).into_iter().filter(|name| !world.is_held(name)).collect();
                for name in said.unwrap_or_default() {
                    assert!(gone.contains(&name), "{context}: {name} was said to be ended");
                }
                let told = world.told(way.event());
                let untold = gone.iter().filter(|name| !told.contains(name)).count();
                assert!(untold <= 1, "audited: {context}: {gone:?} are gone, told of {told:?}");
                assert!(told.iter().all(|name| gone.contains(name)), "{context}: {told:?} told, {gone:?} gone");
                assert!(world.is_held("theirs"), "{context}: nobody else's");
                let rest = way.go(&world.healthy("mine")).unwrap_or_else(|error| panic!("{context}: wedged: {error}"));
                assert_eq!(gone.len() + rest.len(), COUNT, "{context}: the next one ends the rest");
            }
        }
    }
}

#[test]
fn what_was_said_to_be_ended_stays_so_when_the_power_goes() {
    for way in Way::ALL {
        for cut in [PowerCut::SyncedOnly, PowerCut::NamesWithoutContents, PowerCut::Everything] {
            let world = World::with(260, way);
            assert_eq!(way.go(&world.healthy("mine")).expect("the disk works").len(), 260);
            world.mem.power_cut(cut);
            let back: Vec<_> = names(260).into_iter().filter(|name| world.is_held(name)).collect();
            assert_eq!(back, Vec::<String>::new(), "{way:?}, {cut:?}: ended holds came back");
        }
    }
}

/// A program that doesn't know the mutex takes one of them over while the batch is under way.
#[test]
fn no_lost_thief_in_the_middle_of_a_batch() {
    for way in Way::ALL {
        let world = World::with(5, way);
        let theirs = world.mem.peek("locks/theirs.json").expect("it is held");
        let (mem, planted) = (world.mem.clone(), theirs.clone());
        let once = Mutex::new(true);
        let hook = move |call: &str, path: &str| -> io::Result<()> {
            if call == "rename" && path == "locks/n0002.json" && std::mem::take(&mut *once.lock().expect("it is whole"))
            {
                mem.plant(path, &planted);
            }
            Ok(())
        };
        let disk = Arc::new(HookDisk::new(Arc::new(world.mem.clone()), Arc::new(hook)));
        let ended = way.go(&world.lokt("mine", disk)).expect("the disk works");
        assert_eq!(ended, ["n0000", "n0001", "n0003", "n0004"], "{way:?}: all but the one that was taken over");
        assert_eq!(world.mem.peek("locks/n0002.json"), Some(theirs), "no-lost-thief: {way:?}");
        assert!(!world.told(way.event()).contains(&name(2)), "{way:?}: audited: nobody ended that");
    }
}

/// Where each lock takes long, as on a slow disk, others get the mutex in between.
#[test]
fn the_mutex_is_not_kept_for_longer_than_a_few_moments() {
    let world = World::with(20, Way::Unlock);
    let (machine, entries) = (world.machine.clone(), Arc::new(Mutex::new(0)));
    let seen = entries.clone();
    let hook = move |call: &str, path: &str| -> io::Result<()> {
        if call == "rename" && path.starts_with("locks/") {
            machine.advance_secs(1);
        }
        // Once for each hold of the mutex, after it.
        if call == "sync_dir" && path == "locks" {
            *seen.lock().expect("it is whole") += 1;
        }
        Ok(())
    };
    let disk = Arc::new(HookDisk::watched(Arc::new(world.mem.clone()), Arc::new(hook)));
    let locks = Lokt::with("/root-of-the-test".as_ref(), disk, world.machine.clone(), somebody("mine", 1));
    assert_eq!(locks.unlock_owner("mine").expect("the disk works").value.released.len(), 20);
    assert!(*entries.lock().expect("it is whole") >= 20, "one second each, so each alone");
}
