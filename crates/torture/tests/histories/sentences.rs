//! Small histories by hand: the edges of each judge, and what it says.

use lokt_torture::history::{Deed, Entry, figures, holds, judge};

const SECOND: u64 = 1_000_000_000;

fn entry(at: u64, who: u64, deed: Deed) -> Entry {
    Entry { at, who, deed }
}

fn asked(at: u64, who: u64) -> Entry {
    entry(at, who, Deed::Asked { name: "x".into() })
}

fn in_line(at: u64, who: u64) -> Entry {
    entry(at, who, Deed::InLine { name: "x".into() })
}

fn entered(at: u64, who: u64, token: u64, until: Option<u64>) -> Entry {
    entry(at, who, Deed::Entered { name: "x".into(), token: Some(token), until })
}

fn left(at: u64, who: u64) -> Entry {
    entry(at, who, Deed::Left { name: "x".into() })
}

fn wrote(at: u64, who: u64, seen: u64, taken: bool) -> Entry {
    entry(at, who, Deed::Wrote { register: "r".into(), token: None, seen, made: seen + 1, taken })
}

#[test]
fn an_overlap_is_one_sentence_with_everybody_in_it() {
    let history =
        [entered(SECOND, 1, 7, None), entered(SECOND + 500_000, 2, 8, None), left(2 * SECOND, 1), left(3 * SECOND, 2)];
    let found: Vec<String> = judge::overlaps(&history).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "x: process 2 (token 8) entered at 1.000500 s, while process 1 (token 7) was inside, from 1.000000 s to 2.000000 s"
        ]
    );
}

#[test]
fn whoever_enters_when_the_other_leaves_overlaps_nobody() {
    let history = [entered(10, 1, 1, None), left(20, 1), entered(20, 2, 2, None), left(30, 2)];
    assert!(judge::overlaps(&history).is_empty(), "leaving was written before, entering after");
}

#[test]
fn a_long_hold_is_remembered_past_short_ones() {
    let history = [
        entered(10, 1, 1, None),
        entered(20, 2, 2, None),
        left(30, 2),
        entered(40, 3, 3, None),
        left(50, 3),
        left(60, 1),
    ];
    assert_eq!(judge::overlaps(&history).len(), 2, "both entered while the first was inside");
}

#[test]
fn a_lease_that_is_over_is_no_hold_for_certain() {
    let expired = [entered(10, 1, 1, Some(15)), entered(20, 2, 2, None), left(30, 2), left(40, 1)];
    assert!(judge::overlaps(&expired).is_empty(), "whoever is late is what tokens are for");
    let running = [entered(10, 1, 1, Some(25)), entered(20, 2, 2, None), left(30, 2), left(40, 1)];
    assert_eq!(judge::overlaps(&running).len(), 1, "it had a lease when the other entered");
}

#[test]
fn a_killed_holder_was_inside_until_its_last_words() {
    let killed = |last: u64| {
        let history = [
            entered(10, 1, 1, None),
            wrote(last, 1, 0, true),
            entered(20, 2, 2, None),
            left(30, 2),
            entry(40, 1, Deed::Killed),
        ];
        judge::overlaps(&history).len()
    };
    assert_eq!(killed(15), 0, "nobody knows when it died, and the other entered after its last words");
    assert_eq!(killed(25), 1, "it wrote while the other was inside");
}

#[test]
fn whoever_was_seen_alive_by_its_killer_and_had_not_left_was_inside_until_then() {
    let killing = |left_at: Option<u64>| {
        let mut history = vec![
            entered(10, 1, 1, None),
            entered(20, 2, 2, None),
            left(30, 2),
            entry(40, 1, Deed::Killing),
            entry(41, 1, Deed::Killed),
        ];
        history.extend(left_at.map(|at| left(at, 1)));
        judge::overlaps(&history).len()
    };
    assert_eq!(killing(None), 1, "the other entered while it lived");
    assert_eq!(killing(Some(15)), 0, "it had left before, whenever that is heard");
    let after = [entered(10, 1, 1, None), entry(40, 1, Deed::Killing), entered(41, 2, 2, None), left(50, 2)];
    assert_eq!(judge::overlaps(&after), [], "whoever comes after it was killed is beside nobody");
}

