//! **no-overwrite**: an append is killed at, or delayed before, each of its system calls, beside other programs. No acknowledged event is
//! lost, no number is missing, no event is torn, and the next append works at once.

use std::thread;
use std::time::Duration;

use lokt_testkit::chronicle::{Ack, Chronicle, Deed, note, number_of, said};
use lokt_testkit::strace::delayed_at;
use lokt_testkit::swarm::{in_parallel, pause};

use crate::common::LOKT;

/// How many windows are open at a time; most of that time is sleep.
const AT_ONCE: usize = 8;
/// How long an append is held up. The others need some 50 ms.
const DELAY_MS: u64 = 400;

/// The documented recipe: `mkdir`, count, `mktemp`, `mv`, `rmdir`. Prints the number.
const RECIPE: &str = r#"
    tries=0
    until mkdir ledger/ledger.lock 2> /dev/null; do
        tries=$((tries + 1)); [ $tries -lt 1000 ] || exit 75; sleep 0.01
    done
    next=$(ls ledger/event-*.json 2> /dev/null | wc -l)
    next=$((next + 1))
    temp=$(mktemp ledger/.event-XXXXX.tmp)
    printf '{"type":"note","timestamp":"2026-01-01T00:00:00Z","text":"recipe"}' > "$temp"
    mv "$temp" "ledger/event-$(printf '%06d' $next).json"
    rmdir ledger/ledger.lock
    echo $next"#;

const APPEND: Deed = Deed {
    title: "append",
    prepare: |_| {},
    args: &["ledger", "append", r#"{"type":"note","text":"x"}"#, "--json"],
    takes_over: false,
};

#[test]
fn an_append_killed_at_any_system_call_loses_nothing_and_the_next_works_at_once() {
    lokt_testkit::need!("strace");
    APPEND.is_killed_at_each_call(LOKT, AT_ONCE);
}

#[test]
fn an_append_delayed_at_any_system_call_and_everybody_elses_are_there_exactly_once() {
    lokt_testkit::need!("strace");
    in_parallel(AT_ONCE, APPEND.calls(LOKT), |call| {
        let context = format!("append delayed at {}#{}", call.name, call.nth);
        let chronicle = Chronicle::new(LOKT, &[], 2);
        let place = &chronicle.place;
        let acks = thread::scope(|scope| {
            let late = scope.spawn(|| delayed_at(place, "a", APPEND.args, &call, DELAY_MS));
            pause(Duration::from_millis(DELAY_MS / 4));
            let recipe = scope.spawn(|| place.run_words("shell", &["sh", "-c", RECIPE]));
            let chained = note("chained");
            let chained = scope.spawn(move || place.run("b", &["ledger", "append", "--json", "--chain", &chained]));
            let mut acks = vec![chronicle.append("plain-1"), chronicle.append("plain-2")];
            for (ended, text) in [(late.join(), "x"), (chained.join(), "chained")] {
                let ended = ended.expect("it ran");
                assert_eq!(ended.code, Some(0), "{context}: {text} is acknowledged: {ended:?}");
                acks.push(Ack { number: number_of(&ended), text: said(text) });
            }
            let recipe = recipe.join().expect("it ran");
            assert_eq!(recipe.code, Some(0), "{context}: the other program gets in: {recipe:?}");
            let number = recipe.stdout.trim().parse().expect("it prints its number");
            acks.push(Ack { number, text: said("recipe") });
            acks
        });
        assert_eq!(chronicle.events(&context).len(), 7, "{context}: each is there once");
        chronicle.keeps(&acks, &context);
        chronicle.is_free(&context);
        chronicle.is_sound(&context);
    });
}

/// Two writers were stopped, one after the other, and each of their numbers is filled.
#[test]
fn a_filler_that_doctor_left_is_not_taken_for_that_of_the_next_stopped_writer() {
    let chronicle = Chronicle::new(LOKT, &[], 2);
    chronicle.leave_stale_lock();
    let first_target = 3;
    let fixed = chronicle.run("doctor", &["ledger", "doctor", "--fix"]);
    assert_eq!(fixed.code, Some(0), "the lock is taken over: {fixed:?}");
    chronicle.is_free("after doctor");
    let second_target = chronicle.events("after doctor").len() as u64 + 1;
    assert!(second_target > first_target, "the first writer's number is filled");
    chronicle.leave_stale_lock();
    let ours = chronicle.append("ours");
    assert!(ours.number > second_target, "the second writer's number is filled, too: {ours:?}");
    for target in [first_target, second_target] {
        chronicle.comes_back(target);
    }
    chronicle.keeps(&[ours], "both came back");
    chronicle.is_sound("both came back");
}
