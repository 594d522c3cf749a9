//! The audit log: `audit.log`, one JSON object per line, rotated to `audit.log.1` … `.9`.
//!
//! Lines are appended inside the mutex, right after the change they describe, so their order is the
//! order of the changes. A failure to write one is a warning: an unlock must not fail because the
//! disk is full.

use std::collections::BTreeMap;

use lokt_core::audit::Event;

use super::FileStore;
use lokt_sys::mutex::Inside;
use lokt_sys::warnings::Warning;

/// The log that is written to.
pub(crate) const LOG: &str = "audit.log";
/// Maximum size of a log in bytes; a longer one is rotated.
pub(crate) const LOG_BYTES_MAX: u64 = 8 << 20;
/// Maximum number of rotated logs that are kept.
const ROTATED_MAX: u32 = 9;

/// Returns the names of all audit files, newest first.
pub(crate) fn files() -> impl Iterator<Item = String> {
    std::iter::once(LOG.to_owned()).chain((1..=ROTATED_MAX).map(|n| format!("{LOG}.{n}")))
}

/// Work left to do outside the mutex for the lines just written.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct AuditWrite {
    sync: Option<String>,
    /// Minimum length of the file while it keeps its name.
    length: u64,
    pub(crate) warnings: Vec<Warning>,
}

impl AuditWrite {
    /// Merges the trails of one process, in their order: a file that several of them wrote to is
    /// synced once.
    pub(super) fn joined(trails: Vec<Self>) -> impl Iterator<Item = Self> {
        let mut files: BTreeMap<Option<String>, Self> = BTreeMap::new();
        for trail in trails {
            let joined = files.entry(trail.sync.clone()).or_default();
            joined.sync = trail.sync;
            // If a log was rotated in between, the greatest length counts.
            joined.length = joined.length.max(trail.length);
            joined.warnings.extend(trail.warnings);
        }
        files.into_values()
    }
}

impl FileStore {
    /// Appends events to the log.
    pub(crate) fn account(&self, _: &Inside, events: &[Event]) -> AuditWrite {
        let mut trail = AuditWrite::default();
        if events.is_empty() {
            return trail;
        }
        let lines: Vec<u8> = events.iter().flat_map(Event::encode).collect();
        let length = match self.disk.append(LOG, &lines) {
            Ok(length) => length,
            Err(error) => {
                let why = format!("audit: can't write {}: {error}", self.root.join(LOG).display());
                trail.warnings.push(Warning::Audit(why));
                return trail;
            }
        };
        let mut written = LOG.to_owned();
        trail.length = length;
        if length > LOG_BYTES_MAX {
            match self.rotate() {
                Ok(()) => written = format!("{LOG}.1"),
                Err(error) => {
                    let why = format!("audit: can't rotate {}: {error}", self.root.join(LOG).display());
                    trail.warnings.push(Warning::Audit(why));
                }
            }
        }
        trail.sync = events.iter().any(Event::is_synced).then_some(written);
        trail
    }

    /// Syncs the lines that must be durable. Called outside the mutex, before any answer.
    pub(crate) fn sync_audit(&self, trail: AuditWrite) -> Vec<Warning> {
        let mut warnings = trail.warnings;
        let Some(path) = trail.sync else { return warnings };
        if let Err(error) = self.sync_trail(&path, trail.length) {
            let why = format!("audit: can't sync {}: {error}", self.root.join(path).display());
            warnings.push(Warning::Audit(why));
        }
        warnings
    }

    fn sync_trail(&self, path: &str, length: u64) -> std::io::Result<()> {
        let synced = self.disk.sync(path);
        // If the log is shorter than it was, another process has rotated it since: the lines are in
        // the previous one.
        let rotated = path == LOG && self.disk.stamp(LOG)?.is_none_or(|stamp| stamp.size < length);
        if rotated {
            self.disk.sync(&format!("{LOG}.1"))?;
        } else {
            synced?;
        }
        // Sync its name too: the process that created or rotated the log may have had nothing to
        // sync, or may have been killed before it could.
        self.disk.sync_dir("")
    }

    fn rotate(&self) -> std::io::Result<()> {
        for n in (1..ROTATED_MAX).rev() {
            match self.disk.rename(&format!("{LOG}.{n}"), &format!("{LOG}.{}", n + 1)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.disk.rename(LOG, &format!("{LOG}.1"))
    }
}
