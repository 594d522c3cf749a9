//! Locks of an owner: taken, refreshed and given back. They outlive a cut, with their tokens.

use std::path::PathBuf;
use std::sync::Arc;

use lokt_testkit::dice::Dice;

use super::{Acks, Actor, pick};
use crate::site::{Call, Highest, Site, Stop};
use crate::stored::{Stored, number, text};
use crate::tally::Tally;

/// Few names, so that each goes through many hands.
const NAMES: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    id: String,
    token: u64,
}

/// What was asked for and not answered yet.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Lock,
    Unlock,
}

/// What is known of one name.
#[derive(Debug)]
struct Slot {
    name: String,
    held: Option<Held>,
    asked: Option<Asked>,
}

/// One owner of several locks.
pub(crate) struct Locks {
    owner: &'static str,
    tokens: Arc<Highest>,
    slots: Vec<Slot>,
}

impl Locks {
    pub(crate) fn new(owner: &'static str, tokens: &Arc<Highest>) -> Self {
        let slot = |n| Slot { name: format!("{owner}-{n}"), held: None, asked: None };
        Self { owner, tokens: Arc::clone(tokens), slots: (0..NAMES).map(slot).collect() }
    }

    /// Takes the lock, or refreshes it.
    fn lock(&mut self, site: &Site, nth: usize, flags: &str) -> Result<(), Stop> {
        let slot = &mut self.slots[nth];
        let call = Call::new(self.owner, &format!("lock {} {flags} --json", slot.name));
        let before = self.tokens.so_far();
        slot.asked = Some(Asked::Lock);
        let answer = site.answer_soon(&call, &record(site, &slot.name))?;
        slot.asked = None;
        let now = Held { id: text(&answer, "lock_id"), token: number(&answer, "fencing_token") };
        match &slot.held {
            Some(was) if was.id != now.id => {
                return Err(Stop::Wrong(format!("a refresh goes on with {was:?}, not with {now:?}")));
            }
            Some(was) if was.token == now.token => {}
            _ => self.tokens.given(before, now.token, &slot.name)?,
        }
        slot.held = Some(now);
        Ok(())
    }

    fn unlock(&mut self, site: &Site, nth: usize) -> Result<(), Stop> {
        let slot = &mut self.slots[nth];
        slot.asked = Some(Asked::Unlock);
        site.answer(&Call::new(self.owner, &format!("unlock {} --json", slot.name)))?;
        (slot.held, slot.asked) = (None, None);
        Ok(())
    }
}

impl Actor for Locks {
    fn kind(&self) -> &'static str {
        "lock"
    }

    fn move_in(&mut self, _: &Site) -> Result<(), Stop> {
        Ok(())
    }

    fn step(&mut self, site: &Site, dice: &mut Dice) -> Result<Acks, Stop> {
        let nth = pick(dice, NAMES);
        if self.slots[nth].held.is_some() && dice.below(2) == 0 {
            self.unlock(site, nth)?;
        } else {
            self.lock(site, nth, ["", "--ttl 1h"][pick(dice, 2)])?;
        }
        Ok(vec![("lock", 1)])
    }

    fn look(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        for slot in &mut self.slots {
            let stored = Stored::read(&record(site, &slot.name));
            if slot.asked.is_some() {
                tally.in_flight("lock");
            }
            let kept = match (&stored, &slot.held, slot.asked) {
                (Stored::Torn(_), _, _) => false,
                (Stored::Nothing, None, _) | (Stored::Nothing, Some(_), Some(Asked::Unlock)) => true,
                // Never acknowledged: nothing, everything, or a blank file.
                (Stored::Blank | Stored::Record { .. }, None, Some(Asked::Lock)) => true,
                // A refresh may come under a new token, after a reboot.
                (Stored::Record { id, token }, Some(held), Some(Asked::Lock)) => *id == held.id && *token >= held.token,
                (Stored::Record { id, token }, Some(held), _) => (id, token) == (&held.id, &held.token),
                _ => false,
            };
            tally.check("lock", kept, || format!("{slot:?} became {stored}"));
            if stored == Stored::Blank {
                tally.mended("by the next `lock`: a record without its bytes");
            }
            slot.held = match stored {
                Stored::Record { id, token } => Some(Held { id, token }),
                _ => None,
            };
            slot.asked = None;
        }
        Ok(())
    }

    fn go_on(&mut self, site: &Site, tally: &mut Tally) -> Result<(), Stop> {
        for nth in 0..NAMES {
            if let Some(held) = self.slots[nth].held.clone() {
                let good =
                    Call::new(self.owner, &format!("fence check {} --token {}", self.slots[nth].name, held.token));
                let ended = site.run(&good);
                tally.check("lock", ended.code == Some(0), || format!("the token of {held:?} is good: {ended:?}"));
            }
            self.lock(site, nth, "")?;
        }
        Ok(())
    }

    fn lose(&mut self, site: &Site, _: &'static str) -> Result<(), Stop> {
        self.lock(site, 0, "")?;
        site.answer(&Call::new(self.owner, &format!("unlock {} --json", self.slots[0].name))).map(drop)
    }
}

/// Where the record of a name is.
pub(super) fn record(site: &Site, name: &str) -> PathBuf {
    site.at(&format!("root/locks/{name}.json"))
}
