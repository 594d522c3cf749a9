//! **frozen-means-frozen**: whoever asked after a freeze was answered isn't let in before somebody begins to end it.

use std::path::Path;

use lokt_torture::history::holds::holds;
use lokt_torture::history::{Deed, Entry, Hold};

use super::Check;
use crate::nemesis::freezes::{Freeze, read};

/// What the history shows about the freezes of a run.
pub(crate) fn check(dir: &Path, entries: &[Entry]) -> Vec<Check> {
    let freezes = read(dir);
    let asked = |freeze: &&Freeze| {
        entries.iter().any(|entry| {
            matches!(&entry.deed, Deed::Asked { name } if *name == freeze.name) && freeze.lasts_at(entry.at)
        })
    };
    let found = freezes.iter().find(asked).is_some_and(|freeze| {
        let name = || freeze.name.clone();
        let entered = Deed::Entered { name: name(), token: None, until: None };
        let deeds = [(freeze.from + 1, Deed::Asked { name: name() }), (freeze.from + 2, entered)];
        let planted = deeds.map(|(at, deed)| Entry { at, who: u64::MAX, deed });
        intruders(&freezes, &[entries, &planted].concat()).len() == intruders(&freezes, entries).len() + 1
    });
    vec![
        Check::new(
            "frozen-means-frozen: nobody who asked during a freeze was let in before its end",
            intruders(&freezes, entries),
        ),
        Check::holds(
            "the judge finds what is planted: somebody who was let in during a freeze",
            found,
            "it missed it, or nobody asked during any",
        )
        .about_the_run(),
    ]
}

fn intruders(freezes: &[Freeze], entries: &[Entry]) -> Vec<String> {
    let early = |hold: &Hold, freeze: &&Freeze| {
        hold.name == freeze.name && hold.asked.is_some_and(|at| freeze.lasts_at(at)) && freeze.lasts_at(hold.entered)
    };
    let intruder = |hold: Hold| {
        let freeze = freezes.iter().find(|freeze| early(&hold, freeze))?;
        let [from, to, at] = [freeze.from, freeze.to, hold.entered].map(seconds);
        Some(format!("{}: {hold} entered at {at}, and it was frozen from {from} to {to}", hold.name))
    };
    holds(entries).into_iter().filter_map(intruder).collect()
}

fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns / 1_000 % 1_000_000)
}
