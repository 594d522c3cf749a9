//! A disk that does something else first: whatever happens between two calls of a command is put there by a test.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lokt_sys::changes::Changes;
use lokt_sys::disk::{Disk, Entry, LockedFile, Mount, NewFile, NoMutex, Opening, PulseFile, Stamp, Unlock, Unnamed};
use lokt_sys::wakeup::Wakeup;

use crate::tally::{self, Trial};

/// Called before each call that changes or looks at a path, with the call's name and its first path. An error is the call's answer.
pub type Hook = dyn Fn(&str, &str) -> io::Result<()> + Send + Sync;

/// A disk with a hook before its calls.
pub struct HookDisk {
    inner: Arc<dyn Disk>,
    hook: Arc<Hook>,
}

impl HookDisk {
    /// `inner`, with `hook` before its calls.
    pub fn new(inner: Arc<dyn Disk>, hook: Arc<Hook>) -> Self {
        // What is done is the hook's business; it is done once for each disk that a test makes.
        tally::count(Trial::Fault);
        Self::watched(inner, hook)
    }

    /// The same, with a hook that only looks on.
    pub fn watched(inner: Arc<dyn Disk>, hook: Arc<Hook>) -> Self {
        Self { inner, hook }
    }
}

impl Disk for HookDisk {
    fn read(&self, path: &str, limit: usize) -> io::Result<Entry> {
        (self.hook)("read", path)?;
        self.inner.read(path, limit)
    }

    fn open(&self, path: &str) -> io::Result<Opening> {
        (self.hook)("open", path)?;
        self.inner.open(path)
    }

    fn tail(&self, path: &str, limit: usize) -> io::Result<Vec<u8>> {
        (self.hook)("tail", path)?;
        self.inner.tail(path, limit)
    }

    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn NewFile>> {
        (self.hook)("create", path)?;
        self.inner.create(path, bytes)
    }

    fn overwrite(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        (self.hook)("overwrite", path)?;
        self.inner.overwrite(path, bytes)
    }

    fn append(&self, path: &str, bytes: &[u8]) -> io::Result<u64> {
        (self.hook)("append", path)?;
        self.inner.append(path, bytes)
    }

    fn cut(&self, path: &str, size: u64) -> io::Result<()> {
        (self.hook)("cut", path)?;
        self.inner.cut(path, size)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        (self.hook)("rename", from)?;
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        (self.hook)("rename_new", from)?;
        self.inner.rename_new(from, to)
    }

    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        (self.hook)("exchange", one)?;
        self.inner.exchange(one, other)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        (self.hook)("remove", path)?;
        self.inner.remove(path)
    }

    fn stamp(&self, path: &str) -> io::Result<Option<Stamp>> {
        (self.hook)("stamp", path)?;
        self.inner.stamp(path)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        (self.hook)("list", dir)?;
        self.inner.list(dir)
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        (self.hook)("sync", path)?;
        self.inner.sync(path)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        (self.hook)("sync_dir", dir)?;
        self.inner.sync_dir(dir)
    }

    fn create_as(&self, path: &str, bytes: &[u8], mode: u32) -> io::Result<Box<dyn NewFile>> {
        (self.hook)("create_as", path)?;
        self.inner.create_as(path, bytes, mode)
    }

    fn unnamed<'d>(&'d self, bytes: &[u8], mode: u32) -> io::Result<Box<dyn Unnamed + 'd>> {
        (self.hook)("unnamed", "")?;
        Ok(Box::new(HookUnnamed { inner: self.inner.unnamed(bytes, mode)?, hook: self.hook.clone() }))
    }

    fn link(&self, path: &str, to: &str) -> io::Result<()> {
        (self.hook)("link", to)?;
        self.inner.link(path, to)
    }

    fn make_dir(&self, dir: &str) -> io::Result<()> {
        (self.hook)("make_dir", dir)?;
        self.inner.make_dir(dir)
    }

    fn each_name(&self, dir: &str, see: &mut dyn FnMut(&str)) -> io::Result<()> {
        (self.hook)("each_name", dir)?;
        self.inner.each_name(dir, see)
    }

    fn sync_fs(&self) -> io::Result<()> {
        (self.hook)("sync_fs", "")?;
        self.inner.sync_fs()
    }

    fn probe(&self, path: &str) -> io::Result<Option<LockedFile>> {
        (self.hook)("probe", path)?;
        self.inner.probe(path)
    }

    fn create_pulse(&self, path: &str, bytes: &[u8]) -> io::Result<Box<dyn PulseFile>> {
        (self.hook)("create_pulse", path)?;
        self.inner.create_pulse(path, bytes)
    }

    fn refresh(&self, dir: &str) {
        self.inner.refresh(dir);
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        (self.hook)("remove_dir", dir)?;
        self.inner.remove_dir(dir)
    }

    fn watch(&self, path: &str, bell: &Wakeup) -> io::Result<bool> {
        (self.hook)("watch", path)?;
        self.inner.watch(path, bell)
    }

    fn changes(&self, path: &str) -> io::Result<Changes> {
        (self.hook)("changes", path)?;
        self.inner.changes(path)
    }

    fn is_current(&self) -> io::Result<bool> {
        self.inner.is_current()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn mount(&self) -> Mount {
        self.inner.mount()
    }

    fn lock(&self, patience: Duration) -> Result<Box<dyn Unlock>, NoMutex> {
        self.inner.lock(patience)
    }
}

struct HookUnnamed<'d> {
    inner: Box<dyn Unnamed + 'd>,
    hook: Arc<Hook>,
}

impl Unnamed for HookUnnamed<'_> {
    fn sync(&self) -> io::Result<()> {
        (self.hook)("unnamed_sync", "")?;
        self.inner.sync()
    }

    fn stamp(&self) -> io::Result<Stamp> {
        self.inner.stamp()
    }

    fn link(&self, path: &str) -> io::Result<()> {
        (self.hook)("unnamed_link", path)?;
        self.inner.link(path)
    }
}
