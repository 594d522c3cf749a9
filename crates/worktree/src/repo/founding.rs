//! Creates a repository. Its format is written last: a directory without one is not a repository,
//! and is completed by the next process that creates one.

use std::path::Path;
use std::sync::Arc;

use lokt_core::hold::Identity;
use lokt_core::lease::config::Isolation;
use lokt_core::name::LockName;

use super::discovery::{audit_disk, disks, refuse_link};
use super::facts::{self, FORMAT_FILE, Format, publish_new};
use super::worktrees::Files;
use super::{DIR_MODE, FILE_MODE, JVS, MAIN, Repository, this_machine};
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::look::look;
use lokt_sys::os_disk::OsDisk;

/// Directories in `.jvs`, besides the log's, and besides single files.
const DIRS: [&str; 8] = ["worktrees", "locks", "staging", "snapshots", "descriptors", "refs", "intents", "gc"];

impl Repository {
    /// Creates a repository in `top`, and reports whether there was none.
    pub fn init(top: &Path, isolation: Isolation, me: Identity) -> Result<(Self, bool), Error> {
        Self::begin(top, isolation, me, Format::new(false))
    }

    /// Creates a repository in `top` whose worktree `main` is `top` itself, with the files that are
    /// there, and reports whether there was none.
    pub fn init_here(top: &Path, isolation: Isolation, me: Identity) -> Result<(Self, bool), Error> {
        Self::begin(top, isolation, me, Format::new(true))
    }

    fn begin(top: &Path, isolation: Isolation, me: Identity, format: Format) -> Result<(Self, bool), Error> {
        if let Some(disks) = disks(top)? {
            return Ok((Self::with(top, disks, this_machine(), me)?, false));
        }
        let path = top.join(JVS);
        if let Some(found) = look(&path).at("look at", &path, "")? {
            refuse_link(&path, &found)?;
            if !found.is_dir {
                let what = found.kind.unwrap_or("a file");
                return Err(Error::new(ErrorKind::Unusable, format!("{} is {what}", path.display())));
            }
        }
        let (disk, _) = OsDisk::create_as(&path, DIR_MODE).at("make", &path, "")?;
        let audit = audit_disk(&path)?;
        let repository = Self { format, ..Self::on(top, Arc::new(disk), audit, this_machine(), me)? };
        let is_new = repository.found(isolation)?;
        // Another process may have created it, of another kind.
        let format = facts::format(&*repository.disk, &repository.path)?.unwrap_or(format);
        Ok((Self { format, ..repository }, is_new))
    }

    /// Makes it a repository with the worktree `main`, and reports whether it was none.
    pub fn found(&self, isolation: Isolation) -> Result<bool, Error> {
        let disk = &*self.disk;
        if facts::format(disk, &self.path)?.is_some() {
            return Ok(false);
        }
        for dir in DIRS {
            self.make_place(dir)?;
        }
        let main = LockName::new(MAIN).expect("it is a good name");
        // Existing files already belong to the user who starts to use this.
        self.changes().make_worktree(&main, isolation, Files::Any)?;
        // Best effort: git shows the directory as untracked without it.
        let _ = disk.create_as(".gitignore", b"*\n", FILE_MODE);
        let format = self.format.to_text();
        let is_new =
            publish_new(disk, FORMAT_FILE, format.as_bytes(), FILE_MODE).at("write", &self.path, FORMAT_FILE)?;
        disk.sync_dir("").at("sync", &self.path, "")?;
        if is_new {
            let details = [("isolation".to_owned(), isolation.as_str().into())].into_iter().collect();
            // Best effort: a repository whose log can't be written yet is one, too.
            self.note("worktree_create", &main, details);
        }
        Ok(is_new)
    }
}
