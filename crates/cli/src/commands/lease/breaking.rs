//! `lokt lease break`: end a lease, whoever has it.

use lokt_core::hold::Fence;
use lokt_worktree::lease::Releasing;
use serde::Serialize;

use super::denied::{self, Asked, Question};
use super::holder::{HolderMembers, holder, token};
use super::place::Place;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::quoted;

/// End a lease whoever has it, and say why
#[derive(clap::Parser)]
#[command(
    after_help = "For people who know that the holder is gone, or must stop. It can neither renew nor publish any more; what it writes \
    into the worktree nobody stops. Who broke what and why is in `lokt lease audit`. A lease that is over needs no force: `lokt lease \
    acquire` takes it."
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Yes, also if its holder lives
    #[arg(long, required = true)]
    force: bool,
    /// Why; kept in the audit log
    #[arg(long, value_name = "TEXT", required = true)]
    reason: String,
}

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    worktree: &'a str,
    fencing_token: Option<u64>,
    #[serde(flatten)]
    holder: Option<HolderMembers>,
    reason: &'a str,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    debug_assert!(args.force, "the parser wants it");
    if args.reason.trim().is_empty() {
        return Err(Failure::usage("a reason can't be empty").hint("`--reason TEXT` says why, for whoever asks later"));
    }
    args.place.named()?;
    let worktree = args.place.open(context::caller(None)?)?;
    let said = worktree.force_break(&args.reason)?;
    let words = args.place.words();
    let report = match said.value {
        Releasing::Denied(refused) => {
            let (session_id, waited) = (None, None);
            let question = Question { worktree: &worktree, asked: Asked::Break, words: &words, session_id, waited };
            denied::report(&question, &refused, format)
        }
        Releasing::Released(ended) => {
            let report = Report::new(Exit::Done);
            let name = worktree.name().as_str();
            let record = ended.record.as_deref();
            match format {
                Format::Json => report.json(&Answer {
                    status: "broken",
                    worktree: name,
                    fencing_token: record.and_then(|record| record.token).map(Fence::get),
                    holder: record.map(HolderMembers::of),
                    reason: &args.reason,
                }),
                Format::Text => {
                    let whose = record.map(|record| format!(" of {}{}", holder(record), token(record)));
                    let whose = whose.unwrap_or_else(|| ", which could not be read".to_owned());
                    report
                        .text(format!("broke the lease of worktree {}{whose}\n", quoted(name)))
                        .note("note: its holder can't publish any more; what it writes into the worktree nobody stops")
                        .note(format!("hint: `lokt lease acquire{words}` takes it"))
                }
            }
        }
    };
    Ok(report.warnings(said.warnings))
}
