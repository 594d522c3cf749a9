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
A <DURATION> is 90, 1500ms, 90s, 5m, 1h30m or 2d. Environment: LOKT_ROOT, LOKT_OWNER, LOKT_AGENT_ID, LOKT_SESSION,
LOKT_EXIT_CONFLICT.

Exit codes:
";

pub(super) fn parser() -> clap::Command {
    let topic = clap::Arg::new("command").value_name("COMMAND").help("The command to explain").num_args(0..=2);
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

/// What it takes and what it does, then its flags; of a group, its commands.
fn describe(help: &mut String, row: &Row) {
    let parser = (row.parser)();
    let mut synopsis = format!("  {}{}", row.name, if row.rows.is_empty() { "" } else { " <COMMAND>" });
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
    let flags = flags.filter(|flag| !matches!(flag.get_long(), Some("json" | "color")) && !flag.is_hide_set());
    let commands = row.rows.iter().map(|row| row.word().to_owned());
    for word in commands.chain(flags.map(flag_synopsis)) {
        if SUMMARY_COLUMN + line.len() + 2 + word.len() > WIDTH {
            let _ = writeln!(help, "{:SUMMARY_COLUMN$}{line},", "");
            line.clear();
        }
        line.push_str(if line.is_empty() { "" } else { ", " });
        line.push_str(&word);
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
    let found = topics.first().and_then(|topic| find(topic.to_str()?));
    match (topics, found) {
        ([], _) => Report::new(Exit::Done).text(help()).only_answers(),
        ([_], Some((_, row))) if row.name == "help" => about(&[]),
        ([_], Some((word, row))) => (row.run)(word, &["--help".into()]),
        ([topic], None) => unknown(topic, Format::of(topic == "--json")),
        ([_, command], Some((word, row))) if !row.rows.is_empty() => {
            (row.run)(word, &[command.clone(), "--help".into()])
        }
        ([_, extra, ..], _) => {
            let failure = Failure::usage(format!("unexpected argument '{}' found", clean(&extra.to_string_lossy())));
            failure.hint("`lokt help` lists the commands").report(Format::of(asks_for_json(topics)))
        }
    }
}

/// Words that are no command.
pub(super) fn unknown(command: &OsStr, format: Format) -> Report {
    unknown_in(None, command, format)
}

/// A word that is no command, or none of the group.
pub(super) fn unknown_in(group: Option<&'static Row>, command: &OsStr, format: Format) -> Report {
    let command = clean(&command.to_string_lossy());
    let prefix = group.map(|group| format!("{} ", group.name)).unwrap_or_default();
    let message = format!("unknown command: {prefix}{command}");
    let hint = if command.starts_with('-') {
        "flags come after a command, as in `lokt status --json`".to_owned()
    } else {
        let meant = synonym(group, &command)
            .or_else(|| nearest(group, &command))
            .map(|name| format!("did you mean `lokt {name}`? "))
            .unwrap_or_default();
        format!(
            "{meant}`lokt help{}` lists the commands",
            group.map(|group| format!(" {}", group.name)).unwrap_or_default()
        )
    };
    match format {
        Format::Json => Failure::usage(message).hint(hint).report(Format::Json),
        // The first line is the one that scripts know from old lokt.
        Format::Text => Report::new(Exit::Usage).note(message).note(format!("hint: {hint}")),
    }
}

/// A group's name without a command.
pub(super) fn which_of(group: &Row) -> Failure {
    let commands: Vec<&str> = group.rows.iter().map(Row::word).collect();
    Failure::usage(format!("`lokt {}` needs a command: {}", group.name, commands.join(", ")))
        .hint(format!("`lokt help {}` explains them", group.name))
}

/// What other tools call it.
fn synonym(group: Option<&Row>, word: &str) -> Option<&'static str> {
    Some(match (group.map_or("", |group| group.name), word) {
        ("", "ls" | "list" | "ps" | "show") => "status",
        ("", "acquire" | "take") => "lock",
        ("", "release" | "free") => "unlock",
        ("", "exec" | "with") => "guard",
        ("", "log" | "history" | "events") => "audit",
        ("", "wait" | "waiters") => "queue",
        ("", "thaw") => "unfreeze",
        ("", "check" | "fsck") => "doctor",
        ("", "test" | "stress" | "bench" | "benchmark") => "torture",
        ("", "append") => "ledger append",
        ("", "reap") => "claim reap",
        ("ledger", "add" | "write" | "put" | "push") => "ledger append",
        ("ledger", "ls" | "list" | "log" | "cat" | "read" | "events") => "ledger show",
        ("ledger", "tail" | "watch") => "ledger follow",
        ("ledger", "create" | "new") => "ledger init",
        ("ledger", "check" | "fsck") => "ledger doctor",
        ("ledger", "dump") => "ledger export",
        ("ledger", "status" | "seq" | "last") => "ledger head",
        ("", "renew") => "lease renew",
        ("", "steal") => "lease steal",
        ("", "init") => "worktree init",
        ("worktree", "add" | "new" | "make") => "worktree create",
        ("worktree", "ls" | "show" | "status") => "worktree list",
        ("worktree", "mv" | "move") => "worktree rename",
        ("worktree", "rm" | "delete") => "worktree remove",
        ("lease", "take" | "lock" | "get") => "lease acquire",
        ("lease", "free" | "unlock" | "drop") => "lease release",
        ("lease", "extend" | "refresh" | "heartbeat") => "lease renew",
        ("lease", "ls" | "list" | "ps" | "show") => "lease status",
        ("lease", "publish" | "check") => "lease fence",
        ("lease", "log" | "history" | "events" | "verify") => "lease audit",
        ("lease", "force" | "kill") => "lease break",
        ("claim", "acquire" | "lock" | "get") => "claim take",
        ("claim", "free" | "unlock" | "drop") => "claim release",
        ("claim", "renew" | "refresh" | "heartbeat") => "claim extend",
        ("claim", "prune" | "gc" | "expire") => "claim reap",
        ("claim", "ls" | "ps" | "show" | "status") => "claim list",
        ("claim", "exec" | "guard" | "with" | "hold") => "claim run",
        _ => return None,
    })
}

/// The command that was probably meant: as near as clap wants a flag to be before it suggests it.
fn nearest(group: Option<&'static Row>, word: &str) -> Option<&'static str> {
    const NEAR: f64 = 0.7;
    let near = |names: &mut dyn Iterator<Item = (&'static str, &'static str)>| {
        let near = names.map(|(typed, name)| (strsim::jaro(word, typed), name));
        near.filter(|(nearness, _)| *nearness > NEAR).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
    };
    if let Some(group) = group {
        return near(&mut group.rows.iter().map(|row| (row.word(), row.name)));
    }
    let names = rows().flat_map(|row| std::iter::once(&row.name).chain(row.aliases));
    near(&mut names.map(|name| (*name, *name)))
}
