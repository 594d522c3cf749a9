//! What a guard of several holds does, how it ends, and what becomes of signals, one situation at a time.

use lokt_core::guard::{Action, Event, Guard, GuardConfig, LOST, Warning};

use super::tables::{
    FIVE_MINUTES, HALF_MS, KEPT, TICK, ended, failed, guard, looked, lost, released, renewed, says_lost, tick_until,
};
use super::{CTRL_C, LOOK_MS, TERM, USR1};

mod several_holds {
    use super::*;

    #[test]
    fn each_hold_is_renewed_by_its_own_time() {
        let mut guard = Guard::new(FIVE_MINUTES, &[0, 7_000, 3_000], 8_000);
        let due = [(HALF_MS, 0), (HALF_MS + 3_000, 2), (HALF_MS + 7_000, 1)];
        for (at, hold) in due {
            assert_eq!(tick_until(&mut guard, at), [(at, Action::Renew(hold))]);
        }
        // The first one hangs; the others' answers don't wait for it.
        guard.step(HALF_MS + 7_001, renewed(2, HALF_MS + 3_000, KEPT));
        guard.step(HALF_MS + 7_001, renewed(1, HALF_MS + 7_000, KEPT));
        let again = [(2 * HALF_MS + 3_000, Action::Renew(2)), (2 * HALF_MS + 7_000, Action::Renew(1))];
        assert_eq!(tick_until(&mut guard, 2 * HALF_MS + 7_000), again);
    }

    #[test]
    fn holds_are_released_one_after_the_other_and_the_last_one_first() {
        let mut guard = guard(FIVE_MINUTES, 3);
        assert_eq!(guard.step(10, ended(3)), [Action::Release(2)]);
        assert_eq!(guard.step(20, released(2, KEPT)), [Action::Release(1)]);
        let warning = Action::Warn(Warning::ReleaseFailed { hold: 1, why: "the disk is full".into() });
        assert_eq!(guard.step(30, released(1, failed())), [warning, Action::Release(0)], "a failure stops no other");
        assert_eq!(guard.step(40, released(0, KEPT)), [Action::Finish(3)]);
    }

    #[test]
    fn a_release_is_asked_for_once_whatever_comes_meanwhile() {
        for noise in [TICK, TERM, CTRL_C, ended(4), Event::AllGone, looked(0, KEPT)] {
            let mut guard = guard(FIVE_MINUTES, 2);
            guard.step(LOOK_MS, TICK);
            assert_eq!(guard.step(LOOK_MS, ended(0)), [Action::Release(1)]);
            assert_eq!(guard.step(LOOK_MS, noise.clone()), [], "{noise:?} doesn't release again");
            assert_eq!(guard.step(LOOK_MS, released(1, KEPT)), [Action::Release(0)], "after {noise:?}");
            assert_eq!(guard.step(LOOK_MS, released(0, KEPT)), [Action::Finish(0)], "after {noise:?}");
        }
    }

    #[test]
    fn a_look_that_comes_back_during_the_release_leaves_the_answer_to_it() {
        let mut guard = guard(FIVE_MINUTES, 1);
        guard.step(LOOK_MS, TICK);
        assert_eq!(guard.step(LOOK_MS, ended(0)), [Action::Release(0)]);
        assert_eq!(guard.step(LOOK_MS, looked(0, lost())), [], "our own release may be what it saw");
        assert_eq!(guard.step(LOOK_MS, released(0, KEPT)), [Action::Finish(0)], "the release was awaited");
    }

    #[test]
    fn one_loss_stops_neither_the_renewal_nor_the_release_of_the_others() {
        let mut guard = guard(FIVE_MINUTES, 3);
        guard.step(LOOK_MS, TICK);
        guard.step(LOOK_MS, looked(0, KEPT));
        assert_eq!(guard.step(LOOK_MS, looked(1, lost())), [says_lost(1, false)]);
        guard.step(LOOK_MS, looked(2, KEPT));
        let renewals = [(HALF_MS, Action::Renew(0)), (HALF_MS, Action::Renew(2))];
        assert_eq!(tick_until(&mut guard, HALF_MS), renewals);
        guard.step(HALF_MS, renewed(0, HALF_MS, KEPT));
        guard.step(HALF_MS, renewed(2, HALF_MS, KEPT));
        assert_eq!(guard.step(HALF_MS + 1, ended(0)), [Action::Release(2)]);
        assert_eq!(guard.step(HALF_MS + 2, released(2, KEPT)), [Action::Release(0)], "what is lost isn't released");
        assert_eq!(guard.step(HALF_MS + 3, released(0, KEPT)), [Action::Finish(LOST)]);
    }

    #[test]
    fn nothing_is_released_before_every_renewal_came_back() {
        let mut guard = guard(FIVE_MINUTES, 2);
        assert_eq!(guard.step(HALF_MS, TICK), [Action::Renew(0), Action::Renew(1)]);
        assert_eq!(guard.step(HALF_MS + 1, ended(0)), []);
        assert_eq!(guard.step(HALF_MS + 2, renewed(1, HALF_MS, KEPT)), [], "the other is still being renewed");
        assert_eq!(guard.step(HALF_MS + 3, renewed(0, HALF_MS, lost())), [says_lost(0, false), Action::Release(1)]);
        assert_eq!(guard.step(HALF_MS + 4, released(1, KEPT)), [Action::Finish(LOST)]);
    }

