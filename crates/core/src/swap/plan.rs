//! A decision as one change: what it relied on as pins, what it means as writes.
//!
//! | row | pins | writes |
//! | --- | --- | --- |
//! | grant, also over stale members | meta, cell, first, stale records | cell, record, lives; drops stale members |
//! | revive | meta, cell, first, record | cell, record, owner's life; drops the process's life |
//! | go on: refresh, join | meta, cell, record, every life judged alive | cell, record, new life |
//! | leave: one of two parts ends | record; a release: birth of its life | record, drops a life |
//! | remove | record of each victim; a release: birth of its life | drops the member |
//! | freeze | meta, cell | cell, freeze and its life |
//! | unfreeze | freeze | drops it and its life |
//! | queue | meta, cell | tickets |
//! | pass over, leave the queue | ticket | drops it |
//!
//! All but the last two also write their audit events. A request for several names is one change,
//! with everything of each.
//!
//! *first* means: the caller's ticket exists, and no ticket is ahead of it; if the caller has none,
//! no ticket exists. As on files, the queue doesn't stop a change that goes on: only the owner's
//! own commands could be granted before that part ends.
//!
//! # Departures from the design
//!
//! - *Go on* pins the life key of **each** part that was judged alive, not only of one: if the
//!   other part had ended in between, the decision (the token, the process of the record) would be
//!   another one.
//! - *Revive* also pins the record: a hold that was unlocked or broken in between is granted anew,
//!   not revived. Removals don't rewrite the cell.
//! - A grant pins the records of the stale members that it drops: if one was removed in between,
//!   the audit log would record a second end of it.
//! - Leaving and removing don't pin `meta`: a closed space lets its holders go.

use alloc::vec;
use alloc::vec::Vec;

use super::Op;
use super::keys::{NameKeys, Space};
use super::record::{self, Waiter};
use super::ruled::Ruled;
use super::view::{self, Member, NameView, Standing, Target, Ticket, View};
use crate::decide::{Breaking, Cause, Intent, Token};
use crate::engine::{Change, Key, Pin, Rev, SessionId, Span, Write};
use crate::hold::{Fence, Hold, LockId, PartKind};
use crate::name::LockName;

/// Maximum number of names in a change: the engine allows 128 pins and 128 writes.
pub const NAMES_MAX: usize = 16;
/// Maximum number of stale members that one grant drops; the next one drops the rest.
pub const STALE_MAX: usize = 32;
/// Maximum number of pins, and of writes, in one change: the engine's limit (etcd:
/// `--max-txn-ops`).
pub const CHANGE_MAX: usize = 128;

/// The context that the decisions of one attempt share.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The request.
    pub op: Op,
    /// The session of process parts and tickets.
    pub session: Option<SessionId>,
    /// The session of owner parts and freezes with a TTL, which nobody renews.
    pub lease: Option<SessionId>,
}

/// The way in which the outcome of a change is settled if its answer is lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Kind {
    /// By rewriting a cell that it pins.
    Addition {
        /// The pins that the rewrite needs: those of `meta` and of the cell.
        pins: Vec<Pin>,
        /// The rewritten cell.
        bump: Write,
    },
    /// By repeating it.
    Removal,
    /// Not at all: the next read shows it.
    Ticket,
}

/// A change, and what is known about it beside its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The change.
    pub change: Change,
    /// The way in which it is settled.
    pub kind: Kind,
    /// The key that exists iff the change was made; the change asks for it. Tickets have none.
    pub proof: Option<Key>,
    /// The base from which a drawn token is counted.
    pub base: u64,
    /// The holds that it makes or changes, in the order of the names.
    pub grants: Vec<Granting>,
}

/// A hold that a change creates or continues.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Granting {
    /// Its name.
    pub name: LockName,
    /// Its identity.
    pub lock_id: LockId,
    /// Its token; `None` if the change draws it.
    pub token: Option<Fence>,
}

