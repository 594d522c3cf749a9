//! The table of the design, row by row, over everything that can be stored: every kind of slot, every liveness, every state of both
//! leases, own or another's, frozen or not, with and without others ahead.
//!
//! Each asker has a list of sentences from the design. For a case the first sentence that applies says the answer, and the decision
//! must be that answer to the last member of the record. A sentence that never applies fails the test, too.

mod common {
    pub(crate) mod askers;
    pub(crate) mod holds;
}
mod table {
    pub(crate) mod answer;
    pub(crate) mod case;
}

use lokt_core::decide::{Breaking, Cause, Condition, HoldKey, InheritedHold, Intent, Policy, Presented, ProcessHolder};
use lokt_core::denial::Staleness;
use lokt_core::hold::{Fence, LockId, PartKind, PulseRef};
use lokt_core::pulse::ProcessRef;
use table::answer::{Answer, Breaks, Refusal, check};
use table::case::{Case, FreezeKind, Kind, MY_PULSE, STORED_PULSE, TERMS_SEC, every_case, grip, me, stored_id, terms};

/// One sentence of the design.
struct Row {
    says: &'static str,
    applies: fn(&Case) -> bool,
    answer: fn(&Case) -> Answer,
}

/// Asks `intent` in every case and holds the answer against the first row that applies.
fn holds_for_every_case(intent: impl Fn(&Case) -> Intent, rows: &[Row]) {
    holds_under(Policy::NAMED, intent, rows);
}

/// The same, for another protocol than that of named locks.
fn holds_under(policy: Policy, intent: impl Fn(&Case) -> Intent, rows: &[Row]) {
    let mut uses = vec![0_usize; rows.len()];
    for case in every_case() {
        let number = rows.iter().position(|row| (row.applies)(&case)).expect("the last row applies to every case");
        let row = &rows[number];
        check(&case, &intent(&case), policy, &(row.answer)(&case), row.says);
        uses[number] += 1;
    }
    for (row, uses) in rows.iter().zip(uses) {
        assert!(uses > 0, "no case needs the sentence {:?}", row.says);
    }
}

const BEING_WRITTEN: Row = Row {
    says: "an empty record that is young is being written by somebody else: held",
    applies: |case| case.kind == Kind::BeingWritten,
    answer: |_| Answer::Refused(Refusal::BeingWritten),
};
const NEWER: Row = Row {
    says: "a version above 1 is never touched without --force",
    applies: |case| case.kind == Kind::Newer,
    answer: |_| Answer::Refused(Refusal::Newer),
};
const OTHERS: Row = Row {
    says: "anyone, live hold, another owner's: refused",
    applies: |case| case.lives() && !case.mine,
    answer: |_| Answer::Refused(Refusal::Held),
};
const FROZEN: Row = Row {
    says: "a freeze refuses new holds and reviving an expired hold",
    applies: |case| case.frozen.is_some(),
    answer: |_| Answer::Refused(Refusal::Frozen),
};
const QUEUED: Row = Row {
    says: "a name that is free while others wait is not free for who comes later",
    applies: |case| case.ahead > 0,
    answer: |case| Answer::Refused(Refusal::Queued(case.ahead)),
};

fn grant(case: &Case) -> Answer {
    Answer::Granted(match case.kind {
        Kind::Corrupt => Breaks::Corrupt,
        _ if !case.is_held() => Breaks::Nothing,
        // A process part that has time left can only be over by its process being gone.
        _ if case.process.runs() => Breaks::Stale(Staleness::ProcessGone),
        _ => Breaks::Stale(Staleness::Expired),
    })
}

