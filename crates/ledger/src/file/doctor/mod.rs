//! Problems around the events, and their repair.
//!
//! Checks acquire no lock. Repairs acquire both and check again inside: what was found outside may
//! have been work in progress. A repair loses nothing. The file in an event's place is exchanged
//! atomically with its replacement, and is in `.lokt/aside` from then on. A repair that is killed
//! leaves one or the other.
//!
//! | file | what it checks |
//! | --- | --- |
//! | [`lock`] | the lock that all programs share |
//! | [`temps`] | files that were left behind by writers |
//! | [`events`] | gaps, damage, events that were replaced or that the af program refuses |
//! | [`modes`] | who may read and write events |
//! | [`lock_files`] | claims as files, which few programs know |
//! | [`mend`] | the repair of each |

mod events;
mod lock;
mod lock_files;
mod mend;
mod modes;
mod temps;

use std::path::PathBuf;

use lokt_core::checkup::{Finding, Fix};
use lokt_core::ledger::seq::Seq;

use self::mend::mend;
use super::FileLog;
use crate::answers::Progress;
use crate::verify::stray;
use lokt_sys::error::Error;
use lokt_sys::warnings::{Warning, WithWarnings};

/// A problem, and its repair.
struct Repairable {
    problem: Finding,
    repair: Option<Repair>,
}

/// The position of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Outside,
    /// Both locks are ours.
    Inside,
}

/// A repair.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Repair {
    /// Taking the lock, which replaces what was left behind.
    Lock,
    /// Restoring the event that lokt wrote.
    Restore(Seq),
    /// Putting an event without content in its place.
    Neutralise(Seq),
    /// Putting events without content into a gap.
    Fill(Seq, Seq),
    /// Removing these files.
    Remove(Vec<String>),
    /// Making these events readable for all, and writable for their owner only.
    Mode(Vec<Seq>),
}

/// The checks of one ledger.
#[derive(Clone, Copy)]
struct Doctor<'l> {
    log: &'l FileLog,
}

impl FileLog {
    /// Problems around the events. With `fix`, repairs them.
    pub(crate) fn doctor(&self, fix: bool, progress: &mut Progress<'_>) -> Result<WithWarnings<Vec<Finding>>, Error> {
        Doctor { log: self }.run(fix, progress)
    }
}

impl Doctor<'_> {
    fn run(self, fix: bool, progress: &mut Progress<'_>) -> Result<WithWarnings<Vec<Finding>>, Error> {
        let mut warnings = Vec::new();
        let found = self.lock_finding()?;
        let mut findings = self.examine(Where::Outside, &mut warnings, progress)?;
        let wants = |finding: &Repairable| finding.repair.is_some();
        if fix && (found.iter().any(wants) || findings.iter().any(wants)) {
            return mend(self, found, findings, progress);
        }
        findings.splice(0..0, found);
        Ok(WithWarnings { value: findings.into_iter().map(|finding| finding.problem).collect(), warnings })
    }

    /// Runs all checks but that of the lock.
    fn examine(
        self,
        from: Where,
        warnings: &mut Vec<Warning>,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<Repairable>, Error> {
        let names = self.log.names()?;
        let mut findings = self.temp_findings(from)?;
        findings.extend(self.event_findings(&names, warnings, progress));
        findings.extend(self.mode_finding(&names));
        findings.extend(names.strays.iter().map(|(name, oddity)| Repairable::only(stray(self.log, name, *oddity))));
        findings.extend(self.lock_file_findings()?);
        Ok(findings)
    }
}

impl Repairable {
    /// A finding without a repair.
    fn only(problem: Finding) -> Self {
        Self { problem, repair: None }
    }

    fn new(code: &'static str, message: String) -> Self {
        Self::only(Finding::error(message).code(code))
    }

    fn at(mut self, seq: Seq, path: PathBuf) -> Self {
        self.problem = self.problem.seq(seq.get());
        self.path(path)
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers build the path for the finding")]
    fn path(mut self, path: PathBuf) -> Self {
        self.problem = self.problem.at(path.display());
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.problem.hint = Some(hint.into());
        self
    }

    /// Adds a repair and its description.
    fn repair(mut self, repair: Repair, how: impl Into<String>) -> Self {
        self.problem.fix = Fix::Possible(how.into());
        self.repair = Some(repair);
        self
    }
}