impl Plan {
    /// The token of a hold, once the change was made at this revision.
    pub fn token(&self, granting: &Granting, at: Rev) -> Option<Fence> {
        granting.token.or_else(|| Fence::new(self.base.checked_add(at.0)?))
    }
}

/// The reason why there is no change to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is nothing to change.
    Nothing,
    /// Nothing can be added to the space.
    Space(Standing),
    /// More than [`NAMES_MAX`] names, or more than [`CHANGE_MAX`] pins or writes.
    TooMany,
    /// A part with a life needs a session, and the request has none.
    NoSession,
    /// A renewal isn't a change: see [`super::keep`].
    Renewal,
}

/// Turns the decisions about the names of `view` into one change.
pub fn plan(space: &Space, view: &View, request: &Request, ruled: &[Ruled<'_>]) -> Result<Plan, Refusal> {
    if ruled.is_empty() || ruled.len() > NAMES_MAX {
        return Err(Refusal::TooMany);
    }
    let base = view.meta.as_ref().map_or(0, |meta| meta.base);
    let mut draft = Draft::new(space, view, *request, base);
    for one in ruled {
        draft.rule(one)?;
    }
    let mut number = 0;
    for event in ruled.iter().flat_map(|one| one.events) {
        let key = space.audit(view.at, request.op, number);
        draft.writes.push(Write::Put(key, event.encode(), None));
        number += 1;
    }
    debug_assert!(number > 0, "every change is told, and its first event proves it");
    let proof = Some(space.audit(view.at, request.op, 0));
    draft.finish(proof)
}

/// Puts a ticket into the queue of each name where `session` has none. `place` is the revision of
/// the request's first read, for all its names, so that the oldest request is first everywhere.
pub fn queue(space: &Space, view: &View, place: Rev, session: SessionId, waiter: &Waiter) -> Result<Plan, Refusal> {
    let request = Request { op: Op(0), session: Some(session), lease: None };
    let mut draft = Draft::new(space, view, request, 0);
    draft.pin_meta()?;
    for name in view.names.iter().filter(|name| name.ticket(session).is_none()) {
        let keys = space.name(&name.name);
        draft.pins.push(Pin::Since(keys.cell(), name.cell_since));
        draft.writes.push(Write::Put(keys.ticket(place, session), waiter.encode(), Some(session)));
    }
    if draft.writes.is_empty() {
        return Err(Refusal::Nothing);
    }
    draft.finish(None).map(|plan| Plan { kind: Kind::Ticket, ..plan })
}

/// Removes tickets: those of a waiter that is skipped, or of a caller that no longer waits.
pub fn drop_tickets<'t>(space: &Space, view: &View, tickets: impl IntoIterator<Item = &'t Ticket>) -> Plan {
    let (mut pins, mut writes) = (Vec::new(), Vec::new());
    for ticket in tickets {
        pins.push(Pin::Since(ticket.key.clone(), ticket.since));
        writes.push(Write::Drop(ticket.key.clone()));
    }
    let look = look(space, view);
    let change = Change { pins, writes, look };
    Plan { change, kind: Kind::Ticket, proof: None, base: 0, grants: Vec::new() }
}

fn look(space: &Space, view: &View) -> Vec<Span> {
    view::spans(space, view.names.iter().map(|name| &name.name))
}

/// A change under construction.
struct Draft<'a> {
    space: &'a Space,
    view: &'a View,
    request: Request,
    base: u64,
    pins: Vec<Pin>,
    writes: Vec<Write>,
    /// The first cell that is rewritten: its pin, and the write that voids the change.
    bump: Option<(Pin, Write)>,
    has_meta: bool,
    grants: Vec<Granting>,
}

impl<'a> Draft<'a> {
    fn new(space: &'a Space, view: &'a View, request: Request, base: u64) -> Self {
        let (pins, writes, grants) = (Vec::new(), Vec::new(), Vec::new());
        Self { space, view, request, base, pins, writes, bump: None, has_meta: false, grants }
    }

