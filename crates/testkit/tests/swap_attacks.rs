//! Attacks on a store on an engine: a request meets what it can't foresee, and every promise must hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lokt_core::decide::{Breaking, Condition, HoldKey, Intent};
use lokt_core::denial::Denial;
use lokt_core::engine::{Change, Key, Span, Term, Write};
use lokt_core::hold::LockId;
use lokt_core::name::LockName;
use lokt_named::judge::{Story, rule};
use lokt_named::store::{Ask, Call, Committed, Done, Lasts, Op, Place, Presence, Request, Target, View};
use lokt_named::swap::{Engine as _, Fault};
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::wakeup::Wakeup;
use lokt_testkit::conformance::caller::{name, terms, token};
use lokt_testkit::conformance::worlds::Callers;
use lokt_testkit::conformance::{World as _, callers};
use lokt_testkit::scripted_engine::{Fate, Scripted, Sends, scripted};

/// The boot clock of a world.
fn boottime_ms(world: &Callers) -> u64 {
    world.now().boottime_ms
}

/// A guard's request over all its tries, with what the store says about its time.
struct Guarding {
    world: &'static Callers,
    number: usize,
    names: Vec<LockName>,
    ttl_sec: u64,
    ids: Vec<LockId>,
    op: Op,
    waits: bool,
    presence: Option<Arc<dyn Presence>>,
    place: Option<Place>,
}

impl Guarding {
    fn new(world: &'static Callers, number: usize, texts: &[&str], ttl_sec: u64, waits: bool) -> Self {
        let names: Vec<LockName> = texts.iter().map(|text| name(text)).collect();
        let ids = names.iter().map(|_| LockId::from_bits(world.fresh())).collect();
        let op = Op(world.fresh());
        Self { world, number, names, ttl_sec, ids, op, waits, presence: None, place: None }
    }

    fn asks(&mut self, call: &Call<'_>) -> Result<Vec<Done>, Error> {
        let (me, store) = (self.world.me(self.number), self.world.store(self.number));
        let ask = |(name, id)| Ask::guard(name, terms(self.ttl_sec), me, None, LockId::clone(id));
        let asks: Vec<Ask<'_>> = self.names.iter().zip(&self.ids).map(ask).collect();
        let request = Request::of(me, self.op, &asks);
        let (presence, place) = (self.presence.take(), self.place);
        let mut request = Request { waits: self.waits, presence, place, ..request };
        let contract = store.contract();
        let mut judge =
            |number: usize, view: &View| rule(&asks[number], self.waits, &Story::default(), view, me, contract);
        let answers = store.transact(&mut request, &mut judge, call);
        (self.presence, self.place) = (request.presence.take(), request.place);
        Ok(answers?.into_iter().map(|(_, done)| done).collect())
    }

    fn granted(&mut self) -> Vec<Committed> {
        let committed = |done| match done {
            Done::Committed(committed) => *committed,
            other => panic!("it isn't granted: {other:?}"),
        };
        self.asks(&Call::UNLIMITED).expect("it is answered").into_iter().map(committed).collect()
    }
}

fn key(committed: &Committed) -> HoldKey {
    let hold = committed.hold.as_ref().expect("a grant stores a hold");
    HoldKey { lock_id: hold.lock_id.clone(), token: hold.token, pulse: hold.pulse }
}

/// Until when a holder believes to hold, by the boot clock.
fn until_ms(lasts: Option<Lasts>) -> u64 {
    let Lasts { sent, ttl } = lasts.expect("a guard's hold has an end");
    sent.boottime_ms + u64::try_from(ttl.as_millis()).expect("a short time")
}

fn is_make(sends: &Sends<'_>) -> bool {
    matches!(sends, Sends::Make(_))
}

fn is_renewal(sends: &Sends<'_>) -> bool {
    matches!(sends, Sends::Renew(_))
}

