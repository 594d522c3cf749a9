//! Restores that others finish, that meet odd trees, and what of the user's must survive them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;

use lokt_core::lease::config::Isolation;
use lokt_core::snapshot::descriptor::Consistency;
use lokt_testkit::trees::put;
use lokt_worktree::lease::Releasing;
use lokt_worktree::lease::doctor::examine_one;
use lokt_worktree::snapshot::{Acting, Restoring, SnapshotWish};

use crate::scene::{
    CAREFUL, FORCED, Scene, after_the_link, after_the_link_of, control, decided, name, once, snapshot, taken,
};

const NOBODY: &str = "65534";
/// Says that the limit is set.
const FEW_FILES: &str = "LOKT_TEST_FEW_FILES";

/// Between two looks of whoever restores somebody else does all of it.
#[test]
fn a_restore_that_somebody_else_did_is_done() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    scene.snapshot("two");
    let there = scene.clone();
    let worktree = scene.hooked(once(
        |call, path| (call, path) == ("list", "restores"),
        move || {
            there.renew();
            Ok(())
        },
    ));
    let restored = scene.restore(&worktree, &first, CAREFUL).expect("no accident");
    assert!(matches!(restored, Restoring::Restored(_)), "{restored:?}");
    assert_eq!((scene.text("a").as_deref(), scene.head()), (Some("one"), Some(first)));
}

/// Whoever decided a restore is stopped then, while others finish it, and have the lease until the chain is pruned.
#[test]
fn a_restore_that_was_decided_is_acknowledged_when_the_lease_is_lost() {
    for nth in 1..=8 {
        let scene = Scene::new();
        let first = scene.snapshot("one");
        scene.snapshot("two");
        let (copied, there) = (scene.clone(), scene.clone());
        let is_copied = move || copied.count("restores") == 1;
        let worktree = scene.hooked(after_the_link(nth, is_copied, move || there.is_lost()));
        let restored = scene.restore(&worktree, &first, CAREFUL).expect("no accident");
        assert!(matches!(restored, Restoring::Restored(_)), "stopped before call {nth}: {restored:?}");
        assert_eq!((scene.text("a").as_deref(), scene.head()), (Some("one"), Some(first)));
    }
}

/// In a worktree that everybody may write to, the link that decided a restore is deleted by hand before its process is told, and somebody
/// publishes a snapshot in its place. After the sixth call nobody looks again.
#[test]
fn a_restore_whose_link_was_deleted_swaps_nothing_under_what_came_instead() {
    for nth in 1..=6 {
        let scene = Scene::new();
        let side = name("side");
        scene.repo().create(&side, Isolation::Shared).expect("it is made");
        let place = scene.repo().files_of(&side);
        let shoot = |scene: &Scene, place: &Path, text: &str| {
            fs::write(place.join("a"), text).expect("a file");
            scene.world.machine.advance_secs(1);
            let wish = SnapshotWish {
                consistency: Consistency::BestEffort,
                note: None,
                acting: Acting::Acquire,
                with_git: false,
            };
            let side = scene.repo().worktree(&name("side")).expect("it can be read").expect("it is there");
            taken(side.snapshot(&wish, &control(&AtomicBool::new(false))).expect("no accident").value)
        };
        let first = shoot(&scene, &place, "one");
        shoot(&scene, &place, "two");
        let (copied, there, at) = (scene.clone(), scene.clone(), place.clone());
        let is_copied = move || copied.count("restores") == 1;
        let hook = after_the_link_of("locks/side.lock.d", nth, is_copied, move || {
            let side = there.repo().worktree(&name("side")).expect("it can be read").expect("it is there");
            let told = side.force_break("it only writes the log").expect("no accident").value;
            assert!(matches!(told, Releasing::Denied(_)), "nobody has it: {told:?}");
            let links = fs::read_dir(there.jvs("locks/side.lock.d")).expect("a chain").map(|link| link.expect("one"));
            let number = |link: &fs::DirEntry| link.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
            let last = links.filter(|link| number(link).is_some()).max_by_key(number).expect("there are some");
            fs::remove_file(last.path()).expect("it is there");
            shoot(&there, &at, "three");
        });
        let slow = scene.hooked_repo(hook).worktree(&side).expect("it can be read").expect("it is there");
        let halt = AtomicBool::new(false);
        let told = slow.restore_in_place(&scene.listed(&first), Acting::Acquire, CAREFUL, &control(&halt));
        let text = fs::read_to_string(place.join("a")).ok();
        let head = scene.repo().worktree(&side).expect("it can be read").expect("it is there").head().expect("a head");
        let is_first = (text.as_deref() == Some("one"), head == Some(first));
        assert_eq!(is_first.0, is_first.1, "before call {nth}: the tree has {text:?}, the head is {head:?}: {told:?}");
    }
}