#[test]
fn whoever_is_killed_as_soon_as_it_entered_was_inside_at_that_moment() {
    let killed = |at: u64, until: Option<u64>| {
        let history = [entered(10, 1, 1, None), entered(at, 2, 2, until), entry(at + 1, 2, Deed::Killed), left(20, 1)];
        judge::overlaps(&history).len()
    };
    assert_eq!(killed(15, None), 1, "it entered while the other was inside");
    assert_eq!(killed(15, Some(16)), 1, "and had a lease");
    assert_eq!(killed(15, Some(15)), 0, "it had none any more");
    assert_eq!(killed(20, None), 0, "the other was leaving");
    let inside_of_it = [entered(10, 1, 1, None), entry(30, 1, Deed::Killed), entered(15, 2, 2, None), left(20, 2)];
    assert_eq!(judge::overlaps(&inside_of_it), [], "nobody knows when it died");
}

#[test]
fn tokens_that_were_asked_for_at_the_same_time_may_come_in_any_order() {
    let crossed = [asked(10, 1), asked(11, 2), entered(20, 1, 5, None), left(21, 1), entered(30, 2, 4, None)];
    assert!(judge::tokens(&crossed, |_| "").is_empty(), "both were asked for before either was known");
    let late = [asked(10, 1), entered(20, 1, 5, None), left(21, 1), asked(25, 2), entered(30, 2, 4, None)];
    let found: Vec<String> = judge::tokens(&late, |_| "").iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "process 2 (token 4) of x asked at 0.000000 s and got a smaller token than process 1 (token 5) of x, which was inside by 0.000000 s"
        ]
    );
}

#[test]
fn a_free_lock_that_was_left_alone_for_two_seconds_may_be_taken_out_of_turn() {
    let overtaken = |left_at: u64, at: u64| {
        let history = [
            entered(1, 9, 1, None),
            asked(10, 1),
            in_line(20, 1),
            asked(30, 2),
            left(left_at, 9),
            entered(at, 2, 2, None),
            left(at + 1, 2),
            entered(at + 2, 1, 3, None),
        ];
        judge::line(&history).len()
    };
    assert_eq!(overtaken(SECOND, SECOND + 10), 1, "the first in line was passed at once");
    assert_eq!(overtaken(SECOND, 3 * SECOND), 0, "the first in line left it alone");
}

