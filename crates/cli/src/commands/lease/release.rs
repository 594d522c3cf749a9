//! `lokt lease release`: a lease is given back.

use lokt_core::hold::Fence;
use lokt_worktree::lease::Releasing;
use serde::Serialize;

use super::denied::{self, Asked, Question};
use super::holder::token;
use super::place::Place;
use super::who::Who;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::quoted;

/// Give one's own lease back
#[derive(clap::Parser)]
#[command(
    after_help = "One that has ended is given back too, while nobody has taken it: the next one needn't wait then."
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    who: Who,
}

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    worktree: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fencing_token: Option<u64>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    args.place.named()?;
    let me = args.who.me()?;
    // A worktree that was made shared under a lease: whoever has one may give it back.
    let worktree = args.place.open(me.clone())?;
    let words = args.place.words() + &args.who.words();
    let session = args.who.session(&worktree, &me, &args.place.words())?;
    let said = worktree.release(&session)?;
    let report = match said.value {
        Releasing::Denied(refused) => {
            let (session_id, waited) = (Some(session.id.as_str()), None);
            let question = Question { worktree: &worktree, asked: Asked::Release, words: &words, session_id, waited };
            denied::report(&question, &refused, format)
        }
        Releasing::Released(ended) => {
            let report = Report::new(Exit::Done);
            let name = worktree.name().as_str();
            let record = ended.record.as_deref();
            match format {
                Format::Json => report.json(&Answer {
                    status: "released",
                    worktree: name,
                    fencing_token: record.and_then(|record| record.token).map(Fence::get),
                }),
                Format::Text => {
                    let token = record.map(token).unwrap_or_default();
                    report.text(format!("released the lease of worktree {}{token}\n", quoted(name)))
                }
            }
        }
    };
    Ok(report.warnings(said.warnings))
}
