//! How it is known that a lease is over. Two machines' wall clocks are never compared: what counts is how much time has passed since
//! the last renewal, by one clock.

use super::policy::LeasePolicy;
use super::record::{Binding, HolderId, Record};
use crate::denial::part_lives;
use crate::hold::{Identity, PartKind};
use crate::liveness::{Liveness, is_local};
use crate::time::{Elapsed, Lease, Moment};

/// What proved how much time has passed, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The kernel's boot clock, the same for the holder and for us.
    BootClock,
    /// The processes of a `lease run` are gone.
    ProcessGone,
    /// The kernel under which it was held is gone, and the disk is its own.
    BootGone,
    /// The clock of the file server.
    ServerClock,
    /// We have looked at it long enough.
    Observed,
    /// The wall clock: the lock of `jvs` says when it expires, and nothing else.
    WallClock,
}

/// What was found out beside the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clues {
    /// About the process of a process-bound lease; `Unknown` of others.
    pub liveness: Liveness,
    /// Since the last renewal, by the file server's clock, where there is one.
    pub server_ms: Option<u64>,
    /// So long ago, by our boot clock, it was first seen as it is now; 0 at the first look.
    pub seen_ms: u64,
    /// How long our view of the directory may be old.
    pub cache_ms: u64,
    /// How far the holder's wall clock is ahead of ours, as far as that can be measured.
    pub skew_ms: Option<i64>,
}

/// How a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// For [`crate::decide`]: the part that the record's hold has, running or over.
    pub elapsed: Elapsed,
    /// For [`crate::decide`]: `Gone` if its process or its boot is.
    pub liveness: Liveness,
    /// What it was judged by. `None`: nothing proves anything yet, which is running.
    pub evidence: Option<Evidence>,
    /// Past its end, but others may not have it yet.
    pub in_grace: bool,
    /// When others may have it, if nothing is heard of it.
    pub retry_after_ms: Option<u64>,
    /// The measured skew, if it is beyond K and nothing better is known.
    pub skew_ms: Option<i64>,
}

impl Evidence {
    /// As in JSON and in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BootClock => "boot_clock",
            Self::ProcessGone => "process_gone",
            Self::BootGone => "boot_gone",
            Self::ServerClock => "server_clock",
            Self::Observed => "observed",
            Self::WallClock => "wall_clock",
        }
    }
}

impl Verdict {
    /// Whoever it was judged for may take it.
    pub fn is_over(&self) -> bool {
        let lives = |kind| part_lives(kind, self.liveness, self.elapsed);
        !lives(PartKind::Process) && !lives(PartKind::Owner)
    }
}

/// Judges a lease at `now`, which was read before the record was. `own`: the asking session's, which ends after D; for others it does
/// after D + K + G.
pub fn judge(record: &Record, now: &Moment, me: &Identity, clues: &Clues, own: bool) -> Verdict {
    let policy = record.policy.clamped();
    let is_process = record.binding == Some(Binding::Process);
    let (standing, evidence) = if is_process && clues.liveness == Liveness::Gone {
        (Standing::OVER, Some(Evidence::ProcessGone))
    } else if let Some(passed_ms) = on_one_boot(record, now, me) {
        (Standing::after(passed_ms, Limits::of(policy, own, 0)), Some(Evidence::BootClock))
    } else if is_boot_gone(record, me) {
        (Standing::OVER, Some(Evidence::BootGone))
    } else {
        by_the_look_of_it(policy, clues, own)
    };
    let is_boot_gone = evidence == Some(Evidence::BootGone);
    let lease = match standing {
        Standing::Running { left_ms, .. } => Lease::Left(left_ms),
        Standing::Over { since_ms } => Lease::Over(since_ms),
    };
    let (process, owner) = if is_process { (lease, Lease::Absent) } else { (Lease::Absent, lease) };
    let running = match standing {
        Standing::Running { left_ms, in_grace } => Some((left_ms, in_grace)),
        Standing::Over { .. } => None,
    };
    // Where no clock is common to both, one that is far off is a warning: somebody may have misjudged before.
    let is_doubtful = running.is_some() && evidence != Some(Evidence::BootClock);
    Verdict {
        elapsed: Elapsed { process, owner },
        liveness: match (is_boot_gone, is_process) {
            (true, _) => Liveness::Gone,
            (false, true) => clues.liveness,
            (false, false) => Liveness::Unknown,
        },
        evidence,
        in_grace: running.is_some_and(|(_, in_grace)| in_grace),
        retry_after_ms: running.map(|(left_ms, _)| left_ms),
        skew_ms: clues.skew_ms.filter(|skew_ms| is_doubtful && skew_ms.unsigned_abs() > policy.skew_ms),
    }
}

