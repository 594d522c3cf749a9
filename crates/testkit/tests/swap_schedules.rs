//! Random schedules on an engine, and a judge of what was told and what is stored.
//!
//! Callers guard, wait, lock, break and freeze two names. Before each of their requests another caller
//! may act, time may pass, another server may take charge, and what is under way may arrive; the request
//! itself may be lost, late, doubled or echoed. A schedule is made of its seed alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use lokt_core::decide::{Breaking, Cause, Condition, HoldKey, Intent};
use lokt_core::engine::Rev;
use lokt_core::hold::{Hold, LockId};
use lokt_core::liveness::Liveness;
use lokt_core::name::LockName;
use lokt_core::swap::View as Sighted;
use lokt_core::swap::view::spans;
use lokt_named::judge::{Story, rule};
use lokt_named::store::{Ask, Call, Committed, Done, Op, Place, Presence, Request, Target, View};
use lokt_named::swap::{Engine as _, Fault, SwapStore};
use lokt_sys::error::{Error, ErrorKind};
use lokt_testkit::conformance::caller::{Caller, name, terms, token};
use lokt_testkit::conformance::worlds::Callers;
use lokt_testkit::conformance::{World as _, callers};
use lokt_testkit::dice::Dice;
use lokt_testkit::scripted_engine::{Fate, Scripted, Sends, scripted};

const NAMES: [&str; 2] = ["x", "y"];
const SCHEDULES: u64 = 150;
const STEPS: usize = 40;
/// Callers act inside of each other's requests this deep.
const DEPTH: usize = 3;

/// A guard's request, and then its holds.
#[derive(Default)]
struct Guarding {
    names: Vec<LockName>,
    ids: Vec<LockId>,
    op: u128,
    ttl_sec: u64,
    presence: Option<Arc<dyn Presence>>,
    place: Option<Place>,
    /// Name, hold, and whether it may have been taken away.
    held: Vec<(LockName, Hold)>,
    /// Its command is dead by then.
    until_ms: u64,
}

/// What a caller does between two steps; `None`: it is in the middle of one.
type Doing = Option<Guarding>;

/// What was told.
#[derive(Default)]
struct Told {
    /// New holds.
    ids: BTreeSet<String>,
    /// Ids of requests that may have been carried out.
    unknown: BTreeSet<String>,
    /// The greatest token of each name.
    tokens: BTreeMap<String, u64>,
    /// Locks without an end that nobody has tried to end since.
    endless: BTreeMap<String, String>,
    /// How often an end of each name was asked for, or answered.
    breaks: BTreeMap<String, usize>,
    /// Names that may be taken from their guards at this moment.
    forced: Vec<String>,
    /// Freezes without an end: how often each name was frozen, and whether it surely is.
    frozen: BTreeMap<String, (usize, bool)>,
    grants: usize,
}

struct Schedule {
    world: &'static Callers,
    engine: Scripted,
    dice: Mutex<Dice>,
    doing: [Mutex<Doing>; 4],
    depth: Mutex<usize>,
    told: Mutex<Told>,
    /// What is wrong, first things first.
    wrong: Mutex<Vec<String>>,
}

impl Schedule {
    /// Notes what is wrong. Destructors send requests, too, so the judge doesn't panic.
    fn must(&self, is_right: bool, wrong: impl FnOnce() -> String) {
        if !is_right {
            self.wrong.lock().expect("no panic").push(wrong());
        }
    }

    fn rolls(&self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn below(&self, end: u64) -> u64 {
        self.dice.lock().expect("no panic").below(end)
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().expect("no panic")
    }

    fn caller(&self, number: usize) -> Caller<'static> {
        callers(self.world)[number]
    }

