//! A repository: worktrees side by side, and everything about them in `.jvs`.
//!
//! | file | one idea |
//! | --- | --- |
//! | `discovery` | which repository is meant |
//! | `facts` | its format, id and policy |
//! | `format` | whether `jvs` may use it, too |
//! | `founding` | creating it |
//! | `worktrees` | its worktrees, and creating one |
//! | `token_ceilings` | the numbers that were used |
//! | `parts` | the types that these are methods of |
//! | `leased` | the lease, while a worktree is changed |
//! | `renaming` | renaming a worktree |
//! | `removing` | removing a worktree |

mod discovery;
mod facts;
mod format;
mod founding;
mod leased;
mod parts;
mod removing;
mod renaming;
mod token_ceilings;
mod worktrees;

use discovery::Disks;
pub(crate) use discovery::nearest;
pub use facts::{FORMAT, JVS_FORMAT};
pub(crate) use facts::{publish_new, replace_file};
pub(crate) use leased::{Asked, Leased};
pub(crate) use removing::TRASH;
pub(crate) use worktrees::is_same;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lokt_core::hold::Identity;
use lokt_core::lease::config::Isolation;
use lokt_core::lease::policy::{LeasePolicy, PolicyWish};
use lokt_core::lease::session::Session;
use lokt_core::name::LockName;
use lokt_core::time::Moment;

use crate::lease::LeaseRefusal;
use lokt_sys::disk::Disk;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::machine::{Linux, Machine};
pub(crate) use lokt_sys::repository::JVS;

/// Mode of directories: every user may list them.
pub(crate) const DIR_MODE: u32 = 0o755;
/// Mode of files: every user may read them.
pub(crate) const FILE_MODE: u32 = 0o644;
/// The worktree that every repository has.
pub(crate) const MAIN: &str = "main";

/// Returns the machine that a repository uses if the caller brings none.
pub(crate) fn this_machine() -> Arc<dyn Machine> {
    Arc::new(Linux)
}

/// Creates a unique session.
pub fn new_session() -> Result<Session, Error> {
    let machine = this_machine();
    let random = || machine.random();
    let drawn = random().and_then(|id| Ok(Session::new(id, [random()?, random()?])));
    drawn.map_err(|error| Error::new(ErrorKind::Unusable, format!("there are no random bits: {error}")))
}

/// A repository.
#[derive(Clone)]
pub struct Repository {
    /// The directory that has `.jvs` and the worktrees in it.
    pub(crate) top: PathBuf,
    /// `.jvs`
    pub(crate) path: PathBuf,
    /// Files in `path`.
    pub(crate) disk: Arc<dyn Disk>,
    /// Files in `path/audit`, whose mutex is that of the audit log; or why there can be none, which
    /// prevents no other work.
    audit: Result<Arc<dyn Disk>, String>,
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) me: Identity,
    pub(crate) id: String,
    /// The lease policy of `config.json`, or what is wrong with it.
    policy: Result<PolicyWish, String>,
    /// As it was when the repository was opened, or as it is about to be.
    format: facts::Format,
    /// The directory from which the search began, and its path without links.
    asked: Option<(PathBuf, PathBuf)>,
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Repository");
        shown.field("top", &self.top).field("id", &self.id).field("owner", &self.me.owner).finish_non_exhaustive()
    }
}

/// A worktree, for a list.
#[derive(Debug)]
pub struct WorktreeEntry {
    /// Its name.
    pub name: LockName,
    /// Directory of its files.
    pub path: PathBuf,
    /// Whether one holder or everyone may write.
    pub isolation: Isolation,
    /// Time of its creation.
    pub created_at: Option<jiff::Timestamp>,
    /// Whether its directory exists.
    pub has_payload: bool,
    /// The problem with it, if there is one.
    pub problem: Option<String>,
}

/// Result of creating, renaming or removing a worktree.
#[derive(Debug)]
pub enum Changing {
    /// It is done.
    Done(WorktreeEntry),
    /// There is no worktree of that name.
    Missing,
    /// A worktree of that name already exists, or one that a file system may take for it.
    Exists(LockName),
    /// A session holds its lease.
    Leased(Box<LeaseRefusal>),
    /// Its directory has files in it, and `force` wasn't given.
    NotEmpty(PathBuf),
}

impl Repository {
    /// Opens the repository in `top` on any disk: `disk` has what is in its `.jvs`, `audit` what is
    /// in `.jvs/audit`. It may be an empty one, which [`Self::found`] makes a repository.
    pub fn on(
        top: &Path,
        disk: Arc<dyn Disk>,
        audit: Arc<dyn Disk>,
        machine: Arc<dyn Machine>,
        me: Identity,
    ) -> Result<Self, Error> {
        // A process that founds it, or works in it, receives the error.
        let format = facts::format(&*disk, &top.join(JVS)).unwrap_or_default();
        Self::with(top, Disks { jvs: disk, audit: Ok(audit), format }, machine, me)
    }

    /// Like `on`, if need be without a log.
    fn with(
        top: &Path,
        Disks { jvs: disk, audit, format }: Disks,
        machine: Arc<dyn Machine>,
        mut me: Identity,
    ) -> Result<Self, Error> {
        me.fs = disk.mount().fs;
        let path = top.join(JVS);
        let id = facts::id(&*disk, &*machine, &path)?;
        let policy = facts::policy(&*disk, &path).map_err(|error| error.to_string());
        let format = format.unwrap_or(facts::Format::new(false));
        Ok(Self { top: top.to_owned(), path, disk, audit, machine, me, id, policy, format, asked: None })
    }

    /// Returns the same repository with another caller.
    #[must_use]
    pub fn acting_as(self, me: Identity) -> Self {
        let me = Identity { fs: self.me.fs, ..me };
        Self { me, ..self }
    }

    /// Returns the directory with `.jvs` in it.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the lease policy of `config.json`. A caller that renews or ends a lease doesn't need
    /// it: only callers that ask for it see its error.
    pub fn policy(&self) -> Result<PolicyWish, Error> {
        let wish = self.policy.clone().and_then(|wish| match wish.policy() {
            Ok(_) => Ok(wish),
            Err(bad) => Err(format!("{} can't be followed: {bad}", self.path.join(facts::CONFIG_FILE).display())),
        });
        wish.map_err(|why| {
            Error::new(ErrorKind::Damaged, why).hint("correct that file, or remove it: then the defaults count")
        })
    }

    /// Returns the policy that applies if no other is given.
    pub(crate) fn own_policy(&self) -> LeasePolicy {
        let wish = self.policy.as_ref().ok().and_then(|wish| wish.policy().ok());
        wish.unwrap_or(LeasePolicy::DEFAULT)
    }

    /// Reports whether the worktree `main` is the directory that `.jvs` is in.
    pub fn is_here(&self) -> bool {
        self.format.is_here
    }

    /// Returns its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the caller's identity.
    pub fn me(&self) -> &Identity {
        &self.me
    }

    /// Returns the current time, by its machine's clocks.
    pub fn now(&self) -> Moment {
        self.machine.now()
    }

    pub(crate) fn audit(&self) -> io::Result<&dyn Disk> {
        self.audit.as_deref().map_err(|why| io::Error::other(why.clone()))
    }

    pub(crate) fn random(&self) -> Result<u128, Error> {
        self.machine.random().at("get random bits for", &self.path, "")
    }
}
