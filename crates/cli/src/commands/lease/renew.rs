//! `lokt lease renew`: more time for one's own lease.

use lokt_worktree::lease::Keeping;

use super::answer::{Answer, ends};
use super::denied::{self, Asked, Question};
use super::place::Place;
use super::who::Who;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::quoted;

/// Give one's own lease its full time again
#[derive(clap::Parser)]
#[command(
    after_help = "A lease that has ended is never prolonged (5), even if nobody has taken it: acquire it again, under a new token. \
    `lokt lease run` renews by itself."
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    who: Who,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    args.place.named()?;
    let me = args.who.me()?;
    let worktree = args.place.exclusive(me.clone())?;
    let words = args.place.words() + &args.who.words();
    let session = args.who.session(&worktree, &me, &args.place.words())?;
    let said = worktree.renew(&session)?;
    let report = match said.value {
        Keeping::Denied(refused) => {
            let (session_id, waited) = (Some(session.id.as_str()), None);
            let question = Question { worktree: &worktree, asked: Asked::Renew, words: &words, session_id, waited };
            denied::report(&question, &refused, format)
        }
        Keeping::Renewed(lease) => {
            let report = Report::new(Exit::Done);
            let name = worktree.name().as_str();
            match format {
                Format::Json => report.json(&Answer {
                    status: "renewed",
                    worktree: name,
                    fencing_token: lease.token.get(),
                    session: None,
                    evidence: None,
                    old_holder_id: None,
                    old_fencing_token: None,
                    lock: lease.record.members(),
                }),
                Format::Text => report.text(format!(
                    "renewed the lease of worktree {}, token {}, {}\n",
                    quoted(name),
                    lease.token,
                    ends(&lease.record)
                )),
            }
        }
    };
    Ok(report.warnings(said.warnings))
}
