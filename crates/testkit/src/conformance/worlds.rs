//! Worlds: stores in memory and on disks, with a clock that stands still until a test moves it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lokt_core::hold::Identity;
use lokt_core::name::LockName;
use lokt_core::time::Moment;
use lokt_named::FileStore;
use lokt_named::store::{Call, Store};
use lokt_named::swap::{Engine, Fault, MemEngine, Of, SwapStore};
use lokt_sys::disk::Disk;
use lokt_sys::machine::Machine as _;
use lokt_sys::os_disk::OsDisk;
use tempfile::TempDir;

use super::{Network, OWNERS, World};
use crate::machine::{FakeMachine, somebody};
use crate::mem_disk::MemDisk;

/// The pid of the first caller; the others follow.
const FIRST_PID: i64 = 4242;

/// Stores, their callers, and their machine.
pub struct Callers {
    machine: Arc<FakeMachine>,
    callers: Vec<(Identity, Box<dyn Store>)>,
    network: Option<Box<dyn Network>>,
    /// Where the files are, as long as the test lasts.
    _dir: Option<TempDir>,
}

impl Callers {
    fn new(machine: Arc<FakeMachine>, open: &dyn Fn(Identity) -> Box<dyn Store>) -> Self {
        let mut callers = Vec::new();
        for (pid, owner) in (FIRST_PID..).zip(OWNERS) {
            machine.start_process(pid, pid);
            let me = Identity { pid, pid_start: pid, ..somebody(owner, 1) };
            callers.push((me.clone(), open(me)));
        }
        Self { machine, callers, network: None, _dir: None }
    }

    /// The same callers, who know nothing of a network: it goes wrong by itself.
    #[must_use]
    pub fn unaware(self) -> Self {
        Self { network: None, ..self }
    }

    /// The clocks of their machine.
    pub fn now(&self) -> Moment {
        self.machine.now()
    }

    /// The same callers, whose stores are what `wrap` makes of them.
    #[must_use]
    pub fn wrapped(mut self, wrap: impl Fn(Box<dyn Store>) -> Box<dyn Store>) -> Self {
        self.callers = self.callers.into_iter().map(|(me, store)| (me, wrap(store))).collect();
        self
    }
}

impl World for Callers {
    fn store(&self, caller: usize) -> &dyn Store {
        &*self.callers[caller].1
    }

    fn me(&self, caller: usize) -> &Identity {
        &self.callers[caller].0
    }

    fn pass(&self, secs: u64) {
        self.machine.advance_secs(secs);
    }

    fn kill(&self, caller: usize) {
        self.machine.end_process(self.callers[caller].0.pid);
    }

    fn fresh(&self) -> u128 {
        self.machine.random().expect("the fake machine has bits")
    }

    fn network(&self) -> Option<&dyn Network> {
        self.network.as_deref()
    }
}

impl Network for MemEngine {
    fn fail(&self, of: Of, spared: usize, fault: Fault) {
        self.fail(of, spared, fault);
    }

    fn deliver(&self) -> usize {
        self.deliver()
    }

    fn set_away(&self, is_away: bool) {
        self.set_away(is_away);
    }

    fn elect(&self) {
        self.elect();
    }
}

/// An engine in memory.
pub fn memory() -> Callers {
    engine(|engine| engine)
}

/// An engine in memory, of which `spoil` makes the one that is used.
pub fn engine<E: Engine>(spoil: impl Fn(MemEngine) -> E) -> Callers {
    let machine = Arc::new(FakeMachine::new());
    let engine = MemEngine::new(machine.clone());
    let space = LockName::new("acme").expect("a good name");
    let open = |me: Identity| -> Box<dyn Store> {
        let location = PathBuf::from("memory:/acme");
        let store = SwapStore::new(spoil(engine.clone()), &space, location, machine.clone(), me);
        store.create_space("9f2c04ab", &Call::UNLIMITED).expect("nothing is in the way");
        Box::new(store)
    };
    let callers = Callers::new(machine.clone(), &open);
    Callers { network: Some(Box::new(engine)), ..callers }
}

/// Files on a disk in memory.
pub fn files() -> Callers {
    files_on(&(Arc::new(MemDisk::new()) as Arc<dyn Disk>))
}

/// Files on this disk.
pub fn files_on(disk: &Arc<dyn Disk>) -> Callers {
    let machine = Arc::new(FakeMachine::new());
    let root = Path::new("/root-of-the-test");
    let open = |me| -> Box<dyn Store> { Box::new(FileStore::with(root, Arc::clone(disk), machine.clone(), me)) };
    Callers::new(machine.clone(), &open)
}

/// Files on a real disk.
pub fn real_files() -> Callers {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let machine = Arc::new(FakeMachine::new());
    let root = dir.path().join("root");
    let open = |me| -> Box<dyn Store> {
        let (disk, _) = OsDisk::create(&root).expect("a new root");
        Box::new(FileStore::with(&root, Arc::new(disk), machine.clone(), me))
    };
    let callers = Callers::new(machine.clone(), &open);
    Callers { _dir: Some(dir), ..callers }
}
