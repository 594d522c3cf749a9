//! When a lease is over: by which clock, to the millisecond, and never by anybody's wall clock.

use jiff::Timestamp;
use lokt_core::hold::Identity;
use lokt_core::lease::evidence::{Clues, Evidence, Verdict, judge};
use lokt_core::lease::policy::LeasePolicy;
use lokt_core::lease::record::{Binding, Record};
use lokt_core::liveness::Liveness;
use lokt_core::time::{Elapsed, Lease, Moment};
use proptest::prelude::*;

use super::one::{later, leased, neighbour, run_lease};
use crate::tally;

/// Nothing was found out.
const NOTHING: Clues = Clues { liveness: Liveness::Unknown, server_ms: None, seen_ms: 0, cache_ms: 0, skew_ms: None };

/// What others see of `record` so long after its renewal.
fn seen(record: &Record, ms: u64, me: &Identity, clues: Clues) -> Verdict {
    judge(record, &later(ms), me, &clues, false)
}

/// Somebody whose clocks and boots can't be compared with the holder's.
fn stranger() -> Identity {
    Identity { host: "elsewhere".into(), boot_id: Some("boot-9".into()), ..neighbour() }
}

fn owner_part(lease: Lease) -> Elapsed {
    Elapsed { process: Lease::Absent, owner: lease }
}

#[test]
fn on_one_boot_the_boot_clock_decides_to_the_millisecond() {
    for (ms, left, in_grace) in [
        (0, Some(33_001), false),
        (30_000, Some(3_001), false),
        (30_001, Some(3_000), true),
        (33_000, Some(1), true),
        (33_001, None, false),
        (99_000, None, false),
    ] {
        let verdict = seen(&leased(), ms, &neighbour(), Clues { seen_ms: 1 << 40, ..NOTHING });
        assert_eq!(verdict.evidence, Some(Evidence::BootClock), "after {ms} ms");
        assert_eq!((verdict.retry_after_ms, verdict.in_grace), (left, in_grace), "after {ms} ms");
        assert_eq!(verdict.elapsed, owner_part(left.map_or(Lease::Over(ms.saturating_sub(33_000)), Lease::Left)));
        assert_eq!(verdict.is_over(), left.is_none());
    }
}

#[test]
fn its_own_session_knows_its_end_without_a_doubt() {
    for (ms, left) in [(0, Some(30_001)), (30_000, Some(1)), (30_001, None)] {
        let verdict = judge(&leased(), &later(ms), &neighbour(), &NOTHING, true);
        assert_eq!((verdict.retry_after_ms, verdict.is_over()), (left, left.is_none()), "after {ms} ms");
        assert!(!verdict.in_grace, "there is no grace for who knows");
    }
}

#[test]
fn what_asks_again_after_the_time_it_was_told_gets_an_answer() {
    let told = seen(&leased(), 12_345, &neighbour(), NOTHING).retry_after_ms.expect("it runs");
    assert!(!seen(&leased(), 12_345 + told - 1, &neighbour(), NOTHING).is_over());
    assert!(seen(&leased(), 12_345 + told, &neighbour(), NOTHING).is_over());
}

#[test]
fn clocks_that_are_not_the_same_are_not_compared() {
    let other_namespace = Identity { boot_clocks: false, ..neighbour() };
    let unknown_boot = Identity { boot_id: None, ..neighbour() };
    let without_reading = Record { boottime_ms: None, ..leased() };
    let without_boot = Record { boot_id: None, ..leased() };
    let from_the_future = Record { boottime_ms: Some(later(999_999).boottime_ms + 1), ..leased() };
    for (record, me) in [
        (leased(), other_namespace),
        (leased(), unknown_boot.clone()),
        (without_reading, neighbour()),
        (without_boot.clone(), neighbour()),
        (without_boot, unknown_boot),
        (from_the_future, neighbour()),
    ] {
        let verdict = seen(&record, 999_999, &me, NOTHING);
        assert_eq!((verdict.evidence, verdict.is_over()), (None, false), "{record:?} as seen by {me:?}");
        assert_eq!(verdict.retry_after_ms, Some(33_061), "it was seen for the first time");
        let own = judge(&record, &later(1), &me, &NOTHING, true);
        assert_eq!((own.evidence, own.is_over()), (None, true), "who can't tell its own end must stop");
    }
}