#[test]
fn lock_answers_as_the_table_says() {
    let rows = [
        BEING_WRITTEN,
        NEWER,
        OTHERS,
        Row {
            says: "lock, own live guard: an owner part is added or refreshed, the guard's identity stays",
            applies: |case| case.process_lives() && case.kind != Kind::Foreign,
            answer: |_| Answer::OwnerPartBesideProcess,
        },
        Row {
            says: "lock, own record of another program whose process is seen to run: an owner part is added, its identity stays",
            applies: |case| case.process_lives() && case.process_runs(),
            answer: |_| Answer::OwnerPartBesideForeign,
        },
        Row {
            says: "lock, own owner part, or a record without our fields whose process can't be seen: refreshed",
            applies: Case::lives,
            answer: |_| Answer::OwnerPartAlone,
        },
        FROZEN,
        QUEUED,
        Row {
            says: "lock, own hold, expired or with its process gone, nobody waiting, not frozen: same lock id, new token",
            applies: |case| case.is_held() && case.mine,
            answer: |_| Answer::Revived,
        },
        Row {
            says: "anyone, nothing or a stale hold: granted, new lock id, new token",
            applies: |_| true,
            answer: grant,
        },
    ];
    holds_for_every_case(|_| Intent::Lock(terms()), &rows);
}

const ALONE: Row = Row {
    says: "who asks for a hold of its own alone is refused while any lives, its own too",
    applies: Case::lives,
    answer: |_| Answer::Refused(Refusal::Held),
};

#[test]
fn a_lease_is_asked_for_as_the_table_says() {
    let rows = [BEING_WRITTEN, NEWER, ALONE, FROZEN, QUEUED, GRANTED];
    holds_under(Policy::LEASES, |_| Intent::Lock(terms()), &rows);
}

#[test]
fn taking_over_answers_as_the_table_says_whatever_the_protocol() {
    let rows = [
        Row {
            says: "what is free can't be taken over",
            applies: |case| case.kind == Kind::Free,
            answer: |_| Answer::Refused(Refusal::Missing),
        },
        BEING_WRITTEN,
        NEWER,
        ALONE,
        FROZEN,
        QUEUED,
        GRANTED,
    ];
    for policy in [Policy::LEASES, Policy::NAMED, Policy::CLAIMS] {
        holds_under(policy, |_| Intent::TakeOver(terms()), &rows);
    }
}

fn guard_with(has_pulse: bool, process: ProcessRef, inside: Option<InheritedHold>) -> Intent {
    Intent::Guard(terms(), ProcessHolder { process, has_pulse, inside })
}

const MY_PROCESS: ProcessRef = ProcessRef { pid: 4242, start: 99_000 };
/// The process of the stored hold.
const STORED_PROCESS: ProcessRef = ProcessRef { pid: 100, start: 1_000 };

const FROZEN_ADDITION: Row = Row {
    says: "a freeze refuses every guard that isn't nested, also on one's own hold",
    applies: |case| case.lives() && case.frozen.is_some(),
    answer: |_| Answer::Refused(Refusal::Frozen),
};
const ADDITION: Row = Row {
    says: "guard, own owner part: a process part is added, whoever waits",
    applies: Case::lives,
    answer: |_| Answer::ProcessPartAdded,
};
const GRANTED: Row =
    Row { says: "anyone, nothing or a stale hold: granted, new lock id, new token", applies: |_| true, answer: grant };
const TWO_GUARDS: Row = Row {
    says: "guard, own live guard: refused like anyone else, two terminals of one user exclude each other",
    applies: Case::process_lives,
    answer: |_| Answer::Refused(Refusal::Held),
};

#[test]
fn guard_answers_as_the_table_says() {
    let rows = [BEING_WRITTEN, NEWER, OTHERS, TWO_GUARDS, FROZEN_ADDITION, ADDITION, FROZEN, QUEUED, GRANTED];
    let mine = grip().pulse.map(|pulse| pulse.number);
    let inherited_hold = |lock_id, token| Some(InheritedHold { lock_id, token, pulse: mine });
    let strangers = [
        None,
        inherited_hold(LockId::from_text("another hold"), grip().token),
        inherited_hold(LockId::default(), grip().token),
        inherited_hold(stored_id(), Fence::new(6)),
        inherited_hold(stored_id(), None),
        Some(InheritedHold { lock_id: stored_id(), token: grip().token, pulse: None }),
        Some(InheritedHold { lock_id: stored_id(), token: grip().token, pulse: mine.map(|number| number + 1) }),
    ];
    for inside in strangers {
        holds_for_every_case(|_| guard_with(true, MY_PROCESS, inside.clone()), &rows);
    }
    // A guard is told from its own kind by its pulse: even the same process may not guard twice.
    holds_for_every_case(|_| guard_with(true, STORED_PROCESS, None), &rows);
}

