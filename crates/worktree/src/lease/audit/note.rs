//! Events without a link: written at once, and durably.

use lokt_core::lease::audit::Event;
use lokt_core::lease::record::HolderId;
use serde_json::{Map, Value};

use super::log::{Closed, Log, PATIENCE, sync};
use crate::repo::Repository;
use lokt_sys::error::Error;
use lokt_sys::warnings::Warning;

/// Creates an event of this process, at the current time. The caller can add token, session and
/// reason.
pub fn event(repo: &Repository, operation: &str, target: &str, details: Map<String, Value>) -> Result<Event, Error> {
    let me = &repo.me;
    let actor = HolderId { host: me.host.clone(), user: me.owner.clone(), pid: me.pid, start: me.pid_start };
    Ok(Event {
        event_id: format!("{:032x}", repo.random()?),
        timestamp: repo.machine.now().wall,
        operation: operation.into(),
        actor: actor.text(),
        target: target.into(),
        token: None,
        session_id: None,
        reason: None,
        details,
    })
}

/// Appends an event and syncs it; returns what went wrong.
pub fn note(repo: &Repository, event: &Event) -> Option<Warning> {
    let noted = Log::enter(repo, PATIENCE).and_then(|mut log| {
        log.append([event])?;
        sync(repo).map_err(Closed)?;
        Ok(log.trouble)
    });
    let missing = |Closed(why)| Some(format!("{why}: {} of {} isn't in it", event.operation, event.target));
    noted.unwrap_or_else(missing).map(Warning::Audit)
}