    /// What happens before a request, and to it.
    fn meets(&self, sends: Sends<'_>) -> Fate {
        self.judges_stored();
        match self.below(40) {
            0 => self.engine.engine.elect(),
            1 | 2 => self.world.pass(1 + self.below(3)),
            3..=6 => drop(self.engine.engine.deliver()),
            7..=16 => self.nests(),
            _ => {}
        }
        let faults = [Fault::Lost, Fault::AnswerLost, Fault::Late, Fault::Doubled, Fault::Echoed];
        match sends {
            Sends::Make(_) | Sends::Open(_) | Sends::Close(_) if self.rolls(8) => {
                Fate::Goes(faults[usize::try_from(self.below(5)).expect("few")])
            }
            Sends::Look(_) | Sends::Renew(_) if self.rolls(25) => Fate::Goes(Fault::Lost),
            _ => Fate::Answered,
        }
    }

    fn nests(&self) {
        let depth = *self.depth.lock().expect("no panic");
        if depth < DEPTH {
            *self.depth.lock().expect("no panic") += 1;
            self.steps();
            *self.depth.lock().expect("no panic") -= 1;
        }
    }

    /// A caller that is in the middle of nothing does something.
    fn steps(&self) {
        let number = usize::try_from(self.below(4)).expect("few");
        let Some(mut doing) = self.doing[number].lock().expect("no panic").take() else { return };
        if !doing.held.is_empty() {
            self.goes_on(number, &mut doing);
        } else if doing.op != 0 {
            if self.rolls(8) {
                doing = Guarding::default();
            } else {
                self.asks(number, &mut doing, true);
            }
        } else {
            self.begins(number, &mut doing);
        }
        *self.doing[number].lock().expect("no panic") = Some(doing);
        self.judges_stored();
    }

    fn begins(&self, number: usize, doing: &mut Guarding) {
        let text = NAMES[usize::try_from(self.below(2)).expect("few")];
        let caller = self.caller(number);
        match self.below(16) {
            0..=6 => {
                let texts = if self.rolls(3) { NAMES.to_vec() } else { vec![text] };
                let names: Vec<LockName> = texts.into_iter().map(name).collect();
                let ids = names.iter().map(|_| LockId::from_bits(self.world.fresh())).collect();
                let (op, ttl_sec) = (self.world.fresh(), 3 + self.below(12));
                *doing = Guarding { names, ids, op, ttl_sec, ..Guarding::default() };
                let waits = !self.rolls(3);
                self.asks(number, doing, waits);
            }
            7..=9 => self.locks(caller, text, 0),
            10 => self.locks(caller, text, 2 + self.below(5)),
            11 | 12 => self.ends(caller, text, Intent::Unlock(Breaking::No, Condition::default())),
            13 => {
                let breaking = if self.rolls(2) { Breaking::Force } else { Breaking::Stale };
                self.ends(caller, text, Intent::Unlock(breaking, Condition::default()));
            }
            14 => self.freezes(caller, text),
            _ => {
                let store: &SwapStore<Scripted> = self.world.store(number).as_any().downcast_ref().expect("it is one");
                let _ = store.sweep(&Call::UNLIMITED);
            }
        }
    }

    /// A grant of `name` was told to a request before which this was the greatest token.
    fn granted(&self, text: &str, committed: &Committed, before: (u64, (usize, bool))) {
        let hold = committed.hold.as_ref().expect("a grant stores a hold");
        let mut told = self.told();
        let (greatest, frozen) = before;
        if committed.cause == Cause::Acquire {
            let is_new = told.ids.insert(hold.lock_id.to_string());
            self.must(is_new, || format!("{text}: one hold is granted twice"));
            self.must(token(hold) > greatest, || format!("{text}: token {} isn't above {greatest}", token(hold)));
            let is_frozen = frozen.1 && told.frozen.get(text) == Some(&frozen);
            self.must(!is_frozen, || format!("{text} was granted although it was frozen all the time"));
        }
        self.must(token(hold) >= greatest, || format!("{text}: token {} is below {greatest}", token(hold)));
        told.grants += 1;
        let known = told.tokens.entry(text.into()).or_default();
        *known = token(hold).max(*known);
    }

