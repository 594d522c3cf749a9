//! `lokt snapshot info`: the repository, the worktree, and what is kept of it.

use std::fmt::Write as _;

use lokt_core::lease::config::Isolation;
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::name::LockName;
use lokt_worktree::repo::Repository;
use lokt_worktree::snapshot::{Catalog, Consistency, LATEST, Listed, Named, SnapshotId};
use serde::Serialize;

use super::super::lease::place::Place;
use super::members::{Members, is_risky};
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, count, quoted, size};

/// Show the repository, and where the worktree is
#[derive(clap::Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct TrashJson {
    path: String,
    entries: u64,
}

#[derive(Serialize)]
struct Answer<'a> {
    repo_root: String,
    repo_id: &'a str,
    format_version: u64,
    worktree: &'a str,
    isolation: &'static str,
    worktree_count: usize,
    snapshot_count: usize,
    total_worktrees: usize,
    total_snapshots: usize,
    default_consistency: &'static str,
    default_isolation: &'static str,
    lease_duration_ms: u64,
    renew_interval_ms: u64,
    max_clock_skew_ms: u64,
    head: Option<&'a str>,
    latest: Option<Members<'a>>,
    risky_snapshots: Vec<&'a str>,
    pinned_snapshots: Vec<&'a str>,
    total_bytes: u64,
    partial_snapshots: usize,
    damaged_snapshots: usize,
    trash: TrashJson,
}

/// What is known.
struct Facts<'a> {
    repo: &'a Repository,
    catalog: &'a Catalog,
    name: &'a LockName,
    isolation: Isolation,
    worktrees: usize,
    policy: LeasePolicy,
    latest: Option<&'a Listed>,
    in_trash: u64,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    args.place.named()?;
    let (worktree, _) = args.place.open_leased(context::caller(None)?)?;
    let repo = worktree.repository();
    let catalog = repo.snapshots().catalog()?;
    let latest = match catalog.named(LATEST, Some(worktree.name())) {
        Named::Found(listed) => Some(*listed),
        _ => None,
    };
    // What can't be followed is `doctor`'s to say; here the numbers are those that count then.
    let policy = repo.policy().ok().and_then(|wish| wish.policy().ok()).unwrap_or(LeasePolicy::DEFAULT);
    let facts = Facts {
        repo,
        catalog: &catalog,
        name: worktree.name(),
        isolation: worktree.isolation(),
        worktrees: repo.worktrees()?.len(),
        policy,
        latest: latest.as_ref(),
        in_trash: repo.gc().in_trash()?,
    };
    let report = Report::new(Exit::Done);
    Ok(match format {
        Format::Json => report.json(&facts.json()),
        Format::Text => report.text(facts.text()),
    })
}

impl Facts<'_> {
    fn head(&self) -> Option<&str> {
        self.catalog.heads.get(self.name).map(SnapshotId::as_str)
    }

    fn ids(&self, which: impl Fn(&Listed) -> bool) -> Vec<&str> {
        let snapshots = self.catalog.snapshots.iter().filter(|listed| which(listed));
        snapshots.map(|listed| listed.descriptor.id.as_str()).collect()
    }

    fn bytes(&self) -> u64 {
        self.catalog.snapshots.iter().map(|listed| self.repo.snapshots().bytes_of(listed)).sum()
    }

    fn json(&self) -> Answer<'_> {
        let snapshots = self.catalog.snapshots.len();
        Answer {
            repo_root: self.repo.top().to_string_lossy().into_owned(),
            repo_id: self.repo.id(),
            format_version: self.repo.format(),
            worktree: self.name.as_str(),
            isolation: self.isolation.as_str(),
            worktree_count: self.worktrees,
            snapshot_count: snapshots,
            total_worktrees: self.worktrees,
            total_snapshots: snapshots,
            default_consistency: Consistency::Quiesced.as_str(),
            default_isolation: Isolation::default().as_str(),
            lease_duration_ms: self.policy.lease_ms,
            renew_interval_ms: self.policy.renew_ms,
            max_clock_skew_ms: self.policy.skew_ms,
            head: self.head(),
            latest: self.latest.map(|listed| Members::of(listed, Some(self.name))),
            risky_snapshots: self.ids(|listed| is_risky(&listed.descriptor)),
            pinned_snapshots: self.ids(|listed| listed.pinned),
            total_bytes: self.bytes(),
            partial_snapshots: self.catalog.unfinished.len(),
            damaged_snapshots: self.catalog.spoiled.len(),
            trash: TrashJson { path: self.repo.gc().trash().to_string_lossy().into_owned(), entries: self.in_trash },
        }
    }

    fn text(&self) -> String {
        let mut text = format!("repository {}\n", clean(&self.repo.top().to_string_lossy()));
        let mut line = |what: &str, words: &str| {
            let _ = writeln!(text, "  {:<10} {words}", format!("{what}:"));
        };
        line("id", &clean(self.repo.id()));
        line("format", &self.repo.format().to_string());
        line("worktrees", &self.worktrees.to_string());
        let snapshots = self.catalog.snapshots.len();
        let risky = self.ids(|listed| is_risky(&listed.descriptor)).len();
        let risky = if risky > 0 { format!(", {risky} of them [RISK]") } else { String::new() };
        // What did not change is stored once, however many have it.
        line("snapshots", &format!("{snapshots} with {} of files{risky}", size(self.bytes())));
        let running = self.catalog.unfinished.iter().filter(|unfinished| unfinished.running).count();
        let left = self.catalog.unfinished.len() - running;
        if running > 0 {
            line("running", &count(running as u64, "snapshot is being taken", "snapshots are being taken"));
        }
        if left > 0 {
            line("partial", &format!("{left}; `lokt doctor --strict --fix` removes what is left of them"));
        }
        if !self.catalog.spoiled.is_empty() {
            line("damaged", &format!("{}; `lokt snapshot verify --all` says what", self.catalog.spoiled.len()));
        }
        line("trash", &count(self.in_trash, "entry", "entries"));
        let _ = writeln!(text, "worktree {}", quoted(self.name.as_str()));
        let mut line = |what: &str, words: &str| {
            let _ = writeln!(text, "  {:<10} {words}", format!("{what}:"));
        };
        line("isolation", self.isolation.as_str());
        line("head", self.head().unwrap_or("none"));
        if let Some(latest) = self.latest {
            let note = latest.descriptor.note.as_deref().map(|note| format!(" {}", clean(note))).unwrap_or_default();
            let risk = if is_risky(&latest.descriptor) { " [RISK]" } else { "" };
            line("latest", &format!("{}{risk}{note}", latest.descriptor.id));
        }
        text
    }
}
