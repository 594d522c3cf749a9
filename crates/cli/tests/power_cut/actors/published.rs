//! Files that are published under a token: the old one or the new one, whole; the new one as soon as that was answered.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lokt_testkit::dice::Dice;
use lokt_testkit::swarm::put;

use super::{Acks, Actor, pick};
use crate::site::{Call, Highest, Site, Stop};
use crate::stored::number;
use crate::tally::Tally;

const OWNER: &str = "ivan";
const NAME: &str = "publisher";
const TARGETS: usize = 2;
/// More than one block, so that half of a file could be there.
const LINES: usize = 3000;

/// One who publishes.
pub(crate) struct Published {
    tokens: Arc<Highest>,
    token: u64,
    targets: Vec<Edition>,
}

/// Which version a file has, and which one was asked for and not answered. 0: there is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Edition {
    is: u64,
    asked: Option<u64>,
}

impl Edition {
    /// The next version is written to `source`.
    pub(super) fn ask(&mut self, source: &Path) {
        let next = self.asked.unwrap_or(self.is) + 1;
        put(source, format!("{next}\n").repeat(LINES));
        self.asked = Some(next);
    }

    /// That was answered.
    pub(super) fn answered(&mut self) {
        self.is = self.asked.take().unwrap_or(self.is);
    }

    /// Compares with what is at `target`.
    pub(super) fn look(&mut self, target: &Path, kind: &'static str, tally: &mut Tally) {
        let found = version(target);
        if self.asked.is_some() {
            tally.in_flight(kind);
        }
        let kept = found.is_some_and(|found| found == self.is || Some(found) == self.asked);
        tally.check(kind, kept, || format!("{self:?} became {found:?} (none: not whole)"));
        *self = Self { is: found.unwrap_or_default(), asked: None };
    }
}

/// Which version a file is; `None` if it isn't a whole one.
fn version(target: &Path) -> Option<u64> {
    let Ok(text) = fs::read_to_string(target) else { return Some(0) };
    let number: u64 = text.lines().next()?.parse().ok()?;
    (text == format!("{number}\n").repeat(LINES)).then_some(number)
}

/// Leaves only the first half of a file.
pub(super) fn halve(file: &Path) {
    let text = fs::read(file).expect("a file that was published can be read");
    put(file, &text[..text.len() / 2]);
}

impl Published {
    pub(crate) fn new(tokens: &Arc<Highest>) -> Self {
        Self { tokens: Arc::clone(tokens), token: 0, targets: vec![Edition::default(); TARGETS] }
    }

    fn lock(&mut self, site: &Site) -> Result<(), Stop> {
        let before = self.tokens.so_far();
        let answer = site.answer(&Call::new(OWNER, &format!("lock {NAME} --json")))?;
        let token = number(&answer, "fencing_token");
        if token != self.token {
            self.tokens.given(before, token, NAME)?;
        }
        self.token = token;
        Ok(())
    }

    fn publish(&mut self, site: &Site, nth: usize) -> Result<(), Stop> {
        let (source, target) = (site.outside("source"), target(site, nth));
        self.targets[nth].ask(&source);
        let call = Call::new(OWNER, &format!("publish {NAME} --token {} --json", self.token));
        site.answer(&call.word(source.display().to_string()).word(target.display().to_string()))?;
        self.targets[nth].answered();
        Ok(())
    }
}

impl Actor for Published {
    fn kind(&self) -> &'static str {
        "published file"
    }

    fn move_in(&mut self, site: &Site) -> Result<(), Stop> {
        self.lock(site)
    }

    fn step(&mut self, site: &Site, dice: &mut Dice) -> Result<Acks, Stop> {
        self.publish(site, pick(dice, TARGETS))?;
        Ok(vec![("published file", 1)])
    }

    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        for (nth, edition) in self.targets.iter_mut().enumerate() {
            edition.look(&target(site, nth), "published file", tally);
        }
        Ok(())
    }

    fn go_on(&mut self, site: &Site, _: &mut Tally) -> Result<(), Stop> {
        self.lock(site)?;
        (0..TARGETS).try_for_each(|nth| self.publish(site, nth))
    }

    fn lose(&mut self, site: &Site, _: &'static str) -> Result<(), Stop> {
        self.publish(site, 0)?;
        halve(&target(site, 0));
        Ok(())
    }
}

fn target(site: &Site, nth: usize) -> PathBuf {
    site.at(&format!("published-{nth}"))
}