/// The same for whoever only wants to add a link.
#[test]
fn a_restore_that_somebody_else_did_is_not_taken_back_by_the_next_link() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    scene.snapshot("two");
    decided(&scene, &first);
    let there = scene.clone();
    let late = scene.hooked(once(
        |call, path| (call, path) == ("list", "restores"),
        move || {
            // It settles what was decided, and adds no link.
            examine_one(&there.repo(), true);
            assert_eq!(there.text("a").as_deref(), Some("one"), "it is done");
            Ok(())
        },
    ));
    late.renew(&scene.session).expect("no accident");
    assert_eq!((scene.text("a").as_deref(), scene.head()), (Some("one"), Some(first)));
}

/// What was restored, and then copied to where it was (a backup that is put back, a directory that was moved to another disk), has
/// other inodes and is still what was restored.
#[test]
fn a_tree_with_other_inodes_is_still_the_restored_one() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    scene.snapshot("two");
    scene.restore(&scene.main(), &first, CAREFUL).expect("no accident");
    let away = scene.world.dir.path().join("away");
    fs::rename(scene.place(), &away).expect("it moves");
    fs::create_dir(scene.place()).expect("a directory");
    put(&scene.place().join("a"), &fs::read(away.join("a")).expect("it was moved there"));
    scene.renew();
    assert_eq!(scene.head(), Some(first));
}

/// What says what is ignored is longer than anybody reads. Nobody is shut out by that.
#[test]
fn a_restore_over_odd_rules_leaves_the_lease_usable() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    scene.put(".lokt-ignore", &"# nothing\n".repeat(200_000));
    let restored = scene.restore(&scene.main(), &first, FORCED);
    scene.renew();
    match restored {
        Ok(Restoring::Restored(_)) => {
            assert_eq!((scene.text("a").as_deref(), scene.head()), (Some("one"), Some(first)));
        }
        _ => assert!(scene.text(".lokt-ignore").is_some(), "nothing was changed"),
    }
    assert_eq!(scene.found(".lokt-ignore").len(), 1, "nothing is lost");
}

/// Files that are ignored stay, also if their directory isn't in the snapshot.
#[test]
fn ignored_files_stay_where_they_are() {
    let scene = Scene::new();
    scene.put(".lokt-ignore", "*.env\n");
    let first = scene.snapshot("one");
    scene.put("build/deep/x", "of the second");
    scene.snapshot("two");
    for path in ["top.env", "build/some.env", "build/deep/more.env"] {
        scene.put(path, "nowhere else");
    }
    let restored = scene.restore(&scene.main(), &first, CAREFUL).expect("no accident");
    assert!(matches!(restored, Restoring::Restored(_)), "{restored:?}");
    for path in ["top.env", "build/some.env", "build/deep/more.env"] {
        assert_eq!(scene.text(path).as_deref(), Some("nowhere else"), "{path}");
    }
    assert_eq!(scene.text("build/deep/x"), None, "it isn't in the snapshot");
}

