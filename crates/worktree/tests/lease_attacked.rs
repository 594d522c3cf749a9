//! What was found by attacking leases, each with the shortest way there.

#![expect(clippy::disallowed_methods, reason = "tests make and look at files of their own")]

mod lease_world;

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lease_world::{OVER_SECS, World, attempt, give_back, take, terms};
use lokt_core::name::LockName;
use lokt_sys::error::ErrorKind;
use lokt_sys::wait_policy::WaitPolicy;
use lokt_testkit::hook_disk::HookDisk;
use lokt_worktree::lease::{Keeping, LeaseState, LeaseTerms, Leasing, Publishing, Releasing, Worktree};

/// `worktree`, in whose way `deed` comes once, before the first call of that name about such a path.
fn interrupted(
    world: &World,
    call: &'static str,
    path: &'static str,
    deed: impl Fn() + Send + Sync + 'static,
) -> Worktree {
    let done = AtomicBool::new(false);
    let hook = move |name: &str, about: &str| {
        if name == call && about.contains(path) && !done.swap(true, Ordering::SeqCst) {
            deed();
        }
        Ok(())
    };
    world.worktree(Arc::new(HookDisk::new(world.disk(), Arc::new(hook))), "slow")
}

/// Another tool's lock, with a token.
fn foreign(world: &World, token: u64) {
    let record = format!(
        r#"{{"lock_id":"theirs","last_renewed_at":"2026-01-01T12:00:00Z","lease_duration_ms":30000,"fencing_token":{token}}}"#
    );
    fs::write(world.jvs().join("locks/main.lock"), record).expect("it is ours");
}

#[test]
fn a_long_purpose_is_refused_and_wedges_nothing() {
    let world = World::new();
    let (main, session) = (world.worktree(world.disk(), "first"), world.session());
    let long = LeaseTerms { purpose: Some("\u{1}".repeat(300_000)), ..terms() };
    let error = main.acquire(&session, &long, &mut WaitPolicy::none()).expect_err("no record is that long");
    assert_eq!(error.kind(), ErrorKind::NotARecord, "{error}");
    assert_eq!(take(&main, &session), 1, "nothing was written");
}

#[test]
fn whatever_has_a_links_name_counts_until_it_has_been_there_for_long_enough() {
    for plant in ["dir", "link", "garbage", "big"] {
        let world = World::new();
        let (main, session) = (world.worktree(world.disk(), "first"), world.session());
        take(&main, &session);
        let path = world.jvs().join("locks/main.lock.d/00000000000000000002");
        match plant {
            "dir" => fs::create_dir(&path).expect("temp"),
            "link" => symlink("/etc/passwd", &path).expect("temp"),
            "garbage" => fs::write(&path, "garbage").expect("temp"),
            _ => fs::write(&path, vec![b' '; 2 << 20]).expect("temp"),
        }
        assert!(matches!(attempt(&main, &world.session()), Leasing::Denied(_)), "{plant}: somebody may hold it");
        assert_eq!(main.status(None).expect("no accident").state, LeaseState::Corrupt, "{plant}");
        world.machine.advance_secs(OVER_SECS);
        let token = take(&main, &world.session());
        assert!(token > 2, "{plant}: {token}");
    }
}

#[test]
fn a_link_that_cannot_be_read_can_be_broken() {
    let world = World::new();
    let (main, session) = (world.worktree(world.disk(), "first"), world.session());
    take(&main, &session);
    fs::write(world.jvs().join("locks/main.lock.d/00000000000000000002"), "garbage").expect("temp");
    let broken = main.force_break("it can't be read").expect("no accident").value;
    assert!(matches!(broken, Releasing::Released(_)), "{broken:?}");
    let log = fs::read_to_string(world.jvs().join("audit/audit.jsonl")).expect("it is there");
    assert!(log.contains("lock_break") && log.contains("it can't be read"), "it is in the log: {log}");
    assert!(take(&main, &world.session()) > 2);
}