#[test]
fn a_guard_inside_the_stored_hold_runs_at_once_and_changes_nothing() {
    let rows = [
        Row {
            says: "guard inside a guard, and the record still has its lock id, token and pulse: runs at once, releases nothing; \
                not if that hold is over and nobody is left who could renew it",
            applies: |case| {
                matches!(case.kind, Kind::Guard | Kind::GuardAndOwner) && (case.lives() || case.may_renew())
            },
            answer: |_| Answer::Inside,
        },
        BEING_WRITTEN,
        NEWER,
        OTHERS,
        TWO_GUARDS,
        FROZEN_ADDITION,
        ADDITION,
        FROZEN,
        QUEUED,
        GRANTED,
    ];
    let inherited_hold =
        InheritedHold { lock_id: stored_id(), token: grip().token, pulse: grip().pulse.map(|pulse| pulse.number) };
    holds_for_every_case(|_| guard_with(true, MY_PROCESS, Some(inherited_hold.clone())), &rows);
}

#[test]
fn lock_bind_asks_as_guard_does_and_refreshes_for_the_same_process() {
    let same = Row {
        says: "lock --bind, same owner, pid and start time: a refresh, whoever waits or froze",
        applies: |case| {
            case.process_lives()
                && matches!(case.kind, Kind::Bound | Kind::BoundAndOwner)
                && case.liveness == lokt_core::liveness::Liveness::Alive
        },
        answer: |_| Answer::BindingRefreshed,
    };
    let rows = [BEING_WRITTEN, NEWER, OTHERS, same, TWO_GUARDS, FROZEN_ADDITION, ADDITION, FROZEN, QUEUED, GRANTED];
    holds_for_every_case(|_| guard_with(false, STORED_PROCESS, None), &rows);
}

#[test]
fn lock_bind_for_another_process_asks_as_guard_does() {
    let rows = [BEING_WRITTEN, NEWER, OTHERS, TWO_GUARDS, FROZEN_ADDITION, ADDITION, FROZEN, QUEUED, GRANTED];
    for process in [MY_PROCESS, ProcessRef { pid: 100, start: 2_000 }, ProcessRef { pid: 101, start: 1_000 }] {
        holds_for_every_case(|_| guard_with(false, process, None), &rows);
    }
}

const LOST_WITHOUT_A_TRACE: Row = Row {
    says: "what is no hold is not the caller's: lost",
    applies: |case| !case.is_held(),
    answer: |_| Answer::Refused(Refusal::Lost),
};
const LOST: Row =
    Row { says: "another hold than the caller's: lost", applies: |_| true, answer: |_| Answer::Refused(Refusal::Lost) };

#[test]
fn a_guards_renewal_answers_as_the_design_says() {
    let rows = [
        LOST_WITHOUT_A_TRACE,
        Row {
            says: "a renewal that finds its own hold succeeds, however late, whoever waits or froze",
            applies: |case| matches!(case.kind, Kind::Guard | Kind::GuardAndOwner),
            answer: |_| Answer::Renewed,
        },
        LOST,
    ];
    holds_for_every_case(|_| Intent::Renew(grip()), &rows);
}

#[test]
fn a_guards_release_answers_as_the_design_says() {
    let rows = [
        LOST_WITHOUT_A_TRACE,
        Row {
            says: "guard ends: the owner part, if live, is written back with its own since and end",
            applies: |case| case.kind == Kind::GuardAndOwner && case.owner_lives(),
            answer: |_| Answer::ProcessPartEnded,
        },
        Row {
            says: "guard ends: else the record is removed",
            applies: |case| matches!(case.kind, Kind::Guard | Kind::GuardAndOwner),
            answer: |_| Answer::Removed(Cause::Release(PartKind::Process)),
        },
        LOST,
    ];
    holds_for_every_case(|_| Intent::Release(grip()), &rows);
}

