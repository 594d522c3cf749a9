//! Who has a claim, and until when, for people.

use jiff::Timestamp;
use lokt::time::{Lease, show_wall_seconds};
use lokt::{Hold, Holder};

use crate::show::{ago, at_and_in, clean, seconds};

/// `alice@host (pid 42)`, as far as the event says so: other programs only write the owner.
pub(crate) fn claimant(hold: &Hold) -> String {
    let host = if hold.host.is_empty() { String::new() } else { format!("@{}", clean(&hold.host)) };
    let pid = if hold.pid > 0 { format!(" (pid {})", hold.pid) } else { String::new() };
    format!("{}{host}{pid}", clean(&hold.owner))
}

/// `3m ago`, if its time is over.
pub(crate) fn expired_ago(holder: &Holder) -> Option<String> {
    match (holder.elapsed.owner, holder.elapsed.process) {
        (Lease::Over(ms), _) | (Lease::Absent, Lease::Over(ms)) => Some(ago(seconds(ms))),
        _ => None,
    }
}

/// `until 2026-11-16T08:05:00Z (in 4m59s)`, or that it has expired.
pub(crate) fn until(holder: &Holder, now: Timestamp) -> String {
    match (holder.lives(), holder.left_ms()) {
        (true, Some(left_ms)) => format!("until {}", at_and_in(left_ms, now)),
        (true, None) => "without an end".to_owned(),
        (false, _) => expired_ago(holder).map_or_else(|| "expired".to_owned(), |ago| format!("expired {ago}")),
    }
}

/// When a claim ends, as JSON has it.
pub(crate) fn expires_at(hold: &Hold) -> Option<String> {
    hold.expires_at.map(show_wall_seconds)
}
