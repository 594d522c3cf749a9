//! What is held at this moment, as an agent should see it.

use std::fmt::Write as _;

use lokt_core::time::show_wall_seconds;
use lokt_named::{Entry, EntryState, Lokt};
use serde::Serialize;

use super::escape::{plain_or_code, short};
use crate::context::Context;
use crate::members::text;
use crate::report::Failure;
use crate::show::{age, seconds_since};

/// An agent reads no more.
const SHOWN_MAX: usize = 40;

/// A lock or a freeze.
#[derive(Serialize)]
pub(super) struct Standing {
    name: String,
    /// It is a freeze; otherwise a lock.
    freeze: bool,
    /// A lock whose name is frozen, or a freeze that lasts.
    frozen: bool,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    held_sec: i64,
    waiters: usize,
    #[serde(skip)]
    age: String,
}

/// What is there.
#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It counts.
    Live,
    Expired,
    /// Its process is gone.
    Dead,
    /// It can't be read, so it counts.
    Damaged,
}

/// Everything that is held or frozen.
pub(super) fn look(context: &Context) -> Result<Vec<Standing>, Failure> {
    let Some(lokt) = context.open()? else { return Ok(Vec::new()) };
    let mut standings = lokt.inspect().map_entries(|entry| standing(&lokt, entry))?;
    let frozen: Vec<String> =
        standings.iter().filter(|it| it.freeze && it.frozen).map(|freeze| freeze.name.clone()).collect();
    for it in &mut standings {
        it.frozen |= frozen.contains(&it.name);
    }
    Ok(standings)
}

fn standing(lokt: &Lokt, entry: Entry) -> Standing {
    let now = lokt.now().wall;
    let mut standing = Standing {
        freeze: entry.is_freeze,
        frozen: entry.is_freeze,
        state: State::Damaged,
        owner: None,
        host: None,
        agent_id: None,
        since: None,
        held_sec: 0,
        waiters: entry.waiters,
        age: String::new(),
        name: entry.name,
    };
    if let EntryState::Held(holder) = entry.state {
        let hold = &holder.hold;
        let began = hold.began();
        standing.state = match holder.elapsed.is_expired() {
            true => State::Expired,
            false if entry.is_freeze || holder.lives() => State::Live,
            false => State::Dead,
        };
        standing.frozen = entry.is_freeze && standing.state == State::Live;
        standing.owner = text(&hold.owner);
        standing.host = text(&hold.host);
        standing.agent_id = text(&hold.agent_id);
        standing.since = began.map(show_wall_seconds);
        standing.held_sec = seconds_since(began, now);
        standing.age = age(began, now);
    }
    standing
}

/// As Markdown.
pub(super) fn bullets(standings: &[Standing]) -> String {
    if standings.is_empty() {
        return "No locks held.\n".to_owned();
    }
    let mut text = String::new();
    for it in standings.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "- **{}** {}", it.name, it.sentence());
    }
    if standings.len() > SHOWN_MAX {
        let _ = writeln!(text, "- and {} more: `lokt status`", standings.len() - SHOWN_MAX);
    }
    text
}

impl Standing {
    fn sentence(&self) -> String {
        let mut text = if self.state == State::Damaged {
            "has a record that can't be read".to_owned()
        } else {
            let who = |part: &Option<String>| short(part.as_deref().unwrap_or("unknown"));
            let who = plain_or_code(&format!("{}@{}", who(&self.owner), who(&self.host)));
            format!("{} by {who} for {}", if self.freeze { "frozen" } else { "held" }, self.age)
        };
        if let Some(since) = &self.since {
            let _ = write!(text, " (since {since})");
        }
        if self.waiters > 0 {
            let _ = write!(text, ", {} waiting", self.waiters);
        }
        if self.frozen {
            text.push_str(" [FROZEN]");
        }
        text.push_str(match self.state {
            State::Live => "",
            State::Expired => " [EXPIRED]",
            State::Dead => " [DEAD]",
            State::Damaged => " [DAMAGED]",
        });
        text
    }
}