/// A worktree's directory is a link to where its files are.
#[test]
fn a_worktree_that_is_a_link_stays_one_or_nothing_is_done() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    let elsewhere = scene.world.dir.path().join("elsewhere");
    fs::rename(scene.place(), &elsewhere).expect("it moves");
    std::os::unix::fs::symlink(&elsewhere, scene.place()).expect("a link");
    scene.put("a", "two");
    let restored = scene.restore(&scene.main(), &first, FORCED);
    scene.renew();
    assert_eq!(fs::read_to_string(elsewhere.join("a")).ok().as_deref(), Some("two"), "{restored:?}");
    assert!(is_link(&scene.place()), "{restored:?}");
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Does it as a user who may not do everything: in a process of its own, if we may.
fn as_nobody(test: &str, body: impl FnOnce()) {
    if !rustix::process::geteuid().is_root() {
        return body();
    }
    // `setpriv` keeps the superuser's rights until it starts the program, whose directory may be private.
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    command.arg(std::env::current_exe().expect("it runs"));
    command.args(["--exact", &format!("restores::{test}"), "--nocapture"]);
    passed(&command.output().expect("setpriv runs"));
}

/// This program ran one test, which passed. If it had found none of that name, it would call that a success, too.
fn passed(done: &Output) {
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&done.stderr));
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// In the snapshot the directory itself is read-only: whoever isn't the superuser can't move it.
#[test]
fn a_read_only_tree_leaves_the_lease_usable() {
    as_nobody("a_read_only_tree_leaves_the_lease_usable", || {
        let scene = Scene::new();
        scene.put("a", "one");
        chmod(&scene.place(), 0o555);
        let first = taken(snapshot(&scene.main(), &scene.session).expect("no accident"));
        chmod(&scene.place(), 0o755);
        let second = scene.snapshot("two");
        let restored = scene.restore(&scene.main(), &first, FORCED);
        scene.renew();
        let is_restored = matches!(restored, Ok(Restoring::Restored(_)));
        let expected = if is_restored { ("one", first) } else { ("two", second) };
        assert_eq!((scene.text("a").as_deref(), scene.head()), (Some(expected.0), Some(expected.1)), "{restored:?}");
        chmod(&scene.place(), 0o755);
    });
}

/// Ignored files stay where they are, also in directories that nobody may write to.
#[test]
fn ignored_files_stay_in_read_only_directories() {
    as_nobody("ignored_files_stay_in_read_only_directories", || {
        let scene = Scene::new();
        scene.put(".lokt-ignore", "*.env\ncache/\n");
        scene.put("sub/x", "of both");
        for path in ["sub/some.env", "cache/object"] {
            scene.put(path, "nowhere else");
        }
        let dirs = ["sub", "cache"].map(|dir| scene.place().join(dir));
        for dir in &dirs {
            chmod(dir, 0o555);
        }
        let first = scene.snapshot("one");
        scene.snapshot("two");
        let restored = scene.restore(&scene.main(), &first, CAREFUL).expect("no accident");
        assert!(matches!(restored, Restoring::Restored(_)), "{restored:?}");
        for path in ["sub/some.env", "cache/object"] {
            assert_eq!(scene.text(path).as_deref(), Some("nowhere else"), "{path}");
        }
        for dir in &dirs {
            let mode = fs::metadata(dir).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o555, "{}", dir.display());
            chmod(dir, 0o755);
        }
    });
}

/// Few files may be open, and the tree is deeper than that.
#[test]
fn a_deep_tree_leaves_the_lease_usable() {
    if std::env::var_os(FEW_FILES).is_none() {
        let itself = std::env::current_exe().expect("it runs");
        let mut command = Command::new("sh");
        let again = "ulimit -n 128 && exec \"$0\" --exact restores::a_deep_tree_leaves_the_lease_usable --nocapture";
        passed(&command.args(["-c", again]).arg(itself).env(FEW_FILES, "1").output().expect("it starts"));
        return;
    }
    let scene = Scene::new();
    scene.put(".lokt-ignore", "*.env\n");
    let deep = "d/".repeat(200);
    scene.put(&format!("{deep}x"), "of both");
    let first = scene.snapshot("one");
    scene.snapshot("two");
    scene.put(&format!("{deep}some.env"), "nowhere else");
    let restored = scene.restore(&scene.main(), &first, CAREFUL);
    scene.renew();
    assert!(matches!(restored, Ok(Restoring::Restored(_))), "{restored:?}");
    assert_eq!(scene.text(&format!("{deep}some.env")).as_deref(), Some("nowhere else"));
}
