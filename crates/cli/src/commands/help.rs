//! `lokt help`, made from the table of commands, and what is said to words that are no command.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use super::parse::asks_for_json;
use super::{Row, SECTIONS, find, rows};
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::clean;

/// Where the summaries of the commands begin.
const SUMMARY_COLUMN: usize = 25;
/// The longest line of flags.
const WIDTH: usize = 110;

const HEAD: &str = "\
lokt - locks with leases and fencing tokens, in plain files

Usage: lokt <command> [flags] [args]
";

const FOOT: &str = "
Every command but help takes --json and --color <auto|always|never>, after its name.
`lokt help <command>` explains its flags.
A <DURATION> is 90, 1500ms, 90s, 5m, 1h30m or 2d. Environment: LOKT_ROOT, LOKT_OWNER, LOKT_AGENT_ID.

Exit codes:
";

pub(super) fn parser() -> clap::Command {
    let topic = clap::Arg::new("command").value_name("COMMAND").help("The command to explain");
    clap::Command::new("help").bin_name("lokt help").about("Show this, or the help of a command").arg(topic)
}

fn help() -> String {
    let mut help = HEAD.to_owned();
    for section in SECTIONS {
        let _ = writeln!(help, "\n{}:", section.title);
        for row in section.rows {
            describe(&mut help, row);
        }
    }
    help.push_str(FOOT);
    for (exit, meaning) in Exit::ALL {
        let _ = writeln!(help, "  {:<4}{}", exit.code(), meaning.replace('`', ""));
    }
    help
}

/// What it takes and what it does, then its flags.
fn describe(help: &mut String, row: &Row) {
    let parser = (row.parser)();
    let mut synopsis = format!("  {}", row.name);
    for word in parser.get_positionals() {
        let dashes = if word.is_last_set() { "-- " } else { "" };
        let _ = write!(synopsis, " {dashes}{word}");
    }
    let about = parser.get_about().map(ToString::to_string).unwrap_or_default();
    let other: Vec<String> =
        row.aliases.iter().filter(|alias| !alias.starts_with('-')).map(|alias| format!("`{alias}`")).collect();
    let other = if other.is_empty() { String::new() } else { format!(" ({} is the same)", other.join(", ")) };
    let gap = if synopsis.len() < SUMMARY_COLUMN { "" } else { "\n" };
    let width = if gap.is_empty() { SUMMARY_COLUMN } else { synopsis.len() };
    let indent = if gap.is_empty() { "" } else { &" ".repeat(SUMMARY_COLUMN) };
    let _ = writeln!(help, "{synopsis:<width$}{gap}{indent}{about}{other}");
    let mut line = String::new();
    let flags = parser.get_arguments().filter(|flag| !flag.is_positional());
    for flag in flags.filter(|flag| !matches!(flag.get_long(), Some("json" | "color")) && !flag.is_hide_set()) {
        let flag = flag_synopsis(flag);
        if SUMMARY_COLUMN + line.len() + 2 + flag.len() > WIDTH {
            let _ = writeln!(help, "{:SUMMARY_COLUMN$}{line},", "");
            line.clear();
        }
        line.push_str(if line.is_empty() { "" } else { ", " });
        line.push_str(&flag);
    }
    if !line.is_empty() {
        let _ = writeln!(help, "{:SUMMARY_COLUMN$}{line}", "");
    }
}

/// `--ttl <DURATION>`, or `-E <CODE>`: the shortest way to say it.
fn flag_synopsis(flag: &clap::Arg) -> String {
    let name = match (flag.get_short(), flag.get_long()) {
        (Some(short), _) => format!("-{short}"),
        (None, long) => format!("--{}", long.unwrap_or_default()),
    };
    match flag.get_value_names().filter(|_| flag.get_action().takes_values()) {
        Some([value, ..]) => format!("{name} <{value}>"),
        _ => name,
    }
}

/// No command is a usage error that the help answers.
pub(super) fn no_command() -> Report {
    Report::new(Exit::Usage).text(help())
}

/// The help of a command, or of all.
pub(super) fn about(topics: &[OsString]) -> Report {
    match topics {
        [] => Report::new(Exit::Done).text(help()),
        [topic] => match topic.to_str().and_then(find) {
            Some((_, row)) if row.name == "help" => about(&[]),
            Some((word, row)) => (row.run)(word, &["--help".into()]),
            None => unknown(topic, Format::of(topic == "--json")),
        },
        [_, extra, ..] => {
            let failure = Failure::usage(format!("unexpected argument '{}' found", clean(&extra.to_string_lossy())));
            failure.hint("`lokt help` lists the commands").report(Format::of(asks_for_json(topics)))
        }
    }
}

/// Words that are no command.
pub(super) fn unknown(command: &OsStr, format: Format) -> Report {
    let command = clean(&command.to_string_lossy());
    let message = format!("unknown command: {command}");
    let hint = if command.starts_with('-') {
        "flags come after a command, as in `lokt status --json`".to_owned()
    } else {
        let meant = synonym(&command)
            .or_else(|| nearest(&command))
            .map(|name| format!("did you mean `lokt {name}`? "))
            .unwrap_or_default();
        format!("{meant}`lokt help` lists the commands")
    };
    match format {
        Format::Json => Failure::usage(message).hint(hint).report(Format::Json),
        // The first line is the one that scripts know from old lokt.
        Format::Text => Report::new(Exit::Usage).note(message).note(format!("hint: {hint}")),
    }
}

/// What other tools call it.
fn synonym(word: &str) -> Option<&'static str> {
    Some(match word {
        "ls" | "list" | "ps" | "show" => "status",
        "acquire" | "take" => "lock",
        "release" | "free" => "unlock",
        "exec" | "with" => "guard",
        "log" | "history" | "events" => "audit",
        "wait" | "waiters" => "queue",
        "thaw" => "unfreeze",
        "check" | "fsck" => "doctor",
        _ => return None,
    })
}

/// The command that was probably meant: as near as clap wants a flag to be before it suggests it.
fn nearest(word: &str) -> Option<&'static str> {
    const NEAR: f64 = 0.7;
    let names = rows().flat_map(|row| std::iter::once(&row.name).chain(row.aliases)).copied();
    let near = names.map(|name| (strsim::jaro(word, name), name)).filter(|(nearness, _)| *nearness > NEAR);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}
