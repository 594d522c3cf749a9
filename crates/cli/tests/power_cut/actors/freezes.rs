//! Freezes: placed, extended and ended, each durable with its line in the log.

use std::collections::BTreeSet;

use lokt_testkit::dice::Dice;

use super::breaks::{events_in_log, lose_line};
use super::{Acks, Actor, pick};
use crate::site::{Call, Site, Stop};
use crate::stored::{Stored, text};
use crate::tally::Tally;

const OWNER: &str = "erin";
const NAMES: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Asked {
    Freeze,
    Unfreeze,
}

/// What is known of one name: the id of its freeze.
#[derive(Debug)]
struct Slot {
    name: String,
    frozen: Option<String>,
    asked: Option<Asked>,
}

/// One who freezes names.
pub(crate) struct Freezes {
    slots: Vec<Slot>,
    /// Events and lock ids that must be in the log.
    told: BTreeSet<(String, String)>,
}

impl Freezes {
    pub(crate) fn new() -> Self {
        let slot = |n| Slot { name: format!("frozen-{n}"), frozen: None, asked: None };
        Self { slots: (0..NAMES).map(slot).collect(), told: BTreeSet::new() }
    }

    fn freeze(&mut self, site: &Site, nth: usize) -> Result<(), Stop> {
        let slot = &mut self.slots[nth];
        slot.asked = Some(Asked::Freeze);
        let answer = site.answer(&Call::new(OWNER, &format!("freeze {} --ttl 1h --json", slot.name)))?;
        slot.asked = None;
        let id = text(&answer, "lock_id");
        if slot.frozen.as_ref().is_some_and(|was| *was != id) {
            return Err(Stop::Wrong(format!("an extension goes on with {slot:?}, not with {id}")));
        }
        self.told.insert(("freeze".into(), id.clone()));
        slot.frozen = Some(id);
        Ok(())
    }

    fn unfreeze(&mut self, site: &Site, nth: usize) -> Result<(), Stop> {
        let slot = &mut self.slots[nth];
        slot.asked = Some(Asked::Unfreeze);
        let answer = site.answer(&Call::new(OWNER, &format!("unfreeze {} --json", slot.name)))?;
        (slot.frozen, slot.asked) = (None, None);
        self.told.insert(("unfreeze".into(), text(&answer, "lock_id")));
        Ok(())
    }
}

impl Actor for Freezes {
    fn kind(&self) -> &'static str {
        "freeze"
    }

    fn kinds(&self) -> Vec<&'static str> {
        vec!["audit line", "freeze"]
    }

    fn move_in(&mut self, _: &Site) -> Result<(), Stop> {
        Ok(())
    }

    fn step(&mut self, site: &Site, dice: &mut Dice) -> Result<Acks, Stop> {
        let nth = pick(dice, NAMES);
        if self.slots[nth].frozen.is_some() && dice.below(3) > 0 {
            self.unfreeze(site, nth)?;
        } else {
            self.freeze(site, nth)?;
        }
        Ok(vec![("freeze", 1), ("audit line", 1)])
    }

    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        for slot in &mut self.slots {
            let stored = Stored::read(&file(site, &slot.name));
            if slot.asked.is_some() {
                tally.in_flight("freeze");
            }
            let kept = match (&stored, &slot.frozen, slot.asked) {
                (Stored::Nothing, None, _) | (Stored::Nothing, Some(_), Some(Asked::Unfreeze)) => true,
                (Stored::Blank | Stored::Record { .. }, None, Some(Asked::Freeze)) => true,
                (Stored::Record { id, .. }, Some(frozen), _) => id == frozen,
                _ => false,
            };
            tally.check("freeze", kept, || format!("{slot:?} became {stored}"));
            slot.frozen = match stored {
                Stored::Record { id, .. } => Some(id),
                _ => None,
            };
            slot.asked = None;
        }
        let events = events_in_log(site)?;
        for told in &self.told {
            tally.check("audit line", events.contains(told), || format!("{told:?} is in the log"));
        }
        Ok(())
    }

    fn go_on(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        for nth in 0..NAMES {
            let name = self.slots[nth].name.clone();
            if matches!(Stored::read(&file(site, &name)), Stored::Blank) {
                // It counts as a freeze until somebody moves it aside.
                site.answer(&Call::new(OWNER, &format!("unfreeze --force {name} --json")))?;
                tally.mended("by `unfreeze --force`: a freeze without its bytes");
            }
            self.freeze(site, nth)?;
            let refused = site.run(&Call::new("frank", &format!("lock {name}")));
            if refused.code != Some(2) {
                return Err(Stop::Wrong(format!("frozen-means-frozen: {name}: {refused:?}")));
            }
        }
        Ok(())
    }

    fn lose(&mut self, site: &Site, kind: &'static str) -> Result<(), Stop> {
        self.freeze(site, 0)?;
        let Slot { name, frozen, .. } = &self.slots[0];
        match (kind, frozen) {
            ("audit line", Some(id)) => lose_line(site, id),
            _ => drop(site.answer(&Call::new(OWNER, &format!("unfreeze {name} --json")))?),
        }
        Ok(())
    }
}

fn file(site: &Site, name: &str) -> std::path::PathBuf {
    site.at(&format!("root/freezes/{name}.json"))
}
