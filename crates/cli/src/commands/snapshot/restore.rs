//! `lokt snapshot restore`: a snapshot comes back, in a worktree of its own or in place of what is there.

use std::path::Path;

use lokt_core::name::LockName;
use lokt_worktree::lease::Worktree;
use lokt_worktree::snapshot::{Difference, InPlace, Listed, Restored, Restoring, Unfolding, restored_name};
use serde::Serialize;

use super::acting::Actor;
use super::difference::{DifferenceJson, lines, summary};
use super::members::content;
use super::naming::{self, ID_HELP};
use super::work::watched;
use crate::args::worktree_name;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted};

/// Bring a snapshot back, in a worktree of its own or in place of the files that are there
#[derive(clap::Parser)]
#[command(
    override_usage = "lokt snapshot restore [OPTIONS] <ID> [--into <NAME>]\n       lokt snapshot restore [OPTIONS] <ID> --in-place [--force]",
    after_help = after_help()
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// The snapshot
    #[arg(value_name = "ID")]
    snapshot_id: String,
    /// Make a worktree of this name for it; otherwise `restore-ID`
    #[arg(long, value_name = "NAME", conflicts_with = "in_place")]
    into: Option<String>,
    /// Put it in the place of the files that the worktree has now
    #[arg(long)]
    in_place: bool,
    /// With --in-place: also if there are files in no snapshot
    #[arg(long, requires = "in_place")]
    force: bool,
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
    /// Bring the `.git` back that `snapshot create --with-git` saved
    #[arg(long)]
    with_git: bool,
    #[command(flatten)]
    actor: Actor,
}

fn after_help() -> String {
    format!(
        "In place needs the lease, as writing does: one's own, that of the `lokt lease run` that this runs under, --token or --acquire. All \
         files are exchanged in one step, or none are; around a lock root, which never moves, entry by entry, and the next command finishes \
         what was interrupted. Those that were there are in the trash until `lokt snapshot gc run` deletes them, an \
         hour later at the earliest. What `.lokt-ignore` names stays. Shells inside must cd again.\n\n{ID_HELP}"
    )
}

/// So many paths of what would be lost are named.
const LOST_MAX: usize = 10;

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    snapshot_id: &'a str,
    worktree: &'a str,
    path: &'a str,
    files: Option<u64>,
    bytes: Option<u64>,
    in_place: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_tree: Option<&'a str>,
}

#[derive(Serialize)]
struct Planned<'a> {
    status: &'static str,
    snapshot_id: &'a str,
    worktree: &'a str,
    in_place: bool,
    #[serde(flatten)]
    difference: DifferenceJson<'a>,
}

#[derive(Serialize)]
struct Dirty<'a> {
    status: &'static str,
    code: &'static str,
    message: &'a str,
    hint: &'a str,
    worktree: &'a str,
    #[serde(flatten)]
    difference: DifferenceJson<'a>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let into = args.into.as_deref().map(worktree_name).transpose()?;
    args.actor.place.named()?;
    if args.in_place && !args.dry_run {
        return in_place(args, format);
    }
    if !args.in_place && (args.actor.acquire || args.actor.token.is_some()) {
        let flag = if args.actor.acquire { "--acquire" } else { "--token" };
        return Err(Failure::usage(format!("{flag} is for --in-place: a new worktree needs no lease")));
    }
    let (worktree, _) = args.actor.place.open_leased(args.actor.who.me()?)?;
    let listed = find(args, &worktree)?;
    if args.in_place {
        return plan_in_place(args, &worktree, &listed, format);
    }
    let name = into.unwrap_or_else(|| restored_name(&listed.descriptor.id));
    if args.dry_run {
        plan_new(&worktree, &listed, &name, format)
    } else {
        make_new(args, &worktree, &listed, &name, format)
    }
}

fn find(args: &Args, worktree: &Worktree) -> Result<Listed, Failure> {
    naming::find(&worktree.repository().snapshots().catalog()?, &args.snapshot_id, Some(worktree.name()))
}

/// In a worktree of its own.
fn make_new(
    args: &Args,
    worktree: &Worktree,
    listed: &Listed,
    name: &LockName,
    format: Format,
) -> Result<Report, Failure> {
    let (said, ended) =
        watched(|control| worktree.repository().snapshots().restore_into(listed, name, args.with_git, control))?;
    let said = said?;
    let report = match said.value {
        Unfolding::Made(restored) => done(&restored, "made", format),
        Unfolding::Exists(other) => return Err(exists(&other)),
        Unfolding::NotEmpty(path) => return Err(not_empty(&path)),
        Unfolding::Interrupted => ended.report("nothing was restored", format),
    };
    Ok(report.warnings(said.warnings))
}

/// In the place of what is there.
fn in_place(args: &Args, format: Format) -> Result<Report, Failure> {
    // Which snapshot is asked first: what isn't there can't be restored whoever asks.
    let (worktree, _) = args.actor.place.open_leased(args.actor.who.me()?)?;
    let listed = find(args, &worktree)?;
    let ready = args.actor.ready()?;
    let how = InPlace { force: args.force, dry_run: false, with_git: args.with_git };
    let (said, ended) = watched(|control| ready.worktree.restore_in_place(&listed, ready.acting(), how, control))?;
    let said = said?;
    let report = match said.value {
        Restoring::Restored(restored) => done(&restored, "restored", format),
        Restoring::Denied(refused) => ready.denied(&refused, "nothing was restored", format),
        Restoring::Planned(difference) => planned(&ready.worktree, &listed, &difference, format),
        Restoring::Dirty(difference) => dirty(&ready.worktree, &difference, &args.actor.place.words(), format),
        Restoring::Interrupted => ended.report("nothing was restored", format),
    };
    Ok(report.warnings(said.warnings))
}

