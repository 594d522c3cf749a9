//! `lokt claim release`: a claim is given back.

use lokt::Seq;
use lokt::ledger::{ClaimTerms, Releasing};

use super::super::ledger::place::Place;
use super::answer::Claim;
use super::denied;
use crate::args::parse_seq;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::quoted;

/// Give one's own claim back
#[derive(clap::Parser)]
pub(crate) struct Args {
    /// The node
    #[arg(id = "nodes", value_name = "NODE")]
    node: String,
    #[command(flatten)]
    place: Place,
    /// Whose claim it is; otherwise that of `LOKT_OWNER`, or of whoever is logged in
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
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
    let me = context::whoever(args.owner.as_deref())?;
    let owner = me.owner.clone();
    let ledger = args.place.open_as(me)?;
    let terms = ClaimTerms { force: args.force, dry_run: args.dry_run, ..ClaimTerms::default() };
    let said = ledger.release(&args.node, args.token, &terms)?;
    let report = match said.value {
        Releasing::Denied(refused) => denied::report(&args.node, &owner, &refused, format),
        Releasing::Released { seq, token } => {
            let report = Report::new(Exit::Done);
            let what = if args.dry_run { "would release" } else { "released" };
            match format {
                Format::Json => report.json(&Claim::released(&args.node, &owner, seq, token, args.dry_run)),
                Format::Text => report.text(format!("{what} node {}\n", quoted(&args.node))),
            }
        }
    };
    Ok(report.warnings(said.warnings))
}
