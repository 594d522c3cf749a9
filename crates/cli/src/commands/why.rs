//! `lokt why`: what `guard` and `lock` would do, with the evidence and the next command. Changes nothing.

use std::fmt::Write as _;
use std::path::Path;

use clap::ValueEnum;
use jiff::Timestamp;
use lokt::time::show_wall_seconds;
use lokt::{
    Denial, Entry, EntryState, GuardOutlook, Hold, Holder, Link, Liveness, LockName, Lokt, Outlook, PartKind, duration,
};
use serde::Serialize;

use super::queue::{InLine, in_line, waits};
use crate::args::{RootArg, lock_name};
use crate::context::{self, Context};
use crate::exit::Exit;
use crate::members::{FreezeMembers, HolderMembers, KeeperMembers, kept_by, text};
use crate::paint::{self, tag};
use crate::report::{Failure, Format, Report};
use crate::show::{age, agent_at, clean, if_certain, owner_at, quoted, reason, seconds, until};

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

/// One piece of evidence. Members that would be empty are left out.
#[derive(Serialize, Default)]
struct Reason {
    #[serde(rename = "type")]
    kind: &'static str,
    message: String,
    #[serde(flatten)]
    freeze: FreezeMembers,
    #[serde(flatten)]
    holder: HolderMembers,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_stale_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    liveness: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fencing_token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What runs although its guard is gone, and keeps the hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept_by: Vec<KeeperMembers>,
    /// Who waits, first come first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    line: Vec<InLine>,
    /// Who waits for whom; the last one waits for what the first one holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cycle: Vec<CycleMember>,
    /// The evidence as lines of text.
    #[serde(skip)]
    label: String,
    #[serde(skip)]
    lines: Vec<String>,
}

