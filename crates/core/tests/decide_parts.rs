//! What becomes of the two parts of a hold: what is carried on, by which clock, and what a reader of the top level sees of it.

mod common {
    pub(crate) mod askers;
    pub(crate) mod holds;
}

use common::askers::asker;
use common::holds::{at, fence, stored};
use lokt_core::decide::{
    Again, Breaking, Broken, Cause, Condition, Decision, Facts, Freeze, HoldKey, Intent, Line, Policy, ProcessHolder,
    Slot, Terms, decide,
};
use lokt_core::denial::{Denial, Holder, Staleness};
use lokt_core::hold::{Hold, Identity, LockId, Part, PartKind, Parts, PulseRef, RECORD_VERSION};
use lokt_core::liveness::Liveness;
use lokt_core::pulse::ProcessRef;
use lokt_core::record::{Parsed, encode, parse};
use lokt_core::time::{Elapsed, Lease, Moment};

const SINCE: &str = "2026-11-15T17:59:50.25Z";
const MY_PULSE: PulseRef = PulseRef { number: 9, dev: 66, ino: 4321 };

/// Ten seconds after everything stored was written.
fn now() -> Moment {
    Moment { wall: at("2026-11-15T18:00:00.25Z"), monotonic_ms: 500_000, boottime_ms: 700_000 }
}

fn fresh_id() -> LockId {
    LockId::from_bits(0xf2)
}

/// A part that was written at [`SINCE`].
fn part(kind: PartKind, ttl_sec: Option<u64>) -> Part {
    let clock_ms = match kind {
        PartKind::Process => 490_000,
        PartKind::Owner => 690_000,
    };
    Part { since: at(SINCE), ttl_sec, clock_ms: Some(clock_ms) }
}

/// Alice's hold with a guard's part, an owner's part, or both; the inner option is the lease.
#[expect(clippy::option_option, reason = "no part and a part without an end are two things")]
fn hold_with(process: Option<Option<u64>>, owner: Option<Option<u64>>) -> Hold {
    let mut hold = stored("alice");
    hold.parts = Some(Parts {
        process: process.map(|ttl_sec| part(PartKind::Process, ttl_sec)),
        owner: owner.map(|ttl_sec| part(PartKind::Owner, ttl_sec)),
        edited: false,
    });
    hold.pulse = hold.pulse.filter(|_| process.is_some());
    hold
}

fn grip_of(hold: &Hold) -> HoldKey {
    HoldKey { lock_id: hold.lock_id.clone(), token: hold.token, pulse: hold.pulse }
}

fn lock(ttl_sec: Option<u64>) -> Intent {
    Intent::Lock(Terms { ttl_sec, reason: None })
}

fn guard(ttl_sec: Option<u64>) -> Intent {
    let process = ProcessRef { pid: 4242, start: 99_000 };
    Intent::Guard(Terms { ttl_sec, reason: None }, ProcessHolder { process, has_pulse: true, inside: None })
}

/// Asks about `hold` at `now`, with what the clocks say and `liveness` about its process.
fn ask(hold: &Hold, intent: &Intent, liveness: Liveness, now: Moment, me: &Identity) -> Decision {
    ask_under(Policy::NAMED, hold, intent, liveness, now, me)
}

fn ask_under(policy: Policy, hold: &Hold, intent: &Intent, liveness: Liveness, now: Moment, me: &Identity) -> Decision {
    let facts = Facts {
        slot: Slot::Held(hold),
        liveness,
        elapsed: Elapsed::of(hold, &now, me),
        frozen: None,
        line: Line::default(),
        fresh_id: &fresh_id(),
        now,
    };
    let decision = decide(intent, facts, me, &policy).with_token(fence(8));
    match intent {
        Intent::Guard(_, bearer) if bearer.has_pulse => decision.with_pulse(MY_PULSE),
        _ => decision,
    }
}

/// What `decision` stores.
fn next_of(decision: Decision) -> Hold {
    match decision {
        Decision::Commit { next: Some(next), .. } => *next,
        other => panic!("something should be stored, but {other:?}"),
    }
}

fn parts_of(hold: &Hold) -> &Parts {
    hold.parts.as_ref().expect("what we write has parts")
}

fn is_lost(decision: &Decision) -> bool {
    matches!(decision, Decision::Deny(Denial::Lost(Some(_))))
}

// Which hold it is.