#[test]
fn whoever_is_passed_is_in_the_sentence_whether_it_entered_or_gave_up() {
    let passed = |then: Entry| {
        let history = [asked(1, 1), in_line(SECOND, 1), asked(2 * SECOND, 2), entered(3 * SECOND, 2, 7, None), then];
        judge::line(&history).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let early = "x: process 2 (token 7) asked at 2.000000 s and entered at 3.000000 s; ";
    let later = "process 1 (token 8) was in line since 1.000000 s and entered at 4.000000 s";
    assert_eq!(passed(entered(4 * SECOND, 1, 8, None)), [format!("{early}{later}")]);
    let never = "process 1 was in line since 1.000000 s until its time was over at 4.000000 s";
    let out_of_time = Deed::OutOfTime { name: "x".into(), until: 4 * SECOND };
    assert_eq!(passed(entry(5 * SECOND, 1, out_of_time)), [format!("{early}{never}")]);
}

#[test]
fn whoever_was_let_in_and_lost_it_before_it_could_say_so_was_not_passed() {
    let passed = |until: Option<u64>| {
        let history = [
            asked(1, 1),
            in_line(SECOND, 1),
            asked(2 * SECOND, 2),
            entered(3 * SECOND, 2, 7, None),
            entered(4 * SECOND, 1, 6, until),
        ];
        judge::line(&history).len()
    };
    for until in [0, 4 * SECOND] {
        assert_eq!(passed(Some(until)), 0, "it had it before the other, for a time that nobody knows");
    }
    assert_eq!(passed(Some(5 * SECOND)), 1, "whoever still had it got it when it says");
}

#[test]
fn whoever_was_in_line_for_another_hold_is_not_in_line_for_the_next() {
    let out_of_time = entry(9 * SECOND, 1, Deed::OutOfTime { name: "x".into(), until: 8 * SECOND });
    let passed = |between: &[Entry]| {
        let first = [asked(1, 1), in_line(SECOND, 1)];
        let last = [asked(6 * SECOND, 2), entered(7 * SECOND, 2, 7, None), out_of_time.clone()];
        judge::line(&[first.as_slice(), between, last.as_slice()].concat()).len()
    };
    assert_eq!(passed(&[]), 1, "it was in line all the time");
    let held = [entered(2 * SECOND, 1, 5, None), left(3 * SECOND, 1)];
    assert_eq!(passed(&held), 0, "it had it, and wasn't seen in line again");
    assert_eq!(passed(&[asked(5 * SECOND, 1)]), 0, "it asked anew, and wasn't seen in line again");
}

#[test]
fn a_lock_that_was_left_alone_before_somebody_came_excuses_nobody_later() {
    let passed = |in_line_at: u64| {
        let history = [
            entered(1, 9, 1, None),
            left(2, 9),
            // It was free for four seconds.
            entered(4 * SECOND, 8, 2, None),
            left(9 * SECOND, 8),
            asked(3 * SECOND, 1),
            in_line(in_line_at, 1),
            asked(8 * SECOND, 2),
            entered(9 * SECOND + 1, 2, 3, None),
            left(9 * SECOND + 2, 2),
            entered(9 * SECOND + 3, 1, 4, None),
        ];
        judge::line(&history).len()
    };
    assert_eq!(passed(5 * SECOND), 1, "it came when somebody was inside");
    assert_eq!(passed(4 * SECOND), 0, "it may have been there when it was left alone");
    assert_eq!(passed(3 * SECOND + 1), 0, "it was there");
}

#[test]
fn of_those_who_were_passed_the_one_who_waited_longest_is_named() {
    // Two in line, each until it entered or gave up; and one who came after both.
    let named = |untils: [u64; 2]| {
        let gave_up = |who, until| entry(20 * SECOND + who, who, Deed::OutOfTime { name: "x".into(), until });
        let history = [
            asked(1, 1),
            in_line(SECOND, 1),
            asked(2, 2),
            in_line(2 * SECOND, 2),
            asked(3 * SECOND, 3),
            entered(6 * SECOND, 3, 7, None),
            gave_up(1, untils[0]),
            gave_up(2, untils[1]),
        ];
        judge::line(&history).iter().map(|found| found.passed.who).collect::<Vec<_>>()
    };
    assert_eq!(named([10 * SECOND, 5 * SECOND]), [1], "the second had given up by then");
    assert_eq!(named([5 * SECOND, 10 * SECOND]), [2], "the first had");
    assert_eq!(named([9 * SECOND, 10 * SECOND]), [2], "both were passed, the second for longer");
    assert_eq!(named([10 * SECOND, 10 * SECOND]), [1], "whoever was there first");
    assert_eq!(named([6 * SECOND, 5 * SECOND]), [0; 0], "nobody was there any more");
}

#[test]
fn whoever_got_in_line_in_the_moment_the_other_asked_was_not_passed() {
    let history = [
        asked(1, 1),
        in_line(2 * SECOND, 1),
        asked(2 * SECOND, 2),
        entered(3 * SECOND, 2, 1, None),
        left(3 * SECOND + 1, 2),
        entered(4 * SECOND, 1, 2, None),
    ];
    assert!(judge::line(&history).is_empty());
}

#[test]
fn of_two_who_were_inside_as_long_the_first_is_named() {
    let history = [
        entered(10, 1, 1, None),
        entered(20, 2, 2, None),
        entered(30, 3, 3, None),
        left(60, 1),
        left(60, 2),
        left(70, 3),
    ];
    let pairs: Vec<(u64, u64)> =
        judge::overlaps(&history).iter().map(|found| (found.first.who, found.second.who)).collect();
    assert_eq!(pairs, [(1, 2), (1, 3)]);
}

#[test]
fn whoever_was_stopped_before_it_was_in_line_is_passed_like_anybody() {
    let stopped = |at| entry(at, 1, Deed::Stopped);
    let passed = |continued_at: u64| {
        let history = [
            // Twice, and ended by one continuation.
            stopped(SECOND),
            stopped(SECOND + 1),
            entry(continued_at, 1, Deed::Continued),
            asked(3 * SECOND, 1),
            in_line(4 * SECOND, 1),
            asked(5 * SECOND, 2),
            entered(6 * SECOND, 2, 1, None),
            left(6 * SECOND + 1, 2),
            entered(7 * SECOND, 1, 2, None),
        ];
        judge::line(&history).len()
    };
    assert_eq!(passed(2 * SECOND), 1, "it was awake again");
    assert_eq!(passed(4 * SECOND), 0, "not for certain");
    assert_eq!(passed(5 * SECOND), 0, "it stood still in line");
}

#[test]
fn whoever_gave_up_and_is_inside_later_was_in_line_for_something_else() {
    let gave_up = entry(3, 1, Deed::GaveUp { name: "x".into() });
    let found = holds::holds(&[asked(1, 1), in_line(2, 1), gave_up, entered(9, 1, 1, None)]);
    assert_eq!((found[0].asked, found[0].in_line), (None, None));
}

#[test]
fn numbers_that_cannot_be_right_are_one_sentence_each() {
    let appending = |at, who, key: &str| entry(at, who, Deed::Appending { ledger: "l".into(), key: key.into() });
    let appended =
        |at, who, key: &str, number| entry(at, who, Deed::Appended { ledger: "l".into(), key: key.into(), number });
    let told = |second: &str, number: u64| {
        let history = [
            appending(SECOND, 1, "a"),
            appended(2 * SECOND, 1, "a", 5),
            appending(3 * SECOND, 2, second),
            appended(4 * SECOND, 2, second, number),
        ];
        judge::ledger(&history).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let first = "a of process 1 (number 5, known at 2.000000 s)";
    let second = |number| format!("b of process 2 (number {number}, known at 4.000000 s)");
    assert_eq!(told("b", 5), [format!("l: {first} and {} got the same number", second(5))]);
    let smaller = format!("l: {} began at 3.000000 s and got a smaller number than {first}", second(4));
    assert_eq!(told("b", 4), [smaller]);
    assert_eq!(told("a", 6), [format!("l: {first} was acknowledged once more as number 6")]);
    assert_eq!(told("b", 6), [""; 0]);
}

#[test]
fn a_smaller_number_is_compared_with_the_greatest_that_was_known_before_it_was_asked_for() {
    let appending = |at, key: &str| entry(at, 1, Deed::Appending { ledger: "l".into(), key: key.into() });
    let appended = |at, key: &str, number| entry(at, 1, Deed::Appended { ledger: "l".into(), key: key.into(), number });
    // Three that began together, and one that began at a moment, with number 8.
    let told = |numbers: [u64; 3], began: u64| {
        let mut history = vec![appending(began, "d"), appended(9 * SECOND, "d", 8)];
        for ((key, number), known) in ["a", "b", "c"].into_iter().zip(numbers).zip(1..) {
            history.extend([appending(0, key), appended(known * SECOND, key, number)]);
        }
        let found = judge::ledger(&history);
        found.iter().map(ToString::to_string).filter(|one| one.contains("smaller")).collect::<Vec<_>>()
    };
    let than = |key: &str, number: u64, known: u64| {
        let than = format!("{key} of process 1 (number {number}, known at {known}.000000 s)");
        [format!(
            "l: d of process 1 (number 8, known at 9.000000 s) began at 4.000000 s and got a smaller number than {than}"
        )]
    };
    assert_eq!(told([5, 9, 7], 4 * SECOND), than("b", 9, 2));
    assert_eq!(told([10, 9, 7], 4 * SECOND), than("a", 10, 1));
    assert_eq!(told([9, 9, 7], 4 * SECOND), than("a", 9, 1), "of the same number, the one that was known first");
    assert_eq!(told([5, 9, 7], 2 * SECOND), [""; 0], "what is known in that moment may not have been before");
}

#[test]
fn a_late_write_is_one_sentence_with_its_lease_in_it() {
    let history = [
        entered(1, 1, 7, Some(SECOND)),
        entry(2 * SECOND, 1, Deed::Overslept { name: "x".into(), token: 7 }),
        entry(3 * SECOND, 1, Deed::Wrote { register: "r".into(), token: Some(7), seen: 4, made: 5, taken: true }),
    ];
    let found: Vec<String> = judge::late_writes(&history).iter().map(ToString::to_string).collect();
    let told = "r: process 1 (token 7) made it 5 by 3.000000 s, though its lease of x was over by 2.000000 s: a late write was taken";
    assert_eq!(found, [told]);
}

#[test]
fn two_who_asked_before_either_was_in_line_have_no_order() {
    let history = [
        asked(10, 1),
        asked(20, 2),
        in_line(30, 1),
        in_line(31, 2),
        entered(40, 2, 1, None),
        left(41, 2),
        entered(50, 1, 2, None),
    ];
    assert!(judge::line(&history).is_empty());
}

#[test]
fn a_register_that_went_back_is_lost_for_whoever_entered_after_it_was_known() {
    let lost = |history: &[Entry]| judge::lost_updates(history).iter().map(ToString::to_string).collect::<Vec<_>>();
    let came = |entered_at: u64, seen: u64| {
        [
            entered(1, 1, 1, None),
            wrote(2 * SECOND, 1, 6, true),
            left(2 * SECOND + 1, 1),
            entered(entered_at, 2, 2, None),
            wrote(4 * SECOND, 2, seen, true),
        ]
    };
    assert_eq!(
        lost(&came(3 * SECOND, 0)),
        [
            "r: process 1 made it 7 by 2.000000 s; process 2 made it 1 by 4.000000 s, and had read 0, though it came after that: updates are lost"
        ]
    );
    assert_eq!(lost(&came(3 * SECOND, 7)), Vec::<String>::new(), "it read what was there");
    assert_eq!(lost(&came(3 * SECOND, 9)), Vec::<String>::new(), "others were killed before they could say so");
    for entered_at in [2 * SECOND - 1, 2 * SECOND] {
        assert_eq!(lost(&came(entered_at, 5)), Vec::<String>::new(), "it may have read before");
    }
    // Two made the same of it: whoever comes after both came after the first.
    let twice = [
        entered(1, 1, 1, None),
        entered(2, 2, 2, None),
        wrote(2 * SECOND, 1, 6, true),
        wrote(3 * SECOND, 2, 6, true),
        entered(4 * SECOND, 3, 3, None),
        wrote(5 * SECOND, 3, 0, true),
    ];
    let told = lost(&twice);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].starts_with("r: process 1 made it 7 by 2.000000 s; process 3 made it 1"), "{told:?}");
}

