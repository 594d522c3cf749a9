//! The power is cut, again and again, while real processes work on a file system: ext4 and xfs in loop devices, stopped in one moment without
//! writing what they have only in memory. Whatever lokt answered before must be there when the power is back, what wasn't answered yet must be
//! whole or not there, every token new, and everything usable.
//!
//! ```sh
//! cargo test -p lokt-cli --features long --test power_cut -- --cuts 200 --seed 7 --fs ext4
//! ```
//!
//! Needs root, for the mounts, and fails without.

mod actors;
mod course;
mod options;
mod proofs;
mod site;
mod stored;
mod tally;

use std::io::Write as _;
use std::process::ExitCode;

use lokt_testkit::dice::Dice;
use lokt_testkit::swarm::now_ms;

use course::Course;
use options::Options;
use tally::Tally;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            say("\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 8 filtered out\n");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            say(&format!("power_cut: {why}"));
            return ExitCode::FAILURE;
        }
    };
    let start = now_ms();
    let (mut passed, mut failed) = (0, 0);
    let mut done = |name: &str, result: Result<String, String>| {
        let (word, text) = match result {
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
        done(&format!("{kind}_a_cut_loses_what_was_never_synced"), proofs::a_cut_loses_what_was_never_synced(kind));
        done(&format!("{kind}_every_kind_of_loss_is_noticed"), proofs::every_kind_of_loss_is_noticed(kind));
        let noticed = proofs::without_syncs_acknowledged_things_are_lost(kind, &mut dice);
        done(&format!("{kind}_without_syncs_acknowledged_things_are_lost"), noticed);
        let survived = what_was_acknowledged_survives_every_cut(kind, share, &mut dice);
        done(&format!("{kind}_what_was_acknowledged_survives_every_cut"), survived);
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
    let Course { cuts, file_systems, reboots } = course;
    let about = format!("{cuts} cuts on {file_systems} file systems ({kind}), {reboots} of them as reboots");
    let report = format!("{about}\n{}", tally.table());
    match tally.verdict(&actors::kinds()) {
        Ok(()) => Ok(report),
        Err(why) => Err(format!("{report}{why}")),
    }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