/// One process in a circle of processes that wait for each other.
#[derive(Serialize)]
struct CycleMember {
    holds: String,
    waits_for: String,
    owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    pid: i64,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let name = lock_name(&args.name)?;
    let conflict = context::conflict_exit_code(None)?;
    let context = Context::read(&args.root)?;
    let Some(lokt) = context.open()? else {
        return Ok(report(&free(&name), args.asks, format));
    };
    let outlook = lokt.outlook_inside(&name, &context.holds)?;
    let cycle = lokt.deadlock(&name)?.unwrap_or_default();
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
        Some(Err(why)) => reasons.push(Reason {
            kind: "frozen",
            message: format!("Frozen by a freeze that can't be read: {}", clean(why)),
            label: "FROZEN".into(),
            lines: vec![format!("The freeze can't be read: {}", clean(why))],
            ..Reason::default()
        }),
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
        let who: Vec<String> = outlook.line.iter().map(|waiter| clean(&waiter.pulse.owner)).collect();
        reasons.push(Reason {
            kind: "queued",
            message: format!("{} waiting: {}", who.len(), who.join(", ")),
            line: in_line(lokt, &outlook.line),
            label: format!("{} WAITING", who.len()),
            lines: outlook.line.iter().map(|waiter| waits(lokt, waiter)).collect(),
            ..Reason::default()
        });
    }
    if cycle.is_empty() {
        // What the same owner's `lock` could join is another process's all the same: waiting comes first.
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

/// What ends somebody else's freeze or hold without asking.
fn last_resort(name: &str, outlook: &Outlook) -> Option<String> {
    let reader = std::io::stdout();
    let state = outlook.entry.as_ref().map(|entry| &entry.state);
    match (&outlook.denial, state) {
        (Some(Denial::Frozen(_)), _) => {
            if_certain(&reader, &format!("lokt unfreeze --force {name}"), "ends the freeze without asking who froze it")
        }
        (Some(Denial::Held(_)), _) | (None, Some(EntryState::Held(_))) if is_held(state) => {
            if_certain(&reader, &format!("lokt unlock --force {name}"), "removes it without asking its holder")
        }
        (_, Some(EntryState::Newer(_) | EntryState::Unreadable(_))) => {
            if_certain(&reader, &format!("lokt unlock --force {name}"), "moves it aside")
        }
        _ => None,
    }
}

fn is_held(state: Option<&EntryState>) -> bool {
    matches!(state, Some(EntryState::Held(holder)) if holder.lives())
}

/// Each holds what the one before it waits for: none of them ever gets on.
fn deadlock(cycle: &[Link]) -> Reason {
    let line = |link: &Link| {
        let (owner, pid) = (clean(&link.waiter.pulse.owner), link.waiter.pulse.process.pid);
        format!("{owner} (pid {pid}) holds {} and waits for {}", link.holds, link.waits_for)
    };
    let lines: Vec<String> = cycle.iter().map(line).collect();
    let member = |link: &Link| CycleMember {
        holds: link.holds.to_string(),
        waits_for: link.waits_for.to_string(),
        owner: link.waiter.pulse.owner.clone(),
        agent_id: text(&link.waiter.pulse.agent_id),
        pid: link.waiter.pulse.process.pid,
    };
    Reason {
        kind: "deadlock",
        message: format!("Deadlock: {}", lines.join("; ")),
        cycle: cycle.iter().map(member).collect(),
        label: "DEADLOCK: each waits for what the next one holds".into(),
        lines,
        ..Reason::default()
    }
}

fn deadlock_advice(cycle: &[Link]) -> Vec<String> {
    let end = |link: &Link| {
        let (owner, pid) = (clean(&link.waiter.pulse.owner), link.waiter.pulse.process.pid);
        format!("kill {pid}  (ends {owner}'s wait for {}; ending one wait is enough)", link.waits_for)
    };
    let mut names: Vec<&str> = cycle.iter().flat_map(|link| [link.holds.as_str(), link.waits_for.as_str()]).collect();
    names.sort_unstable();
    names.dedup();
    let together = match names.as_slice() {
        // A process that waits for what it is inside of.
        [_] => None,
        names => Some(format!(
            "lokt guard {} --wait -- COMMAND  (next time: takes all of them, in an order that can't deadlock)",
            names.join(" ")
        )),
    };
    cycle.iter().map(end).chain(together).collect()
}

/// What ends a freeze.
fn thaw(name: &str, freeze: &Holder, lokt: &Lokt) -> String {
    if freeze.hold.owner == lokt.me().owner {
        return format!("lokt unfreeze {name}  (the freeze is of the same owner, {})", clean(&freeze.hold.owner));
    }
    format!("Ask {}, whose freeze it is, for `lokt unfreeze {name}`", owner_at(&freeze.hold))
}

/// What ends a hold whose guard is gone.
fn orphan_advice(kept_by: &[KeeperMembers]) -> Option<String> {
    let pids: Vec<String> = kept_by.iter().map(|keeper| keeper.pid.to_string()).collect();
    let what = if pids.len() == 1 { "the process that still keeps it" } else { "the processes that still keep it" };
    (!pids.is_empty()).then(|| format!("kill {}  (ends {what})", pids.join(" ")))
}

/// Where the way becomes free by itself, one can wait for it.
fn waiting_advice(name: &str, outlook: &Outlook) -> Vec<String> {
    let guard = format!("lokt guard {name} --wait -- COMMAND");
    let ends = ends_in(outlook).map(|left| format!("; it ends by itself in {left}")).unwrap_or_default();
    match (&outlook.denial, outlook.entry.as_ref().map(|entry| &entry.state)) {
        (Some(Denial::Held(_) | Denial::Queued { .. } | Denial::Frozen(_)), _) => vec![
            format!("lokt lock {name} --wait  (waits in line for it{ends})"),
            format!("{guard}  (waits in line, and runs COMMAND under it)"),
        ],
        // One's own process: `lock` joins it, another guard must wait for it.
        (None, Some(EntryState::Held(holder))) if holder.part_lives(PartKind::Process) => {
            vec![format!("{guard}  (waits until that process ends, and runs COMMAND under it)")]
        }
        _ => Vec::new(),
    }
}

/// How long until what stands in the way ends by itself, if it does. A guard that runs renews its lease.
fn ends_in(outlook: &Outlook) -> Option<String> {
    let left_ms = match (&outlook.denial, outlook.entry.as_ref().map(|entry| &entry.state)) {
        (Some(Denial::Frozen(Some(freeze))), _) => freeze.elapsed.left_ms(),
        (Some(Denial::Held(_)), Some(EntryState::Held(holder))) => {
            let renewed = holder.liveness == Liveness::Alive && holder.hold.pulse.is_some();
            holder.left_ms().filter(|_| !renewed)
        }
        _ => None,
    };
    left_ms.map(|left_ms| duration::show_seconds(seconds(left_ms)))
}

fn frozen(freeze: &Holder, now: Timestamp) -> Reason {
    let hold = &freeze.hold;
    let held = age(hold.began(), now);
    let left = freeze.elapsed.left_ms().map(seconds);
    let left = left.map(duration::show_seconds);
    let remaining = left.as_ref().map(|left| format!(" ({left} remaining)")).unwrap_or_default();
    Reason {
        kind: "frozen",
        message: format!("Frozen by {} for {held}{remaining}", owner_at(hold)),
        freeze: FreezeMembers::of(freeze, now),
        expires_at: hold.expires_at.map(show_wall_seconds),
        label: format!("FROZEN by {}", agent_at(hold)),
        lines: std::iter::once(format!("Age: {held}"))
            .chain(left.map(|left| format!("Remaining: {left}")))
            .chain(reason(hold).map(|reason| format!("Reason: {}", clean(reason))))
            .collect(),
        reason: reason(hold).map(ToOwned::to_owned),
        ..Reason::default()
    }
}

fn stored(lokt: &Lokt, entry: &Entry, now: Timestamp) -> Reason {
    let holder = match &entry.state {
        EntryState::Held(holder) => holder,
        EntryState::Corrupt(why) => {
            return Reason {
                kind: "corrupted",
                message: format!("Lock file contains invalid JSON or is no record: {}", clean(why)),
                label: "CORRUPTED lock file".into(),
                lines: vec![clean(why)],
                ..Reason::default()
            };
        }
        EntryState::BeingWritten => {
            return plain(
                "being_written",
                "The record is empty and younger than two seconds: another program is writing it",
            );
        }
        EntryState::Newer(version) => {
            return plain("newer", &format!("The record has version {version}; this lokt understands 1"));
        }
        EntryState::Unreadable(error) => return plain("unreadable", &error.to_string()),
    };
    let hold = &holder.hold;
    let yours = hold.owner == lokt.me().owner;
    let pid_status = lokt.pid_status(hold);
    let held = age(hold.began(), now);
    let who = owner_at(hold);
    let (kind, label, message) = match (holder.staleness().map(lokt::Staleness::as_str), yours) {
        (Some("expired"), _) => {
            ("expired", "EXPIRED, held by", format!("Held by {who} (PID {}) for {held} — TTL expired", hold.pid))
        }
        (Some(_), _) => {
            ("dead_pid", "STALE (dead PID), held by", format!("Held by {who} (PID {}, dead) for {held}", hold.pid))
        }
        (None, true) => {
            let message = format!("Held by {who} ({}) for {held}: the same owner", holding(holder, pid_status));
            let process = hold.has(PartKind::Process);
            let label = if process { "HELD by another process of the same owner," } else { "HELD by the same owner," };
            ("self_held", label, message)
        }
        (None, false) => ("held", "HELD by", format!("Held by {who} ({}) for {held}", holding(holder, pid_status))),
    };
    let kept_by = kept_by(lokt, holder);
    let mut lines = evidence(holder, &held, now);
    lines.extend(kept_by.iter().map(|keeper| format!("Kept by: {}", keeper.line())));
    Reason {
        kind,
        message,
        holder: HolderMembers::of(lokt, holder, now),
        holder_stale_reason: stale_reason(lokt, holder),
        expires_at: hold.expires_at.map(show_wall_seconds),
        held_since: hold.began().map(show_wall_seconds),
        liveness: Some(holder.liveness.as_str()),
        lock_id: text(hold.lock_id.as_str()),
        fencing_token: hold.token.map(lokt::Fence::get),
        reason: reason(hold).map(ToOwned::to_owned),
        label: format!("{label} {} ({})", agent_at(hold), holding(holder, pid_status)),
        lines,
        kept_by,
        ..Reason::default()
    }
}

/// Why it doesn't count any more; `unknown` if it counts only because its process can't be asked from here.
fn stale_reason(lokt: &Lokt, holder: &Holder) -> Option<&'static str> {
    let hold = &holder.hold;
    let is_unseen = holder.part_lives(PartKind::Process) && holder.liveness == Liveness::Unknown;
    let unknown = || (hold.host != lokt.me().host || is_unseen).then_some("unknown");
    holder.staleness().map(lokt::Staleness::as_str).or_else(unknown)
}

