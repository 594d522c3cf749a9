//! `lokt lease audit`: what happened to the leases and worktrees of a repository, and whether that is all of it.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use lokt_core::lease::record::HolderId;
use lokt_core::time::show_wall_seconds;
use lokt_sys::warnings::Warning;
use lokt_worktree::lease::AuditVerdict;
use lokt_worktree::repo::Repository;
use serde::Serialize;
use serde_json::Value;

use super::place::{Place, repository};
use crate::context;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::show::{clean, clean_json};
use crate::stream::Stream;

/// Show what happened to the repository's leases and worktrees, oldest first
#[derive(clap::Parser)]
#[command(
    after_help = "With --json it is the lines of the log, one JSON object each. Every line vouches for all before it, and every lease for \
    the end of the log: --verify finds a line that was changed, taken out or cut off, and says where (65)."
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Show only this many, the last ones
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Show nothing, but say whether the log is whole
    #[arg(long, conflicts_with_all = ["last", "worktree"])]
    verify: bool,
}

#[derive(Serialize)]
struct Sound<'a> {
    status: &'static str,
    path: &'a str,
    events: u64,
    hash: &'a str,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Broken<'a> {
    status: &'static str,
    code: &'static str,
    message: String,
    hint: &'static str,
    path: &'a str,
    line: u64,
    events: u64,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let named = args.place.named()?;
    let repo = repository(context::caller(None)?)?;
    if args.verify {
        let said = repo.audit_log().verify()?;
        return Ok(verdict(&said.value, &said.warnings, format).warnings(said.warnings));
    }
    let mut printer = Printer::new(named.as_ref().map(|name| name.as_str().to_owned()), args.last, format);
    printer.list(&repo)?;
    let report = Report::new(Exit::Done);
    Ok(match printer.no_events {
        0 => report,
        count => report.warnings([format!("{count} lines are no events; `lokt lease audit --verify` says more")]),
    })
}

fn verdict(found: &AuditVerdict, warnings: &[Warning], format: Format) -> Report {
    let path = found.path.to_string_lossy();
    let Some(broken) = &found.broken else {
        let report = Report::new(Exit::Done);
        return match format {
            Format::Json => {
                let warnings = warnings.iter().map(Warning::to_string).collect();
                report.json(&Sound { status: "sound", path: &path, events: found.lines, hash: &found.hash, warnings })
            }
            Format::Text => report.text(format!("{}: {} events, nothing is wrong\n", clean(&path), found.lines)),
        };
    };
    let message = format!("the audit log is broken at line {}: {}", broken.line, broken.why);
    let hint = "`lokt doctor --strict --fix` keeps it aside and begins a new one; leases don't depend on it";
    let report = Report::new(Exit::Damaged);
    match format {
        Format::Json => report.json(&Broken {
            status: "error",
            code: "E_AUDIT_CHAIN_BROKEN",
            message,
            hint,
            path: &path,
            line: broken.line,
            events: found.lines,
        }),
        Format::Text => report
            .note(format!("error: {}", clean(&message)))
            .note(format!("  file:     {}", clean(&path)))
            .note(format!("hint: {hint}")),
    }
}

/// Prints what is wanted.
struct Printer {
    worktree: Option<String>,
    last: Option<usize>,
    format: Format,
    stream: Stream,
    /// The last ones so far.
    kept: VecDeque<String>,
    /// Lines that tell of no event.
    no_events: u64,
    failure: Option<Failure>,
}

impl Printer {
    fn new(worktree: Option<String>, last: Option<usize>, format: Format) -> Self {
        let stream = Stream::new(None);
        Self { worktree, last, format, stream, kept: VecDeque::new(), no_events: 0, failure: None }
    }

    fn list(&mut self, repo: &Repository) -> Result<(), Failure> {
        repo.audit_log().lines(&mut |_, line| self.see(line))?;
        for line in std::mem::take(&mut self.kept) {
            if self.stream.line(&line)?.is_break() {
                break;
            }
        }
        // Whoever has left wants no more, and there is no more.
        let _ = self.stream.flush()?;
        self.failure.take().map_or(Ok(()), Err)
    }

    fn see(&mut self, line: &[u8]) -> ControlFlow<()> {
        let Ok(event @ Value::Object(_)) = serde_json::from_slice(line) else {
            self.no_events += 1;
            return ControlFlow::Continue(());
        };
        if self.worktree.as_ref().is_some_and(|name| !is_about(&event, name)) {
            return ControlFlow::Continue(());
        }
        let text = match self.format {
            // A line is shown as it is: whoever checks its hash needs every byte.
            Format::Json => clean_json(&String::from_utf8_lossy(line.trim_ascii_end())),
            Format::Text => row(&event),
        };
        if let Some(last) = self.last {
            self.kept.push_back(text);
            self.kept.drain(..self.kept.len().saturating_sub(last));
            return ControlFlow::Continue(());
        }
        self.stream.line(&text).unwrap_or_else(|failure| {
            self.failure = Some(failure);
            ControlFlow::Break(())
        })
    }
}

/// Did it happen to this worktree, under this name or an older one?
fn is_about(event: &Value, name: &str) -> bool {
    let detail = |key: &str| event["details"][key] == name;
    event["target"] == name || detail("old_name") || detail("new_name")
}

/// `2026-11-16T08:00:00Z  lock_steal  main  token 7  alice@host (pid 42)  from bob@host (pid 7), token 6; boot_clock`
fn row(event: &Value) -> String {
    let text = |value: &Value| clean(value.as_str().unwrap_or_default());
    let at = event["timestamp"].as_str().and_then(lokt_core::time::parse_wall);
    let at = at.map_or_else(|| text(&event["timestamp"]), show_wall_seconds);
    let token = event["fencing_token"].as_u64().filter(|token| *token > 0).map(|token| format!("token {token}"));
    let cells = [
        Some(at),
        Some(text(&event["operation"])),
        Some(text(&event["target"])),
        token,
        event["actor"].as_str().map(person),
        details(event),
    ];
    cells.into_iter().flatten().filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("  ")
}

/// What else is known, in a few words.
fn details(event: &Value) -> Option<String> {
    let known = &event["details"];
    let text = |key: &str| known[key].as_str().filter(|text| !text.is_empty());
    let old_token = known["old_token"].as_u64().map(|token| format!(", token {token}")).unwrap_or_default();
    let details = [
        text("old_holder").map(|old| format!("from {}{old_token}", person(old))),
        text("evidence").map(clean),
        text("old_name").map(|old| format!("was {}", clean(old))),
        text("new_name").map(|new| format!("is {}", clean(new))),
        text("target_path").or(text("path")).map(clean),
        text("code").map(clean),
        event["reason"].as_str().filter(|reason| !reason.is_empty()).map(clean),
    ];
    let details = details.into_iter().flatten().collect::<Vec<_>>().join("; ");
    (!details.is_empty()).then_some(details)
}

/// `alice@host (pid 42)`
fn person(id: &str) -> String {
    let holder = HolderId::parse(id);
    if holder.user.is_empty() && holder.host.is_empty() {
        return clean(id);
    }
    let pid = if holder.pid > 0 { format!(" (pid {})", holder.pid) } else { String::new() };
    format!("{}@{}{pid}", clean(&holder.user), clean(&holder.host))
}
