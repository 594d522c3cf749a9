//! The promises over random histories: several owners, processes, machines and boots act on one slot, clocks step and sleep, others
//! edit the file, and every answer is held against books that are kept apart from it.
//!
//! The promises are checked by name in `sim/world.rs` and `sim/act.rs`: one-holder, token-order, no-lost-thief, whole-records,
//! crash-frees, child-counts, in-order, frozen-means-frozen, no-clock-trust.

mod common {
    pub(crate) mod any_steps;
    pub(crate) mod arbitrary;
}
mod sim;
/// The figures of docs/guarantees.md. The testkit depends on this crate, so its file is included.
#[path = "../../testkit/src/tally.rs"]
#[expect(dead_code, unreachable_pub, reason = "it has more than properties need, and others use it, too")]
mod tally;

use std::env;

use common::any_steps::any_steps;
use common::arbitrary::{any_hold, any_time};
use jiff::SignedDuration;
use lokt_core::decide::{
    Breaking, Cause, Condition, Decision, Facts, Freeze, HoldKey, Intent, Line, Policy, Presented, ProcessHolder, Slot,
    Terms, decide,
};
use lokt_core::hold::{Fence, Hold, Identity, LockId, Part, Parts, PulseRef};
use lokt_core::liveness::Liveness;
use lokt_core::pulse::ProcessRef;
use lokt_core::record::{self, Parsed};
use lokt_core::time::{Elapsed, Moment, plus_millis, plus_seconds};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use sim::steps::Step;
use sim::world::World;

/// Shrunk failures are kept here and tried first.
const REGRESSIONS: &str = "tests/decide_properties.proptest-regressions";

/// That number of cases, unless `PROPTEST_CASES` asks for another: the default has read it.
#[expect(clippy::disallowed_methods, reason = "a test is asked for its number of cases by the environment")]
fn config(cases: u32) -> ProptestConfig {
    let persistence = FileFailurePersistence::Direct(REGRESSIONS);
    let default = ProptestConfig::default();
    let cases = if env::var_os("PROPTEST_CASES").is_some() { default.cases } else { cases };
    ProptestConfig { cases, failure_persistence: Some(Box::new(persistence)), ..default }
}

fn run(shared: bool, steps: &[Step]) {
    tally::count(tally::Trial::Case);
    let mut world = World::new(shared);
    for step in steps {
        world.run(step);
    }
}

/// Somebody who asks about a stored hold at some moment.
#[derive(Debug, Clone)]
struct Question {
    hold: Hold,
    me: Identity,
    liveness: Liveness,
    now: Moment,
    ahead: usize,
    intent: Intent,
}

impl Question {
    fn answer(&self, freeze: Option<Freeze<'_>>) -> Decision {
        self.answer_under(Policy::NAMED, freeze)
    }

    fn answer_under(&self, policy: Policy, freeze: Option<Freeze<'_>>) -> Decision {
        let fresh_id = LockId::from_bits(0xf2);
        let facts = Facts {
            slot: Slot::Held(&self.hold),
            liveness: self.liveness,
            elapsed: Elapsed::of(&self.hold, &self.now, &self.me),
            frozen: freeze,
            line: Line { ahead: self.ahead },
            fresh_id: &fresh_id,
            now: self.now,
        };
        let decision = decide(&self.intent, facts, &self.me, &policy).with_token(fresh_token());
        match &self.intent {
            Intent::Guard(_, bearer) if bearer.has_pulse => decision.with_pulse(NEW_PULSE),
            _ => decision,
        }
    }

    fn hold_lives(&self) -> bool {
        let elapsed = Elapsed::of(&self.hold, &self.now, &self.me);
        let process = self.liveness != Liveness::Gone && elapsed.process.runs();
        process || elapsed.owner.runs()
    }
}

/// The pulse of a guard that asks.
const NEW_PULSE: PulseRef = PulseRef { number: 1, dev: 2, ino: 3 };

/// No hold of these tests has it.
fn fresh_token() -> Fence {
    Fence::new(Fence::LIMIT - 1).expect("the last token is one")
}

fn any_liveness() -> impl Strategy<Value = Liveness> {
    prop::sample::select(vec![Liveness::Alive, Liveness::Orphan, Liveness::Gone, Liveness::Unknown])
}

