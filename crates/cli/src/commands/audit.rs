//! `lokt audit`: what happened, or what happens from now on.

use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lokt_core::audit::{EVENTS, Filter, LINE_BYTES_MAX};
use lokt_core::duration;
use lokt_core::time::parse_wall;
use lokt_named::{Follower, Found, Lokt};

use super::audit_table::{heading, row};
use super::waiting::inbox;
use crate::args::{RootArg, lock_name};
use crate::context::Context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report, say};
use crate::show::{clean, clean_json};
use crate::stream::Stream;

/// Show what happened, oldest first
#[derive(clap::Parser)]
#[command(
    after_help = "On a terminal the answer is a table; elsewhere, and with --json, it is the lines of the log, one JSON object each.\n\
    --name, --owner and --event may be given several times: any of them matches."
)]
pub(crate) struct Args {
    /// Not what is older: so long ago (1h), or a time (2026-11-16T08:00:00Z)
    #[arg(long, value_name = "WHEN", value_parser = parse_since, allow_hyphen_values = true)]
    since: Option<Since>,
    /// Show what happens from now on, until Ctrl-C
    #[arg(long)]
    tail: bool,
    /// Only events of this lock
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Only what this owner did (not what was done to its locks)
    #[arg(long, value_name = "OWNER")]
    owner: Vec<String>,
    /// Only events of this kind
    #[arg(long, value_name = "EVENT", value_parser = EVENTS)]
    event: Vec<String>,
    #[command(flatten)]
    root: RootArg,
}

/// `--since`
#[derive(Debug, Clone, Copy)]
enum Since {
    Ago(Duration),
    Time(Timestamp),
}

fn parse_since(text: &str) -> Result<Since, String> {
    match (duration::parse(text), parse_wall(text)) {
        (Ok(ago), _) => Ok(Since::Ago(ago)),
        (Err(_), Some(at)) => Ok(Since::Time(at)),
        (Err(duration::BadDuration::Syntax), None) => {
            Err("neither a duration (90s, 5m, 1h30m, 2d) nor a time (2026-11-16T08:00:00Z)".to_owned())
        }
        (Err(bad), None) => Err(bad.to_string()),
    }
}

impl Since {
    fn moment(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(ago) => {
                let ago = SignedDuration::try_from(ago).ok();
                ago.and_then(|ago| now.checked_sub(ago).ok()).unwrap_or(Timestamp::MIN)
            }
            Self::Time(at) => at,
        }
    }
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    if args.since.is_some() && args.tail {
        return Err(Failure::usage("--since and --tail are mutually exclusive")
            .hint("`lokt audit --since 1h` shows what happened, `lokt audit --tail` what happens"));
    }
    let names = args.name.iter().map(|name| lock_name(name).map(|name| name.to_string()));
    let filter = Filter {
        since: None,
        names: names.collect::<Result<_, _>>()?,
        owners: args.owner.clone(),
        events: args.event.clone(),
    };
    let context = Context::read(&args.root)?;
    let table = format == Format::Text && std::io::stdout().is_terminal();
    let stream = Stream::new(None);
    let mut printer = Printer { filter, table, has_heading: false, stream, no_events: 0, failure: None };
    if args.tail {
        printer.stream.inbox = Some(inbox()?);
        printer.follow(&context)?;
    } else if let Some(lokt) = context.open()? {
        printer.filter.since = args.since.map(|since| since.moment(lokt.now().wall));
        printer.list(&lokt)?;
    }
    Ok(printer.report(&context))
}

/// Prints what is wanted of what is found.
struct Printer {
    filter: Filter,
    /// A table, or the lines as they are?
    table: bool,
    has_heading: bool,
    stream: Stream,
    /// Lines that tell of no event.
    no_events: u64,
    /// What went wrong on the way to stdout.
    failure: Option<Failure>,
}

impl Printer {
    fn list(&mut self, lokt: &Lokt) -> Result<(), Failure> {
        let listed = lokt.inspect().history(&mut |found| self.show(&found));
        // What was found before something went wrong is an answer too.
        let flushed = self.stream.flush();
        listed?;
        flushed.and_then(|_| self.failure.take().map_or(Ok(()), Err))
    }

    fn follow(&mut self, context: &Context) -> Result<(), Failure> {
        let mut follower = Follower::new();
        // At once, so that whoever waits in front of it sees that it runs.
        let mut looked = self.print_heading();
        while looked.is_continue() {
            let lokt = context.open()?;
            looked = follower.look(lokt.as_ref(), &mut |found| self.show(&found))?;
            if looked.is_break() || self.stream.flush()?.is_break() || !Stream::is_read() {
                break;
            }
            let Some(inbox) = &mut self.stream.inbox else { break };
            if follower.sleep(inbox).map_err(|error| Failure::io(format!("wait for events: {error}"), None))? {
                break;
            }
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    fn show(&mut self, found: &Found<'_>) -> ControlFlow<()> {
        match found {
            Found::Event(line) if !self.filter.wants(line) => ControlFlow::Continue(()),
            Found::Event(line) if self.table => {
                self.print_heading()?;
                self.print(&row(line))
            }
            // Between its members a line may have tabs, which nobody needs; in its texts JSON allows none.
            Found::Event(line) => self.print(&clean_json(&line.text.replace(['\t', '\r'], " "))),
            Found::NoEvent => {
                self.no_events += 1;
                ControlFlow::Continue(())
            }
            Found::TooLong { path, offset } => {
                let path = clean(&path.to_string_lossy());
                say(&format!(
                    "warning: {path}: the line at byte {offset} is longer than {LINE_BYTES_MAX} bytes and was skipped\n"
                ));
                ControlFlow::Continue(())
            }
        }
    }

    /// Before the first row.
    fn print_heading(&mut self) -> ControlFlow<()> {
        if !self.table || std::mem::replace(&mut self.has_heading, true) {
            return ControlFlow::Continue(());
        }
        self.print(&heading())
    }

    fn print(&mut self, text: &str) -> ControlFlow<()> {
        self.stream.line(text).unwrap_or_else(|failure| {
            self.failure = Some(failure);
            ControlFlow::Break(())
        })
    }

    fn report(&self, context: &Context) -> Report {
        let report = Report::new(Exit::Done);
        let log = context.root.path.join("audit.log");
        let lines = match self.no_events {
            0 => return report,
            1 => "1 line that is no event was".to_owned(),
            count => format!("{count} lines that are no events were"),
        };
        report.warnings([format!("{lines} skipped in {} and its older files", log.display())])
    }
}