    fn finish(self, proof: Option<Key>) -> Result<Plan, Refusal> {
        let Self { space, view, base, pins, writes, bump, grants, .. } = self;
        if pins.len() > CHANGE_MAX || writes.len() > CHANGE_MAX {
            return Err(Refusal::TooMany);
        }
        let kind = match bump {
            Some((pin, bump)) => {
                // Because of the pin of `meta`, a late copy of the bump itself can't bring a swept
                // cell back.
                let meta = Pin::Since(space.meta(), view.meta_since);
                Kind::Addition { pins: vec![meta, pin], bump }
            }
            None => Kind::Removal,
        };
        let mut look = look(space, view);
        look.extend(proof.iter().cloned().map(Span::One));
        let change = Change { pins, writes, look };
        Ok(Plan { change, kind, proof, base, grants })
    }

    fn pin_meta(&mut self) -> Result<(), Refusal> {
        match self.view.standing() {
            Standing::Open if self.has_meta => {}
            Standing::Open => {
                self.has_meta = true;
                self.pins.push(Pin::Since(self.space.meta(), self.view.meta_since));
            }
            standing => return Err(Refusal::Space(standing)),
        }
        Ok(())
    }

    /// Does what every addition needs: pins `meta` and the cell, and rewrites the cell.
    fn add(&mut self, name: &NameView, keys: &NameKeys) -> Result<(), Refusal> {
        self.pin_meta()?;
        let cell = name.cell.clone().unwrap_or_default();
        let op = self.request.op;
        let pin = Pin::Since(keys.cell(), name.cell_since);
        self.pins.push(pin.clone());
        self.writes.push(Write::Put(keys.cell(), cell.rewritten(op), None));
        let bump = Write::Put(keys.cell(), cell.voiding(op), None);
        self.bump.get_or_insert((pin, bump));
        Ok(())
    }

