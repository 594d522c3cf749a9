//! What a guard does while its command runs, one situation at a time: renewals, losses, and what is done about them.

use lokt_core::guard::{
    Action, Ended, Event, Guard, GuardConfig, KILL_AFTER_MS, LOST, OnLost, Outcome, Warning, renewal_interval_ms,
};

use super::{LOOK_MS, TERM, USR1, holder};

pub(super) const KEPT: Outcome = Outcome::Kept { late_ms: None };
pub(super) const FIVE_MINUTES: GuardConfig =
    GuardConfig { ttl_sec: Some(300), on_lost: OnLost::Fail, until_all: false, look_ms: Some(LOOK_MS) };
const ENDLESS: GuardConfig = GuardConfig { ttl_sec: None, ..FIVE_MINUTES };
/// When a lease of five minutes that began at 0 is to be renewed.
pub(super) const HALF_MS: u64 = 150_000;
pub(super) const TICK: Event = Event::Tick;

pub(super) fn lost() -> Outcome {
    Outcome::Lost(Some(holder()))
}

pub(super) fn failed() -> Outcome {
    Outcome::Failed("the disk is full".into())
}

pub(super) fn renewed(hold: usize, began_ms: u64, outcome: Outcome) -> Event {
    Event::Renewed { hold, began_ms, outcome }
}

pub(super) fn looked(hold: usize, outcome: Outcome) -> Event {
    Event::Looked { hold, outcome }
}

pub(super) fn released(hold: usize, outcome: Outcome) -> Event {
    Event::Released { hold, outcome }
}

pub(super) fn ended(code: u8) -> Event {
    Event::Ended(Ended::Code(code))
}

pub(super) fn says_lost(hold: usize, stops: bool) -> Action {
    Action::Warn(Warning::Lost { hold, holder: Some(holder()), stops })
}

/// A guard of so many holds that were all granted at 0.
pub(super) fn guard(config: GuardConfig, holds: usize) -> Guard {
    Guard::new(config, &vec![0; holds], 0)
}

/// Ticks whenever the guard asks for it until `until_ms`; looks find the hold in place. What else it did, and when.
pub(super) fn tick_until(guard: &mut Guard, until_ms: u64) -> Vec<(u64, Action)> {
    let mut done = Vec::new();
    while let Some(at) = guard.wake_at().filter(|at| *at <= until_ms) {
        for action in guard.step(at, TICK) {
            if let Action::Look(hold) = action {
                assert_eq!(guard.step(at, looked(hold, KEPT)), [], "a good look calls for nothing");
            } else {
                done.push((at, action));
            }
        }
        assert!(guard.wake_at().is_none_or(|next| next > at), "what was due is done, so the next tick lies ahead");
    }
    done
}

#[test]
fn a_lease_is_renewed_when_half_of_it_is_over_but_not_more_often_than_twice_a_second() {
    let cases = [(1, 500), (2, 1_000), (3, 1_500), (60, 30_000), (300, 150_000), (0, 500), (u64::MAX, u64::MAX / 2)];
    for (ttl_sec, interval_ms) in cases {
        assert_eq!(renewal_interval_ms(ttl_sec), interval_ms, "the interval is half the lease of {ttl_sec} s");
    }
    for (ttl_sec, at) in [(1, 500), (300, 150_000)] {
        let mut guard = guard(GuardConfig { ttl_sec: Some(ttl_sec), ..FIVE_MINUTES }, 1);
        assert_eq!(tick_until(&mut guard, at), [(at, Action::Renew(0))], "{ttl_sec} s are renewed at {at} ms");
    }
}

