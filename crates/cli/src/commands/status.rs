//! `lokt status`: who holds what, since when and until when.

use std::fmt::Write as _;
use std::io::stdout;
use std::time::Duration;

use jiff::Timestamp;
use lokt_core::denial::Holder;
use lokt_core::duration;
use lokt_core::hold::PartKind;
use lokt_core::liveness::Liveness;
use lokt_core::name::LockName;
use lokt_core::time::show_wall_seconds;
use lokt_named::{Entry, EntryState, Lokt, Pruned};
use lokt_sys::terminal::Size;
use lokt_sys::warnings::WithWarnings;
use serde::Serialize;

use super::{deny, status_table, watch};
use crate::args::{RootArg, lock_name, parse_interval};
use crate::context::Context;
use crate::exit::Exit;
use crate::members::{FreezeMembers, kept_by, text};
use crate::paint::{self, tag};
use crate::report::{Failure, Format, Report};
use crate::show::{age, at_and_in, clean, owner_at, quoted, reason, seconds, seconds_since};

/// Show who holds what, since when and until when
#[derive(clap::Parser)]
pub(crate) struct Args {
    /// Only this lock, in detail
    name: Option<String>,
    /// Remove expired locks and freezes first
    #[arg(long)]
    prune_expired: bool,
    /// Show it live; off a terminal, whenever something changes
    #[arg(long, conflicts_with = "prune_expired")]
    watch: bool,
    /// How often to look at what nobody tells of: processes that end, files on other machines
    #[arg(long, value_name = "DURATION", value_parser = parse_interval, allow_hyphen_values = true, requires = "watch", default_value = "1s")]
    interval: Duration,
    #[command(flatten)]
    root: RootArg,
}

/// A lock or freeze as JSON.
#[derive(Serialize)]
pub(super) struct Status {
    version: i64,
    name: String,
    owner: String,
    host: String,
    pid: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid_start_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acquired_ts: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_sec: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    age_sec: i64,
    expired: bool,
    pid_status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze: Option<bool>,
    live: bool,
    held_sec: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_sec: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fencing_token: Option<u64>,
    parts: Vec<&'static str>,
    liveness: &'static str,
    waiters: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// One lock, with who froze it, as JSON.
#[derive(Serialize)]
struct Held {
    #[serde(flatten)]
    status: Status,
    #[serde(flatten)]
    freeze: FreezeMembers,
}

/// Something that is no readable record, as JSON.
#[derive(Serialize)]
pub(super) struct Damage {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze: Option<bool>,
    live: bool,
    pub(super) state: &'static str,
    code: &'static str,
    pub(super) message: String,
    hint: String,
}

pub(crate) fn run(args: &Args, format: Format) -> Result<Report, Failure> {
    let name = args.name.as_deref().map(lock_name).transpose()?;
    let context = Context::read(&args.root)?;
    if args.watch {
        return watch::run(&context, name.as_ref(), args.interval, format);
    }
    let lokt = context.open()?;
    match (name, lokt) {
        (Some(name), None) => Ok(missing(&name, false, format)),
        (None, None) => Ok(none(format)),
        (Some(name), Some(lokt)) => one(&lokt, &name, args.prune_expired, format),
        (None, Some(lokt)) => all(&lokt, args.prune_expired, format),
    }
    .map(|report| if args.prune_expired { report.changes() } else { report })
}

fn none(format: Format) -> Report {
    let report = Report::new(Exit::Done);
    match format {
        Format::Json => report.text("[]\n"),
        Format::Text => report.text("no locks\n"),
    }
}

fn missing(name: &LockName, frozen: bool, format: Format) -> Report {
    let frozen = frozen.then(|| format!("it is frozen: `lokt why {name}` shows by whom"));
    match format {
        Format::Json => Failure::new(Exit::Missing, "E_NOT_FOUND", deny::not_found(name.as_str()))
            .hint(frozen.unwrap_or_else(|| "`lokt status` lists what is held".into()))
            .report(format),
        Format::Text => Report::new(Exit::Missing)
            .note(deny::not_found(name.as_str()))
            .notes(frozen.map(|frozen| format!("hint: {frozen}"))),
    }
}

fn one(lokt: &Lokt, name: &LockName, prune: bool, format: Format) -> Result<Report, Failure> {
    if prune {
        let WithWarnings { value, warnings } = lokt.prune(name)?;
        if !value.locks.is_empty() {
            let report = Report::new(Exit::Done).warnings(warnings);
            return Ok(match format {
                Format::Json => report.json(&pruned_json(&value)),
                Format::Text => report.text(format!("pruned expired lock {}\n", quoted(name.as_str()))),
            });
        }
    }
    let now = lokt.now().wall;
    let Some(entry) = lokt.inspect().entry(name)? else {
        // The list shows freezes too; here only the way to them.
        let frozen = lokt.inspect().outlook(name).is_ok_and(|outlook| outlook.frozen.is_some());
        return Ok(missing(name, frozen, format));
    };
    match &entry.state {
        EntryState::Held(holder) => {
            let report = Report::new(Exit::Done);
            Ok(match format {
                Format::Json => {
                    let freeze = lokt
                        .freezes()
                        .frozen(name)
                        .map(|freeze| FreezeMembers::of_any(freeze, now))
                        .unwrap_or_default();
                    report.json(&Held { status: status(lokt, &entry, holder, now), freeze })
                }
                Format::Text => report.text(detail(lokt, &entry, holder, now)),
            })
        }
        state => {
            let exit = if matches!(state, EntryState::BeingWritten) { Exit::Held } else { Exit::Damaged };
            let exit = match state {
                EntryState::Unreadable(error) => Exit::of_error(error),
                _ => exit,
            };
            let damage = damage(&entry);
            Ok(Failure::new(exit, damage.code, damage.message).hint(damage.hint).report(format))
        }
    }
}

#[derive(Serialize)]
struct PrunedJson<'a> {
    pruned: &'a [String],
    pruned_freezes: &'a [String],
    kept: &'a [String],
}

