//! The verdict: what the history shows, and what is on the disk when everybody is gone.

pub(crate) mod planted;
pub(crate) mod state;

use std::collections::BTreeMap;

use lokt_core::history::{Deed, Entry, judge};

use crate::fenced::{CAREFUL, CARELESS};
use crate::nemesis::KINDS;
use crate::peers::{Outcome, Peer};

/// A sentence that must be true, and what shows that it isn't.
#[derive(Debug)]
pub(crate) struct Check {
    /// The sentence.
    pub(crate) what: String,
    /// Empty if it is true.
    pub(crate) broken: Vec<String>,
}

impl Check {
    /// A sentence, and what was found against it.
    pub(crate) fn new(what: impl Into<String>, broken: impl IntoIterator<Item = impl ToString>) -> Self {
        Self { what: what.into(), broken: broken.into_iter().map(|one| one.to_string()).collect() }
    }

    /// A sentence that is true if `holds`.
    pub(crate) fn holds(what: impl Into<String>, holds: bool, otherwise: impl Into<String>) -> Self {
        Self::new(what, (!holds).then(|| otherwise.into()))
    }
}

/// Names of one counter begin alike.
fn scope(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

/// A lock whose file may have been deleted promises its tokens alone.
fn is_messy(deed: &Deed) -> bool {
    match deed {
        Deed::Asked { name }
        | Deed::InLine { name }
        | Deed::Entered { name, .. }
        | Deed::Left { name }
        | Deed::GaveUp { name } => scope(name) == "mess",
        _ => false,
    }
}

/// Everything that the history of lokt shows.
pub(crate) fn history(entries: &[Entry]) -> Vec<Check> {
    let whole: Vec<Entry> = entries.iter().filter(|entry| !is_messy(&entry.deed)).cloned().collect();
    let (fenced, guarded): (Vec<_>, Vec<_>) =
        judge::registers(entries).into_iter().partition(|register| scope(&register.name) == "fenced");
    let lost = guarded.iter().flat_map(|register| &register.lost);
    let mut checks = vec![
        Check::new("one-holder: no two were inside of one lock, claim or lease at once", judge::overlaps(&whole)),
        Check::new("token-order: tokens grew, also where files were deleted", judge::tokens(entries, scope)),
        Check::new("in-order: nobody was overtaken in line", judge::line(&whole)),
        Check::new("one-holder: no update of a register was lost under a lock", lost),
        Check::new("no-overwrite: numbers of events are in the order of the appends", judge::ledger(entries)),
    ];
    // What a sentence is about must have happened.
    let count = |wanted: fn(&Deed) -> bool| whole.iter().filter(|entry| wanted(&entry.deed)).count();
    let material = [
        ("somebody was seen in line", count(|deed| matches!(deed, Deed::InLine { .. }))),
        (
            "somebody was inside until the end of a lease",
            count(|deed| matches!(deed, Deed::Entered { until: Some(1..), .. })),
        ),
        (
            "somebody was inside for as long as it lived",
            count(|deed| matches!(deed, Deed::Entered { until: None, .. })),
        ),
        ("events were acknowledged", count(|deed| matches!(deed, Deed::Appended { .. }))),
    ];
    checks.extend(material.map(|(what, count)| Check::holds(what, count > 0, "then the verdict is about nothing")));
    let find = |name: &str| fenced.iter().find(|register| register.name == name);
    for name in CAREFUL {
        let what = format!("fencing: nothing was lost in the register {:?}", plain(name));
        checks.push(match find(name) {
            Some(register) if register.acknowledged > 0 && register.refused > 0 => Check::new(what, &register.lost),
            other => Check::new(what, [format!("it proves nothing without writes that were refused: {other:?}")]),
        });
    }
    for name in CARELESS {
        let what = format!("the load loses updates in the register {:?}", plain(name));
        let lost = find(name).map_or(0, |register| register.lost.len());
        checks.push(Check::holds(what, lost > 0, "none was lost: late writers did no harm, so tokens prove nothing"));
    }
    checks
}

/// A register's name without its ward.
pub(crate) fn plain(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, name)| name)
}

/// Locks that fail by design are condemned, the others aren't.
pub(crate) fn peers(outcomes: &[(&Peer, Outcome)]) -> Vec<Check> {
    let mut checks = Vec::new();
    for (peer, outcome) in outcomes {
        let seen = format!("{outcome:?}");
        let work = outcome.holds > 0 && outcome.killed > 0;
        if peer.fails {
            let what = format!("the judge condemns {}", peer.title);
            checks.push(Check::holds(what, work && outcome.overlaps > 0, format!("it was acquitted: {seen}")));
        } else {
            let what = format!("{} lets nobody in beside another, under the same load", peer.title);
            let innocent = work && outcome.overlaps == 0 && outcome.lost == 0 && outcome.tokens == 0;
            checks.push(Check::holds(what, innocent, seen.clone()));
        }
        if peer.title.starts_with("naive") {
            let what = "the judge condemns the tokens of a naive lock file";
            checks.push(Check::holds(what, outcome.tokens > 0, seen));
        }
    }
    checks
}

/// A nemesis that did nothing proves nothing.
pub(crate) fn nemesis(counts: &BTreeMap<String, u64>) -> Vec<Check> {
    let check = |kind: &&str| {
        let count = counts.get(*kind).copied().unwrap_or(0);
        Check::holds(format!("the nemesis did its work: {kind}"), count > 0, "a nemesis that did nothing")
    };
    KINDS.iter().map(check).collect()
}

/// How often somebody was let into what, and how it ended.
pub(crate) fn per_scope(entries: &[Entry]) -> BTreeMap<&str, (u64, u64)> {
    let mut table: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for entry in entries {
        match &entry.deed {
            Deed::Entered { name, .. } => table.entry(scope(name)).or_default().0 += 1,
            Deed::GaveUp { name } => table.entry(scope(name)).or_default().1 += 1,
            _ => {}
        }
    }
    table
}