/// Lets every change get lost from now on, after this many that are made without an answer.
fn cut_after(engine: &Scripted, made: usize) {
    let mut left = made;
    engine.follow(move |sends, _| match sends {
        Sends::Make(_) if left > 0 => {
            left -= 1;
            Fate::Goes(Fault::AnswerLost)
        }
        Sends::Make(_) => Fate::Goes(Fault::Lost),
        _ => Fate::Answered,
    });
}

#[test]
fn a_refresh_whose_outcome_stays_unknown_does_not_end_the_hold() {
    let (world, engine) = scripted();
    let [alice, bob, ..] = callers(world);
    alice.locks("x", 60).expect("x is free");
    bob.freezes("y", 60).expect("nothing freezes it");
    for (caller, target, text, intent) in
        [(alice, Target::Lock, "x", Intent::Lock(terms(60))), (bob, Target::Freeze, "y", Intent::Freeze(terms(60)))]
    {
        cut_after(&engine, 1);
        let error = caller.tries(target, text, intent).expect_err("nothing is answered");
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        engine.calm();
    }
    world.pass(30);
    assert_eq!(bob.sees_owner("x").as_deref(), Some("alice"), "its first lease runs for 30 s more");
    assert!(matches!(alice.locks("y", 0), Err(Denial::Frozen(_))), "its first lease runs for 30 s more");
}

#[test]
fn a_ttl_counts_from_the_try_that_was_granted() {
    let (world, engine) = scripted();
    let [alice, bob, carol, _] = callers(world);
    engine.once(
        |sends| sends.writes("/who"),
        move || {
            bob.freezes("x", 0).expect("nothing freezes it");
            bob.unfreezes("x", false).expect("it is bob's");
            world.pass(4);
        },
        Fate::Answered,
    );
    alice.locks("x", 5).expect("x is free");
    world.pass(4);
    assert!(matches!(carol.locks("x", 0), Err(Denial::Held(_))), "it was granted 4 s ago, for 5 s");
}

#[test]
fn a_session_that_is_opened_again_counts_from_the_first_request() {
    let (world, engine) = scripted();
    // The session ends before the grant; the first request to open it again is made without an answer.
    let (ended, mut opens) = (engine.engine.clone(), 0);
    engine.follow(move |sends, _| match sends {
        Sends::Make(_) if opens == 1 => {
            ended.sessions().into_iter().for_each(|id| ended.end_session(id));
            opens += 1;
            Fate::Answered
        }
        Sends::Open(id) => {
            opens += 1;
            if opens != 3 {
                return Fate::Answered;
            }
            ended.open(id, Duration::from_secs(10), &Call::UNLIMITED).expect("it is opened");
            world.pass(3);
            Fate::Goes(Fault::Lost)
        }
        _ => Fate::Answered,
    });
    let before_ms = boottime_ms(world);
    let mut guarding = Guarding::new(world, 0, &["x"], 10, false);
    let committed = guarding.granted().remove(0);
    assert!(until_ms(committed.lasts) <= before_ms + 10_000, "the server counts from its first opening");
}

