//! Leases that aren't revived: what a guard does when one ends before it was renewed.

use lokt_core::guard::{Action, Guard, GuardConfig, KILL_AFTER_MS, LOST, OnLost, Warning};

use super::LOOK_MS;
use super::tables::{KEPT, TICK, ended, failed, looked, renewed};

const THREE_SECONDS: GuardConfig =
    GuardConfig { ttl_sec: Some(3), on_lost: OnLost::Stop, until_all: false, look_ms: Some(LOOK_MS) };

/// A guard of one lease of three seconds, renewed every second.
fn guard(on_lost: OnLost) -> Guard {
    Guard::new(GuardConfig { on_lost, ..THREE_SECONDS }, &[0], 0).renewing_every(1_000).ending_for_good(&[0])
}

fn expired(stops: bool) -> Action {
    Action::Warn(Warning::Expired { hold: 0, stops })
}

#[test]
fn the_command_is_stopped_at_the_end_of_the_lease_even_while_a_renewal_is_under_way() {
    let mut guard = guard(OnLost::Stop);
    assert_eq!(guard.step(LOOK_MS, TICK), [Action::Renew(0)], "it is time");
    assert_eq!(guard.wake_at(), Some(3_000), "the end is awaited, whatever becomes of the renewal");
    assert_eq!(guard.step(2_999, TICK), [], "there is a millisecond left");
    assert_eq!(guard.step(3_000, TICK), [Action::Terminate, expired(true)], "not a moment later");
    assert_eq!(guard.wake_at(), Some(3_000 + KILL_AFTER_MS), "it is killed if it must be");
    assert_eq!(guard.step(3_100, renewed(0, 1_000, KEPT)), [], "too late");
    assert_eq!(guard.step(3_200, ended(0)), [Action::Finish(LOST)], "what was lost isn't released as if it were ours");
}

#[test]
fn a_command_that_is_not_to_be_stopped_waits_for_what_a_renewal_says() {
    for on_lost in [OnLost::Fail, OnLost::Warn] {
        let mut guard = guard(on_lost);
        assert_eq!(guard.step(LOOK_MS, TICK), [Action::Renew(0)], "it is time");
        assert_eq!(guard.step(3_500, TICK), [], "the renewal may have been in time");
        assert_eq!(guard.step(3_600, renewed(0, 1_000, KEPT))[..1], [Action::Renew(0)], "it was");
        let actions = guard.step(3_900, renewed(0, 3_600, failed()));
        assert!(!actions.contains(&expired(false)), "the lease is that of the renewal before: {actions:?}");
        let actions = guard.step(4_000, TICK);
        assert!(actions.contains(&expired(false)), "and that is over now: {actions:?}");
    }
}

#[test]
fn whoever_could_not_renew_loses_the_lease_at_its_end_and_success_with_it() {
    for (on_lost, code) in [(OnLost::Fail, LOST), (OnLost::Warn, 0)] {
        let mut guard = guard(on_lost);
        assert_eq!(guard.step(LOOK_MS, TICK), [Action::Renew(0)], "it is time");
        guard.step(2_900, renewed(0, 1_000, failed()));
        guard.step(2_900, looked(0, KEPT));
        assert_eq!(guard.wake_at(), Some(3_000), "the end comes before the next try");
        assert_eq!(guard.step(3_000, TICK), [expired(false)], "it is over");
        assert_eq!(guard.wake_at(), None, "what is lost isn't renewed");
        assert_eq!(guard.step(9_000, ended(0)), [Action::Finish(code)], "{on_lost:?}");
    }
}

#[test]
fn a_renewal_moves_the_end() {
    let mut guard = guard(OnLost::Stop);
    assert_eq!(guard.step(LOOK_MS, TICK), [Action::Renew(0)], "it is time");
    guard.step(1_010, renewed(0, 1_000, KEPT));
    guard.step(1_010, looked(0, KEPT));
    assert_eq!(guard.step(2_000, TICK), [Action::Renew(0)], "it is time again");
    assert_eq!(guard.step(3_999, TICK), [], "three seconds from when the renewal began");
    assert_eq!(guard.step(4_000, TICK), [Action::Terminate, expired(true)], "then it is over");
}

#[test]
fn a_guard_that_was_asleep_at_the_end_learns_of_it_when_it_wakes() {
    let mut guard = guard(OnLost::Fail);
    let actions = guard.step(90_000, TICK);
    assert_eq!(actions, [expired(false)], "nothing is renewed that is over");
}
