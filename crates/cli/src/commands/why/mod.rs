//! `lokt why`: what `guard` and `lock` would do, with the evidence and the next command. Changes nothing.

mod advice;
mod evidence;

use std::fmt::Write as _;
use std::path::Path;

use clap::ValueEnum;
use lokt_core::denial::Denial;
use lokt_core::name::LockName;
use lokt_named::{EntryState, GuardOutlook, Link, Lokt, Outlook};
use serde::Serialize;

use self::advice::{advice, deadlock_advice, last_resort, orphan_advice, thaw, waiting_advice};
use self::evidence::{Reason, deadlock, frozen, queued, stored, unreadable_freeze};
use crate::args::{RootArg, lock_name};
use crate::context::{self, Context};
use crate::exit::Exit;
use crate::paint::{self, tag};
use crate::report::{Failure, Format, Report};
use crate::show::{clean, quoted};

/// Explain what `guard` and `lock` would do, with the evidence and the next command
#[derive(clap::Parser)]
#[command(
    after_help = "The exit code is that of `lokt guard NAME -- true`; with `--for lock`, that of `lokt lock NAME`."
)]
pub(crate) struct Args {
    /// The lock's name
    name: String,
    /// Exit as this command would
    #[arg(long = "for", value_name = "COMMAND", value_enum, default_value_t)]
    asks: Asks,
    #[command(flatten)]
    root: RootArg,
}

/// `--for`
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Asks {
    /// `lokt guard NAME -- COMMAND`
    #[default]
    Guard,
    /// `lokt lock NAME`
    Lock,
}

/// What one of them would do.
#[derive(Serialize)]
struct Would {
    /// `acquire` or `deny`; of `lock` also `refresh`; of `guard` also `join` and `inside`.
    would: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    exit_code: u8,
    #[serde(skip)]
    exit: Exit,
}

impl Would {
    fn new(would: &'static str, denial: Option<&Denial>) -> Self {
        let exit = denial.map_or(Exit::Done, Exit::of_denial);
        Self { would, code: denial.map(Denial::code), exit_code: exit.code(), exit }
    }

    fn guard(outlook: &Outlook) -> Self {
        match &outlook.guard {
            GuardOutlook::Acquires => Self::new("acquire", None),
            GuardOutlook::Joins => Self::new("join", None),
            GuardOutlook::Inside => Self::new("inside", None),
            GuardOutlook::Denied(denial) => Self::new("deny", Some(denial)),
        }
    }

    fn lock(outlook: &Outlook) -> Self {
        match (&outlook.denial, outlook.refreshes) {
            (Some(denial), _) => Self::new("deny", Some(denial)),
            (None, true) => Self::new("refresh", None),
            (None, false) => Self::new("acquire", None),
        }
    }

    /// The same with the exit code that `LOKT_EXIT_CONFLICT` sets for every runner.
    fn with_conflict(self, code: Option<u8>) -> Self {
        match code {
            Some(code) if self.exit == Exit::Held => Self { exit: Exit::Other(code), exit_code: code, ..self },
            _ => self,
        }
    }

    /// For people.
    fn words(&self) -> String {
        match self.would {
            "deny" => format!("would be refused (exit code {})", self.exit_code),
            "join" => "would run beside the same owner's `lokt lock`".to_owned(),
            "inside" => "would run at once, inside the guard that you run under".to_owned(),
            "refresh" => "would refresh it".to_owned(),
            _ => "would get it".to_owned(),
        }
    }
}

#[derive(Serialize)]
struct Why<'a> {
    name: &'a str,
    /// `free` and `yours`: `lock` would succeed. `blocked`: it would not.
    status: &'static str,
    /// What `lock` would do: `acquire`, `refresh` or `deny`.
    would: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    guard: Would,
    lock: Would,
    waiters: usize,
    reasons: Vec<Reason>,
    suggestions: Vec<String>,
    /// What is there has ended.
    #[serde(skip)]
    ended: bool,
    /// A freeze is over it.
    #[serde(skip)]
    frozen: bool,
    /// What ends it without asking whose it is: for people, at the end.
    #[serde(skip)]
    last_resort: Option<String>,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let name = lock_name(&args.name)?;
    let conflict = context::conflict_exit_code(None)?;
    let context = Context::read(&args.root)?;
    let Some(lokt) = context.open()? else {
        return Ok(report(&free(&name), args.asks, format));
    };
    let outlook = lokt.inspect().outlook_inside(&name, &context.holds)?;
    let cycle = lokt.inspect().deadlock(&name)?.unwrap_or_default();
    let why = explain(&context.root.path, &lokt, &name, &outlook, &cycle);
    let why = Why { guard: why.guard.with_conflict(conflict), ..why };
    Ok(report(&why, args.asks, format))
}

fn free(name: &LockName) -> Why<'_> {
    Why {
        name: name.as_str(),
        status: "free",
        would: "acquire",
        code: None,
        guard: Would::new("acquire", None),
        lock: Would::new("acquire", None),
        waiters: 0,
        reasons: Vec::new(),
        suggestions: Vec::new(),
        ended: false,
        frozen: false,
        last_resort: None,
    }
}

