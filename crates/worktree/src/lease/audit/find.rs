//! Searches for an event in the log. If a process was suspended for so long that its link has been
//! pruned, only the log can tell.

use lokt_core::lease::audit::{Anchor, Event};

use super::REPAIR;
use super::lines::{Line, Lines, Place};
use super::log::open;
use crate::repo::Repository;

/// Reports whether exactly this event is in the log, after the place that `from` names. If the log
/// is unreadable, the answer is unknown, and false is returned.
pub fn has(repo: &Repository, from: &Anchor, event: &Event) -> bool {
    let Ok(Some(file)) = open(repo) else { return false };
    let mut lines = Lines::new(&*file, Place::from(from));
    loop {
        match lines.next() {
            // Every number is issued once: if another event has it, ours was a mistake. Compared in
            // written form: the clock has a finer resolution than that.
            Ok(Some(Line::Good(found))) if found.event_id == event.event_id => {
                return found.to_value() == event.to_value();
            }
            // After a repair, earlier knowledge of the log no longer counts, and a link that is in
            // it may be one that never took effect.
            Ok(Some(Line::Good(found))) if found.operation == REPAIR => return false,
            Ok(Some(Line::Good(_) | Line::Bad(_) | Line::Wiped(_))) => {}
            Ok(Some(Line::Torn) | None) | Err(_) => return false,
        }
    }
}
