//! One fault, planted in a history of a lock that works: the judge of its kind finds it.

use lokt_torture::history::{Deed, Entry, judge};
use proptest::prelude::*;

use super::innocent::{Dice, lost_in_rounds, working_lock};

fn indices(history: &[Entry], wanted: impl Fn(&Entry) -> bool) -> Vec<usize> {
    (0..history.len()).filter(|index| wanted(&history[*index])).collect()
}

fn one_of(dice: &mut Dice, from: &[usize]) -> usize {
    from[usize::try_from(dice.below(from.len() as u64)).expect("it is small")]
}

/// Holds of `hot` that said how they ended, as indices of their first and last entry.
fn whole_holds(history: &[Entry]) -> Vec<(usize, usize)> {
    let is_hot = |deed: &Deed| matches!(deed, Deed::Entered { name, .. } if name == "hot");
    let left = |entered: usize| {
        let who = history[entered].who;
        let mut later = (entered..history.len()).filter(|index| history[*index].who == who);
        later.find(|index| matches!(&history[*index].deed, Deed::Left { name } if name == "hot"))
    };
    indices(history, |entry| is_hot(&entry.deed)).into_iter().filter_map(|at| Some((at, left(at)?))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn somebody_inside_of_anothers_hold_is_found(seed in any::<u64>()) {
        let mut history = working_lock(seed, 2_000);
        let holds = whole_holds(&history);
        prop_assume!(!holds.is_empty());
        let (entered, left) = holds[usize::try_from(seed % holds.len() as u64).expect("it is small")];
        let at = history[entered].at.midpoint(history[left].at);
        prop_assume!(at > history[entered].at && at + 1 < history[left].at);
        let intruder = 1_000_000;
        let name = String::from("hot");
        history.push(Entry { at, who: intruder, deed: Deed::Entered { name: name.clone(), token: None, until: None } });
        history.push(Entry { at: at + 1, who: intruder, deed: Deed::Left { name } });
        let found = judge::overlaps(&history);
        prop_assert!(found.iter().any(|overlap| overlap.second.who == intruder), "two were inside: {found:?}");
    }

    #[test]
    fn somebody_who_is_killed_inside_of_anothers_hold_is_found(seed in any::<u64>()) {
        let mut history = working_lock(seed, 2_000);
        let holds = whole_holds(&history);
        prop_assume!(!holds.is_empty());
        let (entered, left) = holds[usize::try_from(seed % holds.len() as u64).expect("it is small")];
        let at = history[entered].at.midpoint(history[left].at);
        prop_assume!(at > history[entered].at && at < history[left].at);
        let intruder = 1_000_000;
        let deed = |until| Deed::Entered { name: String::from("hot"), token: None, until };
        history.push(Entry { at: at + 1, who: intruder, deed: Deed::Killed });
        history.push(Entry { at, who: intruder, deed: deed(Some(at)) });
        prop_assert_eq!(judge::overlaps(&history), [], "it heard of a lease that was over");
        for until in [None, Some(at + 1)] {
            let last = history.len() - 1;
            history[last].deed = deed(until);
            let found = judge::overlaps(&history);
            prop_assert!(found.iter().any(|overlap| overlap.second.who == intruder), "two were inside: {found:?}");
        }
    }

    #[test]
    fn somebody_who_came_while_a_stopped_holder_lived_is_found_though_that_is_killed(seed in any::<u64>()) {
        let mut history = working_lock(seed, 2_000);
        let end = history.last().map_or(0, |entry| entry.at) + 1_000;
        let (stopped, intruder) = (1_000_000, 1_000_001);
        let entered = |until| Deed::Entered { name: String::from("new"), token: None, until };
        let killed_at = end + 1_500_000_000;
        let told = [
            (end, stopped, entered(None)),
            (end + 1, stopped, Deed::Stopped),
            (end + 2, intruder, entered(None)),
            (end + 3, intruder, Deed::Left { name: String::from("new") }),
            (killed_at + 1, stopped, Deed::Killed),
        ];
        let first = history.len();
        history.extend(told.into_iter().map(|(at, who, deed)| Entry { at, who, deed }));
        prop_assert_eq!(judge::overlaps(&history), [], "nobody knows when it died");
        history.push(Entry { at: killed_at, who: stopped, deed: Deed::Killing });
        let found = judge::overlaps(&history);
        prop_assert!(found.iter().any(|overlap| overlap.second.who == intruder), "it lived all the time: {found:?}");
        history[first].deed = entered(Some(end + 2));
        prop_assert_eq!(judge::overlaps(&history), [], "its lease was over");
    }

    #[test]
    fn a_register_that_went_back_is_found_in_whatever_round(seed in any::<u64>()) {
        let mut history = working_lock(seed, 2_000);
        let mut dice = Dice(seed);
        let writes = indices(&history, |entry| matches!(entry.deed, Deed::Wrote { taken: true, .. }));
        prop_assume!(writes.len() > 20);
        // Lost is what was there: from here on it counts from nothing, as one does that was emptied.
        let from = one_of(&mut dice, &writes[10..]);
        let Deed::Wrote { seen: gone, .. } = history[from].deed else { unreachable!("it was looked for") };
        for entry in &mut history[from..] {
            if let Deed::Wrote { seen, made, taken: true, .. } = &mut entry.deed {
                (*seen, *made) = (*seen - gone, *made - gone);
            }
        }
        prop_assert!(!lost_in_rounds(&history).is_empty(), "{gone} updates are gone");
    }

    #[test]
    fn a_token_that_is_given_twice_or_too_small_is_found(seed in any::<u64>()) {
        let mut history = working_lock(seed, 2_000);
        let mut dice = Dice(seed);
        let entered = indices(&history, |entry| matches!(entry.deed, Deed::Entered { .. }));
        prop_assume!(entered.len() > 10);
        let first = entered[0];
        let Deed::Entered { token: given, .. } = history[first].deed.clone() else { unreachable!("it was looked for") };
        // Late enough to have asked after the first was known.
        let later = one_of(&mut dice, &entered[8..]);
        let Deed::Entered { token, .. } = &mut history[later].deed else { unreachable!("it was looked for") };
        *token = given;
        let found = judge::tokens(&history, |_| "");
        prop_assert!(!found.is_empty(), "a token was given twice, and the second time too late");
        let apart = judge::tokens(&history, |name| name);
        prop_assert!(apart.len() <= found.len(), "counters that aren't shared are judged one by one");
    }

    #[test]
    fn whoever_overtakes_the_line_is_found(seed in any::<u64>()) {
        let mut history = working_lock(seed, 2_000);
        let end = history.last().map_or(0, |entry| entry.at) + 1_000;
        let name = || String::from("new");
        let told = [
            (1, 0, Deed::Asked { name: name() }),
            (1, 1, Deed::InLine { name: name() }),
            (2, 2, Deed::Asked { name: name() }),
            (2, 3, Deed::Entered { name: name(), token: None, until: None }),
            (2, 4, Deed::Left { name: name() }),
            (1, 5, Deed::Entered { name: name(), token: None, until: None }),
        ];
        history.extend(told.into_iter().map(|(who, after, deed)| Entry { at: end + after, who: 1_000_000 + who, deed }));
        let found = judge::line(&history);
        prop_assert_eq!(found.len(), 1, "one overtook one: {:?}", found);
        prop_assert_eq!(found[0].early.who, 1_000_002);
        history.push(Entry { at: end + 2, who: 1_000_001, deed: Deed::Stopped });
        prop_assert!(judge::line(&history).is_empty(), "who is stopped is passed over");
    }

    #[test]
    fn whoever_overtakes_somebody_who_then_gave_up_is_found(seed in any::<u64>()) {
        let mut history = working_lock(seed, 2_000);
        let end = history.last().map_or(0, |entry| entry.at) + 1_000;
        let name = || String::from("new");
        let told = [
            (1, 0, Deed::Asked { name: name() }),
            (1, 1, Deed::InLine { name: name() }),
            (2, 2, Deed::Asked { name: name() }),
            (2, 5, Deed::Entered { name: name(), token: None, until: None }),
            (2, 6, Deed::Left { name: name() }),
            (1, 9, Deed::GaveUp { name: name() }),
        ];
        history.extend(told.into_iter().map(|(who, after, deed)| Entry { at: end + after, who: 1_000_000 + who, deed }));
        prop_assert_eq!(judge::line(&history), [], "it may have left the line before the other came");
        let out_of_time = |until| Entry { at: end + 8, who: 1_000_001, deed: Deed::OutOfTime { name: name(), until } };
        history.push(out_of_time(end + 5));
        prop_assert_eq!(judge::line(&history), [], "its time was over when the other entered");
        history.pop();
        history.push(out_of_time(end + 6));
        let found = judge::line(&history);
        prop_assert_eq!(found.len(), 1, "one overtook one: {:?}", found);
        prop_assert_eq!((found[0].early.who, found[0].passed.who), (1_000_002, 1_000_001));
        history.push(Entry { at: end + 2, who: 1_000_001, deed: Deed::Stopped });
        prop_assert!(judge::line(&history).is_empty(), "who is stopped is passed over");
    }

    #[test]
    fn a_late_write_that_is_taken_is_found(seed in any::<u64>()) {
        let mut history = working_lock(seed, 4_000);
        let late = indices(&history, |entry| matches!(entry.deed, Deed::Wrote { taken: false, .. }));
        prop_assume!(!late.is_empty());
        let one = one_of(&mut Dice(seed), &late);
        let Deed::Wrote { taken, .. } = &mut history[one].deed else { unreachable!("it was looked for") };
        *taken = true;
        let found = judge::late_writes(&history);
        prop_assert_eq!(found.len(), 1, "one late write was taken: {:?}", found);
        prop_assert_eq!(found[0].write.at, history[one].at);
    }

    #[test]
    fn an_update_that_was_lost_is_found(seed in any::<u64>()) {
        let mut history = working_lock(seed, 2_000);
        let writes = indices(&history, |entry| matches!(entry.deed, Deed::Wrote { taken: true, .. }));
        prop_assume!(writes.len() > 2);
        let (before, after) = (writes[writes.len() - 2], writes[writes.len() - 1]);
        let Deed::Wrote { seen: stale, .. } = history[before].deed else { unreachable!("it was looked for") };
        let Deed::Wrote { seen, .. } = &mut history[after].deed else { unreachable!("it was looked for") };
        *seen = stale;
        let found = judge::lost_updates(&history);
        prop_assert_eq!(found.len(), 1, "one update is lost: {:?}", found);
        let Deed::Wrote { taken, .. } = &mut history[after].deed else { unreachable!("it was looked for") };
        *taken = false;
        prop_assert!(judge::lost_updates(&history).is_empty(), "what was refused isn't lost");
    }

    #[test]
    fn numbers_of_a_ledger_that_are_given_twice_too_small_or_moved_are_found(seed in any::<u64>()) {
        let history = working_lock(seed, 2_000);
        let appended = indices(&history, |entry| matches!(entry.deed, Deed::Appended { .. }));
        prop_assume!(appended.len() > 4);
        let (first, last) = (appended[0], appended[appended.len() - 1]);
        let with = |index: usize, new: u64| {
            let mut changed = history.clone();
            let Deed::Appended { number, .. } = &mut changed[index].deed else { unreachable!("it was looked for") };
            *number = new;
            judge::ledger(&changed)
        };
        prop_assert!(!with(first, 1_000_000).is_empty(), "the first number is greater than later ones");
        prop_assert!(!with(last, 1).is_empty(), "the last number is that of the first");
    }
}
