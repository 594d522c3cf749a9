//! A worktree goes, with its files. First its configuration says that it goes, so that nobody gets its lease any more. Then they move out of the way in one step, and are deleted where nobody looks for them.

use std::io;
use std::path::PathBuf;

use lokt_core::lease::config::WorktreeConfig;
use lokt_core::name::LockName;

use super::discovery::WORKTREES;
use super::leased::{Asked, Leased};
use super::renaming::{cant_move, refuse_main};
use super::worktrees::metadata;
use super::{Changing, Repository};
use crate::error::{At as _, Error};
use crate::lease::Worktree;
use crate::locks::Said;
use crate::sys::payload::{self, Payload};

/// Where things are that are being deleted.
pub(crate) const TRASH: &str = "trash";

impl Repository {
    /// Removes one with its files. Nobody may hold its lease.
    pub fn remove(&self, name: &LockName, force: bool) -> Result<Said<Changing>, Error> {
        refuse_main(name, "removed")?;
        let said = |value| Ok(Said { value, warnings: Vec::new() });
        let Some(worktree) = self.worktree(name)? else { return said(Changing::Missing) };
        let path = self.payload(name);
        let is_full = || Ok(payload::examine(&path).at("look at", &path, "")? == Payload::Full);
        // That somebody works there matters more than what is in it.
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
        let entry = self.entry(name, &config);
        self.keep_fences(&worktree)?;
        let going = WorktreeConfig { removing: true, ..config.clone() };
        self.announce(&leased, name, &going, &config)?;
        let trash = self.throw_away(name).inspect_err(|_| {
            if matches!(self.config(name), Ok(Some(_))) {
                let _ = self.replace_config(name, &config);
            }
        })?;
        // What can't be taken back comes last, and only if nobody else can have thought it theirs.
        let kept = leased.check();
        drop(inside);
        let mut warnings = leased.release();
        warnings.extend(self.note("worktree_remove", name, serde_json::Map::new()));
        let destroyed = kept.map_err(|error| error.to_string());
        if let Err(why) = destroyed.and_then(|()| payload::destroy(&trash).map_err(|error| error.to_string())) {
            warnings.push(format!("what was in it is in {}, and was not deleted: {why}", trash.display()));
        }
        Ok(Said { value: Changing::Done(entry), warnings })
    }

    /// Lets a worktree stay that somebody was about to remove, who was killed. True: it does.
    pub(crate) fn take_back_removal(&self, name: &LockName) -> Result<bool, Error> {
        let Some(config) = self.config(name)?.filter(|config| config.removing) else { return Ok(false) };
        let worktree = Worktree { repo: self.clone(), name: name.clone(), config };
        let Ok(leased) = Leased::take(&worktree, "worktree remove, taken back", Asked::InPassing)? else {
            return Ok(false);
        };
        let _inside = self.inside()?;
        let Some(config) = self.config(name)?.filter(|config| config.removing) else { return Ok(false) };
        leased.check()?;
        self.replace_config(name, &config.staying())?;
        Ok(true)
    }

    /// Moves the files and what is known about them into the trash: where that is.
    fn throw_away(&self, name: &LockName) -> Result<PathBuf, Error> {
        let place = format!("{TRASH}/{name}-{:032x}", self.random()?);
        self.disk.make_dir(&place).at("make", &self.path, &place)?;
        let trash = self.path.join(&place);
        payload::make(&trash).at("make", &trash, "")?;
        // The files first: what is left without them can be removed again.
        let path = self.payload(name);
        match payload::move_new(&path, &trash.join("payload")) {
            // It was missing before.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() && !path.exists() => {}
            done => done.map_err(|error| cant_move(&path, error))?,
        }
        let (from, to) = (metadata(name), format!("{place}/metadata"));
        self.disk.rename_new(&from, &to).at("move", &self.path, &from)?;
        self.disk.sync_dir(WORKTREES).at("sync", &self.path, WORKTREES)?;
        self.disk.remove_dir(&format!("staging/{name}")).at("remove", &self.path, "staging")?;
        Ok(trash)
    }
}