#[test]
fn another_interval_between_renewals_holds_for_the_first_and_for_all_after_it() {
    let mut guard = Guard::new(FIVE_MINUTES, &[1_000], 9_000).renewing_every(100_000);
    assert_eq!(tick_until(&mut guard, 120_000), [(101_000, Action::Renew(0))], "the first");
    guard.step(120_000, renewed(0, 101_000, KEPT));
    assert_eq!(tick_until(&mut guard, 220_000), [(201_000, Action::Renew(0))], "the next");
    guard.step(220_000, renewed(0, 201_000, Outcome::Failed(String::new())));
    assert_eq!(
        tick_until(&mut guard, 260_000),
        [(245_000, Action::Renew(0))],
        "after one that failed, a quarter of it"
    );
    let mut endless = Guard::new(ENDLESS, &[0], 0).renewing_every(100_000);
    assert_eq!(tick_until(&mut endless, 400_000), [], "what has no lease has no interval");
}

#[test]
fn the_first_lease_began_when_the_lock_was_asked_for_not_when_the_guard_began() {
    let mut guard = Guard::new(FIVE_MINUTES, &[1_000], 9_000);
    assert_eq!(tick_until(&mut guard, 200_000), [(151_000, Action::Renew(0))]);
}

#[test]
fn the_next_renewal_is_counted_from_before_the_write() {
    let mut guard = guard(FIVE_MINUTES, 1);
    assert_eq!(tick_until(&mut guard, HALF_MS), [(HALF_MS, Action::Renew(0))]);
    assert_eq!(guard.step(HALF_MS + 4_000, renewed(0, HALF_MS + 10, KEPT)), [Action::Look(0)]);
    let next = 2 * HALF_MS + 10;
    assert_eq!(tick_until(&mut guard, next), [(next, Action::Renew(0))], "a slow write doesn't move the next renewal");
}

#[test]
fn a_renewal_that_took_longer_than_the_interval_is_followed_by_another_at_once() {
    let mut guard = guard(GuardConfig { ttl_sec: Some(1), ..FIVE_MINUTES }, 1);
    assert_eq!(guard.step(500, TICK), [Action::Renew(0)]);
    assert_eq!(guard.step(900, TICK), [], "one renewal at a time");
    assert_eq!(guard.step(1_200, renewed(0, 500, KEPT)), [Action::Renew(0)]);
}

#[test]
fn a_guard_that_is_told_of_a_loss_never_looks() {
    let mut endless = guard(GuardConfig { look_ms: None, ..ENDLESS }, 1);
    assert_eq!((endless.wake_at(), endless.step(400_000, TICK)), (None, vec![]), "only something else will do");
    assert_eq!(endless.step(400_100, looked(0, lost())), [says_lost(0, false)], "the loss that was reported");
    let mut leased = guard(GuardConfig { look_ms: None, ..FIVE_MINUTES }, 1);
    assert_eq!(leased.wake_at(), Some(HALF_MS), "nothing but the lease has a time");
    assert_eq!(leased.step(HALF_MS, TICK), [Action::Renew(0)]);
}

#[test]
fn a_guard_looks_as_often_as_it_is_asked_to() {
    let mut guard = guard(GuardConfig { look_ms: Some(300), ..ENDLESS }, 1);
    for at in [300, 600, 900] {
        assert_eq!((guard.wake_at(), guard.step(at, TICK)), (Some(at), vec![Action::Look(0)]));
        guard.step(at, looked(0, KEPT));
    }
}

#[test]
fn without_a_lease_nothing_is_ever_renewed() {
    let mut guard = guard(ENDLESS, 2);
    assert_eq!(tick_until(&mut guard, 400_000), [], "a guard without a lease only looks");
    assert_eq!(guard.step(400_100, USR1), [Action::Forward(10)]);
    assert_eq!(guard.step(400_100, looked(0, lost())), [says_lost(0, false)]);
    assert_eq!(tick_until(&mut guard, 800_000), [], "nor after a loss");
    assert_eq!(guard.step(900_000, ended(0)), [Action::Release(1)]);
}