#[test]
fn a_kernel_that_is_gone_takes_its_leases_with_it() {
    let rebooted = Identity { boot_id: Some("boot-2".into()), ..neighbour() };
    for record in [leased(), run_lease()] {
        let verdict = seen(&record, 0, &rebooted, NOTHING);
        assert_eq!((verdict.evidence, verdict.liveness), (Some(Evidence::BootGone), Liveness::Gone));
        assert!(verdict.is_over() && judge(&record, &later(0), &rebooted, &NOTHING, true).is_over());
    }
    let nfs = Some(0x6969);
    for (why, record, me) in [
        ("another machine's kernel may live", leased(), Identity { host: "elsewhere".into(), ..rebooted.clone() }),
        ("a container makes its boot up", leased(), Identity { pid_ns: Some(2), ..rebooted.clone() }),
        ("nobody knows in which container", Record { pid_ns: None, ..leased() }, rebooted.clone()),
        ("others write to that disk, too", leased(), Identity { fs: nfs, ..rebooted.clone() }),
        ("the holder saw another disk", Record { fs: nfs, ..leased() }, rebooted.clone()),
        ("the holder's disk is unknown", Record { fs: None, ..leased() }, rebooted.clone()),
        ("our own boot is unknown", leased(), Identity { boot_id: None, ..rebooted.clone() }),
        ("another tool's members mean something else", Record { binding: None, ..leased() }, rebooted.clone()),
    ] {
        let verdict = seen(&record, 0, &me, NOTHING);
        assert_eq!((verdict.evidence, verdict.is_over()), (None, false), "{why}");
    }
}

#[test]
fn a_process_that_is_gone_ends_its_lease_and_one_that_lives_does_not_prolong_it() {
    for me in [neighbour(), stranger()] {
        let verdict = seen(&run_lease(), 0, &me, Clues { liveness: Liveness::Gone, ..NOTHING });
        assert_eq!((verdict.evidence, verdict.is_over()), (Some(Evidence::ProcessGone), true));
        assert_eq!(verdict.elapsed, Elapsed { process: Lease::Over(0), owner: Lease::Absent });
    }
    for liveness in [Liveness::Alive, Liveness::Orphan, Liveness::Unknown] {
        let clues = Clues { liveness, ..NOTHING };
        let verdict = seen(&run_lease(), 33_000, &neighbour(), clues);
        assert_eq!((verdict.liveness, verdict.is_over()), (liveness, false));
        assert_eq!(verdict.elapsed, Elapsed { process: Lease::Left(1), owner: Lease::Absent });
        assert!(seen(&run_lease(), 33_001, &neighbour(), clues).is_over(), "{liveness:?} prolongs a lease");
    }
    // The process that took a session's lease has long ended.
    let clues = Clues { liveness: Liveness::Gone, ..NOTHING };
    assert!(!seen(&leased(), 0, &neighbour(), clues).is_over());
}

#[test]
fn the_clock_of_a_file_server_is_one_clock_for_all() {
    for (server_ms, cache_ms, own, left) in [
        (33_000, 0, false, Some(1)),
        (33_001, 0, false, None),
        (63_000, 30_000, false, Some(1)),
        (63_001, 30_000, false, None),
        (30_000, 30_000, true, Some(1)),
        (30_001, 30_000, true, None),
    ] {
        let clues = Clues { server_ms: Some(server_ms), cache_ms, ..NOTHING };
        let verdict = judge(&leased(), &later(0), &stranger(), &clues, own);
        assert_eq!((verdict.evidence, verdict.retry_after_ms), (Some(Evidence::ServerClock), left), "{clues:?} {own}");
        assert_eq!(verdict.is_over(), left.is_none());
        assert_eq!(verdict.in_grace, left.is_some() && !own);
    }
}

#[test]
fn where_two_clocks_prove_it_over_the_servers_is_named_by_a_word_that_stays() {
    let clues = Clues { server_ms: Some(33_001), seen_ms: 33_061, ..NOTHING };
    let verdict = seen(&leased(), 0, &stranger(), clues);
    assert_eq!((verdict.evidence, verdict.is_over()), (Some(Evidence::ServerClock), true));
    let every = [
        (Evidence::BootClock, "boot_clock"),
        (Evidence::ProcessGone, "process_gone"),
        (Evidence::BootGone, "boot_gone"),
        (Evidence::ServerClock, "server_clock"),
        (Evidence::Observed, "observed"),
    ];
    for (evidence, word) in every {
        assert_eq!(evidence.as_str(), word, "programs read it");
    }
}