    fn my_ticket(&self, name: &'a NameView) -> Option<&'a Ticket> {
        name.ticket(self.request.session?)
    }

    /// Pins that the caller is first in the queue, if it waits; otherwise that nobody waits.
    fn pin_first(&mut self, name: &'a NameView, keys: &NameKeys) {
        match self.my_ticket(name) {
            Some(ticket) => {
                self.pins.push(Pin::Empty(keys.line_before(&ticket.key)));
                self.pins.push(Pin::Since(ticket.key.clone(), ticket.since));
            }
            None => self.pins.push(Pin::Empty(keys.line())),
        }
    }

    fn drop_my_ticket(&mut self, name: &'a NameView) {
        if let Some(ticket) = self.my_ticket(name) {
            self.writes.push(Write::Drop(ticket.key.clone()));
        }
    }

    /// Returns the session of a life key. Nobody renews that of an owner part or of a bound
    /// process.
    fn life(&self, kind: PartKind, ruled: &Ruled<'a>) -> Result<SessionId, Refusal> {
        let session = match kind {
            PartKind::Process if !ruled.is_bound() => self.request.session,
            PartKind::Process | PartKind::Owner => self.request.lease,
        };
        session.ok_or(Refusal::NoSession)
    }

    fn rule(&mut self, ruled: &Ruled<'a>) -> Result<(), Refusal> {
        let keys = self.space.name(&ruled.view.name);
        let judged = ruled.view.judged(ruled.target, ruled.liveness);
        match (ruled.target, ruled.next, ruled.cause) {
            (Target::Freeze, Some(next), _) => self.freeze(ruled, &keys, next, judged),
            (Target::Freeze, None, _) => {
                self.pins.extend(judged.map(|freeze| Pin::Since(keys.freeze_who(), freeze.since)));
                self.writes.push(Write::DropBelow(keys.freeze()));
                Ok(())
            }
            _ if matches!(ruled.intent, Intent::Renew(_)) => Err(Refusal::Renewal),
            (Target::Lock, Some(next), Cause::Acquire) => self.grant(ruled, &keys, next),
            (Target::Lock, Some(next), Cause::Renew) => match judged {
                Some(member) if member.lives(ruled.liveness) => self.go_on(ruled, &keys, next, member),
                stale => self.revive(ruled, &keys, next, stale),
            },
            (Target::Lock, Some(next), _) => self.leave(ruled, &keys, next, judged),
            (Target::Lock, None, _) => {
                self.remove(ruled, &keys);
                Ok(())
            }
        }
    }

    fn put_record(&mut self, ruled: &Ruled<'a>, keys: &NameKeys, next: &Hold) {
        let token = match ruled.token {
            Token::Draw => record::Token::Draw { base: self.base },
            Token::Keep => record::Token::Keep,
        };
        // The record names its lock; a decision is the same for all names.
        let (name, pulse) = (ruled.view.name.as_str().into(), ruled.pulse(next));
        let next = Hold { name, pulse, ..next.clone() };
        let value = record::encode(&next, token);
        self.writes.push(Write::Put(keys.who(&next.lock_id), value, None));
    }

    /// Puts the record of a hold that the change creates or continues.
    fn put_grant(&mut self, ruled: &Ruled<'a>, keys: &NameKeys, next: &Hold) {
        let token = next.token.filter(|_| ruled.token == Token::Keep);
        let (name, lock_id) = (ruled.view.name.clone(), next.lock_id.clone());
        self.grants.push(Granting { name, lock_id, token });
        self.put_record(ruled, keys, next);
    }

    /// Puts the life key of a part of `next`, if it must have one.
    fn put_life(&mut self, ruled: &Ruled<'a>, keys: &NameKeys, next: &Hold, kind: PartKind) -> Result<(), Refusal> {
        let Some(parts) = &next.parts else { return Ok(()) };
        let key = match kind {
            PartKind::Process if parts.process.is_some() => keys.process(&next.lock_id),
            PartKind::Owner if parts.owner.as_ref().is_some_and(|part| part.ttl_sec.is_some()) => {
                keys.owner(&next.lock_id)
            }
            _ => return Ok(()),
        };
        self.writes.push(Write::Put(key, Vec::new(), Some(self.life(kind, ruled)?)));
        Ok(())
    }

    /// Adds a new member in place of those that have ended.
    fn grant(&mut self, ruled: &Ruled<'a>, keys: &NameKeys, next: &Hold) -> Result<(), Refusal> {
        let name = ruled.view;
        self.add(name, keys)?;
        self.pin_first(name, keys);
        self.put_grant(ruled, keys, next);
        self.put_life(ruled, keys, next, ruled.begins().unwrap_or(PartKind::Owner))?;
        // A member with the same lock id is overwritten: an engine refuses two writes of one key.
        let others = name.members.iter().filter(|member| member.id != next.lock_id);
        for member in others.take(STALE_MAX) {
            self.pins.push(Pin::Since(keys.who(&member.id), member.since));
            self.writes.push(Write::DropBelow(keys.member(&member.id)));
        }
        self.drop_my_ticket(name);
        Ok(())
    }

    /// Revives the owner's own stale member under its lock id, as an owner part.
    fn revive(
        &mut self,
        ruled: &Ruled<'a>,
        keys: &NameKeys,
        next: &Hold,
        stale: Option<&Member>,
    ) -> Result<(), Refusal> {
        let name = ruled.view;
        self.add(name, keys)?;
        self.pin_first(name, keys);
        self.pins.extend(stale.map(|member| Pin::Since(keys.who(&member.id), member.since)));
        self.put_grant(ruled, keys, next);
        self.put_life(ruled, keys, next, PartKind::Owner)?;
        self.writes.push(Write::Drop(keys.process(&next.lock_id)));
        self.drop_my_ticket(name);
        Ok(())
    }

    /// Gives a live member a new end, or a second part.
    fn go_on(&mut self, ruled: &Ruled<'a>, keys: &NameKeys, next: &Hold, member: &Member) -> Result<(), Refusal> {
        self.add(ruled.view, keys)?;
        self.pins.push(Pin::Since(keys.who(&member.id), member.since));
        let lives = [
            (PartKind::Process, member.process, keys.process(&member.id)),
            (PartKind::Owner, member.owner, keys.owner(&member.id)),
        ];
        let begun = ruled.begins();
        self.put_grant(ruled, keys, next);
        for (kind, life, key) in lives {
            if let Some(life) = life
                && member.part_lives(kind, ruled.liveness)
            {
                self.pins.push(Pin::Since(key.clone(), life.since));
            }
            let needed = self.writes.len();
            if begun == Some(kind) {
                self.put_life(ruled, keys, next, kind)?;
            }
            let is_put = self.writes.len() > needed;
            let is_left = !next.has(kind) || begun == Some(kind);
            // A part that no longer has a TTL, or a process that is proven gone.
            if life.is_some() && is_left && !is_put {
                self.writes.push(Write::Drop(key));
            }
        }
        self.drop_my_ticket(ruled.view);
        Ok(())
    }

    /// Ends one of two parts.
    fn leave(
        &mut self,
        ruled: &Ruled<'a>,
        keys: &NameKeys,
        next: &Hold,
        judged: Option<&Member>,
    ) -> Result<(), Refusal> {
        let member = judged.ok_or(Refusal::Nothing)?;
        self.pin_member(ruled, keys, member);
        self.put_record(ruled, keys, next);
        for (kind, life, key) in [
            (PartKind::Process, member.process, keys.process(&member.id)),
            (PartKind::Owner, member.owner, keys.owner(&member.id)),
        ] {
            if life.is_some() && !next.has(kind) {
                self.writes.push(Write::Drop(key));
            }
        }
        Ok(())
    }

    /// Ends a member; by force all of them.
    fn remove(&mut self, ruled: &Ruled<'a>, keys: &NameKeys) {
        let forced = matches!(ruled.intent, Intent::Unlock(Breaking::Force, _));
        let judged = ruled.view.member(ruled.liveness);
        let victims =
            ruled.view.members.iter().filter(|member| forced || judged.is_some_and(|judged| judged.id == member.id));
        for member in victims {
            self.pin_member(ruled, keys, member);
            self.writes.push(Write::DropBelow(keys.member(&member.id)));
        }
    }

    fn pin_member(&mut self, ruled: &Ruled<'a>, keys: &NameKeys, member: &Member) {
        if let (Intent::Release(_), Some(life)) = (ruled.intent, member.process) {
            self.pins.push(Pin::Born(keys.process(&member.id), life.born));
        }
        self.pins.push(Pin::Since(keys.who(&member.id), member.since));
    }

    fn freeze(
        &mut self,
        ruled: &Ruled<'a>,
        keys: &NameKeys,
        next: &Hold,
        judged: Option<&Member>,
    ) -> Result<(), Refusal> {
        let name = ruled.view;
        self.add(name, keys)?;
        let mut next = next.clone();
        next.name = name.name.as_str().into();
        self.writes.push(Write::Put(keys.freeze_who(), record::encode(&next, record::Token::Keep), None));
        let part = next.parts.as_ref().and_then(|parts| parts.owner.as_ref());
        if part.is_some_and(|part| part.ttl_sec.is_some()) {
            let session = self.life(PartKind::Owner, ruled)?;
            self.writes.push(Write::Put(keys.freeze_life(), Vec::new(), Some(session)));
        } else if judged.is_some_and(|freeze| freeze.owner.is_some()) {
            self.writes.push(Write::Drop(keys.freeze_life()));
        }
        Ok(())
    }
}
