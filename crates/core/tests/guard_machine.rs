//! What a guard does next: first the tables, then every order of events, then long random histories.

mod common {
    pub(crate) mod holds;
}
/// The figures of docs/guarantees.md. The testkit depends on this crate, so its file is included.
#[path = "../../testkit/src/tally.rs"]
#[expect(dead_code, unreachable_pub, reason = "it has more than properties need, and others use it, too")]
mod tally;
mod guarded {
    mod ahead;
    pub(crate) mod books;
    mod endings;
    mod firm;
    pub(crate) mod orders;
    mod tables;

    use lokt_core::denial::Holder;
    use lokt_core::guard::Event;
    use lokt_core::liveness::Liveness;
    use lokt_core::time::{Elapsed, Lease};

    /// How often the guards of these tests look.
    pub(crate) const LOOK_MS: u64 = 1_000;
    pub(crate) const TERM: Event = Event::Signal { number: 15, ends: true, from_terminal: false };
    pub(crate) const CTRL_C: Event = Event::Signal { number: 2, ends: true, from_terminal: true };
    pub(crate) const USR1: Event = Event::Signal { number: 10, ends: false, from_terminal: false };

    /// Mallory, who has our lock now.
    pub(crate) fn holder() -> Box<Holder> {
        let elapsed = Elapsed { process: Lease::Endless, owner: Lease::Absent };
        Box::new(Holder { hold: super::common::holds::stored("mallory"), liveness: Liveness::Alive, elapsed })
    }
}

use guarded::LOOK_MS;
use guarded::books::{Command, Verdict, Watched};
use guarded::orders::{bring_to_an_end, explore, possible};
use lokt_core::guard::{Event, GuardConfig, OnLost};
use proptest::prelude::*;

const EVERY_ON_LOST: [OnLost; 3] = [OnLost::Fail, OnLost::Warn, OnLost::Stop];

fn explore_all(ttl_sec: Option<u64>, granted_ms: &[u64], depth: usize) -> usize {
    let config = EVERY_ON_LOST.into_iter().flat_map(|on_lost| {
        [false, true].map(|until_all| GuardConfig { ttl_sec, on_lost, until_all, look_ms: Some(LOOK_MS) })
    });
    let now_ms = granted_ms.iter().copied().max().unwrap_or(0);
    config.map(|config| explore(config, Watched::new(config, granted_ms, now_ms), depth)).sum()
}

fn explore_ahead(lease_ms: u64, granted_ms: &[u64], depth: usize) -> usize {
    let config = |on_lost| GuardConfig { ttl_sec: None, on_lost, until_all: false, look_ms: Some(LOOK_MS) };
    let now_ms = granted_ms.iter().copied().max().unwrap_or(0);
    let start = |config| Watched::ahead(config, lease_ms, granted_ms, now_ms);
    EVERY_ON_LOST.into_iter().map(config).map(|config| explore(config, start(config), depth)).sum()
}

#[test]
fn one_hold_is_guarded_well_in_every_order_of_events() {
    for ttl_sec in [None, Some(1), Some(3)] {
        let guards = explore_all(ttl_sec, &[0], 9);
        assert!(guards > 1_000, "few different guards were tried: {guards}");
    }
}

#[test]
fn two_holds_are_guarded_well_in_every_order_of_events() {
    let guards = explore_all(Some(1), &[0, 200], 7);
    assert!(guards > 10_000, "few different guards were tried: {guards}");
}

#[test]
fn two_holds_of_the_same_moment_are_guarded_well_in_every_order_of_events() {
    let guards = explore_all(Some(2), &[0, 0], 7);
    assert!(guards > 10_000, "few different guards were tried: {guards}");
}

#[test]
fn a_command_never_runs_to_the_end_of_its_lease_whatever_the_order_of_events() {
    for lease_ms in [100, 400, 3_000, 30_000] {
        let guards = explore_ahead(lease_ms, &[0], 9);
        assert!(guards > 1_000, "few different guards were tried: {guards}");
    }
    let guards = explore_ahead(1_000, &[0, 200], 6);
    assert!(guards > 5_000, "few different guards were tried: {guards}");
}

#[test]
fn a_guard_without_a_hold_passes_on_signals_and_the_code_in_every_order_of_events() {
    for ttl_sec in [None, Some(1)] {
        explore_all(ttl_sec, &[], 5);
    }
}

/// One choice among what is possible.
#[derive(Debug, Clone)]
struct Choice {
    after_ms: u64,
    which: prop::sample::Index,
    /// The command may end, or the guard be told to; else time passes instead.
    may_end: bool,
}

fn any_choice() -> impl Strategy<Value = Choice> {
    let after_ms = prop_oneof![4 => Just(0_u64), 3 => 0..50_u64, 2 => 0..2_000_u64, 1 => 0..400_000_u64];
    let may_end = prop::bool::weighted(0.05);
    (after_ms, any::<prop::sample::Index>(), may_end).prop_map(|(after_ms, which, may_end)| Choice {
        after_ms,
        which,
        may_end,
    })
}

fn any_manners() -> impl Strategy<Value = GuardConfig> {
    let ttl_sec = prop::option::weighted(0.9, prop_oneof![1..=4_u64, 1..=600_u64]);
    (ttl_sec, prop::sample::select(EVERY_ON_LOST.to_vec()), any::<bool>())
        .prop_map(|(ttl_sec, on_lost, until_all)| GuardConfig { ttl_sec, on_lost, until_all, look_ms: Some(LOOK_MS) })
}

fn live_through(mut watched: Watched, choices: Vec<Choice>) -> Verdict {
    tally::count(tally::Trial::Case);
    for choice in choices {
        let (at, mut event) = choice.which.get(&possible(&watched)).clone();
        let lingers = matches!(watched.books.command, Command::Lingers(_));
        let ends = match event {
            Event::Ended(_) | Event::AllGone => true,
            Event::Signal { ends, .. } => ends && lingers,
            _ => false,
        };
        if ends && !choice.may_end {
            event = Event::Tick;
        }
        if let Event::Renewed { began_ms, .. } = &mut event {
            *began_ms += choice.after_ms / 2;
        }
        // What takes its time may come back long after the next tick was due.
        watched.step(at + choice.after_ms, &event)?;
    }
    bring_to_an_end(watched)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000.max(ProptestConfig::default().cases), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn holds_are_guarded_well_through_any_long_history(
        config in any_manners(),
        granted_ms in prop::collection::vec(0..400_u64, 0..=4),
        choices in prop::collection::vec(any_choice(), 0..200),
    ) {
        live_through(Watched::new(config, &granted_ms, 400), choices).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn no_long_history_lets_a_command_run_to_the_end_of_its_lease(
        on_lost in prop::sample::select(EVERY_ON_LOST.to_vec()),
        lease_ms in prop_oneof![100..2_000_u64, 100..=86_400_000_u64],
        granted_ms in prop::collection::vec(0..40_u64, 1..=2),
        choices in prop::collection::vec(any_choice(), 0..200),
    ) {
        let config = GuardConfig { ttl_sec: None, on_lost, until_all: false, look_ms: Some(LOOK_MS) };
        live_through(Watched::ahead(config, lease_ms, &granted_ms, 40), choices).map_err(TestCaseError::fail)?;
    }
}