fn pruned_json(pruned: &Pruned) -> PrunedJson<'_> {
    PrunedJson { pruned: &pruned.locks, pruned_freezes: &pruned.freezes, kept: &pruned.kept }
}

fn all(lokt: &Lokt, prune: bool, format: Format) -> Result<Report, Failure> {
    let mut report = Report::new(Exit::Done);
    if prune {
        let WithWarnings { value, warnings } = lokt.prune_all()?;
        let mut lines: Vec<String> = value.locks.iter().map(|name| format!("pruned: {name} (expired)")).collect();
        lines.extend(value.freezes.iter().map(|name| format!("pruned: {name} (expired freeze)")));
        lines.extend(value.kept.iter().map(|name| format!("kept: {name} (expired, but its process runs)")));
        if !value.locks.is_empty() || !value.freezes.is_empty() {
            lines.push(format!("\npruned {} expired lock(s)", value.locks.len() + value.freezes.len()));
        }
        report = report.warnings(warnings);
        report = match format {
            // In JSON mode stdout is one JSON value.
            Format::Json => report.notes(lines),
            Format::Text => lines.into_iter().fold(report, |report, line| report.text(line).text("\n")),
        };
    }
    let now = lokt.now().wall;
    Ok(match format {
        Format::Json => report.json(&lokt.inspect().map_entries(|entry| json_of(lokt, &entry, now))?),
        Format::Text => report.text(list(lokt, now)?),
    })
}

/// All of it as text: a table for people, rows for scripts.
fn list(lokt: &Lokt, now: Timestamp) -> Result<String, Failure> {
    let text = if let Some(Size { columns, .. }) = Size::of(stdout()) {
        let rows = lokt.inspect().map_entries(|entry| status_table::row(&entry, now))?;
        let lines = if rows.is_empty() { Vec::new() } else { status_table::lines(&rows, columns) };
        lines.into_iter().map(|line| line + "\n").collect()
    } else {
        lokt.inspect().map_entries(|entry| row(&entry, now))?.concat()
    };
    Ok(if text.is_empty() { "no locks\n".to_owned() } else { text })
}

/// A row of the JSON list.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Row {
    Hold(Box<Status>),
    Damage(Damage),
}

impl Row {
    /// Without what the mere passing of time changes, and without the end of a `lokt lock` that has done its work. In text without leases
    /// and whoever renewed them, too: that happens all the time.
    pub(super) fn lasting(mut self, format: Format) -> Self {
        if let Self::Hold(status) = &mut self {
            (status.age_sec, status.held_sec, status.remaining_sec) = (0, 0, None);
            status.pid_status = "";
            if format == Format::Text {
                (status.acquired_ts, status.expires_at) = (None, None);
                if !status.parts.contains(&PartKind::Process.as_str()) {
                    (status.pid, status.pid_start_ns, status.agent_id) = (0, None, None);
                }
            }
        }
        self
    }
}

pub(super) fn json_of(lokt: &Lokt, entry: &Entry, now: Timestamp) -> Row {
    match &entry.state {
        EntryState::Held(holder) => Row::Hold(Box::new(status(lokt, entry, holder, now))),
        _ => Row::Damage(damage(entry)),
    }
}

