//! Proof that a lease has expired. Wall clocks of two machines are never compared: what counts is
//! the time since the last renewal, measured by one clock.

use super::policy::LeasePolicy;
use super::record::{Binding, HolderId, Record};
use crate::denial::part_lives;
use crate::hold::{Identity, PartKind};
use crate::liveness::{Liveness, is_local};
use crate::time::{Elapsed, Lease, Moment};

/// Evidence of how much time has passed, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The kernel's boot clock, shared by the holder and us.
    BootClock,
    /// The processes of a `lease run` are gone.
    ProcessGone,
    /// The kernel under which it was held is gone, and only that machine uses the disk.
    BootGone,
    /// The clock of the file server.
    ServerClock,
    /// Our own observation, for long enough.
    Observed,
    /// The wall clock: the lock of `jvs` records its expiry time, and nothing else.
    WallClock,
}

/// Facts from outside the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clues {
    /// State of the process of a process-bound lease; `Unknown` for other leases.
    pub liveness: Liveness,
    /// Time since the last renewal, by the file server's clock, if there is one.
    pub server_ms: Option<u64>,
    /// Time since the current state was first seen, by our boot clock; 0 at the first check.
    pub seen_ms: u64,
    /// Maximum age of our view of the directory.
    pub cache_ms: u64,
    /// Lead of the holder's wall clock over ours, as far as it can be measured.
    pub skew_ms: Option<i64>,
}

/// Verdict on a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The part that the record's hold has, running or expired, for [`crate::decide`].
    pub elapsed: Elapsed,
    /// `Gone` if its process or its boot is, for [`crate::decide`].
    pub liveness: Liveness,
    /// Evidence for the verdict. `None`: nothing proves anything yet, and another session's lease
    /// counts as running.
    pub evidence: Option<Evidence>,
    /// Past its end, but others may not acquire it yet.
    pub in_grace: bool,
    /// Time until others may acquire it, unless it is renewed.
    pub retry_after_ms: Option<u64>,
    /// Measured skew, if it exceeds K and there is no better evidence.
    pub skew_ms: Option<i64>,
}

impl Evidence {
    /// Returns its name in JSON and in the audit log.
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
    /// Reports whether the session that it was judged for may acquire the lease.
    pub fn is_over(&self) -> bool {
        let lives = |kind| part_lives(kind, self.liveness, self.elapsed);
        !lives(PartKind::Process) && !lives(PartKind::Owner)
    }
}

/// Judges a lease at `now`, which was read before the record. `own`: the lease is the asking
/// session's, and ends after D; for others it ends after D + K + G.
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
    // Without a common clock, a large skew is a warning: a process may have misjudged the lease
    // before.
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

/// Time that a lease has, without and with the allowance for doubt.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Time after which it has ended, by the clock of the process that judges.
    end_ms: u64,
    /// Time after which the process that judges may acquire it.
    over_ms: u64,
}

#[derive(Debug, Clone, Copy)]
enum Standing {
    /// Expires in `left_ms`, unless it is renewed.
    Running { left_ms: u64, in_grace: bool },
    /// Expired for this long.
    Over { since_ms: u64 },
}

impl Limits {
    /// Returns the limits of a lease. A session knows its own end. Others add an allowance for
    /// doubt, and for renewals that they may not have seen yet.
    fn of(policy: LeasePolicy, own: bool, cache_ms: u64) -> Self {
        let end_ms = policy.lease_ms;
        Self { end_ms, over_ms: if own { end_ms } else { policy.steal_after_ms().saturating_add(cache_ms) } }
    }

    /// Returns the limits for a process that has only watched: the holder's clock may be slower
    /// than ours, by two in a thousand.
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
            // It expires one millisecond after the limit.
            Some(left_ms) => Self::Running { left_ms: left_ms.saturating_add(1), in_grace: passed_ms > limits.end_ms },
            None => Self::Over { since_ms: passed_ms - limits.over_ms },
        }
    }

    /// Combines two lower bounds of the same elapsed time: the one that shows more of it counts.
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

/// Returns the time since the last renewal by the kernel's clock, if the holder and `me` share it.
/// A reading from the future is of another clock.
fn on_one_boot(record: &Record, now: &Moment, me: &Identity) -> Option<u64> {
    let is_same = me.boot_clocks && me.boot_id.is_some() && record.boot_id == me.boot_id;
    now.boottime_ms.checked_sub(record.boottime_ms.filter(|_| is_same)?)
}

/// Reports whether the holder's kernel has ended, with everything that ran under it: this is
/// another boot of the same machine, on a disk that only this machine writes to. A container can
/// make up a boot id at its start; it has its own pid namespace, too.
fn is_boot_gone(record: &Record, me: &Identity) -> bool {
    let is_other_boot = record.boot_id.is_some() && me.boot_id.is_some() && record.boot_id != me.boot_id;
    let is_same_machine = HolderId::parse(&record.holder_id).host == me.host;
    let is_same_pids = record.pid_ns.is_some() && record.pid_ns == me.pid_ns;
    let is_ours = record.binding.is_some();
    is_ours && is_other_boot && is_same_machine && is_same_pids && is_local(record.fs) && is_local(me.fs)
}

/// Judges without a common clock: by that of a file server, and by our own while we watched.
/// Neither shows more time than has passed, so either can prove that a lease has expired.
fn by_the_look_of_it(policy: LeasePolicy, clues: &Clues, own: bool) -> (Standing, Option<Evidence>) {
    let cache_ms = clues.cache_ms;
    let served = clues.server_ms.map(|passed_ms| Standing::after(passed_ms, Limits::of(policy, own, cache_ms)));
    match served {
        Some(served) if own || served.is_over() => return (served, Some(Evidence::ServerClock)),
        // A session that can't tell how much of its own lease is left must not go on as if it
        // could.
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
