//! What only a store on an engine can do: sessions that end, servers that change, waiters that are
//! passed over, requests whose outcome stays unknown.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lokt_core::decide::{Intent, Terms};
use lokt_core::engine::{Change, Key, Lasts, Made, Rev, SessionId, Sight, Span, Write};
use lokt_core::guard::Outcome;
use lokt_core::hold::LockId;
use lokt_core::inherited_holds::InheritedHolds;
use lokt_core::name::LockName;
use lokt_core::swap::record::Meta;
use lokt_named::judge::{Story, rule};
use lokt_named::store::{
    Ask, Call, Depth, Done, Op, Presence, Queued, Request, Scan, Store, Subscription, Target, View,
};
use lokt_named::swap::{Card, Engine, Fault, Finding, MemEngine, Of, SwapStore, Trouble};
use lokt_named::{Acquired, Lokt};
use lokt_sys::error::ErrorKind;
use lokt_sys::machine::{Linux, Machine as _, identity};
use lokt_sys::wait_policy::{Timeout, WaitPolicy};
use lokt_sys::wakeup::Wakeup;
use lokt_testkit::conformance::caller::{name, terms};
use lokt_testkit::conformance::worlds::{engine, memory};
use lokt_testkit::conformance::{World, callers};
use lokt_testkit::dice::Dice;
use lokt_testkit::held::held;

/// What happens before the next request of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Surprise {
    /// Another server takes charge before a look.
    Election,
    /// All sessions end before a change.
    EndOfSessions,
}

/// An engine with a surprise.
#[derive(Clone)]
struct Surprising {
    engine: MemEngine,
    surprise: Arc<Mutex<Option<Surprise>>>,
}

impl Surprising {
    fn meets(&self, surprise: Surprise) -> bool {
        self.surprise.lock().expect("no panic").take_if(|next| *next == surprise).is_some()
    }
}

impl Engine for Surprising {
    fn card(&self, call: &Call<'_>) -> Result<Card, Trouble> {
        self.engine.card(call)
    }

    fn look(&self, spans: &[Span], call: &Call<'_>) -> Result<Sight, Trouble> {
        if self.meets(Surprise::Election) {
            self.engine.elect();
        }
        self.engine.look(spans, call)
    }

    fn page(&self, span: &Span, after: Option<&Key>, at: Option<Rev>, call: &Call<'_>) -> Result<Sight, Trouble> {
        self.engine.page(span, after, at, call)
    }

    fn make(&self, change: &Change, call: &Call<'_>) -> Result<Made, Trouble> {
        if self.meets(Surprise::EndOfSessions) {
            self.engine.sessions().into_iter().for_each(|id| self.engine.end_session(id));
        }
        self.engine.make(change, call)
    }

    fn open(&self, id: SessionId, ttl: Duration, call: &Call<'_>) -> Result<Lasts, Trouble> {
        self.engine.open(id, ttl, call)
    }

    fn renew(&self, id: SessionId, call: &Call<'_>) -> Result<Option<Lasts>, Trouble> {
        self.engine.renew(id, call)
    }

    fn close(&self, id: SessionId, call: &Call<'_>) -> Result<(), Trouble> {
        self.engine.close(id, call)
    }

    fn watch(&self, spans: &[Span], after: Rev, wakeup: &Wakeup) -> Result<Subscription, Trouble> {
        self.engine.watch(spans, after, wakeup)
    }
}

/// A world whose engine has a surprise, when the test says so.
fn surprising() -> (impl World, Arc<Mutex<Option<Surprise>>>, MemEngine) {
    let surprise = Arc::new(Mutex::new(None));
    let used = Mutex::new(None);
    let world = engine(|engine| {
        used.lock().expect("no panic").get_or_insert(engine.clone());
        Surprising { engine, surprise: Arc::clone(&surprise) }
    });
    let engine = used.into_inner().expect("no panic").expect("stores were opened");
    (world, surprise, engine)
}

fn set(surprise: &Mutex<Option<Surprise>>, next: Surprise) {
    *surprise.lock().expect("no panic") = Some(next);
}

