//! The torture ring: many real processes of everything that lokt is, killed, stopped, slowed, starved and misled for a while, each writing down
//! what it does; and then a verdict over all that was written down and over what is on the disk.
//!
//! ```sh
//! cargo test -p lokt-cli --test torture -- --seconds 600 --seed 7
//! cargo test -p lokt-cli --test torture -- --judge DIR
//! ```
//!
//! | folder | what |
//! | --- | --- |
//! | `traffic/`, `worker/` | who does what with locks, ledgers, claims, leases and snapshots |
//! | `nemesis/` | what is done to them |
//! | `fenced`, `peers` | late writers with and without tokens; other locks under the same load |
//! | `validate/` | what must be true |
//! | `ends` | how commands ended, and whether they may |
//! | `report`, `excerpt` | what is said about it |
//! | `watch`, `roll`, `ours` | that it ends, whatever happens, and leaves nothing behind |
//! | `rehearsal` | this program, tried on itself |
//!
//! A seed gives the same choices, not the same run: processes are scheduled as the machine likes.

mod ends;
mod excerpt;
mod fenced;
mod nemesis;
mod options;
mod ours;
mod peers;
mod rehearsal;
mod report;
mod roll;
mod scene;
mod traffic;
mod validate;
mod watch;
mod worker;

use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use lokt_testkit::need::{Need, is_skipped};
use lokt_testkit::scribe;
use lokt_testkit::storm::new_seed;
use lokt_testkit::swarm::{now_ms, pause, wait_until};
use lokt_torture::history::Entry;

use self::excerpt::excerpts;
use self::options::{Wish, parse};
use self::ours::{end, end_until, ours};
use self::peers::{PEERS, Peer};
use self::report::{Account, Outcome, complain, result, say, verdict};
use self::scene::Scene;
use self::traffic::{LOAD, Traffic};
use self::validate::Check;

/// What is kept of the time for settling and judging.
const AFTERMATH_SECS: u64 = 12;
/// Whoever still runs so long after the end of the traffic hangs.
const LAST_WAIT: Duration = Duration::from_secs(90);
/// The leases of a second are over when this is.
const BRIEF_LEASES: Duration = Duration::from_millis(1_500);
/// How the process of a run ends that has shown too little.
const SHOWN_TOO_LITTLE: u8 = 3;
/// Other locks get a few seconds each, however long the run is.
const SLICE_MS_MAX: u64 = 15_000;

