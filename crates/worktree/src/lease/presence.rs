//! The presence of a process that a lease is bound to: a locked file beside the links, its pulse.
//!
//! The kernel releases the lock when the process and every command that inherited it have ended.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use lokt_core::hold::PulseRef;
use lokt_core::lease::names::File;
use lokt_core::pulse::{ProcessRef, Pulse};
use lokt_core::record::RECORD_BYTES_MAX;

use crate::lease::Worktree;
use lokt_sys::disk::{Disk, Entry, PulseFile};
use lokt_sys::error::{At as _, Error};

/// Maximum number of dead processes' pulses that one grant removes.
const GONE_MAX: usize = 64;
/// Bits of a pulse's number: every JSON parser can represent it.
const NUMBER_BITS: u32 = 53;

/// A pulse that is beating.
pub(crate) struct Presence {
    disk: Arc<dyn Disk>,
    path: String,
    number: u64,
    file: Box<dyn PulseFile>,
}

impl Presence {
    /// Creates a pulse with this content.
    pub(crate) fn create(worktree: &Worktree, content: &[u8]) -> Result<Self, Error> {
        let repo = &worktree.repo;
        let number = u64::try_from(repo.random()? & ((1 << NUMBER_BITS) - 1)).unwrap_or(0);
        let path = worktree.chain().file(&File::Pulse(number));
        let disk = Arc::clone(&repo.disk);
        let file = disk.create_pulse(&path, content).at("write", &repo.path, &path)?;
        Ok(Self { disk, path, number, file })
    }

    /// Removes the pulses of killed processes. The caller holds the lease, so that no record names
    /// another pulse. One without content, or of a process that can't be checked, may still begin.
    pub(crate) fn tidy(&self, worktree: &Worktree) {
        let (repo, dir) = (&worktree.repo, worktree.chain().dir());
        let pulses = self.disk.list(&dir).unwrap_or_default().into_iter();
        let pulses = pulses.filter(|name| matches!(File::parse(name), File::Pulse(number) if number != self.number));
        for name in pulses.take(GONE_MAX) {
            let path = format!("{dir}/{name}");
            let unlocked = matches!(self.disk.probe(&path), Ok(Some(probe)) if !probe.locked);
            let content = match self.disk.read(&path, RECORD_BYTES_MAX) {
                Ok(Entry::File(content)) if unlocked => Pulse::parse(&content.bytes),
                _ => None,
            };
            let gone = |pulse: &Pulse| {
                let ProcessRef { pid, start } = pulse.process;
                let stat = repo.machine.process(pid);
                pulse.pid_ns == repo.me.pid_ns && !stat.is_some_and(|stat| stat.may_be(start) && !stat.has_ended())
            };
            if content.is_some_and(|pulse| gone(&pulse)) {
                let _ = self.disk.remove(&path);
            }
        }
    }

    /// Returns the reference by which a record names it.
    pub(crate) fn reference(&self) -> PulseRef {
        let (dev, ino) = self.file.id();
        PulseRef { number: self.number, dev, ino }
    }

    /// Returns a descriptor that keeps it beating, for a command to inherit.
    pub(crate) fn inheritable(&self) -> io::Result<OwnedFd> {
        self.file.inheritable()
    }

    /// Returns the file of the pulse, for a command that is recorded in it before it runs.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.descriptor()?.try_clone_to_owned()
    }

    /// Stops it, also for every process that inherited it.
    pub(crate) fn let_go(&self) {
        self.file.let_go();
    }

    /// Stops it, and removes its file if that is still its own: no record names it any more.
    pub(crate) fn end(&self) {
        let stamp = self.disk.stamp(&self.path).ok().flatten();
        if stamp.is_some_and(|stamp| (stamp.dev, stamp.ino) == self.file.id()) {
            // If it can't be removed, others tidy it away once its lock is released.
            let _ = self.disk.remove(&self.path);
        }
        self.let_go();
    }

    /// Stops it, and removes any file of its name.
    pub(crate) fn remove(&self) {
        self.let_go();
        let _ = self.disk.remove(&self.path);
    }
}
