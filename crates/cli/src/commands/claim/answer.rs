//! A claim that was made or goes on, said in text or JSON.

use lokt_core::hold::Hold;
use lokt_core::ledger::seq::Seq;
use lokt_core::time::show_wall_seconds;
use lokt_ledger::{Claimed, How};
use serde::Serialize;

use super::holder::claimant;
use crate::exit::Exit;
use crate::report::{Format, Report};
use crate::show::{clean, quoted};

/// What every answer about a claim has.
#[derive(Serialize)]
pub(super) struct Claim<'a> {
    status: &'static str,
    node: &'a str,
    owner: &'a str,
    seq: u64,
    token: u64,
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_sec: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_owner: Option<&'a str>,
    dry_run: bool,
}

impl<'a> Claim<'a> {
    /// One that has ended.
    pub(super) fn released(node: &'a str, owner: &'a str, seq: Seq, token: Seq, dry_run: bool) -> Self {
        let status = if dry_run { "would_release" } else { "released" };
        let (seq, token) = (seq.get(), token.get());
        Self { status, node, owner, seq, token, expires_at: None, ttl_sec: None, previous_owner: None, dry_run }
    }
}

/// Says that a claim was made or got a new end. `extended`: that is all that was asked for.
pub(super) fn report(claimed: &Claimed, extended: bool, dry_run: bool, format: Format) -> Report {
    let (done, would, status) = match (&claimed.how, extended) {
        (_, true) => ("extended the claim on", "would extend the claim on", ["extended", "would_extend"]),
        (How::Refreshed, _) => ("refreshed the claim on", "would refresh the claim on", ["refreshed", "would_refresh"]),
        (How::New | How::TookOver { .. }, _) => ("claimed", "would claim", ["claimed", "would_claim"]),
    };
    // Two who share an owner's name both get it; at least they are told.
    let before = claimed.before.as_deref().filter(|_| !extended).map(made_by).unwrap_or_default();
    let previous_owner = match &claimed.how {
        How::TookOver { from } => Some(from.as_str()),
        How::New | How::Refreshed => None,
    };
    let report = Report::new(Exit::Done);
    let end = show_wall_seconds(claimed.expires_at);
    match format {
        Format::Json => report.json(&Claim {
            status: status[usize::from(dry_run)],
            node: &claimed.node,
            owner: &claimed.owner,
            seq: claimed.seq.get(),
            token: claimed.token.get(),
            expires_at: Some(end),
            ttl_sec: Some(claimed.ttl_sec),
            previous_owner,
            dry_run,
        }),
        Format::Text => {
            let (node, token) = (quoted(&claimed.node), claimed.token);
            let what = if dry_run { would } else { done };
            let report = report.text(format!("{what} node {node}{before} with token {token} until {end}\n"));
            report.notes(previous_owner.map(|owner| format!("note: the claim of {} had expired", clean(owner))))
        }
    }
}

/// ` that alice@host (pid 42) made at 2026-11-16T08:00:00Z,`
fn made_by(hold: &Hold) -> String {
    let (done, at) = match (hold.began(), hold.acquired) {
        (Some(began), Some(renewed)) if began != renewed => ("refreshed last", Some(renewed)),
        (began, _) => ("made", began),
    };
    let at = at.map(|at| format!(" at {}", show_wall_seconds(at))).unwrap_or_default();
    format!(" that {} {done}{at},", claimant(hold))
}
