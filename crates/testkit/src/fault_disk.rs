//! A disk that fails, tears or dies at its n-th call.
//!
//! Run a command once to count its calls, then once per call and fault. `Die` stands for `SIGKILL` (and, together with
//! [`MemDisk::power_cut`](crate::mem_disk::MemDisk::power_cut), for a power cut): from that call on nothing reaches the disk any more,
//! whatever the program does in its error paths.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lokt_sys::changes::Changes;
use lokt_sys::disk::{Disk, Entry, LockedFile, Mount, NewFile, NoMutex, Opening, PulseFile, Stamp, Unlock, Unnamed};
use lokt_sys::wakeup::Wakeup;

use crate::tally::{self, Trial};

/// What happens at the chosen call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this errno and does nothing; later ones work.
    Errno(i32),
    /// The call writes half of its bytes, then fails with this errno.
    Torn(i32),
    /// The process dies before the call takes effect.
    DieBefore,
    /// The process dies right after the call took effect.
    DieAfter,
}

/// The n-th call of a disk goes wrong.
pub struct FaultDisk {
    inner: Arc<dyn Disk>,
    plan: Arc<Plan>,
}

struct Plan {
    calls: AtomicUsize,
    at: usize,
    fault: Fault,
}

enum Step {
    Go,
    GoThenDie,
    Half(io::Error),
    Fail(io::Error),
}

impl FaultDisk {
    /// A disk that only counts.
    pub fn counting(inner: Arc<dyn Disk>) -> Self {
        Self::new(inner, usize::MAX, Fault::DieBefore)
    }

    /// A disk whose call number `at` (from 0) suffers `fault`.
    pub fn new(inner: Arc<dyn Disk>, at: usize, fault: Fault) -> Self {
        Self { inner, plan: Arc::new(Plan { calls: AtomicUsize::new(0), at, fault }) }
    }

    /// How many calls were made.
    pub fn calls(&self) -> usize {
        self.plan.calls.load(Ordering::SeqCst)
    }

    fn run<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        self.plan.run(work)
    }

    fn run_write<T>(&self, bytes: &[u8], work: impl Fn(&[u8]) -> io::Result<T>) -> io::Result<T> {
        match self.plan.step() {
            Step::Half(error) => {
                let _ = work(&bytes[..bytes.len() / 2]);
                Err(error)
            }
            Step::Fail(error) => Err(error),
            Step::Go => work(bytes),
            Step::GoThenDie => work(bytes).and(Err(dead())),
        }
    }
}

impl Plan {
    fn step(&self) -> Step {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        if call == self.at {
            tally::count(Trial::Fault);
        }
        match self.fault {
            Fault::DieBefore if call >= self.at => Step::Fail(dead()),
            Fault::DieAfter if call > self.at => Step::Fail(dead()),
            Fault::DieAfter if call == self.at => Step::GoThenDie,
            Fault::Errno(errno) if call == self.at => Step::Fail(io::Error::from_raw_os_error(errno)),
            Fault::Torn(errno) if call == self.at => Step::Half(io::Error::from_raw_os_error(errno)),
            _ => Step::Go,
        }
    }

    fn run<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match self.step() {
            Step::Go => work(),
            Step::GoThenDie => work().and(Err(dead())),
            Step::Half(error) | Step::Fail(error) => Err(error),
        }
    }
}

fn dead() -> io::Error {
    io::Error::other("the process is dead")
}

impl Disk for FaultDisk {
    fn read(&self, path: &str, limit: usize) -> io::Result<Entry> {
        self.run(|| self.inner.read(path, limit))
    }

    fn open(&self, path: &str) -> io::Result<Opening> {
        self.run(|| self.inner.open(path))
    }

    fn tail(&self, path: &str, limit: usize) -> io::Result<Vec<u8>> {
        self.run(|| self.inner.tail(path, limit))
    }

    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn NewFile>> {
        let file = self.run_write(bytes, |bytes| self.inner.create(path, bytes))?;
        Ok(Box::new(FaultFile { inner: file, plan: self.plan.clone() }))
    }

    fn overwrite(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.run_write(bytes, |bytes| self.inner.overwrite(path, bytes))
    }

    fn append(&self, path: &str, bytes: &[u8]) -> io::Result<u64> {
        self.run_write(bytes, |bytes| self.inner.append(path, bytes))
    }

