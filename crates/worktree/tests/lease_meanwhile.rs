//! Somebody is stopped between any two calls to the disk, and a thief steals the lease meanwhile: whoever was stopped is refused, or was
//! faster, and the thief's lease stays what it is. No mutex is in anybody's way: these disks have none.

#![expect(clippy::disallowed_methods, reason = "tests make and look at files of their own")]

mod lease_world;

use std::path::Path;
use std::sync::{Arc, Mutex};

use lease_world::{OVER_SECS, World, take, terms};
use lokt_core::hold::Fence;
use lokt_core::lease::session::Session;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::hook_disk::HookDisk;
use lokt_worktree::lease::{Keeping, Leasing, Publishing, Releasing, Worktree};

/// What somebody does who will be stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Deed {
    Acquire,
    Renew,
    Release,
    Publish,
    Break,
}

/// What else happens before the thief comes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Also {
    Nothing,
    /// `rm -rf .jvs/locks`
    Deleted,
    /// `rm -rf .jvs/locks/main.lock.d`
    ChainDeleted,
    /// The chain goes on for so long that it is pruned.
    Pruned,
}

/// What the one who was stopped is told.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    Yes(Option<u64>),
    No,
}

fn perform(deed: Deed, worktree: &Worktree, session: &Session, token: u64, dir: &Path) -> Told {
    let yes = |yes: bool| if yes { Told::Yes(None) } else { Told::No };
    match deed {
        Deed::Acquire => match worktree.acquire(session, &terms(), &mut WaitPolicy::none()).expect("no accident").value
        {
            Leasing::Granted(lease) => Told::Yes(Some(lease.token.get())),
            _ => Told::No,
        },
        Deed::Renew => yes(matches!(worktree.renew(session).expect("no accident").value, Keeping::Renewed(_))),
        Deed::Release => yes(matches!(worktree.release(session).expect("no accident").value, Releasing::Released(_))),
        Deed::Break => yes(matches!(worktree.force_break("test").expect("no accident").value, Releasing::Released(_))),
        Deed::Publish => {
            let published = worktree.publish(token, &dir.join("stale"), &dir.join("target")).expect("no accident");
            yes(matches!(published.value, Publishing::Published { .. }))
        }
    }
}

/// What a thief saw when it had the lease.
struct Theft {
    token: u64,
    target: Option<Vec<u8>>,
    /// The deed was in the chain by then.
    committed: bool,
}

/// Runs `deed`, stopped before its `at`-th call to the disk. False: it made fewer calls.
fn stopped_at(at: usize, deed: Deed, also: Also) -> bool {
    let world = World::new();
    let dir = world.dir.path().to_owned();
    std::fs::write(dir.join("stale"), "of the one who was stopped").expect("temp");
    let (ours, theirs) = (world.session(), world.session());
    let first = world.worktree(world.disk(), "first");
    let granted = if deed == Deed::Acquire { 0 } else { take(&first, &ours) };
    let thief = world.worktree(world.disk(), "thief");
    // How many calls it has made, once it is at it.
    let stolen: Arc<Mutex<(Option<usize>, Option<Theft>)>> = Arc::default();
    let before = links(&world.jvs());
    let hook = {
        let (stolen, machine, thief, theirs) = (stolen.clone(), world.machine.clone(), thief.clone(), theirs.clone());
        let (jvs, dir) = (world.jvs(), dir.clone());
        move |_: &str, _: &str| {
            let mut state = stolen.lock().expect("no panic before");
            state.0 = state.0.map(|calls| calls + 1);
            if state.0 != Some(at) {
                return Ok(());
            }
            let committed = links(&jvs) > before;
            machine.advance_secs(OVER_SECS);
            match also {
                Also::Nothing => {}
                Also::Deleted => std::fs::remove_dir_all(jvs.join("locks")).expect("rm -rf"),
                Also::ChainDeleted => std::fs::remove_dir_all(jvs.join("locks/main.lock.d")).expect("rm -rf"),
                Also::Pruned => {
                    for _ in 0..70 {
                        take(&thief, &theirs);
                        let released = thief.release(&theirs).expect("no accident").value;
                        assert!(matches!(released, Releasing::Released(_)), "{released:?}");
                    }
                }
            }
            // Without a chain the view that is left is nobody's that we know: it is looked at for as long as it may be somebody's.
            if also == Also::ChainDeleted {
                let _ = thief.acquire(&theirs, &terms(), &mut WaitPolicy::none()).expect("no accident");
                machine.advance_secs(OVER_SECS);
            }
            let token = take(&thief, &theirs);
            state.1 = Some(Theft { token, target: std::fs::read(dir.join("target")).ok(), committed });
            Ok(())
        }
    };
    let slow = world.worktree(Arc::new(HookDisk::new(world.disk(), Arc::new(hook))), "first");
    // Opening it looks at the disk, too; what counts is the deed.
    stolen.lock().expect("no panic").0 = Some(0);
    let told = perform(deed, &slow, &ours, granted, &dir);
    let Some(theft) = stolen.lock().expect("no panic").1.take() else { return false };
    let what = format!("{deed:?} stopped before call {at}, {also:?}: {told:?}");
    assert!(theft.token > granted, "{what}: token {} after {granted}", theft.token);
    if deed == Deed::Break {
        // It breaks whatever it finds: nothing, or the thief's.
        return true;
    }
    if !theft.committed {
        assert_eq!(told, Told::No, "{what}");
    }
    // Whoever has given it back is told so, however long that takes; also when what it was read after is gone by then.
    if deed == Deed::Release && theft.committed && matches!(also, Also::Nothing | Also::Pruned) {
        assert_eq!(told, Told::Yes(None), "{what}: it had given it back by then");
    }
    if let Told::Yes(Some(token)) = told {
        assert!(token < theft.token, "{what}: the thief had a lease that was over, with {}", theft.token);
    }
    assert_eq!(std::fs::read(dir.join("target")).ok(), theft.target, "{what}: nothing was published after the theft");
    let kept = thief.renew(&theirs).expect("no accident").value;
    assert!(matches!(&kept, Keeping::Renewed(lease) if lease.token.get() == theft.token), "{what}: {kept:?}");
    assert_eq!(world.view()["fencing_token"], theft.token, "{what}");
    let next = world.session();
    world.machine.advance_secs(OVER_SECS);
    assert!(take(&first, &next) > theft.token, "{what}: and it goes on");
    true
}

