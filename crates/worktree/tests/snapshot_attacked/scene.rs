//! A repository with a worktree that somebody has leased, and how it is attacked.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lokt_core::lease::session::Session;
use lokt_core::name::LockName;
use lokt_core::snapshot::descriptor::Consistency;
use lokt_core::snapshot::gc::Retention;
use lokt_core::snapshot::id::SnapshotId;
use lokt_sys::error::Error;
use lokt_testkit::hook_disk::{Hook, HookDisk};
use lokt_tree::{Control, Known, Silent};
use lokt_worktree::lease::{Keeping, Releasing, Worktree};
use lokt_worktree::repo::Repository;
use lokt_worktree::snapshot::{Acting, Catalog, GcWish, InPlace, Listed, Restoring, SnapshotWish, Snapshotting};

use crate::lease_world::{World, take};

pub(crate) const EIO: i32 = 5;
pub(crate) const FORCED: InPlace = InPlace { force: true, dry_run: false, with_git: false };
pub(crate) const CAREFUL: InPlace = InPlace { force: false, dry_run: false, with_git: false };
/// Nothing stays but what must.
pub(crate) const HARSH: GcWish =
    GcWish { retention: Retention { keep_last: Some(0), keep_within_ms: None }, at_once: false };
pub(crate) const CHAIN: &str = "locks/main.lock.d";

/// A repository with a worktree that somebody has leased.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) session: Session,
}

impl Scene {
    pub(crate) fn new() -> Arc<Self> {
        let world = World::new();
        let session = world.session();
        take(&world.worktree(world.disk(), "alice"), &session);
        Arc::new(Self { world, session })
    }

    pub(crate) fn repo(&self) -> Repository {
        self.world.repository(self.world.disk(), "alice")
    }

    pub(crate) fn main(&self) -> Worktree {
        self.world.worktree(self.world.disk(), "alice")
    }

    /// The same as somebody sees it to whom something happens before calls to the disk.
    pub(crate) fn hooked(&self, hook: Arc<Hook>) -> Worktree {
        self.world.worktree(Arc::new(HookDisk::new(self.world.disk(), hook)), "alice")
    }

    pub(crate) fn hooked_repo(&self, hook: Arc<Hook>) -> Repository {
        self.world.repository(Arc::new(HookDisk::new(self.world.disk(), hook)), "alice")
    }

    pub(crate) fn place(&self) -> PathBuf {
        self.world.dir.path().join("main")
    }

    pub(crate) fn jvs(&self, path: &str) -> PathBuf {
        self.world.jvs().join(path)
    }

    /// How much is in a directory of the repository.
    pub(crate) fn count(&self, dir: &str) -> usize {
        fs::read_dir(self.jvs(dir)).map_or(0, Iterator::count)
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.place().join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("directories");
        fs::write(path, text).expect("a file");
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.place().join(path)).ok()
    }

    /// A snapshot of the file `a` with this text.
    pub(crate) fn snapshot(&self, text: &str) -> SnapshotId {
        self.put("a", text);
        // Which of two is the newer one is told by the clock.
        self.world.machine.advance_secs(1);
        taken(snapshot(&self.main(), &self.session).expect("no accident"))
    }

    pub(crate) fn catalog(&self) -> Catalog {
        self.repo().snapshots().catalog().expect("a catalog")
    }

    pub(crate) fn listed(&self, id: &SnapshotId) -> Listed {
        self.catalog().get(id).expect("it is visible").clone()
    }

    pub(crate) fn restore(&self, worktree: &Worktree, id: &SnapshotId, how: InPlace) -> Result<Restoring, Error> {
        let halt = AtomicBool::new(false);
        let said = worktree.restore_in_place(&self.listed(id), Acting::Session(&self.session), how, &control(&halt));
        said.map(|said| said.value)
    }

    pub(crate) fn renew(&self) {
        let said = self.main().renew(&self.session).expect("the lease goes on");
        assert!(matches!(said.value, Keeping::Renewed(_)), "{:?}", said.value);
    }

    /// The lease is given back, and others have it for so long that the chain is pruned.
    pub(crate) fn is_lost(&self) {
        let released = self.main().release(&self.session).expect("no accident").value;
        assert!(matches!(released, Releasing::Released(_)), "{released:?}");
        for _ in 0..150 {
            let session = self.world.session();
            take(&self.main(), &session);
            self.main().release(&session).expect("no accident");
        }
    }

    pub(crate) fn head(&self) -> Option<SnapshotId> {
        self.main().head().expect("a head")
    }

    /// Is it whole, or not there at all?
    pub(crate) fn is_whole_or_nothing(&self, id: &SnapshotId) -> bool {
        let catalog = self.catalog();
        assert!(catalog.spoiled.is_empty(), "visible, and not whole: {:?}", catalog.spoiled);
        assert!(catalog.lineage().problems().is_empty(), "{:?}", catalog.lineage().problems());
        let Some(listed) = catalog.get(id) else { return false };
        let halt = AtomicBool::new(false);
        let verified = self.repo().snapshots().verify(listed, &Known::default(), &control(&halt)).expect("an answer");
        assert!(verified.as_ref().is_some_and(lokt_worktree::snapshot::Verification::is_sound), "{verified:?}");
        true
    }

    /// Where a file of that name is, anywhere.
    pub(crate) fn found(&self, name: &str) -> Vec<PathBuf> {
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
    pub(crate) fn newest_id(&self) -> SnapshotId {
        let names = fs::read_dir(self.jvs("snapshots")).expect("a place").map(|entry| entry.expect("an entry"));
        let names = names.filter_map(|entry| SnapshotId::parse(entry.file_name().to_str()?));
        names.max().expect("there is one")
    }
}