/// What a run can't do without; a judge needs nothing.
const NEEDS: [Need; 5] =
    [Need::Root, Need::Program("strace"), Need::Program("faketime"), Need::Program("python3"), Need::Program("git")];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--worker") {
        return worker::run(&words[1..]);
    }
    if let [word, dir, seconds, seed, dynamic] = words.as_slice()
        && word == "--inside"
    {
        let number = |text: &String| text.parse().expect("it is a number");
        let outcome = match number(seconds) {
            rehearsal::FAILS_AT_ONCE => rehearsal::fail(Path::new(dir), dynamic),
            seconds => torture(Path::new(dir), seconds, number(seed), dynamic),
        };
        return match outcome {
            Outcome::Well => ExitCode::SUCCESS,
            Outcome::ShownTooLittle => ExitCode::from(SHOWN_TOO_LITTLE),
            Outcome::Wrong => ExitCode::FAILURE,
        };
    }
    let well = match parse(words) {
        Ok(Wish::Run { .. }) if is_skipped(&NEEDS) => {
            say("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
            true
        }
        Ok(Wish::Run { seconds, seed }) => watch::over(seconds, seed.unwrap_or_else(new_seed)),
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
            complain(&why);
            false
        }
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs everything below `dir` and judges it. `dynamic` is the command with shared libraries.
fn torture(dir: &Path, seconds: u64, seed: u64, dynamic: &str) -> Outcome {
    let scene = Scene::new(dir, dynamic);
    let began_ms = now_ms();
    let moves = Check::holds("the moved clock is moved", scene.clock_moves(), "a hold taken by it ends when others do");
    let storm_secs = seconds.saturating_sub(AFTERMATH_SECS).max(5);
    let traffic = Traffic::new(&scene, seed, now_ms() + 1_000 * storm_secs);
    let (peers, hung) = rage(&traffic, seconds);
    traffic.plant_ends();
    pause(BRIEF_LEASES);
    let entries = scribe::read(&dir.join("history"));
    let mut checks = vec![moves, Check::new("every process ended by itself", hung)];
    checks.push(Check::new("nothing panicked", [traffic.complaints(), traffic.roll.panicked()].concat()));
    checks.push(Check::new("the history is whole", entries.as_ref().err()));
    let entries = entries.unwrap_or_default();
    let troubles = nemesis::troubles::counts(dir);
    checks.extend(validate::history(&entries));
    checks.extend(validate::freezes::check(dir, &entries));
    checks.extend(validate::planted::check(&entries));
    checks.extend(ends::check(dir));
    checks.extend(validate::trespasses::check(&scene));
    checks.extend(validate::peers(&peers));
    checks.extend(validate::nemesis(&troubles));
    checks.extend(validate::state::check(&scene, &entries));
    checks.extend(rehearsal::check(&scene, seed));
    let account = Account { entries: &entries, troubles, peers: &peers, lives: traffic.lives() };
    let text = format!("{}{}{}", account.text(), ends::table(dir), verdict(&checks));
    say(&text);
    nemesis::tally(&account.troubles);
    report::file(&dir.join("report"), &text);
    let outcome = result(&checks, (now_ms() - began_ms) / 1_000);
    if outcome == Outcome::Wrong {
        say(&history_of(&checks, dir));
    }
    outcome
}

/// What the histories, also those of the other locks, have about whatever was found.
fn history_of(checks: &[Check], dir: &Path) -> String {
    let dirs = PEERS.iter().map(|peer| peer.history(dir)).chain([dir.join("history")]);
    let entries: Vec<Entry> = dirs.flat_map(|dir| scribe::read(&dir).unwrap_or_default()).collect();
    excerpts(checks.iter().flat_map(Check::told), &entries)
}

/// All at once. Gives what became of the other locks, and who had to be ended.
fn rage(traffic: &Traffic<'_>, seconds: u64) -> (Vec<(&'static Peer, peers::Outcome)>, Vec<String>) {
    let slice = Duration::from_millis((seconds * 1_000 / 15).min(SLICE_MS_MAX));
    let (dir, roll) = (&traffic.scene.dir, &traffic.roll);
    let mut hung = Vec::new();
    let outcomes = thread::scope(|scope| {
        for slot in 0..LOAD.len() {
            roll.start(scope, traffic::part(slot), move || traffic.live(slot));
        }
        roll.start(scope, "killing", || nemesis::haunt(traffic, traffic.dice("killing", 0)));
        roll.start(scope, "the mess", || nemesis::mess::make_a_mess(traffic, traffic.dice("the mess", 0)));
        roll.start(scope, "filling the disk", || nemesis::disk::fill(traffic, traffic.dice("filling the disk", 0)));
        roll.start(scope, "freezing", || nemesis::freezes::freeze(traffic, traffic.dice("freezing", 0)));
        for (kind, register) in fenced::PAIRS {
            roll.start(scope, kind, move || fenced::conduct(traffic, kind, register));
        }
        let peers = || PEERS.iter().map(|peer| (peer, peer.run(traffic, slice))).collect();
        let peers = roll.start(scope, "other locks", peers);
        let left_ms = traffic.ends_ms.saturating_sub(now_ms());
        if !wait_until(Duration::from_millis(left_ms) + LAST_WAIT, || roll.is_empty()) {
            hung.extend(roll.at_work().into_iter().map(|part| format!("it hung: {part}")));
            hung.extend(ours(dir).into_iter().map(|(_, words)| format!("it had to be ended: {words}")));
            // Nothing may be left behind, whatever is wrong.
            if !end_until(dir, || roll.is_empty()) {
                give_up(traffic, &hung);
            }
        }
        peers.join().ok().flatten().unwrap_or_default()
    });
    if !wait_until(LAST_WAIT, || ours(dir).is_empty()) {
        hung.extend(ours(dir).into_iter().map(|(_, words)| format!("it was left behind: {words}")));
        end(dir);
    }
    (outcomes, hung)
}

/// Somebody goes on although everything that it could wait for is gone. Nobody can join such a thread.
#[expect(clippy::disallowed_methods, reason = "a thread that never ends keeps the program, and nothing else ends it")]
fn give_up(traffic: &Traffic<'_>, hung: &[String]) -> ! {
    for what in [hung, &traffic.complaints(), &traffic.roll.panicked()].concat() {
        complain(&what);
    }
    complain(&format!("without end, although all processes were killed: {:?}", traffic.roll.at_work()));
    std::process::exit(1)
}

/// Judges a history that was kept.
fn judge(dir: &Path) -> bool {
    let began_ms = now_ms();
    let entries = scribe::read(&dir.join("history"));
    let mut checks = vec![Check::new("the history is whole", entries.as_ref().err())];
    let entries = entries.unwrap_or_default();
    checks.extend(validate::history(&entries));
    checks.extend(validate::freezes::check(dir, &entries));
    checks.extend(validate::planted::check(&entries));
    let account = Account { entries: &entries, troubles: nemesis::troubles::counts(dir), peers: &[], lives: 0 };
    say(&format!("{}{}", account.text(), verdict(&checks)));
    say(&history_of(&checks, dir));
    // A short history shows little.
    result(&checks, (now_ms() - began_ms) / 1_000) != Outcome::Wrong
}
