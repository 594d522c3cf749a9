//! Attempts to break what is promised of snapshots: others act between two calls, processes end half-way, directories are replaced,
//! and users put odd things where their files are.

#![expect(clippy::disallowed_methods, reason = "tests make and look at files of their own")]

mod lease_world;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lease_world::{World, take};
use lokt::lease::doctor::examine_one;
use lokt::lease::{Keeping, Releasing, Worktree};
use lokt::repo::Repository;
use lokt::snapshot::{Acting, Catalog, GcWish, InPlace, Listed, Restoring, SnapshotWish, Snapshotting, Unfolding};
use lokt::tree::{Control, Known, Silent};
use lokt::{Consistency, Error, Isolation, LockName, Retention, Session, SnapshotId};
use lokt_testkit::hook_disk::{Hook, HookDisk};

const EIO: i32 = 5;
const NOBODY: u32 = 65534;
/// Says that the limit is set.
const FEW_FILES: &str = "LOKT_TEST_FEW_FILES";
const FORCED: InPlace = InPlace { force: true, dry_run: false };
const CAREFUL: InPlace = InPlace { force: false, dry_run: false };
/// Nothing stays but what must.
const HARSH: GcWish = GcWish { retention: Retention { keep_last: Some(0), keep_within_ms: None }, at_once: false };
const CHAIN: &str = "locks/main.lock.d";

/// A repository with a worktree that somebody has leased.
struct Scene {
    world: World,
    session: Session,
}

impl Scene {
    fn new() -> Arc<Self> {
        let world = World::new();
        let session = world.session();
        take(&world.worktree(world.disk(), "alice"), &session);
        Arc::new(Self { world, session })
    }

    fn repo(&self) -> Repository {
        self.world.repository(self.world.disk(), "alice")
    }

    fn main(&self) -> Worktree {
        self.world.worktree(self.world.disk(), "alice")
    }

    /// The same as somebody sees it to whom something happens before calls to the disk.
    fn hooked(&self, hook: Arc<Hook>) -> Worktree {
        self.world.worktree(Arc::new(HookDisk::new(self.world.disk(), hook)), "alice")
    }

    fn hooked_repo(&self, hook: Arc<Hook>) -> Repository {
        self.world.repository(Arc::new(HookDisk::new(self.world.disk(), hook)), "alice")
    }

    fn place(&self) -> PathBuf {
        self.world.dir.path().join("main")
    }

    fn jvs(&self, path: &str) -> PathBuf {
        self.world.jvs().join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.place().join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.place().join(path)).ok()
    }

    /// A snapshot of the file `a` with this text.
    fn snapshot(&self, text: &str) -> SnapshotId {
        self.put("a", text);
        // Which of two is the newer one is told by the clock.
        self.world.machine.advance_secs(1);
        taken(snapshot(&self.main(), &self.session).expect("no accident"))
    }

    fn catalog(&self) -> Catalog {
        self.repo().catalog().expect("a catalog")
    }

    fn listed(&self, id: &SnapshotId) -> Listed {
        self.catalog().get(id).expect("it is visible").clone()
    }

    fn restore(&self, worktree: &Worktree, id: &SnapshotId, how: InPlace) -> Result<Restoring, Error> {
        let halt = AtomicBool::new(false);
        let said = worktree.restore_in_place(&self.listed(id), Acting::Session(&self.session), how, &control(&halt));
        said.map(|said| said.value)
    }

    fn renew(&self) {
        let said = self.main().renew(&self.session).expect("the lease goes on");
        assert!(matches!(said.value, Keeping::Renewed(_)), "{:?}", said.value);
    }

    fn head(&self) -> Option<SnapshotId> {
        self.main().head().expect("a head")
    }

    /// Is it whole, or not there at all?
    fn is_whole_or_nothing(&self, id: &SnapshotId) -> bool {
        let catalog = self.catalog();
        assert!(catalog.spoiled.is_empty(), "visible, and not whole: {:?}", catalog.spoiled);
        assert!(catalog.lineage().problems().is_empty(), "{:?}", catalog.lineage().problems());
        let Some(listed) = catalog.get(id) else { return false };
        let halt = AtomicBool::new(false);
        let verified = self.repo().verify(listed, &Known::default(), &control(&halt)).expect("an answer");
        assert!(verified.as_ref().is_some_and(lokt::snapshot::Verification::is_sound), "{verified:?}");
        true
    }

    /// Where a file of that name is, anywhere.
    fn found(&self, name: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut dirs = vec![self.world.dir.path().to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).expect("it is listed").map(|entry| entry.expect("an entry")) {
                if entry.file_type().expect("a type").is_dir() {
                    dirs.push(entry.path());
                } else if entry.file_name() == name {
                    found.push(entry.path());
                }
            }
        }
        found
    }

    /// The only one of which something is there and that isn't visible, or that is the newest.
    fn newest_id(&self) -> SnapshotId {
        let names = fs::read_dir(self.jvs("snapshots")).expect("a place").map(|entry| entry.expect("an entry"));
        let names = names.filter_map(|entry| SnapshotId::parse(entry.file_name().to_str()?));
        names.max().expect("there is one")
    }
}