#[test]
fn no_lost_thief_a_guard_whose_place_another_took_has_lost_it() {
    let late = hold_with(Some(Some(5)), Some(None));
    let me = asker("alice");
    let taken = next_of(ask(&late, &guard(Some(60)), Liveness::Alive, now(), &me));
    assert_eq!(taken.lock_id, late.lock_id, "an added part keeps the lock id");
    assert_ne!(taken.token, late.token, "the first guard may still run, so the second needs a token of its own");
    for intent in [Intent::Renew(grip_of(&late)), Intent::Release(grip_of(&late))] {
        let decision = ask(&taken, &intent, Liveness::Alive, now(), &me);
        assert!(is_lost(&decision), "the first guard acted on the second one's part: {decision:?}");
    }
    let renewed = next_of(ask(&taken, &Intent::Renew(grip_of(&taken)), Liveness::Alive, now(), &me));
    assert_eq!(renewed.pulse, Some(MY_PULSE), "the second guard's renewal is its own");
}

#[test]
fn no_lost_thief_a_guard_whose_part_was_dropped_has_lost_it() {
    let late = hold_with(Some(Some(5)), Some(None));
    let me = asker("alice");
    let refreshed = next_of(ask(&late, &lock(None), Liveness::Alive, now(), &me));
    assert_eq!(parts_of(&refreshed).process, None, "a refresh drops a part that is over");
    for intent in [Intent::Renew(grip_of(&late)), Intent::Release(grip_of(&late))] {
        assert!(is_lost(&ask(&refreshed, &intent, Liveness::Alive, now(), &me)), "{intent:?} found its part");
    }
}

#[test]
fn a_part_added_to_a_hold_that_nobody_can_have_overtaken_keeps_the_token() {
    let me = asker("alice");
    for (hold, liveness) in
        [(hold_with(None, Some(None)), Liveness::Unknown), (hold_with(Some(Some(5)), Some(None)), Liveness::Gone)]
    {
        for intent in [guard(Some(60)), lock(Some(60))] {
            let next = next_of(ask(&hold, &intent, liveness, now(), &me));
            assert_eq!(
                (next.lock_id, next.token),
                (hold.lock_id.clone(), hold.token),
                "{intent:?} of a hold that goes on"
            );
        }
    }
}

#[test]
fn token_order_a_hold_of_another_boot_goes_on_under_a_new_token() {
    let mut returned = hold_with(None, Some(None));
    returned.boot_id = Some("an earlier boot".into());
    for intent in [guard(None), lock(None)] {
        let next = next_of(ask(&returned, &intent, Liveness::Unknown, now(), &asker("alice")));
        assert_eq!(next.lock_id, returned.lock_id, "it is the same hold");
        assert!(next.token > returned.token, "a power cut may have brought it back after a greater token was given");
    }
}

#[test]
fn a_late_renewal_of_a_hold_that_nobody_took_succeeds() {
    let late = hold_with(Some(Some(5)), None);
    let renewed = next_of(ask(&late, &Intent::Renew(grip_of(&late)), Liveness::Alive, now(), &asker("alice")));
    assert_eq!((renewed.lock_id, renewed.token), (late.lock_id, late.token));
    assert_eq!(renewed.expires_at, Some(at("2026-11-15T18:00:05.25Z")));
}

#[test]
fn a_guard_that_was_revived_by_lock_has_lost_it_though_the_lock_id_is_the_same() {
    let expired = hold_with(Some(Some(5)), None);
    let revived = next_of(ask(&expired, &lock(None), Liveness::Alive, now(), &asker("alice")));
    assert_eq!((&revived.lock_id, revived.token), (&expired.lock_id, Some(fence(8))));
    assert!(is_lost(&ask(&revived, &Intent::Renew(grip_of(&expired)), Liveness::Alive, now(), &asker("alice"))));
}

#[test]
fn a_refresh_of_a_record_without_a_token_or_a_lock_id_gives_it_one() {
    let mut bare = hold_with(None, Some(None));
    (bare.token, bare.lock_id) = (None, LockId::default());
    for intent in [lock(None), guard(None)] {
        let next = next_of(ask(&bare, &intent, Liveness::Unknown, now(), &asker("alice")));
        assert_eq!(next.token, Some(fence(8)), "{intent:?} left the hold without a token");
        assert_eq!(next.lock_id, fresh_id(), "{intent:?} left the hold without a name");
    }
}

#[test]
fn a_refresh_of_a_record_that_only_knows_its_last_write_keeps_that_as_its_beginning() {
    let mut old = hold_with(None, Some(None));
    old.held_since = None;
    for intent in [lock(None), guard(None)] {
        let next = next_of(ask(&old, &intent, Liveness::Unknown, now(), &asker("alice")));
        assert_eq!(next.held_since, Some(at(SINCE)), "{intent:?} forgot since when the hold is held");
    }
    old.acquired = None;
    let next = next_of(ask(&old, &lock(None), Liveness::Unknown, now(), &asker("alice")));
    assert_eq!(next.held_since, Some(now().wall), "what began at no time begins now");
}

