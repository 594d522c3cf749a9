//! Events as rows of a table that fits the terminal.

use std::fmt::Write as _;

use lokt_core::audit::Line;
use lokt_core::duration;
use lokt_core::time::show_wall_seconds;
use lokt_sys::terminal::told_width;

use crate::show::{clean, seconds};

/// `2026-11-16T08:00:00Z`
const TIME: usize = 20;
/// `force-unfreeze`
const EVENT: usize = 14;
const GAP: &str = "  ";

/// The first row.
pub(super) fn heading() -> String {
    laid_out(["TIME", "EVENT", "NAME", "WHO", "DETAILS"].map(ToOwned::to_owned))
}

/// An event as a row.
pub(super) fn row(line: &Line<'_>) -> String {
    let cells = [show_wall_seconds(line.at), line.event().to_owned(), line.name().to_owned(), who(line), details(line)];
    laid_out(cells.map(|cell| clean(&cell)))
}

fn laid_out(cells: [String; 5]) -> String {
    // A terminal that doesn't know its width gets everything.
    let width = told_width(std::io::stdout()).unwrap_or(usize::MAX);
    let left = width.saturating_sub(TIME + EVENT + 2 * GAP.len());
    let columns = [TIME, EVENT, (left / 6).clamp(8, 24), (left / 12 * 5).clamp(12, 40)];
    let [rest @ .., details] = cells;
    let mut text = String::new();
    for (cell, column) in rest.iter().zip(columns) {
        let cell = if width == usize::MAX { cell.clone() } else { fitted(cell, column) };
        let _ = write!(text, "{cell:<column$}{GAP}");
    }
    text.push_str(&details);
    fitted(text.trim_end(), width)
}

/// At most so many characters; the last one says that there were more.
fn fitted(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

/// `alice@host (pid 42, agent-1a2b)`
fn who(line: &Line<'_>) -> String {
    let agent = line.text_of("agent_id");
    let agent = if agent.is_empty() { String::new() } else { format!(", {agent}") };
    format!("{}@{} (pid {}{agent})", line.text_of("owner"), line.text_of("host"), line.number("pid"))
}

/// `2s`, `1m30s`; milliseconds, where seconds would say nothing.
fn span(ms: u64) -> String {
    if ms < 1000 { format!("{ms}ms") } else { duration::show_seconds(seconds(ms)) }
}

/// What else is known, in a few words.
fn details(line: &Line<'_>) -> String {
    let text = |key: &str| line.extra(key).and_then(|value| value.as_str()).map(ToOwned::to_owned);
    let number = |key: &str| line.extra(key).and_then(serde_json::Value::as_u64);
    let person = |label: &str, prefix: &str| {
        let owner = text(&format!("{prefix}_owner"))?;
        let host = text(&format!("{prefix}_host")).unwrap_or_default();
        let pid = number(&format!("{prefix}_pid")).unwrap_or(0);
        Some(format!("{label} {owner}@{host} (pid {pid})"))
    };
    let ttl = line.number("ttl_sec");
    let details = [
        person("of", "pruned"),
        person("held by", "holder"),
        person("frozen by", "freeze"),
        text("reason"),
        number("fencing_token").map(|token| format!("token {token}")),
        text("part").map(|part| format!("{part} part")),
        (ttl > 0).then(|| format!("ttl {}", duration::show_seconds(ttl))),
        number("waiters").map(|waiters| format!("{waiters} in line")),
        text("program").map(|program| format!("runs {program}")),
        number("exit_code").map(|code| format!("exit code {code}")),
        number("signal").map(|signal| format!("ended by signal {signal}")),
        number("held_ms").map(|ms| format!("held {}", span(ms))),
        number("waited_ms").map(|ms| format!("waited {}", span(ms))),
        number("queue_position").map(|position| format!("from place {position} in line")),
        text("aside").map(|aside| format!("moved to {aside}")),
    ];
    details.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
