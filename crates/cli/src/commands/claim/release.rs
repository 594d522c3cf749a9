//! `lokt claim release`: a claim is given back.

use lokt_core::ledger::seq::Seq;
use lokt_ledger::{ClaimTerms, Releasing};

use super::answer::Claim;
use super::denied;
use super::owner::OwnClaim;
use crate::args::parse_seq;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::quoted;

/// Give one's own claim back
#[derive(clap::Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    claim: OwnClaim,
    /// Only if this is still its token
    #[arg(long, value_name = "SEQ", value_parser = parse_seq)]
    token: Option<Seq>,
    /// Release it although events are missing or damaged, which may be claims
    #[arg(long)]
    force: bool,
    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let (ledger, owner) = args.claim.open()?;
    let terms = ClaimTerms { force: args.force, dry_run: args.dry_run, ..ClaimTerms::default() };
    let said = ledger.release(&args.claim.node, args.token, &terms)?;
    let report = match said.value {
        Releasing::Denied(refused) => denied::report(&args.claim.node, &owner, &refused, format),
        Releasing::Released { seq, token } => {
            let report = Report::new(Exit::Done);
            let what = if args.dry_run { "would release" } else { "released" };
            match format {
                Format::Json => report.json(&Claim::released(&args.claim.node, &owner, seq, token, args.dry_run)),
                Format::Text => report.text(format!("{what} node {}\n", quoted(&args.claim.node))),
            }
        }
    };
    Ok(report.warnings(said.warnings))
}
