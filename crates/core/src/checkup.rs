//! The findings of a doctor: the problems, their severity, and possible repairs.
//!
//! The doctors of named locks, ledgers and worktrees answer in these types.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth reporting, but nothing is wrong.
    Info,
    /// Something was left behind, or is unusual.
    Warning,
    /// Something can't be used as it is.
    Error,
    /// Data can't be trusted, or nothing can be used.
    Critical,
}

impl Severity {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// The result of a check, or of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Nothing is wrong, or it has been repaired.
    Ok,
    /// Something that users should know.
    Warn,
    /// Something that prevents work, or makes answers unreliable.
    Fail,
}

impl Status {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl From<Severity> for Status {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Info => Self::Ok,
            Severity::Warning => Self::Warn,
            Severity::Error | Severity::Critical => Self::Fail,
        }
    }
}

/// The repair of a finding by `--fix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// There is no safe repair.
    No,
    /// It can be repaired in this way, also while other processes work.
    Possible(String),
    /// It was repaired in this way.
    Done(String),
    /// The repair failed, for this reason.
    Failed(String),
}

/// One finding of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A stable code: that of the problem, or else the name of the check.
    pub code: &'static str,
    /// Its severity, if it isn't repaired.
    pub severity: Severity,
    /// The number of the event, if it is about one.
    pub seq: Option<u64>,
    /// The file or directory, as text, if it is about one.
    pub path: Option<String>,
    /// The problem.
    pub message: String,
    /// Advice to the user.
    pub hint: Option<String>,
    /// Its repair by `--fix`.
    pub fix: Fix,
}

impl Finding {
    /// A finding without a code, a place or a hint.
    pub fn new(severity: Severity, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code: "", severity, seq: None, path: None, message, hint: None, fix: Fix::No }
    }

    /// Something worth reporting; nothing is wrong.
    pub fn info(message: impl Into<String>) -> Self {
        Self::new(Severity::Info, message)
    }

    /// Something left behind, or unusual.
    pub fn warn(message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, message)
    }

    /// Something that can't be used as it is.
    pub fn error(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message)
    }

    /// A check that couldn't be made.
    pub fn skipped(why: impl fmt::Display) -> Self {
        Self::warn(format!("not looked at: {why}"))
    }

    /// Sets the stable code.
    #[must_use]
    pub fn code(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    /// Sets the number of the event.
    #[must_use]
    pub fn seq(self, seq: u64) -> Self {
        Self { seq: Some(seq), ..self }
    }

    /// Sets the file or directory.
    #[must_use]
    pub fn at(self, path: impl fmt::Display) -> Self {
        Self { path: Some(path.to_string()), ..self }
    }

    /// Sets the advice to the user.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Sets how `--fix` can repair it.
    #[must_use]
    pub fn fixable(self, how: impl Into<String>) -> Self {
        Self { fix: Fix::Possible(how.into()), ..self }
    }

    /// The finding after an attempt to repair it, which says what it did. `Ok(None)`: the problem
    /// had disappeared when the repair checked again.
    pub fn after(self, repair: Result<Option<String>, impl fmt::Display>) -> Option<Self> {
        match repair {
            Ok(Some(done)) => Some(Self { hint: None, fix: Fix::Done(done), ..self }),
            Ok(None) => None,
            Err(error) => {
                let message = format!("{}; that could not be repaired: {error}", self.message);
                Some(Self { message, ..self })
            }
        }
    }

    /// Returns the repair that was made.
    pub fn fixed(&self) -> Option<&str> {
        match &self.fix {
            Fix::Done(how) => Some(how),
            Fix::No | Fix::Possible(_) | Fix::Failed(_) => None,
        }
    }

    /// Returns its status, which is `Ok` once it is repaired.
    pub fn status(&self) -> Status {
        self.unfixed().map_or(Status::Ok, Status::from)
    }

    fn unfixed(&self) -> Option<Severity> {
        self.fixed().is_none().then_some(self.severity)
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its stable name.
    pub name: &'static str,
    /// Its findings; empty if nothing was found.
    pub findings: Vec<Finding>,
}

impl Check {
    /// A check with its findings. Those without a code get the check's name.
    pub fn new(name: &'static str, findings: impl IntoIterator<Item = Finding>) -> Self {
        let named = |finding: Finding| if finding.code.is_empty() { finding.code(name) } else { finding };
        Self { name, findings: findings.into_iter().map(named).collect() }
    }

    /// The worst of its findings.
    pub fn status(&self) -> Status {
        self.findings.iter().map(Finding::status).max().unwrap_or(Status::Ok)
    }
}

/// All checks of a doctor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkup {
    /// The checks, in a fixed order.
    pub checks: Vec<Check>,
}

impl Checkup {
    /// The worst of all checks.
    pub fn overall(&self) -> Status {
        self.checks.iter().map(Check::status).max().unwrap_or(Status::Ok)
    }

    /// The severity of the worst finding that isn't repaired.
    pub fn worst(&self) -> Option<Severity> {
        self.checks.iter().flat_map(|check| &check.findings).filter_map(Finding::unfixed).max()
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::{Check, Checkup, Finding, Fix, Severity, Status};

    #[test]
    fn a_repaired_finding_no_longer_counts() {
        let repair = |outcome: Result<Option<&str>, &str>| {
            let finding = Finding::error("broken").hint("mend it").fixable("remove it");
            finding.after(outcome.map(|done| done.map(ToString::to_string)))
        };
        let fixed = repair(Ok(Some("removed"))).expect("it was there");
        assert_eq!((fixed.status(), fixed.fixed(), &fixed.hint), (Status::Ok, Some("removed"), &None));
        assert_eq!(repair(Ok(None)), None, "it had disappeared");
        let failed = repair(Err("no permission")).expect("it is still there");
        assert_eq!(failed.message, "broken; that could not be repaired: no permission");
        assert_eq!((failed.status(), failed.fix), (Status::Fail, Fix::Possible("remove it".to_string())));
    }

    #[test]
    fn the_worst_finding_decides() {
        let check = Check::new("locks", [Finding::info("fine"), Finding::warn("odd").code("odd_lock")]);
        assert_eq!((check.findings[0].code, check.findings[1].code), ("locks", "odd_lock"));
        assert_eq!(check.status(), Status::Warn);
        let critical = Check::new("log", [Finding::new(Severity::Critical, "broken")]);
        let checkup = Checkup { checks: [check, critical].into() };
        assert_eq!((checkup.overall(), checkup.worst()), (Status::Fail, Some(Severity::Critical)));
        assert_eq!((Checkup { checks: [].into() }).overall(), Status::Ok);
    }
}
