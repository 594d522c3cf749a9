//! The verdict: what the history shows, and what is on the disk when everybody is gone.

pub(crate) mod freezes;
pub(crate) mod planted;
pub(crate) mod state;
pub(crate) mod trespasses;

use std::collections::BTreeMap;

use lokt_torture::history::holds::holds;
use lokt_torture::history::{Deed, Entry, judge};

use crate::fenced::{CAREFUL, CARELESS};
use crate::nemesis::KINDS;
use crate::peers::{Outcome, Peer};
use crate::scene::{BRIEF, LASTING, NODES, WORKTREES};
use crate::worker::snapshots::JUDGED;

/// So many sentences about one check are enough to begin with; the history has them all.
pub(crate) const SENTENCES_MAX: usize = 20;
/// Wards with a ledger and worktrees.
const FURNISHED: [&str; 2] = ["main", "disk"];

/// A sentence that must be true, and what shows that it isn't.
#[derive(Debug)]
pub(crate) struct Check {
    /// The sentence.
    pub(crate) what: String,
    /// Empty if it is true.
    pub(crate) broken: Vec<String>,
    /// It is about what happened during the run: without that the run shows less, but nothing is wrong with lokt.
    pub(crate) is_about_the_run: bool,
}

impl Check {
    /// A sentence, and what was found against it.
    pub(crate) fn new(what: impl Into<String>, broken: impl IntoIterator<Item = impl ToString>) -> Self {
        let broken = broken.into_iter().map(|one| one.to_string()).collect();
        Self { what: what.into(), broken, is_about_the_run: false }
    }

    /// The same, of the run.
    #[must_use]
    pub(crate) fn about_the_run(self) -> Self {
        Self { is_about_the_run: true, ..self }
    }

    /// A sentence that is true if `holds`.
    pub(crate) fn holds(what: impl Into<String>, holds: bool, otherwise: impl Into<String>) -> Self {
        Self::new(what, (!holds).then(|| otherwise.into()))
    }

    /// The first sentences against it.
    pub(crate) fn told(&self) -> impl Iterator<Item = &str> {
        self.broken.iter().take(SENTENCES_MAX).map(String::as_str)
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
    let in_line = count(|deed| matches!(deed, Deed::InLine { .. }));
    let happened = [
        Check::holds("somebody was seen in line", in_line > 0, "then the verdict is about nothing"),
        Check::new("every lock, claim and lease had somebody inside, for a while", never_entered(&whole)),
        Check::new("every register under a lock was written", never_written(&guarded)),
        Check::new("every ledger acknowledged events", without_events(&whole)),
    ];
    checks.extend(happened.map(Check::about_the_run));
    let find = |name: &str| fenced.iter().find(|register| register.name == name);
    for name in CAREFUL {
        let what = format!("fencing: nothing was lost in the register {:?}", plain(name));
        checks.push(match find(name) {
            Some(register) if register.acknowledged > 0 && register.refused > 0 => Check::new(what, &register.lost),
            other => Check::new(what, [format!("it proves nothing without writes that were refused: {other:?}")])
                .about_the_run(),
        });
    }
    for name in CARELESS {
        let what = format!("the load loses updates in the register {:?}", plain(name));
        let lost = find(name).map_or(0, |register| register.lost.len());
        let otherwise = "none was lost: late writers did no harm, so tokens prove nothing";
        checks.push(Check::holds(what, lost > 0, otherwise).about_the_run());
    }
    checks
}

/// Locks, claims and leases of the load that nobody was inside of, from one moment to a later one. Nothing was shown about them, whatever
/// the others show: each of them gets its holds, and the ends of those, in a way of its own.
fn never_entered(whole: &[Entry]) -> Vec<String> {
    let leases = |ward: &str, worktrees: &[&str]| {
        worktrees.iter().map(|worktree| format!("{ward}-{worktree}/lease")).collect::<Vec<_>>()
    };
    let names = |ward: &str, names: &[&str]| names.iter().map(|name| format!("{ward}/{name}")).collect::<Vec<_>>();
    let all = [
        names("main", &LASTING),
        names("main", &BRIEF),
        names("main-claims", &NODES),
        leases("main", &WORKTREES),
        names("disk", &LASTING),
        names("disk-claims", &NODES),
        leases("disk", &WORKTREES[WORKTREES.len() - 1..]),
        names("fenced", &["r"]),
        names("yard", &LASTING),
        names("nest", &LASTING),
        names("twin", &["r"]),
        leases("nest", &WORKTREES[WORKTREES.len() - 1..]),
        leases("fenced", &["main"]),
    ];
    let holds = holds(whole);
    let lasted = |name: &String| holds.iter().any(|hold| hold.name == *name && hold.ended > hold.entered);
    all.concat().into_iter().filter(|name| !lasted(name)).collect()
}

fn never_written(registers: &[judge::Register]) -> Vec<String> {
    let named = ["main", "disk", "yard", "nest"].map(|ward| LASTING.map(|name| format!("{ward}/{name}"))).concat();
    let published = WORKTREES[..WORKTREES.len() - 1].iter().map(|worktree| format!("main/{worktree}"));
    let all: Vec<String> = named.into_iter().chain(published).collect();
    let written = |name: &String| registers.iter().any(|one| one.name == *name && one.acknowledged > 0);
    all.into_iter().filter(|name| !written(name)).collect()
}

fn without_events(entries: &[Entry]) -> Vec<&'static str> {
    let has =
        |ward: &str| entries.iter().any(|one| matches!(&one.deed, Deed::Appended { ledger, .. } if ledger == ward));
    FURNISHED.into_iter().filter(|ward| !has(ward)).collect()
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
        let shown = peer.has_shown(outcome);
        if peer.fails {
            let tokens = if peer.misnumbers { " and its tokens" } else { "" };
            let what = format!("the judge condemns {}{tokens}", peer.title);
            checks.push(Check::holds(what, shown, format!("it was acquitted: {seen}")).about_the_run());
        } else {
            let what = format!("{} lets nobody in beside another, under the same load", peer.title);
            let innocent = outcome.overlaps == 0 && outcome.lost == 0 && outcome.tokens == 0;
            let check = Check::holds(what, shown && innocent, seen);
            checks.push(if innocent { check.about_the_run() } else { check });
        }
    }
    checks
}

/// A nemesis that did nothing proves nothing.
pub(crate) fn nemesis(counts: &BTreeMap<String, u64>) -> Vec<Check> {
    let check = |kind: &&str| {
        let count = counts.get(*kind).copied().unwrap_or(0);
        Check::holds(format!("the nemesis did its work: {kind}"), count > 0, "a nemesis that did nothing")
            .about_the_run()
    };
    let restores = counts.get(JUDGED).copied().unwrap_or(0);
    let mut checks: Vec<Check> = KINDS.iter().map(check).collect();
    let what = "all-or-nothing: what restores in place gave was judged";
    checks.push(Check::holds(what, restores > 0, "nobody still had the lease after one").about_the_run());
    checks
}

/// How often somebody was let into what, and how it ended.
pub(crate) fn per_scope(entries: &[Entry]) -> BTreeMap<&str, (u64, u64)> {
    let mut table: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for entry in entries {
        match &entry.deed {
            // Without a token it is somebody whose lease was renewed.
            Deed::Entered { name, token: Some(_), .. } => table.entry(scope(name)).or_default().0 += 1,
            Deed::GaveUp { name } => table.entry(scope(name)).or_default().1 += 1,
            _ => {}
        }
    }
    table
}