/// How much time a lease has, and how much of it is doubt.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Beyond this it has ended, by the clock of who judges.
    end_ms: u64,
    /// Beyond this who judges may take it.
    over_ms: u64,
}

#[derive(Debug, Clone, Copy)]
enum Standing {
    /// In `left_ms` it is over, if nothing is heard of it.
    Running { left_ms: u64, in_grace: bool },
    /// It has been for so long.
    Over { since_ms: u64 },
}

impl Limits {
    /// A session knows its own end. Others allow for doubt, and for what they may not have seen yet.
    fn of(policy: LeasePolicy, own: bool, cache_ms: u64) -> Self {
        let end_ms = policy.lease_ms;
        Self { end_ms, over_ms: if own { end_ms } else { policy.steal_after_ms().saturating_add(cache_ms) } }
    }

    /// For who has only watched: the holder's clock may go slower than ours, by two in a thousand.
    fn of_watching(policy: LeasePolicy, cache_ms: u64) -> Self {
        let drift_ms = policy.lease_ms.saturating_mul(2).div_ceil(1000);
        let others = Self::of(policy, false, cache_ms);
        Self { end_ms: others.end_ms.saturating_add(drift_ms), over_ms: others.over_ms.saturating_add(drift_ms) }
    }
}

impl Standing {
    const OVER: Self = Self::Over { since_ms: 0 };

    fn after(passed_ms: u64, limits: Limits) -> Self {
        match limits.over_ms.checked_sub(passed_ms) {
            // It is over one millisecond after the limit.
            Some(left_ms) => Self::Running { left_ms: left_ms.saturating_add(1), in_grace: passed_ms > limits.end_ms },
            None => Self::Over { since_ms: passed_ms - limits.over_ms },
        }
    }

    /// Both are lower bounds of one time: what is left by the one that shows more of it.
    fn or_sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Running { left_ms, in_grace }, Self::Running { left_ms: other_ms, in_grace: other_grace }) => {
                Self::Running { left_ms: left_ms.min(other_ms), in_grace: in_grace || other_grace }
            }
            (over @ Self::Over { .. }, _) | (_, over) => over,
        }
    }

    fn is_over(self) -> bool {
        matches!(self, Self::Over { .. })
    }
}

/// The time since the last renewal by the kernel's clock, if holder and `me` have the same one. A reading from the future is of another.
fn on_one_boot(record: &Record, now: &Moment, me: &Identity) -> Option<u64> {
    let is_same = me.boot_clocks && me.boot_id.is_some() && record.boot_id == me.boot_id;
    now.boottime_ms.checked_sub(record.boottime_ms.filter(|_| is_same)?)
}

/// Has the holder's kernel ended, and everything that ran under it? Another boot of this machine, on a disk that only this machine
/// writes to. A container can have a boot id of its own, made up at its start; it has a pid namespace of its own, too.
fn is_boot_gone(record: &Record, me: &Identity) -> bool {
    let is_other_boot = record.boot_id.is_some() && me.boot_id.is_some() && record.boot_id != me.boot_id;
    let is_same_machine = HolderId::parse(&record.holder_id).host == me.host;
    let is_same_pids = record.pid_ns.is_some() && record.pid_ns == me.pid_ns;
    let is_ours = record.binding.is_some();
    is_ours && is_other_boot && is_same_machine && is_same_pids && is_local(record.fs) && is_local(me.fs)
}

/// Without a common clock: that of a file server, and our own while we looked. Neither shows more time than has passed, so either may
/// prove that a lease is over.
fn by_the_look_of_it(policy: LeasePolicy, clues: &Clues, own: bool) -> (Standing, Option<Evidence>) {
    let cache_ms = clues.cache_ms;
    let served = clues.server_ms.map(|passed_ms| Standing::after(passed_ms, Limits::of(policy, own, cache_ms)));
    match served {
        Some(served) if own || served.is_over() => return (served, Some(Evidence::ServerClock)),
        // Who can't tell how much of its own lease is left must not go on as if it could.
        None if own => return (Standing::OVER, None),
        _ => {}
    }
    let watched = Standing::after(clues.seen_ms, Limits::of_watching(policy, cache_ms));
    match (served, watched) {
        (_, watched @ Standing::Over { .. }) => (watched, Some(Evidence::Observed)),
        (Some(served), watched) => (served.or_sooner(watched), Some(Evidence::ServerClock)),
        (None, watched) => (watched, None),
    }
}
