//! Removes a worktree, with its files. First its configuration announces the removal, so that no
//! session acquires its lease any more. Then the files are moved out of the way in one step, and
//! are deleted where no process looks for them.

use crate::repo::worktrees::WorktreeChanges;
use std::io;
use std::path::PathBuf;

use lokt_core::lease::config::WorktreeConfig;
use lokt_core::name::LockName;

use super::discovery::WORKTREES;
use super::leased::{Asked, Leased};
use super::renaming::{cant_move, refuse_main};
use super::worktrees::metadata;
use super::{Changing, Repository};
use crate::lease::Worktree;
use lokt_sys::error::{At as _, Error};
use lokt_sys::look::look;
use lokt_sys::mutex::Inside;
use lokt_sys::payload::{self, Payload};
use lokt_sys::warnings::{Warning, WithWarnings};

/// Directory of things that are being deleted.
pub(crate) const TRASH: &str = "trash";

impl Repository {
    /// Removes a worktree with its files. No session may hold its lease.
    pub fn remove(&self, name: &LockName, force: bool) -> Result<WithWarnings<Changing>, Error> {
        refuse_main(name, "removed")?;
        let said = |value| Ok(WithWarnings { value, warnings: Vec::new() });
        let Some(worktree) = self.worktree(name)? else { return said(Changing::Missing) };
        let path = self.files_of(name);
        let is_full = || Ok(payload::examine(&path).at("look at", &path, "")? == Payload::Full);
        // A live lease matters more than the files.
        if !force && is_full()? && !worktree.status(None)?.lives {
            return said(Changing::NotEmpty(path));
        }
        let leased = match Leased::take(&worktree, "worktree remove", Asked::ByUser)? {
            Ok(leased) => leased,
            Err(refusal) => return said(Changing::Leased(refusal)),
        };
        let inside = self.inside()?;
        let Some(config) = self.config(name)? else { return said(Changing::Missing) };
        if !force && is_full()? {
            return said(Changing::NotEmpty(path));
        }
        let entry = self.changes().entry(name, &config);
        self.changes().keep_fences(&inside, &worktree)?;
        let going = WorktreeConfig { removing: true, ..config.clone() };
        self.changes().announce(&inside, &leased, name, &going, &config)?;
        let trash = self.changes().throw_away(&inside, name).inspect_err(|_| {
            if matches!(self.config(name), Ok(Some(_))) {
                let _ = self.changes().replace_config(&inside, name, &config);
            }
        })?;
        // The irreversible step comes last, and only if no other session can have considered the
        // lease its own.
        let kept = leased.check();
        drop(inside);
        let mut warnings = leased.release();
        warnings.extend(self.note("worktree_remove", name, serde_json::Map::new()));
        let destroyed = kept.map_err(|error| error.to_string());
        if let Err(why) = destroyed.and_then(|()| payload::destroy(&trash).map_err(|error| error.to_string())) {
            let kept = format!("what was in it is in {}, and was not deleted: {why}", trash.display());
            warnings.push(Warning::Leftover(kept));
        }
        Ok(WithWarnings { value: Changing::Done(entry), warnings })
    }
}

impl WorktreeChanges<'_> {
    /// Withdraws a removal whose process was killed: the worktree stays. Returns true if it does.
    pub(crate) fn take_back_removal(&self, name: &LockName) -> Result<bool, Error> {
        let Some(config) = self.repo.config(name)?.filter(|config| config.removing) else { return Ok(false) };
        let worktree = Worktree { repo: self.repo.clone(), name: name.clone(), config };
        let Ok(leased) = Leased::take(&worktree, "worktree remove, taken back", Asked::InPassing)? else {
            return Ok(false);
        };
        let inside = self.repo.inside()?;
        let Some(config) = self.repo.config(name)?.filter(|config| config.removing) else { return Ok(false) };
        leased.check()?;
        self.repo.changes().replace_config(&inside, name, &config.staying())?;
        Ok(true)
    }

    /// Moves the files and the metadata to the trash, and returns where that is.
    fn throw_away(&self, _proof: &Inside, name: &LockName) -> Result<PathBuf, Error> {
        let place = format!("{TRASH}/{name}-{:032x}", self.repo.random()?);
        self.repo.disk.make_dir(&place).at("make", &self.repo.path, &place)?;
        let trash = self.repo.path.join(&place);
        payload::make(&trash).at("make", &trash, "")?;
        // The files first: what is left without them can be removed again.
        let path = self.repo.files_of(name);
        match payload::move_new(&path, &trash.join("payload")) {
            // It was missing before.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !matches!(look(&path), Ok(Some(_))) => {}
            done => done.map_err(|error| cant_move(&path, error))?,
        }
        let (from, to) = (metadata(name), format!("{place}/metadata"));
        self.repo.disk.rename_new(&from, &to).at("move", &self.repo.path, &from)?;
        self.repo.disk.sync_dir(WORKTREES).at("sync", &self.repo.path, WORKTREES)?;
        self.repo.disk.remove_dir(&format!("staging/{name}")).at("remove", &self.repo.path, "staging")?;
        Ok(trash)
    }
}
