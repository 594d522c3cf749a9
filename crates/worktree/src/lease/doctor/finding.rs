//! Findings about a repository: each has a code and a path.

use std::path::PathBuf;

use lokt_core::checkup::{Finding, Severity};

pub(super) fn info(code: &'static str, path: PathBuf, problem: impl Into<String>) -> Finding {
    new(code, Severity::Info, path, problem)
}

pub(super) fn warn(code: &'static str, path: PathBuf, problem: impl Into<String>) -> Finding {
    new(code, Severity::Warning, path, problem)
}

pub(super) fn error(code: &'static str, path: PathBuf, problem: impl Into<String>) -> Finding {
    new(code, Severity::Error, path, problem)
}

pub(super) fn critical(code: &'static str, path: PathBuf, problem: impl Into<String>) -> Finding {
    new(code, Severity::Critical, path, problem)
}

#[expect(clippy::needless_pass_by_value, reason = "callers build the path for the finding")]
fn new(code: &'static str, severity: Severity, path: PathBuf, problem: impl Into<String>) -> Finding {
    Finding::new(severity, problem).code(code).at(path.display())
}
