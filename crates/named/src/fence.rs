//! Fencing tokens: checks whether a token is still current, and publishes a file only if it is.

use std::path::Path;

use lokt_core::audit;
use lokt_core::decide::{Intent, Presented};
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::LockId;
use lokt_core::name::LockName;

use crate::judge::{Story, rule};
use crate::locks::{Lokt, Refusal};
use crate::store::{Ask, Call, Done, Op, Request, Ruling, Stayed, Target, View};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::publish_error::{bad_target, file_error};
use lokt_sys::staged::{StageError, Staged};
use lokt_sys::warnings::WithWarnings;

/// Result of checking a token.
#[derive(Debug)]
pub enum Fenced {
    /// The token is that of this living hold.
    Current(Box<Holder>),
    /// The token is not that of a living hold.
    Denied(Refusal),
}

/// Result of a `publish`.
#[derive(Debug)]
pub enum Publishing {
    /// The file is in its place.
    Published {
        /// Its length in bytes.
        bytes: u64,
        /// The hold under which it was published.
        holder: Box<Holder>,
    },
    /// The token is no longer valid; nothing was changed.
    Denied(Refusal),
}

impl Lokt {
    /// Checks whether `token` is that of the living hold of `name`.
    pub fn check_token(&self, name: &LockName, token: impl Into<Presented>) -> Result<Fenced, Error> {
        let ask = Ask::lock(name, Intent::Check(token.into()), LockId::default());
        let view = self.look(name, ask.depth())?.readable(name, Target::Lock)?;
        let Ruling::Stay { why, .. } = rule(&ask, false, &Story::default(), &view, self.me(), self.store().contract())
        else {
            unreachable!("a check changes nothing")
        };
        Ok(fenced(why, view.slot.into_holder(), view.waiting))
    }

    /// Puts a copy of `source` in the place of `target`, atomically, if `token` is still that of
    /// the living hold of `name`. The token is compared and the file renamed inside the same mutex
    /// in which locks are granted, so no holder of a greater token can come between.
    pub fn publish(
        &self,
        name: &LockName,
        token: impl Into<Presented>,
        source: &Path,
        target: &Path,
    ) -> Result<WithWarnings<Publishing>, Error> {
        let presented = token.into();
        // With a stale token, skip the copy.
        let mut staged = match self.check_token(name, presented.clone())? {
            Fenced::Current(_) => Some(self.stage(source, target)?),
            Fenced::Denied(_) => None,
        };
        let number = presented.token;
        let asks = [Ask::lock(name, Intent::Check(presented), LockId::default())];
        let (contract, shown) = (self.store().contract(), target.to_string_lossy());
        let mut judge = |_: usize, view: &View| {
            let ruling = rule(&asks[0], false, &Story::default(), view, self.me(), contract);
            let Ruling::Stay { why, .. } = ruling else { return ruling };
            let (name, me, wall) = (name.as_str(), self.me(), view.at.wall);
            let event = match (&why, view.slot.hold()) {
                (None, Some(hold)) => audit::published(hold, name, &shown, me, wall),
                _ => audit::publish_denied(number, name, &shown, me, wall),
            };
            Ruling::Stay { why, events: vec![event] }
        };
        let mut act = || match staged.as_mut() {
            Some(staged) => staged.publish().map_err(|error| bad_target(target, error)),
            // The token wasn't current a moment ago: the record has been restored since.
            None => Err(Error::new(ErrorKind::Busy, format!("lock \"{name}\" changed at this moment"))),
        };
        let request = Request::of(self.me(), Op(0), &asks);
        let done = self.store().under(&request, &mut judge, &mut act, &Call::UNLIMITED)?;
        let Done::Stayed(stayed) = done else { unreachable!("a check changes nothing") };
        let Stayed { why, holder, waiting, warnings } = *stayed;
        let value = match (fenced(why, holder, waiting), staged) {
            (Fenced::Current(holder), Some(staged)) => {
                staged.sync().map_err(|error| {
                    Error::io("sync the directory of", target, error)
                        .hint("it is in place, but a power cut may undo that")
                })?;
                Publishing::Published { bytes: staged.bytes, holder }
            }
            (Fenced::Denied(refusal), staged) => {
                // Sync the directory in which the copy was staged.
                drop(staged.map(|staged| staged.sync()));
                Publishing::Denied(refusal)
            }
            (Fenced::Current(_), None) => unreachable!("what wasn't staged isn't published"),
        };
        Ok(WithWarnings { value, warnings })
    }

    fn stage(&self, source: &Path, target: &Path) -> Result<Staged, Error> {
        let unique = self.requests().random()?;
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

fn fenced(why: Option<Denial>, holder: Option<Box<Holder>>, waiters: usize) -> Fenced {
    match (why, holder) {
        (None, Some(holder)) => Fenced::Current(holder),
        (Some(denial), _) => Fenced::Denied(Refusal { denial, waiters, waited: None }),
        (None, None) => unreachable!("only a hold has a token"),
    }
}
