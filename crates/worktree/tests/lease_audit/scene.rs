//! A repository on two disks in memory, and chains to which links are added as leases do it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lokt_core::hold::{Fence, LockId};
use lokt_core::lease::audit::{Anchor, Event, read_line};
use lokt_core::lease::names::File;
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::record::{HolderId, Record as LeaseRecord};
use lokt_core::lease::slot::{Base, Kind, Slot};
use lokt_core::lease::state::State;
use lokt_sys::disk::Disk;
use lokt_sys::machine::Machine as _;
use lokt_testkit::machine::{FakeMachine, somebody};
use lokt_testkit::mem_disk::{MemDisk, PowerCut};
use lokt_worktree::lease::audit::{Filled, fill};
use lokt_worktree::repo::Repository;
use serde_json::Map;

pub(crate) const LOG: &str = "audit.jsonl";
pub(crate) const HEAD: &str = "audit.head";
/// Nobody is waited for.
const PATIENCE: Duration = Duration::ZERO;

pub(crate) struct Scene {
    pub(crate) disk: MemDisk,
    pub(crate) audit: MemDisk,
    machine: Arc<FakeMachine>,
    boot: u32,
}

/// A chain of a worktree.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub(crate) name: &'static str,
    id: String,
    next: u64,
}

impl Chain {
    fn dir(&self) -> String {
        format!("locks/{}.lock.d", self.name)
    }

    pub(crate) fn event_id(&self, number: u64) -> String {
        format!("{}/{}/{number}", self.name, self.id)
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self { disk: MemDisk::new(), audit: MemDisk::new(), machine: Arc::new(FakeMachine::new()), boot: 1 }
    }

    pub(crate) fn repo(&self) -> Repository {
        self.repo_on(Arc::new(self.audit.clone()))
    }

    pub(crate) fn repo_on(&self, audit: Arc<dyn Disk>) -> Repository {
        let me = somebody("alice", self.boot);
        let disk = Arc::new(self.disk.clone());
        Repository::on(Path::new("/nowhere"), disk, audit, self.machine.clone(), me).expect("it opens")
    }

    /// The power goes and comes back.
    pub(crate) fn cut_power(&mut self, cut: PowerCut) {
        self.disk.power_cut(cut);
        self.audit.power_cut(cut);
        self.machine.reboot();
        self.boot += 1;
    }

    /// Another machine goes on, on the same disk.
    pub(crate) fn change_machines(&mut self) {
        self.boot = if self.boot == 1 { 101 } else { 1 };
    }

    pub(crate) fn chain(&self, name: &'static str) -> Chain {
        let id = format!("{:032x}", self.machine.random().expect("there are random bits"));
        let base = Base { chain: id.clone(), first: 1, block: 1024, acquire_seq: 0 };
        let chain = Chain { name, id, next: 1 };
        self.disk.plant(&format!("{}/base", chain.dir()), &base.to_bytes());
        chain
    }

    /// The last link.
    pub(crate) fn highest(&self, chain: &Chain) -> Option<Slot> {
        chain.next.checked_sub(1).filter(|number| *number > 0).map(|number| self.link(chain, number))
    }

    fn link(&self, chain: &Chain, number: u64) -> Slot {
        let bytes = self.disk.peek(&format!("{}/{}", chain.dir(), File::Slot(number).name())).expect("it is there");
        Slot::parse(&bytes).expect("it is a link")
    }

    /// Fills the log as far as the chain goes.
    pub(crate) fn fill(&self, repo: &Repository, chain: &Chain) -> Filled {
        let highest = self.highest(chain);
        fill(repo, highest.as_ref(), PATIENCE, &mut |after| {
            Ok((after + 1..chain.next - 1).map(|n| self.link(chain, n)).collect())
        })
    }

    /// Adds a link that knows `anchor`, durably, as slots are.
    pub(crate) fn add(&self, chain: &mut Chain, anchor: Anchor) {
        self.add_kind(chain, anchor, Kind::Grant);
    }

    fn add_kind(&self, chain: &mut Chain, anchor: Anchor, kind: Kind) {
        let event = self.event(chain, chain.next);
        self.add_event(chain, anchor, kind, event);
    }

