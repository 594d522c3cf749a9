//! The environment, read in one place: who asks, and where.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use lokt::{FoundRoot, Identity, Lokt, Surroundings};

use crate::report::Failure;

/// Who asks, and on which root.
pub(crate) struct Context {
    pub(crate) root: FoundRoot,
    pub(crate) me: Identity,
    /// `LOKT_OWNER` was set; otherwise the owner is whoever is logged in.
    pub(crate) named_owner: bool,
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
        Ok(Self { root: surroundings.find_root(), me, named_owner })
    }

    /// The root, made if it is missing.
    pub(crate) fn create(&self) -> Result<Lokt, Failure> {
        Ok(Lokt::create(&self.root.path, self.me.clone())?)
    }

    /// The root, if there is one.
    pub(crate) fn open(&self) -> Result<Option<Lokt>, Failure> {
        Ok(Lokt::open(&self.root.path, self.me.clone())?)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the module that owns the environment")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn text(name: &str) -> Option<String> {
    variable(name).map(|value| value.to_string_lossy().into_owned())
}

/// The login name from the passwd file, else `USER`, else the uid. A static binary has no name service to ask.
fn default_owner() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let passwd = fs::read("/etc/passwd").unwrap_or_default();
    user_name(&String::from_utf8_lossy(&passwd), uid).or_else(|| text("USER")).unwrap_or_else(|| uid.to_string())
}

fn user_name(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::user_name;

    #[test]
    fn the_owner_is_found_by_uid() {
        let passwd = "root:x:0:0::/root:/bin/sh\nbroken\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        assert_eq!(user_name(passwd, 1000).as_deref(), Some("alice"));
        assert_eq!(user_name(passwd, 7), None);
    }
}
