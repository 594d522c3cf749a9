//! One file per command. Each parses its own arguments, asks the library, and returns a report.

mod deny;
mod exists;
mod lock;
mod root;
mod status;
mod unlock;
mod version;
mod why;

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::Parser;
use clap::error::ErrorKind;

use crate::exit::Exit;
use crate::report::{Failure, Format, Report};

/// `lokt help`, up to the exit codes.
const HELP: &str = "\
lokt - locks with leases and fencing tokens, in plain files

Usage: lokt <command> [flags] [args]

Commands:
  lock <name>            Take a lock for this owner, or refresh it
      --ttl <duration>     It ends by itself after this long (90, 1500ms, 5m, 1h30m, 2d)
      --bind <pid>         It ends when that process ends
      --reason <text>      Shown to everyone who is refused
  unlock <name>          End one's own lock
      --force              Remove it, whoever holds it
      --break-stale        Remove it if nothing alive is behind it
      --lock-id <id>       Only if it is still this hold
      --token <n>          Only if it is still this fencing token
      --owner <owner>      End every lock of that owner (another's needs --force)
      --all                End every lock of this owner
  status [name]          Show who holds what, since when and until when
      --prune-expired      Remove expired locks first
  exists <name>          Say by the exit code whether it is held
  why <name>             Explain what `lock` would do, with the evidence and the next command
  root                   Show the root directory and how it was found
  version                Show the version
  help [command]         Show this, or the help of a command

Every command takes --json. Environment: LOKT_ROOT, LOKT_OWNER, LOKT_AGENT_ID.
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
    let Some(command) = words.first() else { return Report::new(Exit::Usage).text(help()) };
    let rest = &words[1..];
    match command.to_str() {
        Some("lock") => parsed("lock", rest, lock::run),
        Some("unlock") => parsed("unlock", rest, unlock::run),
        Some("status") => parsed("status", rest, status::run),
        Some("exists") => parsed("exists", rest, exists::run),
        Some("why") => parsed("why", rest, why::run),
        Some("root") => parsed("root", rest, root::run),
        Some("version" | "--version" | "-V") => parsed("version", rest, version::run),
        Some("help" | "--help" | "-h") => match rest.first() {
            None => Report::new(Exit::Done).text(help()),
            Some(topic) => run(&[topic.clone(), "--help".into()]),
        },
        _ => {
            let command = crate::show::clean(&command.to_string_lossy());
            let failure = Failure::usage(format!("unknown command: {command}"));
            match Format::of(asks_for_json(rest)) {
                Format::Json => failure.hint("`lokt help` lists the commands").report(Format::Json),
                Format::Text => Report::new(Exit::Usage).note(format!("unknown command: {command}")).text(help()),
            }
        }
    }
}

/// A command's arguments say whether the answer is text or JSON.
pub(crate) trait Formatted {
    fn format(&self) -> Format;
}

fn parsed<A: Parser + Formatted>(
    name: &'static str,
    rest: &[OsString],
    run: fn(&A) -> Result<Report, Failure>,
) -> Report {
    let usage_name = format!("lokt {name}");
    let command = A::command().bin_name(usage_name.clone());
    let words = std::iter::once(OsString::from(usage_name)).chain(rest.iter().cloned());
    let parsed = command.try_get_matches_from(words).and_then(|mut matches| A::from_arg_matches_mut(&mut matches));
    match parsed {
        Ok(args) => {
            let format = args.format();
            run(&args).unwrap_or_else(|failure| failure.report(format))
        }
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Report::new(Exit::Done).text(error.render().to_string())
        }
        Err(error) if asks_for_json(rest) => {
            let text = error.render().to_string();
            let message = text.lines().next().unwrap_or_default();
            let message = message.strip_prefix("error: ").unwrap_or(message).to_owned();
            Failure::usage(message).hint(format!("`lokt {name} --help` shows the usage")).report(Format::Json)
        }
        Err(error) => Report::new(Exit::Usage).note(error.render().to_string().trim_end().to_owned()),
    }
}

fn asks_for_json(words: &[OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}
