//! What came of it: figures, what was broken, and what is to be thought of the file system.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::history::{Deed, Entry, Figures, Measured, judge};

use super::aftermath;
use lokt_named::doctor::FileSystem;
use lokt_sys::error::Error;
use lokt_sys::wait_policy::Interrupt;

/// So many of a kind in one round, and so many of all, are told in words.
const TOLD_MAX: usize = 5;
const ALL_TOLD_MAX: usize = 20;
/// Tokens of earlier rounds, as a hold of nobody.
const EARLIER: &str = "earlier rounds";

/// Promises that were broken.
#[derive(Debug, Clone, Default)]
pub struct Broken {
    /// How often somebody entered while another was inside.
    pub overlaps: u64,
    /// How many updates of a number were lost.
    pub lost_updates: u64,
    /// How many writes were taken that came after the end of their lease.
    pub late_writes: u64,
    /// How many tokens were given twice, or were smaller than one before.
    pub tokens: u64,
    /// How often somebody entered before their turn.
    pub out_of_turn: u64,
    /// How many locks could not be had when nobody was left; one is counted for each way to it.
    pub stuck: u64,
    /// The first of each, one sentence each.
    pub told: Vec<String>,
}

impl Broken {
    /// All of them together.
    pub fn count(&self) -> u64 {
        self.overlaps + self.lost_updates + self.late_writes + self.tokens + self.out_of_turn + self.stuck
    }
}

/// Updates of numbers inside of holds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Updates {
    /// Those that were taken.
    pub taken: u64,
    /// Those that came under a token that was good no more, and were refused.
    pub refused: u64,
}

/// What was done to the processes while they fought. Those that are put down when a round ends aren't counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blows {
    /// How many were killed, and replaced by others.
    pub killed: u64,
    /// How often one was stopped, and continued; one that was killed meanwhile isn't counted here.
    pub stopped: u64,
}

/// What was looked at when nobody was left.
#[derive(Debug, Clone, Copy, Default)]
pub struct Afterwards {
    /// Every lock was asked for, at least once.
    pub asked: bool,
    /// Every number was read.
    pub read: bool,
}

/// What came of a torture.
#[derive(Debug)]
pub struct Ordeal {
    /// Where it was, and what is known about that.
    pub file_system: FileSystem,
    /// How long it was.
    pub lasted: Duration,
    /// It was ended early.
    pub interrupted: bool,
    /// What was broken.
    pub broken: Broken,
    /// What ended it early, and the first errors of processes that went on; where locks work there are none.
    pub errors: Vec<String>,
    /// What was written.
    pub updates: Updates,
    /// What was done to them.
    pub blows: Blows,
    /// Where everything was left, if that was asked for.
    pub kept: Option<PathBuf>,
    /// Directories that can be deleted: of earlier ones that were killed, or its own where it could not be removed.
    pub left_over: Vec<PathBuf>,
    /// What was looked at when nobody was left.
    pub afterwards: Afterwards,
    /// No process is left of the last round.
    pub(super) all_are_gone: bool,
    measured: Measured,
    /// What could not be had, and why.
    stuck: BTreeMap<(PathBuf, &'static str), String>,
    /// The greatest token of all rounds.
    token_max: Option<u64>,
    /// The greatest that was made of each number, of all rounds.
    made_max: BTreeMap<String, judge::Write>,
}

impl Ordeal {
    /// One in which nothing has been done so far.
    pub fn new(file_system: FileSystem, left_over: Vec<PathBuf>, kept: Option<PathBuf>) -> Self {
        Self {
            file_system,
            lasted: Duration::ZERO,
            interrupted: false,
            broken: Broken::default(),
            errors: Vec::new(),
            updates: Updates::default(),
            blows: Blows::default(),
            kept,
            left_over,
            afterwards: Afterwards::default(),
            all_are_gone: true,
            stuck: BTreeMap::new(),
            measured: Measured::default(),
            token_max: None,
            made_max: BTreeMap::new(),
        }
    }

