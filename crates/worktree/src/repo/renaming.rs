//! Renames a worktree.
//!
//! First its numbers are kept under the old name. Then its configuration says where it goes. From
//! then on there is no way back, and any process that finds it so completes the rename: its
//! directory is moved, then its metadata; its numbers continue above those that came along; then
//! its configuration has the new name. Each step can be done only once, or any number of times, so
//! it doesn't matter which process does it. Everything about the leases stays under the old name:
//! its numbers are used.

use super::facts::replace_file;
use crate::repo::worktrees::WorktreeChanges;
use std::io;
use std::path::Path;

use lokt_core::lease::config::WorktreeConfig;
use lokt_core::lease::names::fence_number;
use lokt_core::name::LockName;
use lokt_core::snapshot::id::SnapshotId;
use serde_json::Map;

use super::discovery::WORKTREES;
use super::leased::{Asked, Leased};
use super::token_ceilings::go_on_above;
use super::worktrees::{config_file, is_reserved, is_same, metadata};
use super::{Changing, MAIN, Repository};
use crate::lease::{Worktree, audit};
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::mutex::Inside;
use lokt_sys::payload::{self, Payload};
use lokt_sys::warnings::{Warning, WithWarnings};

impl Repository {
    /// Renames a worktree. No session may hold its lease.
    pub fn rename(&self, name: &LockName, new: &LockName) -> Result<WithWarnings<Changing>, Error> {
        refuse_main(name, "renamed")?;
        if new.as_str().eq_ignore_ascii_case(MAIN) || is_reserved(new) {
            return Err(Error::new(ErrorKind::BadName, format!("no worktree can be renamed to \"{new}\"")));
        }
        let said = |value| Ok(WithWarnings { value, warnings: Vec::new() });
        let Some(worktree) = self.worktree(name)? else { return said(Changing::Missing) };
        if let Some(other) = self.taken(new)? {
            return said(Changing::Exists(other));
        }
        let leased = match Leased::take(&worktree, "worktree rename", Asked::ByUser)? {
            Ok(leased) => leased,
            Err(refusal) => return said(Changing::Leased(refusal)),
        };
        let inside = self.inside()?;
        // Read again, now that no other process changes it.
        let Some(config) = self.config(name)? else { return said(Changing::Missing) };
        if let Some(other) = self.taken(new)? {
            return said(Changing::Exists(other));
        }
        let target = self.files_of(new);
        match payload::examine(&target).at("look at", &target, "")? {
            Payload::Missing => {}
            Payload::Empty => payload::destroy(&target).at("replace", &target, "")?,
            Payload::Full => return said(Changing::NotEmpty(target)),
            Payload::Other(kind) => {
                return Err(Error::new(ErrorKind::Unusable, format!("{} is {kind}", target.display())));
            }
        }
        self.changes().keep_fences(&inside, &worktree)?;
        self.changes().clear_metadata(&inside, new)?;
        // Its chain stays under the old name.
        let (head, slot) = (worktree.head()?, config.head_slot());
        let going = config.clone().with_head(head.as_ref().map(SnapshotId::as_str), slot);
        let going = WorktreeConfig { renaming_to: Some(new.as_str().into()), ..going };
        self.changes().announce(&inside, &leased, name, &going, &config)?;
        let renamed = self
            .changes()
            .finish(&inside, &worktree, &going, new)
            .inspect_err(|_| self.changes().withdraw(&inside, &leased, name, new, &config))?;
        drop(inside);
        let mut warnings = leased.release();
        let details = [("new_name".to_owned(), new.as_str().into())].into_iter().collect();
        warnings.extend(self.note("worktree_rename", name, details));
        Ok(WithWarnings { value: Changing::Done(self.changes().entry(new, &renamed)), warnings })
    }

    /// Writes an event to the audit log.
    pub(crate) fn note(
        &self,
        operation: &str,
        name: &LockName,
        details: Map<String, serde_json::Value>,
    ) -> Option<Warning> {
        match audit::event(self, operation, name.as_str(), details) {
            Ok(event) => audit::note(self, &event),
            Err(error) => Some(Warning::Audit(error.to_string())),
        }
    }
}

impl WorktreeChanges<'_> {
    /// Replaces a configuration, durably.
    pub(crate) fn replace_config(
        &self,
        _proof: &Inside,
        name: &LockName,
        config: &WorktreeConfig,
    ) -> Result<(), Error> {
        replace_file(self.repo, &metadata(name), &config_file(name), &config.to_bytes())
    }
}

