//! One file per command. Each parses its own arguments, asks the library, and returns a report.

mod deny;
mod exists;
mod guard;
mod lock;
mod queue;
mod root;
mod status;
mod unlock;
mod version;
mod waiting;
mod why;

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, ArgAction, Parser};

use crate::exit::Exit;
use crate::report::{Failure, Format, Report};

/// `lokt help`, up to the exit codes.
const HELP: &str = "\
lokt - locks with leases and fencing tokens, in plain files

Usage: lokt <command> [flags] [args]

Commands:
  guard <name...> -- <command...>
                         Run a command under a lock (`run` is the same)
      --ttl <duration>     A lease, renewed while the command runs (90, 1500ms, 5m, 1h30m, 2d)
      --wait               Wait in line for it, for at most 10 minutes
      --timeout <duration> Wait in line for it, for at most this long
      --on-lost <what>     If the lock is lost meanwhile: fail, warn or stop
      -E <code>            Exit with this code instead of 2 if it can't be had
      -o                   Don't let the command inherit the lock
      --until-all          Keep it until what the command leaves behind has ended
      --reason <text>      Shown to everyone who is refused
  lock <name>            Take a lock for this owner, or refresh it
      --ttl <duration>     It ends by itself after this long
      --bind <pid>         It ends when that process ends
      --wait, --timeout    As above
      --reason <text>      Shown to everyone who is refused
  unlock <name>          End one's own lock
      --force              Remove it, whoever holds it
      --break-stale        Remove it if nothing alive is behind it
      --lock-id <id>       Only if it is still this hold
      --token <n>          Only if it is still this fencing token
      --owner <owner>      End every lock of that owner (another's needs --force)
      --all                End every lock of this owner
  status [name]          Show who holds what, since when and until when
      --prune-expired      Remove expired locks and freezes first
  queue <name>           Show who waits for a lock, in order
  exists <name>          Say by the exit code whether it is held
  why <name>             Explain what `lock` would do, with the evidence and the next command
  root                   Show the root directory and how it was found
  version                Show the version
  help [command]         Show this, or the help of a command

Every command but help takes --json, after its name. Environment: LOKT_ROOT, LOKT_OWNER, LOKT_AGENT_ID.
";

fn help() -> String {
    let mut help = format!("{HELP}\nExit codes:\n");
    for (exit, meaning) in Exit::ALL {
        let _ = writeln!(help, "  {:<4}{}", exit.code(), meaning.replace('`', ""));
    }
    help
}

/// Runs the command that the words ask for.
pub(crate) fn run(words: &[OsString]) -> Report {
    let Some((first, rest)) = words.split_first() else { return Report::new(Exit::Usage).text(help()) };
    match (first.to_str().and_then(command), first.to_str()) {
        (Some(run), _) => run(rest),
        (None, Some("help" | "--help" | "-h")) => help_about(rest),
        _ => unknown(first, rest),
    }
}

/// What runs a command, given the words after it. Only that command's parser is built.
fn command(name: &str) -> Option<fn(&[OsString]) -> Report> {
    Some(match name {
        "guard" => |rest| guard::dispatch("guard", rest),
        "run" => |rest| guard::dispatch("run", rest),
        "lock" => |rest| parsed("lock", rest, lock::run),
        "unlock" => |rest| parsed("unlock", rest, unlock::run),
        "status" => |rest| parsed("status", rest, status::run),
        "queue" => |rest| parsed("queue", rest, queue::run),
        "exists" => |rest| parsed("exists", rest, exists::run),
        "why" => |rest| parsed("why", rest, why::run),
        "root" => |rest| parsed("root", rest, root::run),
        "version" | "--version" | "-V" => |rest| parsed("version", rest, version::run),
        _ => return None,
    })
}

fn help_about(topics: &[OsString]) -> Report {
    match topics {
        [] => Report::new(Exit::Done).text(help()),
        [topic] => match (topic.to_str().and_then(command), topic.to_str()) {
            (Some(run), _) => run(&["--help".into()]),
            (None, Some("help" | "--help" | "-h")) => help_about(&[]),
            _ => unknown(topic, &[]),
        },
        [_, extra, ..] => {
            let extra = crate::show::clean(&extra.to_string_lossy());
            let failure = Failure::usage(format!("unexpected argument '{extra}' found"));
            failure.hint("`lokt help` lists the commands").report(Format::of(asks_for_json(topics)))
        }
    }
}

fn unknown(command: &OsString, rest: &[OsString]) -> Report {
    let command = crate::show::clean(&command.to_string_lossy());
    let message = format!("unknown command: {command}");
    let misplaced = command.starts_with('-').then_some("flags come after a command, as in `lokt status --json`");
    match Format::of(command == "--json" || asks_for_json(rest)) {
        Format::Json => {
            Failure::usage(message).hint(misplaced.unwrap_or("`lokt help` lists the commands")).report(Format::Json)
        }
        Format::Text => {
            let hint = misplaced.map(|hint| format!("hint: {hint}"));
            Report::new(Exit::Usage).note(message).notes(hint).text(help())
        }
    }
}

/// Every command takes `--json`.
fn json_flag() -> Arg {
    Arg::new(JSON).long(JSON).action(ArgAction::SetTrue).help("Answer in JSON")
}

const JSON: &str = "json";

fn parsed<A: Parser>(name: &'static str, rest: &[OsString], run: fn(&A, Format) -> Result<Report, Failure>) -> Report {
    match parse::<A>(name, rest) {
        Ok((args, format)) => run(&args, format).unwrap_or_else(|failure| failure.report(format)),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Report::new(Exit::Done).text(error.render().to_string())
        }
        Err(error) => mistyped(name, &A::command().arg(json_flag()), rest, error),
    }
}

/// Reads the words after a command.
fn parse<A: Parser>(name: &str, rest: &[OsString]) -> Result<(A, Format), clap::Error> {
    let usage_name = format!("lokt {name}");
    let command = A::command().arg(json_flag()).bin_name(usage_name.clone());
    let words = std::iter::once(OsString::from(usage_name)).chain(rest.iter().cloned());
    let mut matches = command.try_get_matches_from(words)?;
    let format = Format::of(matches.get_flag(JSON));
    Ok((A::from_arg_matches_mut(&mut matches)?, format))
}

/// Says what is wrong with the words after a command.
fn mistyped(name: &str, command: &clap::Command, rest: &[OsString], mut error: clap::Error) -> Report {
    // It would advise to pass a flag as a name, after two dashes; no name starts with one.
    error.remove(ContextKind::Suggested);
    let text = error.render().to_string();
    let no_command = matches!(name, "guard" | "run") && !rest.iter().any(|word| word == "--");
    let hint = single_dash(command, rest).map(|flag| format!("flags have two dashes: --{flag}")).or_else(|| {
        no_command.then(|| format!("the command comes after two dashes, as in `lokt {name} build -- make`"))
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

fn asks_for_json(words: &[OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}
