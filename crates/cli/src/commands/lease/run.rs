//! `lokt lease run`: run a command as the one writer of a worktree.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use lokt::sys::machine::{Linux, Machine as _};
use lokt::{LeaseGuard, LeaseGuarding, Notice, OnLost, Patience, Waiting, Warning};

use super::super::guard::{Speaker, what_follows};
use super::super::runner::{Ran, Runner};
use super::super::waiting::{inbox, interrupted_at};
use super::denied::{self, Asked, Question};
use super::waiting::Display;
use super::wish::Wish;
use crate::report::{Failure, Format, Report, say};
use crate::show::{clean, holder_line, quoted};

/// Run a command as the one writer of a worktree, and give the lease back when it ends
#[derive(clap::Parser)]
#[command(
    after_help = "The command gets LOKT_LEASE_WORKTREE, LOKT_LEASE_TOKEN, LOKT_LEASE_REPO and LOKT_LEASE_REPO_ID in its environment; `lokt lease fence` needs \
    no --token there. The exit code is the command's.\n\n\
    The lease is renewed while the command runs. Without a good renewal the command is told to end (SIGTERM) when two thirds of the lease \
    are over, is killed before nine tenths are, and the exit code is 79: it ends before somebody else can have the lease. Only while lokt \
    itself is stopped (SIGSTOP) the command writes on. If lokt is killed, even with SIGKILL, so is the command, and the lease is over at once; what the command has started goes on, \
    and keeps the lease to the end of its time.\n\n\
    The lease is that of this process alone: neither `lokt lease renew` nor another `lokt lease run` of the same owner can use it."
)]
pub(crate) struct Args {
    #[command(flatten)]
    wish: Wish,
    /// What to do when the lease is lost while the command runs
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    on_lost: WhenLost,
    /// Exit with this code instead of 2 if the lease is unavailable; the default is `LOKT_EXIT_CONFLICT`
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "CODE")]
    conflict_exit_code: Option<u8>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// `--on-lost`
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Default)]
enum WhenLost {
    /// End it before the lease ends, and exit with 79
    #[default]
    Stop,
    /// Let it go on, but exit with 79 if it succeeds
    Fail,
    /// Let it go on
    Warn,
}

impl From<WhenLost> for OnLost {
    fn from(when: WhenLost) -> Self {
        match when {
            WhenLost::Stop => Self::Stop,
            WhenLost::Fail => Self::Fail,
            WhenLost::Warn => Self::Warn,
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as every command answers")]
pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    Ok(Runner::run(args.wish.quiet, args.conflict_exit_code, format, |runner| attempt(args, runner)))
}

fn attempt(args: &Args, runner: &Runner) -> Result<Ran, Failure> {
    let asker = args.wish.runner()?;
    let (worktree, session_id) = (asker.worktree, asker.session.id.clone());
    let mut inbox = inbox()?;
    let timeout = args.wish.timeout();
    let began_ms = Linux.now().monotonic_ms;
    let mut display = Display::new(&worktree);
    let mut tell = |waiting: &Waiting<'_>| display.show(waiting);
    let mut patience =
        Patience { timeout, alarm: Some(&mut inbox), tell: (!args.wish.quiet).then_some(&mut tell as _) };
    let said = LeaseGuard::acquire(&worktree, asker.session, asker.policy, asker.purpose, &mut patience)?;
    drop(display);
    let guard = match said.value {
        LeaseGuarding::Granted(guard) => *guard,
        LeaseGuarding::Denied(refused) => {
            let waited_ms = Linux.now().monotonic_ms.saturating_sub(began_ms);
            let question = Question {
                worktree: &worktree,
                asked: Asked::Take,
                words: &args.wish.words(),
                session_id: Some(&session_id),
                waited: (!timeout.is_once()).then(|| Duration::from_millis(waited_ms)),
            };
            let report = denied::report(&question, &refused, runner.format);
            return Ok(Ran::NotStarted(report.warnings(said.warnings)));
        }
        LeaseGuarding::Interrupted => {
            let signal = inbox.ended_by().unwrap_or(0);
            let report = interrupted_at("worktree", worktree.name().as_str(), signal, runner.format);
            return Ok(Ran::NotStarted(report.warnings(said.warnings)));
        }
    };
    for warning in said.warnings {
        say(&format!("warning: {}\n", clean(&warning)));
    }
    let mut speaker = Speaker::default();
    let (program, rest) = args.command.split_first().expect("the parser wants a command");
    let on_lost = args.on_lost.into();
    let mut tell = |notice: &Notice<'_>| speaker.say(format!("warning: {}\n", warning(notice, on_lost)));
    let finished = guard.run(Command::new(program).args(rest), on_lost, &mut inbox, &mut tell);
    runner.ran(finished, &inbox, &args.command, "lease")
}

fn warning(notice: &Notice<'_>, on_lost: OnLost) -> String {
    let lease = format!("the lease of worktree {}", quoted(notice.name));
    match notice.warning {
        Warning::Late { .. } => format!("{lease} was renewed late"),
        Warning::Expired { stops, .. } => {
            format!("{lease} was lost: it could not be renewed in time{}", what_follows(*stops, on_lost))
        }
        Warning::RenewalFailed { why, .. } => {
            format!("{lease} could not be renewed: {}; it is tried again", clean(why))
        }
        Warning::Lost { holder, stops, .. } => {
            let who = match holder {
                Some(holder) => format!("{} has it now", holder_line(&holder.hold)),
                None => "somebody ended it".to_owned(),
            };
            format!("{lease} was lost: {who}{}", what_follows(*stops, on_lost))
        }
        Warning::ReleaseFailed { why, .. } => {
            format!("{lease} could not be given back: {}; without its process it counts as over", clean(why))
        }
        Warning::LeftBehind => "not waiting for what the command left behind".to_owned(),
        Warning::Beside { what, .. } => clean(what),
    }
}
