//! Reading the chain, and the product's own [`decide`] about what was read.

use jiff::Timestamp;
use lokt_core::decide::{Breaking, Condition, Decision, Facts, Intent, Line, Policy, Slot, Terms, decide};
use lokt_core::denial::Denial;
use lokt_core::hold::{Fence, Hold, Identity, LockId, Part, Parts, RECORD_VERSION};
use lokt_core::liveness::Liveness;
use lokt_core::time::{Elapsed, Lease, Moment, plus_millis};

use super::bounds::Clocks;
use super::disk::{Base, Disk, Record};
use super::flaw::Flaw;
use super::state::{Known, Op};
use super::{GRACE, LEASE, Leases};

/// One of the model's ticks.
const TICK_MS: u64 = 1_000;

/// What the chain with this base says.
pub(super) fn look(model: Leases, disk: &Disk, base: Base) -> Known {
    let heeds_chain = model.flaw != Flaw::NoChainId;
    let is_good = |slot: &&super::disk::Slot| slot.number >= base.first && (!heeds_chain || slot.chain == base.chain);
    let Some(last) = disk.slots.iter().rev().find(is_good) else {
        return Known { base, last: None, old: 0, next: base.first, ceiling: base.block, record: None, renewed: 0 };
    };
    let old = disk.slots.iter().rev().filter(is_good).nth(model.bounds.kept.into()).map_or(0, |slot| slot.number);
    let mut record = last.record;
    let mut renewed = 0;
    if let Some(record) = &mut record {
        let renewals = disk.renewals.iter().filter(|renewal| renewal.token == record.token);
        if let Some(renewal) = renewals.max_by_key(|renewal| renewal.count) {
            record.since = renewal.since;
            renewed = renewal.count;
        }
    }
    Known { base, last: Some(last.file()), old, next: last.next, ceiling: last.ceiling, record, renewed }
}

/// Does the product say yes to `op` of `session` under `token` at `time`?
pub(super) fn ask(model: Leases, known: &Known, op: Op, session: u8, token: u8, time: u8) -> bool {
    let held = known.record;
    let is_mine = held.is_some_and(|record| record.session == session && record.token == token);
    let owner = if is_mine && op != Op::Acquire { "me" } else { "somebody" };
    let hold = held.map(|record| hold(record, "me"));
    let elapsed = held.map_or(Elapsed::NOTHING, |record| elapsed(model, record, op, session, time));
    let intent = match op {
        Op::Acquire => Intent::Lock(Terms { ttl_sec: Some(u64::from(LEASE)), reason: None }),
        Op::Renew => Intent::Extend { ttl_sec: u64::from(LEASE), token: Some(token.into()) },
        Op::Release => Intent::Unlock(Breaking::No, Condition { lock_id: None, token: Some(token.into()) }),
        Op::Publish => Intent::Check(u64::from(token).into()),
        Op::Prune => return known.last.is_some(),
    };
    let facts = Facts {
        slot: hold.as_ref().map_or(Slot::Free, Slot::Held),
        liveness: Liveness::Unknown,
        elapsed,
        frozen: None,
        line: Line::default(),
        fresh_id: &LockId::from_bits(u128::MAX),
        now: moment(time),
    };
    let next = Fence::new(known.next.into()).expect("numbers begin at 1");
    match decide(&intent, facts, &identity(owner), &Policy::LEASES).with_token(next) {
        Decision::Commit { next, .. } => {
            let given = next.and_then(|next| next.token).map(Fence::get);
            let expected = match op {
                Op::Acquire => Some(known.next),
                Op::Renew => Some(token),
                _ => None,
            };
            debug_assert_eq!(given, expected.map(u64::from), "the decision is about another token");
            true
        }
        Decision::Inside => true,
        Decision::Deny(denial) => {
            debug_assert!(!matches!(denial, Denial::Queued { .. } | Denial::Frozen(_) | Denial::Corrupt { .. }));
            false
        }
    }
}

/// How the lease stands for whoever asks: others wait longer than its own session. Never by the wall clock.
fn elapsed(model: Leases, record: Record, op: Op, session: u8, time: u8) -> Elapsed {
    let is_own = record.session == session;
    let length = if is_own { LEASE } else { LEASE + GRACE };
    let passed = time.saturating_sub(record.since);
    let is_over = passed > length || (model.bounds.clocks == Clocks::Wrong && op == Op::Acquire);
    let lease = if is_over { Lease::Over(1) } else { Lease::Left(1) };
    Elapsed { process: Lease::Absent, owner: lease }
}

fn hold(record: Record, owner: &str) -> Hold {
    let part = Part {
        since: moment(record.since).wall,
        ttl_sec: Some(LEASE.into()),
        clock_ms: Some(u64::from(record.since) * TICK_MS),
    };
    Hold {
        version: RECORD_VERSION,
        lock_id: LockId::from_bits(record.token.into()),
        owner: owner.into(),
        token: Fence::new(record.token.into()),
        parts: Some(Parts { process: None, owner: Some(part), edited: false }),
        boot_id: Some("boot".into()),
        name: String::new(),
        host: String::new(),
        pid: 1,
        pid_start: 1,
        agent_id: String::new(),
        acquired: None,
        ttl_sec: 0,
        expires_at: None,
        pulse: None,
        pid_ns: Some(1),
        fs: None,
        held_since: None,
        reason: None,
        extra: serde_json::Map::new(),
    }
}

fn identity(owner: &str) -> Identity {
    Identity {
        owner: owner.into(),
        host: String::new(),
        pid: 1,
        pid_start: 1,
        agent_id: String::new(),
        boot_id: Some("boot".into()),
        pid_ns: Some(1),
        boot_clocks: true,
        fs: None,
    }
}

fn moment(time: u8) -> Moment {
    let ms = u64::from(time) * TICK_MS;
    Moment { wall: plus_millis(Timestamp::UNIX_EPOCH, ms), monotonic_ms: ms, boottime_ms: ms }
}