    fn before(&self, text: &str) -> (u64, (usize, bool)) {
        let told = self.told();
        (told.tokens.get(text).copied().unwrap_or(0), told.frozen.get(text).copied().unwrap_or_default())
    }

    fn asks(&self, number: usize, doing: &mut Guarding, waits: bool) {
        let (me, store) = (self.world.me(number), self.world.store(number));
        let ask = |(name, id)| Ask::guard(name, terms(doing.ttl_sec), me, None, LockId::clone(id));
        let asks: Vec<Ask<'_>> = doing.names.iter().zip(&doing.ids).map(ask).collect();
        let before: Vec<_> = doing.names.iter().map(|name| self.before(name.as_str())).collect();
        let breaks = self.told().breaks.clone();
        let request = Request::of(me, Op(doing.op), &asks);
        let (presence, place) = (doing.presence.take(), doing.place);
        let mut request = Request { waits, presence, place, ..request };
        let contract = store.contract();
        let mut judge = |number: usize, view: &View| rule(&asks[number], waits, &Story::default(), view, me, contract);
        let answers = store.transact(&mut request, &mut judge, &Call::UNLIMITED);
        let (presence, place) = (request.presence.take(), request.place);
        let (mut held, mut queued, mut until_ms) = (Vec::new(), false, 0);
        match answers {
            Err(error) => {
                let ids: Vec<String> = doing.ids.iter().map(ToString::to_string).collect();
                self.fails(&error, &ids);
            }
            Ok(answers) => {
                for (number, done) in answers {
                    match done {
                        Done::Committed(committed) => {
                            self.granted(doing.names[number].as_str(), &committed, before[number]);
                            let lasts = committed.lasts.expect("a guard's hold has an end");
                            until_ms = lasts.sent.boottime_ms + u64::try_from(lasts.ttl.as_millis()).expect("short");
                            held.push((doing.names[number].clone(), *committed.hold.expect("it stores a hold")));
                        }
                        Done::Queued(_) => queued = true,
                        _ => {}
                    }
                }
            }
        }
        // What was broken meanwhile may be gone.
        held.retain(|(name, _)| self.told().breaks.get(name.as_str()) == breaks.get(name.as_str()));
        *doing = match (queued, held.is_empty()) {
            (true, _) => Guarding { presence, place, ..std::mem::take(doing) },
            (false, true) => Guarding::default(),
            (false, false) => Guarding { presence, held, until_ms, ..Guarding::default() },
        };
    }

    fn fails(&self, error: &Error, ids: &[String]) {
        let is_known = matches!(error.kind(), ErrorKind::Busy | ErrorKind::OutcomeUnknown);
        self.must(is_known, || format!("nothing but the network is wrong: {error}"));
        if error.kind() == ErrorKind::OutcomeUnknown {
            self.told().unknown.extend(ids.iter().cloned());
        }
    }