fn status(lokt: &Lokt, entry: &Entry, holder: &Holder, now: Timestamp) -> Status {
    let hold = &holder.hold;
    let remaining = if entry.is_freeze { holder.elapsed.left_ms() } else { holder.left_ms() };
    Status {
        version: hold.version,
        name: if hold.name.is_empty() { entry.name.clone() } else { hold.name.clone() },
        owner: hold.owner.clone(),
        host: hold.host.clone(),
        pid: hold.pid,
        pid_start_ns: Some(hold.pid_start).filter(|start| *start != 0),
        agent_id: text(&hold.agent_id),
        acquired_ts: hold.acquired.map(show_wall_seconds),
        ttl_sec: Some(hold.ttl_sec).filter(|ttl| *ttl > 0),
        expires_at: hold.expires_at.map(show_wall_seconds),
        age_sec: seconds_since(hold.acquired, now),
        expired: holder.elapsed.is_expired(),
        // The command that froze a name has exited, whichever program it was.
        pid_status: if entry.is_freeze { "none" } else { lokt.inspect().pid_status(hold) },
        freeze: entry.is_freeze.then_some(true),
        live: entry.is_live(),
        held_sec: seconds_since(hold.began(), now),
        held_since: hold.began().map(show_wall_seconds),
        remaining_sec: remaining.map(seconds),
        lock_id: text(hold.lock_id.as_str()),
        fencing_token: hold.token.map(lokt_core::hold::Fence::get),
        parts: lokt_named::living_parts(holder).into_iter().map(PartKind::as_str).collect(),
        liveness: holder.liveness.as_str(),
        waiters: entry.waiters,
        reason: reason(hold).map(ToOwned::to_owned),
    }
}

pub(super) fn damage(entry: &Entry) -> Damage {
    let name = &entry.name;
    let what = if entry.is_freeze { "freeze" } else { "lock" };
    let shown = format!("{what} {}", quoted(name));
    let (state, code, message, hint) = match &entry.state {
        EntryState::Held(_) => unreachable!("a hold is no damage"),
        EntryState::Corrupt(why) => {
            let hint = format!(
                "`lokt lock {name}` moves it aside and takes the lock; `lokt unlock --break-stale {name}` only moves it aside"
            );
            ("corrupt", "E_CORRUPT", format!("{shown} has corrupted data: {}", clean(why)), hint)
        }
        EntryState::BeingWritten => {
            let message = format!("{shown} is being written by another program at this moment");
            ("being_written", "E_LOCK_CONFLICT", message, "try again in two seconds".to_owned())
        }
        EntryState::Newer(version) => {
            let message = format!(
                "{shown}: unsupported lockfile version: version {version} not supported (max: 1); upgrade lokt"
            );
            ("newer", "E_UNSUPPORTED_VERSION", message, "upgrade lokt".to_owned())
        }
        EntryState::Unreadable(error) => {
            ("unreadable", error.code(), error.to_string(), "`lokt doctor` says what is wrong".to_owned())
        }
    };
    let hint = if entry.is_freeze {
        format!("what can't be read counts as a freeze; whoever may lift it removes freezes/{name}.json below the root")
    } else {
        hint
    };
    Damage {
        name: name.clone(),
        freeze: entry.is_freeze.then_some(true),
        live: entry.is_live(),
        state,
        code,
        message,
        hint,
    }
}

/// Most rows fit this.
const ROW_BYTES: usize = 128;
/// Names are padded to this width.
const NAME_COLUMNS: usize = 20;

/// One row of the list: name, owner, age, what is special, until when.
pub(super) fn row(entry: &Entry, now: Timestamp) -> String {
    let mut row = String::with_capacity(ROW_BYTES);
    let name = clean(&entry.name);
    let (name, gap) = (paint::name(&name), " ".repeat(NAME_COLUMNS.saturating_sub(name.chars().count())));
    let frozen = if entry.is_freeze { format!(" [{}]", tag("FROZEN")) } else { String::new() };
    let EntryState::Held(holder) = &entry.state else {
        let damage = damage(entry);
        let _ =
            writeln!(row, "{name}{gap}  {}{frozen} [{}]", clean(&damage.message), tag(&damage.state.to_uppercase()));
        return row;
    };
    let hold = &holder.hold;
    let _ = write!(row, "{name}{gap}  {}  {}{frozen}", owner_at(hold), age(hold.began(), now));
    let remaining = if entry.is_freeze { holder.elapsed.left_ms() } else { holder.left_ms() };
    let mark = match (entry.is_freeze, holder.elapsed.is_expired(), holder.liveness) {
        (_, true, _) => format!(" [{}]", tag("EXPIRED")),
        (false, false, _) if !holder.lives() => format!(" [{}]", tag("DEAD")),
        (false, false, Liveness::Orphan) => format!(" [{}]", tag("ORPHAN")),
        _ => match remaining {
            Some(ms) => format!("  expires in {}", duration::show_seconds(seconds(ms))),
            None if !entry.is_freeze && ends_with_process(holder) => format!("  until process {} ends", hold.pid),
            None => String::new(),
        },
    };
    row.push_str(&mark);
    if entry.waiters > 0 {
        let _ = write!(row, "  {} waiting", entry.waiters);
    }
    row.push('\n');
    row
}

