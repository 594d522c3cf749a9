//! Conducts those who write late: one of three stands still after it has read, until its lease is over and another has written, and then
//! goes on and writes. All of them are lives of the traffic, and the nemesis comes to them as to everybody else.

use std::time::Duration;

use lokt_testkit::scribe::{Scribe, now_ns};
use lokt_testkit::swarm::{pause, wait_until};
use lokt_torture::history::Deed;
use rustix::process::Signal;

use crate::traffic::{LOAD, Traffic, What, locked, part};

/// If nobody has written by then, it goes on all the same.
const STOP_MAX: Duration = Duration::from_secs(20);
/// Between two looks at whether it stands still.
const LOOK: Duration = Duration::from_millis(5);

/// Registers that take whatever comes: what is lost in them shows that the load can lose something.
pub(crate) const CARELESS: [&str; 2] = ["fenced/without tokens", "fenced/lease, without tokens"];
/// Registers behind a token.
pub(crate) const CAREFUL: [&str; 3] = ["fenced/with tokens", "fenced/lokt publish", "fenced/lokt lease fence publish"];

/// Who they are, and the register that the last of them wrote to.
pub(crate) const PAIRS: [(&str, &str); 2] = [("fenced-lock", "fenced-plain"), ("fenced-lease", "fenced-lease-plain")];

/// Continues the one of a kind that stops itself whenever it has stood still for long enough, for as long as anybody lives in its slot.
pub(crate) fn conduct(traffic: &Traffic<'_>, kind: &'static str, register: &str) {
    let dir = &traffic.scene.dir;
    let slot = LOAD.iter().position(|one| one.what == What::Sleeper(kind)).expect("each kind has one");
    let scribe = Scribe::new(&dir.join("history/conductor.jsonl"), 0).expect("a history can be written");
    let register = dir.join("registers").join(register);
    let value = || std::fs::read_to_string(&register).unwrap_or_default();
    while traffic.roll.has(&part(slot)) {
        let sleeper = locked(&traffic.targets[slot]).as_ref().map(|target| (target.who, target.process.clone()));
        if let Some((who, process)) = sleeper
            && stands_still(process.pid)
        {
            let before = value();
            // Nobody can write while its lease lasts, so that is over when somebody has. It may be killed meanwhile.
            wait_until(STOP_MAX, || value() != before || !process.lives() || traffic.is_over());
            process.signal(Signal::CONT);
            scribe.write_about(who, now_ns(), Deed::Continued);
        }
        pause(LOOK);
    }
}

fn stands_still(pid: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('T'))
}