    /// A guard renews, gives back, or dies.
    fn goes_on(&self, number: usize, doing: &mut Guarding) {
        let key = |hold: &Hold| HoldKey { lock_id: hold.lock_id.clone(), token: hold.token, pulse: hold.pulse };
        match self.below(6) {
            0 => *doing = Guarding::default(),
            1 | 2 => {
                for (name, hold) in std::mem::take(&mut doing.held) {
                    let (me, store) = (self.world.me(number), self.world.store(number));
                    let asks = [Ask::lock(&name, Intent::Release(key(&hold)), LockId::from_bits(self.world.fresh()))];
                    let mut request = Request::of(me, Op(self.world.fresh()), &asks);
                    let contract = store.contract();
                    let mut judge =
                        |_: usize, view: &View| rule(&asks[0], false, &Story::default(), view, me, contract);
                    if let Err(error) = store.transact(&mut request, &mut judge, &Call::UNLIMITED) {
                        self.fails(&error, &[]);
                    }
                }
                *doing = Guarding::default();
            }
            _ => {
                let breaks = self.told().breaks.clone();
                let holds: Vec<_> = doing.held.iter().map(|(name, hold)| (name.clone(), key(hold))).collect();
                let presence = doing.presence.as_ref().expect("a guard has a presence");
                if let Ok(kept) = presence.keep(&holds, &Call::UNLIMITED) {
                    let lasts = kept.lasts.expect("it has an end");
                    doing.until_ms = lasts.sent.boottime_ms + u64::try_from(lasts.ttl.as_millis()).expect("short");
                    let mut each = kept.each.into_iter();
                    doing.held.retain(|_| each.next().is_some_and(|one| one.is_ok()));
                }
                doing.held.retain(|(name, _)| self.told().breaks.get(name.as_str()) == breaks.get(name.as_str()));
                if doing.held.is_empty() {
                    *doing = Guarding::default();
                }
            }
        }
    }

    fn locks(&self, caller: Caller<'_>, text: &str, ttl_sec: u64) {
        let before = self.before(text);
        let breaks = self.told().breaks.get(text).copied();
        self.told().endless.retain(|_, owner| owner != caller.owner());
        match caller.tries(Target::Lock, text, Intent::Lock(terms(ttl_sec))) {
            Ok(Ok(committed)) => {
                self.granted(text, &committed, before);
                if ttl_sec == 0 && self.told().breaks.get(text).copied() == breaks {
                    self.told().endless.insert(text.into(), caller.owner().into());
                }
            }
            Ok(Err(_)) => {}
            // Its id isn't known here: whatever is found later may be it.
            Err(error) => self.fails(&error, &["any".into()]),
        }
    }

    fn ends(&self, caller: Caller<'_>, text: &str, intent: Intent) {
        let is_forced = matches!(intent, Intent::Unlock(Breaking::Force, _));
        {
            let mut told = self.told();
            *told.breaks.entry(text.into()).or_default() += 1;
            told.endless.remove(text);
            told.forced.extend(is_forced.then(|| text.to_owned()));
        }
        if let Err(error) = caller.tries(Target::Lock, text, intent) {
            self.fails(&error, &[]);
        }
        for doing in self.doing.iter().filter(|_| is_forced) {
            if let Some(doing) = &mut *doing.lock().expect("no panic") {
                doing.held.retain(|(name, _)| name.as_str() != text);
            }
        }
        let mut told = self.told();
        *told.breaks.entry(text.into()).or_default() += 1;
        told.endless.remove(text);
        if let Some(place) = told.forced.iter().position(|forced| is_forced && forced == text) {
            told.forced.swap_remove(place);
        }
    }

    fn freezes(&self, caller: Caller<'_>, text: &str) {
        let frozen = caller.tries(Target::Freeze, text, Intent::Freeze(terms(0))).is_ok_and(|frozen| frozen.is_ok());
        if frozen {
            let mut told = self.told();
            let known = told.frozen.entry(text.into()).or_default();
            *known = (known.0 + 1, true);
        }
        self.judges_stored();
        if let Some((_, is_sure)) = self.told().frozen.get_mut(text) {
            *is_sure = false;
        }
        let _ = caller.tries(Target::Freeze, text, Intent::Unfreeze { force: true });
    }

