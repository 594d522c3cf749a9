//! `lokt claim extend`: a claim gets a new end.

use std::time::Duration;

use lokt_core::ledger::seq::Seq;
use lokt_ledger::{ClaimTerms, Claiming};

use super::owner::OwnClaim;
use super::{answer, denied};
use crate::args::{lease_seconds, parse_seq, parse_ttl};
use crate::report::{Failure, Format, Report};

/// Give one's own claim a new end, counted from now
#[derive(clap::Parser)]
#[command(
    after_help = "A claim that has expired isn't extended (exit code 5): `lokt claim take` claims the node anew, if it is free."
)]
pub(crate) struct Args {
    #[command(flatten)]
    claim: OwnClaim,
    /// End it by itself after this long (rounded up to seconds)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, allow_hyphen_values = true)]
    ttl: Option<Duration>,
    /// Only if this is still its token
    #[arg(long, value_name = "SEQ", value_parser = parse_seq)]
    token: Option<Seq>,
    /// Extend it although events are missing or damaged, which may be claims
    #[arg(long)]
    force: bool,
    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let (ledger, owner) = args.claim.open()?;
    let (ttl_sec, only_new) = (lease_seconds(args.ttl), false);
    let terms = ClaimTerms { ttl_sec, only_new, force: args.force, dry_run: args.dry_run };
    let said = ledger.extend(&args.claim.node, args.token, &terms)?;
    let report = match said.value {
        Claiming::Claimed(claimed) => answer::report(&claimed, true, args.dry_run, format),
        Claiming::Denied { node, refused } => denied::report(&node, &owner, &refused, format),
        Claiming::Interrupted => unreachable!("nothing is waited for"),
    };
    Ok(report.warnings(said.warnings))
}
