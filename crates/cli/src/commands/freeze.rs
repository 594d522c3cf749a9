//! `lokt freeze`: nothing new is granted under a name until it is unfrozen.

use std::io::IsTerminal as _;
use std::time::Duration;

use jiff::Timestamp;
use lokt_core::decide::Terms;
use lokt_core::denial::{Denial, Holder};
use lokt_core::duration;
use lokt_core::hold::{Hold, PartKind};
use lokt_core::name::LockName;
use lokt_core::time::show_wall_seconds;
use lokt_named::{Drained, Freezing, FrozenNow, Lokt};
use lokt_sys::wait_policy::{Timeout, WaitPolicy, Waiting};
use serde::Serialize;

use super::deny;
use super::waiting::{CLEAR, fitting, inbox};
use crate::args::{QuietArg, RootArg, lease_seconds, lock_name, parse_timeout, parse_ttl, waiting_time};
use crate::context::Context;
use crate::exit::Exit;
use crate::members::HolderMembers;
use crate::report::{self, Failure, Format, Report, say};
use crate::show::{Subject, age, clean, holder_line, quoted, reason, until};

/// Keep everybody from getting a lock, until it is unfrozen
#[derive(clap::Parser)]
#[command(
    after_help = "What holds the lock goes on; so do its renewals and what runs inside it. Those who wait in line stay there. \
    The owner of a freeze may freeze again, which gives it a new end."
)]
pub(crate) struct Args {
    /// The lock's name
    name: String,
    /// End it by itself after this long (90, 1500ms, 90s, 5m, 1h30m, 2d; rounded up to seconds)
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, allow_hyphen_values = true)]
    ttl: Option<Duration>,
    /// Say why; shown to everyone who is refused
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Then wait until no process runs under the lock, for at most 10 minutes
    #[arg(long)]
    drain: bool,
    /// Wait for that for at most this long; 0 looks once, `never` waits without a limit
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout, allow_hyphen_values = true, requires = "drain")]
    timeout: Option<Timeout>,
    #[command(flatten)]
    quiet: QuietArg,
    #[command(flatten)]
    root: RootArg,
}

#[derive(Serialize)]
struct Frozen<'a> {
    status: &'static str,
    name: &'a str,
    /// It was frozen by this owner already, and got a new end.
    extended: bool,
    owner: &'a str,
    lock_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_sec: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// Something still holds the lock.
    held: bool,
    #[serde(flatten)]
    holder: HolderMembers,
    /// With `--drain`: no process runs under it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    drained: Option<bool>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    Ok(attempt(args, format)?.quiet(args.quiet.quiet, format))
}

fn attempt(args: &Args, format: Format) -> Result<Report, Failure> {
    let name = lock_name(&args.name)?;
    let context = Context::read(&args.root)?;
    let lokt = context.create(args.quiet.quiet)?;
    if args.drain && runs_under(&context, &lokt, &name) {
        let message = format!("--drain would wait for the guard of {} that this runs under", quoted(name.as_str()));
        return Err(Failure::usage(message).hint("freeze it without --drain, or from outside"));
    }
    let terms = Terms { ttl_sec: lease_seconds(args.ttl), reason: args.reason.clone() };
    let said = lokt.freezes().freeze(&name, terms)?;
    let frozen = match said.value {
        Freezing::Frozen(frozen) => frozen,
        Freezing::Denied(refused) => {
            let report = deny::report_about(Subject::Freeze, &lokt, name.as_str(), &refused, format);
            return Ok(report.warnings(said.warnings));
        }
    };
    let span = match frozen.freeze.ttl_sec {
        0 => String::new(),
        ttl_sec => format!(" for {}", duration::show_seconds(ttl_sec)),
    };
    let mut answer = format!("frozen {}{span}\n", quoted(name.as_str()));
    if args.drain && !args.quiet.quiet && format == Format::Text {
        // Printed before the wait: it is true already. Nobody may read it; the exit code is still true.
        let _ = report::answer(&std::mem::take(&mut answer));
    }
    let (drained, signal) = if args.drain { drain(&lokt, &name, args)? } else { (None, None) };
    // It is frozen, whatever stands where the lock's record should be. What can't be read counts as held.
    let (holder, unread) =
        lokt.freezes().still_held(&name).map_or_else(|error| (None, Some(error)), |holder| (holder, None));
    let exit = match (&drained, signal) {
        (_, Some(signal)) => Exit::of_signal(signal),
        (Some(Drained::TimedOut(_)), None) => Exit::Held,
        _ => Exit::Done,
    };
    let unread_note = unread.as_ref().map(|error| format!("what holds the lock can't be told: {error}"));
    let report = Report::new(exit).warnings(said.warnings).warnings(unread_note);
    let now = lokt.now().wall;
    Ok(match format {
        Format::Json => report.json(&Frozen {
            status: "frozen",
            name: name.as_str(),
            extended: is_extended(&frozen),
            owner: &frozen.freeze.owner,
            lock_id: frozen.freeze.lock_id.as_str(),
            expires_at: frozen.freeze.expires_at.map(show_wall_seconds),
            ttl_sec: Some(frozen.freeze.ttl_sec).filter(|ttl| *ttl > 0),
            reason: reason(&frozen.freeze),
            held: holder.is_some() || unread.is_some(),
            holder: holder.as_ref().map(|holder| HolderMembers::of(&lokt, holder, now)).unwrap_or_default(),
            drained: drained.map(|drained| matches!(drained, Drained::Empty)),
        }),
        Format::Text => report
            .text(answer)
            .notes(remarks(&name, &frozen, holder.as_ref(), args.drain, now))
            .notes(drained.map(|drained| outcome(&name, &drained, now))),
    })
}

