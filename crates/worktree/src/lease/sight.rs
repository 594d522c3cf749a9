//! Tracks how long an object has been unchanged, by our own clock: proof that a lease has ended, if
//! there is no better one.
//!
//! The first sighting is stored beside the chain, one file per boot of each machine, so that the
//! times of consecutive commands add up. The boot clock of a time namespace means nothing outside
//! of it; there the sighting lasts as long as the process.

use super::chain::Chain;
use crate::repo::Repository;
use lokt_core::lease::names::File;
use lokt_core::lease::sighting::Sighting;
use lokt_core::name::LockName;
use lokt_core::time::Moment;

use lokt_sys::disk::Entry;

/// Maximum size of a stored sighting in bytes: it is one line.
const SIGHTING_BYTES_MAX: usize = 4096;

/// The identity of an object, and when it was first seen.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    seen: Option<(String, u64)>,
}

/// The stored first sightings of a worktree's lease, one for each boot.
#[derive(Clone, Copy)]
pub(crate) struct Sightings<'w> {
    pub(super) repo: &'w Repository,
    pub(super) name: &'w LockName,
}

impl Sightings<'_> {
    fn chain(&self) -> Chain<'_> {
        Chain { repo: self.repo, name: self.name }
    }

    /// Returns how long (in ms, on this boot) the object with this `identity` has been unchanged. A
    /// first sighting is noted with a clock that is read now: `now` was read before the object,
    /// which may have changed since.
    pub(crate) fn seen_for(&self, identity: &str, now: &Moment, sight: &mut Sight) -> u64 {
        let known = sight.seen.as_ref().filter(|(seen, _)| seen == identity).map(|(_, at)| *at);
        let kept = self.path().and_then(|path| self.stored(&path, identity));
        let late = self.repo.machine.now().boottime_ms;
        let first = [known, kept].into_iter().flatten().filter(|at| *at <= late).min().unwrap_or(late);
        if kept.is_none() {
            self.store(identity, first);
        }
        sight.seen = Some((identity.to_owned(), first));
        now.boottime_ms.saturating_sub(first)
    }

    fn path(&self) -> Option<String> {
        let me = &self.repo.me;
        let boot = me.boot_id.as_ref().filter(|_| me.boot_clocks)?;
        Some(self.chain().file(&File::Watch(boot.clone())))
    }

    fn stored(&self, path: &str, identity: &str) -> Option<u64> {
        let Entry::File(content) = self.repo.disk.read(path, SIGHTING_BYTES_MAX).ok()? else { return None };
        let kept = Sighting::parse(&content.bytes).filter(|kept| kept.identity == identity)?;
        Some(kept.boottime_ms)
    }

    /// Best effort: without the file, only this process knows.
    fn store(&self, identity: &str, at: u64) {
        let (Some(path), Ok(nonce)) = (self.path(), self.repo.random()) else { return };
        let disk = &self.repo.disk;
        let temp = format!("{}/.lokt-{nonce:032x}.tmp", self.chain().dir());
        let bytes = Sighting { identity: identity.to_owned(), boottime_ms: at }.to_bytes();
        let Ok(file) = disk.create_as(&temp, &bytes, 0o644) else { return };
        if disk.rename(&temp, &path).is_err() {
            let _ = disk.remove(&temp);
        }
        drop(file);
    }
}
