//! `lokt guard`: run a command under locks.
//!
//! It is what people run all day, so its words are read by hand: building an argument parser takes longer than the lock. Whatever
//! the quick reader doesn't understand goes to the full one, which explains what is wrong.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use lokt::{
    Guarded, Guarding, Habits, Hold, LockName, Lokt, NotRecorded, Notice, OnLost, Overtaken, PartKind, Patience, Said,
    Terms, Timeout, Waiting, Warning, duration,
};

use super::deny;
use super::parse::{asks_for_json, parsed};
use super::runner::{Ran, Runner};
use super::waiting::{Display, inbox, interrupted};
use crate::args::{RootArg, lease_seconds, lock_name, parse_timeout, parse_ttl, waiting_time};
use crate::context::Context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report, say};
use crate::show::{age, clean, holder_line, owner_at, quoted};

/// Run a command under a lock, and give the lock back when it ends
#[derive(clap::Parser, Debug, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(
    after_help = "The command gets LOKT_NAME, LOKT_LOCK_ID, LOKT_FENCING_TOKEN and LOKT_HOLDS in its environment. \
    Several names are taken all or none. The exit code is the command's."
)]
pub(crate) struct Args {
    /// The locks' names: letters, digits, dots, hyphens and underscores
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// A lease, renewed while the command runs; without the guard's renewals it ends after this long (rounded up to seconds)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, allow_hyphen_values = true)]
    ttl: Option<Duration>,
    /// Wait in line for it, for at most 10 minutes
    #[arg(long)]
    wait: bool,
    /// Wait in line for it, for at most this long; 0 tries once, `never` waits without a limit
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout, allow_hyphen_values = true)]
    timeout: Option<Timeout>,
    /// What to do when the lock is lost while the command runs
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    on_lost: WhenLost,
    /// Exit with this code instead of 2 if the lock is unavailable; the default is `LOKT_EXIT_CONFLICT`
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "CODE")]
    conflict_exit_code: Option<u8>,
    /// Say nothing but errors and warnings: a refusal is in the exit code
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Don't let the command inherit the lock: if the guard is killed, it is known by its pid alone
    #[arg(short = 'o', long = "close", conflicts_with = "until_all")]
    close: bool,
    /// Keep the lock until everything that the command leaves behind has ended
    #[arg(long)]
    until_all: bool,
    /// Say why; shown to everyone who is refused
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Write the command's arguments to the audit log, too, not only its name: there may be secrets among them
    #[arg(long)]
    log_command: bool,
    #[command(flatten)]
    root: RootArg,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// `--on-lost`
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WhenLost {
    /// Let it go on, but exit with 79 if it succeeds
    #[default]
    Fail,
    /// Let it go on
    Warn,
    /// End it with SIGTERM, after 5 seconds with SIGKILL, and exit with 79
    Stop,
}

impl From<WhenLost> for OnLost {
    fn from(when: WhenLost) -> Self {
        match when {
            WhenLost::Fail => Self::Fail,
            WhenLost::Warn => Self::Warn,
            WhenLost::Stop => Self::Stop,
        }
    }
}

/// Runs `guard` or `run`.
pub(crate) fn dispatch(name: &'static str, words: &[OsString]) -> Report {
    if let Some(duration) = duration_after_wait(words) {
        return Failure::usage(format!("--wait takes no value, but {} follows it", clean(duration)))
            .hint(format!(
                "`--timeout {duration}` waits for at most that long; a lock of that name goes before `--wait`"
            ))
            .report(Format::of(asks_for_json(words)));
    }
    match quick(words) {
        Some((args, format)) => run(&args, format).unwrap_or_else(|failure| failure.report(format)),
        None => parsed(name, words, run),
    }
}

/// Reads the words if they are plain. The full parser reads the same from them; a test compares.
fn quick(words: &[OsString]) -> Option<(Args, Format)> {
    let split = words.iter().position(|word| word == "--")?;
    let (ours, command) = (&words[..split], &words[split + 1..]);
    let mut args = Args { command: command.to_vec(), ..Args::default() };
    let mut format = Format::Text;
    let mut words = ours.iter();
    while let Some(word) = words.next() {
        let word = word.to_str()?;
        // Given twice, a flag is an error that the full parser explains.
        match word {
            "--wait" if !args.wait => args.wait = true,
            "-o" | "--close" if !args.close => args.close = true,
            "--until-all" if !args.until_all => args.until_all = true,
            "--log-command" if !args.log_command => args.log_command = true,
            "-q" | "--quiet" if !args.quiet => args.quiet = true,
            "--json" if format == Format::Text => format = Format::Json,
            "--ttl" if args.ttl.is_none() => args.ttl = Some(parse_ttl(plain(words.next())?).ok()?),
            "--timeout" if args.timeout.is_none() => {
                args.timeout = Some(parse_timeout(plain(words.next())?).ok()?);
            }
            "--root" if args.root.root.is_none() => {
                args.root.root = Some(plain(words.next()).filter(|dir| !dir.is_empty())?.into());
            }
            "--reason" if args.reason.is_none() => args.reason = Some(plain(words.next())?.to_owned()),
            name if !name.is_empty() && !name.starts_with('-') => args.names.push(name.to_owned()),
            _ => return None,
        }
    }
    let odd = args.names.is_empty() || args.command.is_empty() || (args.close && args.until_all);
    (!odd).then_some((args, format))
}

