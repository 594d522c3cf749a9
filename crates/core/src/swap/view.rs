//! A read of names, as facts for a decision.
//!
//! No clock is read. A process part lives while its life key exists. So does an owner part or a
//! freeze with a TTL; one without a TTL never ends. If the record names a part and its life key is
//! gone, the part has ended.
//!
//! A process part always has a life key, even if its record names no TTL: the session of a guard
//! without `--ttl` has a TTL, too. So here "no TTL" means "no end" for owner parts only.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::keys::{NamePlace, Place, Space};
use super::record::{self, Cell, FORMAT, Meta, Waiter};
use crate::decide::{Facts, Freeze, Line, Slot};
use crate::denial::{Holder, part_lives};
use crate::engine::{Item, Key, Rev, SessionId, Sight, Span, Term};
use crate::hold::{Hold, LockId, PartKind, PulseRef};
use crate::liveness::Liveness;
use crate::name::LockName;
use crate::record::Parsed;
use crate::time::{Elapsed, Lease, Moment};

/// The object of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// The members of a name.
    Lock,
    /// Its freeze.
    Freeze,
}

/// The caller's knowledge beside the view.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The liveness of the stored hold's process; [`Liveness::Unknown`] from elsewhere.
    pub liveness: Liveness,
    /// The identity that a new hold gets.
    pub fresh_id: &'a LockId,
    /// The current time: written into records and events, and compared with nothing.
    pub now: Moment,
    /// The caller's session, which identifies its ticket.
    pub session: Option<SessionId>,
}

/// Several names and the version of their space, at one revision.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The revision.
    pub at: Rev,
    /// The term in which it was read.
    pub term: Term,
    /// The revision that wrote `meta` last.
    pub meta_since: Rev,
    /// `meta`; `None` if it is absent or unreadable.
    pub meta: Option<Meta>,
    /// The names that were asked for.
    pub names: Vec<NameView>,
}

/// The state of a space: whether anything may be added to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Additions are allowed.
    Open,
    /// There is no such space, or `meta` is unreadable.
    Missing,
    /// Its format is that of a newer program.
    Newer(u64),
    /// It was closed; this is where it has moved, according to `meta`.
    Closed(String),
}

/// One name at one revision.
#[derive(Debug, Clone, PartialEq)]
pub struct NameView {
    /// The name.
    pub name: LockName,
    /// The revision that wrote its cell last; [`Rev::NEVER`] if it has none.
    pub cell_since: Rev,
    /// Its cell; `None` if that is unreadable.
    pub cell: Option<Cell>,
    /// Its members.
    pub members: Vec<Member>,
    /// Its freeze.
    pub freeze: Option<Member>,
    /// The freeze that counts, of the name or of the space.
    frozen: Option<Frozen>,
    /// Its queue, in order.
    pub line: Vec<Ticket>,
}

#[derive(Debug, Clone, PartialEq)]
enum Frozen {
    Known(Box<Holder>),
    Unreadable,
}

/// A record with its life keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The lock id in its keys; empty for a freeze.
    pub id: LockId,
    /// The revision that wrote the record last.
    pub since: Rev,
    /// The record. The token of a hold is filled in.
    pub record: Parsed,
    /// The life of its process part.
    pub process: Option<Life>,
    /// The life of its owner part, or of a freeze.
    pub owner: Option<Life>,
}

/// A life key that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// The revision that created it.
    pub born: Rev,
    /// The revision that wrote it last.
    pub since: Rev,
    /// The session that it disappears with.
    pub session: Option<SessionId>,
}

impl Life {
    fn of(item: &Item) -> Self {
        Self { born: item.born, since: item.since, session: item.session }
    }
}

/// A waiter in the queue of a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Ticket {
    /// Its key.
    pub key: Key,
    /// The revision of its request's first read.
    pub place: Rev,
    /// Its session.
    pub session: SessionId,
    /// The revision that put it.
    pub since: Rev,
    /// The waiter; `None` if that is unreadable.
    pub waiter: Option<Waiter>,
}

/// Returns the spans to read for these names.
pub fn spans<'n>(space: &Space, names: impl IntoIterator<Item = &'n LockName>) -> Vec<Span> {
    let meta = [Span::One(space.meta()), Span::One(space.meta_life())];
    meta.into_iter().chain(names.into_iter().map(|name| space.name(name).all())).collect()
}

