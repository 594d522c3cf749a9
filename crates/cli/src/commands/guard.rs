//! `lokt guard`: run a command under locks.
//!
//! It is what people run all day, so its words are read by hand: building an argument parser takes longer than the lock. Whatever
//! the quick reader doesn't understand goes to the full one, which explains what is wrong.

use std::ffi::OsString;
use std::io;
use std::mem::ManuallyDrop;
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use lokt_core::decide::Terms;
use lokt_core::duration;
use lokt_core::guard::{OnLost, Warning};
use lokt_core::hold::{Hold, PartKind};
use lokt_core::name::LockName;
use lokt_guard::{Finished, Notice, RunOptions};
use lokt_named::{Guarded, Guarding, Lokt, Overtaken};
use lokt_sys::signals::SignalQueue;
use lokt_sys::wait_policy::{WaitPolicy, Waiting};
use lokt_sys::warnings::WithWarnings;

use super::deny;
use super::parse::{asks_for_json, parsed};
use super::runner::{Acquired, Guard, NotStarted, Runner, what_follows};
use super::waiting::{Display, LockWait, inbox, interrupted};
use crate::args::{CommandArg, QueueArgs, QuietArg, RootArg, lease_seconds, lock_name, parse_timeout, parse_ttl};
use crate::context::Context;
use crate::report::{Failure, Format, Report, say};
use crate::show::{age, clean, holder_line, owner_at, quoted};

/// Run a command under a lock, and give the lock back when it ends
#[derive(clap::Parser, Debug, PartialEq, Eq, Default)]
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
    #[command(flatten)]
    queue: QueueArgs,
    /// What to do when the lock is lost while the command runs
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    on_lost: WhenLost,
    /// Exit with this code instead of 2 if the lock is unavailable; the default is `LOKT_EXIT_CONFLICT`
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "CODE")]
    conflict_exit_code: Option<u8>,
    #[command(flatten)]
    quiet: QuietArg,
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
    #[command(flatten)]
    command: CommandArg,
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
    let mut args = Args { command: CommandArg { command: command.to_vec() }, ..Args::default() };
    let mut format = Format::Text;
    let mut words = ours.iter();
    while let Some(word) = words.next() {
        let word = word.to_str()?;
        // Given twice, a flag is an error that the full parser explains.
        match word {
            "--wait" if !args.queue.wait => args.queue.wait = true,
            "-o" | "--close" if !args.close => args.close = true,
            "--until-all" if !args.until_all => args.until_all = true,
            "--log-command" if !args.log_command => args.log_command = true,
            "-q" | "--quiet" if !args.quiet.quiet => args.quiet.quiet = true,
            "--json" if format == Format::Text => format = Format::Json,
            "--ttl" if args.ttl.is_none() => args.ttl = Some(parse_ttl(plain(words.next())?).ok()?),
            "--timeout" if args.queue.timeout.is_none() => {
                args.queue.timeout = Some(parse_timeout(plain(words.next())?).ok()?);
            }
            "--root" if args.root.root.is_none() => {
                args.root.root = Some(plain(words.next()).filter(|dir| !dir.is_empty())?.into());
            }
            "--reason" if args.reason.is_none() => args.reason = Some(plain(words.next())?.to_owned()),
            name if !name.is_empty() && !name.starts_with('-') => args.names.push(name.to_owned()),
            _ => return None,
        }
    }
    let odd = args.names.is_empty() || args.command.command.is_empty() || (args.close && args.until_all);
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
    let (quiet, conflict_exit_code) = (args.quiet.quiet, args.conflict_exit_code);
    let runner = Runner { command: &args.command.command, quiet, conflict_exit_code, format };
    Ok(runner.run_under(|| acquire(args, format)))
}

/// Locks that were acquired for a command.
struct LockGuard<'a> {
    args: &'a Args,
    format: Format,
    context: Context,
    lokt: Lokt,
    guarded: Guarded,
    ttl_sec: Option<u64>,
}

