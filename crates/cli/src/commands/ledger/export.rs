//! `lokt ledger export`: all events in one file, or on standard output.

use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::{ValueEnum, ValueHint};
use lokt_ledger::Ledger;
use lokt_sys::staged::Staged;
use serde::Serialize;

use super::place::Place;
use super::scan::{Look, Seen, Wanted, Wrong, line, numbers};
use crate::args::parse_expect;
use crate::exit::Exit;
use crate::machine;
use crate::progress::Progress;
use crate::report::{Failure, Format, Report};
use crate::show::clean;
use crate::stream::Stream;

/// Write all events into one file, or to standard output
#[derive(clap::Parser)]
#[command(
    after_help = "The file is replaced in one step, when it is complete. What can't be read is named on standard error and left out, and \
    the exit code is 65."
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// What is written
    #[arg(long = "format", id = "format", value_name = "FORMAT", value_enum, default_value_t)]
    shape: Shape,
    /// The file; without it, standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Only events after this number
    #[arg(long, value_name = "N", value_parser = parse_expect, default_value = "0", hide_default_value = true)]
    after: u64,
}

/// `--format`
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Shape {
    /// One JSON object per line
    #[default]
    Jsonl,
    /// One JSON array
    Json,
}

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    path: &'a str,
    events: u64,
    bytes: u64,
    damaged: u64,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let ledger = args.place.open()?;
    let mut out = match &args.output {
        None => Out::Stdout(Stream::new(None)),
        Some(path) => Out::File(BufWriter::new(staged(path)?), path),
    };
    let written = write(&ledger, args, &mut out)?;
    let report = Report::new(if written.wrong == 0 { Exit::Done } else { Exit::Damaged });
    let Out::File(file, path) = out else { return Ok(report) };
    let mut file = file.into_inner().map_err(|error| cant_write(path, error.error()))?;
    file.finish().and_then(|()| file.publish()).and_then(|()| file.sync()).map_err(|error| cant_write(path, &error))?;
    let (report, shown) = (report.changes(), path.to_string_lossy());
    Ok(match format {
        Format::Json => report.json(&Answer {
            status: "exported",
            path: &shown,
            events: written.events,
            bytes: file.bytes,
            damaged: written.wrong,
        }),
        Format::Text => report.text(format!("exported {} events to {}\n", written.events, clean(&shown))),
    })
}

/// Where it goes.
enum Out<'a> {
    Stdout(Stream),
    File(BufWriter<Staged>, &'a Path),
}

impl Out<'_> {
    fn line(&mut self, line: &str) -> Result<ControlFlow<()>, Failure> {
        match self {
            Self::Stdout(stream) => stream.line(line),
            Self::File(file, path) => {
                let written = file.write_all(line.as_bytes()).and_then(|()| file.write_all(b"\n"));
                written.map_err(|error| cant_write(path, &error))?;
                Ok(ControlFlow::Continue(()))
            }
        }
    }
}

/// What was written.
#[derive(Default)]
struct Written {
    events: u64,
    /// How much couldn't be read.
    wrong: u64,
}

fn write(ledger: &Ledger, args: &Args, out: &mut Out<'_>) -> Result<Written, Failure> {
    let spans = numbers(ledger, args.after, false)?;
    let total: u64 = spans.iter().filter(|span| !span.is_gap).map(super::scan::Span::count).sum();
    let mut progress = Progress::new("exporting");
    let mut written = Written::default();
    let mut lines = Lines { shape: args.shape, held: None, begun: false };
    let wanted = Wanted::default();
    let mut seen_count = 0;
    for span in &spans {
        let seen = |seq| -> Result<Seen, Failure> { Ok(wanted.judge(seq, ledger.read(seq)?)) };
        if span.is_gap {
            let Seen::Gap(first, last) = span.gap() else { unreachable!("a gap is one") };
            Wrong::gap(ledger, first, last).say();
            written.wrong += 1;
            continue;
        }
        for seq in span.seqs(false) {
            seen_count += 1;
            progress.step(seen_count, total);
            let wrong = match seen(seq)? {
                Seen::Event(seq, bytes) => match line(Look::Json, seq, &bytes) {
                    Ok(event) => {
                        written.events += 1;
                        if lines.event(out, event)?.is_break() {
                            return Ok(written);
                        }
                        continue;
                    }
                    Err(why) => Wrong::damaged(ledger, seq, &why),
                },
                Seen::Damaged(seq, why) => Wrong::damaged(ledger, seq, &why),
                Seen::Gap(first, last) => Wrong::gap(ledger, first, last),
                Seen::Unwanted => continue,
            };
            wrong.say();
            written.wrong += 1;
        }
    }
    lines.end(out)?;
    if let Out::Stdout(stream) = out {
        let _ = stream.flush()?;
    }
    Ok(written)
}

/// Lines, or an array whose elements are lines.
struct Lines {
    shape: Shape,
    /// Only with the next element, or the end, does it show whether a comma follows.
    held: Option<String>,
    begun: bool,
}

impl Lines {
    fn event(&mut self, out: &mut Out<'_>, event: String) -> Result<ControlFlow<()>, Failure> {
        if self.shape == Shape::Jsonl {
            return out.line(&event);
        }
        match self.held.replace(event) {
            Some(before) => self.element(out, &format!("{before},")),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    fn element(&mut self, out: &mut Out<'_>, text: &str) -> Result<ControlFlow<()>, Failure> {
        let bracket = if std::mem::replace(&mut self.begun, true) { "" } else { "[" };
        out.line(&format!("{bracket}{text}"))
    }

    fn end(&mut self, out: &mut Out<'_>) -> Result<(), Failure> {
        if self.shape == Shape::Json {
            let last = self.held.take().unwrap_or_default();
            let _ = self.element(out, &format!("{last}]"))?;
        }
        Ok(())
    }
}

fn staged(path: &Path) -> Result<Staged, Failure> {
    let unique = machine::random().map_err(|error| Failure::io(format!("get random bits: {error}"), None))?;
    Staged::create(path, unique).map_err(|error| cant_write(path, &error))
}

fn cant_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(
        format!("write {}: {error}", clean(&path.to_string_lossy())),
        Some("what was there is unchanged; --output takes a file in a directory that you may write to"),
    )
}
