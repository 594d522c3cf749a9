//! `lokt doctor --strict`: what is wrong with a repository of worktrees, and what to do about it.

use std::fmt::Write as _;

use lokt::lease::doctor::{Check, Checkup, Finding, Severity, examine};
use serde::Serialize;

use super::doctor::SHOWN_MAX;
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
    let me = context::whoever(None)?;
    let dir = context::current_dir()?;
    let checkup = examine(&dir, &me, fix)?.ok_or_else(|| no_repository(&dir))?;
    let report = Report::new(if status(checkup.worst()) == "fail" { Exit::Failed } else { Exit::Done });
    Ok(match format {
        Format::Json => report.json(&Answer {
            repository: checkup.repository.to_string_lossy().into_owned(),
            checks: checkup.checks.iter().map(check_json).collect(),
            overall: status(checkup.worst()),
        }),
        Format::Text => report.text(text(&checkup)),
    })
}

/// As the checks of a root have it.
fn status(worst: Option<Severity>) -> &'static str {
    match worst {
        None | Some(Severity::Info) => "ok",
        Some(Severity::Warning) => "warn",
        Some(Severity::Error | Severity::Critical) => "fail",
    }
}

/// The worst of what is not repaired.
fn worst(check: &Check) -> Option<Severity> {
    check.findings.iter().filter(|finding| finding.fixed.is_none()).map(|finding| finding.severity).max()
}

/// One finding is the check's own; several are listed.
fn check_json(check: &Check) -> CheckJson<'_> {
    let status = status(worst(check));
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
        path: finding.path.to_string_lossy().into_owned(),
        message: &finding.problem,
        repair: finding.repair.as_deref(),
        safe_auto: finding.safe_auto,
        fixed: finding.fixed.as_deref(),
    }
}

fn text(checkup: &Checkup) -> String {
    let mut text = String::from("lokt doctor --strict\n\n");
    let _ = writeln!(text, "Repository: {}\n\nChecks:", clean(&checkup.repository.to_string_lossy()));
    checkup.checks.iter().for_each(|check| row(&mut text, check));
    let result = match status(checkup.worst()) {
        "ok" => "PASS",
        "warn" => "PASS with warnings",
        _ => "FAIL",
    };
    let _ = writeln!(text, "\nResult: {result}");
    text
}

fn row(text: &mut String, check: &Check) {
    let fixed = check.findings.iter().any(|finding| finding.fixed.is_some());
    let mark = match status(worst(check)) {
        "ok" if fixed => "[FIXED]",
        "ok" => "[OK]",
        "warn" => "[WARN]",
        _ => "[FAIL]",
    };
    let _ = writeln!(text, "  {mark:<7} {}", label(check.name));
    for finding in check.findings.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "          {}: {}", finding.code, clean(&finding.problem));
        let path = clean(&finding.path.to_string_lossy());
        if !finding.problem.contains(&path) {
            let _ = writeln!(text, "          path: {path}");
        }
        let (what, words) = match (&finding.fixed, &finding.repair) {
            (Some(fixed), _) => ("fixed", fixed),
            (None, Some(repair)) if finding.safe_auto => ("with `lokt doctor --strict --fix`", repair),
            (None, Some(repair)) => ("hint", repair),
            (None, None) => continue,
        };
        let _ = writeln!(text, "          {what}: {}", clean(words));
    }
    if check.findings.len() > SHOWN_MAX {
        let _ = writeln!(text, "          and {} more; --json lists all", check.findings.len() - SHOWN_MAX);
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