#[test]
fn who_has_watched_for_long_enough_needs_no_other_clock() {
    // 30,000 ms by a clock that goes slower by two in a thousand, and 3,000 ms of doubt.
    for (seen_ms, cache_ms, left, in_grace) in [
        (0, 0, Some(33_061), false),
        (30_060, 0, Some(3_001), false),
        (30_061, 0, Some(3_000), true),
        (33_060, 0, Some(1), true),
        (33_061, 0, None, false),
        (33_061, 30_000, Some(30_000), true),
        (63_061, 30_000, None, false),
    ] {
        let verdict = seen(&leased(), 0, &stranger(), Clues { seen_ms, cache_ms, ..NOTHING });
        assert_eq!((verdict.retry_after_ms, verdict.in_grace), (left, in_grace), "seen for {seen_ms} ms");
        assert_eq!(verdict.evidence, left.is_none().then_some(Evidence::Observed), "running is nothing to prove");
    }
}

#[test]
fn a_server_whose_clock_was_set_back_keeps_nobody_out_for_ever() {
    let clues = Clues { server_ms: Some(0), seen_ms: 33_061, ..NOTHING };
    let verdict = seen(&leased(), 0, &stranger(), clues);
    assert_eq!((verdict.evidence, verdict.is_over()), (Some(Evidence::Observed), true));
    let sooner = seen(&leased(), 0, &stranger(), Clues { seen_ms: 33_000, ..clues });
    assert_eq!((sooner.evidence, sooner.retry_after_ms), (Some(Evidence::ServerClock), Some(61)));
}

#[test]
fn a_clock_that_is_off_is_told_only_where_nothing_better_is_known() {
    let off = |skew_ms| Clues { skew_ms: Some(skew_ms), ..NOTHING };
    for (skew_ms, told) in
        [(0, false), (2_000, false), (-2_000, false), (2_001, true), (-2_001, true), (i64::MIN, true)]
    {
        let verdict = seen(&leased(), 0, &stranger(), off(skew_ms));
        assert_eq!(verdict.skew_ms, told.then_some(skew_ms));
        let served = seen(&leased(), 0, &stranger(), Clues { server_ms: Some(5), ..off(skew_ms) });
        assert_eq!(served.skew_ms, told.then_some(skew_ms));
    }
    let rebooted = Identity { boot_id: Some("boot-2".into()), ..neighbour() };
    let gone = Clues { liveness: Liveness::Gone, ..off(9_999) };
    for (why, verdict) in [
        ("the boot clock is known", seen(&leased(), 0, &neighbour(), off(9_999))),
        ("the process is gone", seen(&run_lease(), 0, &stranger(), gone)),
        ("the boot is gone", seen(&leased(), 0, &rebooted, off(9_999))),
        ("the server proves it over", seen(&leased(), 0, &stranger(), Clues { server_ms: Some(40_000), ..off(9_999) })),
        ("it was watched for long enough", seen(&leased(), 0, &stranger(), Clues { seen_ms: 40_000, ..off(9_999) })),
    ] {
        assert_eq!(verdict.skew_ms, None, "{why}");
    }
}

#[test]
fn numbers_of_others_are_believed_within_limits_only() {
    let endless = LeasePolicy { lease_ms: u64::MAX, renew_ms: 0, skew_ms: u64::MAX, grace_ms: u64::MAX };
    let record = Record { policy: endless, boottime_ms: Some(0), ..leased() };
    let at_ms = |ms| Moment { boottime_ms: ms, ..later(0) };
    let longest_ms = 86_400_000 + 2 * 3_600_000;
    assert!(!judge(&record, &at_ms(longest_ms), &neighbour(), &NOTHING, false).is_over());
    assert!(judge(&record, &at_ms(longest_ms + 1), &neighbour(), &NOTHING, false).is_over(), "a day and two hours");
    let nothing = LeasePolicy { lease_ms: 0, renew_ms: 0, skew_ms: 0, grace_ms: 0 };
    let short = Record { policy: nothing, ..leased() };
    assert!(!seen(&short, 100, &neighbour(), NOTHING).is_over());
    assert!(seen(&short, 101, &neighbour(), NOTHING).is_over());
}

fn any_clues() -> impl Strategy<Value = Clues> {
    let liveness = prop::sample::select(vec![Liveness::Alive, Liveness::Orphan, Liveness::Gone, Liveness::Unknown]);
    let ms = || prop_oneof![0_u64..100_000, any::<u64>()];
    (liveness, prop::option::of(ms()), ms(), ms(), any::<Option<i64>>()).prop_map(
        |(liveness, server_ms, seen_ms, cache_ms, skew_ms)| Clues { liveness, server_ms, seen_ms, cache_ms, skew_ms },
    )
}