#[test]
fn one_holder_another_programs_guard_that_runs_keeps_its_identity_and_the_lease_that_it_renews() {
    let mut foreign = stored("alice");
    (foreign.parts, foreign.pulse, foreign.boot_id, foreign.pid_ns, foreign.token) = (None, None, None, None, None);
    (foreign.ttl_sec, foreign.expires_at) = (60, Some(at("2026-11-15T18:00:50.25Z")));
    let me = asker("alice");
    let mut joined = next_of(ask(&foreign, &lock(Some(1)), Liveness::Alive, now(), &me));
    assert_eq!((joined.pid, joined.pid_start, &joined.host), (foreign.pid, foreign.pid_start, &foreign.host));
    assert_eq!(joined.token, Some(fence(8)), "it had none");
    assert_eq!((joined.ttl_sec, joined.expires_at), (60, foreign.expires_at), "its heartbeat renews by ttl_sec");
    for _ in 0..3 {
        joined = next_of(ask(&joined, &lock(Some(1)), Liveness::Alive, now(), &me));
        assert_eq!(joined.ttl_sec, 60, "however often it is joined");
    }
    let unlock = Intent::Unlock(Breaking::No, Condition::default());
    let left = next_of(ask(&joined, &unlock, Liveness::Alive, now(), &me));
    assert_eq!((left.ttl_sec, left.expires_at, left.pid), (60, foreign.expires_at, foreign.pid), "nor by an unlock");
    let again = ask(&left, &unlock, Liveness::Alive, now(), &me);
    assert!(matches!(again, Decision::Deny(Denial::Guarded(_))), "child-counts: {again:?}");
    let unseen = ask(&foreign, &unlock, Liveness::Unknown, now(), &me);
    assert!(
        matches!(unseen, Decision::Commit { next: None, .. }),
        "what can't be seen is its owner's to end: {unseen:?}"
    );
    // An end that isn't the sum of its parts is carried on as what is left.
    foreign.ttl_sec = 0;
    let odd = next_of(ask(&foreign, &lock(Some(1)), Liveness::Alive, now(), &me));
    let seconds = |hold: &Hold| hold.expires_at.map(jiff::Timestamp::as_second);
    assert_eq!(seconds(&odd), seconds(&foreign));
    foreign.ttl_sec = 90;
    let odd = next_of(ask(&foreign, &lock(Some(1)), Liveness::Alive, now(), &me));
    let process = parts_of(&odd).process.clone().expect("its guard runs");
    assert_eq!((process.since, process.ttl_sec), (now().wall, Some(50)), "its end counts, not its ttl");
}

#[test]
fn a_stale_hold_of_ones_own_is_refreshed_even_if_it_has_no_lock_id_to_keep() {
    let mut old = stored("alice");
    (old.lock_id, old.parts, old.boot_id) = (LockId::default(), None, None);
    old.extra.insert("x_team".into(), 7.into());
    let decision = ask(&old, &lock(None), Liveness::Gone, now(), &asker("alice"));
    assert!(matches!(decision, Decision::Commit { cause: Cause::Renew, broken: None, .. }), "{decision:?}");
    let next = next_of(decision);
    assert_eq!((next.lock_id, next.token), (fresh_id(), Some(fence(8))));
    assert_eq!(next.extra, old.extra, "members we do not know survive a refresh");
}

#[test]
fn a_protocol_that_does_not_revive_grants_a_new_hold() {
    let expired = hold_with(Some(Some(5)), None);
    let policy = Policy { again: Again::Refreshes, ..Policy::NAMED };
    let decision = ask_under(policy, &expired, &lock(None), Liveness::Gone, now(), &asker("alice"));
    let broken = Some(Broken::Stale(Staleness::Expired));
    assert!(
        matches!(&decision, Decision::Commit { cause: Cause::Acquire, broken: b, .. } if *b == broken),
        "{decision:?}"
    );
    assert_eq!(next_of(decision).lock_id, fresh_id());
}

#[test]
fn whatever_we_write_is_of_our_version() {
    let mut both = hold_with(Some(Some(60)), Some(Some(60)));
    both.version = 0;
    let unlock = Intent::Unlock(Breaking::No, Condition::default());
    for intent in [lock(None), unlock, Intent::Renew(grip_of(&both)), Intent::Release(grip_of(&both))] {
        let next = next_of(ask(&both, &intent, Liveness::Alive, now(), &asker("alice")));
        assert_eq!(next.version, RECORD_VERSION, "{intent:?}");
    }
}

// What the top level says.

#[test]
fn with_one_part_the_top_level_is_exactly_the_seeds() {
    for (intent, ttl) in [(lock(Some(300)), 300), (guard(Some(1)), 1), (lock(Some(86_400)), 86_400)] {
        let next = next_of(ask(&hold_with(Some(Some(5)), None), &intent, Liveness::Gone, now(), &asker("bob")));
        assert_eq!(next.acquired, Some(now().wall));
        assert_eq!(next.ttl_sec, ttl);
        let seconds = jiff::SignedDuration::from_secs(ttl);
        assert_eq!(next.expires_at, now().wall.checked_add(seconds).ok(), "expires_at is not acquired_ts + ttl_sec");
    }
}

