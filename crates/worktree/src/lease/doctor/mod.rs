//! `doctor --strict`: problems of a repository, and repairs that are possible while others work.
//!
//! An examination changes nothing, except that it stores a first sighting. A repair checks again
//! first, by the same operations as every command. It updates the view from the chain, it removes
//! what can't belong to any process any more, and it never touches anything that may be live. A
//! file without an owner that could be asked must be at least a minute old, and older than any
//! lease that it may be a part of.
//!
//! | file | what it examines |
//! | --- | --- |
//! | `finding` | constructors of findings |
//! | `places` | worktrees, their directories and names |
//! | `snapshots` | snapshots, remains of unfinished ones, intents |
//! | `leases` | views, other programs' locks, links, pulses, staged files, sightings |
//! | `temps` | files that were left behind |
//! | `clock` | whether our clock agrees with the file system's |
//! | `trail` | the audit log |

mod clock;
mod finding;
mod leases;
mod places;
mod snapshots;
mod temps;
mod trail;

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use lokt_core::hold::Identity;
use lokt_core::time::millis_between;

pub use lokt_core::checkup::{Check, Checkup, Finding, Fix, Severity, Status};

use crate::repo::{Repository, nearest};
use leases::LeaseExam;
use lokt_sys::disk::Stamp;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::exchange::{Taken, take_if};
use snapshots::SnapshotExam;

/// Minimum age in ms of a file without an owner that could be asked, before it may be removed.
const LEFT_BEHIND_MS: u64 = 60_000;

/// The checkup of a repository.
#[derive(Debug)]
pub struct Examined {
    /// The directory with `.jvs` in it.
    pub repository: PathBuf,
    /// Its checks.
    pub checkup: Checkup,
}

/// Examines the repository that contains `dir`; `None` if there is none. With `fix`, repairs what
/// can be repaired while others work.
pub fn examine(dir: &Path, me: &Identity, fix: bool) -> Result<Option<Examined>, Error> {
    match Repository::find(dir, me.clone()) {
        Ok(None) => Ok(None),
        Ok(Some(repo)) => Ok(Some(examine_one(&repo, fix))),
        Err(error) if matches!(error.kind(), ErrorKind::Format | ErrorKind::Damaged | ErrorKind::NotARecord) => {
            let repository = nearest(dir).unwrap_or_else(|| dir.to_owned());
            let code = if error.kind() == ErrorKind::Format { "E_FORMAT_UNSUPPORTED" } else { "E_CORRUPT" };
            let finding = finding::critical(code, repository.join(".jvs"), error.to_string());
            let finding = finding.hint(error.next_step().unwrap_or("put back what was there, or remove that file"));
            let checks = vec![Check::new("repository", [finding])];
            Ok(Some(Examined { repository, checkup: Checkup { checks } }))
        }
        Err(error) => Err(error),
    }
}

/// Examines a repository that is already open.
pub fn examine_one(repo: &Repository, fix: bool) -> Examined {
    let exam = Exam { repo, fix, clock: repo.disk.file_clock().ok().flatten() };
    let checks = vec![
        Check::new("repository", exam.configuration().into_iter().chain(exam.format())),
        Check::new("worktrees", exam.worktrees()),
        Check::new("leases", LeaseExam { exam: &exam }.findings()),
        Check::new("snapshots", SnapshotExam { exam: &exam }.findings()),
        Check::new("temp_files", exam.temps()),
        Check::new("clock_offset", exam.clock_offset()),
        Check::new("audit_log", exam.audit_log()),
    ];
    Examined { repository: repo.top.clone(), checkup: Checkup { checks } }
}

/// An examination.
struct Exam<'r> {
    repo: &'r Repository,
    fix: bool,
    /// Time by the file system's clock when the examination began.
    clock: Option<Timestamp>,
}

impl Exam<'_> {
    fn at(&self, path: &str) -> PathBuf {
        self.repo.path.join(path)
    }

    /// Finds an unreadable configuration. Without it the defaults apply, except for callers that
    /// ask for a lease.
    fn configuration(&self) -> Option<Finding> {
        let error = self.repo.policy().err()?;
        let finding = finding::error("E_CORRUPT", self.at("config.json"), error.to_string());
        Some(finding.hint(error.next_step().unwrap_or_default()))
    }

    /// Finds snapshots that `jvs` can't read, in a repository that it may use: `jvs` deletes what
    /// it can't reach.
    fn format(&self) -> Option<Finding> {
        if !self.repo.jvs_format().is_read() {
            return None;
        }
        let words = self.repo.jvs_format().words().ok()?;
        let first = words.ours.first()?;
        let path = self.at("format_version");
        let count = words.ours.len();
        if words.theirs == 0 {
            let problem = format!(
                "an earlier lokt made this repository with a format that jvs takes for its own; `jvs gc` would delete snapshots \
                 of it ({count}, the first is {first})"
            );
            let finding = finding::warn("old_format", path, problem).fixable("give it the format that jvs refuses");
            return self.mend(finding, || self.repo.jvs_format().get_own_format());
        }
        let problem = format!(
            "{count} of the snapshots here (the first is {first}) are described in words that jvs can't read, and jvs has snapshots \
             here, too: `jvs gc` deletes what it finds no way to"
        );
        let hint = "don't run `jvs gc` here; to keep jvs out for good, write 2 into that file: lokt reads all of them";
        Some(finding::warn("mixed_descriptors", path, problem).hint(hint))
    }

    /// Repairs the finding, if asked to. `Ok(false)`: the problem no longer existed when it was
    /// checked again.
    fn mend(&self, finding: Finding, repair: impl FnOnce() -> Result<bool, Error>) -> Option<Finding> {
        match finding.fix.clone() {
            Fix::Possible(how) if self.fix => finding.after(repair().map(|done| done.then_some(how))),
            _ => Some(finding),
        }
    }

    /// Returns how long (in ms) a file has not been written to, by the clock of the file system; 0
    /// if that is unknown.
    fn unwritten_ms(&self, stamp: &Stamp) -> u64 {
        self.since(Some(stamp.modified))
    }

    /// Returns how long (in ms) a file has had its names.
    fn unmoved_ms(&self, path: &str) -> u64 {
        self.since(self.repo.disk.changed(path).ok().flatten())
    }

    fn since(&self, then: Option<Timestamp>) -> u64 {
        let Some((then, now)) = then.zip(self.clock) else { return 0 };
        u64::try_from(millis_between(then, now)).unwrap_or(0)
    }

    /// Removes the judged file, but not another one of the same name.
    fn remove_judged(&self, path: &str, judged: &Stamp) -> Result<bool, Error> {
        let disk = &*self.repo.disk;
        let dir = path.rsplit_once('/').map_or(String::new(), |(dir, _)| format!("{dir}/"));
        let aside = format!("{dir}.lokt-{:032x}.tmp", self.repo.random()?);
        let failed = |error| Error::io("remove", &self.at(path), error);
        let is_judged = |temp: &str| disk.stamp(temp).map(|found| found.as_ref() == Some(judged));
        match take_if(disk, path, &aside, is_judged).map_err(failed)? {
            Taken::Missing | Taken::Restored => Ok(false),
            Taken::Taken => disk.remove(&aside).map(|()| true).map_err(failed),
            // A newer one is there; the displaced one was visible only for a moment.
            Taken::Displaced(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                disk.remove(&aside).map(|()| false).map_err(failed)
            }
            Taken::Displaced(error) | Taken::Unjudged(error) => Err(failed(error)),
        }
    }
}