#[test]
fn of_holds_inside_of_each_other_the_first_counts() {
    let other = |at, deed: fn(String) -> Deed| entry(at, 2, deed("y".into()));
    let history = [
        other(10, |name| Deed::Entered { name, token: None, until: None }),
        wrote(20, 1, 6, true),
        entered(30, 2, 1, None),
        wrote(40, 2, 5, true),
    ];
    assert!(judge::lost_updates(&history).is_empty(), "it may have read as soon as it was inside of the first");
    let mut left_first = history.to_vec();
    left_first.push(other(25, |name| Deed::Left { name }));
    assert_eq!(judge::lost_updates(&left_first).len(), 1, "it was inside of the second alone");
}

#[test]
fn what_earlier_rounds_made_was_there_for_everybody() {
    let first = judge::registers(&[wrote(1, 1, 499, true)]);
    let greatest = first.into_iter().filter_map(|register| Some((register.name, register.greatest?))).collect();
    let lost = |seen, taken| {
        let after = judge::registers_after(&greatest, &[wrote(2, 2, seen, taken)]);
        (after[0].lost.len(), after[0].greatest.map(|write| write.made))
    };
    assert_eq!(lost(0, true), (1, Some(500)), "whoever sees nothing sees too little");
    assert_eq!(lost(499, true), (1, Some(500)), "and so does who sees what was there before the last");
    assert_eq!(lost(500, true), (0, Some(501)), "it goes on");
    assert_eq!(lost(0, false), (0, Some(500)), "what was refused changes nothing");
    assert_eq!(
        judge::registers_after(&greatest, &[])[0].greatest.map(|write| write.made),
        Some(500),
        "nor does nothing"
    );
}

