//! What every store of named locks must do: one suite for all of them.
//!
//! A case is a function of a [`World`]: a store, several callers on it, and a clock that tests move.
//! [`crate::conformance!`] makes a test of each case for one kind of world; [`CASES`] lists them for
//! tests that plant a mistake and ask which case notices.
//!
//! | module | cases about |
//! | --- | --- |
//! | [`exclusion`] | who may hold a name |
//! | [`tokens`] | the order of fencing tokens |
//! | [`parts`] | joining, refreshing and reviving one's own hold |
//! | [`ends`] | release and unlock, and the hold that is meant |
//! | [`queue`] | waiting, first come first |
//! | [`freeze`] | freezes |
//! | [`loss`] | holds that end by themselves, or are taken away |
//! | [`several`] | several names together |
//! | [`fence`] | acting under a token |
//! | [`audit`] | the audit log |
//! | [`looks`] | what a store shows |
//! | [`races`] | other callers that act between a look and what follows from it |
//! | [`unknown`] | requests without an answer, late and doubled ones |
//!
//! Where stores differ, a case asks the [`Contract`](lokt_named::store::Contract) of the store.

pub mod audit;
pub mod caller;
pub mod ends;
pub mod exclusion;
pub mod fence;
pub mod freeze;
pub mod looks;
pub mod loss;
pub mod parts;
pub mod planted;
pub mod queue;
pub mod races;
pub mod several;
pub mod tokens;
pub mod unknown;
pub mod waiting;
pub mod worlds;

use lokt_core::hold::Identity;
use lokt_named::store::Store;
use lokt_named::swap::{Fault, Of};

pub use caller::{Caller, Held};
pub use waiting::{Answer, Waiting};

/// The callers of a world, by their owners. The last one is another process of the first one's owner.
pub const OWNERS: [&str; 4] = ["alice", "bob", "carol", "alice"];

/// A store with several callers.
pub trait World: Sync {
    /// The store, as the caller of this number has opened it.
    fn store(&self, caller: usize) -> &dyn Store;

    /// Who the caller of this number is.
    fn me(&self, caller: usize) -> &Identity;

    /// Lets time pass on every clock.
    fn pass(&self, secs: u64);

    /// Ends the process of a caller, which says goodbye to nobody.
    fn kill(&self, caller: usize);

    /// 128 bits that are new.
    fn fresh(&self) -> u128;

    /// What loses requests and answers; `None`: every request of this store is answered.
    fn network(&self) -> Option<&dyn Network> {
        None
    }
}

/// A network that loses, delays and doubles requests.
pub trait Network: Send + Sync {
    /// Lets a request of this kind go wrong, after `spared` others of its kind.
    fn fail(&self, of: Of, spared: usize, fault: Fault);

    /// Applies what is under way; gives how many requests changed something.
    fn deliver(&self) -> usize;

    /// Cuts the network, or mends it.
    fn set_away(&self, is_away: bool);

    /// Lets another server take charge.
    fn elect(&self);
}

/// A case of the suite.
pub type Case = fn(&dyn World);

/// The callers of a world: alice, bob, carol, and alice in another process.
pub fn callers(world: &dyn World) -> [Caller<'_>; 4] {
    [0, 1, 2, 3].map(|number| Caller::new(world, number))
}

/// Lists the cases, and makes a macro that makes tests of them.
macro_rules! cases {
    ($dollar:tt $($module:ident: $($case:ident)*;)*) => {
        /// Every case with its name.
        pub const CASES: &[(&str, Case)] = &[$($((stringify!($case), $module::$case as Case),)*)*];

        /// Makes a test of each case, in the world that the expression makes.
        #[macro_export]
        macro_rules! conformance {
            ($dollar world:expr) => {
                $($(
                    #[test]
                    fn $case() {
                        $crate::conformance::$module::$case(&$dollar world);
                    }
                )*)*
            };
        }
    };
}

