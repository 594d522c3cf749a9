//! Everything that can be stored when somebody asks.

use jiff::Timestamp;
use lokt_core::decide::{Facts, Freeze, HoldKey, Line, Slot, Terms};
use lokt_core::denial::Holder;
use lokt_core::hold::{Hold, Identity, LockId, Part, Parts, PulseRef};
use lokt_core::liveness::Liveness;
use lokt_core::time::{Elapsed, Lease, Moment};
use serde_json::json;

use crate::common::askers::asker;
use crate::common::holds::{at, fence, stored};

/// The lease that every asker asks for.
pub(crate) const TERMS_SEC: u64 = 300;
/// The pulse of the stored guard, and that of a guard that asks.
pub(crate) const STORED_PULSE: PulseRef = PulseRef { number: 3, dev: 66, ino: 1234 };
pub(crate) const MY_PULSE: PulseRef = PulseRef { number: 9, dev: 66, ino: 4321 };
/// What a stored lease has left, or is over by: the stored hold is ten seconds old.
const LEFT: Lease = Lease::Left(50_000);
const OVER: Lease = Lease::Over(5_000);

/// What kind of thing is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Free,
    Corrupt,
    BeingWritten,
    Newer,
    /// Without our fields: a process part.
    Foreign,
    /// A process part with a pulse.
    Guard,
    /// A process part without one.
    Bound,
    /// An owner part.
    Owner,
    GuardAndOwner,
    BoundAndOwner,
}

/// One thing that is stored, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) kind: Kind,
    pub(crate) process: Lease,
    pub(crate) owner: Lease,
    pub(crate) liveness: Liveness,
    /// Does the stored hold belong to who asks?
    pub(crate) mine: bool,
    /// A freeze: one that can be read, or not.
    pub(crate) frozen: Option<FreezeKind>,
    /// How many are ahead in the line.
    pub(crate) ahead: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FreezeKind {
    Known,
    Unreadable,
}

impl Case {
    pub(crate) fn is_held(&self) -> bool {
        !matches!(self.kind, Kind::Free | Kind::Corrupt | Kind::BeingWritten | Kind::Newer)
    }

    pub(crate) fn has_owner_part(&self) -> bool {
        self.owner != Lease::Absent
    }

    /// A process part ends when its process is proven gone, or its lease expires.
    pub(crate) fn process_lives(&self) -> bool {
        matches!(self.process, Lease::Endless | Lease::Left(_)) && self.liveness != Liveness::Gone
    }

    /// An owner part ends by its lease; no process proves anything about it.
    pub(crate) fn owner_lives(&self) -> bool {
        matches!(self.owner, Lease::Endless | Lease::Left(_))
    }

    /// A hold lives while either part lives.
    pub(crate) fn lives(&self) -> bool {
        self.process_lives() || self.owner_lives()
    }

    /// No lease has any time left, whatever its process does.
    pub(crate) fn is_expired(&self) -> bool {
        [self.process, self.owner].iter().all(|lease| matches!(lease, Lease::Absent | Lease::Over(_)))
    }

    /// The guard or its command is seen to run. The pid beside an owner part is that of a `lock` command and proves nothing.
    pub(crate) fn process_runs(&self) -> bool {
        self.process != Lease::Absent && matches!(self.liveness, Liveness::Alive | Liveness::Orphan)
    }

    /// There is a process part, and its process isn't proven gone.
    pub(crate) fn may_renew(&self) -> bool {
        self.process != Lease::Absent && self.liveness != Liveness::Gone
    }

    pub(crate) fn elapsed(&self) -> Elapsed {
        Elapsed { process: self.process, owner: self.owner }
    }

    /// The stored hold, if there is one.
    pub(crate) fn hold(&self) -> Option<Hold> {
        if !self.is_held() {
            return None;
        }
        let mut hold = stored(if self.mine { "alice" } else { "bob" });
        hold.extra.insert("x_team".into(), json!({"pager": 7}));
        if !matches!(self.kind, Kind::Guard | Kind::GuardAndOwner) {
            hold.pulse = None;
        }
        if self.kind == Kind::Foreign {
            hold.parts = None;
            hold.boot_id = None;
            (hold.ttl_sec, hold.expires_at) = match self.process {
                LEFT => (60, Some(at("2026-11-15T18:00:50.25Z"))),
                OVER => (5, Some(at("2026-11-15T17:59:55.25Z"))),
                _ => (0, None),
            };
        } else {
            hold.parts = Some(Parts {
                process: part(self.process, THEN.monotonic_ms),
                owner: part(self.owner, THEN.boottime_ms),
                edited: false,
            });
            (hold.ttl_sec, hold.expires_at) = stored_top_level(self.process, self.owner);
        }
        Some(hold)
    }

    /// The stored hold with what is known about it.
    pub(crate) fn holder(&self) -> Option<Holder> {
        Some(Holder { hold: self.hold()?, liveness: self.liveness, elapsed: self.elapsed() })
    }

