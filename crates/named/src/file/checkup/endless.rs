//! Holds that nothing will ever end.

use lokt_core::denial::Holder;
use lokt_core::duration::show_seconds;
use lokt_core::hold::PartKind;
use lokt_core::liveness::{Liveness, is_local};
use lokt_core::time::{Lease, millis_between};

use super::freezes::frozen_by;
use super::{Check, Finding, Patient, Seen};

/// Age in milliseconds from which a lock without a lease may have been forgotten: longer than a
/// working day.
const LONG_MS: i64 = 24 * 60 * 60_000;

pub(super) fn check(patient: &Patient) -> Check {
    Check::new("endless", patient.records.iter().filter_map(|seen| judge(patient, seen)))
}

fn judge(patient: &Patient, seen: &Seen) -> Option<Finding> {
    // Old freezes look like locks, and are reported as freezes.
    let holder = seen.found.holder().filter(|_| frozen_by(seen).is_none())?;
    let name = &seen.name;
    let age_ms = holder.hold.began().map_or(0, |began| millis_between(began, patient.now.wall));
    let who = format!("lock \"{name}\" of {}@{}", holder.hold.owner, holder.hold.host);
    let for_long = format!("has been held for {} and has no end", show_seconds((age_ms / 1000).max(0)));
    let force = format!("`lokt why {name}` shows the evidence; if nobody needs it, `lokt unlock --force {name}`");
    match why(patient, holder)? {
        Why::OtherMachine => Some(Finding::warn(format!(
            "{who} {for_long}; no other machine writes to this disk, so this one was called {} then, or the disk came from there",
            holder.hold.host
        ))),
        Why::Unseen => {
            Some(Finding::warn(format!("{who} {for_long}, and its process (pid {}) can't be seen from here", holder.hold.pid)))
        }
        Why::Owner if age_ms > LONG_MS => Some(Finding::warn(format!("{who} {for_long}; only an unlock ends it"))),
        Why::Owner => None,
    }
    .map(|finding| finding.hint(force))
}

enum Why {
    /// Acquired on another machine, on a disk that only this one writes to.
    OtherMachine,
    /// A process that can't be checked.
    Unseen,
    /// An owner's hold.
    Owner,
}

fn why(patient: &Patient, holder: &Holder) -> Option<Why> {
    let endless = |kind| holder.part_lives(kind) && holder.elapsed.part(kind) == Lease::Endless;
    let (owner, process) = (endless(PartKind::Owner), endless(PartKind::Process));
    let me = patient.lokt.me();
    let unseen = process && holder.liveness == Liveness::Unknown;
    match (owner, unseen) {
        (true, _) | (_, true) if holder.hold.host != me.host && is_local(me.fs) => Some(Why::OtherMachine),
        (_, true) => Some(Why::Unseen),
        (true, false) => Some(Why::Owner),
        (false, false) => None,
    }
}