/// A value that can't be taken for a flag.
fn plain(word: Option<&OsString>) -> Option<&str> {
    word?.to_str().filter(|word| !word.starts_with('-'))
}

/// A duration after `--wait` would be taken for the name of a lock.
fn duration_after_wait(words: &[OsString]) -> Option<&str> {
    let ours = words.iter().take_while(|word| *word != "--").collect::<Vec<_>>();
    let after = ours.windows(2).find(|pair| pair[0] == "--wait").and_then(|pair| pair[1].to_str())?;
    let has_unit = after.ends_with(|c: char| c.is_ascii_alphabetic());
    (has_unit && duration::parse(after).is_ok()).then_some(after)
}

#[expect(clippy::unnecessary_wraps, reason = "as every command answers")]
pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    Ok(Runner::run(args.quiet, args.conflict_exit_code, format, |runner| attempt(args, runner)))
}

fn attempt(args: &Args, runner: &Runner) -> Result<Ran, Failure> {
    let names: Vec<LockName> = args.names.iter().map(|name| lock_name(name)).collect::<Result<_, _>>()?;
    let context = Context::read(&args.root)?;
    let words: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let lokt = context.create(args.quiet)?.running(&words, args.log_command);
    let mut inbox = inbox()?;
    let terms = Terms { ttl_sec: lease_seconds(args.ttl), reason: args.reason.clone() };
    let mut display = Display::new(&lokt).quiet(args.quiet);
    // A caller that holds nothing is in no deadlock. Several names are acquired one after the other.
    display.may_deadlock = context.holds.iter().next().is_some() || names.len() > 1;
    let mut tell = |waiting: &Waiting<'_>| display.show(waiting);
    let timeout = waiting_time(args.wait, args.timeout);
    let mut patience = Patience { timeout, alarm: Some(&mut inbox), tell: Some(&mut tell) };
    let Said { value, warnings } = lokt.guard(&names, &terms, &context.holds, &mut patience)?;
    let shown = args.names.join(", ");
    display.end(&shown, matches!(value, Guarding::Granted(_)));
    let guarded = match value {
        Guarding::Granted(guarded) => *guarded,
        Guarding::Denied { name, refusal } => {
            let report = deny::report(&lokt, name.as_str(), &refusal, runner.format);
            return Ok(Ran::NotStarted(report.warnings(warnings)));
        }
        Guarding::Interrupted => {
            let report = interrupted(&shown, inbox.ended_by().unwrap_or(0), runner.format);
            return Ok(Ran::NotStarted(report.warnings(warnings)));
        }
    };
    for warning in warnings {
        say(&format!("warning: {}\n", clean(&warning)));
    }
    if !context.named_owner && !args.quiet {
        say(&joined(&context, &lokt, &guarded));
    }
    let ran = run_command(args, runner, &lokt, guarded, &mut inbox, terms.ttl_sec);
    // The process ends here; the kernel closes a dozen descriptors faster than we do.
    std::mem::forget((lokt, inbox));
    ran
}

/// Without `LOKT_OWNER` everyone logged in as this user is one owner, whose `lokt lock` keeps no guard of theirs out.
fn joined(context: &Context, lokt: &Lokt, guarded: &Guarded) -> String {
    let now = lokt.now().wall;
    let nested =
        |name: &LockName, hold: &Hold| context.holds.of(name).is_some_and(|badge| badge.lock_id == hold.lock_id);
    let beside = guarded.holds().iter().filter(|(name, hold)| hold.has(PartKind::Owner) && !nested(name, hold));
    let note = |(name, hold): &(LockName, Hold)| {
        let (name, who, since) = (quoted(name.as_str()), owner_at(hold), age(hold.began(), now));
        format!(
            "note: {who} took {name} with `lokt lock` {since} ago, which doesn't keep you out: set LOKT_OWNER to a name of your own\n"
        )
    };
    beside.map(note).collect()
}

