//! What somebody is told who waits for a lease: one live line on a terminal; elsewhere a line at the start, and one a minute.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use lokt::Waiting;
use lokt::lease::{LeaseState, LeaseStatus, Worktree};

use super::super::waiting::{CLEAR, fitting, how_long};
use super::holder::{holder, span, token};
use crate::report::say;
use crate::show::quoted;

/// Off a terminal, how often a wait says that it still waits.
const REMINDER: Duration = Duration::from_secs(60);

/// Shows how a wait stands.
pub(crate) struct Display<'a> {
    worktree: &'a Worktree,
    live: bool,
    /// How long it had been waited when something was last said.
    said: Option<Duration>,
}

impl<'a> Display<'a> {
    pub(crate) fn new(worktree: &'a Worktree) -> Self {
        Self { worktree, live: stderr().is_terminal(), said: None }
    }

    pub(crate) fn show(&mut self, waiting: &Waiting<'_>) {
        if self.live {
            say(&format!("{CLEAR}{}", fitting(&self.line(waiting))));
        } else if self.said.is_none_or(|at| waiting.waited >= at + REMINDER) {
            say(&format!("{}\n", self.line(waiting)));
        } else {
            return;
        }
        self.said = Some(waiting.waited);
    }

    fn line(&self, waiting: &Waiting<'_>) -> String {
        // Who has it by now.
        let obstacle = self.worktree.status(None).map_or_else(|_| "unknown".to_owned(), |status| obstacle(&status));
        let name = quoted(self.worktree.name().as_str());
        format!("waiting for worktree {name}: {obstacle}; {}", how_long(waiting))
    }
}

impl Drop for Display<'_> {
    fn drop(&mut self) {
        if self.live && self.said.is_some() {
            say(CLEAR);
        }
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