#[test]
fn a_hold_without_an_end_has_neither_ttl_nor_end_on_the_top_level() {
    let before = hold_with(None, Some(Some(60)));
    let next = next_of(ask(&before, &lock(None), Liveness::Unknown, now(), &asker("alice")));
    assert_eq!((next.ttl_sec, next.expires_at), (0, None), "a refresh without a TTL makes the lock permanent");
    let text = String::from_utf8(encode(&next)).expect("a record is UTF-8");
    assert!(!text.contains("expires_at") && !text.contains("\n  \"ttl_sec\""), "{text}");
}

#[test]
fn with_two_parts_the_top_level_says_the_later_end() {
    // The guard has 50 s left, or no end.
    for (process, asked, end) in [
        (Some(60), Some(10), Some("2026-11-15T18:00:50.25Z")),
        (Some(60), Some(300), Some("2026-11-15T18:05:00.25Z")),
        (Some(60), None, None),
        (None, Some(300), None),
    ] {
        let before = hold_with(Some(process), None);
        let next = next_of(ask(&before, &lock(asked), Liveness::Alive, now(), &asker("alice")));
        assert_eq!(next.expires_at, end.map(at), "guard {process:?}, lock {asked:?}");
        let ttl = next.expires_at.map_or(0, |end| end.as_second() - now().wall.as_second());
        assert_eq!(next.ttl_sec, ttl, "guard {process:?}, lock {asked:?}");
    }
}

#[test]
fn a_distance_that_is_no_whole_number_of_seconds_is_rounded_up() {
    let before = hold_with(None, Some(Some(60)));
    let odd = Moment { boottime_ms: 700_001, ..now() };
    let next = next_of(ask(&before, &guard(Some(5)), Liveness::Unknown, odd, &asker("alice")));
    assert_eq!(next.ttl_sec, 50);
    assert_eq!(next.expires_at, Some(at("2026-11-15T18:00:50.249Z")), "49.999 s from now");
}

#[test]
fn an_owner_part_keeps_its_own_since_and_end_through_a_guards_whole_life() {
    let before = hold_with(None, Some(Some(60)));
    let me = asker("alice");
    let owner_part = parts_of(&before).owner.clone();
    let guarded = next_of(ask(&before, &guard(Some(30)), Liveness::Unknown, now(), &me));
    let renewed = next_of(ask(&guarded, &Intent::Renew(grip_of(&guarded)), Liveness::Alive, now(), &me));
    let released = next_of(ask(&renewed, &Intent::Release(grip_of(&renewed)), Liveness::Alive, now(), &me));
    for hold in [&guarded, &renewed, &released] {
        assert_eq!(parts_of(hold).owner, owner_part);
    }
    assert_eq!(released.expires_at, Some(at("2026-11-15T18:00:50.25Z")));
    assert_eq!((parts_of(&released).process.as_ref(), released.pulse), (None, None), "nothing of the guard remains");
}

// By which clock.

#[test]
fn no_clock_trust_a_wall_step_of_an_hour_changes_no_lease() {
    let hold = hold_with(Some(Some(60)), Some(Some(5)));
    for wall in ["2026-11-15T17:00:00Z", "2026-11-15T19:00:00Z", "1970-01-01T00:00:00Z", "9999-01-01T00:00:00Z"] {
        let stepped = Moment { wall: at(wall), ..now() };
        let elapsed = Elapsed::of(&hold, &stepped, &asker("bob"));
        assert_eq!(elapsed, Elapsed { process: Lease::Left(50_000), owner: Lease::Over(5_000) }, "at {wall}");
    }
}

#[test]
fn no_clock_trust_suspend_ages_the_owner_part_and_not_the_guards() {
    let hold = hold_with(Some(Some(60)), Some(Some(60)));
    let after_a_night = Moment { boottime_ms: 40_000_000, wall: at("2026-11-16T06:00:00Z"), ..now() };
    let elapsed = Elapsed::of(&hold, &after_a_night, &asker("bob"));
    assert_eq!(elapsed.process, Lease::Left(50_000));
    assert_eq!(elapsed.owner, Lease::Over(40_000_000 - 690_000 - 60_000));
}

