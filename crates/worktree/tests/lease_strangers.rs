//! Links that don't belong to a chain, and links of it that were deleted: copies of other chains, ghosts, and what somebody did by hand.

#![expect(clippy::disallowed_methods, reason = "tests make and look at files of their own")]

mod lease_world;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lease_world::{OVER_SECS, World, attempt, give_back, take};
use lokt_core::lease::session::Session;
use lokt_core::name::LockName;
use lokt_sys::os_disk::OsDisk;
use lokt_testkit::hook_disk::{Hook, HookDisk};
use lokt_testkit::machine::somebody;
use lokt_worktree::lease::audit::begin_anew;
use lokt_worktree::lease::{Keeping, Leasing, Releasing, Worktree};
use lokt_worktree::repo::Repository;

#[track_caller]
fn keeps(worktree: &Worktree, session: &Session, context: &str) {
    let kept = worktree.renew(session).expect("no accident").value;
    assert!(matches!(kept, Keeping::Renewed(_)), "{context}: {kept:?}");
}

fn slot(world: &World, number: u64) -> PathBuf {
    world.jvs().join(format!("locks/main.lock.d/{number:020}"))
}

/// All numbers that have a link, of whatever chain.
fn numbers(world: &World) -> Vec<u64> {
    let names = fs::read_dir(world.jvs().join("locks/main.lock.d")).expect("a chain");
    let mut numbers: Vec<u64> =
        names.filter_map(|name| name.expect("a name").file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// A link as one of another chain would be.
fn stranger(world: &World, number: u64) -> String {
    let link = fs::read_to_string(slot(world, number)).expect("it is there");
    let base = fs::read(world.jvs().join("locks/main.lock.d/base")).expect("it is there");
    let base: serde_json::Value = serde_json::from_slice(&base).expect("it is JSON");
    let another = link.replace(base["chain"].as_str().expect("it has an id"), &"a".repeat(32));
    assert_ne!(another, link, "it says of which chain it is");
    another
}

/// A worktree that somebody has, and a link of another chain.
fn held() -> (World, Worktree, Session, String) {
    let world = World::new();
    let (main, session) = (world.worktree(world.disk(), "first"), world.session());
    let last = take(&main, &session);
    let another = stranger(&world, last);
    (world, main, session, another)
}

/// Does `then`, once, right after a link was added.
fn after_the_link(then: impl Fn() + Send + Sync + 'static) -> Arc<Hook> {
    let (linked, done) = (AtomicBool::new(false), AtomicBool::new(false));
    Arc::new(move |call: &str, path: &str| {
        if linked.load(Ordering::SeqCst) && !done.swap(true, Ordering::SeqCst) {
            then();
        }
        if call == "unnamed_link" && path.contains("main.lock.d") {
            linked.store(true, Ordering::SeqCst);
        }
        Ok(())
    })
}

/// A copy of another worktree's chain was put into this one, in part.
#[test]
fn a_link_of_another_chain_somewhere_above_ends_no_lease() {
    for gap in 2..=6 {
        let (world, main, session, another) = held();
        give_back(&main, &session);
        // The grant was the first one, the release the second.
        fs::write(slot(&world, 2 + gap), another).expect("temp");
        let token = take(&main, &session);
        assert!(token > 1, "token-order: {token}");
        for round in 0..8 {
            let status = main.status(Some(&session)).expect("no accident");
            assert!(status.mine && status.lives, "{gap}, round {round}: it is still its holder's: {status:?}");
            keeps(&main, &session, &format!("{gap}, round {round}"));
        }
        assert!(matches!(attempt(&main, &world.session()), Leasing::Denied(_)), "{gap}: one-holder");
        give_back(&main, &session);
        assert!(take(&main, &world.session()) > token, "{gap}: and it goes on");
    }
}

#[test]
fn links_of_another_chain_that_come_again_and_again_end_no_lease() {
    let (world, main, session, another) = held();
    let mut last = 1;
    for round in 0..40 {
        for gap in [3, 5, 1023, 1024, 1025, 5000] {
            fs::write(slot(&world, numbers(&world).last().expect("one") + gap), &another).expect("temp");
        }
        keeps(&main, &session, &format!("round {round}"));
        assert!(matches!(attempt(&main, &world.session()), Leasing::Denied(_)), "one-holder: round {round}");
        if round % 5 == 4 {
            give_back(&main, &session);
            let token = take(&main, &session);
            assert!(token > last, "token-order: {token} after {last}");
            last = token;
        }
    }
}

/// One is the next link, so that somebody unknown holds the lease for a while; another one begins the next block.
#[test]
fn who_overtakes_a_link_of_another_chain_does_not_land_on_the_next() {
    let (world, main, _, another) = held();
    for number in [2, 1025] {
        fs::write(slot(&world, number), &another).expect("temp");
    }
    let next = world.session();
    assert!(matches!(attempt(&main, &next), Leasing::Denied(_)), "somebody may hold it");
    world.machine.advance_secs(OVER_SECS);
    let told = attempt(&main, &next);
    assert!(matches!(told, Leasing::Granted(_)), "it was looked at for long enough: {told:?}");

    let (world, main, _, another) = held();
    for number in [2, 1025] {
        fs::write(slot(&world, number), &another).expect("temp");
    }
    let told = main.force_break("it can't be read").expect("no accident").value;
    assert!(matches!(told, Releasing::Released(_)), "{told:?}");
    let told = attempt(&main, &world.session());
    assert!(matches!(told, Leasing::Granted(_)), "it was broken: {told:?}");
}

#[test]
fn who_follows_another_tools_token_does_not_land_on_a_link_of_another_chain() {
    let (world, main, session, another) = held();
    give_back(&main, &session);
    fs::write(slot(&world, 1025), &another).expect("temp");
    let times = r#""last_renewed_at":"2026-01-01T12:00:00Z","lease_duration_ms":30000"#;
    let record = format!(r#"{{"lock_id":"theirs",{times},"fencing_token":41}}"#);
    fs::write(world.jvs().join("locks/main.lock"), record).expect("it is ours");
    assert!(matches!(attempt(&main, &session), Leasing::Denied(_)), "it is the other tool's");
    world.machine.advance_secs(OVER_SECS);
    let told = attempt(&main, &session);
    assert!(matches!(told, Leasing::Granted(_)), "nobody holds it: {told:?}");
}

/// What goes on above numbers that nobody ever reaches isn't noted any more.
#[test]
fn a_link_of_another_chain_that_is_far_away_is_not_followed() {
    for far in [100, (1_u64 << 52) - 1, (1 << 53) - 1] {
        let (world, main, session, another) = held();
        give_back(&main, &session);
        fs::write(slot(&world, far), &another).expect("temp");
        let token = take(&main, &session);
        assert!(token < 1 << 32, "{far}: {token}");
        fs::remove_file(slot(&world, token)).expect("rm -rf has begun");
        fs::remove_file(world.jvs().join("locks/main.lock")).expect("rm -rf has begun");
        let told = attempt(&main, &world.session());
        assert!(matches!(told, Leasing::Denied(_)), "{far}: its last link is missing, and that is known: {told:?}");
    }
}

#[test]
fn pruning_leaves_a_chain_its_links_whatever_lies_above() {
    let (world, main, session, another) = held();
    while numbers(&world).len() < 127 {
        keeps(&main, &session, "it is its holder's");
    }
    let jvs = world.jvs();
    let plants = after_the_link(move || {
        for number in 500..570_u64 {
            fs::write(jvs.join(format!("locks/main.lock.d/{number:020}")), &another).expect("temp");
        }
    });
    let slow = world.worktree(Arc::new(HookDisk::new(world.disk(), plants)), "first");
    keeps(&slow, &session, "they come after the link, and before old ones are removed");
    let left = numbers(&world);
    assert!(!left.contains(&64) && left.contains(&65), "old ones are removed: {left:?}");
    let status = main.status(Some(&session)).expect("no accident");
    assert!(status.mine && status.lives, "{status:?}; left: {left:?}");
    keeps(&main, &session, "and goes on");
}

/// A chain that is free, pruned by a command that adds nothing.
#[test]
fn pruning_leaves_a_free_chain_its_links_whatever_lies_above() {
    let (world, main, session, another) = held();
    while numbers(&world).len() < 69 {
        keeps(&main, &session, "it is its holder's");
    }
    give_back(&main, &session);
    for number in 500..570_u64 {
        fs::write(slot(&world, number), &another).expect("temp");
    }
    let told = main.force_break("nobody has it").expect("no accident").value;
    assert!(matches!(told, Releasing::Denied(_)), "{told:?}");
    let told = attempt(&main, &session);
    assert!(matches!(told, Leasing::Granted(_)), "nobody holds it: {told:?}");
}

/// The link is in the log by then, but not in the chain any more.
#[test]
fn a_release_whose_link_was_deleted_is_no_release() {
    let (world, main, session, _) = held();
    keeps(&main, &session, "it is its holder's");
    let (other, links) = (world.worktree(world.disk(), "other"), [slot(&world, 3), slot(&world, 2)]);
    let deletes = after_the_link(move || {
        let told = other.force_break("it only writes the log").expect("no accident").value;
        assert!(matches!(told, Releasing::Denied(_)), "nobody holds it at that moment: {told:?}");
        for link in &links {
            fs::remove_file(link).expect("it is there");
        }
    });
    let slow = world.worktree(Arc::new(HookDisk::new(world.disk(), deletes)), "slow");
    give_back(&slow, &session);
    let status = main.status(Some(&session)).expect("no accident");
    assert!(!status.lives, "who is told that it gave it back doesn't have it: {status:?}");
}

/// A release lands in a hole of a pruned chain, so it is none; and then a log is begun anew, into which all links go that are there.
#[test]
fn a_release_that_came_too_late_is_not_believed_by_a_new_log() {
    let world = World::new();
    // As in a repository that another tool founded: it has no log yet.
    for file in ["audit/audit.jsonl", "audit/audit.head"] {
        fs::remove_file(world.jvs().join(file)).expect("it was founded by us");
    }
    let (main, session) = (world.worktree(world.disk(), "first"), world.session());
    take(&main, &session);
    let is_busy = Arc::new(AtomicBool::new(true));
    let audit = {
        let is_busy = is_busy.clone();
        let real = Arc::new(OsDisk::create_as(&world.jvs().join("audit"), 0o755).expect("temp").0);
        let hook = move |_: &str, _: &str| {
            if is_busy.load(Ordering::SeqCst) { Err(std::io::ErrorKind::ResourceBusy.into()) } else { Ok(()) }
        };
        Arc::new(HookDisk::new(real, Arc::new(hook)))
    };
    let linked = AtomicBool::new(false);
    let (other, jvs, repo) =
        (world.worktree(world.disk(), "other"), world.jvs(), world.repository(world.disk(), "doctor"));
    let late = {
        let (other, session, jvs) = (other.clone(), session.clone(), jvs.clone());
        after_the_link(move || {
            let log = jvs.join("audit/audit.jsonl");
            let text = fs::read_to_string(&log).expect("a log").replacen("lock_renew", "lock_ReNew", 1);
            fs::write(&log, text).expect("temp");
            begin_anew(&repo).expect("no accident").expect("it was broken");
            keeps(&other, &session, "the log is a new one");
            is_busy.store(false, Ordering::SeqCst);
        })
    };
    let hook = {
        let session = session.clone();
        move |call: &str, path: &str| {
            if call == "unnamed_link" && path.contains("main.lock.d") && !linked.swap(true, Ordering::SeqCst) {
                for _ in 0..140 {
                    keeps(&other, &session, "it is its holder's");
                }
                assert!(!jvs.join("locks/main.lock.d/00000000000000000002").exists(), "the chain was pruned");
            }
            late(call, path)
        }
    };
    let disk = Arc::new(HookDisk::new(world.disk(), Arc::new(hook)));
    let repo = Repository::on(world.dir.path(), disk, audit, world.machine.clone(), somebody("slow", 1));
    let name = LockName::new("main").expect("a good name");
    let slow = repo.expect("it is one").worktree(&name).expect("it can be read").expect("it is there");
    let told = slow.release(&session).expect("no accident").value;
    let status = main.status(Some(&session)).expect("no accident");
    let is_released = matches!(told, Releasing::Released(_));
    assert!(!(is_released && status.lives), "told {told:?}, and it lives: {status:?}");
}
