//! in-order: whoever was in line before another asked enters before it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::super::Entry;
use super::super::holds::{Hold, Seconds, Stops, holds_in_time, in_time};

/// Whoever leaves a free lock alone for so long is passed over; the promise says so.
const PASSED_OVER_NS: u64 = 2_000_000_000;

/// Somebody entered before somebody who was there before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfTurn {
    /// Of which lock.
    pub name: String,
    /// Was in line, and entered too late.
    pub passed: Hold,
    /// Asked later, and entered too early.
    pub early: Hold,
}

impl fmt::Display for OutOfTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, passed, early } = self;
        let (asked, entered) = (Seconds(early.asked.unwrap_or(early.entered)), Seconds(early.entered));
        let (since, after) = (Seconds(passed.in_line.unwrap_or(passed.entered)), Seconds(passed.entered));
        write!(
            f,
            "{name}: {early} asked at {asked} and entered at {entered}; {passed} was in line since {since} and entered at {after}"
        )
    }
}

/// Everybody who entered before their turn, each with the last of those whom they passed. Whoever was stopped meanwhile isn't counted,
/// nor whoever was in line while the lock was free for two seconds: they were passed over, until they look by themselves.
pub fn line(entries: &[Entry]) -> Vec<OutOfTurn> {
    let sorted = in_time(entries);
    let stops = Stops::of(&sorted);
    let holds = holds_in_time(&sorted);
    let mut names: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in &holds {
        names.entry(&hold.name).or_default().push(hold);
    }
    names.values().flat_map(|holds| of_one_name(holds, &stops)).collect()
}

/// `holds` are in the order of entering.
fn of_one_name(holds: &[&Hold], stops: &Stops) -> Vec<OutOfTurn> {
    let awake = |hold: &Hold, since: u64| !stops.any(hold.who, since, hold.entered);
    let mut waited: Vec<(u64, &Hold)> = holds.iter().filter_map(|hold| Some((hold.in_line?, *hold))).collect();
    waited.retain(|(since, hold)| awake(hold, *since));
    waited.sort_by_key(|(since, _)| *since);
    let left_alone = left_alone(holds);
    waited.retain(|(since, hold)| {
        let next = left_alone.partition_point(|at| at < since);
        left_alone.get(next).is_none_or(|at| *at >= hold.entered)
    });
    let mut asked: Vec<(u64, &Hold)> = holds.iter().filter_map(|hold| Some((hold.asked?, *hold))).collect();
    asked.retain(|(since, hold)| awake(hold, *since));
    asked.sort_by_key(|(since, _)| *since);
    let mut waited = waited.into_iter().peekable();
    let mut last: Option<&Hold> = None;
    let mut found = Vec::new();
    for (since, early) in asked {
        while let Some((_, hold)) = waited.next_if(|(in_line, _)| *in_line < since) {
            if last.is_none_or(|last| last.entered < hold.entered) {
                last = Some(hold);
            }
        }
        if let Some(passed) = last
            && passed.entered > early.entered
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
