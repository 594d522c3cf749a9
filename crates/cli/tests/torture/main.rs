//! The torture ring: many real processes of everything that lokt is, killed, stopped, slowed, starved and misled for a while, each writing down
//! what it does; and then a verdict over all that was written down and over what is on the disk.
//!
//! ```sh
//! cargo test -p lokt-cli --features long --test torture -- --seconds 600 --seed 7
//! cargo test -p lokt-cli --features long --test torture -- --judge DIR
//! ```
//!
//! | folder | what |
//! | --- | --- |
//! | `traffic/`, `worker/` | who does what with locks, ledgers, claims, leases and snapshots |
//! | `nemesis/` | what is done to them |
//! | `fenced`, `peers` | late writers with and without tokens; other locks under the same load |
//! | `validate/` | what must be true |
//! | `report` | what is said about it |
//!
//! A seed gives the same choices, not the same run: processes are scheduled as the machine likes.

mod fenced;
mod nemesis;
mod options;
mod peers;
mod report;
mod scene;
mod traffic;
mod validate;
mod worker;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use lokt_testkit::guarding::Relative;
use lokt_testkit::scribe;
use lokt_testkit::storm::new_seed;
use lokt_testkit::swarm::{now_ms, pause, wait_until};

use self::options::{Wish, parse};
use self::peers::{Outcome, PEERS, Peer};
use self::report::{Account, result, say, verdict};
use self::scene::{MARK, Scene};
use self::traffic::{LOAD, Traffic};
use self::validate::Check;

