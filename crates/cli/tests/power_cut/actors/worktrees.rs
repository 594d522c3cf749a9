//! Worktrees that are made, get another name and are removed, with files that are published in them meanwhile. Each is where it was acknowledged to
//! be, under one name; its files come along; under any of its names tokens only grow.

use lokt_testkit::dice::Dice;
use serde_json::Value;

use super::leases::REPOSITORY;
use super::published::Edition;
use super::{Acks, Actor, pick};
use crate::site::{Call, LOKT, Site, Stop};
use crate::stored::text;
use crate::tally::Tally;

const OWNER: &str = "rupert";
const NAMES: [[&str; 2]; 2] = [["apple", "pear"], ["plum", "quince"]];

#[derive(Clone, Copy, Debug)]
enum Asked {
    Create(usize),
    Rename,
    Remove,
}

/// What is known of one that has one of two names, or isn't there.
#[derive(Debug)]
struct Slot {
    names: [&'static str; 2],
    /// Which name.
    at: Option<usize>,
    asked: Option<Asked>,
    edition: Edition,
    /// The greatest token that was given under each name.
    tokens: [u64; 2],
    /// Its directory had gone when a removal was cut short.
    is_hollow: bool,
}

impl Slot {
    fn new(names: [&'static str; 2]) -> Self {
        Self { names, at: None, asked: None, edition: Edition::default(), tokens: [0; 2], is_hollow: false }
    }

    fn create(&mut self, site: &Site, nth: usize) -> Result<(), Stop> {
        self.asked = Some(Asked::Create(nth));
        site.answer(&call(&format!("worktree create {} --json", self.names[nth])))?;
        (self.at, self.asked, self.edition) = (Some(nth), None, Edition::default());
        Ok(())
    }

    fn rename(&mut self, site: &Site, nth: usize) -> Result<(), Stop> {
        self.asked = Some(Asked::Rename);
        let new = 1 - nth;
        site.answer(&call(&format!("worktree rename {} {} --json", self.names[nth], self.names[new])))?;
        (self.at, self.asked) = (Some(new), None);
        self.tokens[new] = self.tokens[0].max(self.tokens[1]);
        Ok(())
    }

    fn remove(&mut self, site: &Site, nth: usize) -> Result<(), Stop> {
        self.asked = Some(Asked::Remove);
        site.answer(&call(&format!("worktree remove --force {} --json", self.names[nth])))?;
        (self.at, self.asked, self.edition) = (None, None, Edition::default());
        Ok(())
    }

    /// Takes the lease, publishes a file under it, and gives it back.
    fn publish(&mut self, site: &Site, nth: usize) -> Result<(), Stop> {
        let name = self.names[nth];
        let source = site.outside(&format!("source-{name}"));
        self.edition.ask(&source);
        let script = "echo $LOKT_LEASE_TOKEN; exec \"$0\" lease fence publish --json \"$1\" \"$2\" >&2";
        let mut run = call(&format!("lease run --worktree {name} -- sh -c")).word(script).word(LOKT);
        for path in [source, target(site, name)] {
            run = run.word(path.display().to_string());
        }
        let ended = site.run(&run);
        site.judge(&run, &ended)?;
        self.edition.answered();
        let token = ended.stdout.trim().parse().unwrap_or_default();
        if token <= self.tokens[nth] {
            return Err(Stop::Wrong(format!("token-order: {name} got {token} after {}", self.tokens[nth])));
        }
        self.tokens[nth] = token;
        Ok(())
    }

    fn look(&mut self, site: &Site, list: &[Value], tally: &mut Tally) {
        let entry = |nth: &usize| list.iter().find(|entry| text(entry, "name") == self.names[*nth]);
        let found: Vec<usize> = (0..2).filter(|nth| entry(nth).is_some()).collect();
        let is_hollow = found.iter().filter_map(entry).any(|entry| entry["has_payload"] != true);
        let has_problem = found.iter().filter_map(entry).any(|entry| !entry["problem"].is_null());
        if self.asked.is_some() {
            tally.in_flight("worktree");
        }
        let kept = match (self.at, self.asked) {
            (None, Some(Asked::Create(nth))) => !has_problem && (found.is_empty() || found == [nth]),
            (None, _) => found.is_empty(),
            (Some(_), Some(Asked::Rename)) => !has_problem && found.len() == 1,
            // Its files go first. It can be removed again.
            (Some(nth), Some(Asked::Remove)) => found.is_empty() || (found == [nth] && has_problem == is_hollow),
            (Some(nth), _) => !has_problem && found == [nth],
        };
        tally.check("worktree", kept, || format!("{self:?} became {list:?}"));
        let at = found.first().copied();
        if let (Some(Asked::Rename), Some(nth)) = (self.asked, at.filter(|_| at != self.at)) {
            self.tokens[nth] = self.tokens[0].max(self.tokens[1]);
        }
        match at.filter(|_| !is_hollow) {
            Some(nth) => self.edition.look(&target(site, self.names[nth]), "published file", tally),
            None => self.edition = Edition::default(),
        }
        (self.at, self.asked, self.is_hollow) = (at, None, is_hollow);
    }

    fn settle(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        if let Some(nth) = self.at.filter(|_| std::mem::take(&mut self.is_hollow)) {
            self.remove(site, nth)?;
            tally.mended("by the next `worktree remove`: a worktree that was half removed");
        }
        Ok(())
    }

    fn go_on(&mut self, site: &Site) -> Result<(), Stop> {
        let nth = self.at.unwrap_or_default();
        if self.at.is_none() {
            self.create(site, nth)?;
        }
        self.publish(site, nth)
    }
}

/// One who makes and removes worktrees.
pub(crate) struct Worktrees {
    slots: Vec<Slot>,
}

impl Worktrees {
    pub(crate) fn new() -> Self {
        Self { slots: NAMES.into_iter().map(Slot::new).collect() }
    }
}

impl Actor for Worktrees {
    fn kind(&self) -> &'static str {
        "worktree"
    }