    fn cut(&self, path: &str, size: u64) -> io::Result<()> {
        self.run(|| self.inner.cut(path, size))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.run(|| self.inner.rename(from, to))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.run(|| self.inner.rename_new(from, to))
    }

    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        self.run(|| self.inner.exchange(one, other))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.run(|| self.inner.remove(path))
    }

    fn stamp(&self, path: &str) -> io::Result<Option<Stamp>> {
        self.run(|| self.inner.stamp(path))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.run(|| self.inner.list(dir))
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        self.run(|| self.inner.sync(path))
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.run(|| self.inner.sync_dir(dir))
    }

    fn create_as(&self, path: &str, bytes: &[u8], mode: u32) -> io::Result<Box<dyn NewFile>> {
        let file = self.run_write(bytes, |bytes| self.inner.create_as(path, bytes, mode))?;
        Ok(Box::new(FaultFile { inner: file, plan: self.plan.clone() }))
    }

    fn unnamed<'d>(&'d self, bytes: &[u8], mode: u32) -> io::Result<Box<dyn Unnamed + 'd>> {
        let file = self.run_write(bytes, |bytes| self.inner.unnamed(bytes, mode))?;
        Ok(Box::new(FaultUnnamed { inner: file, plan: self.plan.clone() }))
    }

    fn link(&self, path: &str, to: &str) -> io::Result<()> {
        self.run(|| self.inner.link(path, to))
    }

    fn make_dir(&self, dir: &str) -> io::Result<()> {
        self.run(|| self.inner.make_dir(dir))
    }

    fn each_name(&self, dir: &str, see: &mut dyn FnMut(&str)) -> io::Result<()> {
        let names = self.run(|| {
            let mut names: Vec<String> = Vec::new();
            self.inner.each_name(dir, &mut |name| names.push(name.to_owned()))?;
            Ok(names)
        })?;
        for name in &names {
            see(name);
        }
        Ok(())
    }

    fn sync_fs(&self) -> io::Result<()> {
        self.run(|| self.inner.sync_fs())
    }

    fn probe(&self, path: &str) -> io::Result<Option<LockedFile>> {
        self.run(|| self.inner.probe(path))
    }

    fn create_pulse(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn PulseFile>> {
        let file = self.run_write(bytes, |bytes| self.inner.create_pulse(path, bytes))?;
        Ok(Box::new(FaultPulse { inner: file, plan: self.plan.clone() }))
    }

    fn refresh(&self, dir: &str) {
        self.inner.refresh(dir);
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.run(|| self.inner.remove_dir(dir))
    }

    fn watch(&self, path: &str, bell: &Wakeup) -> io::Result<bool> {
        self.run(|| self.inner.watch(path, bell))
    }

    fn changes(&self, path: &str) -> io::Result<Changes> {
        self.run(|| self.inner.changes(path))
    }

    fn is_current(&self) -> io::Result<bool> {
        self.run(|| self.inner.is_current())
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn mount(&self) -> Mount {
        self.inner.mount()
    }

    fn lock(&self, patience: Duration) -> Result<Box<dyn Unlock>, NoMutex> {
        match self.plan.step() {
            Step::Go | Step::Half(_) => self.inner.lock(patience),
            // Dying with the mutex is dying: the kernel drops it.
            Step::GoThenDie => Err(NoMutex::Io(dead())),
            Step::Fail(error) => Err(NoMutex::Io(error)),
        }
    }
}

struct FaultPulse {
    inner: Box<dyn PulseFile>,
    plan: Arc<Plan>,
}

impl PulseFile for FaultPulse {
    fn id(&self) -> (u64, u64) {
        self.inner.id()
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.plan.run(|| self.inner.write(bytes))
    }

    fn let_go(&self) {
        // Letting go can't fail, and the dead let go of everything.
        self.inner.let_go();
    }

    fn inheritable(&self) -> io::Result<OwnedFd> {
        self.plan.run(|| self.inner.inheritable())
    }
}

struct FaultUnnamed<'d> {
    inner: Box<dyn Unnamed + 'd>,
    plan: Arc<Plan>,
}

impl Unnamed for FaultUnnamed<'_> {
    fn sync(&self) -> io::Result<()> {
        self.plan.run(|| self.inner.sync())
    }

    fn stamp(&self) -> io::Result<Stamp> {
        self.plan.run(|| self.inner.stamp())
    }

    fn link(&self, path: &str) -> io::Result<()> {
        self.plan.run(|| self.inner.link(path))
    }
}

struct FaultFile {
    inner: Box<dyn NewFile>,
    plan: Arc<Plan>,
}

impl NewFile for FaultFile {
    fn sync(&self) -> io::Result<()> {
        self.plan.run(|| self.inner.sync())
    }

    fn keep_locked(&self) -> io::Result<()> {
        self.plan.run(|| self.inner.keep_locked())
    }
}
