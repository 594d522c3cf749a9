//! `lokt snapshot gc`: what nobody needs any more goes.

use std::fmt::Write as _;

use clap::ValueEnum;
use lokt_core::time::show_wall_seconds;
use lokt_worktree::snapshot::{GcDone, GcWish, Node, Plan, Retention, SnapshotId, Why};
use serde::Serialize;

use super::super::lease::place::repository;
use crate::args::parse_millis;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, count, size};

/// Remove snapshots that nobody needs any more, or say which that are
#[derive(clap::Parser)]
#[command(
    after_help = "Without --keep-last and --keep-within only what was taken in worktrees that are gone goes, unless it leads to where \
    another one is. With one of them, or both, older snapshots go, too. What is pinned, what a name in `.jvs/refs` \
    stands for, where a worktree is or began, and what somebody is working with stays in any case.\n\n\
    What goes is moved to the trash, and deleted by a later `lokt snapshot gc run`, when it has been there for an hour: whoever reads it \
    now can read on."
)]
pub(crate) struct Args {
    /// What to do
    #[arg(value_enum)]
    action: Action,
    /// Keep only the newest N of each worktree
    #[arg(long, value_name = "N")]
    keep_last: Option<u64>,
    /// Keep only what is younger than this
    #[arg(long, value_name = "DURATION", value_parser = parse_millis, allow_hyphen_values = true)]
    keep_within: Option<u64>,
    /// With run: delete what goes, and everything in the trash, at once
    #[arg(long)]
    now: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Say what would go
    Plan,
    /// Let it go
    Run,
}

#[derive(Serialize)]
struct CandidateJson<'a> {
    snapshot_id: &'a str,
    worktree_id: &'a str,
    created_at: String,
    bytes: u64,
}

impl<'a> CandidateJson<'a> {
    fn of(node: &'a Node) -> Self {
        let created_at = show_wall_seconds(node.created_at);
        Self { snapshot_id: node.id.as_str(), worktree_id: &node.worktree, created_at, bytes: node.bytes }
    }
}

#[derive(Serialize)]
struct KeptJson<'a> {
    snapshot_id: &'a str,
    why: &'static str,
}

#[derive(Serialize)]
struct PlanJson<'a> {
    candidate_count: usize,
    candidates: Vec<CandidateJson<'a>>,
    protected_by_pin: usize,
    protected_by_lineage: usize,
    deletable_bytes_estimate: u64,
    kept: Vec<KeptJson<'a>>,
}

/// What could not be removed: a snapshot, or something in the trash.
#[derive(Serialize)]
struct FailedJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    error: &'a str,
}

impl<'a> FailedJson<'a> {
    fn all(done: &'a GcDone) -> Vec<Self> {
        let snapshots =
            done.failed.iter().map(|(id, error)| Self { snapshot_id: Some(id.as_str()), path: None, error });
        let trash = done.undeleted.iter().map(|(path, error)| {
            let path = Some(path.to_string_lossy().into_owned());
            Self { snapshot_id: None, path, error }
        });
        snapshots.chain(trash).collect()
    }
}

#[derive(Serialize)]
struct DoneJson<'a> {
    status: &'static str,
    removed: Vec<&'a str>,
    failed: Vec<FailedJson<'a>>,
    emptied: u64,
    in_trash: u64,
    trash: String,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    if args.now && args.action == Action::Plan {
        return Err(Failure::usage("--now is for run: a plan deletes nothing")
            .hint("`lokt snapshot gc run --now` deletes at once"));
    }
    let retention = Retention { keep_last: args.keep_last, keep_within_ms: args.keep_within };
    let repo = repository(context::caller(None)?)?;
    match args.action {
        Action::Plan => Ok(planned(&repo.gc().plan(retention)?, format)),
        Action::Run => {
            let said = repo.gc().run(&GcWish { retention, at_once: args.now })?;
            let trash = repo.gc().trash().to_string_lossy().into_owned();
            Ok(done(&said.value, args.now, trash, format).warnings(said.warnings).changes())
        }
    }
}

fn planned(plan: &Plan, format: Format) -> Report {
    let report = Report::new(Exit::Done);
    match format {
        Format::Json => report.json(&PlanJson {
            candidate_count: plan.candidates.len(),
            candidates: plan.candidates.iter().map(CandidateJson::of).collect(),
            protected_by_pin: plan.kept_by(Why::Pin),
            protected_by_lineage: plan.kept_by(Why::Lineage),
            deletable_bytes_estimate: plan.bytes(),
            kept: plan
                .kept
                .iter()
                .map(|kept| KeptJson { snapshot_id: kept.id.as_str(), why: kept.why.as_str() })
                .collect(),
        }),
        Format::Text => {
            let mut text = String::new();
            for node in &plan.candidates {
                let (taken, name) = (show_wall_seconds(node.created_at), clean(&node.worktree));
                let _ = writeln!(text, "{}  {taken}  {name}  {}", node.id, size(node.bytes));
            }
            let (go, stay) = (count(plan.candidates.len() as u64, "snapshot", "snapshots"), plan.kept.len());
            let hint =
                "hint: `lokt snapshot gc run` with the same flags lets them go; `lokt snapshot pin ID` keeps one";
            let _ = writeln!(text, "{go} would go, {}; {stay} stay", size(plan.bytes()));
            report.text(text).notes((!plan.candidates.is_empty()).then(|| hint.to_owned()))
        }
    }
}

fn done(done: &GcDone, now: bool, trash: String, format: Format) -> Report {
    let report = Report::new(if done.is_whole() { Exit::Done } else { Exit::Failed });
    if format == Format::Json {
        return report.json(&DoneJson {
            status: if done.is_whole() { "done" } else { "incomplete" },
            removed: done.removed.iter().map(SnapshotId::as_str).collect(),
            failed: FailedJson::all(done),
            emptied: done.emptied,
            in_trash: done.in_trash,
            trash,
        });
    }
    let text = done.removed.iter().fold(String::new(), |text, id| text + "removed snapshot " + id.as_str() + "\n");
    let report = report.text(text).notes(
        done.failed.iter().map(|(id, error)| format!("error: snapshot {id} could not be removed: {}", clean(error))),
    );
    let report = report.notes(done.undeleted.iter().map(|(path, error)| {
        format!("error: {} could not be deleted: {}", clean(&path.to_string_lossy()), clean(error))
    }));
    let stay = done.plan.kept.len();
    let report =
        report.note(format!("{} removed, {stay} stay", count(done.removed.len() as u64, "snapshot", "snapshots")));
    let emptied =
        (done.emptied > 0).then(|| format!("{} of the trash deleted", count(done.emptied, "entry", "entries")));
    // What could not be deleted was named; with --now nothing else is left.
    let left = done.in_trash.saturating_sub(done.undeleted.len() as u64);
    let waiting = (left > 0 && !now).then(|| {
        let entries = count(left, "entry is", "entries are");
        format!(
            "note: {entries} still in {}; after an hour there `lokt snapshot gc run` deletes them, with --now at once",
            clean(&trash)
        )
    });
    report.notes(emptied).notes(waiting)
}
