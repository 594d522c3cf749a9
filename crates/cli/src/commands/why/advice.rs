//! The advice: the exact next commands for what stands in the way of a lock.

use lokt_core::denial::{Denial, Holder};
use lokt_core::duration;
use lokt_core::hold::{Hold, PartKind};
use lokt_core::liveness::Liveness;
use lokt_named::{Entry, EntryState, Link, Lokt, Outlook};

use crate::members::KeeperMembers;
use crate::show::{clean, if_certain, owner_at, seconds};

/// What ends somebody else's freeze or hold without asking.
pub(super) fn last_resort(name: &str, outlook: &Outlook) -> Option<String> {
    let reader = std::io::stdout();
    let state = outlook.entry.as_ref().map(|entry| &entry.state);
    match (&outlook.denial, state) {
        (Some(Denial::Frozen(_)), _) => {
            if_certain(&reader, &format!("lokt unfreeze --force {name}"), "ends the freeze without asking who froze it")
        }
        (Some(Denial::Held(_)), _) | (None, Some(EntryState::Held(_))) if is_held(state) => {
            if_certain(&reader, &format!("lokt unlock --force {name}"), "removes it without asking its holder")
        }
        (_, Some(EntryState::Newer(_) | EntryState::Unreadable(_))) => {
            if_certain(&reader, &format!("lokt unlock --force {name}"), "moves it aside")
        }
        _ => None,
    }
}

fn is_held(state: Option<&EntryState>) -> bool {
    matches!(state, Some(EntryState::Held(holder)) if holder.lives())
}

pub(super) fn deadlock_advice(cycle: &[Link]) -> Vec<String> {
    let end = |link: &Link| {
        let (owner, pid) = (clean(&link.waiter.pulse.owner), link.waiter.pulse.process.pid);
        format!("kill {pid}  (ends {owner}'s wait for {}; ending one wait is enough)", link.waits_for)
    };
    let mut names: Vec<&str> = cycle.iter().flat_map(|link| [link.holds.as_str(), link.waits_for.as_str()]).collect();
    names.sort_unstable();
    names.dedup();
    let together = match names.as_slice() {
        // A process that waits for what it is inside of.
        [_] => None,
        names => Some(format!(
            "lokt guard {} --wait -- COMMAND  (next time: takes all of them, in an order that can't deadlock)",
            names.join(" ")
        )),
    };
    cycle.iter().map(end).chain(together).collect()
}

/// What ends a freeze.
pub(super) fn thaw(name: &str, freeze: &Holder, lokt: &Lokt) -> String {
    if freeze.hold.owner == lokt.me().owner {
        return format!("lokt unfreeze {name}  (the freeze is of the same owner, {})", clean(&freeze.hold.owner));
    }
    format!("Ask {}, whose freeze it is, for `lokt unfreeze {name}`", owner_at(&freeze.hold))
}

/// What ends a hold whose guard is gone.
pub(super) fn orphan_advice(kept_by: &[KeeperMembers]) -> Option<String> {
    let pids: Vec<String> = kept_by.iter().map(|keeper| keeper.pid.to_string()).collect();
    let what = if pids.len() == 1 { "the process that still keeps it" } else { "the processes that still keep it" };
    (!pids.is_empty()).then(|| format!("kill {}  (ends {what})", pids.join(" ")))
}

/// Where the way becomes free by itself, one can wait for it.
pub(super) fn waiting_advice(name: &str, outlook: &Outlook) -> Vec<String> {
    let guard = format!("lokt guard {name} --wait -- COMMAND");
    let ends = ends_in(outlook).map(|left| format!("; it ends by itself in {left}")).unwrap_or_default();
    match (&outlook.denial, outlook.entry.as_ref().map(|entry| &entry.state)) {
        (Some(Denial::Held(_) | Denial::Queued { .. } | Denial::Frozen(_)), _) => vec![
            format!("lokt lock {name} --wait  (waits in line for it{ends})"),
            format!("{guard}  (waits in line, and runs COMMAND under it)"),
        ],
        // One's own process: `lock` joins it, another guard must wait for it.
        (None, Some(EntryState::Held(holder))) if holder.part_lives(PartKind::Process) => {
            vec![format!("{guard}  (waits until that process ends, and runs COMMAND under it)")]
        }
        _ => Vec::new(),
    }
}