fn control(halt: &AtomicBool) -> Control<'_> {
    Control::new(&Silent, halt)
}

fn snapshot(worktree: &Worktree, session: &Session) -> Result<Snapshotting, Error> {
    snapshot_noted(worktree, session, None)
}

fn snapshot_noted(worktree: &Worktree, session: &Session, note: Option<String>) -> Result<Snapshotting, Error> {
    let halt = AtomicBool::new(false);
    let wish = SnapshotWish { consistency: Consistency::BestEffort, note, acting: Acting::Session(session) };
    worktree.snapshot(&wish, &control(&halt)).map(|said| said.value)
}

fn taken(said: Snapshotting) -> SnapshotId {
    match said {
        Snapshotting::Taken(taken) => taken.descriptor.id,
        other => panic!("it should be there: {other:?}"),
    }
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(EIO)
}

fn is_receipt(path: &str) -> bool {
    path.strip_suffix(".ready").is_some()
}

fn name(name: &str) -> LockName {
    LockName::new(name).expect("a good name")
}

fn candidates(repo: &Repository) -> Vec<SnapshotId> {
    let plan = repo.gc_plan(HARSH.retention).expect("a plan");
    plan.candidates.into_iter().map(|node| node.id).collect()
}

/// Does `then`, once, before the first call for which `when` is true.
fn once(
    when: impl Fn(&str, &str) -> bool + Send + Sync + 'static,
    then: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) -> Arc<Hook> {
    let done = AtomicBool::new(false);
    Arc::new(
        move |call: &str, path: &str| {
            if when(call, path) && !done.swap(true, Ordering::SeqCst) { then() } else { Ok(()) }
        },
    )
}

/// Somebody's restore is decided, and nothing is done about it: its process ended at once.
fn decided(scene: &Scene, id: &SnapshotId) {
    let stopped = scene.hooked(Arc::new(|call: &str, path: &str| match (call, path) {
        ("list", "restores") => Err(eio()),
        _ => Ok(()),
    }));
    scene.restore(&stopped, id, FORCED).expect_err("it was stopped");
}

/// `gc` was killed when it had said that a snapshot goes, and the snapshot was still there. Somebody goes back to it. It is a head now.
#[test]
fn what_gc_had_begun_to_remove_and_is_used_again_stays() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    let second = scene.snapshot("two");
    let killed = scene.hooked_repo(Arc::new(|call: &str, path: &str| match call {
        "remove" if is_receipt(path) => Err(eio()),
        _ => Ok(()),
    }));
    let wish = GcWish { retention: Retention { keep_last: Some(1), keep_within_ms: None }, at_once: false };
    let done = killed.gc_run(&wish).expect("an answer").value;
    assert_eq!(done.failed.len(), 1, "it got as far as the tombstone: {done:?}");
    let restored = scene.restore(&scene.main(), &first, CAREFUL).expect("no accident");
    assert!(matches!(restored, Restoring::Restored(_)), "{restored:?}");
    scene.repo().gc_run(&HARSH).expect("an answer");
    assert!(scene.is_whole_or_nothing(&first), "the worktree is at it");
    examine_one(&scene.repo(), true);
    assert!(scene.is_whole_or_nothing(&first), "the worktree is at it");
    assert_eq!(scene.head(), Some(first));
    drop(second);
}

