//! A caller of a store: it asks, has itself judged, and keeps what it was granted.

use std::ops::ControlFlow;
use std::sync::Arc;

use lokt_core::audit::Event;
use lokt_core::decide::{Breaking, Condition, HoldKey, InheritedHold, Intent, Presented, Terms};
use lokt_core::denial::Denial;
use lokt_core::hold::{Hold, LockId};
use lokt_core::name::LockName;
use lokt_named::judge::{Story, rule};
use lokt_named::store::{
    Answers, Ask, Call, Committed, Depth, Done, Expiry, Found, Frozen, Op, Presence, Request, Store, Target, Unity,
    View,
};
use lokt_sys::error::Error;

use super::{Answer, Waiting, World};

/// A name that is good.
pub fn name(text: &str) -> LockName {
    LockName::new(text).expect("a good name")
}

/// A lease of this many seconds; 0: none.
pub fn terms(ttl_sec: u64) -> Terms {
    Terms { ttl_sec: Some(ttl_sec).filter(|ttl_sec| *ttl_sec > 0), reason: None }
}

/// How a panic begins that ends a case because its store has failed. No promise says that it never
/// does.
pub const STORE_FAILED: &str = "the store failed: ";

/// The answer, or the end of the case.
#[track_caller]
pub fn answered<T>(answer: Result<T, Error>) -> T {
    match answer {
        Ok(answer) => answer,
        Err(error) => failed(&error.to_string()),
    }
}

/// Ends the case: nothing is wrong with it, but its store has failed.
#[track_caller]
pub(super) fn failed(why: &str) -> ! {
    panic!("{STORE_FAILED}{why}")
}

/// What was carried out, unless something of it couldn't be.
pub(super) fn whole(committed: Committed) -> Committed {
    match committed.warnings.first() {
        Some(warning) => failed(&warning.to_string()),
        None => committed,
    }
}

/// The denial, unless its reason is that something couldn't be read: that counts as the worst.
pub(super) fn meant(denial: Denial) -> Denial {
    match denial {
        Denial::Frozen(None) => failed("a freeze can't be read"),
        denial => denial,
    }
}

/// What happens while a request is carried out.
pub(super) type Act<'a> = Option<&'a mut dyn FnMut()>;

/// A caller.
#[derive(Clone, Copy)]
pub struct Caller<'w> {
    pub(super) world: &'w dyn World,
    pub(super) number: usize,
}

/// A guard's hold in the hand of its caller. Dropped, it is one of a process that has died.
pub struct Held {
    /// Its name.
    pub name: LockName,
    /// The hold as it was granted.
    pub hold: Hold,
    pub(super) presence: Option<Arc<dyn Presence>>,
}

impl Held {
    /// What proves to be the process of this hold.
    pub fn key(&self) -> HoldKey {
        HoldKey { lock_id: self.hold.lock_id.clone(), token: self.hold.token, pulse: self.hold.pulse }
    }

    /// What a command knows of the hold that it runs under.
    pub fn inherited(&self) -> InheritedHold {
        let pulse = self.hold.pulse.map(|pulse| pulse.number);
        InheritedHold { lock_id: self.hold.lock_id.clone(), token: self.hold.token, pulse }
    }

    /// Its token.
    pub fn token(&self) -> u64 {
        token(&self.hold)
    }
}

/// The token of a hold.
#[track_caller]
pub fn token(hold: &Hold) -> u64 {
    hold.token.expect("every hold has a token").get()
}

impl<'w> Caller<'w> {
    /// The caller of this number.
    pub fn new(world: &'w dyn World, number: usize) -> Self {
        Self { world, number }
    }

