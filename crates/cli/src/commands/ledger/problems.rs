//! What is wrong with a ledger, said in text or JSON.

use lokt_ledger::{Finding, Fix};
use lokt_named::doctor::Status;
use serde::Serialize;

use super::super::checkup;
use crate::show::clean;

/// A problem in JSON. Members that would be empty are left out.
#[derive(Serialize)]
pub(super) struct ProblemJson<'a> {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// `no`, `possible`, `done` or `failed`
    fix: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix_message: Option<&'a str>,
}

impl<'a> ProblemJson<'a> {
    pub(super) fn of(problem: &'a Finding) -> Self {
        let (fix, fix_message) = match &problem.fix {
            Fix::No => ("no", None),
            Fix::Possible(how) => ("possible", Some(how.as_str())),
            Fix::Done(how) => ("done", Some(how.as_str())),
            Fix::Failed(why) => ("failed", Some(why.as_str())),
        };
        Self {
            code: problem.code,
            seq: problem.seq,
            path: problem.path.as_deref(),
            message: &problem.message,
            hint: problem.hint.as_deref(),
            fix,
            fix_message,
        }
    }
}

/// Is nothing left to be done about it?
pub(super) fn is_settled(problem: &Finding) -> bool {
    matches!(problem.fix, Fix::Done(_))
}

/// A problem and what to do about it, for people.
pub(super) fn paragraph(text: &mut String, problem: &Finding, would_fix: bool) {
    let status = if is_settled(problem) { Status::Ok } else { Status::Fail };
    let words = format!("{}: {}", problem.code, clean(&problem.message));
    checkup::heading(text, checkup::mark(status, true), &words);
    let path = problem.path.clone().filter(|path| !problem.message.contains(&clean(path)));
    let fix = match &problem.fix {
        Fix::No => None,
        Fix::Possible(how) if would_fix => Some(("would fix", how)),
        Fix::Possible(how) => Some(("with `lokt ledger doctor --fix`", how)),
        Fix::Done(how) => Some(("fixed", how)),
        Fix::Failed(why) => Some(("not fixed", why)),
    };
    let details = [path.map(|path| ("file", path)), problem.hint.clone().map(|hint| ("hint", hint))];
    let fix = fix.map(|(what, how)| (what, how.clone()));
    checkup::details(text, &details.into_iter().flatten().chain(fix).collect::<Vec<_>>());
}
