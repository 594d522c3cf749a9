//! Who gets a lease, who keeps it and who ends it: every question, asked of everything that can be stored.

use lokt_core::decide::{Broken, Cause};
use lokt_core::denial::{Denial, Staleness};
use lokt_core::hold::{LockId, PartKind, PulseRef};
use lokt_core::lease::deciding::{Answer, Ask, Stored, ask};
use lokt_core::lease::evidence::{Clues, judge};
use lokt_core::lease::record::{Binding, Record, owner_of};
use lokt_core::liveness::Liveness;

use super::one::{NONCE, SESSION, later, leased, neighbour, run_lease};

/// An answer in few words.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Granted(Option<Broken>),
    Renewed,
    Ended(Cause),
    Current,
    No(&'static str),
}

const FREE: Stored<'static> = Stored::Free;
const STALE: Option<Broken> = Some(Broken::Stale(Staleness::Expired));

fn answer(question: Ask<'_>, stored: Stored<'_>) -> Said {
    match ask(question, stored, &LockId::from_bits(0xf2), later(0), &neighbour()) {
        Answer::Grant { broken } => Said::Granted(broken),
        Answer::Renew => Said::Renewed,
        Answer::End(cause) => Said::Ended(cause),
        Answer::Current => Said::Current,
        Answer::Deny(Denial::Held(_)) => Said::No("held"),
        Answer::Deny(Denial::BeingWritten) => Said::No("being written"),
        Answer::Deny(Denial::Missing) => Said::No("missing"),
        Answer::Deny(Denial::NotYours(_)) => Said::No("not yours"),
        Answer::Deny(Denial::Over(holder)) => Said::No(Denial::Over(holder).code()),
        Answer::Deny(Denial::StaleToken { .. }) => Said::No("stale token"),
        Answer::Deny(Denial::Corrupt { .. }) => Said::No("corrupt"),
        Answer::Deny(other) => panic!("nobody expects {other:?}"),
    }
}

/// The lease as it stands so many milliseconds after its renewal, for its own session or for others.
fn after(record: &Record, ms: u64, own: bool) -> Stored<'_> {
    let liveness = if record.binding == Some(Binding::Process) { Liveness::Alive } else { Liveness::Unknown };
    let clues = Clues { liveness, server_ms: None, seen_ms: 0, cache_ms: 0, skew_ms: None };
    Stored::Held(record, judge(record, &later(ms), &neighbour(), &clues, own))
}

const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";
const ACQUIRE: Ask<'static> = Ask::Acquire { nonce: NEW, session_id: SESSION };
const STEAL: Ask<'static> = Ask::Steal { nonce: NEW, session_id: SESSION };
const RENEW: Ask<'static> = Ask::Renew { nonce: NONCE, session_id: SESSION };
const RELEASE: Ask<'static> = Ask::Release { nonce: NONCE, session_id: SESSION };

/// Every kind of lease that can be stored: of a session, of a process with and without a pulse, of another tool.
fn every_lease() -> [Record; 4] {
    [leased(), run_lease(), Record { pulse: None, ..run_lease() }, Record { binding: None, ..leased() }]
}

#[test]
fn a_lease_is_granted_when_it_is_free_or_over() {
    assert_eq!(answer(ACQUIRE, FREE), Said::Granted(None));
    for record in every_lease() {
        assert_eq!(answer(ACQUIRE, after(&record, 0, false)), Said::No("held"));
        assert_eq!(answer(ACQUIRE, after(&record, 33_001, false)), Said::Granted(STALE), "{record:?}");
    }
}

#[test]
fn its_own_session_is_refused_while_its_lease_lives_and_gets_a_new_one_after() {
    for record in every_lease() {
        assert_eq!(answer(ACQUIRE, after(&record, 30_000, true)), Said::No("held"));
        assert_eq!(answer(ACQUIRE, after(&record, 30_001, true)), Said::Granted(STALE));
        // Even if it asked with the very nonce that is stored, which it never does.
        let same = Ask::Acquire { nonce: NONCE, session_id: SESSION };
        assert_eq!(answer(same, after(&record, 30_000, true)), Said::No("held"));
        assert_eq!(answer(same, after(&record, 30_001, true)), Said::Granted(STALE));
    }
}

#[test]
fn only_what_is_over_is_stolen() {
    assert_eq!(answer(STEAL, FREE), Said::No("missing"));
    for record in every_lease() {
        assert_eq!(answer(STEAL, after(&record, 33_000, false)), Said::No("held"));
        assert_eq!(answer(STEAL, after(&record, 33_001, false)), Said::Granted(STALE));
    }
}

