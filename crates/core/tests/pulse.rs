//! Pulses as bytes: they are rewritten in place, so what was there before must never show through.

use lokt_core::pulse::{ProcessRef, Pulse};
use proptest::prelude::*;

fn any_process() -> impl Strategy<Value = ProcessRef> {
    let number = || prop_oneof![0..10_i64, any::<i64>(), Just(i64::MIN)];
    (number(), number()).prop_map(|(pid, start)| ProcessRef { pid, start })
}

fn any_offer() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![0..10_u64, any::<u64>(), Just(u64::MAX)])
}

fn any_pulse() -> impl Strategy<Value = Pulse> {
    let texts = ["\\PC{0,12}"; 5];
    let reason = prop::option::of("\\PC{0,12}");
    let comes_and_goes = (prop::option::of(any_process()), any_offer());
    (texts, reason, any_process(), any::<Option<u64>>(), comes_and_goes).prop_map(
        |([name, owner, agent_id, since, holds], reason, process, pid_ns, (command, offered_ms))| Pulse {
            version: 1,
            name,
            owner,
            agent_id,
            process,
            command,
            pid_ns,
            since,
            reason,
            holds,
            offered_ms,
        },
    )
}

/// One `pwrite` at the beginning: what was longer keeps its tail.
fn write_over(old: &[u8], new: &[u8]) -> Vec<u8> {
    let tail = old.get(new.len()..).unwrap_or_default();
    [new, tail].concat()
}

#[test]
fn an_offer_by_a_clock_that_began_anew_replaces_the_longer_one() {
    let pulse = Pulse {
        version: 1,
        name: "build".into(),
        owner: "alice".into(),
        agent_id: String::new(),
        process: ProcessRef { pid: 1, start: 2 },
        command: Some(ProcessRef { pid: 3, start: 4 }),
        pid_ns: None,
        since: "2026-01-01T00:00:00Z".into(),
        reason: None,
        holds: String::new(),
        offered_ms: Some(86_400_000),
    };
    let offered_again = Pulse { offered_ms: Some(7), ..pulse.clone() };
    let bytes = write_over(&pulse.encode(), &offered_again.encode());
    assert_eq!(Pulse::parse(&bytes), Some(offered_again), "the end of the longer offer shows through");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_pulse_that_is_rewritten_in_place_says_only_what_is_new(
        old in any_pulse(),
        rewrites in prop::collection::vec((prop::option::of(any_process()), any_offer()), 1..5),
    ) {
        let mut bytes = old.encode();
        let length = bytes.len();
        for (command, offered_ms) in rewrites {
            let new = Pulse { command, offered_ms, ..old.clone() };
            bytes = write_over(&bytes, &new.encode());
            prop_assert_eq!(Pulse::parse(&bytes), Some(new), "the old pulse shows through: {}", String::from_utf8_lossy(&bytes));
            prop_assert_eq!(bytes.len(), length, "a pulse keeps its length, so that no reader sees two of them");
        }
    }
}
