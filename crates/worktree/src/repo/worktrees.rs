//! The worktrees of a repository, and the creation of one.
//!
//! A worktree exists while its `config.json` does: that is created exclusively, after the directory
//! for its files. A directory without one was left behind by a killed process, and is used by the
//! next worktree of that name.

use std::path::{Path, PathBuf};

use lokt_core::lease::config::{Isolation, WorktreeConfig};
use lokt_core::name::LockName;
use lokt_core::snapshot::id::SnapshotId;
use serde_json::Value;

use super::discovery::{TREES, WORKTREES};
use super::facts::{CONFIG_FILE, damaged, publish_new, read};
use super::token_ceilings::go_on_above;
use super::{Changing, FILE_MODE, MAIN, Repository, WorktreeEntry};
use crate::lease::Worktree;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::files::is_dir;
use lokt_sys::mutex::{Inside, PATIENCE};
use lokt_sys::payload::{self, Payload};
use lokt_sys::warnings::WithWarnings;

/// Directory of the ceilings of worktrees that were removed or renamed.
pub(crate) const FENCES: &str = ".fences";

/// Files that may be in the directory of a new worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    None,
    Any,
}

impl Repository {
    /// Returns the worktree of that name; `None` if there is none. An interrupted rename is
    /// completed first, and an interrupted removal is withdrawn, unless a session holds the lease.
    pub fn worktree(&self, name: &LockName) -> Result<Option<Worktree>, Error> {
        let mut config = self.config(name)?;
        if config.as_ref().is_some_and(|config| config.renaming_to.is_some() || config.removing) {
            // Whatever prevents that prevents its lease from being granted, too.
            let _ = self.changes().settle(name);
            config = self.config(name)?;
        }
        // The caller wants it where it is.
        let config = config.map(WorktreeConfig::staying);
        Ok(config.map(|config| Worktree { repo: self.clone(), name: name.clone(), config }))
    }

    /// Returns all of them, by name.
    pub fn worktrees(&self) -> Result<Vec<WorktreeEntry>, Error> {
        for name in self.worktree_names()? {
            // Whatever prevents that is reported when the worktree is requested by its name.
            let _ = self.changes().settle(&name);
        }
        let mut entries = Vec::new();
        for name in self.worktree_names()? {
            match self.config(&name) {
                Ok(Some(config)) => entries.push(self.changes().entry(&name, &config)),
                Ok(None) => {}
                Err(error) => {
                    let config = self.changes().new_config(&name, Isolation::default());
                    let entry = WorktreeEntry { created_at: None, ..self.changes().entry(&name, &config) };
                    entries.push(WorktreeEntry { problem: Some(error.to_string()), ..entry });
                }
            }
        }
        Ok(entries)
    }

    /// Creates a worktree.
    pub fn create(&self, name: &LockName, isolation: Isolation) -> Result<WithWarnings<Changing>, Error> {
        if is_reserved(name) {
            return Err(Error::new(ErrorKind::BadName, format!("\"{name}\" can't be the name of a worktree")));
        }
        let value = self.changes().make_worktree(name, isolation, Files::None)?;
        let mut warnings = Vec::new();
        if let Changing::Done(_) = &value {
            let details = [("isolation".to_owned(), isolation.as_str().into())].into_iter().collect();
            warnings.extend(self.note("worktree_create", name, details));
        }
        Ok(WithWarnings { value, warnings })
    }

    /// Returns the directory of a worktree's files.
    pub fn files_of(&self, name: &LockName) -> PathBuf {
        match (name.as_str() == MAIN, self.is_here()) {
            (true, true) => self.top.clone(),
            (true, false) => self.top.join(MAIN),
            (false, true) => self.path.join(TREES).join(name.as_str()),
            (false, false) => self.top.join(WORKTREES).join(name.as_str()),
        }
    }

    /// Returns the configuration of a worktree; `None` if there is none.
    pub(crate) fn config(&self, name: &LockName) -> Result<Option<WorktreeConfig>, Error> {
        if is_reserved(name) {
            return Ok(None);
        }
        let file = config_file(name);
        // A rename or removal moves the directory away, with the file in it.
        self.disk.refresh(WORKTREES);
        let Some(bytes) = read(&*self.disk, &self.path, &file)? else { return Ok(None) };
        let config = WorktreeConfig::parse(&bytes);
        config.map(Some).map_err(|why| damaged(&self.path, &file, &format!("is damaged: {why}")))
    }

    /// Returns the names of all directories that may be a worktree's.
    pub(crate) fn worktree_names(&self) -> Result<Vec<LockName>, Error> {
        let names = self.disk.list(WORKTREES).at("list", &self.path, WORKTREES)?;
        Ok(names.iter().filter_map(|name| LockName::new(name).ok()).filter(|name| !is_reserved(name)).collect())
    }

