//! The power is cut, again and again, while real processes work on a file system: ext4 and xfs in loop devices, stopped in one moment without
//! writing what they have only in memory. Whatever lokt answered before must be there when the power is back, what wasn't answered yet must be
//! whole or not there, every token new, and everything usable.
//!
//! ```sh
//! cargo test -p lokt-cli --test power_cut -- --cuts 200 --seed 7 --fs ext4
//! ```
//!
//! Needs root, for the mounts, and is skipped without, unless in CI.

mod actors;
mod course;
mod gate;
mod options;
mod proofs;
mod site;
mod stored;
mod tally;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use lokt_testkit::dice::Dice;
use lokt_testkit::mounted::again_with_own_mounts;
use lokt_testkit::need::{Need, is_skipped};
use lokt_testkit::swarm::now_ms;

use course::Course;
use options::Options;
use proofs::{
    a_cut_loses_what_was_never_synced, every_kind_of_loss_is_noticed, whoever_is_alone_and_does_not_sync_loses_it,
    without_syncs_acknowledged_things_are_lost,
};
use tally::Tally;

/// The first word of this program when it has mounts of its own.
const INSIDE: &str = "--inside";

/// What this program can't do without.
const NEEDS: [Need; 5] = [
    Need::Root,
    Need::Program("mkfs.ext4"),
    Need::Program("mkfs.xfs"),
    Need::Program("xfs_io"),
    Need::Program("strace"),
];

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let inside = words.first().is_some_and(|word| word == INSIDE);
    if inside {
        words.remove(0);
    }
    let options = match Options::parse(words.iter().cloned()) {
        Ok(Some(options)) => options,
        Ok(None) => {
            say("\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 10 filtered out\n");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            say(&format!("power_cut: {why}"));
            return ExitCode::FAILURE;
        }
    };
    if is_skipped(&NEEDS) {
        say("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        return ExitCode::SUCCESS;
    }
    if !inside {
        let error = again_with_own_mounts([INSIDE.to_owned()].into_iter().chain(words));
        say(&format!("power_cut: unshare is needed for mounts of its own: {error}"));
        return ExitCode::FAILURE;
    }
    let start = now_ms();
    let (mut passed, mut failed) = (0, 0);
    let mut done = |name: &str, test: &mut dyn FnMut() -> Result<String, String>| {
        // What a panic is about was said by it. The rest is tried all the same.
        let result = catch_unwind(AssertUnwindSafe(test));
        let (word, text) = match result.unwrap_or_else(|_| Err("it panicked".into())) {
            Ok(text) => ("ok", text),
            Err(text) => ("FAILED", text),
        };
        *if word == "ok" { &mut passed } else { &mut failed } += 1;
        say(&format!("test {name} ... {word}\n{text}\n"));
    };
    say(&format!("power cuts: --cuts {} --seed {}", options.cuts, options.seed));
    let share = options.cuts.div_ceil(u32::try_from(options.kinds.len()).expect("there are two"));
    for kind in &options.kinds {
        let mut dice = Dice::new(options.seed);
        let (cuts, dice) = (share, &mut dice);
        done(&format!("{kind}_a_cut_loses_what_was_never_synced"), &mut || a_cut_loses_what_was_never_synced(kind));
        done(&format!("{kind}_every_kind_of_loss_is_noticed"), &mut || every_kind_of_loss_is_noticed(kind));
        done(&format!("{kind}_without_syncs_acknowledged_things_are_lost"), &mut || {
            without_syncs_acknowledged_things_are_lost(kind, dice)
        });
        done(&format!("{kind}_whoever_is_alone_and_does_not_sync_loses_it"), &mut || {
            whoever_is_alone_and_does_not_sync_loses_it(kind, dice)
        });
        done(&format!("{kind}_what_was_acknowledged_survives_every_cut"), &mut || {
            what_was_acknowledged_survives_every_cut(kind, cuts, dice)
        });
    }
    let (took, word) = (now_ms() - start, if failed == 0 { "ok" } else { "FAILED" });
    say(&format!(
        "test result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out; finished in {}.{:02}s",
        took / 1000,
        took % 1000 / 10
    ));
    lokt_testkit::tally::write_down();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn what_was_acknowledged_survives_every_cut(kind: &str, cuts: u32, dice: &mut Dice) -> Result<String, String> {
    let (mut tally, mut course) = (Tally::default(), Course::default());
    course.run(kind, cuts, dice, &mut tally, say);
    let Course { cuts, file_systems, reboots, alone } = course;
    let about = format!(
        "{cuts} cuts on {file_systems} file systems ({kind}), {reboots} of them as reboots, {alone} right after an answer to somebody who was alone"
    );
    let report = format!("{about}\n{}", tally.table());
    match tally.verdict(&actors::kinds()) {
        Ok(()) => Ok(report),
        Err(why) => Err(format!("{report}{why}")),
    }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