/// How long until what stands in the way ends by itself, if it does. A guard that runs renews its lease.
fn ends_in(outlook: &Outlook) -> Option<String> {
    let left_ms = match (&outlook.denial, outlook.entry.as_ref().map(|entry| &entry.state)) {
        (Some(Denial::Frozen(Some(freeze))), _) => freeze.elapsed.left_ms(),
        (Some(Denial::Held(_)), Some(EntryState::Held(holder))) => {
            let renewed = holder.liveness == Liveness::Alive && holder.hold.pulse.is_some();
            holder.left_ms().filter(|_| !renewed)
        }
        _ => None,
    };
    left_ms.map(|left_ms| duration::show_seconds(seconds(left_ms)))
}

/// The flag that keeps the TTL: a refresh without it takes the end away.
fn ttl_again(hold: &Hold) -> String {
    if hold.ttl_sec > 0 { format!(" --ttl {}", duration::show_seconds(hold.ttl_sec)) } else { String::new() }
}

/// The exact next commands.
pub(super) fn advice(name: &str, entry: &Entry, outlook: &Outlook) -> Vec<String> {
    let would_grant = outlook.denial.is_none();
    match &entry.state {
        EntryState::Held(holder) if holder.staleness().is_some() && outlook.refreshes => {
            vec![
                format!("lokt lock {name}{}  (takes it again, with a new token)", ttl_again(&holder.hold)),
                format!("lokt unlock {name}  (removes it)"),
            ]
        }
        EntryState::Held(holder) if holder.staleness().is_some() && would_grant => {
            vec![
                format!("lokt lock {name}  (breaks it and takes the lock)"),
                format!("lokt unlock --break-stale {name}  (only removes it)"),
            ]
        }
        EntryState::Held(holder) if outlook.refreshes => {
            let pid = holder.hold.pid;
            match (holder.part_lives(PartKind::Process), holder.part_lives(PartKind::Owner)) {
                (true, true) => vec![format!("lokt unlock {name}  (ends your part; process {pid} still holds it)")],
                (true, false) => {
                    let ends = if holder.liveness == Liveness::Orphan {
                        "its command ends".to_owned()
                    } else {
                        format!("process {pid} ends")
                    };
                    // What runs under a guard is not ended by `unlock`; another program's drops what joins it.
                    let hold = &holder.hold;
                    let is_foreign_guard = hold.has_foreign_process() && holder.liveness != Liveness::Unknown;
                    let unlock =
                        (hold.pulse.is_none() && !is_foreign_guard).then(|| format!("lokt unlock {name}  (ends it)"));
                    let lasts = if is_foreign_guard {
                        format!("until process {pid} renews its lock or ends")
                    } else {
                        format!("then it lasts until {ends} and you unlock it")
                    };
                    let join = format!("lokt lock {name}  (joins it: {lasts})");
                    [Some(join), unlock].into_iter().flatten().collect()
                }
                _ => vec![
                    format!("lokt lock {name}{}  (refreshes it)", ttl_again(&holder.hold)),
                    format!("lokt unlock {name}  (ends it)"),
                ],
            }
        }
        EntryState::Corrupt(_) if would_grant => {
            vec![
                format!("lokt lock {name}  (moves it aside and takes the lock)"),
                format!("lokt unlock --break-stale {name}  (only moves it aside)"),
            ]
        }
        EntryState::Newer(_) => vec!["lokt version  (a newer lokt wrote it: upgrade this one)".to_owned()],
        EntryState::BeingWritten => vec![format!("lokt lock {name}  (again, in two seconds)")],
        _ => Vec::new(),
    }
}
