//! `lokt lock`: take a lock for this owner, or refresh it.

use std::time::Duration;

use lokt_core::decide::{Broken, Terms};
use lokt_core::duration;
use lokt_core::hold::{Hold, Part};
use lokt_core::name::LockName;
use lokt_core::time::{plus_seconds, show_wall_seconds};
use lokt_named::{Grant, Granted, Lokt};
use lokt_sys::wait_policy::{WaitPolicy, Waiting};
use lokt_sys::warnings::WithWarnings;
use serde::Serialize;

use super::deny;
use super::waiting::{Display, LockWait, inbox, interrupted};
use crate::args::{QueueArgs, QuietArg, RootArg, lease_seconds, lock_name, parse_pid, parse_ttl};
use crate::context::Context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{age, clean, moved_aside, owner_at, pid_of, quoted};

/// Take a lock for this owner, or refresh it
#[derive(clap::Parser)]
pub(crate) struct Args {
    /// The lock's name: letters, digits, dots, hyphens and underscores
    name: String,
    /// End it by itself after this long (90, 1500ms, 90s, 5m, 1h30m, 2d; rounded up to seconds)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, allow_hyphen_values = true)]
    ttl: Option<Duration>,
    /// End it when this process ends
    #[arg(long, value_name = "PID", value_parser = parse_pid, allow_negative_numbers = true)]
    bind: Option<i64>,
    #[command(flatten)]
    queue: QueueArgs,
    /// Say why; shown to everyone who is refused
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    quiet: QuietArg,
    #[command(flatten)]
    root: RootArg,
}

#[derive(Serialize)]
struct Acquired<'a> {
    status: &'static str,
    name: &'a str,
    refreshed: bool,
    /// It was refreshed under a new token, because somebody may have acted on its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_token: Option<bool>,
    owner: &'a str,
    lock_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fencing_token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_sec: Option<i64>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    Ok(answer(args, format)?.quiet(args.quiet.quiet, format))
}

fn answer(args: &Args, format: Format) -> Result<Report, Failure> {
    let name = lock_name(&args.name)?;
    let context = Context::read(&args.root)?;
    let lokt = context.create(args.quiet.quiet)?;
    let terms = Terms { ttl_sec: lease_seconds(args.ttl), reason: args.reason.clone() };
    let said = match args.queue.timeout() {
        timeout if timeout.is_once() => ask(args, &lokt, &name, terms, &context, &mut WaitPolicy::none())?,
        timeout => {
            let mut inbox = inbox()?;
            let may_deadlock = context.holds.iter().next().is_some();
            let mut display = Display::new(LockWait::new(&lokt, may_deadlock), args.quiet.quiet);
            let mut tell = |waiting: &Waiting<'_>| display.show(waiting);
            let mut patience = WaitPolicy { timeout, alarm: Some(&mut inbox), tell: Some(&mut tell) };
            let said = ask(args, &lokt, &name, terms, &context, &mut patience)?;
            let got = matches!(said.value, Grant::Granted(_));
            display.end(name.as_str(), got);
            if let (Grant::Interrupted, Some(signal)) = (&said.value, inbox.ended_by()) {
                return Ok(interrupted("lock", name.as_str(), signal, format));
            }
            said
        }
    };
    let granted = match said.value {
        Grant::Granted(granted) => granted,
        Grant::Interrupted => unreachable!("only a signal interrupts a wait"),
        Grant::Denied(refused) => {
            return Ok(deny::report(&lokt, name.as_str(), &refused, format).warnings(said.warnings));
        }
    };
    let report = Report::new(Exit::Done).warnings(said.warnings);
    let hold = &granted.hold;
    Ok(match format {
        Format::Json => report.json(&Acquired {
            status: "acquired",
            name: name.as_str(),
            refreshed: granted.refreshed,
            new_token: (granted.refreshed && granted.before.as_ref().is_some_and(|before| before.token != hold.token))
                .then_some(true),
            owner: &hold.owner,
            lock_id: hold.lock_id.as_str(),
            fencing_token: hold.token.map(lokt_core::hold::Fence::get),
            expires_at: hold.expires_at.map(show_wall_seconds),
            ttl_sec: Some(hold.ttl_sec).filter(|ttl| *ttl > 0),
        }),
        Format::Text => {
            let report = report.text(format!("acquired lock {}\n", quoted(name.as_str())));
            report.notes(remarks(&context, &lokt, &granted))
        }
    })
}

