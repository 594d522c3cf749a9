//! `lokt snapshot verify`: is a snapshot what it was when it was taken?

use std::fmt::Write as _;
use std::slice;

use lokt_tree::Known;
use lokt_worktree::repo::Repository;
use lokt_worktree::snapshot::{LATEST, Listed, Named, Spoiled, Verification};
use serde::Serialize;

use super::super::lease::place::{Place, repository};
use super::members::content;
use super::naming::{self, ID_HELP};
use super::work::watched;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, count};

/// Read a snapshot, and say whether it is what it was when it was taken
#[derive(clap::Parser)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// The snapshot; otherwise the one that the worktree is at
    #[arg(value_name = "ID", conflicts_with = "all")]
    snapshot_id: Option<String>,
    #[command(flatten)]
    place: Place,
    /// All of the repository
    #[arg(long)]
    all: bool,
}

fn after_help() -> String {
    format!("Every file is read. The exit code is 65 if anything isn't what it was.\n\n{ID_HELP}")
}

#[derive(Serialize)]
struct ResultJson<'a> {
    snapshot_id: &'a str,
    checksum_valid: bool,
    payload_hash_valid: bool,
    tamper_detected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    problems: &'a [String],
    files: u64,
    bytes: u64,
}

impl<'a> ResultJson<'a> {
    fn of(verification: &'a Verification) -> Self {
        let is_bad = !verification.is_sound();
        Self {
            snapshot_id: verification.id.as_str(),
            checksum_valid: verification.checksum_valid,
            payload_hash_valid: verification.payload_hash_valid,
            tamper_detected: is_bad,
            severity: is_bad.then_some("critical"),
            error: verification.code(),
            problems: &verification.problems,
            files: verification.files,
            bytes: verification.bytes,
        }
    }
}

#[derive(Serialize)]
struct AllJson<'a> {
    overall: &'static str,
    checked: usize,
    bad: usize,
    results: Vec<ResultJson<'a>>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    args.place.named()?;
    let me = context::caller(None)?;
    if args.all {
        let repo = repository(me)?;
        let catalog = repo.snapshots().catalog()?;
        return verify(&repo, &catalog.snapshots, &catalog.spoiled, true, format);
    }
    let (worktree, _) = args.place.open_leased(me)?;
    let repo = worktree.repository();
    let catalog = repo.snapshots().catalog()?;
    let word = args.snapshot_id.as_deref().unwrap_or(LATEST);
    // What can't be used for anything else is still worth an answer here.
    if let Named::Spoiled(spoiled) = catalog.named(word, Some(worktree.name())) {
        return verify(repo, &[], &[spoiled], false, format);
    }
    let listed = naming::find(&catalog, word, Some(worktree.name()))?;
    verify(repo, slice::from_ref(&listed), &[], false, format)
}

fn verify(
    repo: &Repository,
    snapshots: &[Listed],
    spoiled: &[Spoiled],
    all: bool,
    format: Format,
) -> Result<Report, Failure> {
    let (read, ended) = watched(|control| {
        // Files that snapshots share are read once.
        let known = Known::default();
        let each = snapshots.iter().map(|listed| repo.snapshots().verify(listed, &known, control));
        // `None`: it was told to stop.
        each.collect::<Result<Option<Vec<Verification>>, _>>()
    })?;
    let Some(mut results) = read? else { return Ok(ended.report("not everything was read", format)) };
    results.extend(spoiled.iter().map(of_spoiled));
    let bad = results.iter().filter(|result| !result.is_sound()).count();
    let report = Report::new(if bad == 0 { Exit::Done } else { Exit::Damaged });
    let report = match (format, all, results.as_slice()) {
        (Format::Json, false, [result]) => report.json(&ResultJson::of(result)),
        (Format::Json, ..) => report.json(&AllJson {
            overall: if bad == 0 { "sound" } else { "damaged" },
            checked: results.len(),
            bad,
            results: results.iter().map(ResultJson::of).collect(),
        }),
        (Format::Text, ..) => report.text(text(&results, all.then_some(bad))),
    };
    let hint = "hint: `lokt doctor --strict` examines the whole repository; what is damaged is kept as it is";
    Ok(report.notes((bad > 0 && format == Format::Text).then(|| hint.to_owned())))
}

/// What should be there, and can't even be read.
fn of_spoiled(spoiled: &Spoiled) -> Verification {
    Verification {
        id: spoiled.id.clone(),
        checksum_valid: false,
        payload_hash_valid: false,
        problems: vec![format!("{}: {}", spoiled.path.display(), spoiled.why)],
        files: 0,
        bytes: 0,
    }
}

fn text(results: &[Verification], bad: Option<usize>) -> String {
    let mut text = String::new();
    for result in results {
        let (id, content) = (&result.id, content(Some(result.files), Some(result.bytes)));
        let _ = match result.code() {
            None => writeln!(text, "snapshot {id}: {content}, nothing is wrong"),
            Some(code) => writeln!(text, "snapshot {id}: DAMAGED ({code})"),
        };
        for problem in &result.problems {
            let _ = writeln!(text, "  {}", clean(problem));
        }
    }
    if let Some(bad) = bad {
        let all = count(results.len() as u64, "snapshot", "snapshots");
        let _ = match bad {
            0 => writeln!(text, "{all}, nothing is wrong"),
            bad => writeln!(text, "{all}, {bad} damaged"),
        };
    }
    text
}
