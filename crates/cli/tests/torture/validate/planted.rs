//! The judges are judged: into a copy of what has just been acquitted one fault of each kind is put, and each must be found.

use lokt_torture::history::holds::holds;
use lokt_torture::history::{Deed, Entry, Hold, judge};

use super::{Check, is_messy, never_entered, scope};
use crate::fenced::CAREFUL;

/// Nobody has this number.
const INTRUDER: u64 = u64::MAX;
/// A judge that finds nothing in so many places is blind.
const PLACES_MAX: usize = 50;

/// One check for each kind of fault.
pub(crate) fn check(entries: &[Entry]) -> Vec<Check> {
    let whole: Vec<Entry> = entries.iter().filter(|entry| !is_messy(&entry.deed)).cloned().collect();
    let all = holds(&whole);
    let found = [
        ("a second holder", some(&all, lasted, |hold| second_holder(&whole, hold))),
        (
            "one beside a named lock that was renewed",
            some(&all, renewed("main/", ""), |hold| second_holder(&whole, hold)),
        ),
        (
            "one beside a claim that was renewed",
            some(&all, renewed("", "-claims/"), |hold| second_holder(&whole, hold)),
        ),
        ("one beside a lease that was renewed", some(&all, renewed("", "/lease"), |hold| second_holder(&whole, hold))),
        (
            "a second holder in another worktree of the same repository",
            some(&all, in_ward("yard/"), |hold| second_holder(&whole, hold)),
        ),
        (
            "a second holder beside one whose root was inside a tree that was restored",
            some(&all, in_ward("nest/"), |hold| second_holder(&whole, hold)),
        ),
        (
            "a token that went back with a tree that was restored",
            some(&all, in_ward("nest/"), |hold| token_that_went_back(&whole, hold)),
        ),
        ("a token that went back", some(&all, |hold| hold.token.is_some(), |hold| token_that_went_back(&whole, hold))),
        ("somebody who was overtaken", some(&all, waited, |hold| overtaken(&whole, hold))),
        ("an update that was lost", some(&whole, is_write, |entry| lost_update(&whole, entry))),
        ("a late write that was taken", some(&whole, is_careful_write, |entry| lost_update(&whole, entry))),
        ("a number that was given twice", some(&whole, is_append, |entry| number_twice(&whole, entry))),
        ("leases whose end nobody knows", leases_without_end(&whole)),
    ];
    // Where nothing like it happened, there is no place for it.
    let check = |(what, found)| {
        Check::holds(format!("the judge finds what is planted: {what}"), found, "it missed it").about_the_run()
    };
    found.map(check).into()
}

/// Not every place is good for a fault; one of the first of these is.
fn some<T>(places: &[T], suits: impl Fn(&T) -> bool, found: impl FnMut(&T) -> bool) -> bool {
    places.iter().filter(|place| suits(place)).take(PLACES_MAX).any(found)
}

fn lasted(hold: &Hold) -> bool {
    hold.ended > hold.entered + 4
}

fn in_ward(start: &str) -> impl Fn(&Hold) -> bool {
    move |hold| hold.name.starts_with(start) && hold.token.is_some() && lasted(hold)
}

/// Somebody is inside once more, by a renewal. Nobody of the load enters without a token otherwise.
fn renewed(start: &str, part: &str) -> impl Fn(&Hold) -> bool {
    move |hold| hold.name.starts_with(start) && hold.name.contains(part) && hold.token.is_none() && lasted(hold)
}

fn waited(hold: &Hold) -> bool {
    hold.in_line.is_some_and(|in_line| in_line + 4 < hold.entered)
}

fn is_write(entry: &Entry) -> bool {
    matches!(&entry.deed, Deed::Wrote { register, taken: true, .. } if scope(register) != "fenced")
}

fn is_careful_write(entry: &Entry) -> bool {
    matches!(&entry.deed, Deed::Wrote { register, taken: true, .. } if CAREFUL.contains(&register.as_str()))
}

fn is_append(entry: &Entry) -> bool {
    matches!(entry.deed, Deed::Appended { .. })
}

/// The history with more entries of the intruder.
fn with(entries: &[Entry], more: impl IntoIterator<Item = (u64, Deed)>) -> Vec<Entry> {
    let mut planted = entries.to_vec();
    planted.extend(more.into_iter().map(|(at, deed)| Entry { at, who: INTRUDER, deed }));
    planted
}

fn entered(hold: &Hold, token: Option<u64>) -> Deed {
    Deed::Entered { name: hold.name.clone(), token, until: None }
}

fn second_holder(entries: &[Entry], hold: &Hold) -> bool {
    let left = Deed::Left { name: hold.name.clone() };
    let planted = with(entries, [(hold.entered + 1, entered(hold, None)), (hold.ended - 1, left)]);
    judge::overlaps(&planted).len() == 1
}

fn token_that_went_back(entries: &[Entry], hold: &Hold) -> bool {
    let last = entries.iter().map(|entry| entry.at).max().unwrap_or(0);
    let asked = Deed::Asked { name: hold.name.clone() };
    let planted = with(entries, [(last + 1, asked), (last + 2, entered(hold, Some(0)))]);
    judge::tokens(&planted, scope).len() == 1
}

fn overtaken(entries: &[Entry], hold: &Hold) -> bool {
    let in_line = hold.in_line.unwrap_or(hold.entered);
    let name = || hold.name.clone();
    let deeds = [(1, Deed::Asked { name: name() }), (2, entered(hold, None)), (3, Deed::Left { name: name() })];
    !judge::line(&with(entries, deeds.map(|(later, deed)| (in_line + later, deed)))).is_empty()
}

/// As if what says until when a lease lasts had another name.
fn leases_without_end(entries: &[Entry]) -> bool {
    let endless = |entry: &Entry| {
        let mut entry = entry.clone();
        if let Deed::Entered { until: Some(until), .. } = &mut entry.deed {
            *until = 0;
        }
        entry
    };
    let planted: Vec<Entry> = entries.iter().map(endless).collect();
    let missed = never_entered(&planted);
    ["main/s", "main-claims/n1", "main-w1/lease", "fenced/r"].iter().all(|name| missed.iter().any(|one| one == name))
}

fn lost_update(entries: &[Entry], entry: &Entry) -> bool {
    let planted = with(entries, [(entry.at + 1, entry.deed.clone())]);
    judge::lost_updates(&planted).len() == judge::lost_updates(entries).len() + 1
}

fn number_twice(entries: &[Entry], entry: &Entry) -> bool {
    let Deed::Appended { ledger, number, .. } = &entry.deed else { return false };
    let second = Deed::Appended { ledger: ledger.clone(), key: "another".into(), number: *number };
    !judge::ledger(&with(entries, [(entry.at + 1, second)])).is_empty()
}