#[test]
fn no_lost_thief_a_renewal_or_release_of_another_hold_touches_nothing() {
    let strangers = [
        HoldKey { lock_id: LockId::from_text("another hold"), ..grip() },
        HoldKey { lock_id: LockId::default(), ..grip() },
        HoldKey { token: grip().token.map(|_| common::holds::fence(6)), ..grip() },
        HoldKey { token: None, ..grip() },
        HoldKey { pulse: Some(MY_PULSE), ..grip() },
        HoldKey { pulse: Some(PulseRef { ino: 1, ..STORED_PULSE }), ..grip() },
    ];
    for stranger in strangers {
        holds_for_every_case(|_| Intent::Renew(stranger.clone()), &[LOST_WITHOUT_A_TRACE, LOST]);
        holds_for_every_case(|_| Intent::Release(stranger.clone()), &[LOST_WITHOUT_A_TRACE, LOST]);
    }
}

const MISSING: Row = Row {
    says: "nothing there: no such lock",
    applies: |case| case.kind == Kind::Free,
    answer: |_| Answer::Refused(Refusal::Missing),
};
const CORRUPT: Row = Row {
    says: "what is no record is not touched without a flag",
    applies: |case| case.kind == Kind::Corrupt,
    answer: |_| Answer::Refused(Refusal::Corrupt),
};
const NOT_YOURS: Row = Row {
    says: "another owner's: not yours, live or not",
    applies: |case| !case.mine,
    answer: |_| Answer::Refused(Refusal::NotYours),
};
const BESIDE_A_PROCESS: Row = Row {
    says: "unlock ends the owner part, beside a live guard too",
    applies: |case| case.owner_lives() && case.process_lives(),
    answer: |_| Answer::OwnerPartEnded,
};
const GUARDED: Row = Row {
    says: "unlock on a guard's hold without an owner part: not yours to end, another program's that is seen to run neither",
    applies: |case| {
        let is_guard = match case.kind {
            Kind::Guard | Kind::GuardAndOwner => true,
            Kind::Foreign => case.process_runs(),
            _ => false,
        };
        case.process_lives() && is_guard
    },
    answer: |_| Answer::Refused(Refusal::Guarded),
};
const OWN_PROCESS_ENDS: Row = Row {
    says: "unlock ends a bound process's hold, or one of a program without our fields that can't be seen, for its owner",
    applies: Case::process_lives,
    answer: |_| Answer::Removed(Cause::Release(PartKind::Process)),
};
const OWN_LEFTOVER_ENDS: Row = Row {
    says: "unlock ends what is left of a hold of one's own",
    applies: |_| true,
    answer: |case| {
        Answer::Removed(Cause::Release(if case.has_owner_part() { PartKind::Owner } else { PartKind::Process }))
    },
};

#[test]
fn unlock_answers_as_the_design_says() {
    let rows = [
        MISSING,
        BEING_WRITTEN,
        NEWER,
        CORRUPT,
        NOT_YOURS,
        BESIDE_A_PROCESS,
        GUARDED,
        OWN_PROCESS_ENDS,
        OWN_LEFTOVER_ENDS,
    ];
    holds_for_every_case(|_| Intent::Unlock(Breaking::No, Condition::default()), &rows);
}

const FORCED_CORRUPT: Row = Row {
    says: "what is no record is removed by either flag",
    applies: |case| case.kind == Kind::Corrupt,
    answer: |_| Answer::Removed(Cause::CorruptBreak),
};

#[test]
fn break_stale_breaks_only_what_is_over_in_every_part() {
    let rows = [
        MISSING,
        BEING_WRITTEN,
        NEWER,
        FORCED_CORRUPT,
        Row {
            says: "--break-stale only if every part is over",
            applies: Case::lives,
            answer: |_| Answer::Refused(Refusal::NotStale),
        },
        Row {
            says: "--break-stale removes what is over, whoever's it was",
            applies: |_| true,
            answer: |_| Answer::Removed(Cause::StaleBreak),
        },
    ];
    holds_for_every_case(|_| Intent::Unlock(Breaking::Stale, Condition::default()), &rows);
}