fn acquire(args: &Args, format: Format) -> Result<Acquired<'_>, NotStarted> {
    let names: Vec<LockName> = args.names.iter().map(|name| lock_name(name)).collect::<Result<_, _>>()?;
    let context = Context::read(&args.root)?;
    let words: Vec<String> = args.command.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let lokt = context.create(args.quiet.quiet)?.running(&words, args.log_command);
    let mut inbox = inbox()?;
    let terms = Terms { ttl_sec: lease_seconds(args.ttl), reason: args.reason.clone() };
    // A caller that holds nothing is in no deadlock. Several names are acquired one after the other.
    let may_deadlock = context.holds.iter().next().is_some() || names.len() > 1;
    let mut display = Display::new(LockWait::new(&lokt, may_deadlock), args.quiet.quiet);
    let mut tell = |waiting: &Waiting<'_>| display.show(waiting);
    let timeout = args.queue.timeout();
    let mut patience = WaitPolicy { timeout, alarm: Some(&mut inbox), tell: Some(&mut tell) };
    let WithWarnings { value, warnings } = lokt.guard(&names, &terms, &context.holds, &mut patience)?;
    let shown = args.names.join(", ");
    display.end(&shown, matches!(value, Guarding::Granted(_)));
    drop(display);
    let report = match value {
        Guarding::Granted(guarded) => {
            let guard = LockGuard { args, format, context, lokt, guarded: *guarded, ttl_sec: terms.ttl_sec };
            return Ok(Acquired { guard: Box::new(guard), inbox, warnings });
        }
        Guarding::Denied { name, refusal } => deny::report(&lokt, name.as_str(), &refusal, format),
        Guarding::Interrupted => interrupted("lock", &shown, inbox.ended_by().unwrap_or(0), format),
    };
    Err(NotStarted::Refused(report.warnings(warnings)))
}

impl Guard for LockGuard<'_> {
    fn noun(&self) -> &'static str {
        "lock"
    }

    fn run(
        self: Box<Self>,
        command: &mut Command,
        inbox: &mut SignalQueue,
        warn: &mut dyn FnMut(String),
    ) -> Result<io::Result<Finished>, NotStarted> {
        let Self { args, format, context, lokt, guarded, ttl_sec } = *self;
        // The process ends next, and closes all descriptors at once.
        let lokt = ManuallyDrop::new(lokt);
        if !context.named_owner && !args.quiet.quiet {
            say(&joined(&context, &lokt, &guarded));
        }
        let on_lost = args.on_lost.into();
        let options = RunOptions { on_lost, until_all: args.until_all, pass_pulse: !args.close };
        let mut tell = |notice: &Notice<'_>| warn(warning(&lokt, notice, on_lost));
        let finished = guarded.run(command, ttl_sec, options, inbox, &mut tell);
        match finished.map_err(io::Error::downcast::<Overtaken>) {
            Ok(finished) => Ok(Ok(finished)),
            Err(Err(error)) => Ok(Err(error)),
            // Another program took the lock away before the command was started.
            Err(Ok(Overtaken::Failed(error))) => Err(error.into()),
            Err(Ok(Overtaken::Refused { name, refusal })) => {
                Err(NotStarted::Refused(deny::report(&lokt, name.as_str(), &refusal, format)))
            }
        }
    }
}

/// Without `LOKT_OWNER` everyone logged in as this user is one owner, whose `lokt lock` keeps no guard of theirs out.
fn joined(context: &Context, lokt: &Lokt, guarded: &Guarded) -> String {
    let now = lokt.now().wall;
    let nested = |name: &LockName, hold: &Hold| {
        context.holds.of(name).is_some_and(|inherited_hold| inherited_hold.lock_id == hold.lock_id)
    };
    let beside = guarded.holds().iter().filter(|(name, hold)| hold.has(PartKind::Owner) && !nested(name, hold));
    let note = |(name, hold): &(LockName, Hold)| {
        let (name, who, since) = (quoted(name.as_str()), owner_at(hold), age(hold.began(), now));
        format!(
            "note: {who} took {name} with `lokt lock` {since} ago, which doesn't keep you out: set LOKT_OWNER to a name of your own\n"
        )
    };
    beside.map(note).collect()
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
