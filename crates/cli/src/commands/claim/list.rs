//! `lokt claim list`: who has which node.

use jiff::Timestamp;
use lokt_core::denial::Holder;
use lokt_core::hold::Fence;
use lokt_core::time::show_wall_seconds;
use lokt_ledger::ClaimEntry;
use serde::Serialize;

use super::super::ledger::place::Place;
use super::holder::{claimant, expires_at, until};
use crate::exit::Exit;
use crate::machine;
use crate::members::text;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted, seconds};

/// Show who has claimed which node
#[derive(clap::Parser)]
pub(crate) struct Args {
    /// Only this node; it is an error if nobody has claimed it
    #[arg(id = "nodes", value_name = "NODE")]
    node: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Row<'a> {
    status: &'static str,
    node: &'a str,
    owner: &'a str,
    seq: Option<u64>,
    token: Option<u64>,
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_sec: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_file: Option<String>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let ledger = args.place.open()?;
    let said = ledger.claims()?;
    let wanted = |entry: &&ClaimEntry| args.node.as_ref().is_none_or(|node| *node == entry.node);
    let entries: Vec<&ClaimEntry> = said.value.iter().filter(wanted).collect();
    if let (Some(node), true) = (&args.node, entries.is_empty()) {
        return Err(Failure::new(Exit::Missing, "E_NOT_FOUND", format!("nobody has claimed node {}", quoted(node)))
            .hint("`lokt claim list` shows all claims"));
    }
    let report = Report::new(Exit::Done);
    let report = match (format, entries.as_slice()) {
        (Format::Json, [one]) if args.node.is_some() => report.json(&row(one)),
        (Format::Json, all) => report.json(&all.iter().map(|entry| row(entry)).collect::<Vec<_>>()),
        (Format::Text, []) => report.text("no claims\n"),
        (Format::Text, all) => {
            let now = machine::now().wall;
            report.text(all.iter().map(|entry| line(entry, now)).collect::<String>())
        }
    };
    Ok(report.warnings(said.warnings))
}

fn row(entry: &ClaimEntry) -> Row<'_> {
    let hold = &entry.holder.hold;
    let token = hold.token.map(Fence::get);
    Row {
        status: if entry.holder.lives() { "claimed" } else { "expired" },
        node: &entry.node,
        owner: &hold.owner,
        seq: token,
        token,
        expires_at: expires_at(hold),
        claimed_at: hold.began().map(show_wall_seconds),
        remaining_sec: Some(&entry.holder).filter(|holder| holder.lives()).and_then(Holder::left_ms).map(seconds),
        host: text(&hold.host),
        pid: Some(hold.pid).filter(|pid| *pid > 0),
        lock_file: entry.lock_file.as_ref().map(|path| path.to_string_lossy().into_owned()),
    }
}

fn line(entry: &ClaimEntry, now: Timestamp) -> String {
    let hold = &entry.holder.hold;
    let token = hold.token.map(|token| format!("  token {token}")).unwrap_or_default();
    let file = entry.lock_file.as_ref().map(|path| format!("  ({})", clean(&path.to_string_lossy())));
    let (node, file) = (clean(&entry.node), file.unwrap_or_default());
    format!("{node}  {}{token}  {}{file}\n", claimant(hold), until(&entry.holder, now))
}
