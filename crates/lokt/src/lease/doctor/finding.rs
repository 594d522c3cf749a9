//! What was found.

use std::fmt;
use std::path::PathBuf;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is wrong; somebody should know.
    Info,
    /// Something was left behind, or looks odd.
    Warning,
    /// A worktree or a lease can't be used as it is.
    Error,
    /// What is written can't be believed, or the repository can't be used.
    Critical,
}

impl Severity {
    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its stable name.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Where.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: String,
    /// What can be done about it.
    pub repair: Option<String>,
    /// `--fix` does that, also while others work.
    pub safe_auto: bool,
    /// What `--fix` did.
    pub fixed: Option<String>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its stable name.
    pub name: &'static str,
    /// What it found; nothing is good.
    pub findings: Vec<Finding>,
}

impl Finding {
    pub(super) fn new(code: &'static str, severity: Severity, path: PathBuf, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self { code, severity, path, problem, repair: None, safe_auto: false, fixed: None }
    }

    pub(super) fn info(code: &'static str, path: PathBuf, problem: impl Into<String>) -> Self {
        Self::new(code, Severity::Info, path, problem)
    }

    pub(super) fn warn(code: &'static str, path: PathBuf, problem: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, path, problem)
    }

    pub(super) fn error(code: &'static str, path: PathBuf, problem: impl Into<String>) -> Self {
        Self::new(code, Severity::Error, path, problem)
    }

    /// Somebody has to do it.
    #[must_use]
    pub(super) fn hint(mut self, repair: impl Into<String>) -> Self {
        self.repair = Some(repair.into());
        self
    }

    /// `--fix` does it.
    #[must_use]
    pub(super) fn mendable(mut self, repair: impl Into<String>) -> Self {
        self.repair = Some(repair.into());
        self.safe_auto = true;
        self
    }

    /// What came of a repair. `None`: when it was looked at again, it was no longer so.
    pub(super) fn after(mut self, repaired: Result<bool, impl fmt::Display>) -> Option<Self> {
        match repaired {
            Ok(true) => self.fixed.clone_from(&self.repair),
            Ok(false) => return None,
            Err(error) => self.problem = format!("{}; that could not be repaired: {error}", self.problem),
        }
        Some(self)
    }
}