/// It was bound to a process, which lives, and nothing else keeps it.
pub(super) fn ends_with_process(holder: &Holder) -> bool {
    let bound = holder.hold.parts.as_ref().is_some_and(|parts| parts.process.is_some());
    bound
        && holder.liveness == Liveness::Alive
        && holder.part_lives(PartKind::Process)
        && !holder.part_lives(PartKind::Owner)
}

/// One lock in detail.
fn detail(lokt: &Lokt, entry: &Entry, holder: &Holder, now: Timestamp) -> String {
    let hold = &holder.hold;
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "{:<10}{value}", format!("{label}:"));
    };
    line("name", &paint::name(&clean(&entry.name)));
    line("owner", &clean(&hold.owner));
    if !hold.agent_id.is_empty() {
        line("agent", &clean(&hold.agent_id));
    }
    line("host", &clean(&hold.host));
    if hold.has(PartKind::Process) {
        line("pid", &format!("{} ({})", hold.pid, lokt.inspect().pid_status(hold)));
    }
    line("age", &age(hold.acquired, now));
    if let Some(began) = hold.began() {
        line("held", &format!("{} (since {})", age(Some(began), now), show_wall_seconds(began)));
    }
    if hold.ttl_sec > 0 {
        line("ttl", &format!("{}s", hold.ttl_sec));
    }
    match (hold.expires_at, holder.elapsed.is_expired()) {
        (Some(end), true) => line("expires", &format!("{} ({})", show_wall_seconds(end), tag("EXPIRED"))),
        (Some(end), false) => {
            let left = holder.elapsed.left_ms().map_or(0, seconds);
            line("expires", &format!("{} (in {})", show_wall_seconds(end), duration::show_seconds(left)));
        }
        (None, true) => line("status", &tag("EXPIRED")),
        (None, false) if !holder.lives() => {}
        (None, false) => match holder.left_ms() {
            // An old record, or one whose other part has ended: the record doesn't say it, but it does end.
            Some(left_ms) => {
                let end = lokt_core::time::plus_millis(now, left_ms);
                let left = duration::show_seconds(seconds(left_ms));
                line("expires", &format!("{} (in {left})", show_wall_seconds(end)));
            }
            None if ends_with_process(holder) => line("expires", &format!("when process {} ends (no TTL)", hold.pid)),
            None if holder.liveness == Liveness::Orphan && !holder.part_lives(PartKind::Owner) => {
                line("expires", "when what its guard left running ends (no TTL)");
            }
            None => line("expires", "never (no TTL)"),
        },
    }
    if !holder.elapsed.is_expired() && !holder.lives() {
        line("status", &format!("{} (its process is gone; the next lock breaks it)", tag("DEAD")));
    }
    if !hold.lock_id.is_empty() {
        line("lock id", &clean(hold.lock_id.as_str()));
    }
    if let Some(token) = hold.token {
        line("token", &token.to_string());
    }
    let parts: Vec<&str> = lokt_named::living_parts(holder).into_iter().map(PartKind::as_str).collect();
    if !parts.is_empty() {
        line("held by", &parts.join(" and "));
    }
    if hold.has(PartKind::Process) {
        line("process", holder.liveness.as_str());
    }
    for keeper in kept_by(lokt, holder) {
        line("kept by", &keeper.line());
    }
    if entry.waiters > 0 {
        line("waiting", &entry.waiters.to_string());
    }
    if let Some(reason) = reason(hold) {
        line("reason", &clean(reason));
    }
    match LockName::new(&entry.name).ok().and_then(|name| lokt.freezes().frozen(&name)) {
        Some(Ok(freeze)) => {
            let end = freeze.elapsed.left_ms().map_or_else(|| "unfreeze".to_owned(), |left_ms| at_and_in(left_ms, now));
            line("frozen", &format!("by {}, until {end}", owner_at(&freeze.hold)));
        }
        Some(Err(why)) => line("frozen", &format!("by a freeze that can't be read: {}", clean(&why))),
        None => {}
    }
    text
}
