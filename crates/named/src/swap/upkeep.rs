//! Creates a space, sweeps the cells of free names, and checks what is stored.

use std::collections::BTreeSet;
use std::fmt;

use lokt_core::checkup;
use lokt_core::engine::{Change, Made, Pin, Rev, Span, Write};
use lokt_core::hold::LockId;
use lokt_core::name::LockName;
use lokt_core::record::Parsed;
use lokt_core::swap::View as Sighted;
use lokt_core::swap::keys::{NamePlace, Place};
use lokt_core::swap::record::Meta;
use lokt_core::swap::sweep::{SWEEP_MAX, sweep};
use lokt_core::swap::view::{self as keys, Standing};

use super::transact::refused;
use super::{Engine, Shared, SwapStore, Trouble};
use crate::store::Call;
use lokt_sys::error::Error;

/// One change in this many is followed by a sweep.
const SWEEP_EVERY: u64 = 1024;

/// Something about a space that its users should know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Nothing can be added to it.
    NotOpen(String),
    /// A record can't be read.
    Unreadable(LockName),
    /// A life key without its record: it disappears with its session.
    Orphan(LockName),
    /// This many free names keep a cell.
    FreeCells(usize),
    /// This many of them were swept.
    Swept(usize),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOpen(why) => write!(f, "nothing can be added: {why}"),
            Self::Unreadable(name) => write!(f, "the record of {name} can't be read"),
            Self::Orphan(name) => write!(f, "{name} has a life key without a record"),
            Self::FreeCells(count) => write!(f, "{count} free names keep a cell"),
            Self::Swept(count) => write!(f, "the cells of {count} free names were deleted"),
        }
    }
}

impl From<Finding> for checkup::Finding {
    fn from(found: Finding) -> Self {
        let message = found.to_string();
        match found {
            Finding::NotOpen(_) => Self::error(message),
            Finding::Unreadable(_) => Self::error(message).code("E_CORRUPT").hint("upgrade lokt, or delete the record"),
            Finding::Orphan(_) => Self::info(message),
            Finding::FreeCells(_) => Self::info(message).fixable("delete them"),
            Finding::Swept(_) => Self { fix: checkup::Fix::Done("deleted them".into()), ..Self::info(message) },
        }
    }
}

impl<E: Engine> SwapStore<E> {
    /// Creates the space. Returns false if it already exists.
    pub fn create_space(&self, id: &str, call: &Call<'_>) -> Result<bool, Error> {
        let shared = self.shared();
        let call = &shared.limited(call);
        let meta = shared.space.meta();
        let change = Change {
            pins: vec![Pin::Since(meta.clone(), Rev::NEVER)],
            writes: vec![Write::Put(meta.clone(), Meta::new(id).encode(), None)],
            look: vec![Span::One(meta)],
        };
        // If a copy of it was made, the next one finds that.
        let made = shared.patiently(call, |call| shared.engine.make(&change, call))?;
        let is_ours = |made: &Made| match made {
            Made::Done { .. } => true,
            Made::Else(sight) => {
                let found = sight.spans.iter().flatten().next().and_then(|item| Meta::parse(&item.value));
                found.is_some_and(|found| found.id == id)
            }
        };
        Ok(is_ours(&made))
    }

    /// Deletes the cells of free names. Returns their number.
    pub fn sweep(&self, call: &Call<'_>) -> Result<usize, Error> {
        self.shared().sweep(&self.shared().limited(call))
    }

    /// Checks what is stored, and sweeps if `repair` says so.
    pub fn findings(&self, repair: bool, call: &Call<'_>) -> Result<Vec<Finding>, Error> {
        let shared = self.shared();
        let call = &shared.limited(call);
        let sight = shared.all(&shared.space.names(), call)?;
        let (mut names, mut records, mut lives) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for item in sight.spans.iter().flatten() {
            let Some(Place::Name(name, place)) = shared.space.parse(&item.key) else { continue };
            let freeze = LockId::default();
            match place {
                NamePlace::Who(id) => drop(records.insert((name.clone(), id.to_string()))),
                NamePlace::FreezeWho => drop(records.insert((name.clone(), freeze.to_string()))),
                NamePlace::Process(id) | NamePlace::Owner(id) => lives.push((name.clone(), id.to_string())),
                NamePlace::FreezeLife => lives.push((name.clone(), freeze.to_string())),
                NamePlace::Cell | NamePlace::Ticket(..) => {}
            }
            names.insert(name);
        }
        let meta = shared.see(&keys::spans(&shared.space, []), call)?;
        let mut all = sight;
        all.spans.splice(0..0, meta.spans);
        let sighted = Sighted::read(&shared.space, &names, &all);
        let mut findings = Vec::new();
        match sighted.standing() {
            Standing::Open => {}
            standing => {
                let error = refused(&lokt_core::swap::Refusal::Space(standing));
                findings.push(Finding::NotOpen(error.to_string()));
            }
        }
        for name in &sighted.names {
            let records = name.members.iter().chain(&name.freeze);
            if records.clone().any(|member| matches!(member.record, Parsed::Corrupt(_))) {
                findings.push(Finding::Unreadable(name.name.clone()));
            }
        }
        let orphans: BTreeSet<LockName> =
            lives.into_iter().filter(|life| !records.contains(life)).map(|(name, _)| name).collect();
        findings.extend(orphans.into_iter().map(Finding::Orphan));
        let free = sighted.names.iter().filter(|name| name.is_free()).count();
        if repair && free > 0 {
            findings.push(Finding::Swept(shared.sweep(call)?));
        } else if free > 0 {
            findings.push(Finding::FreeCells(free));
        }
        Ok(findings)
    }
}

impl<E: Engine> Shared<E> {
    fn sweep(&self, call: &Call<'_>) -> Result<usize, Error> {
        let mut swept = 0;
        loop {
            let mut sight = self.all(&self.space.names(), call)?;
            let mut names = BTreeSet::new();
            for item in sight.spans.iter().flatten() {
                if let Some(Place::Name(name, _)) = self.space.parse(&item.key) {
                    names.insert(name);
                }
            }
            let meta = self.see(&keys::spans(&self.space, []), call)?;
            sight.spans.splice(0..0, meta.spans);
            let sighted = self.read(&names, &sight)?;
            let Some(change) = sweep(&self.space, &sighted) else { return Ok(swept) };
            let count = change.writes.len() - 1;
            match self.engine.make(&change, call) {
                Ok(Made::Done { .. }) => swept += count,
                // Its pins tell whether it was made; the next look does, too.
                Ok(Made::Else(_)) | Err(Trouble::Unknown(_)) => return Ok(swept),
                Err(trouble) => return Err(trouble.into_error()),
            }
            if count < SWEEP_MAX {
                return Ok(swept);
            }
        }
    }

    /// Does the occasional work after a change that was made at `at`.
    pub(super) fn keep_up(&self, at: Rev, call: &Call<'_>) {
        if at.0.is_multiple_of(SWEEP_EVERY) {
            // Best effort: another sweep will follow.
            let _ = self.sweep(call);
        }
    }
}
