//! `lokt claim run`: run a command under a claim.

use std::io;
use std::process::Command;
use std::time::Duration;

use lokt_core::guard::{OnLost, Warning};
use lokt_guard::{Finished, Notice};
use lokt_ledger::ClaimGuard;
use lokt_ledger::{ClaimTerms, Claiming};
use lokt_sys::signals::SignalQueue;

use super::super::guard::WhenLost;
use super::super::ledger::place::Place;
use super::super::runner::{Acquired, Guard, NotStarted, Runner, what_follows};
use super::super::waiting::{inbox, interrupted};
use super::denied;
use super::holder::{claimant, until};
use super::owner::NewOwner;
use super::take::claim;
use crate::args::{CommandArg, QuietArg, WaitArgs, lease_seconds, parse_ttl};
use crate::machine;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted};

/// Run a command under a claim, and give the claim back when it ends
#[derive(clap::Parser)]
#[command(
    after_help = "The command gets LOKT_CLAIM_NODE, LOKT_CLAIM_TOKEN and LOKT_LEDGER_DIR in its environment. The claim is renewed while \
    it runs. The exit code is the command's.\n\n\
    It runs only under a claim that it made itself: one that the same owner has already, in another process, keeps it out (exit code 2). \
    If lokt itself is killed with SIGKILL, the command goes on, nobody renews the claim, and it ends after its --ttl."
)]
pub(crate) struct Args {
    /// The node
    #[arg(id = "nodes", value_name = "NODE")]
    node: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    owner: NewOwner,
    /// How long the claim lasts without renewals (rounded up to seconds)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, allow_hyphen_values = true)]
    ttl: Option<Duration>,
    #[command(flatten)]
    wait: WaitArgs,
    /// What to do when the claim is lost while the command runs
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    on_lost: WhenLost,
    /// Exit with this code instead of 2 if the node is unavailable; the default is `LOKT_EXIT_CONFLICT`
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "CODE")]
    conflict_exit_code: Option<u8>,
    #[command(flatten)]
    quiet: QuietArg,
    /// Claim it although events are missing or damaged, which may be claims
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    command: CommandArg,
}

#[expect(clippy::unnecessary_wraps, reason = "as every command answers")]
pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let (quiet, conflict_exit_code) = (args.quiet.quiet, args.conflict_exit_code);
    let runner = Runner { command: &args.command.command, quiet, conflict_exit_code, format };
    Ok(runner.run_under(|| acquire(args, format)))
}

fn acquire(args: &Args, format: Format) -> Result<Acquired<'static>, NotStarted> {
    let (ledger, owner) = args.owner.open(&args.place)?;
    let mut inbox = inbox()?;
    let terms = ClaimTerms { ttl_sec: lease_seconds(args.ttl), only_new: true, force: args.force, dry_run: false };
    let timeout = args.wait.timeout();
    let said = claim(&ledger, std::slice::from_ref(&args.node), &terms, timeout, args.quiet.quiet, Some(&mut inbox))?;
    let report = match said.value {
        Claiming::Claimed(claimed) => {
            let guard = Claim { guard: ClaimGuard::new(ledger, &claimed, args.force), on_lost: args.on_lost.into() };
            return Ok(Acquired { guard: Box::new(guard), inbox, warnings: said.warnings });
        }
        Claiming::Denied { node, refused } => denied::report(&node, &owner, &refused, format),
        Claiming::Interrupted => interrupted("node", &args.node, inbox.ended_by().unwrap_or(0), format),
    };
    Err(NotStarted::Refused(report.warnings(said.warnings)))
}

/// A claim that was made for a command.
struct Claim {
    guard: ClaimGuard,
    on_lost: OnLost,
}

impl Guard for Claim {
    fn noun(&self) -> &'static str {
        "claim"
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
    let node = quoted(notice.name);
    match notice.warning {
        Warning::Late { .. } => format!("the claim on node {node} was renewed late"),
        Warning::Expired { stops, .. } => {
            let then = what_follows(*stops, on_lost);
            format!("the claim on node {node} was lost: it ended before it could be renewed{then}")
        }
        Warning::RenewalFailed { why, .. } => {
            format!("the claim on node {node} could not be renewed: {}; it is tried again", clean(why))
        }
        Warning::Lost { holder, stops, .. } => {
            let who = match holder {
                Some(holder) if holder.lives() => {
                    format!("it is claimed by {} {}", claimant(&holder.hold), until(holder, machine::now().wall))
                }
                Some(_) => "it has expired".to_owned(),
                None => "nobody has it any more".to_owned(),
            };
            let then = what_follows(*stops, on_lost);
            format!("the claim on node {node} was lost: {who}{then}")
        }
        Warning::ReleaseFailed { why, .. } => {
            format!("the claim on node {node} could not be given back: {}; it ends by itself", clean(why))
        }
        Warning::LeftBehind => "not waiting for what the command left behind".to_owned(),
        Warning::Beside { what, .. } => clean(what),
    }
}
