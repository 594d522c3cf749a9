//! Conducts those who write late: one of three stands still after it has read, until its lease is over and another has written, and then
//! goes on and writes.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lokt_core::history::Deed;
use lokt_testkit::guarding::Relative;
use lokt_testkit::scribe::{Scribe, now_ns};
use lokt_testkit::swarm::{pause, wait_until};
use rustix::process::Signal;

use crate::scene::MARK;
use crate::traffic::{Traffic, worker_words};

/// How many want each of the two.
const RIVALS: usize = 3;
/// If nobody has written by then, it goes on all the same.
const STOP_MAX: Duration = Duration::from_secs(20);

/// Registers that take whatever comes: what is lost in them shows that the load can lose something.
pub(crate) const CARELESS: [&str; 2] = ["fenced/without tokens", "fenced/lease, without tokens"];
/// Registers behind a token.
pub(crate) const CAREFUL: [&str; 3] = ["fenced/with tokens", "fenced/lokt publish", "fenced/lokt lease fence publish"];

/// Runs both until the time is over.
pub(crate) fn conduct(traffic: &Traffic<'_>) {
    std::thread::scope(|scope| {
        for (kind, register) in [("fenced-lock", "fenced-plain"), ("fenced-lease", "fenced-lease-plain")] {
            scope.spawn(move || conduct_one(traffic, kind, register));
        }
    });
}

fn conduct_one(traffic: &Traffic<'_>, kind: &str, register: &str) {
    let dir = &traffic.scene.dir;
    let mut children: Vec<Child> = Vec::new();
    let sleeper = traffic.someone();
    for rival in 0..RIVALS {
        let who = if rival == 0 { sleeper } else { traffic.someone() };
        let mut words = worker_words(traffic, "fenced", who, &history(traffic, kind, rival), kind);
        words.push(format!("sleeps={}", u8::from(rival == 0)));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env(MARK, dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        children.push(command.spawn().expect("this program can be run"));
    }
    let process = Relative::of(i64::from(children[0].id()));
    let scribe = Scribe::new(&dir.join("history/conductor.jsonl"), sleeper).expect("a history can be written");
    let register = dir.join("registers").join(register);
    let value = || std::fs::read_to_string(&register).unwrap_or_default();
    while children[0].try_wait().expect("it is our child").is_none() {
        if stands_still(process.pid) {
            let before = value();
            // Nobody can write while its lease lasts, so that is over when somebody has.
            wait_until(STOP_MAX, || value() != before || traffic.is_over());
            process.signal(Signal::CONT);
            scribe.write_at(now_ns(), Deed::Continued);
        }
        pause(Duration::from_millis(5));
    }
    for mut child in children {
        let _ = child.wait();
    }
}

fn history(traffic: &Traffic<'_>, kind: &str, rival: usize) -> PathBuf {
    traffic.scene.dir.join(format!("history/{kind}-{rival}.jsonl"))
}

fn stands_still(pid: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('T'))
}