#[test]
fn a_repeated_append_is_one_and_its_number_stays() {
    let appending = |at, key: &str| entry(at, 1, Deed::Appending { ledger: "l".into(), key: key.into() });
    let appended = |at, key: &str, number| entry(at, 1, Deed::Appended { ledger: "l".into(), key: key.into(), number });
    let repeated = [
        appending(1, "a"),
        appended(2, "a", 1),
        appending(3, "b"),
        appended(4, "b", 2),
        appending(5, "a"),
        appended(6, "a", 1),
    ];
    assert!(judge::ledger(&repeated).is_empty(), "the same append may be told twice");
    let moved = [appending(1, "a"), appended(2, "a", 1), appending(5, "a"), appended(6, "a", 3)];
    assert_eq!(judge::ledger(&moved).len(), 1, "it was appended twice");
}

#[test]
fn a_hand_over_is_measured_from_leaving_to_the_entry_of_whoever_waited() {
    let history = [
        asked(1, 1),
        entered(5, 1, 1, None),
        asked(6, 2),
        left(10, 1),
        entered(13, 2, 2, None),
        left(20, 2),
        asked(30, 3),
        entered(33, 3, 3, None),
    ];
    let told = figures(&history);
    assert_eq!((told.holds, told.hand_offs, told.hand_over.max), (3, 1, 3), "the third wasn't waiting");
    assert_eq!((told.wait.count, told.wait.max), (3, 7));
}

#[test]
fn whoever_left_a_free_lock_alone_is_passed_over_until_it_enters() {
    // 2 is in line and too slow; 3 and 4 come along after two seconds.
    let history = |free_until: u64| {
        [
            asked(1, 1),
            entered(2, 1, 1, None),
            asked(3, 2),
            in_line(4, 2),
            left(5, 1),
            asked(free_until, 3),
            entered(free_until + 1, 3, 2, None),
            left(free_until + 2, 3),
            asked(free_until + 3, 4),
            entered(free_until + 4, 4, 3, None),
            left(free_until + 5, 4),
            entered(free_until + 6, 2, 4, None),
            left(free_until + 7, 2),
        ]
    };
    assert_eq!(judge::line(&history(2 * SECOND + 10)), [], "it was offered the lock for two seconds");
    assert_eq!(judge::line(&history(SECOND)).len(), 2, "after one second it is still its turn");
}
