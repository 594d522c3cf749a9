//! The parts of a repository: one type for each operation on it.

use super::Repository;
use super::format::JvsFormat;
use super::worktrees::WorktreeChanges;
use crate::lease::audit::AuditLog;
use crate::snapshot::catalog::Snapshots;
use crate::snapshot::gc::Gc;
use crate::snapshot::intents::Intents;

impl Repository {
    /// Returns its snapshots.
    pub fn snapshots(&self) -> Snapshots<'_> {
        Snapshots { repo: self }
    }

    /// Returns the garbage collector of its snapshots.
    pub fn gc(&self) -> Gc<'_> {
        Gc { repo: self }
    }

    /// Returns its audit log.
    pub fn audit_log(&self) -> AuditLog<'_> {
        AuditLog { repo: self }
    }

    pub(crate) fn intents(&self) -> Intents<'_> {
        Intents { repo: self }
    }

    pub(crate) fn changes(&self) -> WorktreeChanges<'_> {
        WorktreeChanges { repo: self }
    }

    pub(crate) fn jvs_format(&self) -> JvsFormat<'_> {
        JvsFormat { repo: self }
    }
}
