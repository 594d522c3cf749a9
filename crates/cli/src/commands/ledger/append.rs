//! `lokt ledger append`: events go into the ledger, durable, in order, beside whoever else writes there.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use lokt_core::denial::Denial;
use lokt_core::ledger::seq::Seq;
use lokt_ledger::{AppendTerms, Appended, Appending, Ledger, LockPatience, Unmet};
use lokt_sys::wait_policy::Timeout;
use lokt_sys::warnings::Warning;
use serde::Serialize;

use super::super::claim::holder::{claimant, expired_ago};
use super::input::Source;
use super::place::Place;
use crate::args::{parse_expect, parse_poll, parse_seq, parse_timeout};
use crate::exit::Exit;
use crate::progress::Progress;
use crate::report::{Failure, Format, Report};
use crate::show::quoted;

/// Append events to the ledger
#[derive(clap::Parser)]
#[command(
    after_help = "Without EVENT and --file the events are read from standard input, one per line; several are appended together, one \
    after the other, or none if one of them is no event. When the command has ended with 0 they are durable.\n\
    --token binds those who append with lokt; other programs don't look at it."
)]
pub(crate) struct Args {
    /// The event, a JSON object with a `type`; `-` reads events from standard input
    #[arg(value_name = "EVENT")]
    event: Option<String>,
    #[command(flatten)]
    place: Place,
    /// Append the events in this file, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "event")]
    file: Option<PathBuf>,
    /// Only if this is the number of the last event; 0 is that of an empty ledger
    #[arg(long, value_name = "N", value_parser = parse_expect)]
    expect_seq: Option<u64>,
    /// Only once under this key: the same key again gives the number that the event got
    #[arg(long, value_name = "KEY")]
    id: Option<String>,
    /// Only while this is the token of a claim
    #[arg(long, value_name = "SEQ", value_parser = parse_seq)]
    token: Option<Seq>,
    /// Carry a digest of all events before it
    #[arg(long)]
    chain: bool,
    /// Wait for another program's lock for at most this long (5s); 0 looks once, `never` waits without a limit
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout, allow_hyphen_values = true)]
    timeout: Option<Timeout>,
    /// Look for it this often (10ms)
    #[arg(long, value_name = "DURATION", value_parser = parse_poll, allow_hyphen_values = true)]
    poll: Option<Duration>,
    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    seq: u64,
    first: u64,
    last: u64,
    count: u64,
    path: &'a str,
    head: u64,
    duplicate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    filler: Option<u64>,
}

#[derive(Serialize)]
struct Mismatch<'a> {
    status: &'static str,
    code: &'static str,
    message: &'a str,
    hint: &'a str,
    expected: u64,
    head: u64,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let source = Source::chosen(args.event.as_deref(), args.file.as_deref())?;
    let patience = LockPatience::default();
    let timeout = args.timeout.map_or(patience.timeout, Timeout::limit);
    let ledger = args.place.open()?.patient(LockPatience { timeout, poll: args.poll.unwrap_or(patience.poll) });
    let drafts = source.drafts(&ledger)?;
    if args.id.is_some() && drafts.len() > 1 {
        return Err(Failure::usage(format!("one key, but {} events", drafts.len()))
            .hint("append them one by one, each with its own --id"));
    }
    let terms = AppendTerms {
        expect: args.expect_seq,
        id: args.id.as_deref(),
        token: args.token,
        chain: args.chain,
        dry_run: args.dry_run,
    };
    let said = match drafts.as_slice() {
        [one] => ledger.append(one, &terms)?,
        several => {
            let mut progress = Progress::new("appending");
            ledger.append_batch(several, &terms, &mut |done, of| progress.step(done, of))?
        }
    };
    let mut warnings = said.warnings;
    if args.id.is_some() && matches!(&said.value, Appending::Appended(appended) if !appended.duplicate) {
        // It is done: what can't be found out now is no reason to fail.
        let unread = ledger.unread().ok().flatten();
        let sentence = |what| format!("the key may have been used in what can't be read: {what}");
        warnings.extend(unread.map(|what| Warning::Unreadable(sentence(what))));
    }
    let report = match said.value {
        Appending::Appended(appended) => done(args, &ledger, &appended, format)?,
        Appending::Denied(Unmet::Sequence { expected, head }) => mismatch(expected, head, format),
        Appending::Denied(Unmet::Fence { token, denial }) => fenced_off(token, &denial).report(format),
    };
    Ok(report.warnings(warnings))
}