    /// Returns the worktree that has this name, or one that a case-insensitive file system takes
    /// for it. The name of the ceilings' directory is reserved.
    pub fn taken(&self, name: &LockName) -> Result<Option<LockName>, Error> {
        if is_reserved(name) {
            return Ok(Some(name.clone()));
        }
        for other in self.worktree_names()? {
            let is_taken = match self.config(&other) {
                Ok(None) => false,
                // A worktree that is being renamed to the name has it, too.
                Ok(Some(config)) => {
                    is_same(&other, name)
                        || config.renaming_to.is_some_and(|new| new.eq_ignore_ascii_case(name.as_str()))
                }
                // An unreadable worktree has its name.
                Err(_) => is_same(&other, name),
            };
            if is_taken {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// Enters the mutex: one process at a time creates, renames and removes worktrees. Leases don't
    /// depend on it.
    pub(crate) fn inside(&self) -> Result<Inside, Error> {
        Inside::enter(&*self.disk, PATIENCE).map_err(|failure| Error::mutex(&self.path, failure))
    }
}

impl WorktreeChanges<'_> {
    /// Ends an interrupted change of a worktree.
    fn settle(&self, name: &LockName) -> Result<(), Error> {
        match self.repo.config(name)? {
            Some(config) if config.renaming_to.is_some() => self.finish_rename(name)?,
            Some(config) if config.removing => self.take_back_removal(name)?,
            _ => false,
        };
        Ok(())
    }

    pub(super) fn entry(&self, name: &LockName, config: &WorktreeConfig) -> WorktreeEntry {
        let path = self.repo.files_of(name);
        let has_payload = is_dir(&path);
        let problem = if let Some(new) = &config.renaming_to {
            Some(format!("it is being renamed to {new}"))
        } else if config.removing {
            Some("it is being removed".to_owned())
        } else if config.name != name.as_str() {
            Some(format!("its configuration says that it is {}", config.name))
        } else {
            (!has_payload).then(|| format!("its directory {} is missing", path.display()))
        };
        let WorktreeConfig { isolation, created_at, .. } = *config;
        WorktreeEntry { name: name.clone(), path, isolation, created_at, has_payload, problem }
    }
}

/// Creates, renames and removes worktrees.
pub(crate) struct WorktreeChanges<'r> {
    pub(crate) repo: &'r Repository,
}

impl WorktreeChanges<'_> {
    fn new_config(&self, name: &LockName, isolation: Isolation) -> WorktreeConfig {
        WorktreeConfig {
            name: name.as_str().into(),
            isolation,
            created_at: Some(self.repo.machine.now().wall),
            renaming_to: None,
            removing: false,
            extra: ["base_snapshot_id", "head_snapshot_id"].map(|id| (id.into(), Value::Null)).into_iter().collect(),
        }
    }

    /// Creates a worktree, unless there is one.
    pub(super) fn make_worktree(
        &self,
        name: &LockName,
        isolation: Isolation,
        allowed: Files,
    ) -> Result<Changing, Error> {
        let config = self.new_config(name, isolation);
        self.make_as(name, &config, allowed, &mut |_| Ok(()))
    }

    /// Like `make_worktree`, with the files of a snapshot, which `fill` puts where the directory
    /// is.
    pub(crate) fn make_restored(
        &self,
        name: &LockName,
        id: &SnapshotId,
        fill: &mut dyn FnMut(&Path) -> Result<(), Error>,
    ) -> Result<Changing, Error> {
        if is_reserved(name) {
            return Err(Error::new(ErrorKind::BadName, format!("\"{name}\" can't be the name of a worktree")));
        }
        let config = self.new_config(name, Isolation::default()).made_from(id.as_str());
        self.make_as(name, &config, Files::None, fill)
    }

    fn make_as(
        &self,
        name: &LockName,
        config: &WorktreeConfig,
        allowed: Files,
        fill: &mut dyn FnMut(&Path) -> Result<(), Error>,
    ) -> Result<Changing, Error> {
        let inside = self.repo.inside()?;
        if let Some(other) = self.repo.taken(name)? {
            return Ok(Changing::Exists(other));
        }
        let path = self.repo.files_of(name);
        match payload::examine(&path).at("look at", &path, "")? {
            Payload::Missing => {
                payload::make(&path).at("make", &path, "")?;
            }
            Payload::Empty => {}
            Payload::Full if allowed == Files::Any => {}
            Payload::Full => return Ok(Changing::NotEmpty(path)),
            Payload::Other(kind) => {
                return Err(Error::new(ErrorKind::Unusable, format!("{} is {kind}", path.display())));
            }
        }
        let worktree = Worktree { repo: self.repo.clone(), name: name.clone(), config: config.clone() };
        self.restore_fence(&inside, &worktree)?;
        fill(&path)?;
        // Snapshots that an earlier worktree of that name published aren't this one's.
        let config = match worktree.fences().ceiling()? {
            0 => config.clone(),
            ceiling => {
                // Its own links come after that.
                go_on_above(&inside, &worktree, ceiling)?;
                config.clone().with_head(config.head(), ceiling)
            }
        };
        let file = config_file(name);
        let made =
            publish_new(&*self.repo.disk, &file, &config.to_bytes(), FILE_MODE).at("write", &self.repo.path, &file)?;
        if !made {
            return Ok(Changing::Exists(name.clone()));
        }
        let dir = metadata(name);
        self.repo.disk.sync_dir(&dir).at("sync", &self.repo.path, &dir)?;
        self.repo.disk.sync_dir(WORKTREES).at("sync", &self.repo.path, WORKTREES)?;
        // Here rather than by the first processes that want its lease: they may be many. If this
        // fails, they do it.
        let _ = worktree.chain().ensure_created();
        Ok(Changing::Done(self.repo.changes().entry(name, &config)))
    }
}

/// Returns the directory of a worktree's metadata.
pub(crate) fn metadata(name: &LockName) -> String {
    format!("{WORKTREES}/{name}")
}

pub(super) fn config_file(name: &LockName) -> String {
    format!("{WORKTREES}/{name}/{CONFIG_FILE}")
}

/// Reports whether two names are the same to a case-insensitive file system. Names are ASCII.
pub(crate) fn is_same(one: &LockName, other: &LockName) -> bool {
    one.as_str().eq_ignore_ascii_case(other.as_str())
}

pub(super) fn is_reserved(name: &LockName) -> bool {
    name.as_str().eq_ignore_ascii_case(FENCES)
}