#[test]
fn a_lease_is_over_only_after_its_last_millisecond() {
    let hold = hold_with(Some(Some(10)), None);
    assert_eq!(Elapsed::of(&hold, &now(), &asker("bob")).process, Lease::Left(0));
    let later = Moment { monotonic_ms: 500_001, ..now() };
    assert_eq!(Elapsed::of(&hold, &later, &asker("bob")).process, Lease::Over(1));
    let by_wall = asker("bob on another boot");
    let by_wall = Identity { boot_id: Some("boot-2".into()), ..by_wall };
    assert_eq!(Elapsed::of(&hold, &now(), &by_wall).process, Lease::Left(0), "now > expires_at is the rule, not >=");
    let later = Moment { wall: at("2026-11-15T18:00:00.250000001Z"), ..now() };
    assert_eq!(Elapsed::of(&hold, &later, &by_wall).process, Lease::Over(0));
}

#[test]
fn boot_clocks_are_compared_only_on_one_boot_in_the_initial_time_namespace() {
    let hold = hold_with(Some(Some(60)), None);
    // By the wall the lease is over, by the boot clock it is not.
    let stepped = Moment { wall: at("2026-11-15T19:00:00Z"), ..now() };
    let lives = |hold: &Hold, me: &Identity, now: Moment| Elapsed::of(hold, &now, me).process.runs();
    let me = asker("bob");
    assert!(lives(&hold, &me, stepped), "same boot: the boot clock decides");
    let other_boot = Identity { boot_id: Some("boot-2".into()), ..me.clone() };
    assert!(!lives(&hold, &other_boot, stepped), "another boot: the wall clock decides");
    let no_boot = Identity { boot_id: None, ..me.clone() };
    assert!(!lives(&hold, &no_boot, stepped), "an unknown boot: the wall clock decides");
    assert!(!lives(&Hold { boot_id: None, ..hold.clone() }, &no_boot, stepped), "two unknown boots are not the same");
    let shifted = Identity { boot_clocks: false, ..me.clone() };
    assert!(!lives(&hold, &shifted, stepped), "a time namespace: the wall clock decides");
    let rewound = Moment { monotonic_ms: 489_999, ..stepped };
    assert!(!lives(&hold, &me, rewound), "a reading from the future: the wall clock decides");
}

#[test]
fn a_part_from_another_boot_is_carried_by_the_wall_clock() {
    let before = hold_with(None, Some(Some(60)));
    let rebooted = Identity { boot_id: Some("boot-2".into()), ..asker("alice") };
    let soon = Moment { monotonic_ms: 1_000, boottime_ms: 1_000, ..now() };
    let next = next_of(ask(&before, &guard(Some(5)), Liveness::Unknown, soon, &rebooted));
    assert_eq!(next.boot_id.as_deref(), Some("boot-2"), "the record is of the boot of its guard");
    let owner = parts_of(&next).owner.clone().expect("the owner part lives");
    assert_eq!(
        owner,
        Part { clock_ms: None, ..part(PartKind::Owner, Some(60)) },
        "a reading of boot-1 means nothing now"
    );
    assert_eq!(parts_of(&next).process.as_ref().and_then(|part| part.clock_ms), Some(1_000));
    assert_eq!(next.expires_at, Some(at("2026-11-15T18:00:50.25Z")));
}

#[test]
fn a_lock_beside_a_guard_of_another_machine_leaves_its_clocks_alone() {
    let before = hold_with(Some(Some(60)), None);
    let elsewhere = Identity { boot_id: Some("boot-9".into()), host: "other".into(), ..asker("alice") };
    let there = Moment { monotonic_ms: 5, boottime_ms: 7, ..now() };
    let next = next_of(ask(&before, &lock(Some(300)), Liveness::Unknown, there, &elsewhere));
    assert_eq!(
        (next.boot_id.as_ref(), next.host.as_str()),
        (before.boot_id.as_ref(), "vm"),
        "the guard's identity stays"
    );
    assert_eq!(parts_of(&next).process, parts_of(&before).process);
    let owner = parts_of(&next).owner.clone().expect("it was just taken");
    assert_eq!(owner, Part { since: now().wall, ttl_sec: Some(300), clock_ms: None }, "boot-1 cannot read our clock");
}

#[test]
fn in_a_time_namespace_nothing_is_written_that_others_would_misread() {
    let before = hold_with(None, Some(Some(60)));
    let shifted = Identity { boot_clocks: false, ..asker("alice") };
    let next = next_of(ask(&before, &guard(Some(5)), Liveness::Unknown, now(), &shifted));
    assert_eq!(parts_of(&next).process.as_ref().and_then(|part| part.clock_ms), None);
    assert_eq!(parts_of(&next).owner, parts_of(&before).owner, "what others wrote stays readable for them");
}

