//! Acts under a token: checks whether it is still current, and publishes a file only if it is.
//!
//! The copy is in the staging directory before the chain is read, and is moved to the target after
//! its link was added. A new holder reads the chain, empties the staging directory, and adds its
//! link after what it has read. So it removes the copy, or both links want the same number.

use super::attempts::Turn;
use super::scene::Observer;
use std::io;
use std::path::Path;

use lokt_core::denial::Denial;
use lokt_core::hold::LockId;
use lokt_core::lease::deciding::{Answer, Ask, ask};
use lokt_core::lease::record::Record;
use lokt_core::lease::slot::Kind;

use super::Worktree;
use super::answers::{LeaseRefusal, Publishing, TokenCheck};
use super::commit::{AuditEntry, NewLink};
use super::scene::{Caller, LeaseSnapshot};
use super::sight::Sight;
use super::staging::Copy;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::place::Place;
use lokt_sys::publish_error::{bad_target, file_error};

impl Observer<'_> {
    pub(crate) fn check(&self, token: u64) -> Result<TokenCheck, Error> {
        let Some(scene) = self.read(Caller::Token(token), &mut Sight::default())? else {
            return Ok(no_such_token(token));
        };
        Ok(match self.current(&scene, token) {
            Ok(record) => TokenCheck::Current(Box::new(record.clone())),
            Err(denial) => TokenCheck::Denied(Box::new(scene.refusal(denial))),
        })
    }

    /// Returns the lease that the token belongs to, if it is live.
    pub(crate) fn current<'s>(&self, scene: &'s LeaseSnapshot, token: u64) -> Result<&'s Record, Denial> {
        let (stored, me) = (scene.standing.stored(), self.worktree.me());
        let answer = ask(Ask::Check(token), stored, &LockId::default(), scene.links.now, &me);
        match (answer, scene.links.record()) {
            (Answer::Current, Some(record)) => Ok(record),
            (Answer::Deny(denial), _) => Err(denial),
            // The token of another tool's lock.
            _ => Err(Denial::StaleToken { named: token, current: None }),
        }
    }
}

/// Publishes files under a token.
pub(crate) struct Publisher<'w> {
    pub(crate) worktree: &'w Worktree,
}

impl Publisher<'_> {
    pub(crate) fn publish(&self, token: u64, source: &Path, target: &Path) -> Result<Publishing, Error> {
        self.worktree.staging().make()?;
        let place = Place::open(target).map_err(|error| bad_target(target, error))?;
        if !place.is_beside(&self.worktree.staging().path()).map_err(|error| bad_target(target, error))? {
            let message =
                format!("{} is on another file system than {}", target.display(), self.worktree.repo.path.display());
            let hint = "nothing was published; `lokt lease fence check` asks whether the token is still good";
            return Err(Error::new(ErrorKind::Unusable, message).hint(hint));
        }
        if place.is_below(&self.worktree.repo.path).map_err(|error| bad_target(target, error))? {
            let message = format!("{} is the repository's own: nothing is published there", target.display());
            return Err(Error::new(ErrorKind::BadName, message).hint("name a file outside of .jvs"));
        }
        if place.has(source).map_err(|error| file_error("read", source, error).hint("nothing was published"))? {
            return Err(Error::new(ErrorKind::NotARecord, format!("{} is the source itself", target.display()))
                .hint("nothing was published; name another target"));
        }
        self.worktree.writer().retry(|| self.attempt(token, source, target, &place))
    }

    /// Copies the file, and moves the copy to the target. `None`: the copy was removed before that.
    fn attempt(&self, token: u64, source: &Path, target: &Path, place: &Place) -> Result<Option<Publishing>, Error> {
        // A stale token is refused before anything is copied.
        if let TokenCheck::Denied(refusal) = self.worktree.observer().check(token)? {
            return Ok(Some(Publishing::Denied(refusal)));
        }
        let Some(copy) = self.worktree.staging().copy(token, source)? else { return Ok(None) };
        let record = match self.commit_to(token, target, &copy)? {
            Ok(record) => record,
            Err(refusal) => return Ok(Some(Publishing::Denied(Box::new(refusal)))),
        };
        match place.fill(&copy.path) {
            Ok(()) => {
                let done = Publishing::Published { bytes: copy.bytes, record: Box::new(record) };
                drop(copy);
                place.sync().map_err(|error| {
                    let hint = "it is in place, but a power cut may undo that";
                    Error::io("sync the directory of", target, error).hint(hint)
                })?;
                Ok(Some(done))
            }
            // The current or next holder of the lease has removed the copy.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let now = self.worktree.repo.machine.now();
                let deed = AuditEntry::new("publish_failed", now).about(&record);
                let deed = deed.with("target", target.to_string_lossy());
                self.worktree.log().note(deed.with("why", error.to_string()));
                Err(bad_target(target, error))
            }
        }
    }

    /// Adds the link that permits moving a copy to the target.
    fn commit_to(&self, token: u64, target: &Path, copy: &Copy) -> Result<Result<Record, LeaseRefusal>, Error> {
        let worktree = self.worktree;
        let gate = worktree.writer().gate(u64::MAX);
        let sight = &mut Sight::default();
        let turn = Turn { caller: Caller::Token(token), sight, gate, gate_after_conflict_ms: None };
        worktree.writer().decide(turn, |scene| {
            let Some(scene) = scene else { return Ok(Some(Err(LeaseRefusal::stale(token)))) };
            let record = match worktree.observer().current(scene, token) {
                Ok(record) => record.clone(),
                Err(denial) => return Ok(Some(Err(scene.refusal(denial)))),
            };
            let deed = AuditEntry::new("publish", worktree.repo.machine.now()).about(&record);
            let deed = deed.with("target", target.to_string_lossy()).with("bytes", copy.bytes);
            let step = NewLink { kind: Kind::Publish, record: Some(record.clone()), deed };
            let Some(added) = worktree.writer().add(&scene.links, step)? else { return Ok(None) };
            worktree.views().settle_after(&added)?;
            if !worktree.writer().still_stands(&added)? {
                return Ok(None);
            }
            worktree.writer().still_exists()?;
            Ok(Some(Ok(record)))
        })
    }
}

fn no_such_token(token: u64) -> TokenCheck {
    TokenCheck::Denied(Box::new(LeaseRefusal::stale(token)))
}