#[test]
fn a_renewal_of_a_waiter_that_a_former_server_answered_gives_no_time() {
    let (world, engine) = scripted();
    let [alice, ..] = callers(world);
    let held = alice.guards_all(&["x", "y"]).expect("both are free");
    let opened_ms = boottime_ms(world);
    let mut waiting = Guarding::new(world, 1, &["x", "y"], 15, true);
    assert!(matches!(waiting.asks(&Call::UNLIMITED).expect("it is answered")[..], [Done::Queued(_), Done::Queued(_)]));
    for one in &held {
        alice.releases(one).expect("it is alice's");
    }
    world.pass(6);
    // The server that answers the waiter has lost its charge, and so has the one after the grant.
    let mut renewals = 0;
    let server = engine.engine.clone();
    engine.follow(move |sends, _| match sends {
        Sends::Renew(_) if renewals == 0 => {
            renewals += 1;
            let old = server.term();
            server.elect();
            Fate::Lied(old)
        }
        Sends::Renew(_) => Fate::Lied(Term(0)),
        _ => Fate::Answered,
    });
    let committed = waiting.granted();
    let end_ms = opened_ms + 15_000;
    assert!(until_ms(committed[0].lasts) <= end_ms, "the session ends 15 s after its opening");
    // One of them is given back, so that not all are there at the next renewal.
    let key_of = [key(&committed[0]), key(&committed[1])];
    let asks = [Ask::lock(&waiting.names[0], Intent::Release(key_of[0].clone()), LockId::from_bits(world.fresh()))];
    let me = world.me(1);
    let mut request = Request::of(me, Op(world.fresh()), &asks);
    let contract = world.store(1).contract();
    let mut judge = |number: usize, view: &View| rule(&asks[number], false, &Story::default(), view, me, contract);
    world.store(1).transact(&mut request, &mut judge, &Call::UNLIMITED).expect("it is answered");
    let holds: Vec<_> = waiting.names.iter().cloned().zip(key_of).collect();
    let kept = waiting.presence.as_ref().expect("it has a session").keep(&holds, &Call::UNLIMITED);
    if let Ok(kept) = kept {
        assert!(until_ms(kept.lasts) <= end_ms, "nothing was renewed");
    }
}