pub(crate) fn control(halt: &AtomicBool) -> Control<'_> {
    Control::new(&Silent, halt)
}

pub(crate) fn snapshot(worktree: &Worktree, session: &Session) -> Result<Snapshotting, Error> {
    snapshot_noted(worktree, session, None)
}

pub(crate) fn snapshot_noted(
    worktree: &Worktree,
    session: &Session,
    note: Option<String>,
) -> Result<Snapshotting, Error> {
    let halt = AtomicBool::new(false);
    let wish =
        SnapshotWish { consistency: Consistency::BestEffort, note, acting: Acting::Session(session), with_git: false };
    worktree.snapshot(&wish, &control(&halt)).map(|said| said.value)
}

pub(crate) fn taken(said: Snapshotting) -> SnapshotId {
    match said {
        Snapshotting::Taken(taken) => taken.descriptor.id,
        other => panic!("it should be there: {other:?}"),
    }
}

pub(crate) fn eio() -> io::Error {
    io::Error::from_raw_os_error(EIO)
}

pub(crate) fn is_receipt(path: &str) -> bool {
    path.strip_suffix(".ready").is_some()
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).expect("a good name")
}

pub(crate) fn candidates(repo: &Repository) -> Vec<SnapshotId> {
    let plan = repo.gc().plan(HARSH.retention).expect("a plan");
    plan.candidates.into_iter().map(|node| node.id).collect()
}

/// Does `then`, once, before the first call for which `when` is true.
pub(crate) fn once(
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

/// Does `then`, once, before the `nth` call after the first link that was added when `is_ready`.
pub(crate) fn after_the_link(
    nth: usize,
    is_ready: impl Fn() -> bool + Send + Sync + 'static,
    then: impl Fn() + Send + Sync + 'static,
) -> Arc<Hook> {
    after_the_link_of(CHAIN, nth, is_ready, then)
}

/// The same of another chain.
pub(crate) fn after_the_link_of(
    chain: &'static str,
    nth: usize,
    is_ready: impl Fn() -> bool + Send + Sync + 'static,
    then: impl Fn() + Send + Sync + 'static,
) -> Arc<Hook> {
    // How many calls were made since.
    let calls: Mutex<Option<usize>> = Mutex::default();
    Arc::new(move |call: &str, path: &str| {
        let now = {
            let mut calls = calls.lock().expect("nobody panics with it");
            *calls = match *calls {
                None if call == "unnamed_link" && path.starts_with(chain) && is_ready() => Some(0),
                calls => calls.map(|calls| calls + 1),
            };
            *calls
        };
        if now == Some(nth) {
            then();
        }
        Ok(())
    })
}

/// Somebody's restore is decided, and nothing is done about it: its process ended at once.
pub(crate) fn decided(scene: &Scene, id: &SnapshotId) {
    let stopped = scene.hooked(Arc::new(|call: &str, path: &str| match (call, path) {
        ("list", "restores") => Err(eio()),
        _ => Ok(()),
    }));
    scene.restore(&stopped, id, FORCED).expect_err("it was stopped");
}
