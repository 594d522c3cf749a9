//! Ends many holds: those of an owner, and those that have expired.

use lokt_core::decide::Intent;
use lokt_core::denial::Denial;
use lokt_core::name::LockName;

use crate::locks::Lokt;
use crate::store::{Depth, Done, Scan, Slot, Target, View};
use lokt_sys::error::Error;
use lokt_sys::warnings::{Warning, WithWarnings};

/// Result of `unlock --owner` or `--all`.
#[derive(Debug, Default)]
pub struct Swept {
    /// Names whose owner part ended.
    pub released: Vec<String>,
    /// Names that a running guard holds.
    pub skipped: Vec<String>,
}

/// Result of `status --prune-expired`.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Expired locks that were removed.
    pub locks: Vec<String>,
    /// Expired freezes that were removed.
    pub freezes: Vec<String>,
    /// Expired locks that were kept, because their process runs.
    pub kept: Vec<String>,
}

impl Lokt {
    /// Ends every hold of `owner`. A hold with a guard behind it is skipped.
    pub fn unlock_owner(&self, owner: &str) -> Result<WithWarnings<Swept>, Error> {
        let mut swept = Swept::default();
        let mut warnings = Vec::new();
        let names = self.scan(Scan::Held, Depth::HOLDER, |name, view| {
            let unreadable = match view.slot {
                Slot::Held(holder) => return (holder.hold.owner == owner).then(|| Ok(name.clone())),
                Slot::Free | Slot::BeingWritten => return None,
                Slot::Unreadable(error) => error.to_string(),
                Slot::Corrupt(why) => why,
                Slot::Newer(version) => format!("it has version {version}"),
            };
            Some(Err(Warning::Unreadable(format!("skipping unreadable lock \"{name}\": {unreadable}"))))
        })?;
        let names: Vec<LockName> =
            names.into_iter().filter_map(|name| name.map_err(|why| warnings.push(why)).ok()).collect();
        for (number, done) in self.requests().ask_each(&names, Target::Lock, &Intent::UnlockFor(owner.to_owned()))? {
            match done {
                Done::Committed(committed) => {
                    warnings.extend(committed.warnings);
                    swept.released.push(names[number].to_string());
                }
                Done::Stayed(stayed) => {
                    warnings.extend(stayed.warnings);
                    // Any other one is gone or has another holder since the scan.
                    if let Some(Denial::Guarded(_)) = stayed.why {
                        swept.skipped.push(names[number].to_string());
                    }
                }
                Done::Queued(_) => unreachable!("an unlock doesn't wait"),
                Done::Failed(failure) => return Err(some_ended(failure, swept.released.len())),
            }
        }
        Ok(WithWarnings { value: swept, warnings })
    }

    /// Removes the lock `name` if it has expired.
    pub fn prune(&self, name: &LockName) -> Result<WithWarnings<Pruned>, Error> {
        let mut pruned = WithWarnings { value: Pruned::default(), warnings: Vec::new() };
        tell_pruned(name, self.requests().ask(name, Target::Lock, Intent::Prune)?, &mut pruned)?;
        Ok(pruned)
    }

    /// Removes every expired lock and freeze.
    pub fn prune_all(&self) -> Result<WithWarnings<Pruned>, Error> {
        let mut pruned = WithWarnings { value: Pruned::default(), warnings: Vec::new() };
        let expired = |name: &LockName, view: View| view.slot.is_expired().then(|| name.clone());
        let names = self.scan(Scan::Held, Depth::HOLDER, expired)?;
        for (number, done) in self.requests().ask_each(&names, Target::Lock, &Intent::Prune)? {
            // A failure has no name.
            let Some(name) = names.get(number) else {
                let Done::Failed(failure) = done else { continue };
                return Err(some_ended(failure, pruned.value.locks.len()));
            };
            tell_pruned(name, done, &mut pruned)?;
        }
        let frozen = self.scan(Scan::Frozen, Depth::HOLDER, expired)?;
        for (number, done) in self.requests().ask_each(&frozen, Target::Freeze, &Intent::Prune)? {
            match done {
                Done::Committed(committed) => {
                    pruned.warnings.extend(committed.warnings);
                    pruned.value.freezes.push(frozen[number].to_string());
                }
                Done::Failed(failure) => return Err(failure),
                Done::Stayed(_) | Done::Queued(_) => {}
            }
        }
        Ok(pruned)
    }
}

fn tell_pruned(name: &LockName, done: Done, pruned: &mut WithWarnings<Pruned>) -> Result<(), Error> {
    match done {
        Done::Committed(committed) => {
            pruned.warnings.extend(committed.warnings);
            pruned.value.locks.push(name.to_string());
        }
        Done::Stayed(stayed) => {
            pruned.warnings.extend(stayed.warnings);
            let was_expired = stayed.holder.is_some_and(|holder| holder.elapsed.is_expired());
            if stayed.why == Some(Denial::Kept) && was_expired {
                pruned.value.kept.push(name.to_string());
            }
        }
        Done::Queued(_) => unreachable!("pruning doesn't wait"),
        Done::Failed(failure) => return Err(failure),
    }
    Ok(())
}

/// Adds to a failure among many names how many were ended before it, and stay so.
fn some_ended(failure: Error, count: usize) -> Error {
    match count {
        0 => failure,
        1 => failure.hint("1 lock was ended before; `lokt status` lists the rest"),
        _ => failure.hint(format!("{count} locks were ended before; `lokt status` lists the rest")),
    }
}