fn run_command(
    args: &Args,
    runner: &Runner,
    lokt: &Lokt,
    guarded: Guarded,
    inbox: &mut lokt::Inbox,
    ttl_sec: Option<u64>,
) -> Result<Ran, Failure> {
    let (program, rest) = args.command.split_first().expect("the parser wants a command");
    let on_lost = args.on_lost.into();
    let habits = Habits { on_lost, until_all: args.until_all, pass_pulse: !args.close };
    let mut speaker = Speaker::default();
    let mut tell = |notice: &Notice<'_>| speaker.say(format!("warning: {}\n", warning(lokt, notice, on_lost)));
    let finished = guarded.run(Command::new(program).args(rest), ttl_sec, habits, inbox, &mut tell);
    let finished = match finished.map_err(io::Error::downcast::<Overtaken>) {
        Ok(finished) => Ok(finished),
        Err(Err(error)) => Err(error),
        // Another program took the lock away before the command was started.
        Err(Ok(Overtaken::Failed(error))) => return Err(error.into()),
        Err(Ok(Overtaken::Refused { name, refusal })) => {
            return Ok(Ran::NotStarted(deny::report(lokt, name.as_str(), &refusal, runner.format)));
        }
    };
    runner.ran(finished, inbox, &args.command, "lock")
}

/// Says things while the command runs.
#[derive(Default)]
pub(super) struct Speaker {
    last: String,
}

impl Speaker {
    pub(super) fn say(&mut self, text: String) {
        // A renewal that keeps failing fails several times a lease; once is enough.
        if text != self.last {
            say(&text);
            self.last = text;
        }
    }
}

/// What a lost lock, claim or lease means to the command that runs under it.
pub(super) fn what_follows(stops: bool, on_lost: OnLost) -> &'static str {
    match (stops, on_lost) {
        (true, _) => "; the command is being stopped",
        (false, OnLost::Fail) => "; the command goes on, and its success will be exit code 79",
        (false, _) => "; the command goes on",
    }
}

/// The command could not be started. `what` is what it was to run under.
pub(super) fn cant_run(command: &[OsString], error: &io::Error, what: &str) -> Failure {
    let path = &command[0];
    let program = clean(&path.to_string_lossy());
    if let Some(unrecorded) = error.get_ref().and_then(|source| source.downcast_ref::<NotRecorded>()) {
        return Failure::io(format!("{program} was not run: {unrecorded}"), None)
            .hint(format!("the {what} was given back; a command runs only if others can tell that it does"));
    }
    match error.kind() {
        io::ErrorKind::NotFound if path.to_string_lossy().contains('/') && Path::new(path).exists() => {
            let message = format!("can't run {program}: the interpreter in its first line was not found");
            Failure::new(Exit::NotExecutable, "E_NOT_EXECUTABLE", message)
                .hint(format!("correct its first line, or run it by its interpreter; the {what} was given back"))
        }
        io::ErrorKind::NotFound => {
            Failure::new(Exit::NoCommand, "E_NO_COMMAND", format!("command not found: {program}"))
                .hint(format!("the {what} was given back; the command is run directly, not by a shell"))
        }
        _ => {
            let advice = lokt::too_many_open(error)
                .unwrap_or_else(|| "a script needs a first line like #!/bin/sh, or run it as `sh SCRIPT`".to_owned());
            Failure::new(Exit::NotExecutable, "E_NOT_EXECUTABLE", format!("can't run {program}: {error}"))
                .hint(format!("the {what} was given back; {advice}"))
        }
    }
}