    /// Calls `ask` with the facts of this case.
    pub(crate) fn with_facts<T>(&self, ask: impl FnOnce(Facts<'_>) -> T) -> T {
        let hold = self.hold();
        let freeze = freeze_holder();
        let fresh_id = fresh_id();
        let slot = match (self.kind, &hold) {
            (Kind::Corrupt, _) => Slot::Corrupt("no JSON"),
            (Kind::BeingWritten, _) => Slot::BeingWritten,
            (Kind::Newer, _) => Slot::Newer(2),
            (_, Some(hold)) => Slot::Held(hold),
            (_, None) => Slot::Free,
        };
        ask(Facts {
            slot,
            liveness: self.liveness,
            elapsed: self.elapsed(),
            frozen: self.frozen.map(|kind| match kind {
                FreezeKind::Known => Freeze::Known(&freeze),
                FreezeKind::Unreadable => Freeze::Unreadable,
            }),
            line: Line { ahead: self.ahead },
            fresh_id: &fresh_id,
            now: NOW,
        })
    }
}

/// When the stored parts were written, and now.
const THEN: Clocks = Clocks { monotonic_ms: 490_000, boottime_ms: 690_000 };
pub(crate) const NOW: Moment = Moment { wall: wall_now(), monotonic_ms: 500_000, boottime_ms: 700_000 };

struct Clocks {
    monotonic_ms: u64,
    boottime_ms: u64,
}

/// 2026-11-15T18:00:00.25Z.
const fn wall_now() -> Timestamp {
    Timestamp::constant(1_794_765_600, 250_000_000)
}

pub(crate) fn fresh_id() -> LockId {
    LockId::from_bits(0xf2)
}

/// Who asks.
pub(crate) fn me() -> Identity {
    asker("alice")
}

pub(crate) fn stored_id() -> LockId {
    stored("").lock_id
}

/// What the stored guard has in its hand.
pub(crate) fn grip() -> HoldKey {
    HoldKey { lock_id: stored_id(), token: Some(fence(7)), pulse: Some(STORED_PULSE) }
}

pub(crate) fn terms() -> Terms {
    Terms { ttl_sec: Some(TERMS_SEC), reason: Some("asked".into()) }
}

pub(crate) fn freeze_holder() -> Holder {
    Holder {
        hold: stored("carol"),
        liveness: Liveness::Unknown,
        elapsed: Elapsed { process: Lease::Absent, owner: LEFT },
    }
}

/// A stored part whose lease stands like this now.
fn part(lease: Lease, clock_ms: u64) -> Option<Part> {
    let ttl_sec = match lease {
        Lease::Absent => return None,
        Lease::Endless => None,
        Lease::Left(_) => Some(60),
        Lease::Over(_) => Some(5),
    };
    Some(Part { since: at("2026-11-15T17:59:50.25Z"), ttl_sec, clock_ms: Some(clock_ms) })
}

fn stored_top_level(process: Lease, owner: Lease) -> (i64, Option<Timestamp>) {
    match (process, owner) {
        (Lease::Endless, _) | (_, Lease::Endless) => (0, None),
        (LEFT, _) | (_, LEFT) => (60, Some(at("2026-11-15T18:00:50.25Z"))),
        _ => (5, Some(at("2026-11-15T17:59:55.25Z"))),
    }
}

/// The whole table.
pub(crate) fn every_case() -> impl Iterator<Item = Case> {
    every_slot().flat_map(|(kind, process, owner)| {
        [Liveness::Alive, Liveness::Orphan, Liveness::Gone, Liveness::Unknown].into_iter().flat_map(move |liveness| {
            [true, false].into_iter().flat_map(move |mine| {
                [None, Some(FreezeKind::Known), Some(FreezeKind::Unreadable)].into_iter().flat_map(move |frozen| {
                    [0, 2].into_iter().map(move |ahead| Case { kind, process, owner, liveness, mine, frozen, ahead })
                })
            })
        })
    })
}

fn every_slot() -> impl Iterator<Item = (Kind, Lease, Lease)> {
    const LEASES: [Lease; 3] = [Lease::Endless, LEFT, OVER];
    let none = [Kind::Free, Kind::Corrupt, Kind::BeingWritten, Kind::Newer]
        .into_iter()
        .map(|kind| (kind, Lease::Absent, Lease::Absent));
    let process = [Kind::Foreign, Kind::Guard, Kind::Bound]
        .into_iter()
        .flat_map(|kind| LEASES.into_iter().map(move |lease| (kind, lease, Lease::Absent)));
    let owner = LEASES.into_iter().map(|lease| (Kind::Owner, Lease::Absent, lease));
    let both = [Kind::GuardAndOwner, Kind::BoundAndOwner].into_iter().flat_map(|kind| {
        LEASES.into_iter().flat_map(move |process| LEASES.into_iter().map(move |owner| (kind, process, owner)))
    });
    none.chain(process).chain(owner).chain(both)
}