impl View {
    /// Interprets a read of the [`spans`] of these names. Other items of the sight are ignored.
    pub fn read<'n>(space: &Space, names: impl IntoIterator<Item = &'n LockName>, sight: &Sight) -> Self {
        let meta_item = sight.item(&space.meta());
        let meta = meta_item.and_then(|item| Meta::parse(&item.value));
        let meta_life = sight.item(&space.meta_life()).map(Life::of);
        let mut found: BTreeMap<LockName, Vec<(NamePlace, &Item)>> = BTreeMap::new();
        for item in sight.spans.iter().flatten() {
            if let Some(Place::Name(name, place)) = space.parse(&item.key) {
                found.entry(name).or_default().push((place, item));
            }
        }
        let over_all = over_all(meta.as_ref(), meta_life);
        let names = names.into_iter().map(|name| {
            let items = found.remove(name).unwrap_or_default();
            NameView::read(name, &items, over_all.as_ref())
        });
        Self {
            at: sight.at,
            term: sight.term,
            meta_since: meta_item.map_or(Rev::NEVER, |item| item.since),
            names: names.collect(),
            meta,
        }
    }

    /// Returns whether anything may be added.
    pub fn standing(&self) -> Standing {
        match &self.meta {
            None => Standing::Missing,
            Some(meta) if meta.format > FORMAT => Standing::Newer(meta.format),
            Some(meta) if !meta.closed.is_null() => {
                let text = meta.closed.as_str().map(String::from);
                Standing::Closed(text.unwrap_or_else(|| alloc::format!("{}", meta.closed)))
            }
            Some(_) => Standing::Open,
        }
    }
}

/// The space-wide freeze, as if it were one of a name.
fn over_all(meta: Option<&Meta>, life: Option<Life>) -> Option<Member> {
    let frozen = meta.map(|meta| &meta.frozen).filter(|frozen| !frozen.is_null())?;
    let bytes = serde_json::to_vec(frozen).expect("it was read from JSON");
    let record = record::parse(&bytes, Rev::NEVER);
    Some(Member { id: LockId::default(), since: Rev::NEVER, record, process: None, owner: life })
}

impl NameView {
    fn read(name: &LockName, items: &[(NamePlace, &Item)], over_all: Option<&Member>) -> Self {
        let (mut cell_since, mut cell) = (Rev::NEVER, Some(Cell::default()));
        let mut freeze = None;
        let mut line = Vec::new();
        let mut members: Vec<Member> = Vec::new();
        let life = |wanted: &NamePlace| items.iter().find(|(place, _)| place == wanted).map(|(_, item)| Life::of(item));
        for (place, item) in items {
            match place {
                NamePlace::Cell => {
                    (cell_since, cell) = (item.since, Cell::parse(&item.value));
                }
                NamePlace::Who(id) => members.push(Member {
                    id: id.clone(),
                    since: item.since,
                    record: record::parse(&item.value, item.since),
                    process: life(&NamePlace::Process(id.clone())),
                    owner: life(&NamePlace::Owner(id.clone())),
                }),
                NamePlace::FreezeWho => {
                    freeze = Some(Member {
                        id: LockId::default(),
                        since: item.since,
                        record: record::parse(&item.value, item.since),
                        process: None,
                        owner: life(&NamePlace::FreezeLife),
                    });
                }
                NamePlace::Ticket(place, session) => line.push(Ticket {
                    key: item.key.clone(),
                    place: *place,
                    session: *session,
                    since: item.since,
                    waiter: Waiter::parse(&item.value),
                }),
                NamePlace::Process(_) | NamePlace::Owner(_) | NamePlace::FreezeLife => {}
            }
        }
        for member in &mut members {
            member.mark_pulse();
        }
        let frozen = freeze.as_ref().and_then(Member::freezes);
        let frozen = frozen.or_else(|| over_all.and_then(Member::freezes));
        Self { name: name.clone(), cell_since, cell, members, freeze, frozen, line }
    }

    /// Returns the member that a decision is about: a live one, else the last one written.
    ///
    /// In exclusive mode there is at most one: a grant drops all others.
    pub fn member(&self, liveness: Liveness) -> Option<&Member> {
        let lives = |member: &&Member| member.lives(liveness);
        let last = || self.members.iter().max_by_key(|member| member.since);
        self.members.iter().find(lives).or_else(last)
    }

    /// The record that a decision is about.
    pub fn judged(&self, target: Target, liveness: Liveness) -> Option<&Member> {
        match target {
            Target::Lock => self.member(liveness),
            Target::Freeze => self.freeze.as_ref(),
        }
    }

    /// The ticket of this session.
    pub fn ticket(&self, session: SessionId) -> Option<&Ticket> {
        self.line.iter().find(|ticket| ticket.session == session)
    }

    /// Returns the number of tickets ahead of that of `mine`; all of them, if it has none.
    pub fn ahead(&self, mine: Option<SessionId>) -> usize {
        let place = mine.and_then(|session| self.line.iter().position(|ticket| ticket.session == session));
        place.unwrap_or(self.line.len())
    }

