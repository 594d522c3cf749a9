//! `lokt claim take`: claim a node, or give one's own claim a new end.

use std::time::Duration;

use lokt_ledger::{ClaimTerms, Claiming, Ledger};
use lokt_sys::signals::SignalQueue;
use lokt_sys::wait_policy::{Timeout, WaitPolicy, Waiting};
use lokt_sys::warnings::WithWarnings;

use super::super::ledger::place::Place;
use super::super::waiting::{Display, inbox, interrupted};
use super::holder::ClaimWait;
use super::owner::NewOwner;
use super::{answer, denied};
use crate::args::{QuietArg, WaitArgs, lease_seconds, parse_ttl};
use crate::report::{Failure, Format, Report};

/// Claim a node, or give one's own claim a new end
#[derive(clap::Parser)]
#[command(
    after_help = "The token is the number of the claim's first event: `lokt ledger append --token` refuses whoever was overtaken. An \
    expired claim is taken over. Without --ttl a claim lasts as long as `lock_timeout` in meta.json says, else 5 minutes."
)]
pub(crate) struct Args {
    /// The node; with --any, several
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// Claim the first of the nodes that is free
    #[arg(long)]
    any: bool,
    #[command(flatten)]
    owner: NewOwner,
    /// End it by itself after this long (rounded up to seconds)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, allow_hyphen_values = true)]
    ttl: Option<Duration>,
    #[command(flatten)]
    wait: WaitArgs,
    /// Claim it although events are missing or damaged, which may be claims
    #[arg(long)]
    force: bool,
    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    quiet: QuietArg,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    Ok(attempt(args, format)?.quiet(args.quiet.quiet, format))
}

fn attempt(args: &Args, format: Format) -> Result<Report, Failure> {
    if args.nodes.len() > 1 && !args.any {
        return Err(Failure::usage(format!("one node, not {}", args.nodes.len()))
            .hint("`--any` claims the first of them that is free"));
    }
    let (ledger, owner) = args.owner.open(&args.place)?;
    let (ttl_sec, only_new) = (lease_seconds(args.ttl), false);
    let terms = ClaimTerms { ttl_sec, only_new, force: args.force, dry_run: args.dry_run };
    // Whoever only wants to know doesn't wait.
    let timeout = if args.dry_run { Timeout::Once } else { args.wait.timeout() };
    let mut inbox = (!timeout.is_once()).then(inbox).transpose()?;
    let said = claim(&ledger, &args.nodes, &terms, timeout, args.quiet.quiet, inbox.as_mut())?;
    let report = match said.value {
        Claiming::Claimed(claimed) => answer::report(&claimed, false, args.dry_run, format),
        Claiming::Denied { node, refused } => denied::report(&node, &owner, &refused, format),
        Claiming::Interrupted => {
            let signal = inbox.as_ref().and_then(SignalQueue::ended_by).unwrap_or(0);
            interrupted("node", &args.nodes.join(", "), signal, format)
        }
    };
    Ok(report.warnings(said.warnings))
}

/// Asks for the first of `nodes` that is free.
pub(super) fn claim(
    ledger: &Ledger,
    nodes: &[String],
    terms: &ClaimTerms,
    timeout: Timeout,
    quiet: bool,
    inbox: Option<&mut SignalQueue>,
) -> Result<WithWarnings<Claiming>, Failure> {
    let mut display = Display::new(ClaimWait, quiet);
    let mut tell = |waiting: &Waiting<'_>| display.show(waiting);
    let alarm = inbox.map(|inbox| inbox as _);
    let mut patience = WaitPolicy { timeout, alarm, tell: (!quiet).then_some(&mut tell as _) };
    Ok(ledger.take(nodes, terms, &mut patience)?)
}
