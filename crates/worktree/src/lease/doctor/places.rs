//! Worktrees, their directories and names; and the trash.

use lokt_core::name::LockName;

use super::{Exam, Finding, finding};
use crate::repo::{TRASH, is_same};
use lokt_sys::error::Error;
use lokt_sys::payload::{self, Payload};

/// Minimum age in ms of trash that counts as left behind: a process that removes a worktree deletes
/// its trash at once.
const TRASH_MS: u64 = 3_600_000;

impl Exam<'_> {
    pub(super) fn worktrees(&self) -> Vec<Finding> {
        let names = match self.repo.worktree_names() {
            Ok(names) => names,
            Err(error) => return vec![finding::error("E_IO", self.at("worktrees"), error.to_string())],
        };
        let mut findings: Vec<Finding> = names.iter().filter_map(|name| self.worktree(name)).collect();
        findings.extend(self.same_names(&names));
        findings.extend(self.trash());
        findings
    }

    fn worktree(&self, name: &LockName) -> Option<Finding> {
        let dir = self.at(&format!("worktrees/{name}"));
        let config = match self.repo.config(name) {
            Ok(Some(config)) => config,
            Ok(None) => return self.without_config(name),
            Err(error) => {
                let finding = finding::error("E_CORRUPT", dir.join("config.json"), error.to_string());
                return Some(finding.hint("put back what was there; the files of the worktree are untouched"));
            }
        };
        if let Some(new) = &config.renaming_to {
            let finding = finding::warn("interrupted_rename", dir, format!("{name} is on its way to the name {new}"));
            let finding = finding.fixable("finish the rename, unless somebody holds the lease");
            return self.mend(finding, || self.repo.changes().finish_rename(name));
        }
        if config.removing {
            let finding = finding::warn("interrupted_remove", dir, format!("{name} is about to be removed"));
            let finding = finding.fixable("let it stay, unless somebody is removing it");
            return self.mend(finding, || self.repo.changes().take_back_removal(name));
        }
        if config.name != name.as_str() {
            let problem = format!("the configuration of {name} says that it is {}", config.name);
            return Some(finding::warn("wrong_name", dir.join("config.json"), problem).hint("correct its \"name\""));
        }
        let path = self.repo.files_of(name);
        let problem = match payload::examine(&path) {
            Ok(Payload::Empty | Payload::Full) => return None,
            Ok(Payload::Missing) => format!("the directory of worktree {name} is missing"),
            Ok(Payload::Other(kind)) => format!("where the directory of worktree {name} should be there is {kind}"),
            Err(error) => format!("the directory of worktree {name} can't be looked at: {error}"),
        };
        let repair = format!("put the directory back, or `lokt worktree remove {name}`");
        Some(finding::error("missing_payload", path, problem).hint(repair))
    }

    /// Finds a directory with files, but without a worktree. Token ceilings alone don't count: they
    /// outlive worktrees.
    fn without_config(&self, name: &LockName) -> Option<Finding> {
        let path = self.repo.files_of(name);
        if payload::examine(&path).ok()? != Payload::Full {
            return None;
        }
        let problem = format!("the directory {name} has files, but no worktree of that name is known");
        Some(finding::warn("no_config", path, problem).hint("move it away; then `lokt worktree create` makes it known"))
    }

    fn same_names(&self, names: &[LockName]) -> Vec<Finding> {
        let pairs = names.iter().enumerate().filter_map(|(index, name)| {
            let other = names[..index].iter().find(|other| is_same(other, name))?;
            Some((name, other))
        });
        let told = pairs.map(|(name, other)| {
            let problem = format!("{other} and {name} are one where upper and lower case are the same");
            let finding = finding::warn("same_name", self.at(&format!("worktrees/{name}")), problem);
            finding.hint("rename one of them: `lokt worktree rename OLD NEW`")
        });
        told.collect()
    }

    fn trash(&self) -> Vec<Finding> {
        let names = self.repo.disk.list(TRASH).unwrap_or_default();
        // Trash of snapshots is deleted by `gc`.
        let thrown = names.iter().filter(|name| !name.starts_with("restored-") && !name.starts_with("collected-"));
        let old = thrown.filter(|name| self.unmoved_ms(&format!("{TRASH}/{name}")) > TRASH_MS);
        let told = old.filter_map(|name| {
            let path = self.at(&format!("{TRASH}/{name}"));
            let finding = finding::warn("trash", path.clone(), "what was removed hasn't been deleted");
            self.mend(finding.fixable("delete it"), || {
                payload::destroy(&path).map(|()| true).map_err(|error| Error::io("delete", &path, error))
            })
        });
        told.collect()
    }
}