    /// How much was done, and how fast.
    pub fn figures(&self) -> Figures {
        self.measured.figures()
    }

    /// What never happened, so that nothing is known about it.
    pub fn untried(&self) -> Vec<&'static str> {
        let late_writes = self.updates.refused + self.broken.late_writes;
        let tried = [
            (self.blows.killed > 0, "kills"),
            (self.blows.stopped > 0, "stops"),
            (self.figures().hand_offs > 0, "hand-overs"),
            (late_writes > 0, "late writes"),
            (self.afterwards.asked, "asking when all are gone"),
            (self.afterwards.read, "reading when all are gone"),
        ];
        tried.into_iter().filter(|(was_tried, _)| !was_tried).map(|(_, what)| what).collect()
    }

    /// What ended it early, beside what was broken.
    pub(super) fn ended_by(&mut self, trouble: &Error) {
        self.errors.insert(0, trouble.to_string());
        self.errors.truncate(TOLD_MAX);
    }

    /// What was done in one more round.
    pub(super) fn count(&mut self, blows: Blows) {
        self.blows.killed += blows.killed;
        self.blows.stopped += blows.stopped;
    }

    /// Asks for every lock, now that nobody is left. True: the alarm went off.
    pub(super) fn ask(&mut self, places: &[PathBuf], alarm: &mut dyn Interrupt) -> Result<bool, Error> {
        let asked = aftermath::ask(places, &self.stuck, alarm)?;
        let sentences: Vec<&String> = asked.stuck.values().collect();
        self.broken.stuck += told(&mut self.broken.told, &sentences);
        self.stuck.extend(asked.stuck);
        self.afterwards.asked |= !asked.interrupted;
        self.interrupted |= asked.interrupted;
        Ok(asked.interrupted)
    }

    /// Compares what is there in the end with what was acknowledged.
    pub(super) fn compare(&mut self, places: &[PathBuf]) -> Result<(), Error> {
        // Whoever hangs in a system call there may keep us, too.
        if self.all_are_gone {
            let lost = aftermath::compare(places, &self.made_max)?;
            self.broken.lost_updates += told(&mut self.broken.told, &lost);
            self.afterwards.read = !self.made_max.is_empty();
        }
        Ok(())
    }

    /// Judges one more round.
    pub fn judge(&mut self, entries: &[Entry], oddities: Vec<String>) {
        self.errors.extend(oddities);
        self.errors.truncate(TOLD_MAX);
        self.measured.add(entries);
        let broken = &mut self.broken;
        broken.overlaps += told(&mut broken.told, &judge::overlaps(entries));
        broken.late_writes += told(&mut broken.told, &judge::late_writes(entries));
        broken.out_of_turn += told(&mut broken.told, &judge::line(entries));
        for register in judge::registers_after(&self.made_max, entries) {
            self.updates.taken += register.acknowledged;
            self.updates.refused += register.refused;
            broken.lost_updates += told(&mut broken.told, &register.lost);
            self.made_max.extend(register.greatest.map(|greatest| (register.name, greatest)));
        }
        let mut with_earlier = entries.to_vec();
        if let Some(token) = self.token_max {
            let deed = Deed::Entered { name: EARLIER.to_owned(), token: Some(token), until: None };
            with_earlier.push(Entry { at: 0, who: 0, deed });
        }
        broken.tokens += told(&mut broken.told, &judge::tokens(&with_earlier, |_| ""));
        let tokens = entries.iter().filter_map(|entry| match entry.deed {
            Deed::Entered { token, .. } => token,
            _ => None,
        });
        self.token_max = self.token_max.max(tokens.max());
    }
}

