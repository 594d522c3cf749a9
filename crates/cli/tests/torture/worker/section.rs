//! What runs under a guard, a claim or a lease, or under another program's lock: it reads a register and writes it, and nothing but the lock
//! protects that.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use lokt_testkit::scribe::now_ns;
use lokt_testkit::swarm::{now_ms, pause};
use lokt_torture::history::Deed;
use serde_json::Value;

use super::renewals::Record;
use super::{Life, inherited, snapshots, trespass};
use crate::scene::root_of;

/// Between two looks at a record that may have been renewed.
const LOOK_MS: u64 = 100;
/// Digits of a register: a write of so few is one piece.
const DIGITS: usize = 8;

/// What it was let into.
pub(super) struct Inside {
    /// As the history calls it.
    pub(super) lock: String,
    pub(super) token: Option<u64>,
    pub(super) until: Option<u64>,
    /// What says until when it lasts, if that grows.
    record: Option<Record>,
    /// The file that it protects.
    register: Option<File>,
}

/// Runs it.
pub(super) fn run(life: &mut Life) {
    let mut insides = insides(life);
    for inside in &insides {
        life.entered(&inside.lock, inside.token, inside.until);
    }
    if life.word("register") == "yes" {
        for inside in &mut insides {
            inside.register = Some(open(&life.dir, &inside.lock));
        }
    }
    let seen: Vec<u64> = insides.iter().map(|inside| inside.register.as_ref().map_or(0, value)).collect();
    match life.word("then") {
        "snapshot" => snapshots::take(life),
        "trespass" => trespass::run(life),
        _ => stay(life, &mut insides),
    }
    for (inside, seen) in insides.iter().zip(seen) {
        if let Some(register) = &inside.register {
            set(register, seen + 1);
            let (register, token) = (inside.lock.clone(), inside.token);
            life.write(Deed::Wrote { register, token, seen, made: seen + 1, taken: true });
        }
    }
    for inside in &insides {
        life.left(&inside.lock);
    }
}

/// Does nothing for a while. Whoever finds that its lease was renewed says so when the one before is over: from then on it is inside once more,
/// for as long as that lasts.
fn stay(life: &mut Life, insides: &mut [Inside]) {
    let limit_ms = life.number("dwell_ms");
    // What is renewed must be seen often enough.
    let outstays = insides.iter().any(|inside| inside.record.is_some()) && life.dice.below(4) == 0;
    let ends_ms =
        now_ms() + if outstays { limit_ms / 2 + life.dice.below(limit_ms / 2) } else { life.some_ms(limit_ms) };
    loop {
        let left_ms = ends_ms.saturating_sub(now_ms()).min(LOOK_MS);
        if left_ms == 0 {
            return;
        }
        pause(Duration::from_millis(left_ms));
        for inside in &mut *insides {
            let Some(until) = inside.until.filter(|until| now_ns() >= *until) else { continue };
            let Some((record, token)) = inside.record.as_ref().zip(inside.token) else { continue };
            if let Some(end) = record.end(&life.base, token).filter(|end| *end > until) {
                life.left(&inside.lock);
                // Without its token, which it got once, and without a turn in the line, which it has had.
                life.entered(&inside.lock, None, Some(end));
                inside.until = Some(end);
            }
        }
    }
}

/// By what it inherited.
fn insides(life: &Life) -> Vec<Inside> {
    let ttl_ns = life.number("ttl_ms") * 1_000_000;
    let since_asked = (ttl_ns > 0).then(|| life.number("asked") + ttl_ns);
    let inside = |lock: String, token: Option<u64>, until: Option<u64>, record: Record| {
        let record = (ttl_ns > 0).then_some(record);
        Inside { lock, token, until, record, register: None }
    };
    let parsed = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{text:?} is a token"));
    let token = |key: &str| parsed(&inherited(key).unwrap_or_default());
    if let Some(names) = inherited("LOKT_NAME") {
        let tokens = inherited("LOKT_FENCING_TOKEN").unwrap_or_default();
        let tokens: Vec<Option<u64>> = tokens.split(',').map(|token| Some(parsed(token))).collect();
        assert_eq!(names.split(',').count(), tokens.len(), "each name has a token");
        let until = |name: &str, token: Option<u64>| (ttl_ns > 0).then(|| lease_end(&life.base, name, token));
        let names = names.split(',').zip(tokens);
        let of_name = |(name, token)| inside(life.lock(name), token, until(name, token), Record::Lock(name.into()));
        names.map(of_name).collect()
    } else if let Some(node) = inherited("LOKT_CLAIM_NODE") {
        let lock = format!("{}-claims/{node}", life.word("ward"));
        vec![inside(lock, Some(token("LOKT_CLAIM_TOKEN")), since_asked, Record::Claim)]
    } else if let Some(worktree) = inherited("LOKT_LEASE_WORKTREE") {
        let lock = format!("{}-{worktree}/lease", life.word("ward"));
        vec![inside(lock, Some(token("LOKT_LEASE_TOKEN")), since_asked, Record::Lease(worktree))]
    } else {
        let ward = life.word("ward");
        assert!(ward.starts_with("peers/") && ward != "peers/lokt", "lokt says what it lets into, in {ward}");
        let token = inherited("NAIVE_TOKEN").as_deref().map(parsed);
        vec![Inside { lock: life.lock("x"), token, until: None, record: None, register: None }]
    }
}

/// Until when a hold with a lease may be believed, as its record says. The holder may have renewed it since: this is what is certain. A record
/// that isn't ours promises nothing.
pub(super) fn lease_end(base: &Path, name: &str, token: Option<u64>) -> u64 {
    let root = root_of(base).expect("leases are taken where the root is known");
    let bytes = std::fs::read(root.join(format!("locks/{name}.json"))).unwrap_or_default();
    let record: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if token.is_none() || record["fencing_token"].as_u64() != token {
        return 0;
    }
    let part_end = |part: &Value, clock: &str| Some(part[clock].as_u64()? + part["ttl_sec"].as_u64()? * 1_000);
    let parts = &record["parts"];
    // The boot clock is ahead of the monotonic one by what the machine slept. It doesn't sleep during a run.
    let ends = [part_end(&parts["process"], "monotonic_ms"), part_end(&parts["owner"], "boottime_ms")];
    let end = ends.into_iter().flatten().max();
    end.unwrap_or_else(|| panic!("the record of a hold with a lease says until when: {record}")) * 1_000_000
}

/// The register that a lock protects.
pub(super) fn open(dir: &Path, lock: &str) -> File {
    let path = dir.join("registers").join(lock.replace('/', "-"));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    file.expect("a temp directory is writable")
}

/// What is in it; nothing is zero.
pub(super) fn value(register: &File) -> u64 {
    let mut digits = [0; DIGITS];
    let length = register.read_at(&mut digits, 0).expect("a register can be read");
    String::from_utf8_lossy(&digits[..length]).parse().unwrap_or(0)
}

/// Changes it, whatever is in it.
pub(super) fn set(register: &File, value: u64) {
    register.write_all_at(format!("{value:0DIGITS$}").as_bytes(), 0).expect("a register can be written");
}