#[test]
fn a_base_that_cannot_be_read_can_be_broken() {
    let world = World::new();
    let (main, session) = (world.worktree(world.disk(), "first"), world.session());
    let before = take(&main, &session);
    let base = world.jvs().join("locks/main.lock.d/base");
    fs::remove_file(&base).and_then(|()| fs::write(&base, "garbage")).expect("temp");
    let error = main.acquire(&session, &terms(), &mut WaitPolicy::none()).expect_err("nothing can be known");
    assert_eq!(error.kind(), ErrorKind::Damaged);
    main.force_break("it can't be read").expect("no accident");
    // What is left of the old chain is another tool's, as far as anybody can tell.
    let _ = attempt(&main, &world.session());
    world.machine.advance_secs(OVER_SECS);
    assert!(take(&main, &world.session()) > before);
}

#[test]
fn an_odd_view_takes_nobodys_lease_and_gives_nobody_one() {
    let world = World::new();
    let (main, session) = (world.worktree(world.disk(), "first"), world.session());
    let token = take(&main, &session);
    let view = world.jvs().join("locks/main.lock");
    fs::remove_file(&view).expect("it is there");
    symlink("/etc/passwd", &view).expect("temp");
    let kept = main.renew(&session).expect("no accident").value;
    assert!(matches!(kept, Keeping::Renewed(_)), "{kept:?}");
    fs::write(world.dir.path().join("new"), "new").expect("temp");
    let published = main.publish(token, &world.dir.path().join("new"), &world.dir.path().join("there"));
    assert!(matches!(published.expect("no accident").value, Publishing::Published { .. }));
    give_back(&main, &session);
    let error = main.acquire(&session, &terms(), &mut WaitPolicy::none()).expect_err("other tools couldn't be told");
    assert_eq!(error.kind(), ErrorKind::NotARecord);
    assert_eq!(fs::read_link(&view).expect("it is still there").to_str(), Some("/etc/passwd"), "it isn't touched");
    main.force_break("a link is there").expect("no accident");
    assert!(take(&main, &session) > token);
}

#[test]
fn a_slow_release_takes_no_view_but_its_own() {
    let world = World::new();
    let (session, next) = (world.session(), world.session());
    take(&world.worktree(world.disk(), "first"), &session);
    let thief = world.worktree(world.disk(), "thief");
    let slow = {
        let (machine, next) = (world.machine.clone(), next.clone());
        interrupted(&world, "unnamed_link", "main.lock.d", move || {
            machine.advance_secs(OVER_SECS);
            take(&thief, &next);
        })
    };
    assert!(matches!(slow.release(&session).expect("no accident").value, Releasing::Denied(_)));
    assert_eq!(world.view()["session_id"], next.id.as_str(), "the thief's is to be seen");
}

#[test]
fn nothing_is_published_into_the_repository_itself() {
    let world = World::new();
    let (main, session) = (world.worktree(world.disk(), "first"), world.session());
    let token = take(&main, &session);
    let source = world.dir.path().join("new");
    fs::write(&source, "new").expect("temp");
    for target in ["format_version", "locks/main.lock", "audit/audit.jsonl", "new"] {
        let error = main.publish(token, &source, &world.jvs().join(target)).expect_err(target);
        assert_eq!(error.kind(), ErrorKind::BadName, "{target}: {error}");
    }
    assert_eq!(fs::read_to_string(world.jvs().join("format_version")).expect("it is there"), "2\n");
}

#[test]
fn a_grant_whose_link_was_deleted_before_it_was_answered_is_none() {
    let world = World::new();
    let (ours, theirs) = (world.session(), world.session());
    let other = world.worktree(world.disk(), "other");
    let slow = {
        let (jvs, theirs) = (world.jvs(), theirs.clone());
        interrupted(&world, "rename", "worktrees/main/.lokt-", move || {
            fs::remove_file(jvs.join("locks/main.lock.d/00000000000000000001")).expect("rm -rf has begun");
            take(&other, &theirs);
        })
    };
    let answer = slow.acquire(&ours, &terms(), &mut WaitPolicy::none()).expect("no accident").value;
    assert!(matches!(answer, Leasing::Denied(_)), "one token for two: {answer:?}");
}

