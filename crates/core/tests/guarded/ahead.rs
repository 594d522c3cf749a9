//! Leases to whose end no command runs: when it is told, when it is killed, and which renewals count.

use lokt_core::guard::{Action, Event, Guard, GuardConfig, KILL_SOON_MS, LOST, OnLost, Outcome, Warning};

use super::LOOK_MS;
use super::tables::{KEPT, TICK, ended, failed, looked, lost, released, renewed, says_lost};

/// A guard of one lease of three seconds.
fn guard(on_lost: OnLost) -> Guard {
    let config = GuardConfig { ttl_sec: None, on_lost, until_all: false, look_ms: Some(LOOK_MS) };
    Guard::new(config, &[0], 0).stopping_ahead(3_000, &[0])
}

fn expired(stops: bool) -> Action {
    Action::Warn(Warning::Expired { hold: 0, stops })
}

/// The same guard a second later, its first renewal under way.
fn renewing(on_lost: OnLost) -> Guard {
    let mut guard = guard(on_lost);
    assert_eq!(guard.wake_at(), Some(1_000), "a third of the lease");
    assert_eq!(guard.step(1_000, TICK), [Action::Renew(0)], "it is time");
    guard
}

#[test]
fn a_command_whose_lease_cannot_be_renewed_is_told_at_two_thirds_and_killed_at_nine_tenths() {
    let mut guard = renewing(OnLost::Stop);
    let mut now = 1_000;
    while now < 2_000 {
        let said = guard.step(now, renewed(0, now, failed()));
        assert!(matches!(said[..], [Action::Warn(Warning::RenewalFailed { .. })]), "it is tried again: {said:?}");
        now = guard.wake_at().expect("it is tried again");
        if now < 2_000 {
            assert_eq!(guard.step(now, TICK), [Action::Renew(0)], "four times an interval");
        }
    }
    assert_eq!((now, guard.step(now, TICK)), (2_000, vec![Action::Terminate, expired(true)]));
    assert_eq!(guard.wake_at(), Some(2_700), "it is its own until then");
    assert_eq!(guard.step(2_700, TICK), [Action::Kill]);
    assert_eq!(guard.step(2_750, Event::Ended(lokt_core::guard::Ended::Signal(9))), [Action::Finish(LOST)]);
}

#[test]
fn a_renewal_that_hangs_is_no_renewal() {
    let mut guard = renewing(OnLost::Stop);
    assert_eq!(guard.wake_at(), Some(2_000), "the command isn't kept waiting by it");
    assert_eq!(guard.step(2_000, TICK), [Action::Terminate, expired(true)]);
    assert_eq!(guard.step(2_100, renewed(0, 1_000, KEPT)), [], "it was told already");
    assert_eq!(guard.step(2_700, TICK), [Action::Kill]);
}

#[test]
fn a_good_renewal_counts_from_its_start() {
    let mut guard = renewing(OnLost::Stop);
    assert_eq!(guard.step(1_900, renewed(0, 1_000, KEPT)), [], "in time");
    assert_eq!(guard.step(2_000, TICK), [Action::Renew(0)], "the next one");
    assert_eq!(guard.wake_at(), Some(3_000), "two thirds of a lease after one second");
}

#[test]
fn a_renewal_that_comes_back_after_the_end_is_lost_whatever_it_says() {
    for (on_lost, stops) in [(OnLost::Stop, true), (OnLost::Fail, false), (OnLost::Warn, false)] {
        let mut late = renewing(on_lost);
        let said = late.step(3_000, renewed(0, 1_000, KEPT));
        let expected = if stops { vec![Action::Terminate, expired(true), Action::Kill] } else { vec![expired(false)] };
        assert_eq!(said, expected, "{on_lost:?}: by our clock");
        let mut says_so = renewing(on_lost);
        let said = says_so.step(1_500, renewed(0, 1_000, Outcome::Kept { late_ms: Some(1) }));
        let expected = if stops { vec![Action::Terminate, expired(true)] } else { vec![expired(false)] };
        assert_eq!(said, expected, "{on_lost:?}: by its own word");
    }
}

#[test]
fn a_guard_that_slept_through_it_all_kills_at_once() {
    let mut guard = guard(OnLost::Stop);
    assert_eq!(guard.step(90_000, TICK), [Action::Terminate, expired(true), Action::Kill], "every moment counts");
    assert_eq!(guard.step(90_001, TICK), [], "once");
}

#[test]
fn what_somebody_ended_is_killed_after_five_seconds_but_before_the_end_and_soon_if_somebody_has_it() {
    let gone = Action::Warn(Warning::Lost { hold: 0, holder: None, stops: true });
    let config = GuardConfig { ttl_sec: None, on_lost: OnLost::Stop, until_all: false, look_ms: Some(LOOK_MS) };
    let long = || Guard::new(config, &[0], 0).stopping_ahead(30_000, &[0]);
    let short = || guard(OnLost::Stop);
    for (mut guard, by, warning, kill) in [
        (long(), looked(0, Outcome::Lost(None)), gone.clone(), 6_000),
        (long(), looked(0, lost()), says_lost(0, true), 1_000 + KILL_SOON_MS),
        (short(), renewed(0, 1_000, Outcome::Lost(None)), gone, 2_700),
        (short(), renewed(0, 1_000, lost()), says_lost(0, true), 1_000 + KILL_SOON_MS),
    ] {
        guard.step(1_000, TICK);
        assert_eq!(guard.step(1_000, by), [Action::Terminate, warning], "at once");
        assert_eq!(guard.wake_at(), Some(kill), "{guard:?}");
        assert_eq!(guard.step(kill, TICK), [Action::Kill]);
    }
}

#[test]
fn whoever_does_not_stop_the_command_loses_the_lease_at_its_end() {
    for (on_lost, code) in [(OnLost::Fail, LOST), (OnLost::Warn, 0)] {
        let mut guard = renewing(on_lost);
        guard.step(2_900, renewed(0, 1_000, failed()));
        guard.step(2_900, looked(0, KEPT));
        assert_eq!(guard.wake_at(), Some(3_000), "not a moment before");
        assert_eq!(guard.step(3_000, TICK), [expired(false)], "{on_lost:?}: the command goes on");
        assert_eq!(guard.step(99_000, ended(0)), [Action::Finish(code)], "{on_lost:?}");
    }
}

#[test]
fn after_the_command_a_renewal_is_awaited_to_the_end_of_the_lease_and_the_lease_given_back() {
    let mut guard = renewing(OnLost::Stop);
    assert_eq!(guard.step(1_100, ended(0)), [], "it is under way");
    assert_eq!(guard.wake_at(), Some(3_000), "but nobody waits for ever");
    assert_eq!(guard.step(3_000, TICK), [Action::Release(0)], "the command ended in time");
    assert_eq!(guard.step(3_001, released(0, KEPT)), [Action::Finish(0)]);

    let mut came_back = renewing(OnLost::Stop);
    came_back.step(1_100, ended(3));
    assert_eq!(came_back.step(3_500, renewed(0, 1_000, KEPT)), [Action::Release(0)]);
    assert_eq!(came_back.step(3_501, released(0, KEPT)), [Action::Finish(3)], "what it did, it did in time");
}

#[test]
fn an_interval_of_ones_own_is_possible() {
    let config = GuardConfig { ttl_sec: None, on_lost: OnLost::Stop, until_all: false, look_ms: Some(LOOK_MS) };
    let guard = Guard::new(config, &[5], 5).stopping_ahead(30_000, &[5]).renewing_every(400);
    assert_eq!(guard.wake_at(), Some(405));
}