fn plain(kind: &'static str, message: &str) -> Reason {
    Reason { kind, message: clean(message), label: clean(message), ..Reason::default() }
}

/// By what the hold is held: a process, or an owner who is none.
fn holding(holder: &Holder, pid_status: &str) -> String {
    let hold = &holder.hold;
    if hold.has(PartKind::Process) {
        let process = match holder.liveness.as_str() {
            "unknown" => "its process can't be verified from here".to_owned(),
            "orphan" => "its guard is gone, the command still runs".to_owned(),
            _ => pid_status.to_owned(),
        };
        format!("PID {}, {process}", hold.pid)
    } else {
        "by `lokt lock`; no process is behind it".to_owned()
    }
}

fn evidence(holder: &Holder, held: &str, now: Timestamp) -> Vec<String> {
    let hold = &holder.hold;
    let mut lines = vec![format!("Age: {held}")];
    if hold.ttl_sec > 0 {
        let ttl = duration::show_seconds(hold.ttl_sec);
        lines.push(match holder.left_ms() {
            Some(left) if holder.lives() => format!("TTL: {ttl} ({} remaining)", duration::show_seconds(seconds(left))),
            _ if holder.elapsed.is_expired() => format!("TTL: {ttl} (expired)"),
            _ => format!("TTL: {ttl}"),
        });
    }
    if holder.lives() {
        lines.push(format!("Until: {}", until(holder, now)));
    }
    if let Some(token) = hold.token {
        lines.push(format!("Token: {token}"));
    }
    if let Some(reason) = reason(hold) {
        lines.push(format!("Reason: {}", clean(reason)));
    }
    lines
}

