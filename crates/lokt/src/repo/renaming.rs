//! Another name for a worktree.
//!
//! First its numbers are kept under the old name. Then its configuration says where it goes; from then on there is no way back, and
//! whoever finds it so finishes what was begun: its directory moves, then what is known about it; its numbers go on above those that came
//! along; then its configuration has the new name. Each step can be done only once, or as often as one likes, so it doesn't matter who does
//! it. What is known about the leases stays under the old name: its numbers are used.

use std::io;
use std::path::Path;

use lokt_core::lease::config::WorktreeConfig;
use lokt_core::lease::names::fence_number;
use lokt_core::name::LockName;
use lokt_core::snapshot::id::SnapshotId;
use serde_json::Map;

use super::discovery::WORKTREES;
use super::kept::go_on_above;
use super::leased::{Asked, Leased};
use super::worktrees::{config_file, is_reserved, is_same, metadata};
use super::{Changing, MAIN, Repository};
use crate::error::{At as _, Error, ErrorKind};
use crate::lease::{Worktree, audit};
use crate::locks::Said;
use crate::sys::payload::{self, Payload};

impl Repository {
    /// Gives one another name. Nobody may hold its lease.
    pub fn rename(&self, name: &LockName, new: &LockName) -> Result<Said<Changing>, Error> {
        refuse_main(name, "renamed")?;
        if new.as_str().eq_ignore_ascii_case(MAIN) || is_reserved(new) {
            return Err(Error::new(ErrorKind::BadName, format!("no worktree can be renamed to \"{new}\"")));
        }
        let said = |value| Ok(Said { value, warnings: Vec::new() });
        let Some(worktree) = self.worktree(name)? else { return said(Changing::Missing) };
        if let Some(other) = self.taken(new)? {
            return said(Changing::Exists(other));
        }
        let leased = match Leased::take(&worktree, "worktree rename", Asked::ByUser)? {
            Ok(leased) => leased,
            Err(refusal) => return said(Changing::Leased(refusal)),
        };
        let inside = self.inside()?;
        // As it is now that nobody else changes it.
        let Some(config) = self.config(name)? else { return said(Changing::Missing) };
        if let Some(other) = self.taken(new)? {
            return said(Changing::Exists(other));
        }
        let target = self.payload(new);
        match payload::examine(&target).at("look at", &target, "")? {
            Payload::Missing => {}
            Payload::Empty => payload::destroy(&target).at("replace", &target, "")?,
            Payload::Full => return said(Changing::NotEmpty(target)),
            Payload::Other(kind) => {
                return Err(Error::new(ErrorKind::Unusable, format!("{} is {kind}", target.display())));
            }
        }
        self.keep_fences(&worktree)?;
        self.clear_metadata(new)?;
        // Its chain stays here.
        let (head, slot) = (worktree.head()?, config.head_slot());
        let going = config.clone().with_head(head.as_ref().map(SnapshotId::as_str), slot);
        let going = WorktreeConfig { renaming_to: Some(new.as_str().into()), ..going };
        self.announce(&leased, name, &going, &config)?;
        let renamed =
            self.finish(&worktree, &going, new).inspect_err(|_| self.withdraw(&leased, name, new, &config))?;
        drop(inside);
        let mut warnings = leased.release();
        let details = [("new_name".to_owned(), new.as_str().into())].into_iter().collect();
        warnings.extend(self.note("worktree_rename", name, details));
        Ok(Said { value: Changing::Done(self.entry(new, &renamed)), warnings })
    }

    /// Finishes a rename whose process was killed, if nobody holds the lease. True: it did.
    pub(crate) fn finish_rename(&self, name: &LockName) -> Result<bool, Error> {
        let Some(config) = self.config(name)? else { return Ok(false) };
        let Some(new) = config.renaming_to.as_deref().and_then(|new| LockName::new(new).ok()) else { return Ok(false) };
        let worktree = Worktree { repo: self.clone(), name: name.clone(), config };
        if new == *name {
            let _inside = self.inside()?;
            return self.arrive(name);
        }
        let Ok(leased) = Leased::take(&worktree, "worktree rename", Asked::InPassing)? else { return Ok(false) };
        let inside = self.inside()?;
        let Some(config) = self.config(name)?.filter(|config| config.renaming_to.as_deref() == Some(new.as_str()))
        else {
            return Ok(false);
        };
        leased.check()?;
        self.finish(&worktree, &config, &new)?;
        drop(inside);
        leased.release();
        let details = [("new_name".to_owned(), new.as_str().into()), ("finished".to_owned(), true.into())];
        self.note("worktree_rename", name, details.into_iter().collect());
        Ok(true)
    }