fn done(restored: &Restored, status: &'static str, format: Format) -> Report {
    let report = Report::new(Exit::Done);
    let (path, old_tree) =
        (restored.path.to_string_lossy(), restored.old_tree.as_ref().map(|path| path.to_string_lossy()));
    let is_new = status == "made";
    if format == Format::Json {
        return report.json(&Answer {
            status: "restored",
            snapshot_id: restored.id.as_str(),
            worktree: restored.worktree.as_str(),
            path: &path,
            files: Some(restored.files),
            bytes: Some(restored.bytes),
            in_place: !is_new,
            old_tree: old_tree.as_deref(),
        });
    }
    let (name, content) = (quoted(restored.worktree.as_str()), content(Some(restored.files), Some(restored.bytes)));
    let what = if is_new { "into the new worktree" } else { "in worktree" };
    let report = report.text(format!("restored snapshot {} {what} {name}, {content}: {}\n", restored.id, clean(&path)));
    if is_new {
        return report;
    }
    report
        .notes(old_tree.map(|path| {
            format!("note: what was there is in {} until `lokt snapshot gc run`, for an hour at least", clean(&path))
        }))
        .note(if restored.in_parts {
            "note: shells in its subdirectories must cd again"
        } else {
            "note: shells inside it must cd again"
        })
}

/// What would change in a worktree that is there. Whoever only asks needs no lease.
fn plan_in_place(args: &Args, worktree: &Worktree, listed: &Listed, format: Format) -> Result<Report, Failure> {
    let (compared, ended) =
        watched(|control| worktree.repository().snapshots().compare_with(listed, worktree, control))?;
    let Some(difference) = compared?.map(Difference::reversed) else {
        return Ok(ended.report("not everything was compared", format));
    };
    let has_git = args.with_git || !worktree.repository().is_here();
    let difference = if has_git { difference } else { difference.without_git() };
    Ok(planned(worktree, listed, &difference, format))
}

fn planned(worktree: &Worktree, listed: &Listed, difference: &Difference, format: Format) -> Report {
    let report = Report::new(Exit::Done);
    let (id, name) = (&listed.descriptor.id, worktree.name().as_str());
    match format {
        Format::Json => report.json(&Planned {
            status: "would_restore",
            snapshot_id: id.as_str(),
            worktree: name,
            in_place: true,
            difference: DifferenceJson::of(difference),
        }),
        Format::Text => {
            let text = lines(difference).into_iter().fold(String::new(), |text, line| text + &line + "\n");
            let summary = summary(difference);
            report.text(text).note(format!("would restore snapshot {id} in worktree {}: {summary}", quoted(name)))
        }
    }
}

/// What a worktree of its own would have.
fn plan_new(worktree: &Worktree, listed: &Listed, name: &LockName, format: Format) -> Result<Report, Failure> {
    let repo = worktree.repository();
    if let Some(other) = repo.taken(name)? {
        return Err(exists(&other));
    }
    let descriptor = &listed.descriptor;
    let path = repo.files_of(name).to_string_lossy().into_owned();
    let content = content(descriptor.files, descriptor.bytes);
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Json => report.json(&Answer {
            status: "would_restore",
            snapshot_id: descriptor.id.as_str(),
            worktree: name.as_str(),
            path: &path,
            files: descriptor.files,
            bytes: descriptor.bytes,
            in_place: false,
            old_tree: None,
        }),
        Format::Text => report.text(format!(
            "would restore snapshot {} into the new worktree {}{}: {}\n",
            descriptor.id,
            quoted(name.as_str()),
            if content.is_empty() { content } else { format!(", {content}") },
            clean(&path)
        )),
    })
}

/// What is there would be lost.
fn dirty(worktree: &Worktree, difference: &Difference, words: &str, format: Format) -> Report {
    let name = worktree.name().as_str();
    let message = format!(
        "worktree {} has files that are in no snapshot ({}); nothing was changed",
        quoted(name),
        summary(difference)
    );
    let hint = format!(
        "`lokt snapshot create{words}` keeps them; `--force` restores all the same, and leaves them in the trash for an hour at least"
    );
    let report = Report::new(Exit::Failed);
    if format == Format::Json {
        return report.json(&Dirty {
            status: "error",
            code: "E_DIRTY",
            message: &message,
            hint: &hint,
            worktree: name,
            difference: DifferenceJson::of(difference),
        });
    }
    let all = lines(difference);
    let more = all.len().saturating_sub(LOST_MAX);
    report
        .note(format!("error: {message}"))
        .notes(all.into_iter().take(LOST_MAX).map(|line| format!("  {line}")))
        .notes((more > 0).then(|| format!("  and {more} more")))
        .note(format!("hint: {hint}"))
}

fn exists(other: &LockName) -> Failure {
    Failure::new(Exit::Failed, "E_EXISTS", format!("there is a worktree {} already", quoted(other.as_str()))).hint(
        "`--into NAME` chooses another name; `lokt worktree list` shows them. Names that differ only in upper and lower case are the same \
         to some file systems",
    )
}

fn not_empty(path: &Path) -> Failure {
    let path = clean(&path.to_string_lossy());
    Failure::new(Exit::Failed, "E_NOT_EMPTY", format!("something is where its files would be: {path}"))
        .hint("`--into NAME` chooses another name, or move that away")
}