/// The link that publishes a snapshot is there; before its process is told so, somebody adds the next one and writes the receipt; then
/// syncing fails. What everybody can see by now isn't removed.
#[test]
fn what_others_have_seen_is_not_removed_after_an_error() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    scene.put("a", "two");
    let (there, linked) = (scene.clone(), AtomicBool::new(false));
    let hook = move |call: &str, path: &str| {
        let is_described = fs::read_dir(there.jvs("descriptors")).is_ok_and(|listed| listed.count() == 2);
        if is_described && (call, path) == ("sync_dir", CHAIN) && !linked.swap(true, Ordering::SeqCst) {
            there.renew();
            return Err(eio());
        }
        Ok(())
    };
    snapshot(&scene.hooked(Arc::new(hook)), &scene.session).expect_err("it couldn't be synced");
    assert!(scene.is_whole_or_nothing(&first), "nothing happened to it");
    scene.is_whole_or_nothing(&scene.newest_id());
    assert!(scene.head().is_some_and(|head| scene.is_whole_or_nothing(&head)), "the worktree is at one that is there");
}

/// Whoever published a snapshot is stopped at once, for so long that the chain is pruned: it can't tell whether its link counted. It did.
fn stopped_after_its_link(
    meanwhile: impl Fn(&Scene) + Send + Sync + 'static,
) -> (Arc<Scene>, Result<Snapshotting, Error>) {
    let scene = Scene::new();
    scene.snapshot("one");
    scene.put("a", "two");
    let (there, linked) = (scene.clone(), Arc::new(Mutex::new(false)));
    let stopped = AtomicBool::new(false);
    let hook = move |call: &str, path: &str| {
        let is_described = || fs::read_dir(there.jvs("descriptors")).is_ok_and(|listed| listed.count() == 2);
        let mut linked = linked.lock().expect("nobody panics");
        if *linked && !stopped.swap(true, Ordering::SeqCst) {
            drop(linked);
            for _ in 0..150 {
                there.renew();
            }
            meanwhile(&there);
            return Ok(());
        }
        *linked |= call == "unnamed_link" && path.starts_with(CHAIN) && is_described();
        Ok(())
    };
    let said = snapshot(&scene.hooked(Arc::new(hook)), &scene.session);
    (scene, said)
}

#[test]
fn a_snapshot_is_published_once() {
    let (scene, said) = stopped_after_its_link(|_| {});
    let id = taken(said.expect("no accident"));
    assert!(scene.is_whole_or_nothing(&id), "it was acknowledged");
    assert_ne!(scene.listed(&id).descriptor.parent, Some(id), "nothing comes before itself");
}

#[test]
fn a_snapshot_that_was_published_is_not_removed_when_the_lease_is_lost() {
    let (scene, said) = stopped_after_its_link(|scene| {
        let released = scene.main().release(&scene.session).expect("no accident").value;
        assert!(matches!(released, Releasing::Released(_)), "{released:?}");
        for _ in 0..150 {
            let session = scene.world.session();
            take(&scene.main(), &session);
            scene.main().release(&session).expect("no accident");
        }
    });
    drop(said);
    scene.is_whole_or_nothing(&scene.newest_id());
    assert!(scene.head().is_some_and(|head| scene.is_whole_or_nothing(&head)), "the worktree is at one that is there");
}

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
    fs::copy(away.join("a"), scene.place().join("a")).expect("a copy");
    scene.renew();
    assert_eq!(scene.head(), Some(first));
}

/// What a worktree is at stays, also while its configuration can't be read.
#[test]
fn what_a_damaged_worktree_is_at_stays() {
    let scene = Scene::new();
    let (repo, other) = (scene.repo(), name("other"));
    repo.create(&other, Isolation::Exclusive).expect("no accident");
    let worktree = repo.worktree(&other).expect("no accident").expect("it is there");
    let session = scene.world.session();
    take(&worktree, &session);
    let id = taken(snapshot(&worktree, &session).expect("no accident"));
    fs::write(scene.jvs("worktrees/other/config.json"), "{").expect("it is damaged");
    let plan = scene.repo().gc_plan(HARSH.retention);
    assert!(plan.is_err() || !candidates(&scene.repo()).contains(&id), "it is what a worktree is at");
    if scene.repo().gc_run(&HARSH).is_ok() {
        assert!(scene.is_whole_or_nothing(&id), "it is what a worktree is at");
    }
}

