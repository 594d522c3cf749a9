//! A request of a caller, over all its tries.

use std::sync::Arc;

use lokt_core::decide::{InheritedHold, Intent};
use lokt_core::denial::Denial;
use lokt_core::hold::LockId;
use lokt_core::name::LockName;
use lokt_named::store::{Ask, Call, Done, Op, Place, Presence, Queued, Request, Several};

use super::caller::{Act, Caller, Held, answered, meant, name, terms, whole};

/// The answer to a request for a guard's holds.
pub enum Answer {
    /// All are held.
    Granted(Vec<Held>),
    /// None is.
    Refused(Denial),
    /// The caller is in the queue.
    Queued(Vec<Queued>),
}

/// A request that waits. Dropped, it is that of a process that has died.
pub struct Waiting<'w> {
    caller: Caller<'w>,
    names: Vec<LockName>,
    intent: Option<Intent>,
    inside: Option<InheritedHold>,
    ttl_sec: u64,
    ids: Vec<LockId>,
    op: Op,
    pub(super) waits: bool,
    presence: Option<Arc<dyn Presence>>,
    place: Option<Place>,
    /// What it holds already, where names are taken one after the other.
    taken: Vec<Held>,
}

impl<'w> Waiting<'w> {
    /// A guard's request that hasn't been made yet.
    pub fn new(caller: Caller<'w>, texts: &[&str], ttl_sec: u64, inside: Option<InheritedHold>) -> Self {
        let mut names: Vec<LockName> = texts.iter().map(|text| name(text)).collect();
        names.sort_unstable();
        let ids = names.iter().map(|_| LockId::from_bits(caller.world.fresh())).collect();
        let (op, presence, place, taken) = (caller.op(), None, None, Vec::new());
        Self { caller, names, intent: None, inside, ttl_sec, ids, op, waits: true, presence, place, taken }
    }

    /// The same for an owner's lock.
    pub fn for_lock(caller: Caller<'w>, text: &str) -> Self {
        Self { intent: Some(Intent::Lock(terms(0))), ..Self::new(caller, &[text], 0, None) }
    }

    /// Looks again. `None`: it still waits.
    pub fn looks(&mut self) -> Option<Vec<Held>> {
        match self.ask() {
            Answer::Granted(held) => Some(held),
            Answer::Refused(denial) => panic!("a waiter was refused: {denial:?}"),
            Answer::Queued(_) => None,
        }
    }

    /// The number of waiters ahead, at a look of now.
    pub fn ahead(&mut self) -> usize {
        match self.ask() {
            Answer::Queued(queued) => queued.first().map_or(0, |queued| queued.ahead),
            _ => panic!("it doesn't wait any more"),
        }
    }

    /// Waits no longer.
    pub fn leaves(mut self) {
        let me = self.caller.world.me(self.caller.number);
        let names = self.names.clone();
        let asks: Vec<Ask<'_>> = names.iter().zip(&self.ids).map(|(name, id)| self.ask_for(name, id)).collect();
        let request = Request::of(me, self.op, &asks);
        let mut request = Request { presence: self.presence.take(), place: self.place, waits: true, ..request };
        self.caller.store().leave(&mut request, Some(&mut |_| Vec::new()), &Call::UNLIMITED);
    }

    /// Asks once: for all names, or for the next one, where they are taken one after the other.
    pub fn ask(&mut self) -> Answer {
        let together = self.caller.store().contract().several == Several::Together;
        if together || self.names.len() == 1 {
            return self.ask_all(&mut None);
        }
        while self.taken.len() < self.names.len() {
            let next = self.taken.len()..=self.taken.len();
            match self.ask_some(next, &mut None) {
                Answer::Granted(held) => self.taken.extend(held),
                other => return other,
            }
        }
        Answer::Granted(std::mem::take(&mut self.taken))
    }

    pub(super) fn ask_all(&mut self, act: &mut Act<'_>) -> Answer {
        self.ask_some(0..=self.names.len() - 1, act)
    }

    fn ask_for<'n>(&self, name: &'n LockName, id: &LockId) -> Ask<'n> {
        let me = self.caller.world.me(self.caller.number);
        match &self.intent {
            Some(intent) => Ask::lock(name, intent.clone(), id.clone()),
            None => Ask::guard(name, terms(self.ttl_sec), me, self.inside.clone(), id.clone()),
        }
    }

    fn ask_some(&mut self, which: std::ops::RangeInclusive<usize>, act: &mut Act<'_>) -> Answer {
        let me = self.caller.world.me(self.caller.number);
        let names = self.names[which.clone()].to_vec();
        let ids = &self.ids[which];
        let asks: Vec<Ask<'_>> = names.iter().zip(ids).map(|(name, id)| self.ask_for(name, id)).collect();
        let request = Request::of(me, self.op, &asks);
        let (presence, place) = (self.presence.take(), self.place);
        let mut request = Request { waits: self.waits, presence, place, ..request };
        let answers = self.caller.carry_out_while(&mut request, act);
        (self.presence, self.place) = (request.presence.take(), request.place);
        let (mut held, mut queued) = (Vec::new(), Vec::new());
        for (number, done) in answered(answers) {
            match done {
                Done::Committed(committed) => {
                    let hold = *whole(*committed).hold.expect("a grant stores a hold");
                    held.push(Held { name: names[number].clone(), hold, presence: self.presence.clone() });
                }
                Done::Queued(one) => queued.push(Queued { why: meant(one.why.clone()), ..*one }),
                Done::Stayed(stayed) => {
                    if let Some(denial) = stayed.why.map(meant) {
                        // What was granted before is given back.
                        for one in &held {
                            let _ = answered(self.caller.tries_to_release(one));
                        }
                        return Answer::Refused(denial);
                    }
                }
                Done::Failed(error) => answered(Err(error)),
            }
        }
        if queued.is_empty() {
            // The holds have it now.
            self.presence = None;
            return Answer::Granted(held);
        }
        Answer::Queued(queued)
    }
}
