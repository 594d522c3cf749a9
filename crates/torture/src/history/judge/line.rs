//! in-order: whoever was in line before another asked enters before it.

use core::fmt;
use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use super::super::holds::{Hold, Seconds, Stops, holds_in_time, in_time};
use super::super::{Deed, Entry};

/// Whoever leaves a free lock alone for so long is passed over; the promise says so.
const PASSED_OVER_NS: u64 = 2_000_000_000;

/// Somebody entered before somebody who was there before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfTurn {
    /// Of which lock.
    pub name: String,
    /// Was in line, and entered too late or never.
    pub passed: Passed,
    /// Asked later, and entered too early.
    pub early: Hold,
}

/// Somebody who was in line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// Who.
    pub who: u64,
    /// With which token it entered then.
    pub token: Option<u64>,
    /// When it was seen to be in line.
    pub in_line: u64,
    /// It was in line until then: it entered, or its time was over.
    pub until: u64,
    /// Did it enter?
    pub entered: bool,
}

impl fmt::Display for OutOfTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, passed, early } = self;
        let (asked, entered) = (Seconds(early.asked.unwrap_or(early.entered)), Seconds(early.entered));
        let (since, until) = (Seconds(passed.in_line), Seconds(passed.until));
        write!(f, "{name}: {early} asked at {asked} and entered at {entered}; process {}", passed.who)?;
        if let Some(token) = passed.token {
            write!(f, " (token {token})")?;
        }
        let then = if passed.entered { "and entered at" } else { "until its time was over at" };
        write!(f, " was in line since {since} {then} {until}")
    }
}

/// What is known of one name.
#[derive(Default)]
struct OfName<'a> {
    /// In the order of entering.
    holds: Vec<&'a Hold>,
    waited: Vec<Passed>,
}

/// Everybody who entered before their turn, each with the last of those whom they passed. Whoever was stopped meanwhile isn't counted,
/// nor whoever was in line while the lock was free for two seconds: they were passed over, until they look by themselves. Who gave up
/// counts for as long as it was in line for certain.
pub fn line(entries: &[Entry]) -> Vec<OutOfTurn> {
    let sorted = in_time(entries);
    let stops = Stops::of(&sorted);
    let holds = holds_in_time(&sorted);
    let mut names: BTreeMap<&str, OfName<'_>> = BTreeMap::new();
    // The others say nothing about when they were let in.
    for hold in holds.iter().filter(|hold| hold.is_certain()) {
        let of = names.entry(&hold.name).or_default();
        of.holds.push(hold);
        of.waited.extend(hold.in_line.map(|in_line| Passed {
            who: hold.who,
            token: hold.token,
            in_line,
            until: hold.entered,
            entered: true,
        }));
    }
    for (name, passed) in out_of_time(&sorted) {
        names.entry(name).or_default().waited.push(passed);
    }
    names.into_values().flat_map(|of| of_one_name(of, &stops)).collect()
}

/// Those who were in line until their time was over.
fn out_of_time<'a>(sorted: &[&'a Entry]) -> Vec<(&'a str, Passed)> {
    let mut in_line: BTreeMap<(u64, &str), u64> = BTreeMap::new();
    let mut found = Vec::new();
    for entry in sorted {
        match &entry.deed {
            Deed::InLine { name } => drop(in_line.insert((entry.who, name), entry.at)),
            Deed::Asked { name } | Deed::Entered { name, .. } => drop(in_line.remove(&(entry.who, name.as_str()))),
            Deed::OutOfTime { name, until } => {
                let since = in_line.remove(&(entry.who, name.as_str()));
                found.extend(since.map(|in_line| {
                    (name.as_str(), Passed { who: entry.who, token: None, in_line, until: *until, entered: false })
                }));
            }
            _ => {}
        }
    }
    found
}

fn of_one_name(of: OfName<'_>, stops: &Stops) -> Vec<OutOfTurn> {
    let OfName { holds, mut waited } = of;
    let left_alone = left_alone(&holds);
    waited.retain(|one| {
        let next = left_alone.partition_point(|at| *at < one.in_line);
        !stops.any(one.who, one.in_line, one.until) && left_alone.get(next).is_none_or(|at| *at >= one.until)
    });
    waited.sort_by_key(|one| one.in_line);
    let mut asked: Vec<(u64, &Hold)> = holds.iter().filter_map(|hold| Some((hold.asked?, *hold))).collect();
    asked.retain(|(since, hold)| !stops.any(hold.who, *since, hold.entered));
    asked.sort_by_key(|(since, _)| *since);
    let mut waited = waited.iter().peekable();
    let mut last: Option<&Passed> = None;
    let mut found = Vec::new();
    for (since, early) in asked {
        while let Some(one) = waited.next_if(|one| one.in_line < since) {
            if last.is_none_or(|last| last.until < one.until) {
                last = Some(one);
            }
        }
        if let Some(passed) = last
            && passed.until > early.entered
        {
            found.push(OutOfTurn { name: early.name.clone(), passed: passed.clone(), early: early.clone() });
        }
    }
    found
}

/// When somebody entered a lock that had been free for so long that those in line were passed over, in the order of time.
fn left_alone(holds: &[&Hold]) -> Vec<u64> {
    let mut free_since = None;
    let mut found = Vec::new();
    for hold in holds {
        if free_since.is_some_and(|since| hold.entered.saturating_sub(since) >= PASSED_OVER_NS) {
            found.push(hold.entered);
        }
        free_since = free_since.max(Some(hold.ended));
    }
    found
}