/// What a name that can't be read is the name of isn't known: nothing goes.
#[test]
fn what_may_have_a_name_stays() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    let second = scene.snapshot("two");
    scene.restore(&scene.main(), &first, CAREFUL).expect("no accident");
    fs::create_dir_all(scene.jvs("refs")).expect("a directory");
    fs::write(scene.jvs("refs/release.json"), format!("{{\"name\": \"release\", \"snapshot_id\": \"{second}"))
        .expect("a file");
    assert!(scene.repo().gc_run(&HARSH).is_err(), "nobody knows what may go");
    assert!(scene.is_whole_or_nothing(&second), "it has a name");
}

/// A restore was decided, and its tree is gone: the worktree has what it had, which stays.
#[test]
fn what_a_worktree_goes_back_to_stays() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    let second = scene.snapshot("two");
    decided(&scene, &first);
    fs::remove_dir_all(scene.jvs("restores")).expect("it goes");
    assert!(!candidates(&scene.repo()).contains(&second), "the worktree is at it");
    scene.repo().gc_run(&HARSH).expect("no accident");
    scene.renew();
    assert_eq!((scene.text("a").as_deref(), scene.head()), (Some("two"), Some(second.clone())));
    assert!(scene.is_whole_or_nothing(&second), "the worktree is at it");
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

/// A worktree has the name of one that was removed. It is at nothing.
#[test]
fn a_new_worktree_is_not_at_what_an_earlier_one_was() {
    let scene = Scene::new();
    let (repo, other) = (scene.repo(), name("other"));
    for round in ["removed", "renamed"] {
        repo.create(&other, Isolation::Exclusive).expect("no accident");
        let worktree = repo.worktree(&other).expect("no accident").expect("it is there");
        assert_eq!(worktree.head().expect("a head"), None, "{round}");
        let session = scene.world.session();
        take(&worktree, &session);
        let id = taken(snapshot(&worktree, &session).expect("no accident"));
        worktree.release(&session).expect("no accident");
        if round == "removed" {
            repo.remove(&other, true).expect("no accident");
        } else {
            repo.rename(&other, &name("elsewhere")).expect("no accident");
            let elsewhere = repo.worktree(&name("elsewhere")).expect("no accident").expect("it is there");
            assert_eq!(elsewhere.head().expect("a head"), Some(id), "it comes along");
        }
    }
    repo.create(&other, Isolation::Exclusive).expect("no accident");
    let worktree = repo.worktree(&other).expect("no accident").expect("it is there");
    assert_eq!(worktree.head().expect("a head"), None);
    let session = scene.world.session();
    take(&worktree, &session);
    assert_eq!(worktree.head().expect("a head"), None);
    let id = taken(snapshot(&worktree, &session).expect("no accident"));
    assert_eq!(scene.listed(&id).descriptor.parent, None);
}

/// A worktree is made from a snapshot, under the name of one that was removed. That is what it is at.
#[test]
fn a_worktree_that_is_made_from_a_snapshot_is_at_it() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    let (repo, other) = (scene.repo(), name("other"));
    repo.create(&other, Isolation::Exclusive).expect("no accident");
    let worktree = repo.worktree(&other).expect("no accident").expect("it is there");
    let session = scene.world.session();
    take(&worktree, &session);
    taken(snapshot(&worktree, &session).expect("no accident"));
    worktree.release(&session).expect("no accident");
    repo.remove(&other, true).expect("no accident");
    let halt = AtomicBool::new(false);
    let made = repo.restore_into(&scene.listed(&first), &other, &control(&halt)).expect("no accident").value;
    assert!(matches!(made, Unfolding::Made(_)), "{made:?}");
    let worktree = repo.worktree(&other).expect("no accident").expect("it is there");
    assert_eq!(worktree.head().expect("a head"), Some(first.clone()));
    take(&worktree, &scene.world.session());
    assert_eq!(worktree.head().expect("a head"), Some(first));
}

