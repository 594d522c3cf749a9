//! `lokt claim run`: run a command under a claim.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use lokt::ledger::{ClaimTerms, Claiming};
use lokt::sys::machine::{Linux, Machine as _};
use lokt::{ClaimGuard, Notice, OnLost, Timeout, Warning};

use super::super::guard::{Speaker, WhenLost, what_follows};
use super::super::ledger::place::Place;
use super::super::runner::{Ran, Runner};
use super::super::waiting::{inbox, interrupted_at};
use super::denied;
use super::holder::{claimant, until};
use super::take::claim;
use crate::args::{lease_seconds, parse_timeout, parse_ttl, waiting_time};
use crate::context;
use crate::report::{Failure, Format, Report, say};
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
    /// Claim it for this owner; otherwise `LOKT_OWNER`, or whoever is logged in
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// How long the claim lasts without renewals (rounded up to seconds)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, allow_hyphen_values = true)]
    ttl: Option<Duration>,
    /// Wait for it, for at most 10 minutes
    #[arg(long)]
    wait: bool,
    /// Wait for it, for at most this long; 0 tries once, `never` waits without a limit
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout, allow_hyphen_values = true)]
    timeout: Option<Timeout>,
    /// What to do when the claim is lost while the command runs
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    on_lost: WhenLost,
    /// Exit with this code instead of 2 if the node is unavailable; the default is `LOKT_EXIT_CONFLICT`
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "CODE")]
    conflict_exit_code: Option<u8>,
    /// Say nothing but errors and warnings: a refusal is in the exit code
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Claim it although events are missing or damaged, which may be claims
    #[arg(long)]
    force: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[expect(clippy::unnecessary_wraps, reason = "as every command answers")]
pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    Ok(Runner::run(args.quiet, args.conflict_exit_code, format, |runner| attempt(args, runner)))
}

fn attempt(args: &Args, runner: &Runner) -> Result<Ran, Failure> {
    let me = context::whoever(args.owner.as_deref())?;
    let owner = me.owner.clone();
    let ledger = args.place.open_as(me)?;
    let mut inbox = inbox()?;
    let terms = ClaimTerms { ttl_sec: lease_seconds(args.ttl), only_new: true, force: args.force, dry_run: false };
    let timeout = waiting_time(args.wait, args.timeout);
    let said = claim(&ledger, std::slice::from_ref(&args.node), &terms, timeout, args.quiet, Some(&mut inbox))?;
    let claimed = match said.value {
        Claiming::Claimed(claimed) => claimed,
        Claiming::Denied { node, refused } => {
            let report = denied::report(&node, &owner, &refused, runner.format);
            return Ok(Ran::NotStarted(report.warnings(said.warnings)));
        }
        Claiming::Interrupted => {
            let signal = inbox.ended_by().unwrap_or(0);
            let report = interrupted_at("node", &args.node, signal, runner.format);
            return Ok(Ran::NotStarted(report.warnings(said.warnings)));
        }
    };
    for warning in said.warnings {
        say(&format!("warning: {}\n", clean(&warning)));
    }
    let (program, rest) = args.command.split_first().expect("the parser wants a command");
    let on_lost = args.on_lost.into();
    let mut speaker = Speaker::default();
    let mut tell = |notice: &Notice<'_>| speaker.say(format!("warning: {}\n", warning(notice, on_lost)));
    let guard = ClaimGuard::new(ledger, &claimed, args.force);
    let finished = guard.run(Command::new(program).args(rest), on_lost, &mut inbox, &mut tell);
    runner.ran(finished, &inbox, &args.command, "claim")
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
                    format!("it is claimed by {} {}", claimant(&holder.hold), until(holder, Linux.now().wall))
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
