//! The conformance suite on every store that there is, and on stores with a planted mistake.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lokt_sys::disk::Disk;
use lokt_testkit::conformance::CASES;
use lokt_testkit::conformance::caller::STORE_FAILED;
use lokt_testkit::conformance::worlds::files_on;
use lokt_testkit::fault_disk::{Fault, FaultDisk};
use lokt_testkit::mem_disk::MemDisk;

/// An I/O error.
const EIO: i32 = 5;
/// Between two calls that fail there are this many that don't, so that the suite stays short.
const STRIDE: usize = 3;

/// Cases whose answer may be another one when something can't be read, and why that is right.
const DIFFERENT: [(&str, &[&str]); 3] = [
    (
        "a ticket that can't be read makes nobody wait",
        &[
            "waiters_are_granted_in_the_order_in_which_they_came",
            "a_caller_that_does_not_wait_is_refused_while_others_wait",
            "a_waiter_keeps_its_place_over_many_looks",
            "a_waiter_sees_how_many_are_ahead",
            "a_lock_waits_like_a_guard",
            "the_queue_is_shown_to_others",
            "a_look_shows_holder_freeze_and_queue",
        ],
    ),
    (
        "a process about which nothing can be found out lives",
        &["a_waiter_is_granted_when_the_holder_dies", "a_guard_whose_process_dies_frees_its_name"],
    ),
    (
        "force removes what can't be read, and can't say what it was",
        &[
            "an_unlock_with_another_lock_id_ends_nothing",
            "force_takes_a_hold_from_its_guard",
            "a_break_names_its_victim",
        ],
    ),
];

mod memory {
    lokt_testkit::conformance!(lokt_testkit::conformance::worlds::memory());
}

mod files {
    lokt_testkit::conformance!(lokt_testkit::conformance::worlds::files());
}

mod real_files {
    lokt_testkit::conformance!(lokt_testkit::conformance::worlds::real_files());
}

/// Each case on a disk whose n-th call fails once. What fails may end the case; what doesn't must be
/// as right as ever.
#[test]
fn every_case_is_right_or_ends_with_an_error_on_a_disk_that_fails() {
    let (mut runs, mut ended, mut wrong) = (0, 0, Vec::new());
    let is_different = |name: &str| DIFFERENT.iter().any(|(_, cases)| cases.contains(&name));
    for (name, case) in CASES.iter().filter(|(name, _)| !is_different(name)) {
        let counting = Arc::new(FaultDisk::counting(Arc::new(MemDisk::new())));
        let disk: Arc<dyn Disk> = counting.clone();
        case(&files_on(&disk));
        for at in (0..counting.calls()).step_by(STRIDE) {
            let disk: Arc<dyn Disk> = Arc::new(FaultDisk::new(Arc::new(MemDisk::new()), at, Fault::Errno(EIO)));
            let world = AssertUnwindSafe(files_on(&disk));
            runs += 1;
            if let Err(panic) = catch_unwind(|| case(&*world)) {
                ended += 1;
                if !is_failure(&*panic) {
                    wrong.push((name, at));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "wrong when this call of the disk fails: {wrong:?}");
    assert!(runs > 500 && ended > 50, "{runs} runs, {ended} of which ended with an error");
}

/// Was it the store that failed, or the case?
fn is_failure(panic: &(dyn Any + Send)) -> bool {
    panic.downcast_ref::<String>().is_some_and(|text| text.starts_with(STORE_FAILED))
}

mod planted {
    use lokt_testkit::conformance::planted::Mistake;

    fn is_noticed(mistake: Mistake, by: &str) {
        let noticed = mistake.noticed_by();
        assert!(noticed.contains(&by), "{mistake:?} is noticed by {noticed:?}");
    }

    #[test]
    fn a_cell_that_is_not_rewritten_is_noticed() {
        is_noticed(Mistake::CellKept, "a_doubled_grant_is_not_made_again_after_its_end");
    }

    #[test]
    fn a_token_that_is_taken_from_the_ticket_is_noticed() {
        is_noticed(Mistake::TokenFromTicket, "a_waiter_gets_a_token_when_it_is_granted_not_when_it_asks");
    }

    #[test]
    fn a_release_without_the_lock_id_is_noticed() {
        is_noticed(Mistake::ReleaseOfAny, "a_late_release_does_not_end_the_next_hold");
    }

    #[test]
    fn a_late_request_that_is_applied_is_noticed() {
        is_noticed(Mistake::LateApplied, "a_late_grant_is_never_made_after_it_was_given_up");
    }
}