/// A worktree gets the name that another one had. It stays at what it is at.
#[test]
fn a_worktree_that_is_renamed_is_at_what_it_was() {
    let scene = Scene::new();
    let repo = scene.repo();
    let mut ids = Vec::new();
    for each in ["one", "two"] {
        repo.create(&name(each), Isolation::Exclusive).expect("no accident");
        let worktree = repo.worktree(&name(each)).expect("no accident").expect("it is there");
        let session = scene.world.session();
        take(&worktree, &session);
        ids.push(taken(snapshot(&worktree, &session).expect("no accident")));
        worktree.release(&session).expect("no accident");
    }
    repo.remove(&name("two"), true).expect("no accident");
    repo.rename(&name("one"), &name("two")).expect("no accident");
    let worktree = repo.worktree(&name("two")).expect("no accident").expect("it is there");
    assert_eq!(worktree.head().expect("a head").as_ref(), Some(&ids[0]));
    take(&worktree, &scene.world.session());
    assert_eq!(worktree.head().expect("a head").as_ref(), Some(&ids[0]));
}

/// What `jvs` made is there, and its description was damaged: that is no leftover of somebody who was killed.
#[test]
fn what_another_program_made_is_no_leftover_when_its_description_is_damaged() {
    let scene = Scene::new();
    let id = scene.snapshot("one");
    // As that program leaves it: no receipt, no manifest, a marker.
    fs::remove_file(scene.jvs(&format!("snapshots/{id}.ready"))).expect("it goes");
    fs::remove_file(scene.jvs(&format!("snapshots/{id}.manifest"))).expect("it goes");
    fs::write(scene.jvs(&format!("snapshots/{id}/.READY")), "{}").expect("a marker");
    fs::write(scene.jvs(&format!("descriptors/{id}.json")), "{\"snapshot_id\": ").expect("it is damaged");
    scene.renew();
    let catalog = scene.catalog();
    assert!(catalog.unfinished.is_empty(), "{:?}", catalog.unfinished);
    assert_eq!(catalog.spoiled.len(), 1, "somebody has to be told");
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

/// A note that is longer than anybody reads.
#[test]
fn a_snapshot_with_a_long_note_is_there_or_refused() {
    let scene = Scene::new();
    scene.put("a", "one");
    let said = snapshot_noted(&scene.main(), &scene.session, Some("\u{1}".repeat(1 << 20)));
    if let Ok(said) = said {
        assert!(scene.is_whole_or_nothing(&taken(said)), "it was acknowledged");
    }
    assert_eq!(scene.head().filter(|head| !scene.is_whole_or_nothing(head)), None);
    scene.renew();
}

/// Whoever restored was killed after the exchange, and somebody deletes all locks. What was ignored is nowhere else.
#[test]
fn the_old_tree_of_a_restore_that_nobody_knows_of_is_not_deleted() {
    let scene = Scene::new();
    scene.put(".lokt-ignore", "*.env\n");
    let first = scene.snapshot("one");
    scene.snapshot("two");
    scene.put("secret.env", "nowhere else");
    let looks = AtomicUsize::new(0);
    let stopped = scene.hooked(Arc::new(move |call: &str, path: &str| {
        if (call, path) == ("list", "restores") && looks.fetch_add(1, Ordering::SeqCst) > 0 {
            Err(eio())
        } else {
            Ok(())
        }
    }));
    scene.restore(&stopped, &first, CAREFUL).expect_err("it was stopped");
    assert_eq!(scene.text("a").as_deref(), Some("one"), "after the exchange");
    fs::remove_dir_all(scene.jvs("locks")).expect("they go");
    examine_one(&scene.repo(), true);
    assert_eq!(scene.found("secret.env").len(), 1);
}

/// Somebody pins a snapshot that `gc` is about to remove. Who is told that it is kept keeps it.
#[test]
fn what_was_pinned_stays() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    scene.snapshot("two");
    let (there, id) = (scene.clone(), first.clone());
    let pinning: Arc<Mutex<Option<std::thread::JoinHandle<bool>>>> = Arc::default();
    let handle = pinning.clone();
    let repo = scene.hooked_repo(once(
        |call, path| call == "create_as" && path.starts_with("gc/tombstones"),
        move || {
            let (there, id) = (there.clone(), id.clone());
            let thread = std::thread::spawn(move || there.repo().pin(&id, None).is_ok());
            std::thread::sleep(std::time::Duration::from_millis(300));
            *handle.lock().expect("nobody panics") = Some(thread);
            Ok(())
        },
    ));
    let wish = GcWish { retention: Retention { keep_last: Some(1), keep_within_ms: None }, at_once: false };
    repo.gc_run(&wish).expect("no accident");
    let is_pinned = pinning.lock().expect("nobody panics").take().expect("it ran").join().expect("no panic");
    assert_eq!(is_pinned, scene.is_whole_or_nothing(&first), "pinned, and there");
}

