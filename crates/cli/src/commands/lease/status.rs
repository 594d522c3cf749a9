//! `lokt lease status`: who may write to which worktree.

use std::fmt::Write as _;
use std::io::stdout;

use lokt_core::hold::Identity;
use lokt_core::lease::evidence::Evidence;
use lokt_core::lease::record::Record as LeaseRecord;
use lokt_sys::terminal::Size;
use lokt_sys::warnings::Warning;
use lokt_worktree::lease::{LeaseState, LeaseStatus, Worktree, session_file};
use serde::Serialize;
use serde_json::{Map, Value};

use super::holder::{Left, at, by, holder, span, until, view};
use super::place::{Place, repository};
use super::who::Who;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted};
use crate::table::{self, Cell, Column, Row, Style};

/// Show who holds the lease of a worktree, until when, and how that is known
#[derive(clap::Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    who: Who,
    /// All worktrees
    #[arg(long, conflicts_with = "worktree")]
    all: bool,
}

/// Wider than any table that isn't for a terminal.
const ENDLESS: usize = 10_000;

const COLUMNS: [Column; 5] = [
    Column { title: "WORKTREE", cut_to: Some(8), rank: 0 },
    Column { title: "STATE", cut_to: None, rank: 1 },
    Column { title: "HOLDER", cut_to: Some(8), rank: 2 },
    Column { title: "TOKEN", cut_to: None, rank: 4 },
    Column { title: "UNTIL", cut_to: None, rank: 3 },
];

#[derive(Serialize)]
struct Answer<'a> {
    worktree: &'a str,
    state: &'static str,
    isolation: &'static str,
    lock: Option<Map<String, Value>>,
    mine: bool,
    lives: bool,
    evidence: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    last_token: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    args.place.named()?;
    let me = args.who.me()?;
    let report = Report::new(Exit::Done);
    if !args.all {
        let worktree = args.place.open(me.clone())?;
        let (status, warnings) = look(args, &worktree, &me)?;
        let report = match format {
            Format::Json => report.json(&answer(&worktree, &status)),
            Format::Text => report.text(text(&worktree, &status)),
        };
        return Ok(report.warnings(warnings));
    }
    let repo = repository(me.clone())?;
    let (mut seen, mut warnings) = (Vec::new(), Vec::new());
    for entry in repo.worktrees()? {
        // It may have been removed since, and what can't be read has its line in `worktree list`.
        let (Ok(Some(worktree)), None) = (repo.worktree(&entry.name), &entry.problem) else {
            let why = entry.problem.as_deref().unwrap_or("it can't be read");
            warnings.push(format!("worktree {}: {why}", quoted(entry.name.as_str())));
            continue;
        };
        let (status, more) = look(args, &worktree, &me)?;
        let named = |warning: String| format!("worktree {}: {warning}", quoted(worktree.name().as_str()));
        warnings.extend(more.into_iter().map(named));
        seen.push((worktree, status));
    }
    let report = match format {
        Format::Json => {
            report.json(&seen.iter().map(|(worktree, status)| answer(worktree, status)).collect::<Vec<_>>())
        }
        Format::Text => report.text(all(&seen)),
    };
    Ok(report.warnings(warnings))
}

/// How it stands, and what is odd about that.
fn look(args: &Args, worktree: &Worktree, me: &Identity) -> Result<(LeaseStatus, Vec<String>), Failure> {
    let mut warnings = Vec::new();
    // Whoever only looks needs no session; one that can't be used is worth a word.
    let path = args.who.session_path(worktree, me).ok();
    let session = path.and_then(|path| {
        session_file::load(&path).unwrap_or_else(|error| {
            warnings.push(error.to_string());
            None
        })
    });
    let status = worktree.status(session.as_ref())?;
    warnings.extend(status.warnings.iter().map(Warning::to_string));
    Ok((status, warnings))
}

fn answer<'a>(worktree: &'a Worktree, status: &LeaseStatus) -> Answer<'a> {
    Answer {
        worktree: worktree.name().as_str(),
        state: status.state.as_str(),
        isolation: worktree.isolation().as_str(),
        lock: status.record.as_ref().map(LeaseRecord::members),
        mine: status.mine,
        lives: status.lives,
        evidence: status.evidence.map(Evidence::as_str),
        remaining_ms: left(status).own_ms,
        retry_after_ms: left(status).others_ms,
        last_token: status.last_token,
        warnings: status.warnings.iter().map(Warning::to_string).collect(),
    }
}

/// How long it lasts without a renewal.
fn left(status: &LeaseStatus) -> Left {
    if !status.lives {
        return Left::default();
    }
    Left::of(status.record.as_ref(), status.retry_after_ms, status.mine)
}

/// In a few words.
fn state(status: &LeaseStatus) -> &'static str {
    match status.state {
        LeaseState::Free => "free",
        LeaseState::Held if status.mine => "held by you",
        LeaseState::Held => "held",
        LeaseState::ExpiredGrace => "ended, others must wait a moment",
        LeaseState::Expired if status.mine => "yours, but ended: acquire it again",
        LeaseState::Expired => "ended, and free for whoever asks",
        LeaseState::Foreign => "held by another program",
        LeaseState::Corrupt => "unreadable, which counts as held",
        LeaseState::Shared => "shared: everybody may write, nobody holds it",
    }
}

fn text(worktree: &Worktree, status: &LeaseStatus) -> String {
    let mut text = format!("worktree {}: {}\n", quoted(worktree.name().as_str()), state(status));
    let mut line = |what: &str, words: &str| {
        let _ = writeln!(text, "  {:<9} {words}", format!("{what}:"));
    };
    if let Some(record) = &status.record {
        line("holder", &holder(record));
        if let Some(token) = record.token {
            line("token", &token.to_string());
        }
        line("since", &at(record.created_at, record.policy));
        line("renewed", &at(record.last_renewed_at, record.policy));
        line("until", &until(record, left(status).own_ms));
        if let Some(purpose) = record.purpose.as_deref().filter(|purpose| !purpose.is_empty()) {
            line("purpose", &clean(purpose));
        }
    }
    if let Some(evidence) = status.evidence {
        line("evidence", by(evidence));
    }
    if let Some(ms) = left(status).others_ms {
        line("others", &format!("may have it in {}, unless it is renewed", span(ms)));
    }
    if status.record.is_some() || status.state == LeaseState::Corrupt {
        line("file", &clean(&view(worktree, status.evidence).to_string_lossy()));
    }
    text
}

fn all(seen: &[(Worktree, LeaseStatus)]) -> String {
    let row = |(worktree, status): &(Worktree, LeaseStatus)| {
        let record = status.record.as_ref();
        let state = status.state.as_str();
        let mine = if status.mine { " (yours)" } else { "" };
        let cells = vec![
            Cell::new(Style::Name, clean(worktree.name().as_str())),
            Cell::plain(format!("{state}{mine}")),
            Cell::plain(record.map(holder).unwrap_or_default()),
            Cell::plain(record.and_then(|record| record.token).map(|token| token.to_string()).unwrap_or_default()),
            Cell::plain(record.map(|record| until(record, left(status).own_ms)).unwrap_or_default()),
        ];
        Row { cells, sentence: None }
    };
    let rows: Vec<Row> = seen.iter().map(row).collect();
    let columns = Size::of(stdout()).map_or(ENDLESS, |size| size.columns);
    table::lines(&COLUMNS, &rows, columns).into_iter().fold(String::new(), |text, line| text + &line + "\n")
}
