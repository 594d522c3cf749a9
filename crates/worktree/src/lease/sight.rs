//! Since when something has been as it is, by our own clock: what proves an end where nothing else does.
//!
//! The first sighting is kept beside the chain, one file for each boot of each machine, so that commands that ask once and again add up.
//! Boot clocks of another time namespace mean nothing to others; there the sighting lasts as long as the process.

use super::chain::Chain;
use crate::repo::Repository;
use lokt_core::lease::names::File;
use lokt_core::lease::sighting::Sighting;
use lokt_core::name::LockName;
use lokt_core::time::Moment;

use lokt_sys::disk::Entry;

/// A sighting is a line.
const SIGHTING_BYTES_MAX: usize = 4096;

/// What was seen, and when first.
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

    /// How long, on this boot, the object with this `identity` has been unchanged. A first sighting
    /// is noted with a clock that is read now: `now` was read before the object, which may have
    /// changed since.
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

    /// Best effort: without it only this process knows.
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
