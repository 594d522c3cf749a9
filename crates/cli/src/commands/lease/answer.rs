//! A lease that was granted or goes on, said in text or JSON.

use lokt_core::hold::Fence;
use lokt_core::lease::evidence::Evidence;
use lokt_core::lease::record::Record as LeaseRecord;
use lokt_worktree::lease::Lease;
use serde::Serialize;
use serde_json::{Map, Value};

use super::holder::{at, by, holder, span, token};
use super::wish::Asker;
use crate::exit::Exit;
use crate::report::{Format, Report};
use crate::show::{clean, quoted};

/// What every answer about a lease has.
#[derive(Serialize)]
pub(super) struct Answer<'a> {
    pub(super) status: &'static str,
    pub(super) worktree: &'a str,
    pub(super) fencing_token: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) evidence: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) old_holder_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) old_fencing_token: Option<u64>,
    pub(super) lock: Map<String, Value>,
}

/// Says that a lease is ours. `words`: how it was named on the command line.
pub(super) fn granted(asker: &Asker, lease: &Lease, words: &str, format: Format) -> Report {
    let report = Report::new(Exit::Done);
    let worktree = asker.worktree.name().as_str();
    let record = &lease.record;
    let before = lease.stolen.as_ref().and_then(|(before, _)| before.as_ref());
    let evidence = lease.stolen.as_ref().map(|(_, evidence)| *evidence);
    match format {
        Format::Json => report.json(&Answer {
            status: if lease.stolen.is_some() { "stolen" } else { "acquired" },
            worktree,
            fencing_token: lease.token.get(),
            session: Some(asker.session_path.to_string_lossy().into_owned()),
            evidence: evidence.map(Evidence::as_str),
            old_holder_id: before.map(|before| before.holder_id.as_str()),
            old_fencing_token: before.and_then(|before| before.token).map(Fence::get),
            lock: record.members(),
        }),
        Format::Text => {
            let (name, ends) = (quoted(worktree), ends(record));
            let what = if lease.stolen.is_some() { "stole" } else { "acquired" };
            let report = report.text(format!("{what} the lease of worktree {name}, token {}, {ends}\n", lease.token));
            let stolen = evidence.map(|evidence| match before {
                Some(before) => {
                    format!("note: it was {}{}, and is over: {}", holder(before), token(before), by(evidence))
                }
                None => format!("note: what was there could not be read, and is over: {}", by(evidence)),
            });
            report
                .notes(stolen)
                .note(format!("note: whoever has {} is its holder", clean(&asker.session_path.to_string_lossy())))
                .note(format!(
                    "hint: `lokt lease renew{words}` within {} keeps it, `lokt lease release{words}` gives it back, `lokt lease fence \
                     publish --token {} SOURCE TARGET{}` publishes under it",
                    span(record.policy.lease_ms),
                    lease.token,
                    place(words),
                ))
        }
    }
}

/// `until 2026-11-16T08:00:30Z (in 30s)`, just after it was granted or renewed.
pub(super) fn ends(record: &LeaseRecord) -> String {
    format!("until {} (in {})", at(record.lease_expires_at, record.policy), span(record.policy.lease_ms))
}

/// Of the words for a worktree and a session, those for the worktree: a token needs no session, nor does force.
pub(super) fn place(words: &str) -> String {
    let worktree = words.strip_prefix(" --worktree ").and_then(|rest| rest.split(' ').next());
    worktree.map(|name| format!(" --worktree {name}")).unwrap_or_default()
}
