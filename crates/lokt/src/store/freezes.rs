//! Freezes over names: `freezes/<name>.json`, same schema as a lock record. While one runs, nothing new is granted.

use lokt_core::decide::{Decision, Intent, Terms};
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::Hold;
use lokt_core::liveness::Liveness;
use lokt_core::name::LockName;
use lokt_core::time::Moment;

use super::ask::Ask;
use super::change::Changed;
use super::slot::{Found, Stored};
use super::{Kind, LOCKS_DIR, Store};
use crate::error::Error;

/// The freezes.
pub(crate) const FREEZES_DIR: &str = "freezes";

/// A freeze that counts.
#[derive(Debug)]
pub(crate) enum Frozen {
    Known(Box<Holder>),
    /// It can't be read or understood; the text says why. It counts: who froze it meant it.
    Unreadable(String),
}

impl Frozen {
    /// Whose it is, or why it can't be read.
    pub(crate) fn known(self) -> Result<Box<Holder>, String> {
        match self {
            Self::Known(holder) => Ok(holder),
            Self::Unreadable(why) => Err(why),
        }
    }
}

pub(crate) fn freeze_path(name: &LockName) -> String {
    format!("{FREEZES_DIR}/{name}.json")
}

/// Where old programs kept it.
pub(crate) fn legacy_path(name: &LockName) -> String {
    format!("{LOCKS_DIR}/freeze-{name}.json")
}

impl Store<'_> {
    /// The freeze over `name`, if there is one that hasn't ended.
    pub(crate) fn freeze(&self, name: &LockName, now: &Moment) -> Option<Frozen> {
        let found = self.find(&freeze_path(name), name.as_str(), now);
        let known = match found.stored {
            Stored::Free => return self.legacy_freeze(name, now),
            Stored::Held(hold) => Holder { hold: *hold, liveness: Liveness::Unknown, elapsed: found.elapsed },
            Stored::Corrupt(why) => return Some(Frozen::Unreadable(why)),
            Stored::BeingWritten => return Some(Frozen::Unreadable("it is being written".into())),
            Stored::Newer(version) => return Some(Frozen::Unreadable(format!("it has version {version}"))),
            Stored::Unreadable(error) => return Some(Frozen::Unreadable(error.to_string())),
        };
        // One that is over hides nothing.
        if known.elapsed.is_expired() { self.legacy_freeze(name, now) } else { Some(Frozen::Known(Box::new(known))) }
    }

    /// Old programs kept freezes among the locks, as `freeze-<name>`. One of ours by that name is a lock and freezes nothing.
    pub(super) fn legacy_freeze(&self, name: &LockName, now: &Moment) -> Option<Frozen> {
        let found = self.find(&legacy_path(name), name.as_str(), now);
        if !is_legacy_freeze(&found) {
            return None;
        }
        match found.stored {
            Stored::Held(hold) => {
                let known = Holder { hold: *hold, liveness: Liveness::Unknown, elapsed: found.elapsed };
                Some(Frozen::Known(Box::new(known)))
            }
            Stored::Unreadable(error) => Some(Frozen::Unreadable(error.to_string())),
            _ => None,
        }
    }
}

impl Store<'_> {
    /// Freezes `name`, or gives the caller's freeze a new end.
    pub(crate) fn place_freeze(&self, name: &LockName, terms: Terms) -> Result<Changed, Error> {
        self.decide_freeze(name, Kind::Freeze, Intent::Freeze(terms))
    }

    /// Ends the freeze over `name`, and the one of an old program beside it. Gives what came of the first of the two that is there.
    pub(crate) fn end_freeze(&self, name: &LockName, force: bool) -> Result<Changed, Error> {
        let end = |kind| self.decide_freeze(name, kind, Intent::Unfreeze { force });
        let mut ended = end(Kind::Freeze)?;
        // Whoever is refused changes nothing.
        let refused = matches!(&ended.decision, Decision::Deny(denial) if *denial != Denial::Missing);
        if refused || self.legacy_freeze(name, &self.machine.now()).is_none() {
            return Ok(ended);
        }
        let older = end(Kind::LegacyFreeze);
        match (&ended.decision, older) {
            (Decision::Deny(Denial::Missing), older) => return older,
            // The first has ended, whatever becomes of the second.
            (Decision::Commit { .. }, Ok(Changed { decision: Decision::Deny(_), .. }) | Err(_)) => {
                let path = self.root.join(legacy_path(name));
                ended.warnings.push(format!("\"{name}\" is still frozen, by {}", path.display()));
            }
            (_, older) => ended.warnings.extend(older?.warnings),
        }
        Ok(ended)
    }

    fn decide_freeze(&self, name: &LockName, kind: Kind, intent: Intent) -> Result<Changed, Error> {
        self.change_asked(Ask::freeze(name, kind, intent))
    }

    /// Removes an expired freeze; `None` if it isn't one. Gives warnings.
    pub(crate) fn prune_freeze(&self, name: &LockName) -> Result<Option<Vec<String>>, Error> {
        let changed = self.decide_freeze(name, Kind::Freeze, Intent::Prune)?;
        Ok(matches!(changed.decision, Decision::Commit { .. }).then_some(changed.warnings))
    }
}

/// Is this the record of a program that kept freezes among the locks? One of ours says more.
pub(crate) fn is_legacy(hold: &Hold) -> bool {
    hold.is_foreign() && hold.token.is_none() && hold.boot_id.is_none()
}

/// May this be a freeze of an old program, which kept it among the locks? Its pid is that of a command that has long ended: nothing but
/// its lease ends it.
pub(super) fn may_be_legacy_freeze(path: &str, hold: &Hold) -> bool {
    let name = path.strip_prefix(LOCKS_DIR).unwrap_or_default();
    name.starts_with("/freeze-") && is_legacy(hold)
}

/// Does this file among the locks freeze something? What can't be read may do so.
pub(super) fn is_legacy_freeze(found: &Found) -> bool {
    match &found.stored {
        Stored::Held(hold) => is_legacy(hold) && !found.elapsed.is_expired(),
        Stored::Unreadable(_) => true,
        _ => false,
    }
}
