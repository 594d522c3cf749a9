//! From the words after a command to its arguments, and what is said when they are wrong.

use std::ffi::OsString;

use clap::builder::EnumValueParser;
use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, ArgAction, CommandFactory, Parser};

use super::flock_habits;
use crate::exit::Exit;
use crate::paint::Choice;
use crate::report::{Failure, Format, Report};

const JSON: &str = "json";

/// The parser of a command. Every command takes `--json` and `--color`.
pub(super) fn parser<A: CommandFactory>(name: &'static str) -> clap::Command {
    A::command().name(name).bin_name(format!("lokt {name}")).args(common_flags())
}

/// Flags of every command.
pub(super) fn common_flags() -> [Arg; 2] {
    let json = Arg::new(JSON).long(JSON).action(ArgAction::SetTrue).help("Answer in JSON");
    // Read before anything else: `paint::choose`.
    let color = Arg::new("color").long("color").value_name("WHEN").value_parser(EnumValueParser::<Choice>::new());
    let color = color.hide_possible_values(true).help("Use colours: auto (on a terminal), always or never");
    [json, color]
}

/// Reads the words after a command, and runs it.
pub(super) fn parsed<A: Parser>(
    name: &'static str,
    rest: &[OsString],
    run: fn(&A, Format) -> Result<Report, Failure>,
) -> Report {
    match parse::<A>(name, rest) {
        Ok((args, format)) => {
            let report = run(&args, format).unwrap_or_else(|failure| failure.of_command(name).report(format));
            if super::READERS.contains(&name) { report.only_answers() } else { report }
        }
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Report::new(Exit::Done).text(error.render().to_string()).only_answers()
        }
        Err(error) => mistyped(name, &parser::<A>(name), rest, error),
    }
}

/// Reads the words after a command.
pub(super) fn parse<A: Parser>(name: &'static str, rest: &[OsString]) -> Result<(A, Format), clap::Error> {
    let words = std::iter::once(OsString::from(name)).chain(rest.iter().cloned());
    let mut matches = parser::<A>(name).try_get_matches_from(words)?;
    let format = Format::of(matches.get_flag(JSON));
    Ok((A::from_arg_matches_mut(&mut matches)?, format))
}

/// Says what is wrong with the words after a command.
fn mistyped(name: &str, command: &clap::Command, rest: &[OsString], mut error: clap::Error) -> Report {
    // It would advise to pass a flag as a name, after two dashes; no name starts with one.
    error.remove(ContextKind::Suggested);
    let text = error.render().to_string();
    let guards = matches!(name, "guard" | "run");
    let runs = guards || matches!(name, "claim run" | "lease run");
    // What it runs under has a name, or is where we are.
    let named = if name == "lease run" { "" } else { " build" };
    let no_command = runs && !rest.iter().any(|word| word == "--");
    let hint = single_dash(command, rest)
        .map(|flag| format!("flags have two dashes: --{flag}"))
        .or_else(|| guards.then(|| flock_habits::hint(rest)).flatten())
        .or_else(|| {
            no_command.then(|| format!("the command comes after two dashes, as in `lokt {name}{named} -- make`"))
        });
    if asks_for_json(rest) {
        let message: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        let message = message.join(" ");
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        let hint = hint.unwrap_or_else(|| format!("`lokt {name} --help` shows the usage"));
        return Failure::usage(message).hint(hint).report(Format::Json);
    }
    let lines = text.trim_end().lines().map(crate::show::clean);
    Report::new(Exit::Usage).notes(lines).notes(hint.map(|hint| format!("hint: {hint}")))
}

/// A long flag of the command that was given with one dash, as the flags of old lokt could be.
fn single_dash(command: &clap::Command, rest: &[OsString]) -> Option<String> {
    let words = rest.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str()?.strip_prefix('-'));
    let mut flags = words.map(|word| word.split('=').next().unwrap_or(word));
    let is_flag = |word: &str| command.get_arguments().any(|flag| flag.get_long() == Some(word));
    flags.find(|word| is_flag(word)).map(ToOwned::to_owned)
}

/// Is `--json` among the words? For answers to what can't be parsed.
pub(super) fn asks_for_json(words: &[OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}
