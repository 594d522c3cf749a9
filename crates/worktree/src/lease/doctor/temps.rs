//! Temporary files of processes that were killed while writing them.

use lokt_core::lease::record::{Parsed, RECORD_BYTES_MAX, parse};
use lokt_core::lease::slot::tag;

use super::{Exam, Finding, LEFT_BEHIND_MS, finding};
use crate::snapshot::places::{DESCRIPTORS, PINS, SNAPSHOTS, TOMBSTONES};
use lokt_sys::disk::{Entry, Stamp};
use lokt_sys::error::Error;
use lokt_sys::keepers::is_open;

/// Part of the name of files that other tools are about to rename to a lock.
const THEIRS: &str = ".lock.tmp";
const OURS: &str = ".lokt-";
/// Directories in which files about snapshots are replaced.
const OF_SNAPSHOTS: [&str; 4] = [SNAPSHOTS, DESCRIPTORS, TOMBSTONES, PINS];

impl Exam<'_> {
    pub(super) fn temps(&self) -> Vec<Finding> {
        let mut dirs: Vec<String> = ["", "locks"].iter().chain(&OF_SNAPSHOTS).map(ToString::to_string).collect();
        for parent in ["locks", "worktrees", "staging"] {
            let names = self.repo.disk.list(parent).unwrap_or_default();
            let is_dir = |name: &&String| parent != "locks" || name.ends_with(".lock.d");
            dirs.extend(names.iter().filter(is_dir).map(|name| format!("{parent}/{name}")));
        }
        dirs.iter().flat_map(|dir| self.temps_in(dir)).collect()
    }

    fn temps_in(&self, dir: &str) -> Vec<Finding> {
        let names = self.repo.disk.list(dir).unwrap_or_default();
        let is_temp = |name: &&String| name.starts_with(OURS) || (dir == "locks" && is_theirs(name));
        let paths = names.iter().filter(is_temp).map(|name| match dir {
            "" => name.clone(),
            dir => format!("{dir}/{name}"),
        });
        paths.filter_map(|path| self.temp(&path)).collect()
    }

    fn temp(&self, path: &str) -> Option<Finding> {
        let judged = self.judge(path)?;
        let whose = if is_theirs(path) { "another program" } else { "lokt" };
        let problem = format!("a temporary file that {whose} left behind");
        let finding = finding::warn("orphan_temp", self.at(path), problem).fixable("remove it");
        self.mend(finding, || {
            let now = self.judge(path);
            now.filter(|now| *now == judged).map_or(Ok(false), |_| self.remove_orphan(path, &judged))
        })
    }

    fn remove_orphan(&self, path: &str, judged: &Stamp) -> Result<bool, Error> {
        if is_theirs(path) {
            return self.remove_judged(path, judged);
        }
        // Names of ours are never reused.
        self.repo.disk.remove(path).map(|()| true).map_err(|error| Error::io("remove", &self.at(path), error))
    }

    /// Returns the file, if no process can need it any more: it is older than what it may be a part
    /// of, and neither open nor locked.
    fn judge(&self, path: &str) -> Option<Stamp> {
        let file = self.repo.disk.probe(path).ok()??;
        let bytes = match self.repo.disk.read(path, RECORD_BYTES_MAX).ok()? {
            Entry::File(content) => content.bytes,
            Entry::TooBig(_) => Vec::new(),
            Entry::Missing | Entry::NotRegular(_) => return None,
        };
        let own = self.repo.own_policy().steal_after_ms();
        let (limit_ms, is_lease) = match parse(&bytes) {
            Parsed::Record(record) => (own.max(record.policy.clamped().steal_after_ms()), true),
            Parsed::Corrupt(_) => (own, tag(&bytes).is_some()),
        };
        // A file of ours may be a view that was removed for a moment, and was written long ago.
        let may_be_view = is_lease && !is_theirs(path);
        let age_ms = if may_be_view { self.unmoved_ms(path) } else { self.unwritten_ms(&file.stamp) };
        let is_left = age_ms > limit_ms.max(LEFT_BEHIND_MS) && !file.locked;
        (is_left && !is_open((file.stamp.dev, file.stamp.ino))).then_some(file.stamp)
    }
}

/// Reports whether a file is another program's, and not the view or the chain of a worktree with
/// such a name.
fn is_theirs(name: &str) -> bool {
    let is_ours = |end: &&str| name.ends_with(*end);
    name.contains(THEIRS) && ![".lock", ".lock.d"].iter().any(is_ours)
}