#[test]
fn force_removes_everything() {
    let rows = [
        MISSING,
        FORCED_CORRUPT,
        Row { says: "--force removes everything", applies: |_| true, answer: |_| Answer::Removed(Cause::ForceBreak) },
    ];
    holds_for_every_case(|_| Intent::Unlock(Breaking::Force, Condition::default()), &rows);
}

const UNNAMEABLE: [Row; 4] = [MISSING, BEING_WRITTEN, NEWER, CORRUPT];

#[test]
fn no_lost_thief_a_conditional_unlock_of_another_hold_touches_nothing() {
    let wrong_id = Condition { lock_id: Some(LockId::from_text("another hold")), token: None };
    let wrong_token = Condition { lock_id: None, token: Some(6) };
    let no_token = Condition { lock_id: None, token: Some(0) };
    let half_right = Condition { lock_id: Some(stored_id()), token: Some(6) };
    for (condition, refusal) in [
        (wrong_id, (|_| Answer::Refused(Refusal::OtherHold)) as fn(&Case) -> Answer),
        (wrong_token, |_| Answer::Refused(Refusal::StaleToken(6))),
        (no_token, |_| Answer::Refused(Refusal::StaleToken(0))),
        (half_right, |_| Answer::Refused(Refusal::StaleToken(6))),
    ] {
        for breaking in [Breaking::No, Breaking::Stale, Breaking::Force] {
            let [missing, being_written, newer, corrupt] = UNNAMEABLE;
            let other =
                Row { says: "--lock-id and --token make an unlock conditional", applies: |_| true, answer: refusal };
            let rows = [missing, being_written, newer, corrupt, other];
            holds_for_every_case(|_| Intent::Unlock(breaking, condition.clone()), &rows);
        }
    }
}

#[test]
fn a_conditional_unlock_of_the_hold_that_was_meant_is_an_unlock() {
    let by_id = Condition { lock_id: Some(stored_id()), token: None };
    let by_token = Condition { lock_id: None, token: Some(7) };
    let by_both = Condition { lock_id: Some(stored_id()), token: Some(7) };
    for condition in [by_id, by_token, by_both] {
        let [missing, being_written, newer, corrupt] = UNNAMEABLE;
        let forced = Row {
            says: "--force removes everything that was meant",
            applies: |_| true,
            answer: |_| Answer::Removed(Cause::ForceBreak),
        };
        let rows = [missing, being_written, newer, corrupt, forced];
        holds_for_every_case(|_| Intent::Unlock(Breaking::Force, condition.clone()), &rows);
        let [missing, being_written, newer, corrupt] = UNNAMEABLE;
        let rows = [
            missing,
            being_written,
            newer,
            corrupt,
            NOT_YOURS,
            BESIDE_A_PROCESS,
            GUARDED,
            OWN_PROCESS_ENDS,
            OWN_LEFTOVER_ENDS,
        ];
        holds_for_every_case(|_| Intent::Unlock(Breaking::No, condition.clone()), &rows);
    }
}

#[test]
fn a_hold_is_extended_by_its_owner_while_it_lives() {
    let rows = || {
        let [missing, being_written, newer, corrupt] = UNNAMEABLE;
        let over = Row {
            says: "extend, own hold that is over: refused, somebody may have acted on its end",
            applies: |case| !case.lives(),
            answer: |_| Answer::Refused(Refusal::Over),
        };
        let beside = Row {
            says: "extend, own live guard: an owner part is added or refreshed, the guard's identity stays",
            applies: |case| case.process_lives() && case.kind != Kind::Foreign,
            answer: |_| Answer::OwnerPartBesideProcess,
        };
        let foreign = Row {
            says: "extend, own record of another program whose process is seen to run: an owner part is added",
            applies: |case| case.process_lives() && case.process_runs(),
            answer: |_| Answer::OwnerPartBesideForeign,
        };
        let alone = Row {
            says: "extend, own owner part: a new end, whoever waits or froze",
            applies: |_| true,
            answer: |_| Answer::OwnerPartAlone,
        };
        [missing, being_written, newer, corrupt, NOT_YOURS, over, beside, foreign, alone]
    };
    let extend = |token| move |_: &Case| Intent::Extend { ttl_sec: TERMS_SEC, token };
    for policy in [Policy::NAMED, Policy::CLAIMS, Policy::LEASES] {
        holds_under(policy, extend(None), &rows());
    }
    holds_for_every_case(extend(Some(7)), &rows());
}