    /// One holder of each name at most, and none that runs on without its life key.
    fn judges_stored(&self) {
        let store: &SwapStore<Scripted> = self.world.store(0).as_any().downcast_ref().expect("it is one");
        let (space, names) = (store.space(), NAMES.map(name));
        let sight = self.engine.engine.look(&spans(space, &names), &Call::UNLIMITED).expect("it is answered");
        for name in Sighted::read(space, &names, &sight).names {
            let live = name.members.iter().filter(|member| member.lives(Liveness::Unknown)).count();
            self.must(live <= 1, || format!("{live} holds of {} live", name.name));
        }
        let now_ms = self.world.now().boottime_ms;
        for (number, doing) in self.doing.iter().enumerate() {
            let Some(doing) = &*doing.lock().expect("no panic") else { continue };
            for (name, hold) in doing.held.iter().filter(|_| now_ms < doing.until_ms) {
                if self.told().forced.iter().any(|forced| forced == name.as_str()) {
                    continue;
                }
                let life = self.engine.engine.item(&space.name(name).process(&hold.lock_id));
                let born = hold.pulse.map(|pulse| Rev(pulse.number));
                let has_life = life.is_some_and(|item| Some(item.born) == born);
                self.must(has_life, || format!("caller {number} runs on without {name}, of {born:?}"));
            }
        }
    }

    /// When everything has arrived and every guard is dead: what is there was told, and what was told is.
    fn judges_end(&self) {
        self.engine.calm();
        for doing in &self.doing {
            *doing.lock().expect("no panic") = Some(Guarding::default());
        }
        self.engine.engine.deliver();
        self.world.pass(100);
        let (alice, told) = (self.caller(0), self.told());
        let mut acquired = BTreeMap::<String, usize>::new();
        let mut broken = BTreeMap::<String, usize>::new();
        for event in alice.history() {
            match event.event.as_str() {
                "acquire" => *acquired.entry(event.lock_id).or_default() += 1,
                "force-break" | "stale-break" => *broken.entry(event.lock_id).or_default() += 1,
                "auto-prune" => {
                    let victim = event.extra.get("pruned_lock_id").and_then(|id| id.as_str()).unwrap_or_default();
                    *broken.entry(victim.to_owned()).or_default() += 1;
                }
                _ => {}
            }
        }
        broken.remove("");
        for (id, count) in &acquired {
            self.must(*count == 1, || format!("{id} was granted {count} times"));
            let is_known = told.ids.contains(id) || told.unknown.contains(id) || told.unknown.contains("any");
            self.must(is_known, || format!("{id} was granted to nobody"));
        }
        for id in &told.ids {
            self.must(acquired.contains_key(id), || format!("{id} was told as granted, and wasn't"));
        }
        for (id, count) in &broken {
            self.must(*count == 1, || format!("{id} was broken {count} times"));
        }
        for (text, owner) in &told.endless {
            let is_there = alice.sees_owner(text).as_ref() == Some(owner);
            self.must(is_there, || format!("{text} was locked by {owner} without an end"));
        }
    }
}

/// Runs a schedule: the number of its grants, or what is wrong.
fn run(seed: u64) -> Result<usize, String> {
    let (world, engine) = scripted();
    let doing = [(); 4].map(|()| Mutex::new(Some(Guarding::default())));
    let (dice, depth) = (Mutex::new(Dice::new(seed)), Mutex::new(0));
    let (told, wrong) = (Mutex::default(), Mutex::default());
    let schedule: &'static Schedule = Box::leak(Box::new(Schedule { world, engine, dice, doing, depth, told, wrong }));
    schedule.engine.follow_all(|sends, _| schedule.meets(sends));
    for _ in 0..STEPS {
        schedule.steps();
    }
    schedule.judges_end();
    match schedule.wrong.lock().expect("no panic").first() {
        Some(wrong) => Err(format!("{seed}: {wrong}")),
        None => Ok(schedule.told().grants),
    }
}

#[test]
fn what_is_told_and_what_is_stored_agree_in_random_schedules() {
    let (mut grants, mut wrong) = (0, Vec::new());
    for seed in 0..SCHEDULES {
        match run(seed) {
            Ok(granted) => grants += granted,
            Err(found) => wrong.push(found),
        }
    }
    assert!(wrong.is_empty(), "{} of {SCHEDULES} schedules are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(grants > 500, "only {grants} grants");
}