#[test]
fn lock_bind_means_the_same_process_only_on_one_boot_in_one_pid_namespace() {
    let mut bound = hold_with(Some(None), None);
    bound.pulse = None;
    let process = ProcessRef { pid: bound.pid, start: bound.pid_start };
    let again = Intent::Guard(Terms::default(), ProcessHolder { process, has_pulse: false, inside: None });
    let me = asker("alice");
    let strangers = [
        Identity { boot_id: Some("boot-2".into()), ..me.clone() },
        Identity { boot_id: None, ..me.clone() },
        Identity { pid_ns: Some(2), ..me.clone() },
        Identity { pid_ns: None, ..me.clone() },
    ];
    assert_eq!(next_of(ask(&bound, &again, Liveness::Alive, now(), &me)).lock_id, bound.lock_id);
    for stranger in strangers {
        let decision = ask(&bound, &again, Liveness::Alive, now(), &stranger);
        assert!(
            matches!(decision, Decision::Deny(Denial::Held(_))),
            "pid 100 of {stranger:?} is another process: {decision:?}"
        );
    }
    let homeless = Hold { boot_id: None, ..bound };
    let nobody = Identity { boot_id: None, ..me };
    let decision = ask(&homeless, &again, Liveness::Alive, now(), &nobody);
    assert!(matches!(decision, Decision::Deny(Denial::Held(_))), "two unknown boots are not the same: {decision:?}");
}

#[test]
fn a_lease_of_zero_seconds_is_none() {
    // On the top level 0 has always meant that; a lock that is over before its command has ended would protect nothing.
    for intent in [lock(Some(0)), guard(Some(0))] {
        for (before, liveness) in
            [(hold_with(None, Some(None)), Liveness::Unknown), (hold_with(Some(None), None), Liveness::Gone)]
        {
            let next = next_of(ask(&before, &intent, liveness, now(), &asker("alice")));
            assert_eq!((next.ttl_sec, next.expires_at), (0, None), "{intent:?}");
            let parts = parts_of(&next);
            for part in [&parts.process, &parts.owner].into_iter().flatten() {
                assert_eq!(part.ttl_sec, None, "{intent:?}");
            }
        }
    }
}

// What was edited.

/// The hold as it reads back after somebody changed its end by hand.
fn edited(hold: &Hold, end: Option<&str>) -> Hold {
    let text = String::from_utf8(encode(hold)).expect("a record is UTF-8");
    let mut lines: Vec<String> =
        text.lines().filter(|line| !line.starts_with("  \"expires_at\"")).map(Into::into).collect();
    if let Some(end) = end {
        lines.insert(1, format!("  \"expires_at\": \"{end}\","));
    }
    match parse(lines.join("\n").as_bytes()) {
        Parsed::Hold(hold) => *hold,
        other => panic!("an edited record is a record, but this is {other:?}"),
    }
}

#[test]
fn of_an_edited_record_the_top_level_alone_counts_by_the_wall_clock() {
    let mut hold = hold_with(Some(Some(60)), Some(Some(60)));
    hold.expires_at = Some(at("2026-11-15T18:00:50.25Z"));
    let me = asker("bob");
    let shortened = edited(&hold, Some("2026-11-15T17:59:59.25Z"));
    let over = Elapsed { process: Lease::Over(1_000), owner: Lease::Over(1_000) };
    assert_eq!(Elapsed::of(&shortened, &now(), &me), over);
    let extended = edited(&hold, Some("2026-11-15T19:00:00.25Z"));
    let left = Elapsed { process: Lease::Left(3_600_000), owner: Lease::Left(3_600_000) };
    assert_eq!(Elapsed::of(&extended, &now(), &me), left);
    let mut endless = edited(&hold, None);
    endless.ttl_sec = 0;
    assert_eq!(Elapsed::of(&endless, &now(), &me), Elapsed { process: Lease::Endless, owner: Lease::Endless });
    let mut arithmetic = edited(&hold, None);
    arithmetic.ttl_sec = 11;
    let left = Elapsed { process: Lease::Left(1_000), owner: Lease::Left(1_000) };
    assert_eq!(Elapsed::of(&arithmetic, &now(), &me), left, "without expires_at, acquired_ts + ttl_sec");
}

#[test]
fn an_edited_end_is_carried_on_and_a_renewal_keeps_the_guards_own_lease() {
    let mut hold = hold_with(Some(Some(60)), Some(Some(60)));
    hold.expires_at = Some(at("2026-11-15T18:00:50.25Z"));
    let extended = edited(&hold, Some("2026-11-15T19:00:00.25Z"));
    let renewed = next_of(ask(&extended, &Intent::Renew(grip_of(&hold)), Liveness::Alive, now(), &asker("alice")));
    let process = parts_of(&renewed).process.clone().expect("it was renewed");
    assert_eq!(process, Part { since: now().wall, ttl_sec: Some(60), clock_ms: Some(500_000) });
    let owner = parts_of(&renewed).owner.clone().expect("its end lies ahead");
    assert_eq!(owner, Part { since: now().wall, ttl_sec: Some(3_600), clock_ms: None });
    assert_eq!(renewed.expires_at, Some(at("2026-11-15T19:00:00.25Z")));
}