/// A lease with any numbers, and anybody who looks at it.
fn any_sight() -> impl Strategy<Value = (Record, Moment, Identity, Clues)> {
    let ms = || prop_oneof![0_u64..100_000, any::<u64>()];
    let policy = [ms(), ms(), ms(), ms()].prop_map(|[lease_ms, renew_ms, skew_ms, grace_ms]| LeasePolicy {
        lease_ms,
        renew_ms,
        skew_ms,
        grace_ms,
    });
    let binding = prop::sample::select(vec![None, Some(Binding::Session), Some(Binding::Process)]);
    (policy, binding, prop::option::of(ms()), ms(), any::<[bool; 5]>(), any_clues()).prop_map(
        |(policy, binding, boottime_ms, now_ms, [boot, host, pids, disk, clocks], clues)| {
            let record = Record { policy, binding, boottime_ms, ..leased() };
            let base = neighbour();
            let me = Identity {
                boot_id: if boot { base.boot_id.clone() } else { Some("boot-9".into()) },
                host: if host { base.host.clone() } else { "elsewhere".into() },
                pid_ns: base.pid_ns.filter(|_| pids),
                fs: base.fs.filter(|_| disk),
                boot_clocks: clocks,
                ..base
            };
            tally::count(tally::Trial::Case);
            (record, Moment { boottime_ms: now_ms, ..later(0) }, me, clues)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_clock_trust_the_wall_clock_has_no_say((record, now, me, clues) in any_sight(), second in any::<i32>(), own in any::<bool>()) {
        let verdict = judge(&record, &now, &me, &clues, own);
        let wall = Timestamp::from_second(i64::from(second)).expect("a time");
        prop_assert_eq!(judge(&record, &Moment { wall, ..now }, &me, &clues, own), verdict, "no-clock-trust: ours");
        let theirs = Record { last_renewed_at: wall, lease_expires_at: wall, created_at: wall, ..record };
        prop_assert_eq!(judge(&theirs, &now, &me, &clues, own), verdict, "no-clock-trust: the holder's");
    }

    #[test]
    fn a_verdict_does_not_contradict_itself((record, now, me, clues) in any_sight(), own in any::<bool>()) {
        let verdict = judge(&record, &now, &me, &clues, own);
        prop_assert_eq!(verdict.retry_after_ms.is_none(), verdict.is_over());
        prop_assert_ne!(verdict.retry_after_ms, Some(0));
        prop_assert!(!(verdict.is_over() && verdict.in_grace));
        prop_assert!(!verdict.is_over() || own || verdict.evidence.is_some(), "others need evidence");
        prop_assert!(!(own && verdict.evidence == Some(Evidence::Observed)), "nobody watches itself");
        let others = judge(&record, &now, &me, &clues, false);
        prop_assert!(!others.is_over() || verdict.is_over() || verdict.evidence == Some(Evidence::ServerClock),
            "what others may take is over for its own session: {:?}", verdict);
    }

    /// Nobody's lease is taken before its time by any clock there is, whatever numbers are in its record.
    #[test]
    fn nobody_is_robbed_early((record, now, me, clues) in any_sight()) {
        let verdict = judge(&record, &now, &me, &clues, false);
        let steal_after_ms = record.policy.clamped().steal_after_ms();
        let passed_ms = match verdict.evidence {
            Some(Evidence::BootClock) => now.boottime_ms - record.boottime_ms.expect("it was compared"),
            Some(Evidence::ServerClock) => clues.server_ms.expect("it was asked"),
            Some(Evidence::Observed) => clues.seen_ms,
            _ => return Ok(()),
        };
        prop_assert!(!verdict.is_over() || passed_ms > steal_after_ms);
    }

    #[test]
    fn what_is_over_stays_over((record, now, me, clues) in any_sight(), more_ms in 0_u64..1_000_000, own in any::<bool>()) {
        let verdict = judge(&record, &now, &me, &clues, own);
        let now = Moment { boottime_ms: now.boottime_ms.saturating_add(more_ms), ..now };
        let server_ms = clues.server_ms.map(|ms| ms.saturating_add(more_ms));
        let clues = Clues { seen_ms: clues.seen_ms.saturating_add(more_ms), server_ms, ..clues };
        let after = judge(&record, &now, &me, &clues, own);
        // A clock that was in the future can be compared when that has come.
        let is_same_kind = after.evidence == verdict.evidence || record.boottime_ms.is_none();
        prop_assert!(!verdict.is_over() || after.is_over() || !is_same_kind, "{:?} became {:?}", verdict, after);
    }
}
