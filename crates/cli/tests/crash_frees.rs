//! **crash-frees**: when a guard and its command are gone, the next in line enters at once.

use lokt_testkit::cmd::Place;
use lokt_testkit::guarding::{CLOSES, Guarding, KEEPS, LEAVES, Relative};

use crate::child_counts::{AT_ONCE, each};
use crate::common::LOKT;

/// Who is killed first.
const ORDERS: [fn(&Relative, &Relative); 2] = [
    |guard, command| {
        guard.kill();
        command.kill();
    },
    |guard, command| {
        command.kill();
        guard.kill();
    },
];

#[test]
fn when_guard_and_command_are_killed_the_next_in_line_enters_at_once() {
    let kinds = [["--timeout", "60s"].as_slice(), &["--timeout", "60s", "--ttl", "1h"], &["--timeout", "60s", "-o"]];
    each(kinds, |flags| {
        for command in [KEEPS, CLOSES, LEAVES] {
            let place = Place::new(LOKT);
            let start = |owner: &str| Guarding::start(&place, owner, &[], &[&["x"], flags].concat(), &command);
            let mut holder = start("a");
            holder.runs();
            for (round, kill) in ORDERS.iter().enumerate() {
                let context = format!("{flags:?} {command:?} in round {round}");
                let mut waiter = start("b");
                waiter.waits();
                let (guard, child) = holder.pair(LOKT);
                let heirs = holder.children(&child);
                kill(&guard, &child);
                // Whatever keeps the pulse counts; it goes with them.
                heirs.iter().for_each(Relative::kill);
                assert!(waiter.line_within(AT_ONCE).is_some(), "crash-frees: {context}");
                assert!(!child.lives(), "child-counts: {context}: when the next one runs the last one has ended");
                holder = waiter;
            }
            assert_eq!(place.run("c", &["guard", "x", "--", "true"]).code, Some(2), "the last one holds it");
        }
    });
}

#[test]
fn a_waiter_that_is_killed_is_not_waited_for() {
    let place = Place::new(LOKT);
    let start = |owner: &str| Guarding::start(&place, owner, &[], &["x", "--timeout", "60s"], &KEEPS);
    let mut holder = start("a");
    holder.runs();
    let mut line: Vec<Guarding> = ["b", "c", "d"].into_iter().map(start).collect();
    for waiter in &mut line {
        waiter.waits();
    }
    let mut last = line.pop().expect("there are three");
    for waiter in &line {
        waiter.itself().end();
    }
    holder.tell();
    assert!(last.line_within(AT_ONCE).is_some(), "crash-frees: the dead ahead of it are passed over at once");
    last.tell();
    assert_eq!(last.ends().code(), Some(0), "its command ran");
    let left = crate::common::names_in(&place.root().join("state/line"));
    assert!(left.is_empty(), "nothing of the dead is left in the line: {left:?}");
}