#[test]
fn an_edited_end_that_is_this_very_moment_is_not_carried_on_as_no_end() {
    let mut hold = hold_with(Some(Some(60)), Some(Some(60)));
    hold.expires_at = Some(at("2026-11-15T18:00:50.25Z"));
    let ending = edited(&hold, Some("2026-11-15T18:00:00.25Z"));
    let unlock = Intent::Unlock(Breaking::No, Condition::default());
    let next = next_of(ask(&ending, &unlock, Liveness::Alive, now(), &asker("alice")));
    assert_eq!((next.ttl_sec, next.expires_at), (1, Some(at("2026-11-15T18:00:01.25Z"))), "rounded up to a second");
    let process = parts_of(&next).process.clone().expect("the guard's part stays");
    assert_eq!(process.ttl_sec, Some(1), "0 would read as no end");
}

#[test]
fn a_record_without_our_fields_ends_as_its_program_says() {
    let mut old = stored("alice");
    (old.parts, old.pulse, old.boot_id) = (None, None, None);
    let lease = |hold: &Hold| Elapsed::of(hold, &now(), &asker("bob")).process;
    assert_eq!(lease(&old), Lease::Endless, "neither ttl_sec nor expires_at");
    old.ttl_sec = 60;
    assert_eq!(lease(&old), Lease::Left(50_000), "acquired_ts + ttl_sec");
    old.expires_at = Some(at("2026-11-15T17:59:00.25Z"));
    assert_eq!(lease(&old), Lease::Over(60_000), "expires_at wins over arithmetic");
    (old.expires_at, old.ttl_sec) = (None, -60);
    assert_eq!(lease(&old), Lease::Endless, "a TTL below zero is none");
    (old.acquired, old.ttl_sec) = (None, 60);
    assert!(matches!(lease(&old), Lease::Over(_)), "a lease that began at no time is over");
}

// What is said about a hold.

#[test]
fn what_is_left_of_a_hold_is_what_is_left_of_its_living_parts() {
    for (process, owner, liveness, left) in [
        (Some(Some(60)), None, Liveness::Alive, Some(50_000)),
        (Some(Some(60)), None, Liveness::Gone, Some(0)),
        (Some(None), Some(Some(60)), Liveness::Alive, None),
        (Some(None), Some(Some(60)), Liveness::Gone, Some(50_000)),
        (Some(Some(5)), Some(None), Liveness::Alive, None),
        (Some(Some(5)), Some(Some(5)), Liveness::Alive, Some(0)),
    ] {
        let hold = hold_with(process, owner);
        let elapsed = Elapsed::of(&hold, &now(), &asker("bob"));
        let holder = Holder { hold, liveness, elapsed };
        assert_eq!(holder.left_ms(), left, "{process:?} {owner:?} {liveness:?}");
        assert_eq!(holder.lives(), left != Some(0));
    }
}

#[test]
fn each_denial_has_its_stable_code() {
    let holder = || {
        let hold = stored("alice");
        Box::new(Holder { hold, liveness: Liveness::Alive, elapsed: Elapsed::NOTHING })
    };
    for (denial, code, names_holder) in [
        (Denial::Held(holder()), "E_LOCK_CONFLICT", true),
        (Denial::Queued { ahead: 1 }, "E_LOCK_CONFLICT", false),
        (Denial::BeingWritten, "E_LOCK_CONFLICT", false),
        (Denial::Frozen(Some(holder())), "E_FROZEN", true),
        (Denial::Frozen(None), "E_FROZEN", false),
        (Denial::Newer { version: 2 }, "E_UNSUPPORTED_VERSION", false),
        (Denial::Corrupt { why: String::new() }, "E_CORRUPT", false),
        (Denial::Missing, "E_NOT_FOUND", false),
        (Denial::NotYours(holder()), "E_LOCK_NOT_HELD", true),
        (Denial::Guarded(holder()), "E_LOCK_NOT_HELD", true),
        (Denial::OtherHold(holder()), "E_LOCK_NOT_HELD", true),
        (Denial::Lost(Some(holder())), "E_LOCK_NOT_HELD", true),
        (Denial::StaleToken { named: 1, current: None }, "E_FENCING_MISMATCH", false),
        (Denial::OtherIssuer { named: 1, holder: holder() }, "E_FENCING_MISMATCH", true),
        (Denial::NotStale(holder()), "E_NOT_STALE", true),
        (Denial::Kept, "E_NOT_STALE", false),
    ] {
        assert_eq!(denial.code(), code, "{denial:?}");
        assert_eq!(denial.holder().is_some(), names_holder, "{denial:?}");
    }
}

// Freezes: kept like a hold with an owner part.