#[test]
fn a_first_waiter_that_leaves_a_free_name_alone_is_passed_over_and_keeps_its_place() {
    let world = memory();
    let [alice, bob, carol, again] = callers(&world);
    let held = alice.guards("x").expect("x is free");
    let mut suspended = bob.waits_for(&["x"]);
    let mut second = carol.waits_for(&["x"]);
    let mut third = again.waits_for(&["x"]);
    alice.releases(&held).expect("it is alice's");
    assert!(second.looks().is_none(), "bob is offered the name");
    world.pass(1);
    assert!(second.looks().is_none(), "bob has a second left");
    world.pass(2);
    let held = second.looks().expect("bob left it alone for three seconds").remove(0);
    assert_eq!(suspended.ahead(), 0, "bob's place is before that of all who wait");
    carol.releases(&held).expect("it is carol's");
    assert!(third.looks().is_none(), "bob is first");
    suspended.looks().expect("bob is awake again");
}

#[test]
fn a_first_waiter_for_several_names_is_not_passed_over_while_one_of_them_is_held() {
    let world = memory();
    let [alice, bob, carol, _] = callers(&world);
    alice.locks("y", 0).expect("y is free");
    let mut both = bob.waits_for(&["x", "y"]);
    let mut one = carol.waits_for(&["x"]);
    for _ in 0..4 {
        world.pass(3);
        assert!(one.looks().is_none(), "carol overtook bob, who waits for y");
        assert!(both.looks().is_none(), "y is alice's");
    }
    alice.unlocks("y").expect("it is alice's");
    assert_eq!(both.looks().map(|held| held.len()), Some(2), "bob has both");
}

#[test]
fn a_waiter_whose_session_has_ended_waits_on_at_its_place() {
    let world = memory();
    let [alice, bob, carol, _] = callers(&world);
    alice.locks("x", 0).expect("x is free");
    let mut first = bob.waits_for(&["x"]);
    let mut second = carol.waits_for(&["x"]);
    world.pass(60);
    assert_eq!(alice.sees("x").waiting, 0, "their sessions are over");
    assert!(second.looks().is_none() && first.looks().is_none(), "x is alice's");
    assert_eq!((first.ahead(), second.ahead()), (0, 1), "in their old order");
    alice.unlocks("x").expect("it is alice's");
    assert!(second.looks().is_none(), "bob is first");
    first.looks().expect("bob is first");
}

#[test]
fn a_renewal_that_another_server_answered_does_not_count() {
    let (world, surprise, _) = surprising();
    let [alice, ..] = callers(&world);
    let held = alice.guards_for("x", 10).expect("x is free");
    set(&surprise, Surprise::Election);
    let error = alice.tries_to_renew(&held).expect_err("the server that renewed isn't in charge any more");
    assert_eq!(error.kind(), ErrorKind::Busy, "the old deadline stands: {error}");
    alice.renews(&held).expect("both answers are of one server");
}

#[test]
fn a_session_that_ends_before_the_grant_is_opened_again() {
    let (world, surprise, _) = surprising();
    let [alice, bob, ..] = callers(&world);
    set(&surprise, Surprise::EndOfSessions);
    let held = alice.guards("x").expect("x is free");
    assert_eq!(bob.sees_owner("x").as_deref(), Some("alice"), "it lives");
    alice.renews(&held).expect("its session lives");
    set(&surprise, Surprise::EndOfSessions);
    bob.locks("y", 60).expect("y is free");
    assert_eq!(alice.sees_owner("y").as_deref(), Some("bob"), "its lease runs");
}

#[test]
fn no_session_is_left_when_nothing_is_held_and_nobody_waits() {
    let (world, _, engine) = surprising();
    let [alice, bob, carol, _] = callers(&world);
    let held = alice.guards_all(&["x", "y"]).expect("both are free");
    assert!(bob.guards("x").is_err(), "it is alice's");
    let waiting = carol.waits_for(&["x"]);
    assert_eq!(engine.sessions().len(), 2, "alice's and carol's: {:?}", engine.sessions());
    waiting.leaves();
    for one in &held {
        alice.releases(one).expect("it is alice's");
    }
    drop(held);
    bob.freezes("x", 60).expect("nothing freezes it");
    assert!(alice.tries(Target::Lock, "x", Intent::Lock(terms(60))).expect("it is answered").is_err(), "frozen");
    assert_eq!(engine.sessions().len(), 1, "that of the freeze");
    world.pass(61);
    assert_eq!(engine.sessions(), [], "all have ended");
}