/// `rm -rf .jvs/snapshots/ID`: what is listed as visible is whole.
#[test]
fn a_snapshot_without_its_files_is_not_listed_as_whole() {
    let scene = Scene::new();
    let id = scene.snapshot("one");
    fs::remove_dir_all(scene.jvs(&format!("snapshots/{id}"))).expect("it goes");
    let catalog = scene.catalog();
    assert!(catalog.get(&id).is_none() && catalog.spoiled.len() == 1, "{catalog:?}");
}

/// A file is written while a snapshot is unfolded, which can take long. It isn't saved anywhere.
#[test]
fn what_is_written_while_a_snapshot_is_unfolded_is_not_lost() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    scene.snapshot("two");
    let there = scene.clone();
    let worktree = scene.hooked(once(
        |call, path| call == "create_as" && path.starts_with("intents/restore-"),
        move || {
            there.put("new", "of the user");
            Ok(())
        },
    ));
    let said = scene.restore(&worktree, &first, CAREFUL).expect("no accident");
    assert!(matches!(said, Restoring::Dirty(_)), "{said:?}");
    assert_eq!((scene.text("new").as_deref(), scene.text("a").as_deref()), (Some("of the user"), Some("two")));
}

/// A file is put where a worktree is about to be, after it was seen that nothing is there.
#[test]
fn what_is_put_where_a_worktree_is_made_is_not_deleted() {
    let scene = Scene::new();
    let first = scene.snapshot("one");
    let place = scene.world.dir.path().join("worktrees/copy");
    let file = place.join("of-the-user");
    let repo = scene.hooked_repo(Arc::new(move |_: &str, _: &str| {
        if place.is_dir() && fs::read_dir(&place).is_ok_and(|mut listed| listed.next().is_none()) {
            fs::write(place.join("of-the-user"), "nowhere else").expect("a file");
        }
        Ok(())
    }));
    let halt = AtomicBool::new(false);
    let made = repo.restore_into(&scene.listed(&first), &name("copy"), &control(&halt));
    assert!(file.exists(), "{made:?}");
}

/// A snapshot is published and its description is lost before it has a receipt. Others get theirs.
#[test]
fn what_can_never_have_a_receipt_keeps_nobody_from_theirs() {
    let scene = Scene::new();
    scene.put("a", "one");
    let stopped = scene.hooked(Arc::new(
        |call: &str, path: &str| {
            if is_receipt(path) && call != "stamp" { Err(eio()) } else { Ok(()) }
        },
    ));
    snapshot(&stopped, &scene.session).expect_err("it was stopped");
    let lost = scene.newest_id();
    fs::remove_file(scene.jvs(&format!("descriptors/{lost}.json"))).expect("it goes");
    for text in ["two", "three", "four"] {
        scene.snapshot(text);
    }
    scene.renew();
    let last = fs::read_dir(scene.jvs(CHAIN)).expect("a chain").map(|entry| entry.expect("an entry").path());
    let is_link = |path: &PathBuf| path.file_name().is_some_and(|name| name.len() == 20);
    let last = last.filter(is_link).max().expect("there is one");
    let link: serde_json::Value = serde_json::from_slice(&fs::read(last).expect("a link")).expect("JSON");
    let pending = link["chain"]["pending"].as_array().map_or(0, Vec::len);
    assert!(pending <= 1, "{pending} are pending");
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
    let mut command = std::process::Command::new(std::env::current_exe().expect("it runs"));
    let done = command.args(["--exact", test, "--nocapture"]).uid(NOBODY).gid(NOBODY).output().expect("it starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&[done.stdout, done.stderr].concat()));
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
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -n 128 && exec \"$0\" --exact a_deep_tree_leaves_the_lease_usable --nocapture"]);
        let done = command.arg(itself).env(FEW_FILES, "1").output().expect("it starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&[done.stdout, done.stderr].concat()));
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