fn warning(lokt: &Lokt, notice: &Notice<'_>, on_lost: OnLost) -> String {
    let name = quoted(notice.name);
    match notice.warning {
        Warning::Late { late_ms, .. } => {
            let late = duration::show(Duration::from_millis(*late_ms));
            format!("lock {name} was renewed late: its lease had been over for {late}; nobody took it meanwhile")
        }
        // Of claims only: a lock's lease is revived as long as nobody else has it.
        Warning::Expired { .. } => format!("lock {name} was lost: it has expired"),
        Warning::RenewalFailed { why, .. } => format!("lock renewal failed: {}; it is tried again", clean(why)),
        Warning::Lost { holder, stops, .. } => {
            let who = match holder {
                Some(holder) if holder.hold.owner == lokt.me().owner && holder.hold.pulse.is_none() => {
                    format!("it is held by `lokt lock` of {} now", holder_line(&holder.hold))
                }
                Some(holder) => format!("now held by {}", holder_line(&holder.hold)),
                None => "its record was removed".to_owned(),
            };
            let then = what_follows(*stops, on_lost);
            format!("lock {name} was lost: {who}{then}")
        }
        Warning::ReleaseFailed { why, .. } => {
            format!("lock {name} could not be released: {}; without its process it counts as dead", clean(why))
        }
        Warning::LeftBehind => {
            "not waiting for what the command left behind: it keeps the lock until it ends".to_owned()
        }
        Warning::Beside { what, .. } => clean(what),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use proptest::prelude::*;

    use super::super::parse::parse;
    use super::*;

    /// Words that a guard's command line is made of, right or wrong.
    const WORDS: [&str; 65] = [
        "x",
        "build",
        "a.b",
        "../x",
        "a b",
        "é",
        "",
        "-",
        "--",
        "---",
        "true",
        "make",
        "0",
        "7",
        "300",
        "-7",
        "5m",
        "-5m",
        "1.5h",
        "90",
        "bogus",
        "--ttl",
        "--ttl=5m",
        "--ttl=-5m",
        "--ttl=",
        "--wait",
        "--wait=true",
        "--timeout",
        "--timeout=1s",
        "--timeout=-1s",
        "--on-lost",
        "--on-lost=stop",
        "fail",
        "warn",
        "stop",
        "-E",
        "-E7",
        "-E=7",
        "--conflict-exit-code",
        "--conflict-exit-code=7",
        "-o",
        "--close",
        "-oE7",
        "-oo",
        "--until-all",
        "--log-command",
        "-q",
        "--quiet",
        "-qo",
        "--timeout=never",
        "never",
        "--reason",
        "--reason=why",
        "--reason=",
        "--root",
        "--root=r",
        "--json",
        "--json=true",
        "--color",
        "--color=never",
        "always",
        "-h",
        "--help",
        "--unknown",
        "-ttl",
    ];

    fn word() -> impl Strategy<Value = OsString> {
        prop_oneof![
            20 => prop::sample::select(&WORDS[..]).prop_map(OsString::from),
            // Otherwise hardly anything would be right.
            20 => prop::sample::select(&["x", "y", "--wait", "-o", "--until-all", "-q", "--json"][..]).prop_map(OsString::from),
            1 => Just(OsString::from_vec(vec![b'x', 0xff])),
        ]
    }

    /// Flags with a value that may fit them, and single words.
    fn phrase() -> impl Strategy<Value = Vec<OsString>> {
        let valued =
            (prop::sample::select(&["--ttl", "--timeout", "--reason", "--root", "--on-lost", "-E"][..]), word());
        prop_oneof![
            3 => word().prop_map(|word| vec![word]),
            1 => valued.prop_map(|(flag, value)| vec![flag.into(), value]),
            1 => prop::sample::select(&[["--ttl", "5m"], ["--timeout", "0"], ["--timeout", "never"], ["--reason", "why not"]][..])
                .prop_map(|words| words.map(OsString::from).to_vec()),
        ]
    }

    /// A command line: phrases, mostly two dashes and a command.
    fn line() -> impl Strategy<Value = Vec<OsString>> {
        let ours = prop::collection::vec(phrase(), 0..6);
        let command = prop::option::weighted(0.9, prop::collection::vec(word(), 0..3));
        (ours, command).prop_map(|(ours, command)| {
            let mut words: Vec<OsString> = ours.concat();
            if let Some(command) = command {
                words.push("--".into());
                words.extend(command);
            }
            words
        })
    }

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_the_quick_reader_understands_the_full_parser_reads_the_same_way(line in line()) {
            if let Some((args, format)) = quick(&line) {
                match parse::<Args>("guard", &line) {
                    Ok(full) => prop_assert_eq!((args, format), full),
                    Err(error) => prop_assert!(false, "quick reads {:?}, the full parser says: {}", args, error),
                }
            }
        }
    }

    #[test]
    fn the_quick_reader_understands_what_is_run_all_day() {
        for line in [
            "x -- true",
            "x y z -- make -j 8",
            "build --ttl 5m --wait -- make",
            "--wait --timeout 30s build -- make --ttl 1h -- --json",
            "--json --until-all --reason why x -- true",
            "--root /run/locks x -- true",
            "x --close -- --",
            "-q x --timeout 0 -- true",
            "--quiet x --timeout never -- true",
        ] {
            let (args, format) = quick(&words(line)).unwrap_or_else(|| panic!("`{line}` is plain"));
            assert_eq!((args, format), parse("guard", &words(line)).expect("it is right"), "`{line}` reads the same");
        }
    }

    #[test]
    fn the_quick_reader_leaves_what_is_wrong_or_rare_to_the_full_parser() {
        for line in ["", "x", "--", "-- true", "x --", "x true", "-h", "x --wait --wait -- true", "x --ttl -- true"] {
            assert!(quick(&words(line)).is_none(), "`{line}` must be explained");
            assert!(parse::<Args>("guard", &words(line)).is_err(), "`{line}` can't be run");
        }
        for line in [
            "x -E 7 -- true",
            "x --on-lost stop -- true",
            "x --ttl=5m -- true",
            "x --reason=-v -- true",
            "x --color never -- true",
        ] {
            assert!(quick(&words(line)).is_none(), "`{line}` is rare");
            assert!(parse::<Args>("guard", &words(line)).is_ok(), "`{line}` is right");
        }
    }
}
