//! The environment, read in one place: who asks, and where.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use lokt::{Badges, FoundRoot, Identity, Lokt, Surroundings};

use crate::report::Failure;

/// Who asks, and on which root.
pub(crate) struct Context {
    pub(crate) root: FoundRoot,
    pub(crate) me: Identity,
    /// `LOKT_OWNER` was set; otherwise the owner is whoever is logged in.
    pub(crate) named_owner: bool,
    /// The holds that we run under.
    pub(crate) holds: Badges,
}

impl Context {
    pub(crate) fn read() -> Result<Self, Failure> {
        let lokt_root = variable("LOKT_ROOT");
        let cwd = match std::env::current_dir() {
            Ok(cwd) => cwd,
            // Where we are doesn't matter then; a script that deleted its directory must still be able to unlock.
            Err(_) if lokt_root.as_ref().is_some_and(|root| Path::new(root).is_absolute()) => PathBuf::from("/"),
            Err(error) => {
                let hint = "cd to a directory that exists, or set LOKT_ROOT to an absolute path";
                return Err(Failure::io(format!("find the current directory: {error}"), Some(hint)));
            }
        };
        let surroundings = Surroundings {
            lokt_root,
            git_dir: variable("GIT_DIR"),
            git_common_dir: variable("GIT_COMMON_DIR"),
            home: variable("HOME").map(PathBuf::from),
            cwd,
        };
        // Replaced by something readable, two owners could become one.
        let owner = variable("LOKT_OWNER").map(OsString::into_string).transpose().map_err(|_| {
            Failure::usage("LOKT_OWNER is not UTF-8 text").hint("set LOKT_OWNER to a name of letters and digits")
        })?;
        let named_owner = owner.is_some();
        let me = lokt::identity(owner.unwrap_or_else(default_owner), text("LOKT_AGENT_ID"));
        let holds = text("LOKT_HOLDS").map(|holds| Badges::parse(&holds)).unwrap_or_default();
        Ok(Self { root: surroundings.find_root(), me, named_owner, holds })
    }

    /// The root, made if it is missing.
    pub(crate) fn create(&self) -> Result<Lokt, Failure> {
        Ok(Lokt::create(&self.root.path, self.me.clone())?)
    }

    /// The root, if there is one.
    pub(crate) fn open(&self) -> Result<Option<Lokt>, Failure> {
        Ok(Lokt::existing(&self.root.path, self.me.clone())?)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the module that owns the environment")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn text(name: &str) -> Option<String> {
    variable(name).map(|value| value.to_string_lossy().into_owned())
}

/// The login name, else `USER`, else the uid.
fn default_owner() -> String {
    let uid = || rustix::process::geteuid().as_raw().to_string();
    lokt::login_name().or_else(|| text("USER")).unwrap_or_else(uid)
}