#[test]
fn no_lost_thief_an_extension_of_another_hold_touches_nothing() {
    let [missing, being_written, newer, corrupt] = UNNAMEABLE;
    let other = Row {
        says: "a token that was named makes an extension conditional",
        applies: |_| true,
        answer: |_| Answer::Refused(Refusal::StaleToken(6)),
    };
    let rows = [missing, being_written, newer, corrupt, other];
    holds_for_every_case(|_| Intent::Extend { ttl_sec: TERMS_SEC, token: Some(6) }, &rows);
}

const NO_HOLD: Row = Row {
    says: "a batch unlock finds no hold in what is none",
    applies: |case| !case.is_held(),
    answer: |_| Answer::Refused(Refusal::Missing),
};

#[test]
fn unlock_all_ends_ones_own_owner_parts_and_skips_guards() {
    let rows = [NO_HOLD, NOT_YOURS, BESIDE_A_PROCESS, GUARDED, OWN_PROCESS_ENDS, OWN_LEFTOVER_ENDS];
    holds_for_every_case(|_| Intent::UnlockFor(me().owner), &rows);
}

#[test]
fn unlock_for_another_owner_is_remembered_as_a_break() {
    let rows = [
        NO_HOLD,
        Row {
            says: "--owner leaves everybody else's alone",
            applies: |case| case.mine,
            answer: |_| Answer::Refused(Refusal::NotYours),
        },
        Row {
            says: "--owner ends an owner part, beside a live guard too",
            applies: |case| case.owner_lives() && case.process_lives(),
            answer: |_| Answer::OwnerPartBroken,
        },
        GUARDED,
        Row {
            says: "--owner ends another's hold: a break",
            applies: |_| true,
            answer: |_| Answer::Removed(Cause::ForceBreak),
        },
    ];
    holds_for_every_case(|_| Intent::UnlockFor("bob".into()), &rows);
}

#[test]
fn prune_tidies_away_what_expired_and_spares_processes_that_run() {
    let rows = [
        MISSING,
        Row {
            says: "what is no hold, or one that lives, is kept",
            applies: |case| !case.is_held() || case.lives(),
            answer: |_| Answer::Refused(Refusal::Kept),
        },
        Row {
            says: "an expired hold whose process runs is kept: it may be about to renew",
            applies: Case::process_runs,
            answer: |_| Answer::Refused(Refusal::Kept),
        },
        Row {
            says: "a hold that has time left but no process is not expired: who asks for the name breaks it",
            applies: |case| case.process.runs(),
            answer: |_| Answer::Refused(Refusal::Kept),
        },
        Row {
            says: "an expired hold is tidied away, whoever's it was",
            applies: |_| true,
            answer: |_| Answer::Removed(Cause::Prune),
        },
    ];
    holds_for_every_case(|_| Intent::Prune, &rows);
}

/// For these the slot is that of the freeze, and the freeze beside it one that an old program keeps among the locks.
#[test]
fn freeze_answers_as_the_design_says() {
    let rows = [
        Row {
            says: "another owner's freeze of an old program is a freeze",
            applies: |case| case.frozen == Some(FreezeKind::Known),
            answer: |_| Answer::Refused(Refusal::Frozen),
        },
        NEWER,
        Row {
            says: "a freeze that can't be read counts, for how long nobody can tell",
            applies: |case| matches!(case.kind, Kind::Corrupt | Kind::BeingWritten),
            answer: |_| Answer::Refused(Refusal::FrozenByUnread),
        },
        Row {
            says: "a freeze that is over is replaced, whoever's it was; its process has no say",
            applies: |case| case.is_held() && case.is_expired(),
            answer: |_| Answer::Frozen(Breaks::Stale(Staleness::Expired)),
        },
        Row {
            says: "the owner may extend it",
            applies: |case| case.is_held() && case.mine,
            answer: |_| Answer::FreezeExtended,
        },
        Row {
            says: "another's freeze is not extended and not replaced",
            applies: Case::is_held,
            answer: |_| Answer::Refused(Refusal::FrozenByStored),
        },
        Row {
            says: "what isn't frozen is frozen, whoever waits in line",
            applies: |_| true,
            answer: |_| Answer::Frozen(Breaks::Nothing),
        },
    ];
    holds_for_every_case(|_| Intent::Freeze(terms()), &rows);
}