/// Tells the first of them; gives how many there are.
fn told<T: ToString>(words: &mut Vec<String>, found: &[T]) -> u64 {
    let room = ALL_TOLD_MAX.saturating_sub(words.len()).min(TOLD_MAX);
    words.extend(found.iter().take(room).map(ToString::to_string));
    found.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use lokt_named::doctor::Check;

    fn ordeal() -> Ordeal {
        let check = Check { name: "file_system", findings: Vec::new() };
        let file_system = FileSystem { name: "ext4".into(), mount_point: "/".into(), check, notes: Vec::new() };
        Ordeal::new(file_system, Vec::new(), None)
    }

    fn hold(at: u64, token: u64) -> [Entry; 3] {
        let name = String::from("hot");
        [
            Entry { at, who: at, deed: Deed::Asked { name: name.clone() } },
            Entry { at: at + 1, who: at, deed: Deed::Entered { name: name.clone(), token: Some(token), until: None } },
            Entry { at: at + 2, who: at, deed: Deed::Left { name } },
        ]
    }

    #[test]
    fn tokens_go_on_from_round_to_round() {
        let mut ordeal = ordeal();
        ordeal.judge(&hold(1, 7), Vec::new());
        ordeal.judge(&hold(11, 8), Vec::new());
        assert_eq!(ordeal.broken.count(), 0, "{:?}", ordeal.broken);
        ordeal.judge(&hold(21, 5), Vec::new());
        assert_eq!(ordeal.broken.tokens, 1, "a token of an earlier round was greater: {:?}", ordeal.broken);
        ordeal.judge(&hold(31, 8), Vec::new());
        assert_eq!(ordeal.broken.tokens, 2, "a token of an earlier round was given again: {:?}", ordeal.broken);
        assert_eq!(ordeal.figures().holds, 4);
    }

    #[test]
    fn numbers_go_on_from_round_to_round() {
        let mut ordeal = ordeal();
        let wrote = |at, seen| {
            let deed = Deed::Wrote { register: "count".into(), token: None, seen, made: seen + 1, taken: true };
            let [asked, entered, left] = hold(at, at);
            [asked, entered, Entry { at: at + 1, who: at, deed }, left]
        };
        ordeal.judge(&wrote(1, 499), Vec::new());
        ordeal.judge(&hold(11, 11), Vec::new());
        ordeal.judge(&wrote(21, 500), Vec::new());
        assert_eq!(ordeal.broken.count(), 0, "{:?}", ordeal.broken);
        // Its file was emptied, or is gone, or has what was there before.
        for (round, seen) in [(31, 0), (41, 1), (51, 500)] {
            let before = ordeal.broken.lost_updates;
            ordeal.judge(&wrote(round, seen), Vec::new());
            assert_eq!(ordeal.broken.lost_updates, before + 1, "it was 501 in an earlier round: {:?}", ordeal.broken);
        }
        assert_eq!((ordeal.broken.count(), ordeal.updates.taken), (3, 5), "{:?}", ordeal.broken);
    }

    #[test]
    fn what_never_happened_is_named() {
        let mut ordeal = ordeal();
        let all =
            ["kills", "stops", "hand-overs", "late writes", "asking when all are gone", "reading when all are gone"];
        assert_eq!(ordeal.untried(), all);
        ordeal.judge(&hold(1, 7), Vec::new());
        assert_eq!(ordeal.untried(), all, "a hold is none of these");
        let late = |taken| Deed::Wrote { register: "count".into(), token: Some(8), seen: 0, made: 1, taken };
        let overslept = Deed::Overslept { name: "hot".into(), token: 8 };
        let entry = |at, deed| Entry { at, who: 1, deed };
        ordeal.judge(&[entry(10, overslept.clone()), entry(11, late(false))], Vec::new());
        assert_eq!((ordeal.broken.count(), ordeal.untried().contains(&"late writes")), (0, false), "one was refused");
        ordeal.judge(&[entry(20, overslept), entry(21, late(true))], Vec::new());
        assert_eq!((ordeal.broken.late_writes, ordeal.broken.count()), (1, 1), "{:?}", ordeal.broken);
        ordeal.count(Blows { killed: 1, stopped: 1 });
        ordeal.afterwards = Afterwards { asked: true, read: true };
        assert_eq!(ordeal.untried(), ["hand-overs"]);
    }
}