#[test]
fn a_grant_that_is_lost_before_it_is_answered_gives_no_time() {
    let (world, engine) = scripted();
    let [alice, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let mut waiting = Guarding::new(world, 1, &["x"], 15, true);
    let opened_ms = boottime_ms(world);
    assert!(matches!(waiting.asks(&Call::UNLIMITED).expect("it is answered")[..], [Done::Queued(_)]));
    world.pass(11);
    alice.renews(&held).expect("it is alice's");
    alice.releases(&held).expect("it is alice's");
    let mut renewals = 0;
    let server = engine.engine.clone();
    engine.follow(move |sends, _| match sends {
        Sends::Renew(_) if renewals == 0 => {
            renewals += 1;
            let old = server.term();
            server.elect();
            Fate::Lied(old)
        }
        Sends::Renew(_) => {
            world.pass(4);
            Fate::Answered
        }
        _ => Fate::Answered,
    });
    let committed = waiting.granted();
    assert!(until_ms(committed[0].lasts) <= opened_ms + 15_000, "its life key is gone since then");
}

#[test]
fn a_waiter_for_several_names_has_its_time_from_when_it_could_have_them() {
    let (world, _) = scripted();
    let [alice, bob, carol, _] = callers(world);
    alice.locks("y", 0).expect("y is free");
    let mut both = bob.waits_for(&["x", "y"]);
    let mut one = carol.waits_for(&["x"]);
    for _ in 0..4 {
        world.pass(3);
        assert!(one.looks().is_none(), "carol overtook bob, who waits for y");
    }
    alice.unlocks("y").expect("it is alice's");
    assert!(one.looks().is_none(), "bob could have both only now");
    world.pass(1);
    assert!(one.looks().is_none(), "bob has a second left");
    assert_eq!(both.looks().map(|held| held.len()), Some(2), "bob has both");
}

#[test]
fn what_takes_long_under_a_token_is_checked_again_at_its_end() {
    let (world, _) = scripted();
    let [alice, ..] = callers(world);
    let hold = alice.locks("x", 0).expect("x is free");
    let told = alice.acts_under("x", token(&hold).into(), &mut || world.pass(60));
    assert_eq!(told, None, "the token is current at both ends");
}

/// The engine doesn't answer a change before the time of its call is over.
#[test]
fn a_change_that_hangs_leaves_time_to_settle_it() {
    for fault in [Fault::Lost, Fault::AnswerLost] {
        let (world, engine) = scripted();
        let [alice, bob, ..] = callers(world);
        let mut is_first = true;
        engine.follow(move |sends, call| {
            if !is_make(&sends) || !std::mem::take(&mut is_first) {
                return Fate::Answered;
            }
            let left = call.left(&world.now()).expect("every request has a deadline");
            world.pass(left.as_secs().max(1));
            Fate::Goes(fault)
        });
        let hold = alice.locks("x", 0).expect("x is free");
        assert_eq!(bob.sees("x").slot.hold().map(token), Some(token(&hold)), "{fault:?}: it is alice's");
    }
}

#[test]
fn a_call_that_is_stopped_during_a_change_is_settled() {
    for fault in [Fault::Lost, Fault::AnswerLost, Fault::Late] {
        let (world, engine) = scripted();
        let [_, bob, ..] = callers(world);
        let (wakeup, now) = (Wakeup::new().expect("an eventfd"), world.now());
        let rope = wakeup.rope();
        engine.once(is_make, move || rope.ring(), Fate::Goes(fault));
        let fd = std::os::fd::AsFd::as_fd(&wakeup);
        let call = Call::within(Duration::from_secs(5), &now).stopped_by(Some(fd));
        let mut guarding = Guarding::new(world, 0, &["x"], 0, false);
        match guarding.asks(&call) {
            Ok(done) => assert!(matches!(done[..], [Done::Committed(_)]), "{fault:?}: {done:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Halted, "{fault:?}: {error}"),
        }
        drop(guarding);
        engine.engine.deliver();
        assert_eq!(bob.sees_owner("x"), None, "{fault:?}: nobody holds it");
    }
}

#[test]
fn a_hold_that_another_caller_removed_is_not_told_as_pruned_again() {
    let (world, engine) = scripted();
    let [alice, bob, carol, _] = callers(world);
    alice.locks("x", 5).expect("x is free");
    world.pass(6);
    let act = move || {
        carol.unlocks_if("x", Breaking::Stale, Condition::default()).expect("it is over");
    };
    engine.once(|sends| sends.writes("/who"), act, Fate::Answered);
    let committed = bob.asks(Target::Lock, "x", Intent::Lock(terms(0))).expect("it is free by now");
    assert_eq!(committed.broken, None, "carol broke it");
    let told: Vec<String> = bob.history().into_iter().map(|event| event.event).collect();
    assert_eq!(told, ["acquire", "stale-break", "acquire"], "every end is told once");
}

#[test]
fn a_renewal_that_is_answered_falsely_gives_no_time() {
    let (world, engine) = scripted();
    let mut guarding = Guarding::new(world, 0, &["x"], 10, false);
    let committed = guarding.granted().remove(0);
    let first_ms = until_ms(committed.lasts);
    world.pass(5);
    let server = engine.engine.clone();
    engine.once(is_renewal, move || server.elect(), Fate::Lied(Term(0)));
    let holds = [(name("x"), key(&committed))];
    let presence = guarding.presence.as_ref().expect("it has a session");
    assert!(presence.keep(&holds, &Call::UNLIMITED).is_err(), "the old deadline stands");
    world.pass(6);
    let late = presence.keep(&holds, &Call::UNLIMITED).expect("it is answered");
    assert!(late.each[0].is_err(), "it is over since {first_ms}");
    assert!(until_ms(late.lasts) <= first_ms, "nothing was renewed");
}

#[test]
fn a_renewal_counts_from_before_it_was_sent() {
    let (world, engine) = scripted();
    let mut guarding = Guarding::new(world, 0, &["x"], 10, false);
    let committed = guarding.granted().remove(0);
    let before_ms = boottime_ms(world);
    let holds = [(name("x"), key(&committed))];
    engine.once(is_renewal, move || world.pass(3), Fate::Answered);
    let kept = guarding.presence.as_ref().expect("it has a session").keep(&holds, &Call::UNLIMITED);
    let kept = kept.expect("it is answered");
    assert!(kept.each[0].is_ok(), "it was renewed");
    assert_eq!(until_ms(kept.lasts), before_ms + 10_000, "not from the answer");
}

#[test]
fn a_waiter_that_was_renewed_by_a_former_server_is_renewed_again_at_its_grant() {
    let (world, engine) = scripted();
    let [alice, ..] = callers(world);
    let held = alice.guards("x").expect("x is free");
    let mut waiting = Guarding::new(world, 1, &["x"], 15, true);
    assert!(matches!(waiting.asks(&Call::UNLIMITED).expect("it is answered")[..], [Done::Queued(_)]));
    alice.releases(&held).expect("it is alice's");
    world.pass(6);
    let server = engine.engine.clone();
    engine.once(|sends| sends.writes("/who"), move || server.elect(), Fate::Answered);
    let committed = waiting.granted();
    assert_eq!(until_ms(committed[0].lasts), boottime_ms(world) + 15_000, "the new server has renewed it");
}

#[test]
fn a_lease_of_a_lock_that_is_refused_after_all_is_closed() {
    let (world, engine) = scripted();
    let [alice, bob, ..] = callers(world);
    let refused = alice.asks_while(Target::Lock, "x", Intent::Lock(terms(600)), || {
        bob.locks("x", 0).expect("x is free");
    });
    assert!(matches!(refused, Err(Denial::Held(_))), "bob was faster: {refused:?}");
    assert_eq!(engine.engine.sessions(), [], "nothing needs a session");
}

#[test]
fn a_session_that_ends_before_every_grant_is_a_busy_store() {
    let (world, engine) = scripted();
    let [alice, ..] = callers(world);
    let server = engine.engine.clone();
    engine.follow(move |sends, _| {
        if is_make(&sends) {
            server.sessions().into_iter().for_each(|id| server.end_session(id));
            world.pass(1);
        }
        Fate::Answered
    });
    let error = alice.tries(Target::Lock, "x", Intent::Lock(terms(60))).expect_err("no session lasts");
    assert!(matches!(error.kind(), ErrorKind::Busy | ErrorKind::OutcomeUnknown), "{error}");
    engine.calm();
    assert_eq!(alice.sees_owner("x"), None, "nothing was granted");
}

#[test]
fn a_grant_is_answered_before_names_are_swept() {
    let (world, engine) = scripted();
    let [alice, ..] = callers(world);
    let until_sweep = |sent: u64| {
        let note = || Change { writes: vec![Write::Put(Key("note".into()), Vec::new(), None)], ..Change::default() };
        while engine.engine.revision().0 % 1024 != 1024 - sent {
            engine.engine.make(&note(), &Call::UNLIMITED).expect("it is written");
        }
    };
    let pages = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&pages);
    engine.follow(move |sends, _| {
        let is_page = |span: &Span| matches!(span, Span::Below(key) if key.0.ends_with("/n"));
        if matches!(sends, Sends::Look(spans) if spans.iter().any(is_page)) {
            seen.fetch_add(1, Ordering::SeqCst);
        }
        Fate::Answered
    });
    until_sweep(1);
    let held = alice.guards("x").expect("x is free");
    assert_eq!((engine.engine.revision().0 % 1024, pages.load(Ordering::SeqCst)), (0, 0), "its lease runs");
    until_sweep(1);
    alice.releases(&held).expect("it is alice's");
    assert!(pages.load(Ordering::SeqCst) > 0, "the release has time for that");
}

#[test]
fn a_waiter_that_only_rechecks_keeps_its_ticket() {
    let (world, _) = scripted();
    let [alice, ..] = callers(world);
    alice.locks("x", 0).expect("x is free");
    let mut waiting = Guarding::new(world, 1, &["x"], 0, true);
    let mut answers = waiting.asks(&Call::UNLIMITED).expect("it is answered");
    let Some(Done::Queued(queued)) = answers.pop() else { panic!("x is alice's") };
    for _ in 0..12 {
        world.pass(5);
        let name = &waiting.names[0];
        assert!(!world.store(1).needs_recheck(name, &queued, &Call::UNLIMITED), "nothing has happened");
    }
    assert_eq!(alice.sees("x").waiting, 1, "its session would have ended after 15 s");
}
