//! `lokt snapshot show`: everything about one snapshot.

use std::fmt::Write as _;

use lokt_core::lease::config::Isolation;
use lokt_core::time::show_wall_seconds;
use lokt_worktree::snapshot::Listed;
use serde::Serialize;

use super::super::lease::place::Place;
use super::members::{Members, content, risk, skipped};
use super::naming::{self, ID_HELP};
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted};

/// Show everything about a snapshot
#[derive(clap::Parser)]
#[command(after_help = ID_HELP)]
pub(crate) struct Args {
    /// The snapshot
    #[arg(value_name = "ID")]
    snapshot_id: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    members: Members<'a>,
    path: String,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    args.place.named()?;
    let (worktree, _) = args.place.open_leased(context::caller(None)?)?;
    let repo = worktree.repository();
    let listed = naming::find(&repo.snapshots().catalog()?, &args.snapshot_id, Some(worktree.name()))?;
    let path = repo.tree_of(&listed.descriptor.id).to_string_lossy().into_owned();
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Json => report.json(&Answer { members: Members::of(&listed, Some(worktree.name())), path }),
        Format::Text => report.text(text(&listed, &clean(&path))),
    })
}

fn text(listed: &Listed, path: &str) -> String {
    let descriptor = &listed.descriptor;
    let mut text = format!("snapshot {}\n", descriptor.id);
    let mut line = |what: &str, words: &str| {
        let _ = writeln!(text, "  {:<12} {words}", format!("{what}:"));
    };
    line("worktree", &quoted(&descriptor.worktree));
    line("taken", &show_wall_seconds(descriptor.created_at));
    if let Some(parent) = &descriptor.parent {
        line("after", parent.as_str());
    }
    if let Some(note) = &descriptor.note {
        line("note", &clean(note));
    }
    match content(descriptor.files, descriptor.bytes).as_str() {
        "" => {}
        content => line("content", content),
    }
    line("consistency", descriptor.consistency.as_str());
    if let Some(risk) = risk(descriptor) {
        line("[RISK]", &risk);
    }
    if let Some(skipped) = skipped(descriptor) {
        line("left out", &skipped);
    }
    match descriptor.token {
        Some(token) => line("token", &token.to_string()),
        None if descriptor.isolation == Isolation::Shared => line("token", "none, the worktree is shared"),
        None => line("token", "none"),
    }
    line("engine", &clean(&descriptor.engine));
    line("files hash", &format!("{} {}", clean(&descriptor.root_hash.algo), clean(&descriptor.root_hash.value)));
    if !listed.head_of.is_empty() {
        let names: Vec<String> = listed.head_of.iter().map(|name| quoted(name.as_str())).collect();
        line("head of", &names.join(", "));
    }
    if !listed.refs.is_empty() {
        line("refs", &listed.refs.iter().map(|name| clean(name)).collect::<Vec<_>>().join(", "));
    }
    if listed.pinned {
        line("pinned", "yes");
    }
    if !descriptor.checksum_valid {
        line("[DAMAGED]", "its description was changed; `lokt snapshot verify` says more");
    }
    line("path", path);
    text
}