    #[test]
    fn the_renewal_of_a_hold_that_a_look_found_lost_is_awaited_and_not_believed() {
        let mut guard = guard(FIVE_MINUTES, 1);
        assert_eq!(guard.step(HALF_MS - 500, TICK), [Action::Look(0)]);
        assert_eq!(guard.step(HALF_MS, TICK), [Action::Renew(0)]);
        assert_eq!(guard.step(HALF_MS + 1, looked(0, lost())), [says_lost(0, false)]);
        assert_eq!(guard.step(HALF_MS + 2, ended(0)), [], "the renewal is still under way");
        assert_eq!(guard.step(HALF_MS + 3, renewed(0, HALF_MS, KEPT)), [Action::Finish(LOST)]);
    }

    #[test]
    fn a_guard_without_a_hold_of_its_own_ends_with_its_command() {
        for until_all in [false, true] {
            let mut nested = guard(GuardConfig { until_all, ..FIVE_MINUTES }, 0);
            assert_eq!(nested.wake_at(), None, "there is nothing to renew or to look at");
            assert_eq!(nested.step(10, TERM), [Action::Forward(15)]);
            assert_eq!(nested.step(20, ended(5)), [Action::Finish(5)]);
        }
    }
}

mod until_all {
    use super::*;

    const UNTIL_ALL: GuardConfig = GuardConfig { until_all: true, ..FIVE_MINUTES };

    #[test]
    fn the_lock_is_kept_and_renewed_until_everything_has_ended() {
        let mut guard = guard(UNTIL_ALL, 1);
        assert_eq!(guard.step(10, ended(3)), [Action::AwaitAll]);
        assert_eq!(tick_until(&mut guard, HALF_MS), [(HALF_MS, Action::Renew(0))], "what is left behind is guarded");
        assert_eq!(guard.step(HALF_MS + 1, Event::AllGone), [], "the renewal is awaited");
        assert_eq!(guard.step(HALF_MS + 2, renewed(0, HALF_MS, KEPT)), [Action::Release(0)]);
        assert_eq!(guard.step(HALF_MS + 3, released(0, KEPT)), [Action::Finish(3)]);
    }

    #[test]
    fn whoever_is_told_to_end_meanwhile_leaves_the_lock_to_what_is_left_behind() {
        for signal in [TERM, CTRL_C] {
            let mut guard = guard(UNTIL_ALL, 2);
            guard.step(10, ended(3));
            assert_eq!(guard.step(20, USR1), [], "there is nobody to forward it to");
            let actions = guard.step(30, signal);
            assert_eq!(actions, [Action::Warn(Warning::LeftBehind), Action::Finish(3)], "the code is the command's");
        }
    }

    #[test]
    fn of_a_lock_that_was_lost_nothing_is_left_to_keep() {
        let mut guard = guard(UNTIL_ALL, 2);
        guard.step(LOOK_MS, TICK);
        guard.step(LOOK_MS, ended(0));
        guard.step(LOOK_MS, looked(0, lost()));
        let mut one_left = guard.clone();
        assert_eq!(one_left.step(2_000, TERM)[..1], [Action::Warn(Warning::LeftBehind)], "the other one is kept");
        guard.step(LOOK_MS, looked(1, lost()));
        assert_eq!(guard.step(2_000, TERM), [Action::Finish(LOST)]);
    }

    #[test]
    fn whoever_is_told_to_end_meanwhile_waits_for_renewals() {
        let mut guard = guard(UNTIL_ALL, 2);
        guard.step(10, ended(0));
        assert_eq!(guard.step(HALF_MS, TICK), [Action::Renew(0), Action::Renew(1)]);
        assert_eq!(guard.step(HALF_MS + 1, TERM), [Action::Warn(Warning::LeftBehind)]);
        assert_eq!(guard.step(HALF_MS + 2, renewed(1, HALF_MS, KEPT)), []);
        assert_eq!(guard.step(HALF_MS + 3, TERM), [], "it was told already");
        assert_eq!(guard.step(HALF_MS + 4, renewed(0, HALF_MS, KEPT)), [Action::Finish(0)]);
    }
}

mod signals {
    use super::*;

    #[test]
    fn each_signal_is_forwarded_every_time_but_not_what_the_terminal_sent_to_all() {
        let mut guard = guard(FIVE_MINUTES, 1);
        for number in [1, 2, 3, 10, 12, 15, 28] {
            for ends in [false, true] {
                let ours = Event::Signal { number, ends, from_terminal: false };
                assert_eq!(guard.step(1, ours.clone()), [Action::Forward(number)]);
                assert_eq!(guard.step(1, ours), [Action::Forward(number)], "the second time too");
                let all = Event::Signal { number, ends, from_terminal: true };
                assert_eq!(guard.step(1, all), [], "the command has got {number} already");
            }
        }
    }

    #[test]
    fn nothing_is_forwarded_after_the_commands_end() {
        let mut guard = guard(FIVE_MINUTES, 1);
        guard.step(10, ended(0));
        assert_eq!(guard.step(11, TERM), [], "its pid may be somebody else's by now");
        assert_eq!(guard.step(12, released(0, KEPT)), [Action::Finish(0)], "the lock was released all the same");
        assert_eq!(guard.step(13, TERM), []);
    }

    #[test]
    fn a_signal_during_a_renewal_is_forwarded_at_once() {
        let mut guard = guard(FIVE_MINUTES, 1);
        guard.step(HALF_MS, TICK);
        assert_eq!(guard.step(HALF_MS + 1, TERM), [Action::Forward(15)]);
    }

    #[test]
    fn a_signal_in_the_moment_of_a_renewal_is_forwarded_first() {
        let mut guard = guard(FIVE_MINUTES, 1);
        assert_eq!(guard.step(HALF_MS, TERM), [Action::Forward(15), Action::Renew(0)]);
    }
}
