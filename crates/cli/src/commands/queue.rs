//! `lokt queue`: who waits for a lock, in order.

use std::fmt::Write as _;

use lokt_core::denial::{Denial, Holder};
use lokt_core::time::{parse_wall, show_wall_seconds};
use lokt_named::{Entry, EntryState, Lokt, Waiter};
use serde::Serialize;

use crate::args::{RootArg, lock_name};
use crate::context::Context;
use crate::exit::Exit;
use crate::members::{FreezeMembers, HolderMembers, text};
use crate::report::{Failure, Format, Report};
use crate::show::{Subject, age, clean, holder_line, quoted, reason, refusal, seconds_since};

/// Show who waits for a lock, in order
#[derive(clap::Parser)]
pub(crate) struct Args {
    /// The lock's name
    name: String,
    #[command(flatten)]
    root: RootArg,
}

#[derive(Serialize)]
struct Queue<'a> {
    name: &'a str,
    held: bool,
    #[serde(flatten)]
    holder: HolderMembers,
    /// A freeze keeps them waiting, whether it is held or not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    frozen: bool,
    #[serde(flatten)]
    freeze: FreezeMembers,
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
    let lokt = Context::read(&args.root)?.open()?;
    let (entry, line) = match &lokt {
        Some(lokt) => (lokt.inspect().entry(&name)?, lokt.inspect().queue(&name)?),
        None => (None, Vec::new()),
    };
    let held = entry.as_ref().is_some_and(Entry::is_live);
    let frozen = lokt.as_ref().and_then(|lokt| lokt.freezes().frozen(&name));
    Ok(match (format, lokt) {
        (Format::Json, lokt) => report.json(&Queue {
            name: name.as_str(),
            held,
            holder: lokt.as_ref().map(|lokt| holder(lokt, entry.as_ref())).unwrap_or_default(),
            frozen: frozen.is_some(),
            freeze: match (&lokt, &frozen) {
                (Some(lokt), Some(Ok(freeze))) => FreezeMembers::of(freeze, lokt.now().wall),
                _ => FreezeMembers::default(),
            },
            waiters: lokt.map(|lokt| in_line(&lokt, &line)).unwrap_or_default(),
        }),
        (Format::Text, Some(lokt)) if !line.is_empty() => {
            let frozen = frozen.map(|frozen| freeze_line(&lokt, name.as_str(), frozen));
            report.text(table(&lokt, name.as_str(), entry.as_ref(), frozen, &line))
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

/// What keeps everybody waiting, whoever holds it.
fn freeze_line(lokt: &Lokt, name: &str, frozen: Result<Box<Holder>, String>) -> String {
    let denial = Denial::Frozen(frozen.ok());
    let why = denial.holder().and_then(|freeze| reason(&freeze.hold)).map(|why| format!(": {}", clean(why)));
    let line = refusal(Subject::Lock, name, &denial, "", lokt.now().wall);
    format!("{line}{}\n", why.unwrap_or_default())
}

fn table(lokt: &Lokt, name: &str, entry: Option<&Entry>, frozen: Option<String>, line: &[Waiter]) -> String {
    let now = lokt.now();
    let mut text = match entry.map(|entry| &entry.state) {
        Some(EntryState::Held(holder)) if holder.lives() => {
            let hold = &holder.hold;
            format!("lock {} held by {} for {}\n", quoted(name), holder_line(hold), age(hold.began(), now.wall))
        }
        _ if frozen.is_some() => String::new(),
        _ => format!("lock {} is free\n", quoted(name)),
    };
    text.extend(frozen);
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
