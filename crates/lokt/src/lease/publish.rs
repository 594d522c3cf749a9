//! Acting under a token: asking whether it is still the one, and publishing a file only if it is.
//!
//! The copy lies in the staging before the chain is read, and takes its place after the link that says so was added. Whoever gets the
//! lease reads the chain, empties the staging, and then adds its own link after what it has read: either it sees the copy, and removes
//! it, or the two links want the same number.

use std::io;
use std::path::Path;

use lokt_core::denial::Denial;
use lokt_core::hold::LockId;
use lokt_core::lease::deciding::{Answer, Ask, ask};
use lokt_core::lease::record::Record;
use lokt_core::lease::slot::Kind;

use super::Worktree;
use super::answers::{LeaseRefusal, Publishing, TokenCheck};
use super::commit::{Deed, Step};
use super::scene::{Asker, Scene};
use super::sight::Sight;
use super::staging::Copy;
use super::take::TRIES;
use crate::error::{Error, ErrorKind};
use crate::fence::{bad_target, file_error};
use crate::sys::place::Place;

impl Worktree {
    pub(crate) fn check(&self, token: u64) -> Result<TokenCheck, Error> {
        let Some(scene) = self.look(Asker::Token(token), &mut Sight::default())? else {
            return Ok(no_such_token(token));
        };
        Ok(match self.current(&scene, token)? {
            Ok(record) => TokenCheck::Current(Box::new(record.clone())),
            Err(denial) => TokenCheck::Denied(Box::new(scene.refusal(denial))),
        })
    }

    /// The lease that the token is that of, if it lives.
    pub(crate) fn current<'s>(&self, scene: &'s Scene, token: u64) -> Result<Result<&'s Record, Denial>, Error> {
        let next = self.fence(scene.links.next())?;
        let answer =
            ask(Ask::Check(token), scene.standing.stored(), next, &LockId::default(), scene.links.now, &self.me());
        Ok(match (answer, scene.links.record()) {
            (Answer::Current, Some(record)) => Ok(record),
            (Answer::Deny(denial), _) => Err(denial),
            // The token of another tool's lock.
            _ => Err(Denial::StaleToken { named: token, current: None }),
        })
    }

    pub(crate) fn put(&self, token: u64, source: &Path, target: &Path) -> Result<Publishing, Error> {
        self.make_staging()?;
        let place = Place::open(target).map_err(|error| bad_target(target, error))?;
        if !place.is_beside(&self.staging_path()).map_err(|error| bad_target(target, error))? {
            let message = format!("{} is on another file system than {}", target.display(), self.repo.path.display());
            let hint = "nothing was published; `lokt lease fence check` asks whether the token is still good";
            return Err(Error::new(ErrorKind::Unusable, message).hint(hint));
        }
        if place.is_below(&self.repo.path).map_err(|error| bad_target(target, error))? {
            let message = format!("{} is the repository's own: nothing is published there", target.display());
            return Err(Error::new(ErrorKind::BadName, message).hint("name a file outside of .jvs"));
        }
        if place.has(source).map_err(|error| file_error("read", source, error).hint("nothing was published"))? {
            return Err(Error::new(ErrorKind::NotARecord, format!("{} is the source itself", target.display()))
                .hint("nothing was published; name another target"));
        }
        for _ in 0..TRIES {
            // Whoever is too late needn't copy first.
            if let TokenCheck::Denied(refusal) = self.check(token)? {
                return Ok(Publishing::Denied(refusal));
            }
            let Some(copy) = self.stage(token, source)? else { continue };
            let record = match self.commit_to(token, target, &copy)? {
                Ok(record) => record,
                Err(refusal) => return Ok(Publishing::Denied(Box::new(refusal))),
            };
            match place.fill(&copy.path) {
                Ok(()) => {
                    let done = Publishing::Published { bytes: copy.bytes, record: Box::new(record.clone()) };
                    drop(copy);
                    place.sync().map_err(|error| {
                        let hint = "it is in place, but a power cut may undo that";
                        Error::io("sync the directory of", target, error).hint(hint)
                    })?;
                    return Ok(done);
                }
                // Somebody who has the lease by now, or is about to, has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let deed = Deed::new("publish_failed", self.repo.machine.now()).about(&record);
                    self.note(deed.with("target", target.to_string_lossy()).with("why", error.to_string()));
                    return Err(bad_target(target, error));
                }
            }
        }
        Err(self.too_busy())
    }

    /// Adds the link that lets a copy take its place.
    fn commit_to(&self, token: u64, target: &Path, copy: &Copy) -> Result<Result<Record, LeaseRefusal>, Error> {
        let _gate = self.gate(u64::MAX);
        for _ in 0..TRIES {
            let Some(scene) = self.look(Asker::Token(token), &mut Sight::default())? else {
                return Ok(Err(LeaseRefusal::stale(token)));
            };
            let record = match self.current(&scene, token)? {
                Ok(record) => record.clone(),
                Err(denial) => return Ok(Err(scene.refusal(denial))),
            };
            let deed = Deed::new("publish", self.repo.machine.now()).about(&record);
            let deed = deed.with("target", target.to_string_lossy()).with("bytes", copy.bytes);
            let step = Step { kind: Kind::Publish, record: Some(record.clone()), deed };
            let Some(added) = self.add(&scene.links, step)? else { continue };
            self.settle_after(&added)?;
            if self.still_stands(&added)? {
                self.still_exists()?;
                return Ok(Ok(record));
            }
        }
        Err(self.too_busy())
    }
}

fn no_such_token(token: u64) -> TokenCheck {
    TokenCheck::Denied(Box::new(LeaseRefusal::stale(token)))
}
