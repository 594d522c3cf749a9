//! A wait for a lease: the line that is shown.

use lokt_sys::wait_policy::Waiting;
use lokt_worktree::lease::{LeaseState, LeaseStatus, Worktree};

use super::super::waiting::{Subject, how_long};
use super::holder::{holder, span, token};
use crate::show::quoted;

/// A worktree whose lease a command waits for.
pub(super) struct LeaseWait<'a>(pub(super) &'a Worktree);

impl Subject for LeaseWait<'_> {
    fn line(&self, waiting: &Waiting<'_>, _live: bool) -> String {
        let Self(worktree) = self;
        // The present holder.
        let obstacle = worktree.status(None).map_or_else(|_| "unknown".to_owned(), |status| obstacle(&status));
        let name = quoted(worktree.name().as_str());
        format!("waiting for worktree {name}: {obstacle}; {}", how_long(waiting))
    }
}

fn obstacle(status: &LeaseStatus) -> String {
    let who = status.record.as_ref().map(|record| format!("{}{}", holder(record), token(record)));
    let who = who.unwrap_or_else(|| "somebody unknown".to_owned());
    let left = status.retry_after_ms.map(|ms| format!(", for others in {} unless it is renewed", span(ms)));
    match status.state {
        LeaseState::Free | LeaseState::Expired | LeaseState::Shared => "nobody holds it at this moment".to_owned(),
        LeaseState::Corrupt => format!("what is stored can't be read{}", left.unwrap_or_default()),
        LeaseState::ExpiredGrace => format!("ended, it was {who}{}", left.unwrap_or_default()),
        LeaseState::Held | LeaseState::Foreign => format!("held by {who}{}", left.unwrap_or_default()),
    }
}
