//! `lokt lease fence`: act only while a token is that of the living lease.

use std::path::{Path, PathBuf};

use clap::{ValueEnum, ValueHint};
use lokt_worktree::lease::{Publishing, TokenCheck, Worktree};
use serde::Serialize;
use serde_json::{Map, Value};

use super::denied::{self, Asked, Question};
use super::holder::{holder, until};
use super::place::{Place, has_lease, is_not_elsewhere, of_run};
use crate::args::parse_lease_token;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted};

/// Check a token, or put a file in its place only while the token is good
#[derive(clap::Parser)]
#[command(
    override_usage = "lokt lease fence check [OPTIONS]\n       lokt lease fence publish [OPTIONS] <SOURCE> <TARGET>",
    after_help = "A token is good while its lease lives: 0. Its lease has ended and nobody has taken it since: 5. Anything else: 6. \
    Between a check and what you do next the lease may be lost; `publish` has no such gap: the copy is complete and synced before it \
    replaces the target in one step, and whoever lost the lease meanwhile changes nothing. Source and target must be on the repository's \
    file system, or the target there (69).\n\n\
    Inside `lokt lease run` the token needn't be given, except in another repository than that of the run: there it is refused (6)."
)]
pub(crate) struct Args {
    /// What to do
    #[arg(value_enum)]
    action: Action,
    /// With publish: the file to publish, and where to
    #[arg(value_names = ["SOURCE", "TARGET"], num_args = 0..=2, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// The token; without it, the one of the `lokt lease run` that this runs under
    #[arg(long, value_name = "TOKEN", value_parser = parse_lease_token)]
    token: Option<u64>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Say by the exit code whether the token is good
    Check,
    /// Put a copy of a file in its place, if it is
    Publish,
}

#[derive(Serialize)]
struct Current<'a> {
    status: &'static str,
    worktree: &'a str,
    fencing_token: u64,
    lock: Map<String, Value>,
}

#[derive(Serialize)]
struct Published<'a> {
    status: &'static str,
    worktree: &'a str,
    fencing_token: u64,
    source: String,
    target: String,
    bytes: u64,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let files = match (args.action, args.files.as_slice()) {
        (Action::Check, []) => None,
        (Action::Publish, [source, target]) => Some((source.as_path(), target.as_path())),
        (Action::Check, [file, ..]) => {
            return Err(Failure::usage(format!("unexpected argument '{}' found", clean(&file.to_string_lossy())))
                .hint("`lokt lease fence check --token TOKEN` takes no files"));
        }
        (Action::Publish, _) => {
            return Err(Failure::usage("a source and a target are needed")
                .hint("`lokt lease fence publish --token TOKEN SOURCE TARGET`"));
        }
    };
    let (worktree, token) = under(args)?;
    match files {
        None => check(&worktree, token, &args.place.words(), format),
        Some((source, target)) => {
            let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
            is_not_elsewhere(parent.unwrap_or(Path::new(".")), &worktree, token)?;
            publish(&worktree, token, (source, target), &args.place.words(), format)
        }
    }
}

/// The worktree, and the token to act under.
fn under(args: &Args) -> Result<(Worktree, u64), Failure> {
    let named = args.place.named()?;
    let me = context::caller(None)?;
    if let Some(token) = args.token {
        return args.place.exclusive(me).map(|worktree| (worktree, token));
    }
    let run = context::lease_run().filter(|run| run.is_meant(named.as_ref()));
    let Some(run) = run else {
        return Err(Failure::usage("no token is given, and this doesn't run inside `lokt lease run`")
            .hint("pass --token; `lokt lease status` shows the current one, but only its holder should act under it"));
    };
    let worktree = of_run(&run, me)?;
    is_not_elsewhere(&context::current_dir()?, &worktree, run.token)?;
    has_lease(&worktree).map(|()| (worktree, run.token))
}

fn check(worktree: &Worktree, token: u64, words: &str, format: Format) -> Result<Report, Failure> {
    let record = match worktree.check_token(token)? {
        TokenCheck::Current(record) => record,
        TokenCheck::Denied(refused) => return Ok(denied::report(&asked(worktree, token, words), &refused, format)),
    };
    let name = worktree.name().as_str();
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Json => {
            report.json(&Current { status: "current", worktree: name, fencing_token: token, lock: record.members() })
        }
        Format::Text => report.text(format!("token {token} of worktree {} is good\n", quoted(name))).note(format!(
            "note: {} holds it until {}",
            holder(&record),
            until(&record, None)
        )),
    })
}

fn publish(
    worktree: &Worktree,
    token: u64,
    (source, target): (&Path, &Path),
    words: &str,
    format: Format,
) -> Result<Report, Failure> {
    let said = worktree.publish(token, source, target)?;
    let name = worktree.name().as_str();
    let report = match said.value {
        Publishing::Denied(refused) => {
            let report = denied::report(&asked(worktree, token, words), &refused, format);
            if format == Format::Json { report } else { report.note("note: nothing was published") }
        }
        Publishing::Published { bytes, .. } => {
            let report = Report::new(Exit::Done);
            let (source, target) = (source.to_string_lossy(), target.to_string_lossy());
            match format {
                Format::Json => report.json(&Published {
                    status: "published",
                    worktree: name,
                    fencing_token: token,
                    source: source.into_owned(),
                    target: target.into_owned(),
                    bytes,
                }),
                Format::Text => report.text(format!(
                    "published {} under token {token} of worktree {}\n",
                    clean(&target),
                    quoted(name)
                )),
            }
        }
    };
    Ok(report.warnings(said.warnings).changes())
}

fn asked<'a>(worktree: &'a Worktree, token: u64, words: &'a str) -> Question<'a> {
    Question { worktree, asked: Asked::Token(token), words, session_id: None, waited: None }
}