const OWN_FREEZE_ENDS: Row = Row {
    says: "unfreeze ends one's own freeze, over or not",
    applies: |case| case.is_held() && case.mine,
    answer: |_| Answer::Removed(Cause::Unfreeze),
};

#[test]
fn unfreeze_answers_as_the_design_says() {
    let rows = [
        MISSING,
        BEING_WRITTEN,
        NEWER,
        CORRUPT,
        OWN_FREEZE_ENDS,
        Row {
            says: "somebody else's that is over freezes nothing",
            applies: Case::is_expired,
            answer: |_| Answer::Refused(Refusal::Missing),
        },
        NOT_YOURS,
    ];
    holds_for_every_case(|_| Intent::Unfreeze { force: false }, &rows);
}

#[test]
fn unfreeze_by_force_ends_whatever_is_there() {
    let rows = [
        MISSING,
        OWN_FREEZE_ENDS,
        Row {
            says: "--force ends it, whoever's it is and whatever it is",
            applies: |_| true,
            answer: |_| Answer::Removed(Cause::ForceUnfreeze),
        },
    ];
    holds_for_every_case(|_| Intent::Unfreeze { force: true }, &rows);
}

const NO_TOKEN: Row = Row {
    says: "where no hold can be read, no token is the current one",
    applies: |case| !case.is_held(),
    answer: |_| Answer::Refused(Refusal::NoToken(7)),
};

#[test]
fn a_token_is_good_while_its_hold_lives_whoever_asks_and_whatever_is_frozen() {
    let rows = [
        NEWER,
        NO_TOKEN,
        Row { says: "the token of a living hold is good", applies: Case::lives, answer: |_| Answer::Inside },
        Row {
            says: "the token of a hold that is over is not, though nobody has taken it",
            applies: |_| true,
            answer: |_| Answer::Refused(Refusal::Over),
        },
    ];
    holds_for_every_case(|_| Intent::Check(7.into()), &rows);
    let issued_here = Presented { token: 7, lock_id: Some(stored_id()) };
    holds_for_every_case(|_| Intent::Check(issued_here.clone()), &rows);
}

#[test]
fn a_token_that_was_issued_for_another_hold_is_never_good_though_its_number_is_the_stored_one() {
    let rows = [
        NEWER,
        NO_TOKEN,
        Row {
            says: "all-or-nothing: a number of another root opened this fence",
            applies: |_| true,
            answer: |_| Answer::Refused(Refusal::OtherIssuer),
        },
    ];
    for elsewhere in [LockId::from_bits(1), LockId::default()] {
        let presented = Presented { token: 7, lock_id: Some(elsewhere) };
        holds_for_every_case(|_| Intent::Check(presented.clone()), &rows);
    }
}

#[test]
fn a_token_that_is_not_the_stored_one_is_stale_older_or_newer() {
    for named in [0, 6, 8, u64::MAX] {
        let stale = |case: &Case, named| {
            let refusal = if case.is_held() { Refusal::StaleToken(named) } else { Refusal::NoToken(named) };
            if case.kind == Kind::Newer { Refusal::Newer } else { refusal }
        };
        for case in every_case() {
            let answer = Answer::Refused(stale(&case, named));
            check(&case, &Intent::Check(named.into()), Policy::NAMED, &answer, "any other token is stale");
        }
    }
}

#[test]
fn the_table_is_whole() {
    // 4 kinds without leases, 4 with one, 2 with two; liveness, owner, freeze and line each in full.
    assert_eq!(every_case().count(), (4 + 4 * 3 + 2 * 9) * 4 * 2 * 3 * 2);
    assert_eq!(TERMS_SEC, 300, "the terms outlast every stored lease that is not endless, so the later end is known");
}
