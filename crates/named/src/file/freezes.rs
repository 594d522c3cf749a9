//! Freezes over names: `freezes/<name>.json`, same schema as a lock record. While one is active,
//! nothing new is granted.

use lokt_core::denial::Denial;
use lokt_core::hold::Hold;
use lokt_core::name::LockName;
use lokt_core::time::Moment;

use super::slot::Found;
use super::slot::Records;
use super::transact::Transactions;
use super::{Kind, LOCKS_DIR};
use crate::store::{Call, Done, Frozen, Judge, Request, Slot};
use lokt_sys::error::Error;
use lokt_sys::warnings::Warning;

/// Directory of the freezes.
pub(crate) const FREEZES_DIR: &str = "freezes";

pub(crate) fn freeze_path(name: &LockName) -> String {
    format!("{FREEZES_DIR}/{name}.json")
}

/// Returns the path where old programs kept it.
pub(crate) fn legacy_path(name: &LockName) -> String {
    format!("{LOCKS_DIR}/freeze-{name}.json")
}

impl Records<'_> {
    /// Returns the freeze over `name`, if there is one that hasn't ended.
    pub(crate) fn freeze(&self, name: &LockName, now: &Moment) -> Option<Frozen> {
        match self.find(&freeze_path(name), name.as_str(), now).without_liveness().slot {
            // A freeze that has ended doesn't hide an older one.
            Slot::Held(known) if !known.elapsed.is_expired() => Some(Frozen::Known(known)),
            Slot::Free | Slot::Held(_) => self.legacy_freeze(name, now),
            Slot::Corrupt(why) => Some(Frozen::Unreadable(why)),
            Slot::BeingWritten => Some(Frozen::Unreadable("it is being written".into())),
            Slot::Newer(version) => Some(Frozen::Unreadable(format!("it has version {version}"))),
            Slot::Unreadable(error) => Some(Frozen::Unreadable(error.to_string())),
        }
    }

    /// Returns the freeze of an old program, which kept freezes among the locks, as
    /// `freeze-<name>`. One of ours by that name is a lock and freezes nothing.
    pub(super) fn legacy_freeze(&self, name: &LockName, now: &Moment) -> Option<Frozen> {
        let found = self.find(&legacy_path(name), name.as_str(), now);
        if !is_legacy_freeze(&found) {
            return None;
        }
        match found.without_liveness().slot {
            Slot::Held(known) => Some(Frozen::Known(known)),
            Slot::Unreadable(error) => Some(Frozen::Unreadable(error.to_string())),
            _ => None,
        }
    }
}

impl Transactions<'_> {
    /// Ends the freeze over a name, and that of an old program beside it. Returns the result of the
    /// first of the two that exists.
    pub(super) fn end_freeze(
        &self,
        request: &mut Request<'_>,
        judge: &mut Judge<'_>,
        call: &Call<'_>,
    ) -> Result<Done, Error> {
        let name = request.asks[0].name;
        let mut ended = self.pursue(request, 0, Kind::Freeze, judge, call)?;
        // A refused request changes nothing.
        let is_missing = |done: &Done| matches!(done, Done::Stayed(stayed) if stayed.why == Some(Denial::Missing));
        let refused = matches!(ended, Done::Stayed(_)) && !is_missing(&ended);
        if refused || self.store.records().legacy_freeze(name, &self.store.machine.now()).is_none() {
            return Ok(ended);
        }
        let older = self.pursue(request, 0, Kind::LegacyFreeze, judge, call);
        let Done::Committed(first) = &mut ended else { return older };
        if let Ok(Done::Committed(older)) = older {
            first.warnings.extend(older.warnings);
        } else {
            // The first has ended, whatever happens to the second.
            let path = self.store.root.join(legacy_path(name));
            let still = format!("\"{name}\" is still frozen, by {}", path.display());
            first.warnings.push(Warning::StillFrozen(still));
        }
        Ok(ended)
    }
}

/// Reports whether this is the record of a program that kept freezes among the locks. Records of
/// ours say more.
pub(crate) fn is_legacy(hold: &Hold) -> bool {
    hold.is_foreign() && hold.token.is_none() && hold.boot_id.is_none()
}

/// Reports whether this may be a freeze of an old program, which kept it among the locks. Its pid
/// is that of a command that has long ended, so only its lease ends it.
pub(super) fn may_be_legacy_freeze(path: &str, hold: &Hold) -> bool {
    let name = path.strip_prefix(LOCKS_DIR).unwrap_or_default();
    name.starts_with("/freeze-") && is_legacy(hold)
}

/// Reports whether this file among the locks freezes something. An unreadable one may do so.
pub(super) fn is_legacy_freeze(found: &Found) -> bool {
    match &found.slot {
        Slot::Held(holder) => is_legacy(&holder.hold) && !holder.elapsed.is_expired(),
        Slot::Unreadable(_) => true,
        _ => false,
    }
}