#[test]
fn a_worktree_that_was_removed_or_renamed_meanwhile_is_nobodys() {
    for renames in [false, true] {
        let world = World::new();
        let repo = world.repository(world.disk(), "founder");
        let name = |text| LockName::new(text).expect("a good name");
        repo.create(&name("side"), lokt_core::lease::config::Isolation::Exclusive).expect("it is made");
        let session = world.session();
        let done = AtomicBool::new(false);
        let hook = {
            let repo = repo.clone();
            move |call: &str, path: &str| {
                if call == "unnamed_link" && path.contains("side.lock.d") && !done.swap(true, Ordering::SeqCst) {
                    if renames {
                        repo.rename(&name("side"), &name("moved")).expect("it is renamed");
                    } else {
                        repo.remove(&name("side"), true).expect("it is removed");
                    }
                }
                Ok(())
            }
        };
        let disk = Arc::new(HookDisk::new(world.disk(), Arc::new(hook)));
        let side =
            world.repository(disk, "slow").worktree(&name("side")).expect("it can be read").expect("it is there");
        let error = side.acquire(&session, &terms(), &mut WaitPolicy::none()).expect_err("there is none any more");
        assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
    }
}

#[test]
fn an_old_chain_that_is_put_back_goes_on_above_what_was_given_since() {
    let world = World::new();
    let (main, session) = (world.worktree(world.disk(), "first"), world.session());
    take(&main, &session);
    give_back(&main, &session);
    let (locks, aside) = (world.jvs().join("locks"), world.jvs().join("aside"));
    fs::rename(&locks, &aside).expect("temp");
    let main = world.worktree(world.disk(), "first");
    let since = take(&main, &session);
    give_back(&main, &session);
    fs::remove_dir_all(&locks).and_then(|()| fs::rename(&aside, &locks)).expect("temp");
    let token = take(&world.worktree(world.disk(), "first"), &session);
    assert!(token > since, "{token} after {since}");
}

#[test]
fn another_tools_lock_is_seen_where_no_chain_was() {
    let world = World::new();
    fs::remove_dir_all(world.jvs().join("locks"))
        .and_then(|()| fs::create_dir(world.jvs().join("locks")))
        .expect("temp");
    foreign(&world, 41);
    let main = world.worktree(world.disk(), "first");
    let status = main.status(None).expect("no accident");
    assert_eq!((status.state, status.lives), (LeaseState::Foreign, true));
    assert!(matches!(attempt(&main, &world.session()), Leasing::Denied(_)));
    world.machine.advance_secs(OVER_SECS);
    assert!(take(&main, &world.session()) > 41);
}

#[test]
fn the_number_of_another_tools_lock_counts_also_when_it_is_broken() {
    let world = World::new();
    let (main, session) = (world.worktree(world.disk(), "first"), world.session());
    foreign(&world, 41);
    assert!(matches!(attempt(&main, &session), Leasing::Denied(_)));
    main.force_break("it hangs").expect("no accident");
    assert!(take(&main, &session) > 41);
}

#[test]
fn a_view_that_is_ahead_of_its_chain_is_another_tools() {
    let world = World::new();
    let (main, session) = (world.worktree(world.disk(), "first"), world.session());
    take(&main, &session);
    let mut view = world.view();
    give_back(&main, &session);
    view["chain"]["number"] = 99.into();
    view["chain"]["slot"] = 99.into();
    fs::write(world.jvs().join("locks/main.lock"), view.to_string()).expect("temp");
    let answer = attempt(&main, &session);
    assert!(matches!(answer, Leasing::Denied(_)), "{answer:?}");
    world.machine.advance_secs(OVER_SECS);
    take(&main, &session);
}

#[test]
fn what_cannot_be_a_staged_file_is_in_nobodys_way() {
    let world = World::new();
    fs::create_dir_all(world.jvs().join("staging/main/0.x")).expect("temp");
    take(&world.worktree(world.disk(), "first"), &world.session());
}
