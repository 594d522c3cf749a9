//! `lokt claim reap`: claims whose time is over are ended.

use lokt_core::ledger::seq::Seq;
use lokt_ledger::ClaimTerms;
use serde::Serialize;

use super::super::ledger::place::Place;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted};

/// End every claim that has expired
#[derive(clap::Parser)]
#[command(
    after_help = "Nobody needs to: `lokt claim take` takes an expired claim over. Other programs may wait for it."
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// End them although events are missing or damaged, which may be claims
    #[arg(long)]
    force: bool,
    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    count: usize,
    seq: Option<u64>,
    claims: Vec<Ended<'a>>,
    dry_run: bool,
}

#[derive(Serialize)]
struct Ended<'a> {
    node: &'a str,
    owner: &'a str,
    token: Option<u64>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let ledger = args.place.open_as(context::caller(None)?)?;
    let terms = ClaimTerms { force: args.force, dry_run: args.dry_run, ..ClaimTerms::default() };
    let said = ledger.reap(&terms)?;
    let reaped = &said.value;
    let count = reaped.claims.len();
    let report = Report::new(Exit::Done);
    let report = match format {
        Format::Json => {
            let ended = |(node, owner, token): &'_ (String, String, Option<Seq>)| -> (String, String, Option<u64>) {
                (node.clone(), owner.clone(), token.map(Seq::get))
            };
            let claims: Vec<_> = reaped.claims.iter().map(ended).collect();
            report.json(&Answer {
                status: if args.dry_run { "would_reap" } else { "reaped" },
                count,
                seq: reaped.seq.map(Seq::get),
                claims: claims.iter().map(|(node, owner, token)| Ended { node, owner, token: *token }).collect(),
                dry_run: args.dry_run,
            })
        }
        Format::Text => {
            let what = if args.dry_run { "would end" } else { "ended" };
            let report = match count {
                0 => report.text("no expired claims\n"),
                1 => report.text(format!("{what} 1 expired claim\n")),
                count => report.text(format!("{what} {count} expired claims\n")),
            };
            let note = |node: &str, owner: &str| format!("note: node {} was claimed by {}", quoted(node), clean(owner));
            report.notes(reaped.claims.iter().map(|(node, owner, _)| note(node, owner)))
        }
    };
    Ok(report.warnings(said.warnings))
}