fn links(jvs: &Path) -> usize {
    let Ok(names) = std::fs::read_dir(jvs.join("locks/main.lock.d")) else { return 0 };
    let digits = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    names.flatten().filter(|entry| entry.file_name().to_str().is_some_and(digits)).count()
}

fn everywhere(deed: Deed, also: Also) {
    let calls = (1..10_000).take_while(|at| stopped_at(*at, deed, also)).count();
    assert!(calls > 5, "{deed:?}: it was stopped {calls} times");
}

#[test]
fn a_renewer_that_is_stopped_anywhere_is_overtaken() {
    everywhere(Deed::Renew, Also::Nothing);
    everywhere(Deed::Renew, Also::Deleted);
    everywhere(Deed::Renew, Also::ChainDeleted);
    everywhere(Deed::Renew, Also::Pruned);
}

#[test]
fn a_releaser_that_is_stopped_anywhere_ends_nothing_but_its_own() {
    everywhere(Deed::Release, Also::Nothing);
    everywhere(Deed::Release, Also::Deleted);
    everywhere(Deed::Release, Also::ChainDeleted);
    everywhere(Deed::Release, Also::Pruned);
}

#[test]
fn a_publisher_that_is_stopped_anywhere_publishes_nothing_late() {
    everywhere(Deed::Publish, Also::Nothing);
    everywhere(Deed::Publish, Also::Deleted);
    everywhere(Deed::Publish, Also::ChainDeleted);
    everywhere(Deed::Publish, Also::Pruned);
}

#[test]
fn somebody_who_wanted_it_and_was_stopped_anywhere_doesnt_get_it_from_under_another() {
    everywhere(Deed::Acquire, Also::Nothing);
    everywhere(Deed::Acquire, Also::Deleted);
    everywhere(Deed::Acquire, Also::Pruned);
}

#[test]
fn somebody_who_breaks_it_and_was_stopped_anywhere_leaves_a_chain_that_goes_on() {
    everywhere(Deed::Break, Also::Nothing);
    everywhere(Deed::Break, Also::Deleted);
}

#[test]
fn tokens_grow_whatever_is_deleted() {
    let world = World::new();
    let (first, session) = (world.worktree(world.disk(), "first"), world.session());
    let mut last = 0;
    for round in 0..40 {
        let token = take(&first, &session);
        assert!(token > last, "round {round}: {token} after {last}");
        last = token;
        assert!(matches!(first.release(&session).expect("no accident").value, Releasing::Released(_)));
        match round % 4 {
            0 => std::fs::remove_dir_all(world.jvs().join("locks")).expect("rm -rf"),
            1 => std::fs::remove_dir_all(world.jvs().join("locks/main.lock.d")).expect("rm -rf"),
            2 => std::fs::write(world.jvs().join("worktrees/main/fence.json"), "{}").expect("it is there"),
            _ => {}
        }
    }
    assert!(Fence::new(last).is_some());
}
