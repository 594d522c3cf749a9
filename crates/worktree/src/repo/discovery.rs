//! Finds the repository: the nearest directory upwards with a `.jvs` that has a format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lokt_core::hold::Identity;

use super::{DIR_MODE, JVS, MAIN, Repository, facts, this_machine};
use lokt_sys::disk::Disk;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::files::{exists, resolve};
use lokt_sys::look::{Look, look};
use lokt_sys::os_disk::OsDisk;
use lokt_sys::repository::is_planted;
use lokt_sys::search;

/// Directory of the worktrees except `main`.
pub(super) const WORKTREES: &str = "worktrees";
/// The same directory in `.jvs`, if `main` is the directory around it: there neither git nor a
/// snapshot of `main` sees them.
pub(super) const TREES: &str = "trees";

impl Repository {
    /// Finds the repository that `dir` is in, searching upwards; `None` if there is none.
    pub fn find(dir: &Path, me: Identity) -> Result<Option<Self>, Error> {
        let here = match search::resolve(dir)? {
            Some(here) => here,
            None => real(dir),
        };
        for top in here.ancestors() {
            match search::find(&top.join(JVS))? {
                None => continue,
                Some(found) if is_planted(top, &found)? => continue,
                Some(_) => {}
            }
            if let Some(disks) = disks(top)? {
                let found = Self::with(top, disks, this_machine(), me)?;
                let asked = dir.is_absolute().then(|| (dir.to_owned(), here.clone()));
                return Ok(Some(Self { asked, ..found }));
            }
        }
        Ok(None)
    }

    /// Opens the repository in `top`; `None` if there is none.
    pub fn open(top: &Path, me: Identity) -> Result<Option<Self>, Error> {
        let Some(disks) = disks(top)? else { return Ok(None) };
        Self::with(top, disks, this_machine(), me).map(Some)
    }

    /// Reports whether `other` is this repository, perhaps by another path. Compared by device and
    /// inode of `.jvs`: a link or a bind mount leads to the same repository, and a copy, which has
    /// the same id, is another.
    pub fn is_same(&self, other: &Self) -> bool {
        let file = |repo: &Self| look(&repo.path).ok().flatten().map(|found| found.id);
        self.top == other.top || file(self).is_some_and(|id| file(other) == Some(id))
    }

    /// Returns the worktree that `dir` is in, whether or not there is one of that name; `main` at
    /// the top.
    pub fn worktree_at(&self, dir: &Path) -> Option<String> {
        let dir = match &self.asked {
            Some((asked, found)) if asked == dir => found.clone(),
            _ => real(dir),
        };
        // If a path has no links, the directories above it have none.
        let top = if dir.starts_with(&self.top) { self.top.clone() } else { real(&self.top) };
        let mut parts = dir.strip_prefix(&top).ok()?.iter().map(|part| part.to_str());
        if self.is_here() {
            let is_tree = |parts: &mut dyn Iterator<Item = Option<&str>>| parts.next().flatten() == Some(TREES);
            return match parts.next() {
                Some(Some(JVS)) if is_tree(&mut parts) => parts.next().flatten().map(ToOwned::to_owned),
                Some(Some(JVS)) => None,
                _ => Some(MAIN.into()),
            };
        }
        match parts.next() {
            None | Some(Some(MAIN)) => Some(MAIN.into()),
            Some(Some(WORKTREES)) => parts.next().flatten().map(ToOwned::to_owned),
            Some(_) => None,
        }
    }
}

/// Returns the nearest directory upwards that has a `.jvs` with a format, whatever that is.
pub(crate) fn nearest(dir: &Path) -> Option<PathBuf> {
    let format = |top: &&Path| exists(&top.join(JVS).join(facts::FORMAT_FILE));
    real(dir).ancestors().find(format).map(ToOwned::to_owned)
}

/// `.jvs`, and `audit` in it.
pub(super) struct Disks {
    pub(super) jvs: Arc<dyn Disk>,
    /// The disk, or why there is none.
    pub(super) audit: Result<Arc<dyn Disk>, String>,
    /// The format that the repository has; `None`: it has none yet.
    pub(super) format: Option<facts::Format>,
}

/// Opens the disks of the repository in `top`, if there is one whose format we know.
pub(super) fn disks(top: &Path) -> Result<Option<Disks>, Error> {
    let path = top.join(JVS);
    match look(&path).at("look at", &path, "")? {
        Some(found) if found.is_dir => {}
        Some(found) => return refuse_link(&path, &found).map(|()| None),
        None => return Ok(None),
    }
    let disk = OsDisk::open_as(&path, DIR_MODE).at("open", &path, "")?;
    let Some(format) = facts::format(&disk, &path)? else { return Ok(None) };
    let audit = audit_disk(&path).map_err(|error| error.to_string());
    Ok(Some(Disks { jvs: Arc::new(disk), audit, format: Some(format) }))
}

/// Opens the directory of the audit log; creates it if it was removed.
pub(super) fn audit_disk(path: &Path) -> Result<Arc<dyn Disk>, Error> {
    let audit = path.join("audit");
    if let Some(found) = look(&audit).at("look at", &audit, "")? {
        refuse_link(&audit, &found)?;
    }
    let (disk, _) = OsDisk::create_as(&audit, DIR_MODE).at("open", &audit, "")?;
    Ok(Arc::new(disk))
}

/// Refuses a symbolic link: a repository writes only inside itself.
pub(super) fn refuse_link(path: &Path, found: &Look) -> Result<(), Error> {
    match found.kind {
        Some("a symbolic link") => {
            let message = format!("{} is a symbolic link", path.display());
            Err(Error::new(ErrorKind::Unusable, message).hint("put the directory itself there"))
        }
        _ => Ok(()),
    }
}

/// Returns the path of `dir` without links; a directory that doesn't exist any more keeps its path.
fn real(dir: &Path) -> PathBuf {
    resolve(dir).or_else(|| std::path::absolute(dir).ok()).unwrap_or_else(|| dir.to_owned())
}
