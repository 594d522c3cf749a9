//! `lokt ledger show`: the events, one line each.

use std::ops::ControlFlow;

use lokt_core::ledger::seq::Seq;
use lokt_ledger::Ledger;

use super::place::Place;
use super::scan::{Look, Seen, Wanted, Wrong, line, numbers, path_of};
use crate::args::{parse_expect, parse_seq};
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::clean;
use crate::stream::Stream;

/// Show events, oldest first
#[derive(clap::Parser)]
#[command(
    after_help = "An event that can't be read, or is missing, is named on standard error (with --json in a line of its own); the others \
    are shown all the same, and the exit code is 65."
)]
pub(crate) struct Args {
    /// Only the event with this number
    #[arg(value_name = "SEQ", value_parser = parse_seq, conflicts_with_all = ["after", "type", "reverse", "limit"])]
    seq: Option<Seq>,
    #[command(flatten)]
    place: Place,
    /// Only events after this number
    #[arg(long, value_name = "N", value_parser = parse_expect, default_value = "0", hide_default_value = true)]
    after: u64,
    /// Only events of this type; may be given several times
    #[arg(long = "type", id = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Newest first
    #[arg(long)]
    reverse: bool,
    /// Show at most so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Show what is stored, as it is
    #[arg(long)]
    raw: bool,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let ledger = args.place.open()?;
    let look = if args.raw { Look::Raw } else { Look::of(format) };
    let mut printer = Printer { ledger: &ledger, look, format, stream: Stream::new(None), wrong: 0 };
    if let Some(seq) = args.seq {
        let _ = printer.show(one(&ledger, seq)?)?;
        return printer.finish();
    }
    let wanted = Wanted { types: args.types.clone() };
    let spans = numbers(&ledger, args.after, args.reverse)?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    'all: for span in &spans {
        if left == 0 {
            break;
        }
        if span.is_gap {
            if printer.show(span.gap())?.is_break() {
                break;
            }
            continue;
        }
        for seq in span.seqs(args.reverse) {
            if left == 0 {
                break 'all;
            }
            let seen = wanted.judge(seq, ledger.read(seq)?);
            left -= u64::from(matches!(seen, Seen::Event(..)));
            if printer.show(seen)?.is_break() {
                break 'all;
            }
        }
    }
    printer.finish()
}

/// The event with this number, if there is one.
fn one(ledger: &Ledger, seq: Seq) -> Result<Seen, Failure> {
    match Wanted::default().judge(seq, ledger.read(seq)?) {
        Seen::Gap(..) => {
            let path = path_of(ledger, seq);
            let message = format!("there is no event {seq}: {}", clean(&path.to_string_lossy()));
            Err(Failure::new(Exit::Missing, "E_NOT_FOUND", message)
                .hint(format!("the last event is {}; `lokt ledger show` lists all", ledger.head()?.value)))
        }
        seen => Ok(seen),
    }
}

struct Printer<'a> {
    ledger: &'a Ledger,
    look: Look,
    format: Format,
    stream: Stream,
    /// How much couldn't be shown.
    wrong: u64,
}

impl Printer<'_> {
    /// Break: nobody wants more.
    fn show(&mut self, seen: Seen) -> Result<ControlFlow<()>, Failure> {
        let wrong = match seen {
            Seen::Unwanted => return Ok(ControlFlow::Continue(())),
            Seen::Event(seq, bytes) => match line(self.look, seq, &bytes) {
                Ok(line) => return self.stream.line(&line),
                Err(why) => Wrong::damaged(self.ledger, seq, &why),
            },
            Seen::Gap(first, last) => Wrong::gap(self.ledger, first, last),
            Seen::Damaged(seq, why) => Wrong::damaged(self.ledger, seq, &why),
        };
        self.wrong += 1;
        match self.format {
            Format::Json => self.stream.line(&wrong.json()),
            Format::Text => {
                wrong.say();
                Ok(ControlFlow::Continue(()))
            }
        }
    }

    fn finish(mut self) -> Result<Report, Failure> {
        let _ = self.stream.flush()?;
        let report = Report::new(if self.wrong == 0 { Exit::Done } else { Exit::Damaged });
        Ok(match (self.wrong, self.format) {
            (1.., Format::Text) => report.note("hint: `lokt ledger verify` names everything that is wrong"),
            _ => report,
        })
    }
}