/// Is what holds the lock the guard that this runs under?
fn runs_under(context: &Context, lokt: &Lokt, name: &LockName) -> bool {
    let holder = lokt.freezes().still_held(name).ok().flatten();
    context
        .holds
        .of(name)
        .zip(holder)
        .is_some_and(|(inherited_hold, holder)| inherited_hold.lock_id == holder.hold.lock_id)
}

fn is_extended(frozen: &FrozenNow) -> bool {
    frozen.before.is_some() && !frozen.replaced
}

/// What the user should know about this freeze.
fn remarks(name: &LockName, frozen: &FrozenNow, holder: Option<&Holder>, drains: bool, now: Timestamp) -> Vec<String> {
    let mut notes = Vec::new();
    if let (true, Some(before)) = (is_extended(frozen), &frozen.before) {
        notes.push(format!("note: it was frozen already; {}", old_end(before)));
    }
    if frozen.freeze.ttl_sec == 0 {
        notes.push(format!("note: it has no TTL: only `lokt unfreeze {name}` ends it"));
    }
    let Some(holder) = holder else { return notes };
    let held = format!("{} for {}", holder_line(&holder.hold), age(holder.hold.began(), now));
    if !holder.hold.has(PartKind::Process) {
        notes.push(format!("note: the lock is still held by {held}, until {}", until(holder, now)));
    } else if !drains {
        notes.push(format!(
            "note: still running under it: {held}; `lokt freeze {name}{} --drain` waits for it",
            ttl_again(&frozen.freeze)
        ));
    }
    notes
}

/// Freezing again without it would take the end away.
fn ttl_again(freeze: &Hold) -> String {
    if freeze.ttl_sec > 0 { format!(" --ttl {}", duration::show_seconds(freeze.ttl_sec)) } else { String::new() }
}

fn old_end(before: &Hold) -> String {
    match before.expires_at {
        Some(end) => format!("it was to end at {}", show_wall_seconds(end)),
        None => "it had no end".into(),
    }
}

fn outcome(name: &LockName, drained: &Drained, now: Timestamp) -> String {
    let runs = |holder: &Holder| format!("{} for {}", holder_line(&holder.hold), age(holder.hold.began(), now));
    let frozen = format!("{} stays frozen", quoted(name.as_str()));
    match drained {
        Drained::Empty => format!("drained: no process runs under {}", quoted(name.as_str())),
        Drained::TimedOut(holder) => format!("error: timeout: still running: {}; {frozen}", runs(holder)),
        Drained::Thawed => unreachable!("it was said before"),
        Drained::Interrupted(holder) => format!("interrupted: still running: {}; {frozen}", runs(holder)),
    }
}

/// Waits for what runs. Gives the signal that ended the wait.
fn drain(lokt: &Lokt, name: &LockName, args: &Args) -> Result<(Option<Drained>, Option<i32>), Failure> {
    let mut inbox = inbox()?;
    let live = std::io::stderr().is_terminal();
    let mut said = false;
    let mut tell = |waiting: &Waiting<'_>| {
        let Denial::Held(holder) = waiting.denial else { return };
        let waited = duration::show(waiting.waited);
        let line = format!("frozen; waiting for {} to end; waited {waited}", clean(&holder_line(&holder.hold)));
        if live {
            say(&format!("{CLEAR}{}", fitting(&line)));
        } else if !said {
            say(&format!("{line}\n"));
        }
        said = true;
    };
    let tell: Option<&mut dyn FnMut(&Waiting<'_>)> = if args.quiet.quiet { None } else { Some(&mut tell) };
    let mut patience = WaitPolicy { timeout: waiting_time(true, args.timeout), alarm: Some(&mut inbox), tell };
    let drained = lokt.freezes().drain(name, &mut patience)?;
    if live && said {
        say(CLEAR);
    }
    if let Drained::Thawed = drained {
        let message = format!("the freeze of {} ended before what runs under it did", quoted(name.as_str()));
        return Err(Failure::new(Exit::Expired, "E_LOCK_EXPIRED", message)
            .hint(format!("`lokt freeze {name} --drain` with a longer --ttl, or with none, waits again")));
    }
    let signal = if matches!(drained, Drained::Interrupted(_)) { inbox.ended_by() } else { None };
    Ok((Some(drained), signal))
}
