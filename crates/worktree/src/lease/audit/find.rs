//! Is an event in the log? For whoever was stopped for so long that its link is gone, that is the only one who knows.

use lokt_core::lease::audit::{Anchor, Event};

use super::REPAIR;
use super::lines::{Line, Lines, Place};
use super::log::open;
use crate::repo::Repository;

/// Is this very event in the log, after the place that `from` names? Where the log can't be read, nobody can tell, and it isn't.
pub fn has(repo: &Repository, from: &Anchor, event: &Event) -> bool {
    let Ok(Some(file)) = open(repo) else { return false };
    let mut lines = Lines::new(&*file, Place::from(from));
    loop {
        match lines.next() {
            // Every number was given once: if another has it, ours was a mistake. As they are written: a clock shows more than that.
            Ok(Some(Line::Good(found))) if found.event_id == event.event_id => {
                return found.to_value() == event.to_value();
            }
            // What was known of the log by then counts no more, and a link that is in it may be one that never counted.
            Ok(Some(Line::Good(found))) if found.operation == REPAIR => return false,
            Ok(Some(Line::Good(_) | Line::Bad(_) | Line::Wiped(_))) => {}
            Ok(Some(Line::Torn) | None) | Err(_) => return false,
        }
    }
}
