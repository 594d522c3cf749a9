//! Since when something has been as it is, by our own clock: what proves an end where nothing else does.
//!
//! The first sighting is kept beside the chain, one file for each boot of each machine, so that commands that ask once and again add up.
//! Boot clocks of another time namespace mean nothing to others; there the sighting lasts as long as the process.

use lokt_core::lease::names::File;
use lokt_core::lease::sighting::Sighting;
use lokt_core::time::Moment;

use super::Worktree;
use crate::sys::disk::Entry;

/// A sighting is a line.
const SIGHTING_BYTES_MAX: usize = 4096;

/// What was seen, and when first.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    seen: Option<(String, u64)>,
}

impl Worktree {
    /// So long before `now` it was first seen to be what `identity` says, by anybody on this boot. A first look is noted, with a clock that is
    /// read now: `now` was read before the thing itself, which may have become what it is since.
    pub(crate) fn seen_for(&self, identity: &str, now: &Moment, sight: &mut Sight) -> u64 {
        let known = sight.seen.as_ref().filter(|(seen, _)| seen == identity).map(|(_, at)| *at);
        let kept = self.watch_file().and_then(|path| self.kept_sighting(&path, identity));
        let late = self.repo.machine.now().boottime_ms;
        let first = [known, kept].into_iter().flatten().filter(|at| *at <= late).min().unwrap_or(late);
        if kept.is_none() {
            self.keep_sighting(identity, first);
        }
        sight.seen = Some((identity.to_owned(), first));
        now.boottime_ms.saturating_sub(first)
    }

    fn watch_file(&self) -> Option<String> {
        let me = &self.repo.me;
        let boot = me.boot_id.as_ref().filter(|_| me.boot_clocks)?;
        Some(self.chain_file(&File::Watch(boot.clone())))
    }

    fn kept_sighting(&self, path: &str, identity: &str) -> Option<u64> {
        let Entry::File(content) = self.repo.disk.read(path, SIGHTING_BYTES_MAX).ok()? else { return None };
        let kept = Sighting::parse(&content.bytes).filter(|kept| kept.identity == identity)?;
        Some(kept.boottime_ms)
    }

    /// Best effort: without it only this process knows.
    fn keep_sighting(&self, identity: &str, at: u64) {
        let (Some(path), Ok(nonce)) = (self.watch_file(), self.random()) else { return };
        let disk = &self.repo.disk;
        let temp = format!("{}/.lokt-{nonce:032x}.tmp", self.chain_dir());
        let bytes = Sighting { identity: identity.to_owned(), boottime_ms: at }.to_bytes();
        let Ok(file) = disk.create_as(&temp, &bytes, 0o644) else { return };
        if disk.rename(&temp, &path).is_err() {
            let _ = disk.remove(&temp);
        }
        drop(file);
    }
}
