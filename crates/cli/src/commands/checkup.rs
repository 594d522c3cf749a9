//! The findings of the three doctors in text: of a root, of a lokt repository and of a ledger.

use std::fmt::Write as _;

use lokt_named::doctor::Status;

use crate::show::clean;

/// Maximum number of findings of a check in text; JSON has all.
const SHOWN_MAX: usize = 10;

/// The findings of one check.
pub(super) struct CheckText<'a> {
    pub(super) label: &'a str,
    pub(super) status: Status,
    /// Something was repaired.
    pub(super) fixed: bool,
    pub(super) findings: Vec<FindingText>,
}

/// One finding: a message, and lines below it with a word for what each says.
pub(super) struct FindingText {
    pub(super) message: String,
    pub(super) details: Vec<(&'static str, String)>,
}

/// A whole checkup. `head` names what was examined.
pub(super) fn text<'a>(head: &str, overall: Status, checks: impl Iterator<Item = CheckText<'a>>) -> String {
    let mut text = format!("{head}\n\nChecks:\n");
    for check in checks {
        heading(&mut text, mark(check.status, check.fixed), check.label);
        for finding in check.findings.iter().take(SHOWN_MAX) {
            let _ = writeln!(text, "          {}", finding.message);
            details(&mut text, &finding.details);
        }
        if check.findings.len() > SHOWN_MAX {
            let _ = writeln!(text, "          and {} more; --json lists all", check.findings.len() - SHOWN_MAX);
        }
    }
    let result = match overall {
        Status::Ok => "PASS",
        Status::Warn => "PASS with warnings",
        Status::Fail => "FAIL",
    };
    let _ = writeln!(text, "\nResult: {result}");
    text
}

/// The first line of a check or a problem.
pub(super) fn heading(text: &mut String, mark: &str, words: &str) {
    let _ = writeln!(text, "  {mark:<7} {words}");
}

/// The lines below a finding.
pub(super) fn details(text: &mut String, details: &[(&'static str, String)]) {
    for (what, words) in details {
        let _ = writeln!(text, "          {what}: {}", clean(words));
    }
}

pub(super) fn mark(status: Status, fixed: bool) -> &'static str {
    match status {
        Status::Ok if fixed => "[FIXED]",
        Status::Ok => "[OK]",
        Status::Warn => "[WARN]",
        Status::Fail => "[FAIL]",
    }
}
