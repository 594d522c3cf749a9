//! What a listing of the ledger says.
//!
//! A listing can miss a name that comes into being while it is read, and show a later one. So there are two of them, and what both missed
//! is looked for by its name before it is called a gap.

use lokt_core::ledger::seq::{Named, Oddity, Seq};

use super::Ledger;
use super::answers::Census;
use crate::error::{At as _, Error};

/// So many gaps and strays are told of one by one.
const SHOWN: usize = 16;
/// A gap of more numbers than this is no accident of a listing.
const LOOKED_FOR: u64 = 64;

/// Every name in a ledger that looks like an event's.
pub(super) struct Names {
    /// Numbers that are there, in order.
    pub(super) numbers: Vec<u64>,
    /// Those that are none of this ledger's, in order.
    pub(super) strays: Vec<(String, Oddity)>,
}

impl Names {
    /// Missing numbers, as ranges from lowest to highest.
    pub(super) fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        let before = std::iter::once(0).chain(self.numbers.iter().copied());
        before
            .zip(&self.numbers)
            .filter(|(before, next)| before + 1 < **next)
            .map(|(before, next)| (before + 1, next - 1))
    }

    /// The highest number.
    pub(super) fn head(&self) -> u64 {
        self.numbers.last().copied().unwrap_or(0)
    }
}

impl Ledger {
    /// Looks at every name in the ledger.
    pub fn census(&self) -> Result<Census, Error> {
        let mut names = self.names()?;
        let strays_count = names.strays.len() as u64;
        names.strays.truncate(SHOWN);
        Ok(Census {
            head: names.head(),
            events: names.numbers.len() as u64,
            gaps: names.gaps().take(SHOWN).collect(),
            strays: names.strays,
            strays_count,
        })
    }

    /// The highest number, by a listing, and the missing ones as ranges from lowest to highest, all of them.
    pub fn gaps(&self) -> Result<(u64, Vec<(u64, u64)>), Error> {
        let names = self.names()?;
        Ok((names.head(), names.gaps().collect()))
    }

    /// Every number that is there, in order.
    pub(super) fn numbers(&self) -> Result<Vec<u64>, Error> {
        Ok(self.names()?.numbers)
    }

    /// The same, with all of the names.
    pub(super) fn names(&self) -> Result<Names, Error> {
        let mut names = self.list_once()?;
        if names.gaps().next().is_some() {
            names.numbers.extend(self.list_once()?.numbers);
            names.numbers.sort_unstable();
            names.numbers.dedup();
            let hidden = self.hidden(&names)?;
            names.numbers.extend(hidden);
            names.numbers.sort_unstable();
        }
        Ok(names)
    }

    fn list_once(&self) -> Result<Names, Error> {
        let mut names = Names { numbers: Vec::new(), strays: Vec::new() };
        let style = self.settings.style;
        let listed = self.disk.each_name("", &mut |name| match style.named(name) {
            Named::Event(seq) => names.numbers.push(seq.get()),
            Named::Stray(oddity) => names.strays.push((name.to_owned(), oddity)),
            Named::Other => {}
        });
        listed.at("list", &self.path, "")?;
        names.strays.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        names.numbers.sort_unstable();
        Ok(names)
    }

    /// What is there by its name although no listing showed it.
    fn hidden(&self, names: &Names) -> Result<Vec<u64>, Error> {
        let mut hidden = Vec::new();
        for (first, last) in names.gaps().filter(|(first, last)| last - first < LOOKED_FOR) {
            for seq in (first..=last).filter_map(Seq::new) {
                let file = self.file(seq);
                if self.disk.stamp(&file).at("look at", &self.path, &file)?.is_some() {
                    hidden.push(seq.get());
                }
            }
        }
        Ok(hidden)
    }
}