fn any_moment() -> impl Strategy<Value = Moment> {
    (any_time(), any::<u64>(), any::<u64>()).prop_map(|(wall, monotonic_ms, boottime_ms)| Moment {
        wall,
        monotonic_ms,
        boottime_ms,
    })
}

/// Somebody, with even odds of being the holder's owner or on its boot.
fn any_asker(hold: &Hold) -> impl Strategy<Value = Identity> + use<> {
    let (owner, boot_id, host) = (hold.owner.clone(), hold.boot_id.clone(), hold.host.clone());
    (any::<[bool; 4]>(), any::<[i64; 2]>()).prop_map(move |([own, here, clocks, local], [pid, pid_start])| Identity {
        owner: if own { owner.clone() } else { format!("{owner}'s neighbour") },
        host: host.clone(),
        pid,
        pid_start,
        agent_id: String::new(),
        boot_id: if here { boot_id.clone() } else { Some("another boot".into()) },
        pid_ns: Some(1),
        boot_clocks: clocks,
        fs: local.then_some(0xef53),
    })
}

fn any_intent(hold: &Hold) -> impl Strategy<Value = Intent> + use<> {
    let grip = HoldKey { lock_id: hold.lock_id.clone(), token: hold.token, pulse: hold.pulse };
    let bound = ProcessRef { pid: hold.pid, start: hold.pid_start };
    let owner = hold.owner.clone();
    let terms = any::<Option<u64>>().prop_map(|ttl_sec| Terms { ttl_sec, reason: None });
    let (again, token) = (terms.clone(), hold.token.map_or(0, Fence::get));
    prop_oneof![
        terms.clone().prop_map(Intent::Lock),
        terms.clone().prop_map(Intent::TakeOver),
        (terms, any::<bool>()).prop_map(move |(terms, has_pulse)| {
            Intent::Guard(terms, ProcessHolder { process: bound, has_pulse, inside: None })
        }),
        Just(Intent::Renew(grip.clone())),
        Just(Intent::Release(grip)),
        prop::sample::select(vec![Breaking::No, Breaking::Stale, Breaking::Force])
            .prop_map(|breaking| Intent::Unlock(breaking, Condition::default())),
        Just(Intent::UnlockFor(owner)),
        Just(Intent::Prune),
        again.prop_map(Intent::Freeze),
        any::<bool>().prop_map(|force| Intent::Unfreeze { force }),
        prop_oneof![Just(token), any::<u64>()].prop_map(|token| Intent::Check(token.into())),
    ]
}

/// Any question about any hold, however odd its numbers.
fn any_question() -> impl Strategy<Value = Question> {
    let hold = (any_hold(), any::<bool>()).prop_map(|(mut hold, edited)| {
        hold.token = hold.token.filter(|token| *token < fresh_token());
        if let Some(parts) = &mut hold.parts {
            parts.edited = edited;
        }
        hold
    });
    hold.prop_flat_map(|hold| {
        let (me, intent) = (any_asker(&hold), any_intent(&hold));
        (Just(hold), me, any_liveness(), any_moment(), 0_usize..2, intent)
    })
    .prop_map(|(hold, me, liveness, now, ahead, intent)| {
        tally::count(tally::Trial::Case);
        Question { hold, me, liveness, now, ahead, intent }
    })
}

/// A question about a hold of this boot whose parts all have their clock readings: the wall clock has no say.
fn any_question_on_one_boot() -> impl Strategy<Value = Question> {
    let part = || {
        prop::option::of((prop::option::of(1_u64..200), 0_u64..200_000, any_time()))
            .prop_map(|part| part.map(|(ttl_sec, clock_ms, since)| Part { since, ttl_sec, clock_ms: Some(clock_ms) }))
    };
    (any_question(), part(), part(), 200_000_u64..400_000, 200_000_u64..400_000, -2_000_000_000_i64..4_000_000_000)
        .prop_filter_map("a hold has a part", |(question, process, owner, monotonic_ms, boottime_ms, second)| {
            let parts = Parts { process, owner, edited: false };
            parts.process.as_ref().or(parts.owner.as_ref())?;
            let wall = jiff::Timestamp::from_second(second).ok()?;
            let me = Identity { boot_id: question.hold.boot_id.clone(), boot_clocks: true, ..question.me };
            let hold = Hold { parts: Some(parts), ..question.hold };
            let mut intent = question.intent;
            if let Intent::Lock(terms) | Intent::TakeOver(terms) | Intent::Guard(terms, _) | Intent::Freeze(terms) =
                &mut intent
            {
                // What ends beyond the end of time ends there, wherever the wall stands.
                terms.ttl_sec = terms.ttl_sec.map(|ttl_sec| ttl_sec % 1_000_000);
            }
            Some(Question { hold, me, intent, now: Moment { wall, monotonic_ms, boottime_ms }, ..question })
        })
}