    /// Reports whether nothing but a cell is stored under this name.
    pub fn is_free(&self) -> bool {
        self.members.is_empty() && self.freeze.is_none() && self.line.is_empty()
    }

    /// The facts of a decision.
    pub fn facts<'a>(&'a self, target: Target, seen: &Seen<'a>) -> Facts<'a> {
        let judged = self.judged(target, seen.liveness);
        let is_known = self.cell.as_ref().is_some_and(Cell::is_exclusive);
        let slot = match judged {
            // A pool, or members that share: a newer program's.
            _ if !is_known && target == Target::Lock => Slot::Newer(NEWER_MODE),
            None => Slot::Free,
            Some(member) => member.slot(),
        };
        let frozen = self.frozen.as_ref().filter(|_| target == Target::Lock);
        Facts {
            slot,
            liveness: if judged.is_some() { seen.liveness } else { Liveness::Unknown },
            elapsed: judged.map_or(Elapsed::NOTHING, Member::elapsed),
            frozen: frozen.map(|frozen| match frozen {
                Frozen::Known(holder) => Freeze::Known(holder),
                Frozen::Unreadable => Freeze::Unreadable,
            }),
            line: Line { ahead: self.ahead(seen.session) },
            fresh_id: seen.fresh_id,
            now: seen.now,
        }
    }
}

/// The record version that stands for modes other than the exclusive one.
const NEWER_MODE: i64 = 2;

impl Member {
    /// The hold, if the record is one.
    pub fn hold(&self) -> Option<&Hold> {
        match &self.record {
            Parsed::Hold(hold) => Some(hold),
            _ => None,
        }
    }

    /// Sets the number of the pulse: the revision that created the life key. Without that key there
    /// is no pulse, so no process is inside.
    fn mark_pulse(&mut self) {
        let Parsed::Hold(hold) = &mut self.record else { return };
        let number = self.process.map(|life| life.born.0);
        hold.pulse = hold.pulse.and(number).map(|number| PulseRef { number, dev: 0, ino: 0 });
    }

    fn slot(&self) -> Slot<'_> {
        match &self.record {
            Parsed::Hold(hold) => Slot::Held(hold),
            Parsed::Newer(version) => Slot::Newer(*version),
            // A session is still behind it: a process runs under a record that can't be read. On
            // files such a record is broken at once; here its liveness is known, so it counts.
            Parsed::Corrupt(_) if self.process.is_some() || self.owner.is_some() => Slot::BeingWritten,
            Parsed::Corrupt(why) => Slot::Corrupt(why),
        }
    }

    /// The state of both leases, by their life keys.
    pub fn elapsed(&self) -> Elapsed {
        let Some(hold) = self.hold() else { return Elapsed::NOTHING };
        let part = |kind| {
            let parts = hold.parts.as_ref();
            match kind {
                PartKind::Process => parts.and_then(|parts| parts.process.as_ref()),
                PartKind::Owner => parts.and_then(|parts| parts.owner.as_ref()),
            }
        };
        let lease = |kind, life: Option<Life>| {
            let ttl_sec = part(kind).and_then(|part| part.ttl_sec);
            match (life, ttl_sec) {
                _ if !hold.has(kind) => Lease::Absent,
                (None, None) if kind == PartKind::Owner => Lease::Endless,
                (None, _) => Lease::Over(0),
                (Some(_), None) => Lease::Endless,
                // An upper bound: the time of the session's last renewal isn't known.
                (Some(_), Some(ttl_sec)) => Lease::Left(ttl_sec.saturating_mul(1000)),
            }
        };
        Elapsed { process: lease(PartKind::Process, self.process), owner: lease(PartKind::Owner, self.owner) }
    }

    /// Reports whether this part lives.
    pub fn part_lives(&self, kind: PartKind, liveness: Liveness) -> bool {
        part_lives(kind, liveness, self.elapsed())
    }

    /// Reports whether either part lives.
    pub fn lives(&self, liveness: Liveness) -> bool {
        [PartKind::Process, PartKind::Owner].iter().any(|kind| self.part_lives(*kind, liveness))
    }

    /// Returns the freeze that this record is, unless it has ended.
    fn freezes(&self) -> Option<Frozen> {
        match &self.record {
            Parsed::Hold(hold) => {
                let (liveness, elapsed) = (Liveness::Unknown, self.elapsed());
                let holder = Holder { hold: (**hold).clone(), liveness, elapsed };
                (!elapsed.is_expired()).then(|| Frozen::Known(Box::new(holder)))
            }
            _ => Some(Frozen::Unreadable),
        }
    }
}