    /// Its store.
    pub fn store(&self) -> &'w dyn Store {
        self.world.store(self.number)
    }

    /// Its owner.
    pub fn owner(&self) -> &'w str {
        &self.world.me(self.number).owner
    }

    /// Its process ends; what it holds is dropped.
    pub fn dies(&self, held: impl IntoIterator<Item = Held>) {
        drop(held.into_iter().collect::<Vec<_>>());
        self.world.kill(self.number);
    }

    pub(super) fn carry_out(&self, request: &mut Request<'_>) -> Result<Answers, Error> {
        self.carry_out_while(request, &mut None)
    }

    /// Carries a request out. `act` happens between its first look and what follows from that.
    pub(super) fn carry_out_while(&self, request: &mut Request<'_>, act: &mut Act<'_>) -> Result<Answers, Error> {
        let (asks, waits, me) = (request.asks, request.waits, request.me);
        let contract = self.store().contract();
        let mut judge = |number: usize, view: &View| {
            if let Some(act) = act.take() {
                act();
            }
            rule(&asks[number], waits, &Story::default(), view, me, contract)
        };
        self.store().transact(request, &mut judge, &Call::UNLIMITED)
    }

    pub(super) fn op(&self) -> Op {
        Op(self.world.fresh())
    }

    /// Asks one thing of one name, once.
    pub fn asks(&self, target: Target, text: &str, intent: Intent) -> Result<Committed, Denial> {
        answered(self.tries(target, text, intent))
    }

    /// The same, while `act` happens after the first look at the name.
    pub fn asks_while(
        &self,
        target: Target,
        text: &str,
        intent: Intent,
        mut act: impl FnMut(),
    ) -> Result<Committed, Denial> {
        answered(self.tries_while(target, text, intent, &mut Some(&mut act)))
    }

    /// The same, if the store may fail.
    pub fn tries(&self, target: Target, text: &str, intent: Intent) -> Result<Result<Committed, Denial>, Error> {
        self.tries_while(target, text, intent, &mut None)
    }

    fn tries_while(
        &self,
        target: Target,
        text: &str,
        intent: Intent,
        act: &mut Act<'_>,
    ) -> Result<Result<Committed, Denial>, Error> {
        let name = name(text);
        let asks = [Ask { target, ..Ask::lock(&name, intent, LockId::from_bits(self.world.fresh())) }];
        let mut request = Request::of(self.world.me(self.number), self.op(), &asks);
        let (_, done) = self.carry_out_while(&mut request, act)?.pop().expect("an answer");
        match done {
            Done::Committed(committed) => Ok(Ok(whole(*committed))),
            Done::Stayed(stayed) => Ok(Err(meant(stayed.why.expect("only guards are inside of something")))),
            Done::Failed(error) => Err(error),
            Done::Queued(_) => panic!("{text} was queued for a caller that doesn't wait"),
        }
    }

    /// Takes a lock for its owner; 0: without a TTL.
    pub fn locks(&self, text: &str, ttl_sec: u64) -> Result<Hold, Denial> {
        let committed = self.asks(Target::Lock, text, Intent::Lock(terms(ttl_sec)))?;
        Ok(*committed.hold.expect("a lock stores a hold"))
    }

    /// Ends its owner's hold.
    pub fn unlocks(&self, text: &str) -> Result<Committed, Denial> {
        self.unlocks_if(text, Breaking::No, Condition::default())
    }

    /// Ends a hold in this way, if it is the one that is meant.
    pub fn unlocks_if(&self, text: &str, breaking: Breaking, condition: Condition) -> Result<Committed, Denial> {
        self.asks(Target::Lock, text, Intent::Unlock(breaking, condition))
    }

    /// Takes a hold away by force.
    pub fn forces(&self, text: &str) -> Result<Committed, Denial> {
        self.unlocks_if(text, Breaking::Force, Condition::default())
    }

    /// Freezes a name; 0: without a TTL.
    pub fn freezes(&self, text: &str, ttl_sec: u64) -> Result<Committed, Denial> {
        self.asks(Target::Freeze, text, Intent::Freeze(terms(ttl_sec)))
    }

    /// Ends a freeze.
    pub fn unfreezes(&self, text: &str, force: bool) -> Result<Committed, Denial> {
        self.asks(Target::Freeze, text, Intent::Unfreeze { force })
    }

    /// Guards a name, without a TTL.
    pub fn guards(&self, text: &str) -> Result<Held, Denial> {
        self.guards_for(text, 0)
    }

    /// Guards a name.
    pub fn guards_for(&self, text: &str, ttl_sec: u64) -> Result<Held, Denial> {
        let mut held = self.guards_inside(&[text], ttl_sec, None)?;
        Ok(held.pop().expect("it isn't inside of anything"))
    }

    /// Guards several names together.
    pub fn guards_all(&self, texts: &[&str]) -> Result<Vec<Held>, Denial> {
        self.guards_inside(texts, 0, None)
    }

    /// Guards names under the hold that the caller runs in. What it is inside of isn't granted.
    pub fn guards_inside(
        &self,
        texts: &[&str],
        ttl_sec: u64,
        inside: Option<InheritedHold>,
    ) -> Result<Vec<Held>, Denial> {
        guards_while(Waiting::new(*self, texts, ttl_sec, inside), &mut None)
    }

    /// Guards several names together, while `act` happens after the first look at them.
    pub fn guards_all_while(&self, texts: &[&str], mut act: impl FnMut()) -> Result<Vec<Held>, Denial> {
        guards_while(Waiting::new(*self, texts, 0, None), &mut Some(&mut act))
    }

    /// Waits for names, and looks once.
    pub fn waits_for(&self, texts: &[&str]) -> Waiting<'w> {
        let mut waiting = Waiting::new(*self, texts, 0, None);
        assert!(waiting.looks().is_none(), "{texts:?} were granted at once");
        waiting
    }

    /// Gives a hold back.
    pub fn releases(&self, held: &Held) -> Result<Committed, Denial> {
        answered(self.tries_to_release(held))
    }

    /// The same, while `act` happens after the first look.
    pub fn releases_while(&self, held: &Held, mut act: impl FnMut()) -> Result<Committed, Denial> {
        answered(self.tries_to_release_while(held, &mut Some(&mut act)))
    }

    /// The same, if the store may fail.
    pub fn tries_to_release(&self, held: &Held) -> Result<Result<Committed, Denial>, Error> {
        self.tries_to_release_while(held, &mut None)
    }

    fn tries_to_release_while(&self, held: &Held, act: &mut Act<'_>) -> Result<Result<Committed, Denial>, Error> {
        let asks = [Ask::lock(&held.name, Intent::Release(held.key()), LockId::from_bits(self.world.fresh()))];
        let request = Request::of(self.world.me(self.number), self.op(), &asks);
        let mut request = Request { presence: held.presence.clone(), ..request };
        let (_, done) = self.carry_out_while(&mut request, act)?.pop().expect("an answer");
        match done {
            Done::Committed(committed) => Ok(Ok(whole(*committed))),
            Done::Stayed(stayed) => Ok(Err(stayed.why.expect("a release isn't inside of anything"))),
            Done::Failed(error) => Err(error),
            Done::Queued(_) => panic!("a release was queued"),
        }
    }

    /// Renews a hold; an error says who has it now.
    pub fn renews(&self, held: &Held) -> Result<(), Option<String>> {
        answered(self.tries_to_renew(held))
    }

    /// The same, if the store may fail.
    pub fn tries_to_renew(&self, held: &Held) -> Result<Result<(), Option<String>>, Error> {
        if self.store().contract().expiry == Expiry::Clock {
            let renewed = self.tries(Target::Lock, held.name.as_str(), Intent::Renew(held.key()))?;
            return Ok(renewed.map(drop).map_err(|denial| match denial {
                Denial::Lost(holder) => holder.map(|holder| holder.hold.owner),
                other => panic!("a renewal was refused: {other:?}"),
            }));
        }
        let presence = held.presence.as_ref().expect("a guard has a presence");
        let mut kept = presence.keep(&[(held.name.clone(), held.key())], &Call::UNLIMITED)?;
        let one = kept.each.pop().expect("one hold was to be kept");
        Ok(one.map_err(|holder| holder.map(|holder| holder.hold.owner)))
    }

    /// Is this token still the one to act under?
    pub fn checks(&self, text: &str, presented: Presented) -> Option<Denial> {
        let name = name(text);
        let ask = Ask::lock(&name, Intent::Check(presented), LockId::default());
        let view = self.sees(text);
        let (me, contract) = (self.world.me(self.number), self.store().contract());
        rule(&ask, false, &Story::default(), &view, me, contract).denial().cloned()
    }

    /// Does something under a token. `None`: it was done, and is still allowed.
    pub fn acts_under(&self, text: &str, presented: Presented, act: &mut dyn FnMut()) -> Option<Denial> {
        let name = name(text);
        let asks = [Ask::lock(&name, Intent::Check(presented), LockId::default())];
        let (me, contract) = (self.world.me(self.number), self.store().contract());
        let request = Request::of(me, self.op(), &asks);
        let mut judge = |_: usize, view: &View| rule(&asks[0], false, &Story::default(), view, me, contract);
        let mut act = || {
            act();
            Ok(())
        };
        match answered(self.store().under(&request, &mut judge, &mut act, &Call::UNLIMITED)) {
            Done::Stayed(stayed) => stayed.why,
            other => panic!("a check changes nothing: {other:?}"),
        }
    }

    /// Everything about a name.
    pub fn sees(&self, text: &str) -> View {
        let name = name(text);
        let view = answered(self.store().view(&name, Depth::ALL, None, &Call::UNLIMITED));
        if let Some(Frozen::Unreadable(why)) = &view.frozen {
            failed(why)
        }
        answered(view.readable(&name, Target::Lock))
    }

    /// The living holder's owner.
    pub fn sees_owner(&self, text: &str) -> Option<String> {
        let view = self.sees(text);
        view.slot.holder().filter(|holder| holder.lives()).map(|holder| holder.hold.owner.clone())
    }

    /// Asks the same of many names, each for itself. How many were changed, and how many not.
    pub fn asks_each(&self, texts: &[&str], intent: &Intent) -> (usize, usize) {
        let names: Vec<LockName> = texts.iter().map(|text| name(text)).collect();
        let ask = |name| Ask::lock(name, intent.clone(), LockId::from_bits(self.world.fresh()));
        let asks: Vec<Ask<'_>> = names.iter().map(ask).collect();
        let request = Request::of(self.world.me(self.number), self.op(), &asks);
        let mut answers = answered(self.carry_out(&mut Request { unity: Unity::Each, ..request }));
        if let Some((_, Done::Failed(error))) = answers.pop_if(|(_, done)| matches!(done, Done::Failed(_))) {
            failed(&error.to_string());
        }
        for (_, done) in &answers {
            if let Done::Committed(committed) = done
                && let Some(warning) = committed.warnings.first()
            {
                failed(&warning.to_string());
            }
        }
        let changed = answers.iter().filter(|(_, done)| matches!(done, Done::Committed(_))).count();
        let stayed = answers.iter().filter(|(_, done)| matches!(done, Done::Stayed(_))).count();
        (changed, stayed)
    }

    /// All events of the audit log, oldest first, without refusals: not every store tells of all of them.
    pub fn history(&self) -> Vec<Event> {
        let mut events = Vec::new();
        let read = self.store().audit().read(
            &mut |found| {
                if let Found::Event(line) = found {
                    events.extend(Event::parse(line.text.as_bytes()).filter(|event| event.event != "deny"));
                }
                ControlFlow::Continue(())
            },
            &Call::UNLIMITED,
        );
        answered(read);
        events
    }
}

/// Asks once for a guard's holds.
fn guards_while(mut waiting: Waiting<'_>, act: &mut Act<'_>) -> Result<Vec<Held>, Denial> {
    waiting.waits = false;
    match waiting.ask_all(act) {
        Answer::Granted(held) => Ok(held),
        Answer::Refused(denial) => Err(denial),
        Answer::Queued(_) => panic!("a caller that doesn't wait was queued"),
    }
}
