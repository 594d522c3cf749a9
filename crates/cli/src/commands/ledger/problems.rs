//! What is wrong with a ledger, said in text or JSON.

use std::fmt::Write as _;

use lokt::ledger::{Fix, Problem};
use serde::Serialize;

use crate::show::clean;

/// A problem in JSON. Members that would be empty are left out.
#[derive(Serialize)]
pub(super) struct ProblemJson<'a> {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// `no`, `possible`, `done` or `failed`
    fix: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix_message: Option<&'a str>,
}

impl<'a> ProblemJson<'a> {
    pub(super) fn of(problem: &'a Problem) -> Self {
        let (fix, fix_message) = match &problem.fix {
            Fix::No => ("no", None),
            Fix::Possible(how) => ("possible", Some(how.as_str())),
            Fix::Done(how) => ("done", Some(how.as_str())),
            Fix::Failed(why) => ("failed", Some(why.as_str())),
        };
        Self {
            code: problem.code,
            seq: problem.seq,
            path: problem.path.as_ref().map(|path| path.to_string_lossy().into_owned()),
            message: &problem.message,
            hint: problem.hint.as_deref(),
            fix,
            fix_message,
        }
    }
}

/// Is nothing left to be done about it?
pub(super) fn is_settled(problem: &Problem) -> bool {
    matches!(problem.fix, Fix::Done(_))
}

/// A problem and what to do about it, for people.
pub(super) fn paragraph(text: &mut String, problem: &Problem, would_fix: bool) {
    let mark = if is_settled(problem) { "[FIXED]" } else { "[FAIL]" };
    let _ = writeln!(text, "  {mark:<7} {}: {}", problem.code, clean(&problem.message));
    let path = problem.path.as_ref().map(|path| clean(&path.to_string_lossy()));
    if let Some(path) = path.filter(|path| !problem.message.contains(path.as_str())) {
        let _ = writeln!(text, "          file: {path}");
    }
    if let Some(hint) = &problem.hint {
        let _ = writeln!(text, "          hint: {}", clean(hint));
    }
    let (what, how) = match &problem.fix {
        Fix::No => return,
        Fix::Possible(how) if would_fix => ("would fix", how),
        Fix::Possible(how) => ("with `lokt ledger doctor --fix`", how),
        Fix::Done(how) => ("fixed", how),
        Fix::Failed(why) => ("not fixed", why),
    };
    let _ = writeln!(text, "          {what}: {}", clean(how));
}
