//! Work in progress: announced before the first file is copied, withdrawn after the last step. A
//! killed process leaves its intent behind, and every other process can see that its pulse has
//! stopped.

use lokt_core::liveness::is_local;
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::intent::{Intent, Operation, Pulse, State};
use lokt_core::time::millis_between;

use super::places::INTENTS;
use crate::repo::{FILE_MODE, Repository};
use lokt_sys::disk::{Entry, PulseFile};
use lokt_sys::error::{At as _, Error};

/// Maximum size of an intent in bytes.
const BYTES_MAX: usize = 1 << 16;
/// Time in ms after which an unlocked pulse without an intent is stray. No process takes this long
/// to announce its intent once its pulse exists, or to remove the pulse.
const STRAY_MS: i64 = 60_000;

/// An intent of this process, until it is dropped.
pub(crate) struct Announced<'r> {
    repo: &'r Repository,
    file: String,
    pulse_file: String,
    pulse: Box<dyn PulseFile>,
}

/// State of an intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pursuit {
    /// A process is working on it.
    Running,
    /// No process is working on it any more.
    Dead,
    /// Its process can't be checked from here.
    Unknown,
}

/// The work to announce.
pub(crate) struct Plan<'a> {
    pub(crate) operation: Operation,
    /// The name of its file: `snapshot-<id>`, `restore-<nonce>`.
    pub(crate) name: &'a str,
    pub(crate) snapshot_id: &'a SnapshotId,
    pub(crate) worktree: &'a str,
    pub(crate) token: Option<u64>,
}

/// The announced work of a repository.
pub(crate) struct Intents<'r> {
    pub(crate) repo: &'r Repository,
}

impl<'r> Intents<'r> {
    /// Announces work. Not synced: after a power cut no process is working on anything.
    pub(crate) fn announce(self, plan: &Plan<'_>) -> Result<Announced<'r>, Error> {
        self.repo.make_place(INTENTS)?;
        let (file, pulse_file) = (format!("{INTENTS}/{}.json", plan.name), format!("{INTENTS}/{}.pulse", plan.name));
        // First: an intent whose pulse is missing counts as that of a dead process.
        let pulse = self.repo.disk.create_pulse(&pulse_file, b"").at("make", &self.repo.path, &pulse_file)?;
        let intent = Intent {
            intent_id: format!("{:032x}", self.repo.random()?),
            operation: plan.operation.clone(),
            snapshot_id: plan.snapshot_id.clone(),
            worktree_id: plan.worktree.to_owned(),
            created_at: self.repo.machine.now().wall,
            state: State::Active,
            completed_at: None,
            token: plan.token,
            boot_id: self.repo.me.boot_id.clone(),
            pid: u64::try_from(self.repo.me.pid).ok(),
            pulse: Some(Pulse { dev: pulse.id().0, ino: pulse.id().1 }),
            fs: self.repo.me.fs,
        };
        let announced = Announced { repo: self.repo, file, pulse_file, pulse };
        let made = self.repo.disk.create_as(&announced.file, &intent.to_bytes(), FILE_MODE);
        made.map(drop).at("write", &self.repo.path, &announced.file)?;
        Ok(announced)
    }

    /// Returns every intent, running or not: the name of its file, its content, and its state. An
    /// unreadable one has no content.
    pub(crate) fn all(&self) -> Result<Vec<(String, Option<Intent>, Pursuit)>, Error> {
        let names = self.repo.disk.list(INTENTS).at("list", &self.repo.path, INTENTS)?;
        let mut intents = Vec::new();
        for name in names.iter().filter_map(|name| name.strip_suffix(".json")) {
            let path = format!("{INTENTS}/{name}.json");
            match self.repo.disk.read(&path, BYTES_MAX).at("read", &self.repo.path, &path)? {
                Entry::Missing => {}
                Entry::File(content) => {
                    let intent = Intent::parse(&content.bytes).ok();
                    let pursuit = intent.as_ref().map_or(Pursuit::Unknown, |intent| self.pursuit(name, intent));
                    intents.push((name.to_owned(), intent, pursuit));
                }
                Entry::NotRegular(_) | Entry::TooBig(_) => intents.push((name.to_owned(), None, Pursuit::Unknown)),
            }
        }
        Ok(intents)
    }

    /// Returns the state of an intent.
    fn pursuit(&self, name: &str, intent: &Intent) -> Pursuit {
        // If another program says that it is done, no process is working on it.
        if intent.state != State::Active {
            return Pursuit::Dead;
        }
        let Some(pulse) = intent.pulse else { return Pursuit::Unknown };
        if intent.boot_id.is_none() || intent.boot_id != self.repo.me.boot_id {
            // That boot has ended, if it was on this machine: only then both see a local file
            // system.
            let both_local = is_local(intent.fs) && is_local(self.repo.me.fs) && intent.boot_id.is_some();
            return if both_local { Pursuit::Dead } else { Pursuit::Unknown };
        }
        match self.repo.disk.probe(&format!("{INTENTS}/{name}.pulse")) {
            Ok(Some(found)) if found.locked && (found.stamp.dev, found.stamp.ino) == (pulse.dev, pulse.ino) => {
                Pursuit::Running
            }
            // Another file has that name, or none: its own pulse is gone, because the work is done
            // or was cleaned up.
            Ok(_) => Pursuit::Dead,
            Err(_) => Pursuit::Unknown,
        }
    }

    /// Reports whether the process that created a pulse was killed before it could announce its
    /// intent, or after it had withdrawn that. The pulse's lock tells, where every process sees it;
    /// where it can't be seen, only time does.
    pub(crate) fn was_left_at_once(&self, name: &str) -> bool {
        let Ok(Some(found)) = self.repo.disk.probe(&format!("{INTENTS}/{name}.pulse")) else { return false };
        let clock = self.repo.disk.file_clock().ok().flatten();
        let age_ms = clock.map_or(0, |now| millis_between(found.stamp.modified, now));
        !found.locked && age_ms > STRAY_MS
    }

    /// Removes an intent that no process is working on.
    pub(crate) fn forget(&self, name: &str) -> Result<(), Error> {
        for kind in ["json", "pulse"] {
            let path = format!("{INTENTS}/{name}.{kind}");
            self.repo.disk.remove(&path).at("remove", &self.repo.path, &path)?;
        }
        Ok(())
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        // The intent first: without a pulse it would count as that of a dead process, which this
        // one isn't while it cleans up.
        let _ = self.repo.disk.remove(&self.file);
        self.pulse.let_go();
        let _ = self.repo.disk.remove(&self.pulse_file);
    }
}

impl Announced<'_> {
    /// Leaves it behind, for a process that finds out what became of the work.
    pub(crate) fn leave(self) {
        self.pulse.let_go();
        std::mem::forget(self);
    }
}