    fn move_in(&mut self, _: &Site) -> Result<(), Stop> {
        Ok(())
    }

    fn step(&mut self, site: &Site, dice: &mut Dice) -> Result<Acks, Stop> {
        let slot = &mut self.slots[pick(dice, NAMES.len())];
        match (slot.at, dice.below(4)) {
            (None, _) => slot.create(site, pick(dice, 2))?,
            (Some(nth), 0) => slot.remove(site, nth)?,
            (Some(nth), 1) => {
                slot.publish(site, nth)?;
                return Ok(vec![("published file", 1)]);
            }
            (Some(nth), _) => slot.rename(site, nth)?,
        }
        Ok(vec![("worktree", 1)])
    }

    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        let list = site.answer(&call("worktree list --json"))?;
        let list = list.as_array().map_or(&[][..], Vec::as_slice);
        self.slots.iter_mut().for_each(|slot| slot.look(site, list, tally));
        Ok(())
    }

    fn settle(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        self.slots.iter_mut().try_for_each(|slot| slot.settle(site, tally))
    }

    fn go_on(&mut self, site: &Site, _: &mut Tally) -> Result<(), Stop> {
        self.slots.iter_mut().try_for_each(|slot| slot.go_on(site))
    }

    fn lose(&mut self, site: &Site, _: &'static str) -> Result<(), Stop> {
        let slot = &mut self.slots[0];
        if slot.at.is_none() {
            slot.create(site, 0)?;
        }
        let name = slot.names[slot.at.unwrap_or_default()];
        site.answer(&call(&format!("worktree remove --force {name} --json"))).map(drop)
    }
}

fn call(words: &str) -> Call<'static> {
    Call::new(OWNER, words).within(REPOSITORY)
}

fn target(site: &Site, name: &str) -> std::path::PathBuf {
    site.at(&format!("{REPOSITORY}/worktrees/{name}/published"))
}