#[test]
fn what_cannot_be_read_is_somebodys_until_it_has_been_for_long_enough() {
    let stored = |over| Stored::Unreadable { why: "no JSON", over };
    for question in [ACQUIRE, STEAL] {
        assert_eq!(answer(question, stored(false)), Said::No("being written"));
        assert_eq!(answer(question, stored(true)), Said::Granted(Some(Broken::Corrupt)));
    }
    for question in [RENEW, RELEASE] {
        assert_eq!(answer(question, stored(false)), Said::No("being written"));
        assert_eq!(answer(question, stored(true)), Said::No("corrupt"));
    }
    assert_eq!(answer(Ask::Check(7), stored(false)), Said::No("stale token"));
}

#[test]
fn a_lease_is_renewed_by_its_session_while_it_lives() {
    assert_eq!(answer(RENEW, FREE), Said::No("missing"));
    for record in every_lease() {
        assert_eq!(answer(RENEW, after(&record, 30_000, true)), Said::Renewed, "{record:?}");
        assert_eq!(answer(RENEW, after(&record, 30_001, true)), Said::No("E_LOCK_EXPIRED"), "{record:?}");
    }
}

#[test]
fn a_lease_is_released_by_its_session_also_when_it_is_over() {
    assert_eq!(answer(RELEASE, FREE), Said::No("missing"));
    for record in every_lease() {
        let part = if record.binding == Some(Binding::Process) { PartKind::Process } else { PartKind::Owner };
        for ms in [0, 30_001, 99_999] {
            assert_eq!(answer(RELEASE, after(&record, ms, true)), Said::Ended(Cause::Release(part)), "{record:?}");
        }
    }
}

#[test]
fn who_lacks_nonce_or_session_is_not_the_holder() {
    for record in every_lease() {
        for (nonce, session_id) in [(NEW, SESSION), (NONCE, "another"), ("", ""), (NONCE, "")] {
            for ms in [0, 30_001] {
                let stored = after(&record, ms, false);
                assert_eq!(answer(Ask::Renew { nonce, session_id }, stored), Said::No("not yours"));
                assert_eq!(answer(Ask::Release { nonce, session_id }, stored), Said::No("not yours"));
            }
        }
    }
    assert_ne!(owner_of("a:b", "c"), owner_of("a", "b:c"), "two who could be taken for one another");
    assert_ne!(owner_of("1", ":"), owner_of("1:", ""));
}

#[test]
fn a_break_ends_whatever_is_there() {
    assert_eq!(answer(Ask::Break, FREE), Said::No("missing"));
    for record in every_lease() {
        for ms in [0, 30_001, 99_999] {
            assert_eq!(answer(Ask::Break, after(&record, ms, false)), Said::Ended(Cause::ForceBreak));
        }
    }
    assert_eq!(answer(Ask::Break, Stored::Unreadable { why: "", over: false }), Said::Ended(Cause::ForceBreak));
    assert_eq!(answer(Ask::Break, Stored::Unreadable { why: "", over: true }), Said::Ended(Cause::CorruptBreak));
}

#[test]
fn a_token_is_good_while_its_lease_lives() {
    assert_eq!(answer(Ask::Check(7), FREE), Said::No("stale token"));
    for record in every_lease() {
        for (token, ms, said) in [
            (7, 30_000, Said::Current),
            (7, 30_001, Said::No("E_LOCK_EXPIRED")),
            (6, 0, Said::No("stale token")),
            (8, 0, Said::No("stale token")),
            (u64::MAX, 0, Said::No("stale token")),
        ] {
            assert_eq!(answer(Ask::Check(token), after(&record, ms, true)), said, "{token} after {ms} ms");
        }
    }
    let nameless = Record { token: None, ..leased() };
    assert_eq!(answer(Ask::Check(0), after(&nameless, 0, true)), Said::No("stale token"));
}

#[test]
fn a_lease_whose_process_is_gone_is_over_for_all() {
    let record = Record { pulse: Some(PulseRef { number: 3, dev: 66, ino: 1234 }), ..run_lease() };
    let clues = Clues { liveness: Liveness::Gone, server_ms: None, seen_ms: 0, cache_ms: 0, skew_ms: None };
    let stored = Stored::Held(&record, judge(&record, &later(0), &neighbour(), &clues, true));
    assert_eq!(answer(ACQUIRE, stored), Said::Granted(STALE));
    assert_eq!(answer(STEAL, stored), Said::Granted(STALE));
    assert_eq!(answer(RENEW, stored), Said::No("E_LOCK_EXPIRED"));
    assert_eq!(answer(Ask::Check(7), stored), Said::No("E_LOCK_EXPIRED"));
    assert_eq!(answer(RELEASE, stored), Said::Ended(Cause::Release(PartKind::Process)));
}
