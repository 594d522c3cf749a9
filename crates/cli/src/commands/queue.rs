//! `lokt queue`: who waits for a lock, in order.

use std::fmt::Write as _;

use lokt::time::{parse_wall, show_wall_seconds};
use lokt::{Entry, EntryState, Lokt, Waiter};
use serde::Serialize;

use crate::args::lock_name;
use crate::context::Context;
use crate::exit::Exit;
use crate::members::{HolderMembers, text};
use crate::report::{Failure, Format, Report};
use crate::show::{age, clean, holder_line, quoted, seconds_since};

/// Show who waits for a lock, in order
#[derive(clap::Parser)]
pub(crate) struct Args {
    /// The lock's name
    name: String,
}

#[derive(Serialize)]
struct Queue<'a> {
    name: &'a str,
    held: bool,
    #[serde(flatten)]
    holder: HolderMembers,
    waiters: Vec<InLine>,
}

/// One who waits. Members that would be empty are left out.
#[derive(Serialize)]
pub(super) struct InLine {
    position: usize,
    ticket: u64,
    owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    pid: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    waiting_sec: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// It is stopped, or left a free lock alone: others go first until it wakes.
    passed_over: bool,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let name = lock_name(&args.name)?;
    let report = Report::new(Exit::Done);
    let lokt = Context::read()?.open()?;
    let (entry, line) = match &lokt {
        Some(lokt) => (lokt.entry(&name)?, lokt.queue(&name)?),
        None => (None, Vec::new()),
    };
    let held = entry.as_ref().is_some_and(Entry::is_live);
    Ok(match (format, lokt) {
        (Format::Json, lokt) => report.json(&Queue {
            name: name.as_str(),
            held,
            holder: lokt.as_ref().map(|lokt| holder(lokt, entry.as_ref())).unwrap_or_default(),
            waiters: lokt.map(|lokt| in_line(&lokt, &line)).unwrap_or_default(),
        }),
        (Format::Text, Some(lokt)) if !line.is_empty() => {
            report.text(table(&lokt, name.as_str(), entry.as_ref(), &line))
        }
        (Format::Text, _) => report.text(format!("nobody waits for lock {}\n", quoted(name.as_str()))),
    })
}

fn holder(lokt: &Lokt, entry: Option<&Entry>) -> HolderMembers {
    match entry.map(|entry| &entry.state) {
        Some(EntryState::Held(holder)) if holder.lives() => HolderMembers::of(lokt, holder, lokt.now().wall),
        _ => HolderMembers::default(),
    }
}

/// Those who wait, as JSON.
pub(super) fn in_line(lokt: &Lokt, line: &[Waiter]) -> Vec<InLine> {
    let now = lokt.now();
    let one = |(place, waiter): (usize, &Waiter)| {
        let pulse = &waiter.pulse;
        let since = parse_wall(&pulse.since);
        InLine {
            position: place + 1,
            ticket: waiter.ticket.number,
            owner: pulse.owner.clone(),
            agent_id: text(&pulse.agent_id),
            pid: pulse.process.pid,
            since: since.map(show_wall_seconds),
            waiting_sec: seconds_since(since, now.wall),
            reason: pulse.reason.clone().filter(|reason| !reason.is_empty()),
            passed_over: !waiter.ticket.counts(now.monotonic_ms),
        }
    };
    line.iter().enumerate().map(one).collect()
}

fn table(lokt: &Lokt, name: &str, entry: Option<&Entry>, line: &[Waiter]) -> String {
    let now = lokt.now();
    let mut text = match entry.map(|entry| &entry.state) {
        Some(EntryState::Held(holder)) if holder.lives() => {
            let hold = &holder.hold;
            format!("lock {} held by {} for {}\n", quoted(name), holder_line(hold), age(hold.began(), now.wall))
        }
        _ => format!("lock {} is free\n", quoted(name)),
    };
    for (place, waiter) in line.iter().enumerate() {
        let _ = writeln!(text, "{:>3}. {}", place + 1, waits(lokt, waiter));
    }
    text
}

/// One who waits, as a line of text.
pub(super) fn waits(lokt: &Lokt, waiter: &Waiter) -> String {
    let (pulse, now) = (&waiter.pulse, lokt.now());
    let agent = if pulse.agent_id.is_empty() { String::new() } else { format!(" (agent: {})", clean(&pulse.agent_id)) };
    let waits = age(parse_wall(&pulse.since), now.wall);
    let mut text = format!("{}{agent} (pid {})  waiting {waits}", clean(&pulse.owner), pulse.process.pid);
    if !waiter.ticket.counts(now.monotonic_ms) {
        text.push_str(" [PASSED OVER]");
    }
    if let Some(reason) = pulse.reason.as_deref().filter(|reason| !reason.is_empty()) {
        let _ = write!(text, "  {}", clean(reason));
    }
    text
}
