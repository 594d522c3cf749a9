//! What a check found, and what was done about it.

use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Nothing is wrong, or not any more.
    Ok,
    /// Something that people should know.
    Warn,
    /// Something that keeps lokt from working, or from being believed.
    Fail,
}

impl Status {
    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One thing that a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is now.
    pub status: Status,
    /// What it is.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What was done about it.
    pub fixed: Option<String>,
}

impl Finding {
    fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), hint: None, fixed: None }
    }

    /// Worth saying, but nothing is wrong.
    pub(super) fn note(message: impl Into<String>) -> Self {
        Self::new(Status::Ok, message)
    }

    pub(super) fn warn(message: impl Into<String>) -> Self {
        Self::new(Status::Warn, message)
    }

    pub(super) fn fail(message: impl Into<String>) -> Self {
        Self::new(Status::Fail, message)
    }

    /// Couldn't be looked at.
    pub(super) fn skipped(why: impl fmt::Display) -> Self {
        Self::warn(format!("not looked at: {why}"))
    }

    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What came of an attempt to repair it. `None`: when it was looked at again, inside the mutex, it was no longer so.
    pub(super) fn after(self, repair: Result<Option<String>, impl fmt::Display>) -> Option<Self> {
        match repair {
            Ok(Some(done)) => Some(Self { status: Status::Ok, hint: None, fixed: Some(done), ..self }),
            Ok(None) => None,
            Err(error) => {
                Some(Self { message: format!("{}; that could not be repaired: {error}", self.message), ..self })
            }
        }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its stable name.
    pub name: &'static str,
    /// What it found; nothing is good.
    pub findings: Vec<Finding>,
}

impl Check {
    pub(super) fn new(name: &'static str, findings: impl IntoIterator<Item = Finding>) -> Self {
        Self { name, findings: findings.into_iter().collect() }
    }

    /// The worst of what it found.
    pub fn status(&self) -> Status {
        self.findings.iter().map(|finding| finding.status).max().unwrap_or(Status::Ok)
    }
}

/// All checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkup {
    /// In a fixed order.
    pub checks: Vec<Check>,
}

impl Checkup {
    /// The worst of all.
    pub fn overall(&self) -> Status {
        self.checks.iter().map(Check::status).max().unwrap_or(Status::Ok)
    }
}
