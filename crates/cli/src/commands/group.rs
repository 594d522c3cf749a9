//! Commands of a group: the word after the group's name selects one of them, and only its parser is built.

use std::ffi::OsString;

use super::{Row, find, help, parse};
use crate::exit::Exit;
use crate::report::{Format, Report};

/// Flags that every command of a group takes, and that have a value.
const VALUED: [&str; 3] = ["-d", "--dir", "--color"];

/// The parser of a group with all of its commands: for help, man pages and completions.
pub(super) fn parser(name: &'static str, about: &'static str) -> clap::Command {
    let commands = find(name).map_or(&[][..], |(_, row)| row.rows);
    let group = clap::Command::new(name).bin_name(format!("lokt {name}")).about(about);
    group
        .subcommand_value_name("COMMAND")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands(commands.iter().map(|row| (row.parser)().name(row.word())))
        .args(parse::common_flags())
        .after_help(format!("`lokt help {name} COMMAND` explains one."))
}

/// Runs the command of the group `name` that the words ask for.
pub(super) fn run(name: &'static str, words: &[OsString]) -> Report {
    let Some((_, group)) = find(name) else { unreachable!("its row is in the table") };
    let help = || (group.parser)().render_help().to_string();
    match select(group, words) {
        Selected::Command(row, at) => {
            let mut rest = words.to_vec();
            rest.remove(at);
            (row.run)(row.name, &rest)
        }
        Selected::Unknown(at) => {
            let format = Format::of(parse::asks_for_json(words));
            help::unknown_in(Some(group), &words[at], format)
        }
        Selected::Nothing if words.iter().any(|word| word == "--help" || word == "-h") => {
            Report::new(Exit::Done).text(help()).only_answers()
        }
        Selected::Nothing if parse::asks_for_json(words) => help::which_of(group).report(Format::Json),
        Selected::Nothing => Report::new(Exit::Usage).text(help()),
    }
}

/// Which command the words after a group's name are for.
pub(super) enum Selected {
    /// This one, by the word at that place.
    Command(&'static Row, usize),
    /// The word at that place is none.
    Unknown(usize),
    /// There are only flags.
    Nothing,
}

/// Finds the word that selects a command. Flags may stand before it.
pub(super) fn select(group: &'static Row, words: &[OsString]) -> Selected {
    let mut doubtful = None;
    let ours = words.iter().take_while(|word| *word != "--").map(|word| word.to_string_lossy());
    let ours: Vec<_> = ours.collect();
    for (at, word) in ours.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |before| ours[before].as_ref());
        if (word.starts_with('-') && word.len() > 1) || VALUED.contains(&before) {
            continue;
        }
        if let Some(row) = group.rows.iter().find(|row| row.word() == word) {
            return Selected::Command(row, at);
        }
        // After a flag that isn't every command's it may be the flag's value.
        if !before.starts_with('-') {
            return Selected::Unknown(at);
        }
        doubtful = doubtful.or(Some(at));
    }
    doubtful.map_or(Selected::Nothing, Selected::Unknown)
}