#[test]
fn a_failed_renewal_is_tried_again_several_times_before_the_lease_is_over() {
    for ttl_sec in [1, 2, 3, 10, 300, 86_400] {
        let mut guard = guard(GuardConfig { ttl_sec: Some(ttl_sec), ..FIVE_MINUTES }, 1);
        let lease_ms = ttl_sec * 1_000;
        let mut tries = 0;
        while let Some((at, action)) = tick_until(&mut guard, lease_ms - 1).pop() {
            assert_eq!(action, Action::Renew(0), "only renewals are tried");
            tries += 1;
            let warning = Warning::RenewalFailed { hold: 0, why: "the disk is full".into() };
            assert_eq!(guard.step(at + 1, renewed(0, at, failed())), [Action::Warn(warning)], "each failure is told");
        }
        assert!((4..10).contains(&tries), "a lease of {ttl_sec} s has room for several tries, not for {tries}");
        assert!(guard.wake_at().is_some_and(|at| at < 2 * lease_ms), "the lease being over is no reason to give up");
    }
}

#[test]
fn after_a_failure_the_next_success_brings_back_the_usual_interval() {
    let mut guard = guard(FIVE_MINUTES, 1);
    assert_eq!(tick_until(&mut guard, HALF_MS), [(HALF_MS, Action::Renew(0))]);
    guard.step(HALF_MS, renewed(0, HALF_MS, failed()));
    let again = HALF_MS + HALF_MS / 4;
    assert_eq!(tick_until(&mut guard, again), [(again, Action::Renew(0))]);
    assert_eq!(guard.step(again, renewed(0, again, KEPT)), []);
    assert_eq!(tick_until(&mut guard, again + HALF_MS), [(again + HALF_MS, Action::Renew(0))]);
}

#[test]
fn a_renewal_that_fails_after_the_commands_end_is_not_promised_again() {
    let mut guard = guard(FIVE_MINUTES, 1);
    guard.step(HALF_MS, TICK);
    assert_eq!(guard.step(HALF_MS + 1, ended(0)), [], "the renewal is awaited");
    assert_eq!(guard.step(HALF_MS + 2, renewed(0, HALF_MS, failed())), [Action::Release(0)]);
}

#[test]
fn a_late_renewal_warns_and_goes_on() {
    let mut guard = guard(GuardConfig { on_lost: OnLost::Stop, ..FIVE_MINUTES }, 1);
    assert_eq!(guard.step(310_000, TICK), [Action::Renew(0)]);
    let late = Outcome::Kept { late_ms: Some(10_000) };
    let actions = guard.step(310_001, renewed(0, 310_000, late));
    assert_eq!(actions, [Action::Warn(Warning::Late { hold: 0, late_ms: 10_000 })], "late isn't lost");
    assert_eq!(tick_until(&mut guard, 460_000), [(460_000, Action::Renew(0))]);
    guard.step(460_000, renewed(0, 460_000, KEPT));
    assert_eq!(guard.step(460_001, ended(0)), [Action::Release(0)]);
    assert_eq!(guard.step(460_002, released(0, KEPT)), [Action::Finish(0)], "late isn't lost at the end either");
}

#[test]
fn a_loss_is_told_once_with_the_new_holder_and_the_command_goes_on() {
    for on_lost in [OnLost::Fail, OnLost::Warn] {
        let config = GuardConfig { on_lost, ..FIVE_MINUTES };
        let mut by_look = guard(config, 1);
        assert_eq!(by_look.step(LOOK_MS, TICK), [Action::Look(0)]);
        assert_eq!(by_look.step(LOOK_MS, looked(0, lost())), [says_lost(0, false)], "by a look");
        assert_eq!(by_look.wake_at(), None, "there is nothing left to renew or to look at");
        assert_eq!(by_look.step(400_000, TICK), [], "a lost hold is neither renewed nor looked at");

        let mut by_renewal = guard(config, 1);
        assert_eq!(by_renewal.step(HALF_MS, TICK), [Action::Renew(0)]);
        assert_eq!(by_renewal.step(HALF_MS, renewed(0, HALF_MS, lost())), [says_lost(0, false)], "by a renewal");
        assert_eq!(by_renewal.wake_at(), None);

        let mut by_release = guard(config, 1);
        assert_eq!(by_release.step(10, ended(3)), [Action::Release(0)]);
        let actions = by_release.step(20, released(0, lost()));
        assert_eq!(actions, [says_lost(0, false), Action::Finish(3)], "by the release");
    }
}

