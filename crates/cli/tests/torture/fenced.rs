//! Conducts those who write late: one of three stands still after it has read, until its lease is over and another has written, and then
//! goes on and writes.

use std::io::{BufRead as _, BufReader};
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

/// Who they are, and the register that the last of them wrote to.
pub(crate) const PAIRS: [(&str, &str); 2] = [("fenced-lock", "fenced-plain"), ("fenced-lease", "fenced-lease-plain")];

/// Runs those of one kind until the time is over.
pub(crate) fn conduct(traffic: &Traffic<'_>, kind: &str, register: &str) {
    let dir = &traffic.scene.dir;
    let mut children: Vec<Child> = Vec::new();
    let sleeper = traffic.someone();
    std::thread::scope(|scope| {
        for rival in 0..RIVALS {
            let who = if rival == 0 { sleeper } else { traffic.someone() };
            let seed = traffic.dice(kind, rival as u64).below(u64::MAX);
            let mut words = worker_words(traffic, "fenced", who, seed, &history(traffic, kind, rival), kind);
            words.push(format!("sleeps={}", u8::from(rival == 0)));
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL"]).args(&words).env(MARK, dir);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("a process can be started");
            let stderr = child.stderr.take().expect("it is piped");
            children.push(child);
            scope.spawn(move || {
                for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                    traffic.hear(who, &String::from_utf8_lossy(&line));
                }
            });
        }
        lead(traffic, &mut children[0], sleeper, register);
        for child in &mut children {
            let _ = child.wait();
        }
    });
}

/// Continues the first of them whenever it has stood still for long enough.
fn lead(traffic: &Traffic<'_>, first: &mut Child, sleeper: u64, register: &str) {
    let dir = &traffic.scene.dir;
    let process = Relative::of(i64::from(first.id()));
    let scribe = Scribe::new(&dir.join("history/conductor.jsonl"), sleeper).expect("a history can be written");
    let register = dir.join("registers").join(register);
    let value = || std::fs::read_to_string(&register).unwrap_or_default();
    while first.try_wait().expect("it is our child").is_none() {
        if stands_still(process.pid) {
            let before = value();
            // Nobody can write while its lease lasts, so that is over when somebody has.
            wait_until(STOP_MAX, || value() != before || traffic.is_over());
            process.signal(Signal::CONT);
            scribe.write_at(now_ns(), Deed::Continued);
        }
        pause(Duration::from_millis(5));
    }
}

fn history(traffic: &Traffic<'_>, kind: &str, rival: usize) -> PathBuf {
    traffic.scene.dir.join(format!("history/{kind}-{rival}.jsonl"))
}

fn stands_still(pid: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('T'))
}