/// What a decision says once every wall-clock time is taken out of it.
fn timeless(decision: &Decision) -> String {
    let Decision::Commit { next: Some(next), cause, broken, .. } = decision else {
        return match decision {
            // The stored hold comes back with its times, which are the same whoever asks.
            Decision::Deny(denial) => format!("{denial:?}"),
            other => format!("{other:?}"),
        };
    };
    let bare = |part: &Part| (part.ttl_sec, part.clock_ms);
    let parts = next.parts.as_ref().map(|parts| (parts.process.as_ref().map(bare), parts.owner.as_ref().map(bare)));
    let left = next.expires_at.zip(next.acquired).map(|(end, begin)| end.duration_since(begin));
    format!("{cause:?} {broken:?} {} {:?} {parts:?} {} {left:?}", next.lock_id, next.token, next.ttl_sec)
}

proptest! {
    #![proptest_config(config(10_000))]

    #[test]
    fn every_promise_holds_on_one_machine(steps in any_steps()) {
        run(false, &steps);
    }

    #[test]
    fn every_promise_holds_on_machines_that_share_a_disk(steps in any_steps()) {
        run(true, &steps);
    }

    /// Extreme numbers, foreign boots, edited records: nothing panics, and what is to be stored reads back.
    #[test]
    fn every_question_has_an_answer_that_can_be_written_down(question in any_question()) {
        if let Decision::Commit { next: Some(next), .. } = question.answer(None) {
            prop_assert_eq!(record::parse(&record::encode(&next)), Parsed::Hold(next));
        }
    }

    /// The decision goes by what it was told of the leases. A reader of the record measures the same, to the last digit.
    #[test]
    fn the_top_level_ends_when_a_reader_of_the_parts_says_so(question in any_question()) {
        if let Decision::Commit { next: Some(next), .. } = question.answer(None) {
            let now = question.now.wall;
            let left_ms = Elapsed::of(&next, &question.now, &question.me).left_ms();
            let end = left_ms.map(|ms| if ms % 1000 == 0 { plus_seconds(now, ms / 1000) } else { plus_millis(now, ms) });
            prop_assert_eq!(next.expires_at, end);
            let process = next.parts.as_ref().and_then(|parts| parts.process.as_ref());
            let heartbeat_sec = process.filter(|_| next.has_foreign_process()).and_then(|part| part.ttl_sec);
            let ttl_sec = left_ms.map_or(0, |ms| ms.div_ceil(1000).max(heartbeat_sec.unwrap_or(0)).max(1));
            prop_assert_eq!(next.ttl_sec, i64::try_from(ttl_sec).unwrap_or(i64::MAX));
        }
    }

    #[test]
    fn no_clock_trust_a_wall_step_changes_no_decision(
        question in any_question_on_one_boot(),
        step_ms in -3_600_000_i64..=3_600_000,
    ) {
        let wall = question.now.wall.checked_add(SignedDuration::from_millis(step_ms)).expect("far from the ends of time");
        let stepped = Question { now: Moment { wall, ..question.now }, ..question.clone() };
        prop_assert_eq!(timeless(&stepped.answer(None)), timeless(&question.answer(None)), "no-clock-trust");
    }

    #[test]
    fn frozen_means_frozen_whatever_is_stored(question in any_question()) {
        let decision = question.answer(Some(Freeze::Unreadable));
        if let Decision::Commit { next, cause, .. } = &decision {
            prop_assert_ne!(*cause, Cause::Acquire, "frozen-means-frozen: a new hold");
            if let (Some(next), Intent::Lock(_) | Intent::TakeOver(_) | Intent::Guard(..)) = (next, &question.intent) {
                prop_assert!(question.hold_lives(), "frozen-means-frozen: an expired hold was revived");
                prop_assert_eq!(next.pulse.filter(|_| next.pulse != question.hold.pulse), None, "frozen-means-frozen: a new guard");
            }
        }
    }

    /// A freeze is its owner's until it is over, and nobody can tell it from a freeze by anything that belongs to a hold.
    #[test]
    fn frozen_means_frozen_only_its_owner_or_force_changes_a_freeze(question in any_question(), force in any::<bool>()) {
        let expired = Elapsed::of(&question.hold, &question.now, &question.me).is_expired();
        let mine = question.hold.owner == question.me.owner;
        let freeze = Question { intent: Intent::Freeze(Terms::default()), ..question.clone() }.answer(None);
        match &freeze {
            Decision::Commit { next: Some(next), cause: Cause::Freeze, broken, .. } => {
                prop_assert!(mine || expired, "frozen-means-frozen: another's freeze was replaced");
                prop_assert_eq!(broken.is_some(), expired, "what was over is told");
                prop_assert_eq!((next.token, next.pulse), (None, None), "a freeze has neither");
                prop_assert_eq!(next.lock_id == question.hold.lock_id, !expired && !question.hold.lock_id.is_empty());
            }
            other => prop_assert!(!mine && !expired, "refused: {:?}", other),
        }
        let unfreeze = Question { intent: Intent::Unfreeze { force }, ..question }.answer(None);
        prop_assert_eq!(matches!(unfreeze, Decision::Commit { next: None, .. }), mine || force, "{:?}", unfreeze);
    }

    /// all-or-nothing: a token is good exactly while the hold that has it lives.
    #[test]
    fn a_stale_token_is_never_good(question in any_question(), named in any::<u64>()) {
        let stored = question.hold.token.map(Fence::get);
        for named in [named, stored.unwrap_or(0)] {
            let good = stored == Some(named) && question.hold_lives();
            let decision = Question { intent: Intent::Check(named.into()), ..question.clone() }.answer(None);
            prop_assert_eq!(matches!(decision, Decision::Inside), good, "{:?}", decision);
            prop_assert!(!matches!(decision, Decision::Commit { .. }), "a check changes nothing");
            // With the lock id that is stored it is the same question, with any other never good.
            for (lock_id, same) in [
                (question.hold.lock_id.clone(), !question.hold.lock_id.is_empty()),
                (LockId::from_text(format!("{}0", question.hold.lock_id)), false),
                (LockId::default(), false),
            ] {
                let presented = Presented { token: named, lock_id: Some(lock_id) };
                let decision = Question { intent: Intent::Check(presented), ..question.clone() }.answer(None);
                prop_assert_eq!(matches!(decision, Decision::Inside), good && same, "{:?}", decision);
            }
        }
    }

    /// Whatever the protocol: what lives is nobody's to take over, and what is taken over is told.
    #[test]
    fn only_what_is_over_is_taken_over(question in any_question(), policy in 0_usize..3) {
        let policy = [Policy::NAMED, Policy::CLAIMS, Policy::LEASES][policy];
        let lives = question.hold_lives();
        let asked = Question { intent: Intent::TakeOver(Terms::default()), ahead: 0, ..question };
        match asked.answer_under(policy, None) {
            Decision::Commit { next: Some(next), cause: Cause::Acquire, broken: Some(_), .. } => {
                prop_assert!(!lives, "no-lost-thief: a live hold was taken over");
                prop_assert_eq!(next.token, Some(fresh_token()), "token-order: under a token that was given before");
                prop_assert_ne!(next.lock_id, asked.hold.lock_id);
            }
            other => prop_assert!(lives, "refused: {:?}", other),
        }
    }

    #[test]
    fn no_lost_thief_who_holds_something_else_changes_nothing(question in any_question(), other in 0_usize..4) {
        let stored = &question.hold;
        let mut grip = HoldKey { lock_id: stored.lock_id.clone(), token: stored.token, pulse: stored.pulse };
        match other {
            0 => grip.lock_id = LockId::from_text(format!("{}0", stored.lock_id)),
            1 => grip.token = Some(fresh_token()),
            2 => grip.pulse = Some(PulseRef { number: stored.pulse.map_or(0, |pulse| pulse.number ^ 1), dev: 0, ino: 0 }),
            _ => grip.token = if stored.token.is_some() { None } else { Some(fresh_token()) },
        }
        for intent in [Intent::Renew(grip.clone()), Intent::Release(grip)] {
            let decision = Question { intent, ..question.clone() }.answer(None);
            prop_assert!(matches!(decision, Decision::Deny(_)), "no-lost-thief: {:?}", decision);
        }
    }
}
