//! A worktree that was made, renamed or removed, and what kept it from that.

use clap::ValueEnum;
use lokt_core::lease::config::Isolation;
use lokt_core::name::LockName;
use lokt_core::time::show_wall_seconds;
use lokt_worktree::lease::LeaseRefusal;
use lokt_worktree::repo::{Changing, Repository, WorktreeEntry};
use serde::Serialize;

use super::super::lease::denied::{self, Asked, Question};
use super::super::lease::place::{existing, missing};
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted};

/// `--isolation`
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// One writer at a time, who holds the lease
    #[default]
    Exclusive,
    /// Everybody writes; there is no lease
    Shared,
}

impl From<Kind> for Isolation {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Exclusive => Self::Exclusive,
            Kind::Shared => Self::Shared,
        }
    }
}

/// A worktree in JSON.
#[derive(Serialize)]
pub(super) struct EntryJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<&'static str>,
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) old_name: Option<&'a str>,
    pub(super) path: String,
    pub(super) isolation: &'static str,
    pub(super) created_at: Option<String>,
    pub(super) has_payload: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<&'a str>,
}

impl<'a> EntryJson<'a> {
    pub(super) fn of(entry: &'a WorktreeEntry) -> Self {
        Self {
            status: None,
            name: entry.name.as_str(),
            old_name: None,
            path: entry.path.to_string_lossy().into_owned(),
            isolation: entry.isolation.as_str(),
            created_at: entry.created_at.map(show_wall_seconds),
            has_payload: entry.has_payload,
            problem: entry.problem.as_deref(),
        }
    }
}

/// Answers a change of the worktree `name`, to `new` if it gets another name. `done`: what is said of one that was made.
pub(super) fn report(
    repo: &Repository,
    name: &LockName,
    changing: Changing,
    format: Format,
    done: impl FnOnce(&WorktreeEntry) -> Report,
) -> Result<Report, Failure> {
    match changing {
        Changing::Done(entry) => Ok(done(&entry)),
        Changing::Missing => Err(missing(repo, name)),
        Changing::Exists(other) => {
            let message = format!("there is a worktree {} already", quoted(other.as_str()));
            let hint = "choose another name; `lokt worktree list` shows them. Names that differ only in upper and lower case are the \
                        same to some file systems";
            Err(Failure::new(Exit::Failed, "E_EXISTS", message).hint(hint))
        }
        Changing::NotEmpty(path) => {
            let path = clean(&path.to_string_lossy());
            let message = format!("worktree {} is not empty: {path}", quoted(name.as_str()));
            let hint = format!("`lokt worktree remove {name} --force` removes it with everything in it");
            Err(Failure::new(Exit::Failed, "E_NOT_EMPTY", message).hint(hint))
        }
        Changing::Leased(refused) => leased(repo, name, &refused, format),
    }
}

fn leased(repo: &Repository, name: &LockName, refused: &LeaseRefusal, format: Format) -> Result<Report, Failure> {
    let worktree = existing(repo, name)?;
    let words = format!(" --worktree {name}");
    let (session_id, waited) = (None, None);
    let question = Question { worktree: &worktree, asked: Asked::Change, words: &words, session_id, waited };
    Ok(denied::report(&question, refused, format))
}

/// `main` is what others look for.
pub(super) fn not_main(name: &LockName, what: &str) -> Result<(), Failure> {
    if name.as_str() == "main" {
        let message = format!("worktree \"main\" can't be {what}");
        return Err(Failure::new(Exit::Usage, "E_NAME_INVALID", message)
            .hint("every repository has one; `lokt worktree list` shows the others"));
    }
    Ok(())
}
