//! `lokt unlock`: end one's own lock, or with force anybody's.

use std::path::Path;

use lokt_core::decide::{Breaking, Cause};
use lokt_core::hold::LockId;
use lokt_core::name::LockName;
use lokt_named::{Condition, End, Ended, Lokt};
use serde::Serialize;

use super::deny;
use crate::args::{RootArg, lock_name, parse_token};
use crate::context::Context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, if_certain, moved_aside, owner_at, pid_of, quoted};

/// End one's own lock
#[derive(clap::Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[command(
    override_usage = "lokt unlock [--force | --break-stale] [--lock-id ID] [--token N] [--root DIR] [-q] [--json] NAME
       lokt unlock --owner OWNER [--force] [--root DIR] [-q] [--json]
       lokt unlock --all [--root DIR] [-q] [--json]"
)]
pub(crate) struct Args {
    /// The lock's name
    name: Option<String>,
    /// Remove it, whoever holds it and whatever it is
    #[arg(long)]
    force: bool,
    /// Remove it if it has expired, its process is gone, or it is no lock record
    #[arg(long)]
    break_stale: bool,
    /// Only if it is still this hold
    #[arg(long, value_name = "ID")]
    lock_id: Option<String>,
    /// Only if this is still its fencing token
    #[arg(long, value_name = "N", value_parser = parse_token)]
    token: Option<u64>,
    /// End every lock of this owner; another's needs --force
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// End every lock of mine
    #[arg(long)]
    all: bool,
    /// Say nothing but errors and warnings
    #[arg(short = 'q', long)]
    quiet: bool,
    #[command(flatten)]
    root: RootArg,
}

#[derive(Serialize)]
struct Released<'a> {
    status: &'static str,
    name: &'a str,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fencing_token: Option<u64>,
    still_guarded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    aside: Option<&'a str>,
}

#[derive(Serialize)]
struct Batch<'a> {
    released: &'a [String],
    count: usize,
    skipped: &'a [String],
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    Ok(attempt(args, format)?.quiet(args.quiet, format))
}

fn attempt(args: &Args, format: Format) -> Result<Report, Failure> {
    let owner = args.owner.as_deref().filter(|owner| !owner.is_empty());
    let batch = owner.is_some() || args.all;
    match (&args.name, batch) {
        (None, false) => return Err(usage("which lock? give a name, --owner or --all")),
        (Some(_), true) => return Err(usage("a name can't be combined with --owner or --all")),
        _ => {}
    }
    if owner.is_some() && args.all {
        return Err(usage("--owner and --all are mutually exclusive"));
    }
    if batch && (args.break_stale || args.lock_id.is_some() || args.token.is_some() || (args.all && args.force)) {
        return Err(usage("--force, --break-stale, --lock-id and --token are for one name (--force also for --owner)"));
    }
    let name = args.name.as_deref().map(lock_name).transpose()?;
    let context = Context::read(&args.root)?;
    if let Some(other) = owner.filter(|owner| *owner != context.me.owner && !args.force) {
        let message = format!("{} is another owner; you are {}", clean(other), clean(&context.me.owner));
        let hint = "that owner ends them with `lokt unlock --all`";
        let report = Failure::new(Exit::NotYours, "E_LOCK_NOT_HELD", message).hint(hint).report(format);
        let command =
            format!("lokt unlock --owner {} --force", deny::shell_word(other).unwrap_or_else(|| "OWNER".into()));
        let certain = if_certain(&std::io::stderr(), &command, "ends the locks of that owner");
        return Ok(report.notes(certain.filter(|_| format == Format::Text)));
    }
    let Some(lokt) = context.open()? else {
        return Ok(match &name {
            Some(name) => missing(name, format),
            None => swept(&[], &[], format),
        });
    };
    if let Some(name) = name {
        return one(&context.root.path, &lokt, &name, args, format);
    }
    let said = lokt.unlock_owner(owner.unwrap_or(&context.me.owner))?;
    Ok(swept(&said.value.released, &said.value.skipped, format).warnings(said.warnings))
}

fn usage(message: &str) -> Failure {
    Failure::usage(message).hint("`lokt unlock --help` shows the usage")
}

fn one(root: &Path, lokt: &Lokt, name: &LockName, args: &Args, format: Format) -> Result<Report, Failure> {
    let breaking = match (args.force, args.break_stale) {
        (true, _) => Breaking::Force,
        (false, true) => Breaking::Stale,
        (false, false) => Breaking::No,
    };
    let condition = Condition { lock_id: args.lock_id.clone().map(LockId::from_text), token: args.token };
    let said = lokt.unlock(name, breaking, condition)?;
    Ok(match said.value {
        End::Denied(refused) => deny::report(lokt, name.as_str(), &refused, format),
        End::Ended(ended) => released(root, lokt, name, &ended, format),
    }
    .warnings(said.warnings))
}

fn released(root: &Path, lokt: &Lokt, name: &LockName, ended: &Ended, format: Format) -> Report {
    let report = Report::new(Exit::Done);
    let (event, part) = match ended.cause {
        Cause::Release(part) => ("release", Some(part.as_str())),
        Cause::ForceBreak => ("force-break", None),
        Cause::StaleBreak => ("stale-break", None),
        Cause::CorruptBreak => ("corrupt-break", None),
        _ => unreachable!("an unlock does nothing else"),
    };
    let before = ended.before.as_ref();
    if format == Format::Json {
        return report.json(&Released {
            status: "released",
            name: name.as_str(),
            event,
            part,
            owner: before.map(|hold| hold.owner.as_str()),
            lock_id: before.map(|hold| hold.lock_id.as_str()).filter(|id| !id.is_empty()),
            fencing_token: before.and_then(|hold| hold.token).map(lokt_core::hold::Fence::get),
            still_guarded: ended.remains.is_some(),
            aside: ended.aside.as_deref(),
        });
    }
    let mut report = report.text(format!("released lock {}\n", quoted(name.as_str())));
    if let (Some(before), "force-break" | "stale-break") = (before, event) {
        report = report.note(format!("note: it was held by {}{}", owner_at(before), pid_of(before)));
        if before.pulse.is_some() && lokt.inspect().pid_status(before) == "alive" {
            report = report.note(format!("warning: its guard, process {}, runs on without the lock", before.pid));
        }
    }
    if let Some(rest) = &ended.remains {
        // A guard is known by its pulse; a process that a lock was bound to has none.
        let who = match rest {
            rest if rest.pulse.is_some() => "a guard (pid ",
            rest if rest.has_foreign_process() => "another program's guard (pid ",
            _ => "the process it is bound to (pid ",
        };
        report = report.note(format!("note: {who}{}) still holds it", rest.pid));
    }
    match &ended.aside {
        Some(aside) => report.note(moved_aside(root, aside)),
        None => report,
    }
}

fn swept(released: &[String], skipped: &[String], format: Format) -> Report {
    let report = Report::new(Exit::Done);
    if format == Format::Json {
        return report.json(&Batch { released, count: released.len(), skipped });
    }
    let report = match released.len() {
        0 => report.text("no locks matched\n"),
        count => report.text(format!("released {count} lock(s)\n")),
    };
    let report = report.notes(released.iter().map(|name| format!("note: released {}", quoted(name))));
    report.notes(skipped.iter().map(|name| format!("note: skipped {}: a running guard holds it", quoted(name))))
}

fn missing(name: &LockName, format: Format) -> Report {
    let message = deny::not_found(name.as_str());
    Failure::new(Exit::Missing, "E_NOT_FOUND", message).hint("`lokt status` lists what is held").report(format)
}
