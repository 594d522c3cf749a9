//! Deeds put together: who asked for what, was inside from when to when, and was stopped meanwhile.

use core::fmt;
use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use super::{Deed, Entry};

/// Somebody was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Into which lock.
    pub name: String,
    /// Who.
    pub who: u64,
    /// With which token.
    pub token: Option<u64>,
    /// When it asked, if it said so.
    pub asked: Option<u64>,
    /// When it was seen to be in line, if it was.
    pub in_line: Option<u64>,
    /// Until when it may believe to be inside. `None`: as long as it lives.
    pub until: Option<u64>,
    /// It was inside from here.
    pub entered: u64,
    /// It was inside for certain until here: it left, or its lease ended, or nothing more was heard from it, or it was about to be killed.
    pub ended: u64,
    /// It said that it leaves.
    pub left: bool,
}

impl Hold {
    /// Was it inside for certain, if only for a moment? Whoever heard of its lease after that was over wasn't.
    pub(super) fn is_certain(&self) -> bool {
        self.until.is_none_or(|until| until > self.entered)
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.who)?;
        if let Some(token) = self.token {
            write!(f, " (token {token})")?;
        }
        Ok(())
    }
}

/// A moment in seconds, exact to the microsecond.
pub(super) struct Seconds(pub(super) u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0 / 1_000;
        write!(f, "{}.{:06} s", micros / 1_000_000, micros % 1_000_000)
    }
}

/// The entries in the order in which they happened.
pub(super) fn in_time(entries: &[Entry]) -> Vec<&Entry> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    // Stable: what one process wrote in one nanosecond stays as it wrote it.
    sorted.sort_by_key(|entry| entry.at);
    sorted
}

/// What one life of a process is at, concerning one name.
#[derive(Default)]
struct Attempt {
    asked: Option<u64>,
    in_line: Option<u64>,
    /// The index of the hold that it is inside of.
    inside: Option<usize>,
}

/// Every hold, in the order of entering.
pub fn holds(entries: &[Entry]) -> Vec<Hold> {
    holds_in_time(&in_time(entries))
}

pub(super) fn holds_in_time(sorted: &[&Entry]) -> Vec<Hold> {
    let mut holds: Vec<Hold> = Vec::new();
    let mut attempts: BTreeMap<(u64, &str), Attempt> = BTreeMap::new();
    let mut last_heard: BTreeMap<u64, u64> = BTreeMap::new();
    for entry in sorted {
        if entry.deed.is_sign_of_life() {
            last_heard.insert(entry.who, entry.at);
        }
        match &entry.deed {
            Deed::Asked { name } => {
                attempts.insert((entry.who, name), Attempt { asked: Some(entry.at), ..Attempt::default() });
            }
            Deed::InLine { name } => {
                attempts.entry((entry.who, name)).or_default().in_line = Some(entry.at);
            }
            Deed::Entered { name, token, until } => {
                let attempt = attempts.entry((entry.who, name)).or_default();
                attempt.inside = Some(holds.len());
                holds.push(Hold {
                    name: name.clone(),
                    who: entry.who,
                    token: *token,
                    asked: attempt.asked,
                    in_line: attempt.in_line,
                    until: *until,
                    entered: entry.at,
                    ended: u64::MAX,
                    left: false,
                });
            }
            Deed::Left { name } => {
                if let Some(index) = attempts.remove(&(entry.who, name)).and_then(|attempt| attempt.inside) {
                    holds[index].ended = entry.at;
                    holds[index].left = true;
                }
            }
            Deed::GaveUp { name } => {
                attempts.remove(&(entry.who, name));
            }
            _ => {}
        }
    }
    for hold in &mut holds {
        if !hold.left {
            hold.ended = last_heard.get(&hold.who).copied().unwrap_or(hold.entered);
        }
        hold.ended = hold.ended.min(hold.until.unwrap_or(u64::MAX)).max(hold.entered);
    }
    holds
}

/// When each life was stopped, from the moment before to the moment after.
pub(super) struct Stops(BTreeMap<u64, Vec<(u64, u64)>>);

impl Stops {
    pub(super) fn of(sorted: &[&Entry]) -> Self {
        let mut stops: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for entry in sorted {
            match entry.deed {
                Deed::Stopped => stops.entry(entry.who).or_default().push((entry.at, u64::MAX)),
                Deed::Continued => {
                    // Several stops in a row are ended by one continuation.
                    for (_, until) in stops.entry(entry.who).or_default().iter_mut().rev() {
                        if *until != u64::MAX {
                            break;
                        }
                        *until = entry.at;
                    }
                }
                _ => {}
            }
        }
        Self(stops)
    }

    /// Was this life stopped at any moment from `from` to `to`?
    pub(super) fn any(&self, who: u64, from: u64, to: u64) -> bool {
        let Some(stops) = self.0.get(&who) else { return false };
        // Their ends are in order as their beginnings are.
        let first = stops.partition_point(|(_, until)| *until < from);
        stops.get(first).is_some_and(|(since, _)| *since <= to)
    }
}