    fn add_event(&self, chain: &mut Chain, anchor: Anchor, kind: Kind, event: Event) {
        let number = chain.next;
        let slot = Slot {
            chain: chain.id.clone(),
            number,
            kind,
            record: (kind == Kind::Grant).then(|| Box::new(self.record(chain.name, number))),
            acquire_seq: number,
            next: number + 1,
            ceiling: 1024,
            state: State::default(),
            snapshot: None,
            anchor,
            event,
        };
        self.disk.plant(&format!("{}/{}", chain.dir(), File::Slot(number).name()), &slot.to_bytes());
        chain.next += 1;
    }

    /// Everything that a command does: the anchor, the link, its line.
    pub(crate) fn take(&self, chain: &mut Chain) -> Filled {
        let repo = self.repo();
        let before = self.fill(&repo, chain);
        self.add(chain, before.anchor);
        self.fill(&repo, chain)
    }

    /// The same, for a reason.
    pub(crate) fn take_for(&self, chain: &mut Chain, reason: &str) -> Filled {
        let repo = self.repo();
        let before = self.fill(&repo, chain);
        let event = Event { reason: Some(reason.into()), ..self.event(chain, chain.next) };
        self.add_event(chain, before.anchor, Kind::Grant, event);
        self.fill(&repo, chain)
    }

    /// The lease ends: a link without a record.
    pub(crate) fn end(&self, chain: &mut Chain) -> Filled {
        let repo = self.repo();
        let before = self.fill(&repo, chain);
        self.add_kind(chain, before.anchor, Kind::Release);
        self.fill(&repo, chain)
    }

    fn event(&self, chain: &Chain, number: u64) -> Event {
        Event {
            event_id: chain.event_id(number),
            timestamp: "2026-01-01T12:00:00Z".parse().expect("a good time"),
            operation: "lock_acquire".into(),
            actor: "fake:alice:4242:7".into(),
            target: chain.name.into(),
            token: Some(number),
            session_id: Some(format!("{:032x}", self.boot)),
            reason: None,
            details: Map::new(),
        }
    }

    fn record(&self, worktree: &str, number: u64) -> LeaseRecord {
        let at = "2026-01-01T12:00:00Z".parse().expect("a good time");
        LeaseRecord {
            lock_id: LockId::from_bits(u128::from(number)),
            worktree: worktree.into(),
            holder_id: HolderId { host: "fake".into(), user: "alice".into(), pid: 4242, start: 7 }.text(),
            nonce: "0".repeat(64),
            session_id: "1".repeat(32),
            acquire_seq: number,
            created_at: at,
            last_renewed_at: at,
            policy: LeasePolicy::DEFAULT,
            lease_expires_at: at,
            token: Fence::new(number),
            binding: None,
            boot_id: Some(format!("boot-{}", self.boot)),
            boottime_ms: Some(1),
            pid_ns: None,
            fs: None,
            pulse: None,
            agent_id: None,
            purpose: None,
            evidence: None,
        }
    }

    pub(crate) fn log(&self) -> Vec<u8> {
        self.audit.peek(LOG).unwrap_or_default()
    }

    /// Puts another log there.
    pub(crate) fn set_log(&self, bytes: &[u8]) {
        self.audit.plant(LOG, bytes);
    }

    /// The events in the log, which must be whole.
    pub(crate) fn events(&self) -> Vec<Event> {
        let (mut hash, mut events) = (String::new(), Vec::new());
        for (index, line) in self.log().split_inclusive(|byte| *byte == b'\n').enumerate() {
            let (event, next) = read_line(line.trim_ascii_end(), index as u64 + 1, &hash).expect("each line follows");
            events.push(event);
            hash = next;
        }
        events
    }

    /// How often each link of a chain is in the log.
    pub(crate) fn times_logged(&self, chain: &Chain) -> Vec<usize> {
        let events = self.events();
        let times = |number| events.iter().filter(|event| event.event_id == chain.event_id(number)).count();
        (1..chain.next).map(times).collect()
    }

    pub(crate) fn broken_line(&self) -> Option<u64> {
        let verdict = self.repo().audit_log().verify().expect("it can be read").value;
        verdict.broken.map(|broken| broken.line)
    }
}

pub(crate) fn is_broken(filled: &Filled) -> bool {
    filled.warning.as_ref().is_some_and(|why| why.to_string().contains("E_AUDIT_CHAIN_BROKEN"))
}

/// No room on the device.
pub(crate) fn no_room() -> i32 {
    io::Error::from_raw_os_error(28).raw_os_error().expect("it has a number")
}
