//! Appends missing events to the log, from the links of one chain.
//!
//! The last link says where the log ended when the link was created, and which links were in it by
//! then. So only the few lines since then must be searched, for the few links after that.

use std::time::Duration;

use lokt_core::lease::audit::Anchor;
use lokt_core::lease::slot::Slot;

use super::chains::is_of_this_boot;
use super::lines::{Line, Place};
use super::log::{Closed, Log};
use super::settle::{Standing, standing};
use crate::repo::Repository;
use lokt_sys::error::Error;
use lokt_sys::warnings::Warning;

/// Result of filling the log.
#[derive(Debug)]
pub struct Filled {
    /// The anchor for the next link.
    pub anchor: Anchor,
    /// Why something is missing or wrong. `None`: every link up to the last is in the log, in its
    /// place.
    pub warning: Option<Warning>,
}

/// Appends the events of a chain that aren't in the log, up to that of its last link, `highest`.
/// `between(n)` returns the good links above `n` and below the last, lowest first; it is called
/// only if there may be some. `patience` is the maximum wait for another writer of the log. Not
/// synced.
pub fn fill(
    repo: &Repository,
    highest: Option<&Slot>,
    patience: Duration,
    between: &mut dyn FnMut(u64) -> Result<Vec<Slot>, Error>,
) -> Filled {
    let before = || highest.map(|slot| slot.anchor.clone()).unwrap_or_default();
    match filled(repo, highest, patience, between) {
        Ok((log, logged)) => {
            Filled { anchor: log.end.anchor(logged, repo.me.boot_id.clone()), warning: log.trouble.map(Warning::Audit) }
        }
        // What the last link knew about the log is still true. Later changes are unknown.
        Err(Closed(why)) => Filled { anchor: before(), warning: Some(Warning::Audit(why)) },
    }
}

fn filled<'r>(
    repo: &'r Repository,
    highest: Option<&Slot>,
    patience: Duration,
    between: &mut dyn FnMut(u64) -> Result<Vec<Slot>, Error>,
) -> Result<(Log<'r>, u64), Closed> {
    let mut log = Log::enter(repo, patience)?;
    let Some(highest) = highest else { return Ok((log, 0)) };
    let anchor = &highest.anchor;
    let (mut from, mut logged) = (Place::from(anchor), anchor.logged);
    let (mut missing, mut is_found) = (vec![highest.clone()], false);
    if let Some(found) = look_ahead(&log, &from, &highest.event.event_id)? {
        is_found = found;
    } else {
        match standing(&log, anchor)? {
            Standing::Good => {}
            Standing::Void => logged = 0,
            Standing::Bad if log.is_settled || is_of_this_boot(repo, highest) => {
                let why = format!("the line {} that link {} knows isn't there", anchor.count, highest.number);
                return Err(Closed::broken(&why));
            }
            Standing::Bad => {
                let why = format!("the line {} that link {} knows was lost", anchor.count, highest.number);
                log.void([anchor.clone()], &why)?;
                logged = 0;
            }
        }
        from = Place::default();
    }
    if logged + 1 < highest.number {
        missing = between(logged).map_err(|error| Closed(format!("the audit log isn't whole: {error}")))?;
        missing.push(highest.clone());
        missing.retain(|slot| slot.number > logged);
        is_found = false;
    }
    if is_found {
        return Ok((log, highest.number));
    }
    forget_logged(&log, from, &mut missing)?;
    log.append(missing.iter().map(|slot| &slot.event))?;
    Ok((log, highest.number))
}

/// Checks that the log at this place is unchanged, by the line that follows, or by the end of the
/// log. `None` if it isn't; else whether that line is the event. Usually it is, because a process
/// that adds a link writes its line next.
fn look_ahead(log: &Log<'_>, place: &Place, event_id: &str) -> Result<Option<bool>, Closed> {
    if place.size >= log.end.size {
        return Ok((*place == log.end || place.count == 0).then_some(false));
    }
    let Some(mut lines) = log.lines(place.clone()) else { return Ok((place.count == 0).then_some(false)) };
    Ok(match lines.next().map_err(|error| unread(&error))? {
        Some(Line::Bad(_) | Line::Wiped(_)) => None,
        Some(Line::Good(event)) => Some(event.event_id == event_id),
        Some(Line::Torn) | None => Some(false),
    })
}

/// Removes those that are in the log from `from` on.
fn forget_logged(log: &Log<'_>, from: Place, missing: &mut Vec<Slot>) -> Result<(), Closed> {
    if from.size >= log.end.size {
        return Ok(());
    }
    let Some(mut lines) = log.lines(from) else { return Ok(()) };
    while !missing.is_empty() {
        match lines.next().map_err(|error| unread(&error))? {
            None | Some(Line::Torn) => break,
            Some(Line::Bad(_) | Line::Wiped(_)) => {}
            Some(Line::Good(event)) => missing.retain(|slot| slot.event.event_id != event.event_id),
        }
    }
    Ok(())
}

pub(super) fn unread(error: &std::io::Error) -> Closed {
    Closed(format!("the audit log can't be read ({error}); the next command adds what is missing"))
}