/// What is kept of the time for settling and judging.
const AFTERMATH_SECS: u64 = 12;
/// Whoever still runs so long after the end of the traffic hangs.
const LAST_WAIT: Duration = Duration::from_secs(90);
/// The leases of a second are over when this is.
const BRIEF_LEASES: Duration = Duration::from_millis(1_500);
/// Other locks get a few seconds each, however long the run is.
const SLICE_MS_MAX: u64 = 15_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--worker") {
        return worker::run(&words[1..]);
    }
    let well = match parse(words) {
        Ok(Wish::Run { seconds, seed }) => torture(seconds, seed.unwrap_or_else(new_seed)),
        Ok(Wish::Judge(dir)) => judge(&dir),
        Ok(Wish::List) => {
            say("torture: test\n\n1 test, 0 benchmarks");
            true
        }
        Ok(Wish::Nothing) => {
            say("\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out\n");
            true
        }
        Err(why) => {
            report::complain(&why);
            false
        }
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs everything and judges it.
fn torture(seconds: u64, seed: u64) -> bool {
    say(&format!("\nseed {seed}, {seconds} seconds"));
    let scene = Scene::new(seed);
    say(&format!("in {}", scene.dir.display()));
    let began_ms = now_ms();
    let moves = Check::holds("the moved clock is moved", scene.clock_moves(), "a hold taken by it ends when others do");
    let storm_secs = seconds.saturating_sub(AFTERMATH_SECS).max(5);
    let traffic = Traffic::new(&scene, seed, now_ms() + 1_000 * storm_secs);
    let (peers, hung) = rage(&traffic, seconds);
    pause(BRIEF_LEASES);
    let entries = scribe::read(&scene.dir.join("history"));
    let mut checks = vec![moves, Check::new("every process ended by itself", hung)];
    checks.push(Check::new("nothing panicked", traffic.complaints()));
    checks.push(Check::new("the history is whole", entries.as_ref().err()));
    let entries = entries.unwrap_or_default();
    let troubles = nemesis::troubles::counts(&scene.dir);
    checks.extend(validate::history(&entries));
    checks.extend(validate::planted::check(&entries));
    checks.extend(validate::peers(&peers));
    checks.extend(validate::nemesis(&troubles));
    checks.extend(validate::state::check(&scene, &entries));
    let account = Account { entries: &entries, troubles, peers: &peers, lives: traffic.lives() };
    let text = format!("{}{}", account.text(), verdict(&checks));
    say(&text);
    nemesis::tally(&account.troubles);
    report::file(&scene.dir.join("report"), &text);
    let well = result(&checks, (now_ms() - began_ms) / 1_000);
    if well {
        let _ = fs::remove_dir_all(&scene.dir);
    } else {
        say(&format!("seed {seed}; everything is kept in {}", scene.dir.display()));
        say("the same choices again:");
        say(&format!("  cargo test -p lokt-cli --features long --test torture -- --seconds {seconds} --seed {seed}"));
        say("the same history judged again:");
        say(&format!("  cargo test -p lokt-cli --features long --test torture -- --judge {}", scene.dir.display()));
    }
    well
}

/// All at once. Gives what became of the other locks, and who had to be ended.
fn rage(traffic: &Traffic<'_>, seconds: u64) -> (Vec<(&'static Peer, Outcome)>, Vec<String>) {
    let slice = Duration::from_millis((seconds * 1_000 / 15).min(SLICE_MS_MAX));
    let mut hung = Vec::new();
    let outcomes = thread::scope(|scope| {
        for slot in 0..LOAD.len() {
            scope.spawn(move || traffic.live(slot));
        }
        scope.spawn(|| nemesis::haunt(traffic, traffic.dice(u64::MAX - 1)));
        scope.spawn(|| nemesis::mess::make_a_mess(traffic, traffic.dice(u64::MAX - 2)));
        scope.spawn(|| nemesis::disk::fill(traffic, traffic.dice(u64::MAX - 3)));
        scope.spawn(|| fenced::conduct(traffic));
        let peers = scope.spawn(move || PEERS.iter().map(|peer| (peer, peer.run(traffic, slice))).collect());
        let left_ms = traffic.ends_ms.saturating_sub(now_ms());
        let all_done = || traffic.done.load(Ordering::SeqCst) == LOAD.len() as u64;
        if !wait_until(Duration::from_millis(left_ms) + LAST_WAIT, all_done) {
            hung.extend(ours(&traffic.scene.dir).into_iter().map(|(_, words)| format!("it had to be ended: {words}")));
            // Nothing may be left behind, whatever is wrong.
            while !wait_until(Duration::from_millis(200), all_done) {
                end_ours(&traffic.scene.dir);
            }
        }
        peers.join().expect("it doesn't panic")
    });
    let gone = wait_until(LAST_WAIT, || ours(&traffic.scene.dir).is_empty());
    if !gone {
        hung.extend(ours(&traffic.scene.dir).into_iter().map(|(_, words)| format!("it was left behind: {words}")));
        end_ours(&traffic.scene.dir);
    }
    (outcomes, hung)
}

/// Every process that a run started and that still lives, with its command line.
fn ours(dir: &Path) -> Vec<(Relative, String)> {
    let mark = format!("{MARK}={}", dir.display());
    let own = i64::from(std::process::id());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i64>().ok());
    let is_ours = |pid: &i64| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        *pid != own && environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let with_words = |pid: i64| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        (Relative::of(pid), String::from_utf8_lossy(&words).replace('\0', " "))
    };
    pids.filter(is_ours).map(with_words).filter(|(process, _)| process.lives()).collect()
}

fn end_ours(dir: &Path) {
    for (process, _) in ours(dir) {
        process.kill();
    }
}

/// Judges a history that was kept.
fn judge(dir: &Path) -> bool {
    let began_ms = now_ms();
    let entries = scribe::read(&dir.join("history"));
    let mut checks = vec![Check::new("the history is whole", entries.as_ref().err())];
    let entries = entries.unwrap_or_default();
    checks.extend(validate::history(&entries));
    checks.extend(validate::planted::check(&entries));
    let account = Account { entries: &entries, troubles: nemesis::troubles::counts(dir), peers: &[], lives: 0 };
    say(&format!("{}{}", account.text(), verdict(&checks)));
    result(&checks, (now_ms() - began_ms) / 1_000)
}