fn freeze(ttl_sec: Option<u64>, reason: Option<&str>) -> Intent {
    Intent::Freeze(Terms { ttl_sec, reason: reason.map(Into::into) })
}

/// Asks to freeze a name of which an old program keeps `legacy` among the locks.
fn freeze_beside(slot: Slot<'_>, legacy: &Hold, me: &Identity) -> Decision {
    let legacy = Holder { hold: legacy.clone(), liveness: Liveness::Unknown, elapsed: Elapsed::of(legacy, &now(), me) };
    let facts = Facts {
        slot,
        liveness: Liveness::Unknown,
        elapsed: Elapsed::NOTHING,
        frozen: Some(Freeze::Known(&legacy)),
        line: Line::default(),
        fresh_id: &fresh_id(),
        now: now(),
    };
    decide(&freeze(Some(60), None), facts, me, &Policy::NAMED)
}

#[test]
fn a_freeze_of_ones_own_that_an_old_program_kept_does_not_stand_in_the_way_of_a_new_one() {
    let legacy = Hold { parts: None, token: None, boot_id: None, pulse: None, ..stored("alice") };
    let next = next_of(freeze_beside(Slot::Free, &legacy, &asker("alice")));
    assert_eq!((next.lock_id, next.token), (fresh_id(), None), "it is a freeze of its own");
    let refused = freeze_beside(Slot::Free, &legacy, &asker("bob"));
    assert!(matches!(refused, Decision::Deny(Denial::Frozen(Some(_)))), "another's stands: {refused:?}");
}

#[test]
fn an_extension_counts_from_now_and_may_be_shorter_longer_or_without_end() {
    let me = asker("alice");
    let old = Hold { token: None, ..hold_with(None, Some(Some(60))) };
    for ttl_sec in [Some(20), Some(600), None, Some(0)] {
        let next = next_of(ask(&old, &freeze(ttl_sec, None), Liveness::Unknown, now(), &me));
        let lease = ttl_sec.filter(|ttl| *ttl > 0);
        let left = lease.map(|ttl| ttl * 1000);
        assert_eq!(Elapsed::of(&next, &now(), &me).left_ms(), left, "{ttl_sec:?} counts from now, by the boot's clock");
        assert_eq!(
            next.ttl_sec,
            lease.map_or(0, |ttl| i64::try_from(ttl).expect("a short one")),
            "the top level agrees"
        );
        assert_eq!(next.expires_at.is_some(), lease.is_some(), "{ttl_sec:?}");
        assert_eq!((&next.lock_id, next.held_since), (&old.lock_id, old.held_since), "it is the same freeze");
        assert_eq!(parts_of(&next).process, None, "a freeze hangs on no process");
    }
}

#[test]
fn the_reason_of_a_freeze_is_kept_until_another_is_given() {
    let me = asker("alice");
    let old = hold_with(None, Some(Some(60)));
    for (said, kept) in [(None, "nightly build"), (Some("incident"), "incident"), (Some(""), "")] {
        let next = next_of(ask(&old, &freeze(None, said), Liveness::Unknown, now(), &me));
        assert_eq!(next.reason.as_deref(), Some(kept), "{said:?}");
    }
    let over = hold_with(None, Some(Some(5)));
    let anew = next_of(ask(&over, &freeze(None, None), Liveness::Unknown, now(), &me));
    assert_eq!(anew.reason, None, "what was over is another freeze");
    assert_eq!(anew.lock_id, fresh_id(), "with an id of its own");
}

#[test]
fn a_freeze_never_has_a_token_or_a_pulse_whatever_was_there() {
    let me = asker("alice");
    let nameless = Hold { lock_id: LockId::default(), ..hold_with(None, Some(None)) };
    for old in [hold_with(Some(None), None), hold_with(Some(Some(60)), Some(Some(60))), nameless] {
        let next = next_of(ask(&old, &freeze(Some(60), None), Liveness::Alive, now(), &me));
        assert_eq!((next.token, next.pulse), (None, None), "a record that was put there by hand gives neither away");
        assert!(!next.lock_id.is_empty(), "and it has an id, by which the log can name it");
    }
}

#[test]
fn a_freeze_outlives_its_boot_by_the_wall_clock() {
    let me = asker("alice");
    let frozen = next_of(ask(&hold_with(None, Some(Some(5))), &freeze(Some(60), None), Liveness::Gone, now(), &me));
    let rebooted = Identity { boot_id: Some("boot-2".into()), ..asker("bob") };
    for (wall, over) in [("2026-11-15T18:00:30Z", false), ("2026-11-15T18:01:30Z", true)] {
        let later = Moment { wall: at(wall), monotonic_ms: 1_000, boottime_ms: 1_000 };
        assert_eq!(Elapsed::of(&frozen, &later, &rebooted).is_expired(), over, "after a reboot, at {wall}");
    }
}