#[test]
fn an_outcome_that_cannot_be_settled_is_an_error_of_its_own_kind() {
    let (world, _, engine) = surprising();
    let [alice, bob, ..] = callers(&world);
    // More than are tried.
    for _ in 0..100 {
        engine.fail(Of::Make, 0, Fault::Late);
    }
    let error = alice.tries(Target::Lock, "x", Intent::Lock(terms(0))).expect_err("nothing is answered");
    assert_eq!((error.kind(), error.code()), (ErrorKind::OutcomeUnknown, "E_OUTCOME_UNKNOWN"), "{error}");
    assert!(engine.deliver() > 0, "it is made after all");
    assert_eq!(bob.sees_owner("x").as_deref(), Some("alice"), "that is what unknown means");
}

/// A guard's request that waits.
struct Waiter<'s> {
    store: &'s SwapStore<MemEngine>,
    name: LockName,
    queued: Queued,
    _presence: Arc<dyn Presence>,
}

impl<'s> Waiter<'s> {
    fn queued(store: &'s SwapStore<MemEngine>, text: &str) -> Self {
        let (name, me) = (name(text), identity("waiter".into(), None));
        let asks = [Ask::guard(&name, Terms::default(), &me, None, LockId::from_bits(1))];
        let mut request = Request { waits: true, ..Request::of(&me, Op(Linux.random().expect("bits")), &asks) };
        let contract = store.contract();
        let mut judge = |_: usize, view: &View| rule(&asks[0], true, &Story::default(), view, &me, contract);
        let answers = store.transact(&mut request, &mut judge, &Call::UNLIMITED).expect("it is answered");
        let presence = request.presence.take().expect("a waiter has a session");
        match answers.into_iter().next() {
            Some((_, Done::Queued(queued))) => Self { store, name: name.clone(), queued: *queued, _presence: presence },
            other => panic!("it doesn't wait: {other:?}"),
        }
    }

    fn needs_recheck(&self) -> bool {
        self.store.needs_recheck(&self.name, &self.queued, &Call::UNLIMITED)
    }

    fn armed(&self) -> Option<(Wakeup, Subscription)> {
        let wakeup = Wakeup::new().expect("an eventfd");
        let subscription = self.store.arm(&self.name, self.queued.wake_on, &wakeup)?;
        Some((wakeup, subscription))
    }
}

fn is_rung((wakeup, _): &(Wakeup, Subscription)) -> bool {
    let fd = std::os::fd::AsFd::as_fd(wakeup);
    lokt_sys::wakeup::sleep_on(&[fd], Duration::ZERO).expect("poll").contains(&true)
}

fn store_of(engine: &MemEngine, owner: &str) -> SwapStore<MemEngine> {
    let space = name("acme");
    let me = identity(owner.into(), None);
    let store = SwapStore::new(engine.clone(), &space, PathBuf::from("memory:/acme"), Arc::new(Linux), me);
    store.create_space("9f2c04ab", &Call::UNLIMITED).expect("it is made once");
    store
}

fn lokt_of(store: SwapStore<MemEngine>, owner: &str) -> Lokt {
    Lokt::with_store(Arc::new(store), Arc::new(Linux), identity(owner.into(), None))
}

#[test]
fn many_names_are_read_in_pages_and_swept_when_they_are_free() {
    let engine = MemEngine::new(Arc::new(Linux));
    let store = store_of(&engine, "alice");
    let lokt = lokt_of(store.clone(), "alice");
    let names: Vec<LockName> = (0..300).map(|number| name(&format!("n{number:03}"))).collect();
    for name in &names {
        lokt.take(name, Terms::default()).expect("it is free");
    }
    assert_eq!(store.names(Scan::Held, &Call::UNLIMITED).expect("it is read"), names, "all, in order");
    engine.fail(Of::Make, 0, Fault::Doubled);
    lokt.take(&name("late"), Terms::default()).expect("it is free");
    for name in names.iter().chain([&name("late")]) {
        lokt.unlock(name, lokt_core::decide::Breaking::No, lokt_named::Condition::default()).expect("it is held");
    }
    let findings = store.findings(false, &Call::UNLIMITED).expect("it is read");
    assert_eq!(findings, [Finding::FreeCells(301)], "all are free");
    assert_eq!(store.sweep(&Call::UNLIMITED).expect("it is swept"), 301, "all are swept");
    assert_eq!(store.findings(true, &Call::UNLIMITED).expect("it is read"), [], "nothing is left");
    assert_eq!(engine.deliver(), 0, "a late copy of a grant isn't made after the sweep");
}

