//! `lokt worktree list`: which worktrees there are.

use std::io::stdout;

use lokt_core::time::show_wall_seconds;
use lokt_sys::terminal::Size;
use lokt_worktree::repo::WorktreeEntry;

use super::super::lease::place::repository;
use super::answer::EntryJson;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::clean;
use crate::table::{self, Cell, Column, Row, Style};

/// Show the worktrees of the repository
#[derive(clap::Parser)]
#[command(after_help = "Who holds which lease is in `lokt lease status --all`.")]
pub(crate) struct Args {}

/// Wider than any table that isn't for a terminal.
const ENDLESS: usize = 10_000;

const COLUMNS: [Column; 4] = [
    Column { title: "WORKTREE", cut_to: Some(8), rank: 0 },
    Column { title: "ISOLATION", cut_to: None, rank: 1 },
    Column { title: "SINCE", cut_to: None, rank: 3 },
    Column { title: "PATH", cut_to: Some(12), rank: 2 },
];

pub(crate) fn run(_: &Args, format: Format) -> Result<Report, Failure> {
    let repo = repository(context::caller(None)?)?;
    let entries = repo.worktrees()?;
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Json => report.json(&entries.iter().map(EntryJson::of).collect::<Vec<_>>()),
        Format::Text => {
            let rows: Vec<Row> = entries.iter().map(row).collect();
            let columns = Size::of(stdout()).map_or(ENDLESS, |size| size.columns);
            let lines = table::lines(&COLUMNS, &rows, columns);
            report.text(lines.into_iter().fold(String::new(), |text, line| text + &line + "\n"))
        }
    })
}

fn row(entry: &WorktreeEntry) -> Row {
    let name = Cell::new(Style::Name, clean(entry.name.as_str()));
    if let Some(problem) = &entry.problem {
        return Row { cells: vec![name], sentence: Some(clean(problem)) };
    }
    let gone = if entry.has_payload { "" } else { " (missing)" };
    let cells = vec![
        name,
        Cell::plain(entry.isolation.as_str()),
        Cell::plain(entry.created_at.map(show_wall_seconds).unwrap_or_default()),
        Cell::plain(format!("{}{gone}", clean(&entry.path.to_string_lossy()))),
    ];
    Row { cells, sentence: None }
}
