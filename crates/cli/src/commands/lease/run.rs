//! `lokt lease run`: run a command as the one writer of a worktree.

use std::io;
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use lokt_core::guard::{OnLost, Warning};
use lokt_guard::{Finished, Notice};
use lokt_sys::signals::SignalQueue;
use lokt_sys::wait_policy::{WaitPolicy, Waiting};
use lokt_worktree::lease::{LeaseGuard, LeaseGuarding};

use super::super::runner::{Acquired, Guard, NotStarted, Runner, what_follows};
use super::super::waiting::{Display, inbox, interrupted};
use super::denied::{self, Asked, Question};
use super::waiting::LeaseWait;
use super::wish::Wish;
use crate::args::CommandArg;
use crate::machine;
use crate::report::{Failure, Format, Report};
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
    #[command(flatten)]
    command: CommandArg,
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
    let (quiet, conflict_exit_code) = (args.wish.quiet.quiet, args.conflict_exit_code);
    let runner = Runner { command: &args.command.command, quiet, conflict_exit_code, format };
    Ok(runner.run_under(|| acquire(args, format)))
}

fn acquire(args: &Args, format: Format) -> Result<Acquired<'static>, NotStarted> {
    let asker = args.wish.runner()?;
    let (worktree, session_id) = (asker.worktree, asker.session.id.clone());
    let mut inbox = inbox()?;
    let (timeout, quiet) = (args.wish.timeout(), args.wish.quiet.quiet);
    let began_ms = machine::now().monotonic_ms;
    let mut display = Display::new(LeaseWait(&worktree), quiet);
    let mut tell = |waiting: &Waiting<'_>| display.show(waiting);
    let mut patience = WaitPolicy { timeout, alarm: Some(&mut inbox), tell: (!quiet).then_some(&mut tell as _) };
    let said = LeaseGuard::acquire(&worktree, asker.session, asker.policy, asker.purpose, &mut patience)?;
    drop(display);
    let report = match said.value {
        LeaseGuarding::Granted(guard) => {
            let guard = Lease { guard: *guard, on_lost: args.on_lost.into() };
            return Ok(Acquired { guard: Box::new(guard), inbox, warnings: said.warnings });
        }
        LeaseGuarding::Denied(refused) => {
            let waited_ms = machine::now().monotonic_ms.saturating_sub(began_ms);
            let question = Question {
                worktree: &worktree,
                asked: Asked::Take,
                words: &args.wish.words(),
                session_id: Some(&session_id),
                waited: (!timeout.is_once()).then(|| Duration::from_millis(waited_ms)),
            };
            denied::report(&question, &refused, format)
        }
        LeaseGuarding::Interrupted => {
            interrupted("worktree", worktree.name().as_str(), inbox.ended_by().unwrap_or(0), format)
        }
    };
    Err(NotStarted::Refused(report.warnings(said.warnings)))
}

/// A lease that was granted for a command.
struct Lease {
    guard: LeaseGuard,
    on_lost: OnLost,
}

impl Guard for Lease {
    fn noun(&self) -> &'static str {
        "lease"
    }

    fn run(
        self: Box<Self>,
        command: &mut Command,
        inbox: &mut SignalQueue,
        warn: &mut dyn FnMut(String),
    ) -> Result<io::Result<Finished>, NotStarted> {
        let mut tell = |notice: &Notice<'_>| warn(warning(notice, self.on_lost));
        Ok(self.guard.run(command, self.on_lost, inbox, &mut tell))
    }
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
