//! The pulse of a lease that hangs on a process: a locked file beside the lease's slots, which the command inherits.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use lokt_core::hold::PulseRef;
use lokt_core::lease::names::File;
use lokt_core::pulse::{ProcessRef, Pulse, Stencil};
use lokt_core::record::RECORD_BYTES_MAX;

use crate::error::{At as _, Error, ErrorKind};
use crate::lease::Worktree;
use crate::store::seat::Profile;
use crate::sys::disk::{Disk, Entry, PulseFile};

/// Pulses of the dead that one grant removes at most.
const GONE_MAX: usize = 64;
/// Numbers that every reader of JSON can read.
const NUMBER_BITS: u32 = 53;

/// A pulse that beats.
pub(super) struct LeasePulse {
    disk: Arc<dyn Disk>,
    path: String,
    number: u64,
    content: Pulse,
    file: Box<dyn PulseFile>,
}

impl LeasePulse {
    /// Begins one.
    pub(super) fn begin(worktree: &Worktree, purpose: Option<String>) -> Result<Self, Error> {
        let repo = &worktree.repo;
        let random = repo
            .machine
            .random()
            .map_err(|error| Error::new(ErrorKind::Io, format!("the system gives no random numbers: {error}")))?;
        let number = u64::try_from(random & ((1 << NUMBER_BITS) - 1)).unwrap_or(0);
        let path = worktree.chain_file(&File::Pulse(number));
        let profile = Profile { reason: purpose, holds: String::new() };
        let content = profile.pulse(worktree.name(), &repo.me, &repo.machine.now());
        let disk = Arc::clone(&repo.disk);
        let file = disk.create_pulse(&path, &content.encode()).at("write", &repo.path, &path)?;
        Ok(Self { disk, path, number, content, file })
    }

    /// Removes the pulses of runs that were killed; to be called by whoever has the lease, when no record names any other pulse. One whose
    /// content isn't there yet, or whose process can't be looked for, may be about to beat.
    pub(super) fn tidy(&self, worktree: &Worktree) {
        let (repo, dir) = (&worktree.repo, worktree.chain_dir());
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

    /// How a record names it.
    pub(super) fn reference(&self) -> PulseRef {
        let (dev, ino) = self.file.id();
        PulseRef { number: self.number, dev, ino }
    }

    /// A descriptor that keeps it beating, for a command to inherit.
    pub(super) fn inheritable(&self) -> io::Result<OwnedFd> {
        self.file.inheritable()
    }

    /// Where a command is to be recorded before it runs, and how: one that closes what it inherited is known by its pid.
    pub(super) fn record(&self) -> io::Result<(OwnedFd, Stencil)> {
        Ok((self.file.descriptor()?.try_clone_to_owned()?, self.content.stencil()))
    }

    /// Stops it, for everyone who inherited it too.
    pub(super) fn let_go(&self) {
        self.file.let_go();
    }

    /// Stops it, and takes its file away: no record names it, or none of ours any more.
    pub(super) fn end(&self) {
        let stamp = self.disk.stamp(&self.path).ok().flatten();
        if stamp.is_some_and(|stamp| (stamp.dev, stamp.ino) == self.file.id()) {
            // What can't be removed is tidied away by others, once its lock is gone.
            let _ = self.disk.remove(&self.path);
        }
        self.let_go();
    }
}
