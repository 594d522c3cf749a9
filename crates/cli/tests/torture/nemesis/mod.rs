//! The nemesis: kills and stops processes, damages files, sets clocks and fills a disk, all from one seed.

pub(crate) mod disk;
pub(crate) mod freezes;
pub(crate) mod mess;
pub(crate) mod troubles;

use std::collections::BTreeMap;
use std::time::Duration;

use lokt_testkit::dice::Dice;
use lokt_testkit::guarding::{Relative, family};
use lokt_testkit::scribe::{Scribe, now_ns};
use lokt_testkit::swarm::{now_ms, pause, put, wait_until};
use lokt_testkit::tally::{self, Trial};
use lokt_torture::history::Deed;
use rustix::process::Signal;

use self::troubles::note;
use crate::ends;
use crate::traffic::{Traffic, locked};
use crate::worker::muted::FULL_PIPE;
use crate::worker::snapshots::AROUND_ROOT;

/// Every kind of trouble. A run in which one of them never came true has shown nothing about it.
pub(crate) const KINDS: [&str; 18] = [
    "kill",
    "orphan",
    "short stop",
    "long stop",
    "moved clock",
    "clock step",
    "delayed call",
    "failed call",
    troubles::OF_SNAPSHOT,
    troubles::OF_HELPER,
    "deleted file",
    "damaged file",
    "deleted pulse",
    "damaged pulse",
    "freeze",
    "full disk",
    FULL_PIPE,
    AROUND_ROOT,
];
/// Long stops are longer than the leases of a second, and shorter than the five seconds for which a command waits for a root whose mutex
/// somebody stands still with.
const LONG_STOP_MS: std::ops::Range<u64> = 1_200..3_500;
const SHORT_STOP_MS: u64 = 300;
/// A process that was killed is gone before that.
const DEATH: Duration = Duration::from_secs(20);

/// Counts what was done for the table of all tests. Kills count by themselves.
pub(crate) fn tally(troubles: &BTreeMap<String, u64>) {
    let count = |kinds: &[&str]| kinds.iter().filter_map(|kind| troubles.get(*kind)).sum::<u64>();
    let stops = count(&["orphan", "short stop", "long stop", "delayed call"]);
    tally::add(Trial::Stop, usize::try_from(stops).unwrap_or(0));
    tally::add(Trial::Fault, usize::try_from(count(&["failed call"])).unwrap_or(0));
    // The first thread of a program doesn't end, but exits.
    tally::write_down();
}

/// Somebody who stands still.
struct Frozen {
    until_ms: u64,
    who: u64,
    process: Relative,
}

/// Kills and stops until the time is over; whoever stands still then goes on.
pub(crate) fn haunt(traffic: &Traffic<'_>, mut dice: Dice) {
    let dir = &traffic.scene.dir;
    let scribe = Scribe::new(&dir.join("history/nemesis.jsonl"), 0).expect("a history can be written");
    let mut frozen: Vec<Frozen> = Vec::new();
    while !traffic.is_over() {
        pause(Duration::from_millis(20 + dice.below(90)));
        thaw(&mut frozen, &scribe, now_ms());
        if dice.below(4) == 0 {
            let hours = [-8_760_i64, -24, -1, 0, 1, 24, 8_760][dice.index(7)];
            put(&dir.join("clock"), format!("{:+}", hours * 3_600));
            note(dir, "clock step");
        }
        let slot = dice.index(traffic.targets.len());
        let Some((who, first)) = locked(&traffic.targets[slot]).as_ref().map(|target| (target.who, target.process.pid))
        else {
            continue;
        };
        let mut relatives = family(first);
        // A tracer that is killed while its tracee waits for it leaves that stopped for ever, which says nothing about lokt.
        relatives.retain(|relative| !is_tracer(relative.pid));
        if relatives.is_empty() {
            continue;
        }
        let victim = relatives[dice.index(relatives.len())].clone();
        if !victim.lives() {
            continue;
        }
        if dice.below(8) == 0 && relatives.len() > 1 {
            // Whoever was started stands still, and whoever started it is gone.
            let orphan = relatives[relatives.len() - 1].clone();
            let killed = &relatives[relatives.len() - 2];
            scribe.write_about(who, now_ns(), Deed::Stopped);
            ends::strike(dir, who, orphan.pid);
            orphan.signal(Signal::STOP);
            ends::strike(dir, who, killed.pid);
            killed.kill();
            note(dir, "orphan");
            let until_ms = now_ms() + LONG_STOP_MS.start + dice.below(LONG_STOP_MS.end - LONG_STOP_MS.start);
            frozen.push(Frozen { until_ms, who, process: orphan });
            continue;
        }
        ends::strike(dir, who, victim.pid);
        if dice.below(2) == 0 {
            victim.kill();
            wait_until(DEATH, || !victim.lives());
            scribe.write_about(who, now_ns(), Deed::Killed);
            note(dir, "kill");
            continue;
        }
        let (kind, for_ms) = if dice.below(6) == 0 {
            ("long stop", LONG_STOP_MS.start + dice.below(LONG_STOP_MS.end - LONG_STOP_MS.start))
        } else {
            ("short stop", dice.below(SHORT_STOP_MS))
        };
        scribe.write_about(who, now_ns(), Deed::Stopped);
        victim.signal(Signal::STOP);
        note(dir, kind);
        frozen.push(Frozen { until_ms: now_ms() + for_ms, who, process: victim });
    }
    thaw(&mut frozen, &scribe, u64::MAX);
}

fn is_tracer(pid: i64) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "strace")
}

fn thaw(frozen: &mut Vec<Frozen>, scribe: &Scribe, now_ms: u64) {
    frozen.retain(|one| {
        let stays = one.until_ms > now_ms;
        if !stays {
            if one.process.lives() {
                one.process.signal(Signal::CONT);
            }
            scribe.write_about(one.who, now_ns(), Deed::Continued);
        }
        stays
    });
}