impl WorktreeChanges<'_> {
    /// Completes a rename whose process was killed, if no session holds the lease. Returns true if
    /// it did.
    pub(crate) fn finish_rename(&self, name: &LockName) -> Result<bool, Error> {
        let Some(config) = self.repo.config(name)? else { return Ok(false) };
        let Some(new) = config.renaming_to.as_deref().and_then(|new| LockName::new(new).ok()) else { return Ok(false) };
        let worktree = Worktree { repo: self.repo.clone(), name: name.clone(), config };
        if new == *name {
            let inside = self.repo.inside()?;
            return self.arrive(&inside, name);
        }
        let Ok(leased) = Leased::take(&worktree, "worktree rename", Asked::InPassing)? else { return Ok(false) };
        let inside = self.repo.inside()?;
        let Some(config) = self.repo.config(name)?.filter(|config| config.renaming_to.as_deref() == Some(new.as_str()))
        else {
            return Ok(false);
        };
        leased.check()?;
        self.finish(&inside, &worktree, &config, &new)?;
        drop(inside);
        leased.release();
        let details = [("new_name".to_owned(), new.as_str().into()), ("finished".to_owned(), true.into())];
        self.repo.note("worktree_rename", name, details.into_iter().collect());
        Ok(true)
    }

    /// Carries out the steps, each of which may have been done. The lease is held.
    fn finish(
        &self,
        inside: &Inside,
        worktree: &Worktree,
        config: &WorktreeConfig,
        new: &LockName,
    ) -> Result<WorktreeConfig, Error> {
        let name = &worktree.name;
        let (from, to) = (self.repo.files_of(name), self.repo.files_of(new));
        match payload::move_new(&from, &to) {
            // Another process has moved it, or it was missing before.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.map_err(|error| cant_move(&from, error))?,
        }
        // The ceiling moves along.
        self.restore_fence(inside, worktree)?;
        let (old_dir, new_dir) = (metadata(name), metadata(new));
        // Files that a late command about an earlier worktree of that name left are no reason to
        // stop here.
        if self.repo.config(new)?.is_none() {
            self.clear_metadata(inside, new)?;
        }
        self.repo.disk.rename_new(&old_dir, &new_dir).at("rename", &self.repo.path, &old_dir)?;
        self.repo.disk.sync_dir(WORKTREES).at("sync", &self.repo.path, WORKTREES)?;
        // The view that shows our lease to `jvs` moved along, and would show it there.
        Worktree { repo: self.repo.clone(), name: new.clone(), config: config.clone() }
            .views()
            .remove_view_of(&worktree.views())?;
        self.arrive(inside, new)?;
        Ok(self.repo.config(new)?.unwrap_or_else(|| config.clone()))
    }

    /// Carries out the last steps. A chain that is left of an earlier worktree of this name
    /// continues above the numbers that came along; then the configuration has the new name.
    /// Returns false if it already does.
    fn arrive(&self, inside: &Inside, name: &LockName) -> Result<bool, Error> {
        let Some(config) = self.repo.config(name)?.filter(|config| config.renaming_to.is_some()) else {
            return Ok(false);
        };
        let worktree = Worktree { repo: self.repo.clone(), name: name.clone(), config: config.clone() };
        self.restore_fence(inside, &worktree)?;
        let used = worktree.fences().ceiling()?;
        go_on_above(inside, &worktree, used)?;
        // The head of an earlier worktree of that name isn't this one's.
        let config = if used > 0 { config.clone().with_head(config.head(), used) } else { config };
        let config = WorktreeConfig { name: name.as_str().into(), renaming_to: None, ..config };
        self.repo.changes().replace_config(inside, name, &config)?;
        Ok(true)
    }

    /// Removes the remains in the directory of a worktree that doesn't exist, and keeps its
    /// numbers.
    fn clear_metadata(&self, inside: &Inside, name: &LockName) -> Result<(), Error> {
        let dir = metadata(name);
        let names = self.repo.disk.list(&dir).at("list", &self.repo.path, &dir)?;
        let ceiling = names.iter().filter_map(|name| fence_number(name)).max().unwrap_or(0);
        self.keep_fence(inside, name, ceiling)?;
        for file in names {
            let path = format!("{dir}/{file}");
            self.repo.disk.remove(&path).at("remove", &self.repo.path, &path)?;
        }
        self.repo.disk.remove_dir(&dir).at("remove", &self.repo.path, &dir)
    }

    /// Announces what is about to happen to a worktree, then checks that its lease is still ours. A
    /// new holder checks for an announcement, and then releases the lease. So one of the two sees
    /// the other, however long either was suspended. `before` is the former configuration, which is
    /// restored if the lease is lost.
    pub(super) fn announce(
        &self,
        inside: &Inside,
        leased: &Leased<'_>,
        name: &LockName,
        going: &WorktreeConfig,
        before: &WorktreeConfig,
    ) -> Result<(), Error> {
        self.repo.changes().replace_config(inside, name, going)?;
        leased.check().inspect_err(|_| drop(self.repo.changes().replace_config(inside, name, before)))
    }

    /// Withdraws a rename that failed, so that no other process completes it later, if possible.
    fn withdraw(&self, inside: &Inside, leased: &Leased<'_>, name: &LockName, new: &LockName, before: &WorktreeConfig) {
        if !matches!(self.repo.config(name), Ok(Some(_))) || leased.check().is_err() {
            return;
        }
        let (from, to) = (self.repo.files_of(name), self.repo.files_of(new));
        let is_back = match payload::examine(&from) {
            Ok(Payload::Missing) => match payload::move_new(&to, &from) {
                Err(error) => error.kind() == io::ErrorKind::NotFound,
                Ok(()) => true,
            },
            found => found.is_ok(),
        };
        if is_back {
            let _ = self.repo.changes().replace_config(inside, name, before);
        }
    }
}

/// Returns the error for a directory that can't be moved.
pub(super) fn cant_move(path: &Path, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::CrossesDevices {
        let message = format!("{} can't be moved in one step: {error}", path.display());
        let hint = "nothing was changed; it is a mount, or comes from the lower layer of an overlay: copy it, and remove it there";
        return Error::new(ErrorKind::Unusable, message).hint(hint);
    }
    Error::io("move", path, error)
}

pub(super) fn refuse_main(name: &LockName, what: &str) -> Result<(), Error> {
    if name.as_str() == MAIN || is_same(name, &LockName::new(MAIN).expect("it is a good name")) {
        let message = format!("worktree \"{name}\" can't be {what}: every repository has it");
        return Err(Error::new(ErrorKind::BadName, message));
    }
    Ok(())
}
