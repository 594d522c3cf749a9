//! Who asks: the owner, and the file that makes them the holder.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::ValueHint;
use lokt_core::hold::Identity;
use lokt_core::lease::session::Session;
use lokt_core::ledger::chain::Digest;
use lokt_worktree::lease::{Worktree, session_file};

use super::super::deny::shell_word;
use crate::context;
use crate::exit::Exit;
use crate::machine;
use crate::report::Failure;
use crate::show::{clean, quoted};

/// The longest name of a session file that is made of names: file systems allow 255.
const FILE_NAME_BYTES_MAX: usize = 240;

/// Who asks.
#[derive(clap::Args)]
pub(crate) struct Who {
    /// The file that makes one the holder; otherwise `LOKT_SESSION`, or one per worktree and owner
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    session: Option<PathBuf>,
    /// Who asks; otherwise `LOKT_OWNER`, or whoever is logged in
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
}

impl Who {
    /// The identity of whoever asks.
    pub(crate) fn me(&self) -> Result<Identity, Failure> {
        context::caller(self.owner.as_deref())
    }

    /// Where the session's file is, or would be.
    pub(crate) fn session_path(&self, worktree: &Worktree, me: &Identity) -> Result<PathBuf, Failure> {
        self.is_somewhere()?;
        let named = self.session.clone().or_else(context::named_session);
        let path = named.or_else(|| {
            let file = file_name(worktree.name().as_str(), &me.owner);
            Some(context::sessions_dir()?.join(worktree.repository().id()).join(file))
        });
        let path = path.ok_or_else(|| {
            Failure::usage("there is no place for the session file: neither XDG_RUNTIME_DIR nor HOME is set")
                .hint("`--session FILE` or LOKT_SESSION names one")
        })?;
        // Wherever the command is by now.
        Ok(std::path::absolute(&path).unwrap_or(path))
    }

    /// A session that nobody else has, unless its file was named.
    pub(crate) fn own_session(&self) -> Result<Session, Failure> {
        if let Some(path) = &self.session {
            self.is_somewhere()?;
            return Ok(session_file::make(&std::path::absolute(path).unwrap_or_else(|_| path.clone()))?);
        }
        let random = || {
            let none = |error| Failure::io(format!("get random numbers: {error}"), None);
            machine::random().map_err(none)
        };
        Ok(Session::new(random()?, [random()?, random()?]))
    }

    fn is_somewhere(&self) -> Result<(), Failure> {
        if self.session.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            return Err(Failure::usage("a session file can't be nowhere").hint("`--session FILE` takes a path"));
        }
        Ok(())
    }

    /// The session, which must be there: without it nothing is one's own.
    pub(crate) fn session(&self, worktree: &Worktree, me: &Identity, words: &str) -> Result<Session, Failure> {
        self.session_or(worktree, me, &format!("`lokt lease status{words}` shows who holds it"))
    }

    /// The same; `next` says what to do if it isn't.
    pub(crate) fn session_or(&self, worktree: &Worktree, me: &Identity, next: &str) -> Result<Session, Failure> {
        let path = self.session_path(worktree, me)?;
        session_file::load(&path)?.ok_or_else(|| {
            let (name, file) = (quoted(worktree.name().as_str()), clean(&path.to_string_lossy()));
            let message = format!("you hold no lease of worktree {name}: there is no session file {file}");
            Failure::new(Exit::NotYours, "E_LOCK_NOT_HELD", message).hint(format!(
                "{next}; one's own needs the same --session, --owner or LOKT_OWNER as when it was acquired"
            ))
        })
    }

    /// Was a session named on the command line?
    pub(crate) fn names_session(&self) -> bool {
        self.session.is_some()
    }

    /// How this is typed: ` --session FILE --owner OWNER`, as far as it was.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        let session = self.session.as_ref().and_then(|path| path.to_str());
        for (flag, value) in [("session", session), ("owner", self.owner.as_deref())] {
            if let Some(value) = value.and_then(shell_word) {
                let _ = write!(words, " --{flag} {value}");
            }
        }
        words
    }
}

/// `main.alice`: letters, digits, dots, hyphens and underscores stand for themselves.
fn file_name(worktree: &str, owner: &str) -> String {
    let mut name = format!("{worktree}.");
    for byte in owner.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    if name.len() > FILE_NAME_BYTES_MAX {
        // A percent sign that isn't followed by digits: nobody's name is encoded like that.
        name = format!("%{}", Digest::of(name.as_bytes()));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn every_owner_has_a_file_of_its_own() {
        assert_eq!(file_name("main", "alice"), "main.alice");
        assert_eq!(file_name("main", "a/b c%"), "main.a%2Fb%20c%25");
        assert_eq!(file_name("main", ".."), "main...");
        let long: Vec<String> = ["a", "b"].map(|letter| file_name(&"n".repeat(200), &letter.repeat(100))).into();
        assert!(long.iter().all(|name| name.len() < 255 && name.starts_with('%')), "{long:?}");
        assert_ne!(long[0], long[1]);
    }
}
