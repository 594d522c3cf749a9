//! A stored hold in a few bytes, and back to the hold that `decide` reads.
//!
//! Everything that a decision depends on is kept: both parts with their times, the boot, the process, the pulse. What only people
//! read (host, agent, reason, the top level's own times, which count only in edited records) is the same in every record here.

use jiff::Timestamp;
use lokt_core::hold::{Fence, Hold, Identity, LockId, PartKind, Parts, PulseRef, RECORD_VERSION};
use lokt_core::time::{Moment, millis_between, plus_millis, plus_seconds};

use super::state::{Client, Owner};

/// A tick of the model's clock. Leases are half a tick long, so they run in the tick they were written in and are over in the next.
const TICK_MS: u64 = 2_000;
/// Every lease that has an end.
pub(super) const TTL_SEC: u64 = 1;
/// The tick that never comes.
pub(super) const NEVER: u8 = u8::MAX;
/// Stands for the lock id, and for the life, of a hold that isn't published yet. Real lock ids are random, hence never equal; here
/// the smallest free number is taken at publication, which keeps the states few.
pub(super) const FRESH: u8 = u8::MAX;
/// A pid that nobody has any more.
const GONE_PID: i64 = 1;
/// ext4.
const FS: u64 = 0xef53;
const HOST: &str = "host";

/// One part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The tick it was written in.
    pub since: u8,
    /// The boot clock at that time, in ticks, where it can be compared.
    pub clock: Option<u8>,
    /// Does it end by itself?
    pub leased: bool,
}

impl Part {
    /// The first tick in which it is over: the model's own arithmetic, not the product's.
    pub fn end(self) -> u8 {
        if self.leased { self.since + 1 } else { NEVER }
    }
}

/// A stored hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// Its token.
    pub token: u16,
    /// Whose it is.
    pub owner: Owner,
    /// The process it names; `None` once that one has ended.
    pub pid: Option<Client>,
    /// The boot it names.
    pub boot: u8,
    /// The process part.
    pub process: Option<Part>,
    /// The owner part.
    pub owned: Option<Part>,
    /// Does it name a pulse?
    pub pulse: bool,
    /// Which life of a hold this is in truth; `decide` doesn't see it.
    pub life: u8,
    /// Its lock id. Last, like the life, so that sorting goes by what doesn't depend on how they are numbered.
    pub lock_id: u8,
}

impl Record {
    /// The hold that this record says.
    pub(super) fn to_hold(self) -> Hold {
        let pid = self.pid.map_or(GONE_PID, pid_of);
        let part = |part: Part| lokt_core::hold::Part {
            since: wall(part.since),
            ttl_sec: part.leased.then_some(TTL_SEC),
            clock_ms: part.clock.map(|ticks| u64::from(ticks) * TICK_MS),
        };
        Hold {
            version: RECORD_VERSION,
            name: String::new(),
            lock_id: LockId::from_bits(u128::from(self.lock_id)),
            owner: self.owner.as_str().into(),
            host: HOST.into(),
            pid,
            pid_start: pid,
            agent_id: String::new(),
            acquired: Some(wall(0)),
            ttl_sec: 0,
            expires_at: None,
            token: Fence::new(u64::from(self.token)),
            parts: Some(Parts { process: self.process.map(part), owner: self.owned.map(part), edited: false }),
            pulse: self.pulse.then(|| pulse_of(pid)),
            boot_id: Some(boot_id(self.boot)),
            pid_ns: Some(1),
            fs: Some(FS),
            held_since: Some(wall(0)),
            reason: None,
            extra: serde_json::Map::new(),
        }
    }

    /// The record of a hold that `decide` wants stored.
    pub(super) fn from_hold(hold: &Hold, life: u8) -> Self {
        let parts = hold.parts.as_ref().expect("decide writes parts");
        let part = |part: &lokt_core::hold::Part| Part {
            since: ticks(u64::try_from(millis_between(wall(0), part.since)).expect("time starts at 0")),
            clock: part.clock_ms.map(ticks),
            leased: part.ttl_sec.is_some(),
        };
        let record = Self {
            life,
            lock_id: u8::from_str_radix(hold.lock_id.as_str(), 16).expect("lock ids are small here"),
            token: u16::try_from(hold.token.expect("decide writes tokens").get()).expect("tokens are small here"),
            owner: Owner::from_text(&hold.owner),
            pid: Client::ALL.into_iter().find(|client| pid_of(*client) == hold.pid),
            boot: boot_number(hold.boot_id.as_deref().expect("decide writes boots")),
            process: parts.process.as_ref().map(part),
            owned: parts.owner.as_ref().map(part),
            pulse: hold.pulse.is_some(),
        };
        debug_assert!(!parts.edited && hold.has(PartKind::Process) == record.process.is_some());
        debug_assert!(hold.pulse.is_none_or(|pulse| pulse == pulse_of(hold.pid)), "a pulse is its process's own");
        record.plain()
    }

    /// What no decision depends on is the same everywhere: a part without an end was always there.
    pub(super) fn plain(mut self) -> Self {
        for part in [&mut self.process, &mut self.owned].into_iter().flatten().filter(|part| !part.leased) {
            *part = Part { since: 0, clock: None, leased: false };
        }
        self
    }
}

/// Who asks.
pub(super) fn identity(client: Client, boot: u8) -> Identity {
    Identity {
        owner: client.owner().as_str().into(),
        host: HOST.into(),
        pid: pid_of(client),
        pid_start: pid_of(client),
        agent_id: String::new(),
        boot_id: Some(boot_id(boot)),
        pid_ns: Some(1),
        boot_clocks: true,
        fs: Some(FS),
    }
}

/// All clocks in tick `now` of a machine that was started in tick `booted`.
pub(super) fn moment(now: u8, booted: u8) -> Moment {
    let up_ms = u64::from(now - booted) * TICK_MS;
    Moment { wall: wall(now), monotonic_ms: up_ms, boottime_ms: up_ms }
}

pub(super) fn boot_id(boot: u8) -> String {
    format!("boot-{boot}")
}

pub(super) fn boot_number(text: &str) -> u8 {
    text.strip_prefix("boot-").and_then(|number| number.parse().ok()).expect("written by boot_id")
}

pub(super) fn pid_of(client: Client) -> i64 {
    100 + i64::from(client.0)
}

pub(super) fn pulse_of(pid: i64) -> PulseRef {
    PulseRef { number: pid.unsigned_abs(), dev: 1, ino: pid.unsigned_abs() }
}

fn wall(tick: u8) -> Timestamp {
    plus_millis(plus_seconds(Timestamp::UNIX_EPOCH, 1_800_000_000), u64::from(tick) * TICK_MS)
}

fn ticks(ms: u64) -> u8 {
    debug_assert!(ms.is_multiple_of(TICK_MS), "every moment is a tick");
    u8::try_from(ms / TICK_MS).expect("ticks are few")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_being_a_hold() {
        let process = Some(Part { since: 1, clock: Some(0), leased: true });
        let owned = Some(Part { since: 0, clock: None, leased: false });
        for pid in [None, Some(Client(2))] {
            let record = Record {
                life: 3,
                lock_id: 2,
                token: 1001,
                owner: Owner::Bob,
                pid,
                boot: 1,
                process,
                owned,
                pulse: true,
            };
            assert_eq!(Record::from_hold(&record.to_hold(), 3), record);
        }
    }
}