cases! { $
    exclusion:
        a_free_name_is_granted
        a_second_owner_is_refused_and_told_who_holds
        a_guard_excludes_a_guard_of_the_same_owner
        a_guard_excludes_a_lock_of_another_owner
        names_are_independent
        a_name_is_free_after_its_release
        of_many_callers_one_is_granted;
    tokens:
        every_hold_has_a_greater_token_than_the_one_before
        a_refresh_keeps_the_token
        a_revived_hold_gets_a_new_token
        a_waiter_gets_a_token_when_it_is_granted_not_when_it_asks
        tokens_grow_over_all_names_of_one_owner
        the_stored_token_is_the_one_that_was_told;
    parts:
        a_lock_is_refreshed_by_its_owner
        a_stale_lock_is_revived_under_its_lock_id
        a_guard_joins_its_owners_lock
        the_owner_part_outlives_the_guard_that_joined
        the_guard_outlives_the_owner_part
        a_lock_beside_a_guard_of_its_owner_joins_it
        a_command_inside_its_hold_changes_nothing
        a_guard_that_joins_after_an_expired_one_gets_a_new_token
        extending_needs_a_living_hold_of_ones_own
        a_refresh_without_a_ttl_has_no_end
        a_grant_leaves_nothing_of_a_stale_hold;
    ends:
        a_late_release_does_not_end_the_next_hold
        a_second_release_is_told_that_it_is_lost
        an_unlock_needs_the_owner
        an_unlock_does_not_end_a_running_guard
        an_unlock_with_another_lock_id_ends_nothing
        an_unlock_with_a_stale_token_ends_nothing
        an_unlock_with_its_lock_id_and_token_ends_the_hold
        an_unlock_of_a_free_name_is_told_so
        break_stale_spares_the_living
        break_stale_removes_what_is_over
        prune_removes_what_is_over_and_nothing_else
        every_name_of_a_batch_is_answered;
    queue:
        waiters_are_granted_in_the_order_in_which_they_came
        a_caller_that_does_not_wait_is_refused_while_others_wait
        a_waiter_that_leaves_lets_the_next_one_through
        a_dead_waiter_is_passed
        a_waiter_keeps_its_place_over_many_looks
        a_waiter_sees_how_many_are_ahead
        a_lock_waits_like_a_guard
        a_waiter_is_granted_when_the_holder_dies
        the_queue_is_shown_to_others;
    freeze:
        a_frozen_name_is_granted_to_nobody
        a_freeze_lets_holders_release_and_refresh
        a_freeze_ends_with_its_ttl
        an_unfreeze_needs_the_owner_or_force
        a_waiter_is_granted_when_the_freeze_ends
        a_freeze_is_of_one_name
        a_freeze_that_is_put_again_has_its_new_end;
    loss:
        force_takes_a_hold_from_its_guard
        a_guard_whose_process_dies_frees_its_name
        a_lock_ends_with_its_ttl
        a_guard_that_is_not_renewed_ends
        a_guard_that_is_renewed_lasts
        a_renewal_tells_who_has_the_name_now;
    several:
        several_names_are_granted_together
        one_name_that_is_held_refuses_all
        names_taken_together_are_released_one_by_one
        crosswise_waiters_do_not_block_each_other;
    fence:
        a_token_is_current_while_its_hold_lives
        a_stale_token_is_refused
        a_token_of_another_lock_id_is_refused
        nothing_is_done_under_a_stale_token
        something_is_done_under_a_current_token
        a_loss_during_the_act_is_told_or_prevented;
    audit:
        every_change_is_told_in_its_order
        an_event_names_hold_owner_and_token
        a_break_names_its_victim
        the_last_events_come_newest_first
        a_follower_sees_what_is_added_and_nothing_before;
    looks:
        a_look_shows_holder_freeze_and_queue
        a_scan_shows_every_name_of_its_kind
        a_look_changes_nothing
        a_checkup_of_a_store_in_use_finds_nothing_wrong;
    races:
        of_two_callers_that_see_a_free_name_one_is_granted
        a_waiter_that_comes_meanwhile_is_first
        a_refused_request_is_not_made_when_the_queue_is_gone
        a_name_that_is_frozen_meanwhile_is_not_granted
        one_of_several_names_that_is_taken_meanwhile_refuses_all
        a_refresh_of_a_lock_that_ends_meanwhile_gets_a_new_token
        a_stale_lock_that_is_broken_meanwhile_is_not_revived
        a_guard_joins_no_lock_that_is_unlocked_meanwhile
        an_unlock_is_told_that_the_hold_was_broken_meanwhile
        a_release_is_told_that_the_hold_was_taken_meanwhile
        a_lock_that_is_revived_meanwhile_is_not_broken_as_stale
        an_unfreeze_does_not_end_a_freeze_that_is_put_meanwhile
        the_end_of_a_stale_hold_is_told_once
        events_are_told_in_the_order_of_the_changes;
    unknown:
        a_grant_without_an_answer_is_found_or_made_again
        a_late_grant_is_never_made_after_it_was_given_up
        a_late_grant_is_not_made_after_the_name_was_held_by_another
        a_doubled_grant_is_not_made_again_after_its_end
        a_doubled_refresh_is_not_made_again_after_the_unlock
        a_doubled_freeze_is_not_made_again_after_its_end
        a_release_without_an_answer_is_repeated
        an_answer_to_the_second_copy_of_a_request_is_that_of_the_first
        a_late_release_does_not_end_another_hold
        a_ticket_without_an_answer_is_put_once
        a_store_that_is_away_is_told_and_changes_nothing
        a_hold_is_renewed_after_another_server_took_charge;
}