#[test]
fn a_deleted_record_is_a_loss_without_a_holder() {
    let mut guard = guard(FIVE_MINUTES, 1);
    guard.step(LOOK_MS, TICK);
    let warning = Warning::Lost { hold: 0, holder: None, stops: false };
    assert_eq!(guard.step(LOOK_MS, looked(0, Outcome::Lost(None))), [Action::Warn(warning)]);
}

#[test]
fn a_look_that_fails_proves_nothing() {
    let mut guard = guard(FIVE_MINUTES, 1);
    assert_eq!(guard.step(LOOK_MS, TICK), [Action::Look(0)]);
    assert_eq!(guard.step(LOOK_MS, looked(0, failed())), []);
    assert_eq!(guard.step(2 * LOOK_MS, TICK), [Action::Look(0)], "the next one may tell");
}

#[test]
fn a_look_that_hangs_is_not_asked_for_again() {
    let mut guard = guard(FIVE_MINUTES, 2);
    assert_eq!(guard.step(LOOK_MS, TICK), [Action::Look(0), Action::Look(1)]);
    assert_eq!(guard.step(LOOK_MS, looked(1, KEPT)), []);
    assert_eq!(guard.step(2 * LOOK_MS, TICK), [Action::Look(1)], "the first look hasn't come back yet");
    assert_eq!(guard.step(2 * LOOK_MS, looked(0, KEPT)), []);
    assert_eq!(guard.step(3 * LOOK_MS, TICK), [Action::Look(0)], "the second look hasn't come back yet");
}

#[test]
fn the_exit_code_tells_of_the_loss_as_asked() {
    let ends = [Ended::Code(0), Ended::Code(3), Ended::Code(LOST), Ended::Signal(9), Ended::Signal(15)];
    let codes = [0, 3, LOST, 137, 143];
    let cases = [
        (OnLost::Fail, [LOST, 3, LOST, 137, 143]),
        (OnLost::Warn, codes),
        (OnLost::Stop, [LOST, LOST, LOST, LOST, LOST]),
    ];
    for (on_lost, codes_if_lost) in cases {
        let config = GuardConfig { on_lost, ..FIVE_MINUTES };
        for ((end, code), code_if_lost) in ends.into_iter().zip(codes).zip(codes_if_lost) {
            let mut kept = guard(config, 1);
            kept.step(10, Event::Ended(end));
            assert_eq!(kept.step(11, released(0, KEPT)), [Action::Finish(code)], "{on_lost:?}, {end:?}, not lost");

            let mut before = guard(config, 1);
            before.step(LOOK_MS, TICK);
            before.step(LOOK_MS, looked(0, lost()));
            let actions = before.step(LOOK_MS, Event::Ended(end));
            assert_eq!(actions, [Action::Finish(code_if_lost)], "{on_lost:?}, {end:?}, lost while it ran");

            let mut after = guard(config, 1);
            after.step(10, Event::Ended(end));
            let actions = after.step(11, released(0, lost()));
            assert_eq!(
                actions,
                [says_lost(0, false), Action::Finish(code_if_lost)],
                "{on_lost:?}, {end:?}, lost at last"
            );
        }
    }
}

#[test]
fn a_release_that_fails_is_told_and_the_commands_code_passed_on() {
    for on_lost in [OnLost::Fail, OnLost::Warn, OnLost::Stop] {
        let mut guard = guard(GuardConfig { on_lost, ..FIVE_MINUTES }, 1);
        guard.step(10, ended(0));
        let warning = Warning::ReleaseFailed { hold: 0, why: "the disk is full".into() };
        assert_eq!(guard.step(11, released(0, failed())), [Action::Warn(warning), Action::Finish(0)]);
    }
}

