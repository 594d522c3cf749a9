//! `lokt snapshot history`: which snapshots there are.

use std::collections::BTreeSet;
use std::io::stdout;

use lokt_core::name::LockName;
use lokt_core::time::show_wall_seconds;
use lokt_sys::terminal::Size;
use lokt_worktree::lease::Worktree;
use lokt_worktree::snapshot::{Catalog, Listed, SnapshotId};
use serde::Serialize;

use super::super::lease::place::{Place, repository};
use super::members::{Members, is_head, is_risky};
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted, size};
use crate::table::{self, Cell, Column, Row, Style};

/// Show the snapshots of a worktree, the newest first
#[derive(clap::Parser)]
#[command(
    after_help = "Of a worktree are those that were taken in it, and those that it was made from. [HEAD] is where the worktree is: its \
    next snapshot follows that one. [RISK] says that `best_effort` was enough when it was taken; `lokt snapshot show ID` names what changed."
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Only the last N
    #[arg(short = 'n', long = "last", value_name = "N")]
    last: Option<usize>,
    /// Those of all worktrees
    #[arg(long, conflicts_with = "worktree")]
    all: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    worktree: Option<&'a str>,
    head: Option<&'a str>,
    snapshots: Vec<Members<'a>>,
    warnings: &'a [String],
}

/// Wider than any table that isn't for a terminal.
const ENDLESS: usize = 10_000;

const COLUMNS: [Column; 7] = [
    Column { title: "SNAPSHOT", cut_to: None, rank: 0 },
    Column { title: "TAKEN", cut_to: None, rank: 3 },
    Column { title: "WORKTREE", cut_to: Some(8), rank: 2 },
    Column { title: "FILES", cut_to: None, rank: 6 },
    Column { title: "SIZE", cut_to: None, rank: 5 },
    Column { title: "STATE", cut_to: None, rank: 1 },
    Column { title: "NOTE", cut_to: Some(12), rank: 4 },
];

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    args.place.named()?;
    let me = context::caller(None)?;
    if args.all {
        // Nobody needs to be in one to see all.
        return Ok(answer(&repository(me)?.snapshots().catalog()?, None, args, format));
    }
    let (worktree, _) = args.place.open_leased(me)?;
    let catalog = worktree.repository().snapshots().catalog()?;
    Ok(answer(&catalog, Some(&worktree), args, format))
}

fn answer(catalog: &Catalog, worktree: Option<&Worktree>, args: &Args, format: Format) -> Report {
    let name = worktree.map(Worktree::name);
    let head = name.and_then(|name| catalog.heads.get(name));
    let of = name.map(|name| belonging(catalog, name));
    let is_of = |listed: &&Listed| of.as_ref().is_none_or(|of| of.contains(listed.descriptor.id.as_str()));
    let shown: Vec<&Listed> = catalog.snapshots.iter().filter(is_of).take(args.last.unwrap_or(usize::MAX)).collect();
    let warnings: Vec<String> = catalog
        .spoiled
        .iter()
        .map(|spoiled| format!("snapshot {} can't be used: {}: {}", spoiled.id, spoiled.path.display(), spoiled.why))
        .collect();
    let report = Report::new(Exit::Done);
    match format {
        Format::Json => report.json(&Answer {
            worktree: name.map(LockName::as_str),
            head: head.map(SnapshotId::as_str),
            snapshots: shown.iter().map(|listed| Members::of(listed, name)).collect(),
            warnings: &warnings,
        }),
        Format::Text if shown.is_empty() && args.last != Some(0) => {
            let of = name.map(|name| format!(" of worktree {}", quoted(name.as_str()))).unwrap_or_default();
            let words = args.place.words();
            report
                .text(format!("no snapshots{of}\n"))
                .note(format!("hint: `lokt snapshot create{words} --acquire` takes one"))
                .warnings(warnings)
        }
        Format::Text => report.text(text(&shown, name)).warnings(warnings),
    }
}

/// What was taken in a worktree, and what leads to where it is.
fn belonging(catalog: &Catalog, name: &LockName) -> BTreeSet<String> {
    let taken = catalog.snapshots.iter().map(|listed| &listed.descriptor);
    let mut of: BTreeSet<String> = taken
        .filter(|descriptor| descriptor.worktree == name.as_str())
        .map(|descriptor| descriptor.id.to_string())
        .collect();
    let mut seen = BTreeSet::new();
    let mut next = catalog.heads.get(name).cloned();
    // What is damaged may lead back to itself.
    while let Some(id) = next.take().filter(|id| seen.insert(id.clone())) {
        if let Some(listed) = catalog.get(&id) {
            of.insert(id.to_string());
            next.clone_from(&listed.descriptor.parent);
        }
    }
    of
}

fn text(shown: &[&Listed], worktree: Option<&LockName>) -> String {
    let row = |listed: &&Listed| {
        let descriptor = &listed.descriptor;
        let is_here = worktree.is_some_and(|name| name.as_str() == descriptor.worktree);
        let cells = vec![
            Cell::new(Style::Name, descriptor.id.as_str()),
            Cell::plain(show_wall_seconds(descriptor.created_at)),
            Cell::plain(if is_here { String::new() } else { clean(&descriptor.worktree) }),
            Cell::plain(descriptor.files.map(|files| files.to_string()).unwrap_or_default()),
            Cell::plain(descriptor.bytes.map(size).unwrap_or_default()),
            Cell::new(Style::Tag, state(listed, worktree)),
            Cell::plain(descriptor.note.as_deref().map(clean).unwrap_or_default()),
        ];
        Row { cells, sentence: None }
    };
    let rows: Vec<Row> = shown.iter().map(row).collect();
    let columns = Size::of(stdout()).map_or(ENDLESS, |size| size.columns);
    table::lines(&COLUMNS, &rows, columns).into_iter().fold(String::new(), |text, line| text + &line + "\n")
}

/// `[HEAD] [RISK] [PINNED]`, as far as it is.
fn state(listed: &Listed, worktree: Option<&LockName>) -> String {
    let marks = [
        (is_head(listed, worktree), "[HEAD]"),
        (is_risky(&listed.descriptor), "[RISK]"),
        (listed.pinned, "[PINNED]"),
        (!listed.descriptor.checksum_valid, "[DAMAGED]"),
    ];
    let marks = marks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| mark);
    marks.collect::<Vec<_>>().join(" ")
}