    /// The steps, each of which may have been done. Inside, with the lease.
    fn finish(&self, worktree: &Worktree, config: &WorktreeConfig, new: &LockName) -> Result<WorktreeConfig, Error> {
        let name = &worktree.name;
        let (from, to) = (self.payload(name), self.payload(new));
        match payload::move_new(&from, &to) {
            // Somebody has moved it, or it was missing before.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.map_err(|error| cant_move(&from, error))?,
        }
        // Moves along.
        self.restore_fence(worktree)?;
        let (old_dir, new_dir) = (metadata(name), metadata(new));
        // What a late command about an earlier worktree of that name left is no reason to stop here.
        if self.config(new)?.is_none() {
            self.clear_metadata(new)?;
        }
        self.disk.rename_new(&old_dir, &new_dir).at("rename", &self.path, &old_dir)?;
        self.disk.sync_dir(WORKTREES).at("sync", &self.path, WORKTREES)?;
        // What shows our lease to jvs moved along, and would show it there.
        Worktree { repo: self.clone(), name: new.clone(), config: config.clone() }.take_down_of(worktree)?;
        self.arrive(new)?;
        Ok(self.config(new)?.unwrap_or_else(|| config.clone()))
    }

    /// The last steps: a chain that is left of an earlier worktree of this name goes on above the numbers that came along; then its
    /// configuration says what it is called. False: it does.
    fn arrive(&self, name: &LockName) -> Result<bool, Error> {
        let Some(config) = self.config(name)?.filter(|config| config.renaming_to.is_some()) else { return Ok(false) };
        let worktree = Worktree { repo: self.clone(), name: name.clone(), config: config.clone() };
        self.restore_fence(&worktree)?;
        let used = worktree.ceiling()?;
        go_on_above(&worktree, used)?;
        // What an earlier worktree of that name was at isn't where this one is.
        let config = if used > 0 { config.clone().with_head(config.head(), used) } else { config };
        let config = WorktreeConfig { name: name.as_str().into(), renaming_to: None, ..config };
        self.replace_config(name, &config)?;
        Ok(true)
    }

    /// Removes what is left in the directory of a worktree that isn't there, and keeps its numbers.
    fn clear_metadata(&self, name: &LockName) -> Result<(), Error> {
        let dir = metadata(name);
        let names = self.disk.list(&dir).at("list", &self.path, &dir)?;
        let ceiling = names.iter().filter_map(|name| fence_number(name)).max().unwrap_or(0);
        self.keep_fence(name, ceiling)?;
        for file in names {
            let path = format!("{dir}/{file}");
            self.disk.remove(&path).at("remove", &self.path, &path)?;
        }
        self.disk.remove_dir(&dir).at("remove", &self.path, &dir)
    }

    /// Says what is about to happen to a worktree, then looks whether its lease is still ours. Whoever gets the lease looks whether
    /// something is said, and then gives it back: so one of the two sees the other, however long either was stopped. `before`: what was
    /// said before, and is said again when the lease is lost.
    pub(super) fn announce(
        &self,
        leased: &Leased<'_>,
        name: &LockName,
        going: &WorktreeConfig,
        before: &WorktreeConfig,
    ) -> Result<(), Error> {
        self.replace_config(name, going)?;
        leased.check().inspect_err(|_| drop(self.replace_config(name, before)))
    }

    /// A rename that came to nothing isn't done later by somebody else, if that can be helped.
    fn withdraw(&self, leased: &Leased<'_>, name: &LockName, new: &LockName, before: &WorktreeConfig) {
        if !matches!(self.config(name), Ok(Some(_))) || leased.check().is_err() {
            return;
        }
        let (from, to) = (self.payload(name), self.payload(new));
        let is_back = match payload::examine(&from) {
            Ok(Payload::Missing) => match payload::move_new(&to, &from) {
                Err(error) => error.kind() == io::ErrorKind::NotFound,
                Ok(()) => true,
            },
            found => found.is_ok(),
        };
        if is_back {
            let _ = self.replace_config(name, before);
        }
    }

    /// Replaces a configuration, durably.
    pub(crate) fn replace_config(&self, name: &LockName, config: &WorktreeConfig) -> Result<(), Error> {
        self.replace_file(&metadata(name), &config_file(name), &config.to_bytes())
    }

    /// Tells the audit log.
    pub(crate) fn note(
        &self,
        operation: &str,
        name: &LockName,
        details: Map<String, serde_json::Value>,
    ) -> Option<String> {
        match audit::event(self, operation, name.as_str(), details) {
            Ok(event) => audit::note(self, &event),
            Err(error) => Some(error.to_string()),
        }
    }
}

/// The directory can't be moved.
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