#[test]
fn a_space_that_was_not_made_is_refused() {
    let engine = MemEngine::new(Arc::new(Linux));
    let me = identity("alice".into(), None);
    let store = SwapStore::new(engine, &name("acme"), PathBuf::from("memory:/acme"), Arc::new(Linux), me);
    let error = lokt_of(store.clone(), "alice").take(&name("x"), Terms::default()).expect_err("a typing error");
    assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
    assert!(store.create_space("9f", &Call::UNLIMITED).expect("it is made"), "it is new");
    assert!(!store.create_space("a0", &Call::UNLIMITED).expect("it is answered"), "it has another id");
    lokt_of(store, "alice").take(&name("x"), Terms::default()).expect("the space is there");
}

/// Rewrites the version of the space, as a newer program or a move does.
fn rewrite_meta(store: &SwapStore<MemEngine>, rewrite: impl FnOnce(&mut Meta)) {
    let (engine, key) = (store.engine(), store.space().meta());
    let mut meta = Meta::parse(&engine.item(&key).expect("there is a space").value).expect("it is readable");
    rewrite(&mut meta);
    let change = Change { writes: vec![Write::Put(key, meta.encode(), None)], ..Change::default() };
    engine.make(&change, &Call::UNLIMITED).expect("it is written");
}

#[test]
fn tokens_count_from_the_base_of_the_space_and_living_ones_stay() {
    let engine = MemEngine::new(Arc::new(Linux));
    let store = store_of(&engine, "alice");
    let lokt = lokt_of(store.clone(), "alice");
    let token = |text: &str| -> u64 {
        let view = store.view(&name(text), Depth::ALL, None, &Call::UNLIMITED).expect("it is read");
        view.slot.hold().and_then(|hold| hold.token).expect("it has a token").get()
    };
    lokt.take(&name("old"), Terms::default()).expect("it is free");
    let old = token("old");
    rewrite_meta(&store, |meta| meta.base = 1 << 40);
    lokt.take(&name("new"), Terms::default()).expect("it is free");
    let last = store.audit().last(Some(&name("new")), 1, &Call::UNLIMITED);
    let told = last[0].extra.get("fencing_token").and_then(serde_json::Value::as_u64);
    assert!(token("new") > 1 << 40, "{} counts from the base", token("new"));
    assert_eq!(told, Some(token("new")), "the audit log has the same");
    let owned = held(&lokt, "guarded", &Terms::default()).expect("it works").expect("it is free");
    assert_eq!(owned.token().get(), token("guarded"), "its holder was told the same");
    assert_eq!(token("old"), old, "a living token stays");
    lokt.take(&name("old"), Terms::default()).expect("it is alice's");
    assert_eq!(token("old"), old, "also over a refresh");
}

#[test]
fn a_space_that_is_closed_frozen_or_newer_grants_nothing_and_lets_its_holders_go() {
    let engine = MemEngine::new(Arc::new(Linux));
    let store = store_of(&engine, "alice");
    let lokt = lokt_of(store.clone(), "alice");
    let owned = held(&lokt, "x", &Terms::default()).expect("it works").expect("it is free");
    rewrite_meta(&store, |meta| meta.closed = "files".into());
    let error = lokt.take(&name("y"), Terms::default()).expect_err("the space is closed");
    assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
    rewrite_meta(&store, |meta| (meta.closed, meta.format) = (serde_json::Value::Null, 2));
    let error = lokt.take(&name("y"), Terms::default()).expect_err("the space is newer");
    assert_eq!(error.kind(), ErrorKind::Newer, "{error}");
    assert_eq!(owned.renew(), Outcome::Kept { late_ms: None }, "who holds goes on");
    owned.release().expect("who holds may go");
    rewrite_meta(&store, |meta| meta.format = 1);
    lokt.freezes().freeze(&name("f"), Terms::default()).expect("nothing freezes it");
    let record = engine.item(&store.space().name(&name("f")).freeze_who()).expect("it is stored").value;
    let frozen = serde_json::from_slice(&record).expect("JSON");
    rewrite_meta(&store, |meta| meta.frozen = frozen);
    assert!(store.view(&name("y"), Depth::ALL, None, &Call::UNLIMITED).expect("it is read").frozen.is_some());
    let refused = held(&lokt, "y", &Terms::default());
    assert!(matches!(refused, Ok(None)), "every name is frozen");
}