fn explain<'a>(root: &Path, lokt: &Lokt, name: &'a LockName, outlook: &Outlook, cycle: &[Link]) -> Why<'a> {
    let now = lokt.now().wall;
    let mut reasons = Vec::new();
    let mut suggestions = Vec::new();
    match &outlook.frozen {
        Some(Ok(freeze)) => reasons.push(frozen(freeze, now)),
        Some(Err(why)) => reasons.push(unreadable_freeze(why)),
        None => {}
    }
    match (&outlook.frozen, &outlook.denial) {
        (Some(Ok(freeze)), _) => suggestions.push(thaw(name.as_str(), freeze, lokt)),
        (Some(Err(_)), Some(Denial::Frozen(_))) => {
            let path = clean(&root.join(format!("freezes/{name}.json")).to_string_lossy());
            suggestions.push(format!("lokt doctor  (says what is wrong with {path}, which counts as a freeze)"));
        }
        _ => {}
    }
    if let Some(entry) = &outlook.entry {
        let stored = stored(lokt, entry, now);
        if matches!(&entry.state, EntryState::Held(holder) if holder.lives()) {
            suggestions.extend(orphan_advice(&stored.kept_by));
        }
        reasons.push(stored);
        suggestions.extend(advice(name.as_str(), entry, outlook));
    }
    if !outlook.line.is_empty() {
        reasons.push(queued(lokt, &outlook.line));
    }
    if cycle.is_empty() {
        // Another process of the same owner still holds it, although `lock` could join it: suggest waiting first.
        let at = if outlook.denial.is_none() { 0 } else { suggestions.len() };
        suggestions.splice(at..at, waiting_advice(name.as_str(), outlook));
    } else {
        reasons.push(deadlock(cycle));
        suggestions.splice(0..0, deadlock_advice(cycle));
    }
    // A reader that runs the first suggestion needs a command.
    suggestions.sort_by_key(|suggestion| !["lokt ", "kill "].iter().any(|word| suggestion.starts_with(word)));
    let (guard, lock) = (Would::guard(outlook), Would::lock(outlook));
    let (would, code) = (lock.would, lock.code);
    let status = match would {
        "deny" => "blocked",
        "refresh" => "yours",
        _ => "free",
    };
    let ended =
        matches!(&outlook.entry, Some(entry) if matches!(&entry.state, EntryState::Held(holder) if !holder.lives()));
    Why {
        name: name.as_str(),
        status,
        would,
        code,
        guard,
        lock,
        waiters: outlook.line.len(),
        reasons,
        suggestions,
        ended,
        frozen: outlook.frozen.is_some(),
        last_resort: last_resort(name.as_str(), outlook),
    }
}

fn report(why: &Why<'_>, asks: Asks, format: Format) -> Report {
    let asked = if asks == Asks::Guard { &why.guard } else { &why.lock };
    let report = Report::new(asked.exit);
    if format == Format::Json {
        return report.json(why);
    }
    let name = paint::name(&quoted(why.name));
    let (free, yours) = (tag("FREE"), format!("{} by the same owner", tag("HELD")));
    let mut text = match why.would {
        _ if asked.would == "deny" => format!("Lock {name} is {}:\n", tag("BLOCKED")),
        _ if asked.would == "inside" => format!("Lock {name} is {yours} — you run under it:\n"),
        "acquire" if why.reasons.is_empty() => format!("Lock {name} is {free} — acquisition would succeed.\n"),
        "acquire" => format!("Lock {name} is {free} — acquisition would succeed, breaking what is left:\n"),
        "refresh" if why.ended => {
            format!("Lock {name} was {yours} and has ended — acquisition would take it again, with a new token:\n")
        }
        "refresh" if why.frozen => {
            format!(
                "Lock {name} is {yours} — acquisition would refresh it; a guard would be refused, because it is frozen:\n"
            )
        }
        "refresh" => format!("Lock {name} is {yours} — acquisition would refresh it:\n"),
        _ => format!("Lock {name} is {}:\n", tag("BLOCKED")),
    };
    if !why.reasons.is_empty() {
        let _ = writeln!(text, "\n  guard: {}\n  lock:  {}", why.guard.words(), why.lock.words());
    }
    for reason in &why.reasons {
        let label: Vec<String> = reason.label.split(' ').map(tag).collect();
        let _ = write!(text, "\n  {}\n", label.join(" "));
        for line in &reason.lines {
            let _ = writeln!(text, "    {line}");
        }
    }
    if !why.suggestions.is_empty() {
        text.push_str("\nSuggestions:\n");
        for suggestion in &why.suggestions {
            let _ = writeln!(text, "  - {suggestion}");
        }
    }
    if let Some(last_resort) = &why.last_resort {
        let _ = write!(text, "\n{last_resort}\n");
    }
    report.text(text)
}
