//! `lokt doctor --strict`: what is wrong with a repository of worktrees, and what to do about it.

use lokt_worktree::lease::doctor::{Check, Examined, Finding, Fix, Status, examine};
use serde::Serialize;

use super::checkup::{self, CheckText, FindingText};
use super::lease::place::no_repository;
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::clean;

#[derive(Serialize)]
struct Answer<'a> {
    repository: String,
    checks: Vec<CheckJson<'a>>,
    overall: &'static str,
}

#[derive(Serialize)]
struct CheckJson<'a> {
    name: &'a str,
    status: &'static str,
    #[serde(flatten)]
    finding: Option<FindingJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<FindingJson<'a>>,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    code: &'a str,
    severity: &'static str,
    path: String,
    message: &'a str,
    /// What helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    repair: Option<&'a str>,
    /// `--fix` does it, also while others work.
    safe_auto: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed: Option<&'a str>,
}

pub(super) fn run(fix: bool, format: Format) -> Result<Report, Failure> {
    let me = context::caller(None)?;
    let dir = context::current_dir()?;
    let examined = examine(&dir, &me, fix)?.ok_or_else(|| no_repository(&dir))?;
    let overall = examined.checkup.overall();
    let report = Report::new(if overall == Status::Fail { Exit::Failed } else { Exit::Done });
    Ok(match format {
        Format::Json => report.json(&Answer {
            repository: examined.repository.to_string_lossy().into_owned(),
            checks: examined.checkup.checks.iter().map(check_json).collect(),
            overall: overall.as_str(),
        }),
        Format::Text => report.text(text(&examined)),
    })
}

/// What helps: `--fix`, or the user.
fn repair(finding: &Finding) -> Option<&str> {
    match &finding.fix {
        Fix::Possible(how) | Fix::Done(how) => Some(how),
        Fix::No | Fix::Failed(_) => finding.hint.as_deref(),
    }
}

/// One finding is the check's own; several are listed.
fn check_json(check: &Check) -> CheckJson<'_> {
    let status = check.status().as_str();
    let (finding, findings) = match check.findings.as_slice() {
        [one] => (Some(finding_json(one)), Vec::new()),
        several => (None, several.iter().map(finding_json).collect()),
    };
    CheckJson { name: check.name, status, finding, findings }
}

fn finding_json(finding: &Finding) -> FindingJson<'_> {
    FindingJson {
        code: finding.code,
        severity: finding.severity.as_str(),
        path: finding.path.clone().unwrap_or_default(),
        message: &finding.message,
        repair: repair(finding),
        safe_auto: matches!(finding.fix, Fix::Possible(_) | Fix::Done(_)),
        fixed: finding.fixed(),
    }
}

fn text(examined: &Examined) -> String {
    let head = format!("lokt doctor --strict\n\nRepository: {}", clean(&examined.repository.to_string_lossy()));
    let checkup = &examined.checkup;
    checkup::text(&head, checkup.overall(), checkup.checks.iter().map(check_text))
}

fn check_text(check: &Check) -> CheckText<'_> {
    CheckText {
        label: label(check.name),
        status: check.status(),
        fixed: check.findings.iter().any(|finding| finding.fixed().is_some()),
        findings: check.findings.iter().map(finding_text).collect(),
    }
}

fn finding_text(finding: &Finding) -> FindingText {
    let path = finding.path.clone().unwrap_or_default();
    let path = (!finding.message.contains(&clean(&path))).then_some(("path", path));
    let what = match &finding.fix {
        Fix::Done(_) => "fixed",
        Fix::Possible(_) => "with `lokt doctor --strict --fix`",
        Fix::No | Fix::Failed(_) => "hint",
    };
    let next = repair(finding).map(|words| (what, words.to_owned()));
    FindingText {
        message: format!("{}: {}", finding.code, clean(&finding.message)),
        details: path.into_iter().chain(next).collect(),
    }
}

fn label(name: &str) -> &str {
    match name {
        "repository" => "Repository",
        "worktrees" => "Worktrees",
        "leases" => "Leases",
        "snapshots" => "Snapshots",
        "temp_files" => "Nothing left behind",
        "clock_offset" => "Clocks",
        "audit_log" => "Audit log",
        name => name,
    }
}
