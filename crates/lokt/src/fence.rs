//! Acting under a fencing token: asking whether it is still the one, and publishing a file only if it is.

use std::io;
use std::path::Path;

use lokt_core::audit;
use lokt_core::decide::{Decision, Intent, Policy, Presented, decide};
use lokt_core::denial::Holder;
use lokt_core::hold::{Fence, LockId};
use lokt_core::name::LockName;

use crate::error::{Error, ErrorKind};
use crate::locks::{Lokt, Refusal, Said};
use crate::store::slot::Depth;
use crate::store::{Kind, Store};
use crate::sys::staged::{StageError, Staged};

/// The answer to a question about a token.
#[derive(Debug)]
pub enum Fenced {
    /// It is the one of this living hold.
    Current(Box<Holder>),
    /// It is not.
    Denied(Refusal),
}

/// The answer to a `publish`.
#[derive(Debug)]
pub enum Publishing {
    /// The file is in its place.
    Published {
        /// How long it is.
        bytes: u64,
        /// The hold under which it was published.
        holder: Box<Holder>,
    },
    /// The token is no good any more; nothing was touched.
    Denied(Refusal),
}

impl Lokt {
    /// Is `token` that of the living hold of `name`?
    pub fn check_token(&self, name: &LockName, token: impl Into<Presented>) -> Result<Fenced, Error> {
        check(&self.store(), name, &token.into())
    }

    /// Puts a copy of `source` where `target` is, in one step, if `token` is still that of the living hold of `name`: it is
    /// compared and the file renamed inside the same mutex in which locks are granted, so nobody with a greater token can come between.
    pub fn publish(
        &self,
        name: &LockName,
        token: impl Into<Presented>,
        source: &Path,
        target: &Path,
    ) -> Result<Said<Publishing>, Error> {
        let (store, presented) = (self.store(), token.into());
        // Whoever is too late needn't copy first.
        let mut staged = match check(&store, name, &presented)? {
            Fenced::Current(_) => Some(self.stage(source, target)?),
            Fenced::Denied(_) => None,
        };
        let inside = store.enter()?;
        let now = self.now();
        let (value, event) = match (check(&store, name, &presented)?, staged.as_mut()) {
            (Fenced::Current(holder), Some(staged)) => {
                staged.publish().map_err(|error| bad_target(target, error))?;
                let event =
                    audit::published(&holder.hold, name.as_str(), &target.to_string_lossy(), self.me(), now.wall);
                (Publishing::Published { bytes: staged.bytes, holder }, event)
            }
            // It wasn't a moment ago: somebody restored the record.
            (Fenced::Current(_), None) => {
                let message = format!("lock \"{name}\" changed at this moment");
                return Err(Error::new(ErrorKind::Busy, message));
            }
            (Fenced::Denied(refusal), _) => {
                let target = target.to_string_lossy();
                let event = audit::publish_denied(presented.token, name.as_str(), &target, self.me(), now.wall);
                (Publishing::Denied(refusal), event)
            }
        };
        let trail = store.account(&[event]);
        drop(inside);
        let synced = staged.as_ref().map_or(Ok(()), Staged::sync);
        let warnings = store.settle_trail(trail);
        if let Publishing::Published { .. } = value {
            synced.map_err(|error| {
                Error::io("sync the directory of", target, error).hint("it is in place, but a power cut may undo that")
            })?;
        }
        Ok(Said { value, warnings })
    }

    fn stage(&self, source: &Path, target: &Path) -> Result<Staged, Error> {
        let unique = self.machine().random().map_err(|error| Error::io("get random bits for", self.root(), error))?;
        Staged::copy(source, target, unique).map_err(|failure| match failure {
            StageError::Source(error) => file_error("read", source, error).hint("nothing was published"),
            StageError::Target(error) => bad_target(target, error),
            StageError::Changed => {
                let message = format!("{} changed while it was copied", source.display());
                Error::new(ErrorKind::Busy, message).hint("publish what nobody writes to any more")
            }
        })
    }
}

fn check(store: &Store<'_>, name: &LockName, presented: &Presented) -> Result<Fenced, Error> {
    let now = store.machine.now();
    let view = store.view(name, &now, Depth::Holder, None)?.readable(name, Kind::Lock)?;
    let (id, unused) = (LockId::default(), Fence::new(1).expect("one is a token"));
    let decision =
        decide(&Intent::Check(presented.clone()), view.facts(now, &id, unused, None), store.me, &Policy::NAMED);
    Ok(match (decision, view.found.holder()) {
        (Decision::Inside, Some(holder)) => Fenced::Current(Box::new(holder)),
        (Decision::Deny(denial), _) => {
            Fenced::Denied(Refusal { denial, waiters: view.line.waiters.len(), waited: None })
        }
        _ => unreachable!("a check changes nothing, and only a hold has a token"),
    })
}

pub(crate) fn bad_target(target: &Path, error: io::Error) -> Error {
    let needs = match error.kind() {
        io::ErrorKind::InvalidInput => "it must be a regular file, or nothing yet, and never a symbolic link",
        io::ErrorKind::IsADirectory => "name the file in it, too",
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "its directory must be there first",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "its directory must be writable: the file is made there before it takes its place"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the whole file must fit beside the one that it replaces"
        }
        _ => return file_error("publish to", target, error).hint("nothing was published"),
    };
    file_error("publish to", target, error).hint(format!("nothing was published; {needs}"))
}

pub(crate) fn file_error(attempt: &str, path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => {
            Error::new(ErrorKind::NotARecord, format!("can't {attempt} {}: {error}", path.display()))
        }
        _ => Error::io(attempt, path, error),
    }
}