fn ask(
    args: &Args,
    lokt: &Lokt,
    name: &LockName,
    terms: Terms,
    context: &Context,
    patience: &mut WaitPolicy<'_>,
) -> Result<WithWarnings<Grant>, Failure> {
    Ok(match args.bind {
        Some(pid) => lokt.bind_in_line(name, terms, pid, &context.holds, patience)?,
        None => lokt.take_in_line(name, terms, &context.holds, patience)?,
    })
}

/// What the user should know about this lock.
fn remarks(context: &Context, lokt: &Lokt, granted: &Granted) -> Vec<String> {
    let now = lokt.now().wall;
    let hold = &granted.hold;
    let mut notes = Vec::new();
    match (granted.broken, &granted.before) {
        (Some(Broken::Stale(why)), Some(before)) => {
            notes.push(format!("note: broke the stale lock of {} ({})", owner_at(before), why.as_str()));
        }
        (Some(Broken::Corrupt), _) => {
            let aside = granted.aside.as_deref().unwrap_or("state/aside");
            notes.push(moved_aside(&context.root.path, aside));
        }
        _ => {}
    }
    if let (true, Some(before)) = (granted.refreshed, &granted.before) {
        let since = age(before.began(), now);
        if let (Some(old), Some(new)) = (before.token.filter(|_| before.token != hold.token), hold.token) {
            // It was free in between: somebody else could have had it.
            notes.push(format!(
                "note: the lock of {} had ended; it is taken again, with token {new} (it was {old})",
                owner_at(before)
            ));
        } else if hold.pulse.is_some() {
            notes.push(format!(
                "note: joined the lock that another process of the same owner ({}), a guard (pid {}), has held for {since}; \
                 you don't exclude each other",
                clean(&hold.owner),
                hold.pid
            ));
        } else if hold.has_foreign_process() {
            notes.push(format!(
                "note: joined the lock that another program's process of the same owner ({}), pid {}, has held for {since}",
                clean(&hold.owner),
                hold.pid
            ));
            notes.push(
                "warning: that program doesn't know of this: when it renews its lock or ends, your part of it is lost"
                    .into(),
            );
        } else if context.named_owner {
            notes.push(format!("note: refreshed the lock that {} has held for {since}", owner_at(before)));
        } else {
            // Without LOKT_OWNER everyone logged in as this user is one owner, which is seldom what was meant.
            notes.push(format!(
                "note: joined a lock that {}{} has held for {since}; set LOKT_OWNER to a name of your own to exclude each other",
                owner_at(before),
                pid_of(before)
            ));
        }
    }
    notes.push(format!("note: {}", what_ends(hold)));
    notes
}

/// What will end this hold.
fn what_ends(hold: &Hold) -> String {
    let unlock = format!("`lokt unlock {}`", clean(&hold.name));
    let (process, owner) =
        hold.parts.as_ref().map_or((None, None), |parts| (parts.process.as_ref(), parts.owner.as_ref()));
    let end = |part: &Part| part.ttl_sec.map(|ttl_sec| show_wall_seconds(plus_seconds(part.since, ttl_sec)));
    let or_at = |part| end(part).map(|end| format!(" (at the latest at {end})")).unwrap_or_default();
    match (process, owner, hold.expires_at) {
        (Some(process), Some(owner), _) => format!(
            "it ends when both have happened: process {} ends{}, {unlock}{}",
            hold.pid,
            or_at(process),
            or_at(owner)
        ),
        (Some(_), None, None) => format!("it ends with process {}", hold.pid),
        (Some(_), None, Some(end)) => {
            format!("it ends with process {}, at the latest at {}", hold.pid, show_wall_seconds(end))
        }
        (None, _, None) => format!("it has no TTL: only {unlock} ends it"),
        (None, _, Some(end)) => {
            format!("it ends at {} (in {})", show_wall_seconds(end), duration::show_seconds(hold.ttl_sec))
        }
    }
}