mod stopping {
    use super::*;

    const STOP: GuardConfig = GuardConfig { on_lost: OnLost::Stop, ..FIVE_MINUTES };

    /// A guard that has lost its first hold at [`LOOK_MS`].
    fn stopped(config: GuardConfig, holds: usize) -> Guard {
        let mut guard = guard(config, holds);
        guard.step(LOOK_MS, TICK);
        let actions = guard.step(LOOK_MS, looked(0, lost()));
        assert_eq!(actions, [Action::Terminate, says_lost(0, true)], "the command is told to end at once");
        guard
    }

    #[test]
    fn a_command_that_does_not_end_is_killed_after_five_seconds_and_once() {
        let mut guard = stopped(STOP, 1);
        assert_eq!(guard.wake_at(), Some(LOOK_MS + KILL_AFTER_MS));
        assert_eq!(guard.step(LOOK_MS + KILL_AFTER_MS - 1, TICK), [], "it has five seconds");
        assert_eq!(guard.step(LOOK_MS + KILL_AFTER_MS, TICK), [Action::Kill]);
        assert_eq!(guard.wake_at(), None);
        assert_eq!(guard.step(LOOK_MS + 3 * KILL_AFTER_MS, TICK), [], "once is enough");
        assert_eq!(guard.step(30_000, Event::Ended(Ended::Signal(9))), [Action::Finish(LOST)]);
    }

    #[test]
    fn a_command_that_ends_in_time_is_not_killed() {
        for until_all in [false, true] {
            let mut guard = stopped(GuardConfig { until_all, ..STOP }, 2);
            let actions = guard.step(2_000, Event::Ended(Ended::Signal(15)));
            assert!(!actions.contains(&Action::Kill), "it has ended");
            let done = tick_until(&mut guard, 100_000);
            assert!(done.iter().all(|(_, action)| *action != Action::Kill), "its pid may be somebody else's by now");
            assert!(!guard.step(100_000, TICK).contains(&Action::Kill), "nor by a late tick");
        }
    }

    #[test]
    fn an_end_in_the_very_moment_of_the_kill_comes_first() {
        let mut guard = stopped(STOP, 1);
        assert_eq!(guard.step(LOOK_MS + KILL_AFTER_MS, ended(0)), [Action::Finish(LOST)]);
    }

    #[test]
    fn a_second_loss_is_told_but_neither_ends_the_command_again_nor_gives_it_more_time() {
        let mut guard = stopped(STOP, 2);
        assert_eq!(guard.step(LOOK_MS + 500, looked(1, lost())), [says_lost(1, true)]);
        assert_eq!(guard.wake_at(), Some(LOOK_MS + KILL_AFTER_MS));
        assert_eq!(guard.step(LOOK_MS + KILL_AFTER_MS, TICK), [Action::Kill]);
    }

    #[test]
    fn signals_still_reach_a_command_that_is_told_to_end() {
        let mut guard = stopped(STOP, 1);
        assert_eq!(guard.step(2_000, TERM), [Action::Forward(15)]);
    }

    #[test]
    fn a_renewal_that_finds_the_loss_stops_too() {
        let mut guard = guard(STOP, 1);
        guard.step(HALF_MS, TICK);
        let actions = guard.step(HALF_MS, renewed(0, HALF_MS, lost()));
        assert_eq!(actions, [Action::Terminate, says_lost(0, true)]);
    }

    #[test]
    fn a_loss_after_the_commands_end_stops_nothing() {
        let mut guard = guard(GuardConfig { until_all: true, ..STOP }, 1);
        guard.step(LOOK_MS, TICK);
        assert_eq!(guard.step(LOOK_MS, ended(0)), [Action::AwaitAll]);
        assert_eq!(guard.step(LOOK_MS, looked(0, lost())), [says_lost(0, false)], "there is nobody to end");
        assert_eq!(guard.step(9_000, Event::AllGone), [Action::Finish(LOST)]);
    }
}
