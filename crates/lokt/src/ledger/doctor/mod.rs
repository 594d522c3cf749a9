//! What is wrong around the events, and what can be done about it.
//!
//! Looking takes no lock. Mending takes both, and looks again inside: what was so outside may have been on its way. Nothing is ever lost by
//! it. What stands in an event's place is exchanged, in one step, with what shall stand there, and is in `.lokt/aside` from then on; a
//! mender that is killed leaves the one or the other.
//!
//! | file | what it looks at |
//! | --- | --- |
//! | [`lock`] | the lock that all programs share |
//! | [`temps`] | files that were left behind by writers |
//! | [`events`] | gaps, damage, events that were replaced or that the native program refuses |
//! | [`modes`] | who may read and write events |
//! | [`lock_files`] | claims as files, which few programs know |
//! | [`mend`] | how each of them is mended |

mod events;
mod lock;
mod lock_files;
mod mend;
mod modes;
mod temps;

use std::path::PathBuf;

use lokt_core::ledger::seq::Seq;

use super::Ledger;
use super::answers::{Fix, Problem, Progress};
use super::verify::stray;
use crate::error::Error;
use crate::locks::Said;

/// A problem, and how to mend it.
struct Finding {
    problem: Problem,
    repair: Option<Repair>,
}

/// Where it is looked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Outside,
    /// Both locks are ours.
    Inside,
}

/// How to mend something.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Repair {
    /// By taking the lock, which replaces what was left behind.
    Lock,
    /// Bring back the event that lokt wrote.
    Restore(Seq),
    /// Put an event that says nothing in its place.
    Neutralise(Seq),
    /// Put events that say nothing where nothing is.
    Fill(Seq, Seq),
    /// Remove these files.
    Remove(Vec<String>),
    /// Make these events readable, and writable for their owner only.
    Mode(Vec<Seq>),
}

impl Ledger {
    /// What is wrong around the events: locks and files left behind, and what the native program would refuse. With `fix`, mends it.
    pub fn doctor(&self, fix: bool, progress: &mut Progress<'_>) -> Result<Said<Vec<Problem>>, Error> {
        let mut warnings = Vec::new();
        let found = self.lock_finding()?;
        let mut findings = self.examine(Where::Outside, &mut warnings, progress)?;
        let wants = |finding: &Finding| finding.repair.is_some();
        if fix && (found.iter().any(wants) || findings.iter().any(wants)) {
            return self.mend(found, findings, progress);
        }
        findings.splice(0..0, found);
        Ok(Said { value: findings.into_iter().map(|finding| finding.problem).collect(), warnings })
    }

    /// All checks but that of the lock.
    fn examine(
        &self,
        from: Where,
        warnings: &mut Vec<String>,
        progress: &mut Progress<'_>,
    ) -> Result<Vec<Finding>, Error> {
        let names = self.names()?;
        let mut findings = self.temp_findings(from)?;
        findings.extend(self.event_findings(&names, warnings, progress));
        findings.extend(self.mode_finding(&names));
        findings.extend(names.strays.iter().map(|(name, oddity)| Finding::only(stray(self, name, *oddity))));
        findings.extend(self.lock_file_findings()?);
        Ok(findings)
    }
}

impl Finding {
    /// Something that nothing is done about.
    fn only(problem: Problem) -> Self {
        Self { problem, repair: None }
    }

    fn new(code: &'static str, message: String) -> Self {
        Self::only(Problem { code, seq: None, path: None, message, hint: None, fix: Fix::No })
    }

    fn at(mut self, seq: Seq, path: PathBuf) -> Self {
        self.problem.seq = Some(seq.get());
        self.problem.path = Some(path);
        self
    }

    fn path(mut self, path: PathBuf) -> Self {
        self.problem.path = Some(path);
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.problem.hint = Some(hint.into());
        self
    }

    /// Can be mended, and how that is called.
    fn repair(mut self, repair: Repair, how: impl Into<String>) -> Self {
        self.problem.fix = Fix::Possible(how.into());
        self.repair = Some(repair);
        self
    }
}
