//! `lokt claim take`: claim a node, or give one's own claim a new end.

use std::time::Duration;

use lokt::ledger::{ClaimTerms, Claiming, Ledger};
use lokt::{Inbox, Patience, Said, Timeout, Waiting};

use super::super::ledger::place::Place;
use super::super::waiting::{inbox, interrupted_at};
use super::waiting::Display;
use super::{answer, denied};
use crate::args::{lease_seconds, parse_timeout, parse_ttl, waiting_time};
use crate::context;
use crate::report::{Failure, Format, Report};

/// Claim a node, or give one's own claim a new end
#[derive(clap::Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
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
    /// Claim it for this owner; otherwise `LOKT_OWNER`, or whoever is logged in
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// End it by itself after this long (rounded up to seconds)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, allow_hyphen_values = true)]
    ttl: Option<Duration>,
    /// Wait for it, for at most 10 minutes
    #[arg(long)]
    wait: bool,
    /// Wait for it, for at most this long; 0 tries once, `never` waits without a limit
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout, allow_hyphen_values = true)]
    timeout: Option<Timeout>,
    /// Claim it although events are missing or damaged, which may be claims
    #[arg(long)]
    force: bool,
    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Say nothing but errors and warnings: a refusal is in the exit code
    #[arg(short = 'q', long)]
    quiet: bool,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    Ok(attempt(args, format)?.quiet(args.quiet, format))
}

fn attempt(args: &Args, format: Format) -> Result<Report, Failure> {
    if args.nodes.len() > 1 && !args.any {
        return Err(Failure::usage(format!("one node, not {}", args.nodes.len()))
            .hint("`--any` claims the first of them that is free"));
    }
    let me = context::whoever(args.owner.as_deref())?;
    let owner = me.owner.clone();
    let ledger = args.place.open_as(me)?;
    let (ttl_sec, only_new) = (lease_seconds(args.ttl), false);
    let terms = ClaimTerms { ttl_sec, only_new, force: args.force, dry_run: args.dry_run };
    // Whoever only wants to know doesn't wait.
    let timeout = if args.dry_run { Timeout::Once } else { waiting_time(args.wait, args.timeout) };
    let mut inbox = (!timeout.is_once()).then(inbox).transpose()?;
    let said = claim(&ledger, &args.nodes, &terms, timeout, args.quiet, inbox.as_mut())?;
    let report = match said.value {
        Claiming::Claimed(claimed) => answer::report(&claimed, false, args.dry_run, format),
        Claiming::Denied { node, refused } => denied::report(&node, &owner, &refused, format),
        Claiming::Interrupted => {
            let signal = inbox.as_ref().and_then(Inbox::ended_by).unwrap_or(0);
            interrupted_at("node", &args.nodes.join(", "), signal, format)
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
    inbox: Option<&mut Inbox>,
) -> Result<Said<Claiming>, Failure> {
    let mut display = Display::new();
    let mut tell = |waiting: &Waiting<'_>| display.show(waiting);
    let alarm = inbox.map(|inbox| inbox as _);
    let mut patience = Patience { timeout, alarm, tell: (!quiet).then_some(&mut tell as _) };
    Ok(ledger.take(nodes, terms, &mut patience)?)
}
