//! `lokt snapshot create`: a copy of a worktree that is whole or not there.

use clap::ValueEnum;
use lokt_worktree::snapshot::{Consistency, SnapshotWish, Snapshotting, Taken};
use serde::Serialize;
use serde_json::{Map, Value};

use super::acting::{Actor, Ready};
use super::members::{content, risk, skipped};
use super::work::watched;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted, size};

/// Take a snapshot of a worktree
#[derive(clap::Parser)]
#[command(
    after_help = "A snapshot is whole, or it isn't there: it becomes visible in one step, and only while the token that it was taken under \
    is that of the living lease (6 otherwise). With `quiesced` nothing changed while it was copied, or there is no snapshot (8). With \
    `best_effort` there is one in any case, which says for ever what changed meanwhile.\n\n\
    Lock roots are never a part of it, nor is `.git` where `lokt worktree init --here` made the directory a worktree, unless --with-git is \
    given. What `.lokt-ignore` at the top of the worktree names, in the syntax of .gitignore, is left out. Sockets, pipes, devices and what is \
    mounted there are left out too, and listed."
)]
pub(crate) struct Args {
    /// What is promised about files that change meanwhile
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t)]
    consistency: Level,
    /// Say something about it; shown in the history
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// With `.git`, in a worktree that `lokt worktree init --here` made; elsewhere it is a part of every snapshot
    #[arg(long)]
    with_git: bool,
    #[command(flatten)]
    actor: Actor,
}

/// `--consistency`
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Default)]
enum Level {
    /// Nothing changed while it was copied, or there is no snapshot
    #[default]
    Quiesced,
    /// There is one, which says what changed
    #[value(name = "best_effort")]
    BestEffort,
}

impl From<Level> for Consistency {
    fn from(level: Level) -> Self {
        match level {
            Level::Quiesced => Self::Quiesced,
            Level::BestEffort => Self::BestEffort,
        }
    }
}

#[derive(Serialize)]
struct Created {
    status: &'static str,
    #[serde(flatten)]
    descriptor: Map<String, Value>,
    reused_files: u64,
    copied_files: u64,
    copied_bytes: u64,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let ready = args.actor.ready()?;
    let wish = SnapshotWish {
        consistency: args.consistency.into(),
        note: args.note.clone(),
        acting: ready.acting(),
        with_git: args.with_git,
    };
    let (said, ended) = watched(|control| ready.worktree.snapshot(&wish, control))?;
    let said = said?;
    let report = match said.value {
        Snapshotting::Taken(taken) => created(&taken, format).notes(empty(&taken, &ready)),
        Snapshotting::Denied(refused) => ready.denied(&refused, "there is no snapshot", format),
        Snapshotting::Interrupted => ended.report("there is no snapshot", format),
    };
    Ok(report.warnings(said.warnings))
}

/// A user who saves nothing should know before something is lost.
fn empty(taken: &Taken, ready: &Ready) -> Option<String> {
    let path = ready.worktree.repository().files_of(ready.worktree.name());
    (taken.descriptor.files == Some(0)).then(|| {
        let path = clean(&path.to_string_lossy());
        format!("warning: the snapshot is empty: there are no files in {path}, which is all that it is of")
    })
}

fn created(taken: &Taken, format: Format) -> Report {
    let Taken { descriptor, reused_files, copied_files, copied_bytes } = taken;
    let report = Report::new(Exit::Done);
    if format == Format::Json {
        return report.json(&Created {
            status: "created",
            descriptor: descriptor.members(),
            reused_files: *reused_files,
            copied_files: *copied_files,
            copied_bytes: *copied_bytes,
        });
    }
    let (name, content) = (quoted(&descriptor.worktree), content(descriptor.files, descriptor.bytes));
    let reused = (*reused_files > 0).then(|| {
        let copied = size(*copied_bytes);
        format!("note: {reused_files} of them are as in the snapshot before; {copied_files} were copied, {copied}")
    });
    report
        .text(format!("took snapshot {} of worktree {name}: {content}\n", descriptor.id))
        .notes(reused)
        .notes(risk(descriptor).map(|risk| format!("warning: {risk}")))
        .notes(skipped(descriptor).map(|skipped| format!("note: left out: {skipped}")))
}