#[test]
fn a_waiter_is_woken_by_what_it_waits_for_and_told_to_look_again() {
    let engine = MemEngine::new(Arc::new(Linux));
    let stores = ["alice", "bob", "carol"].map(|owner| store_of(&engine, owner));
    let [alice, bob, _] = ["alice", "bob", "carol"].map(|owner| lokt_of(store_of(&engine, owner), owner));
    let held = held(&alice, "x", &Terms::default()).expect("it works").expect("it is free");
    let mut waiting = Vec::new();
    for store in &stores[1..] {
        waiting.push(Waiter::queued(store, "x"));
    }
    let (first, second) = (&waiting[0], &waiting[1]);
    assert!(!first.needs_recheck() && !second.needs_recheck(), "alice has it");
    let wakeups = [first, second].map(|waiter| waiter.armed().expect("it hasn't happened"));
    assert!(!wakeups.iter().any(is_rung), "nothing has happened");
    held.release().expect("it is alice's");
    assert!(is_rung(&wakeups[0]) && first.needs_recheck(), "it is the turn of the first");
    assert!(!is_rung(&wakeups[1]), "the second waits for the first");
    drop(waiting.remove(0));
    assert!(is_rung(&wakeups[1]), "the first has left");
    assert!(waiting[0].armed().is_none(), "it happened before");
    assert!(waiting[0].needs_recheck(), "it is the turn of the second");
    drop(bob);
}

/// Threads that guard two names, on a network that loses, delays and doubles requests.
#[test]
fn one_thread_at_a_time_is_inside_although_requests_are_lost_late_and_doubled() {
    const THREADS: u64 = 4;
    const ROUNDS: usize = 25;
    let engine = MemEngine::new(Arc::new(Linux));
    let (inside, last, granted) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for number in 1..=THREADS {
            let (engine, inside, last, granted) = (engine.clone(), &inside, &last, &granted);
            workers.push(scope.spawn(move || {
                let owner = format!("owner-{number}");
                let lokt = lokt_of(store_of(&engine, &owner), &owner);
                let names = if number % 2 == 0 { ["x", "y"] } else { ["y", "x"] }.map(name);
                for _ in 0..ROUNDS {
                    let timeout = Timeout::After(Duration::from_secs(60));
                    let mut policy = WaitPolicy { timeout, ..WaitPolicy::none() };
                    let owned = lokt.owned(&names, &Terms::default(), &InheritedHolds::default(), &mut policy);
                    let Acquired::All { owned_holds, .. } = owned.expect("it is answered in time").value else {
                        panic!("it isn't granted within a minute");
                    };
                    let token = owned_holds[0].hold.token.expect("a token").get();
                    assert_eq!(inside.swap(number, Ordering::SeqCst), 0, "two are inside");
                    assert!(last.swap(token, Ordering::SeqCst) < token, "tokens grow");
                    std::thread::yield_now();
                    assert_eq!(inside.swap(0, Ordering::SeqCst), number, "another came in");
                    granted.fetch_add(1, Ordering::SeqCst);
                    for owned in owned_holds {
                        owned.release();
                    }
                }
            }));
        }
        let faults = scope.spawn(|| {
            let mut dice = Dice::new(17);
            let wakeup = Wakeup::new().expect("an eventfd");
            while !is_over.load(Ordering::SeqCst) {
                let fault = [Fault::Lost, Fault::AnswerLost, Fault::Late, Fault::Doubled][dice.index(4)];
                let of = [Of::Make, Of::Make, Of::Open, Of::Close][dice.index(4)];
                engine.fail(of, dice.index(5), fault);
                if dice.below(3) == 0 {
                    engine.deliver();
                }
                let fd = std::os::fd::AsFd::as_fd(&wakeup);
                lokt_sys::wakeup::sleep_on(&[fd], Duration::from_millis(2)).expect("poll");
            }
        });
        let ended: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::SeqCst);
        faults.join().expect("no panic");
        assert!(ended.into_iter().all(|worker| worker.is_ok()), "a worker failed");
    });
    assert_eq!(granted.into_inner(), THREADS * ROUNDS as u64, "every round was granted");
}
