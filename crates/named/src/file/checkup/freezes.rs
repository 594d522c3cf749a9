//! Freezes that are unreadable, that have ended, or that are where old programs kept them.

use lokt_core::decide::Intent;
use lokt_core::name::LockName;

use super::{Check, Finding, Patient, Seen, counted};
use crate::file::freezes::{FREEZES_DIR, freeze_path, is_legacy};
use crate::file::record_path;
use crate::store::{Done, Slot, Target};
use lokt_sys::error::Error;

const NAME: &str = "freezes";

pub(super) fn check(patient: &Patient) -> Check {
    let files = match patient.store().disk.list(FREEZES_DIR) {
        Ok(files) => files,
        Err(error) => {
            let message = format!("list {}: {error}", patient.shown(FREEZES_DIR));
            return Check::new(NAME, [Finding::error(message).hint("what can't be read counts as frozen")]);
        }
    };
    let names = files.iter().filter_map(|file| LockName::from_file_name(file));
    Check::new(NAME, names.filter_map(|name| judge(patient, &name)))
}

fn judge(patient: &Patient, name: &LockName) -> Option<Finding> {
    let path = freeze_path(name);
    let found = patient.store().records().find(&path, name.as_str(), &patient.now);
    let unreadable = |why: String| {
        let message = format!("the freeze {} can't be read ({why}): \"{name}\" is frozen", patient.shown(&path));
        let hint = format!("somebody meant it: ask, then `lokt unfreeze --force {name}`");
        Some(Finding::error(message).hint(hint))
    };
    match found.slot {
        Slot::Free | Slot::BeingWritten => None,
        Slot::Corrupt(why) => unreadable(why),
        Slot::Unreadable(error) => unreadable(error.to_string()),
        Slot::Newer(version) => {
            let message =
                format!("{} has version {version}, newer than this lokt understands (1)", patient.shown(&path));
            Some(Finding::warn(format!("{message}: \"{name}\" is frozen")).hint("upgrade lokt"))
        }
        Slot::Held(holder) if holder.elapsed.is_expired() => {
            let finding = Finding::warn(format!("the freeze of \"{name}\" by {} is over", holder.hold.owner))
                .hint("`lokt doctor --fix` or `lokt status --prune-expired` removes it");
            patient.mend(finding, || {
                let pruned = patient.lokt.requests().ask(name, Target::Freeze, Intent::Prune)?;
                Ok::<_, Error>(matches!(pruned, Done::Committed(_)).then(|| "removed it".to_owned()))
            })
        }
        Slot::Held(_) => None,
    }
}

/// Checks freezes among the locks, `freeze-<name>`. They freeze that name for as long as they last.
pub(super) fn check_legacy(patient: &Patient) -> Check {
    let legacy = patient.records.iter().filter(|seen| frozen_by(seen).is_some());
    let (over, running): (Vec<&Seen>, Vec<&Seen>) = legacy.partition(|seen| seen.found.slot.is_expired());
    let mut findings = Vec::new();
    if !running.is_empty() {
        let names: Vec<&str> = running.iter().filter_map(|seen| frozen_by(seen)).collect();
        findings.push(
            Finding::warn(format!(
                "{} of an old lokt among the locks (locks/freeze-*.json): frozen by that: {}",
                counted(running.len(), "freeze", "freezes"),
                names.join(", ")
            ))
            .hint(format!("`lokt unfreeze {}` ends one", names[0])),
        );
    }
    findings.extend(over.into_iter().filter_map(|seen| prune(patient, seen)));
    Check::new("legacy_freezes", findings)
}

/// Returns the name that a record freezes, if it is an old freeze.
pub(super) fn frozen_by(seen: &Seen) -> Option<&str> {
    seen.hold().filter(|hold| is_legacy(hold))?;
    seen.name.as_str().strip_prefix("freeze-").filter(|name| LockName::new(name).is_ok())
}

fn prune(patient: &Patient, seen: &Seen) -> Option<Finding> {
    let path = patient.shown(&record_path(&seen.name));
    let finding = Finding::warn(format!("{path} is a freeze of an old lokt that is over"))
        .hint("`lokt doctor --fix` or `lokt status --prune-expired` removes it");
    patient.mend(finding, || {
        let pruned = patient.lokt.prune(&seen.name)?.value;
        Ok::<_, Error>((!pruned.locks.is_empty()).then(|| "removed it".to_owned()))
    })
}