fn done(args: &Args, ledger: &Ledger, appended: &Appended, format: Format) -> Result<Report, Failure> {
    let (first, last) = (appended.first.get(), appended.last.get());
    let count = appended.count;
    let others = (last - first + 1).saturating_sub(count);
    let report = Report::new(Exit::Done);
    if format == Format::Json {
        let head = match (appended.duplicate, args.dry_run) {
            (true, _) => ledger.head()?.value,
            (false, true) => first - 1,
            (false, false) => last,
        };
        let path = ledger.path().join(ledger.settings().style.file_name(appended.first));
        return Ok(report.json(&Answer {
            status: match (appended.duplicate, args.dry_run) {
                (true, _) => "duplicate",
                (false, true) => "would_append",
                (false, false) => "appended",
            },
            seq: first,
            first,
            last,
            count,
            path: &path.to_string_lossy(),
            head,
            duplicate: appended.duplicate,
            filler: appended.filler.map(Seq::get),
        }));
    }
    let events = match (count, others) {
        (1, _) => format!("event {first}"),
        (_, 0) => format!("events {first} to {last}"),
        _ => format!("{count} events from {first} to {last}, with {others} of another program among them"),
    };
    Ok(match (appended.duplicate, args.dry_run) {
        (true, _) => {
            let key = quoted(args.id.as_deref().unwrap_or_default());
            report.text(format!("{events} has the key {key} already\n"))
        }
        (false, true) => report.text(format!("would append {events}\n")),
        (false, false) => {
            let report = report.text(format!("appended {events}\n"));
            report.notes(appended.filler.map(|filler| {
                format!(
                    "note: the writer whose lock was taken over may still write event {filler}; it is kept free for it"
                )
            }))
        }
    })
}

fn mismatch(expected: u64, head: u64, format: Format) -> Report {
    let message = format!("expected sequence {expected}, but the ledger is at {head}");
    let hint = match head {
        0 => "the ledger is empty: is it the one that was read, or were its events removed?".to_owned(),
        _ if expected > head => {
            format!("the ledger has only {head} events: is it the one that was read, or did it become shorter?")
        }
        _ => "somebody else appended: read what is new, decide again, and try again".to_owned(),
    };
    let report = Report::new(Exit::TryAgain);
    match format {
        Format::Json => report.json(&Mismatch {
            status: "error",
            code: "E_SEQUENCE_MISMATCH",
            message: &message,
            hint: &hint,
            expected,
            head,
        }),
        Format::Text => report.note(format!("error: {message}")).note(format!("hint: {hint}")),
    }
}

fn fenced_off(token: Seq, denial: &Denial) -> Failure {
    let (exit, code, why) = match (Exit::of_denial(denial), denial.holder()) {
        (Exit::Expired, holder) => {
            let ago = holder.and_then(expired_ago).map(|ago| format!(" {ago}")).unwrap_or_default();
            (Exit::Expired, "E_LOCK_EXPIRED", format!("its claim expired{ago}, and nobody has taken the node since"))
        }
        (_, Some(holder)) => {
            let owner = claimant(&holder.hold);
            (Exit::StaleToken, "E_FENCING_MISMATCH", format!("the node is claimed by {owner} now"))
        }
        _ => match denial {
            Denial::StaleToken { current: Some(current), .. } => {
                (Exit::StaleToken, "E_FENCING_MISMATCH", format!("the current one is {current}"))
            }
            _ => (Exit::StaleToken, "E_FENCING_MISMATCH", "no claim has it any more".to_owned()),
        },
    };
    Failure::new(exit, code, format!("token {token} is not good: {why}; nothing was appended"))
        .hint("`lokt claim list` shows the claims and their tokens")
}
