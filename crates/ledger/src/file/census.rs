//! The names in a ledger's directory.
//!
//! A listing can miss a name that is created while it is read, and show a later one. If a listing
//! has gaps, a second one is made, and numbers that both missed are checked by name before they
//! count as gaps.

use lokt_core::ledger::seq::{Named, Oddity, Seq};

use super::FileLog;
use crate::answers::Census;
use lokt_sys::error::{At as _, Error};

/// Maximum number of gaps and strays that are reported one by one.
const SHOWN: usize = 16;
/// Longest gap that may be an accident of a listing.
const LOOKED_FOR: u64 = 64;

/// All names in a ledger that look like events.
pub(crate) struct Names {
    /// Numbers of events, in order.
    pub(crate) numbers: Vec<u64>,
    /// Names that aren't events of this ledger, in order.
    pub(crate) strays: Vec<(String, Oddity)>,
}

impl Names {
    /// Missing numbers, as ranges from lowest to highest.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        let before = std::iter::once(0).chain(self.numbers.iter().copied());
        before
            .zip(&self.numbers)
            .filter(|(before, next)| before + 1 < **next)
            .map(|(before, next)| (before + 1, next - 1))
    }

    /// The highest number.
    pub(crate) fn head(&self) -> u64 {
        self.numbers.last().copied().unwrap_or(0)
    }
}

impl FileLog {
    /// Inspects every name in the ledger.
    pub(crate) fn census(&self) -> Result<Census, Error> {
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

    /// The highest number, by a listing, and the missing ones as ranges from lowest to highest, all
    /// of them.
    pub(crate) fn gaps(&self) -> Result<(u64, Vec<(u64, u64)>), Error> {
        let names = self.names()?;
        Ok((names.head(), names.gaps().collect()))
    }

    /// The lowest number above a missing one, by a listing.
    pub(super) fn beyond(&self, missing: Seq) -> Result<Option<Seq>, Error> {
        let above = self.numbers()?.into_iter().find(|number| *number > missing.get());
        Ok(above.and_then(Seq::new))
    }

    /// All numbers of events, in order.
    pub(crate) fn numbers(&self) -> Result<Vec<u64>, Error> {
        Ok(self.names()?.numbers)
    }

    /// All names that look like events.
    pub(crate) fn names(&self) -> Result<Names, Error> {
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

    /// Numbers that exist although no listing showed them.
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