/// The flag that keeps the TTL: a refresh without it takes the end away.
fn ttl_again(hold: &Hold) -> String {
    if hold.ttl_sec > 0 { format!(" --ttl {}", duration::show_seconds(hold.ttl_sec)) } else { String::new() }
}

/// The exact next commands.
fn advice(name: &str, entry: &Entry, outlook: &Outlook) -> Vec<String> {
    let would_grant = outlook.denial.is_none();
    match &entry.state {
        EntryState::Held(holder) if holder.staleness().is_some() && outlook.refreshes => {
            vec![
                format!("lokt lock {name}{}  (takes it again, with a new token)", ttl_again(&holder.hold)),
                format!("lokt unlock {name}  (removes it)"),
            ]
        }
        EntryState::Held(holder) if holder.staleness().is_some() && would_grant => {
            vec![
                format!("lokt lock {name}  (breaks it and takes the lock)"),
                format!("lokt unlock --break-stale {name}  (only removes it)"),
            ]
        }
        EntryState::Held(holder) if outlook.refreshes => {
            let pid = holder.hold.pid;
            match (holder.part_lives(PartKind::Process), holder.part_lives(PartKind::Owner)) {
                (true, true) => vec![format!("lokt unlock {name}  (ends your part; process {pid} still holds it)")],
                (true, false) => {
                    let ends = if holder.liveness == Liveness::Orphan {
                        "its command ends".to_owned()
                    } else {
                        format!("process {pid} ends")
                    };
                    // What runs under a guard is not ended by `unlock`; another program's drops what joins it.
                    let hold = &holder.hold;
                    let is_foreign_guard = hold.has_foreign_process() && holder.liveness != Liveness::Unknown;
                    let unlock =
                        (hold.pulse.is_none() && !is_foreign_guard).then(|| format!("lokt unlock {name}  (ends it)"));
                    let lasts = if is_foreign_guard {
                        format!("until process {pid} renews its lock or ends")
                    } else {
                        format!("then it lasts until {ends} and you unlock it")
                    };
                    let join = format!("lokt lock {name}  (joins it: {lasts})");
                    [Some(join), unlock].into_iter().flatten().collect()
                }
                _ => vec![
                    format!("lokt lock {name}{}  (refreshes it)", ttl_again(&holder.hold)),
                    format!("lokt unlock {name}  (ends it)"),
                ],
            }
        }
        EntryState::Corrupt(_) if would_grant => {
            vec![
                format!("lokt lock {name}  (moves it aside and takes the lock)"),
                format!("lokt unlock --break-stale {name}  (only moves it aside)"),
            ]
        }
        EntryState::Newer(_) => vec!["lokt version  (a newer lokt wrote it: upgrade this one)".to_owned()],
        EntryState::BeingWritten => vec![format!("lokt lock {name}  (again, in two seconds)")],
        _ => Vec::new(),
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
