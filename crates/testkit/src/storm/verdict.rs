//! What must be true when a storm is over: how each guard ended, what the audit log tells, what the sections wrote.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Ran, Tally};
use crate::judge::Told;

/// One guard's end.
pub(super) fn judge_run(
    ran: &Ran,
    audit: &Audit,
    killed: &HashSet<String>,
    tally: &mut Tally,
    broken: &mut Vec<String>,
) {
    let Ran { owner, names, patient, code, stderr } = ran;
    let mut wrong = |what: &str| broken.push(format!("{what}: {owner} {names:?} exit {code:?}: {stderr}"));
    let was_killed = killed.contains(owner);
    let holds = audit.by_owner.get(owner).map_or(0, Vec::len);
    match code {
        None if was_killed => tally.guards_killed += 1,
        // It died of the signal that its section died of, or ran to its end.
        Some(0 | 137) if holds != names.len() && !was_killed => wrong("audited: every hold is acquired"),
        Some(0 | 137) => {}
        Some(2) => {
            tally.gave_up += 1;
            if *patient {
                wrong("nobody waits for ever");
            }
            if audit.denied.get(owner) != Some(&1) && !was_killed {
                wrong("audited: one refusal for one attempt");
            }
        }
        Some(75) => tally.busy += 1,
        _ => wrong("a guard ends as its command does"),
    }
}

/// What the audit log tells.
#[derive(Default)]
pub(super) struct Audit {
    /// Lock ids of each owner.
    by_owner: HashMap<String, Vec<String>>,
    denied: HashMap<String, usize>,
    pub(super) unwritten: usize,
}

impl Audit {
    /// Each hold has a beginning and an end, and no other hold of its name in between. A line may be missing only if the process
    /// that had to write it was killed.
    pub(super) fn of(history: &[Told], killed: &HashSet<String>, broken: &mut Vec<String>) -> Self {
        let mut audit = Self::default();
        let mut holds: HashMap<&str, &Told> = HashMap::new();
        let mut last_token = 0;
        let mut missing = |whose: &str, what: String| {
            if killed.contains(whose) {
                audit.unwritten += 1;
            } else {
                broken.push(what);
            }
        };
        for (line, told) in history.iter().enumerate() {
            let at = format!("audit line {}: {} of {} by {}", line + 1, told.event, told.name, told.owner);
            match told.event.as_str() {
                "acquire" => {
                    if told.token.unwrap_or(0) <= last_token {
                        missing("", format!("token-order: {at}: {:?} after {last_token}", told.token));
                    }
                    last_token = last_token.max(told.token.unwrap_or(0));
                    if let Some(holder) = holds.insert(&told.name, told) {
                        missing(&holder.owner, format!("one-holder: {at} while {} has it", holder.owner));
                    }
                    audit.by_owner.entry(told.owner.clone()).or_default().push(told.lock_id.clone());
                }
                "release" | "auto-prune" => {
                    if told.extra["reason"] == "expired" {
                        missing("", format!("child-counts: {at}: its lease ran out"));
                    }
                    let victim = told.extra["victim_owner"].as_str().unwrap_or(&told.owner);
                    match holds.remove(told.name.as_str()) {
                        Some(holder) if holder.lock_id == told.lock_id => {}
                        Some(holder) => missing(&holder.owner, format!("no-lost-thief: {at} ended {}'s", holder.owner)),
                        None => missing(victim, format!("audited: {at}, which was never acquired")),
                    }
                }
                "deny" => *audit.denied.entry(told.owner.clone()).or_default() += 1,
                _ => {}
            }
        }
        for holder in holds.values() {
            missing(&holder.owner, format!("audited: the hold of {} by {} has no end", holder.name, holder.owner));
        }
        audit
    }
}

#[derive(Default)]
pub(super) struct Journal {
    pub(super) sections: usize,
    pub(super) cut_short: usize,
    pub(super) broken: Vec<String>,
}

/// No two sections at once, none that ended without being killed, and no update lost.
pub(super) fn judge_journal(name: &str, journal: &str, counter: u64, killed: &HashSet<u64>) -> Journal {
    let mut told = Journal::default();
    // A section that was killed has written, or hasn't.
    let mut values = BTreeSet::from([0]);
    let mut open: Option<(u64, u64)> = None;
    let mut cut = HashSet::new();
    let mut last_token = 0;
    let cut_open = |open: &mut Option<(u64, u64)>, values: &mut BTreeSet<u64>, told: &mut Journal| {
        let (token, pid) = open.take()?;
        values.extend(values.clone().iter().map(|value| value + 1));
        told.cut_short += 1;
        if !killed.contains(&pid) {
            told.broken.push(format!("one-holder: {name}: section {token}, which nobody killed, ends before the next"));
        }
        Some(token)
    };
    for line in journal.lines() {
        let mut words = line.split(' ');
        let kind = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(u64::MAX);
        let (token, extra) = (number(), number());
        match kind {
            "start" => {
                cut.extend(cut_open(&mut open, &mut values, &mut told));
                if token <= last_token {
                    told.broken.push(format!("token-order: {name}: token {token} after {last_token}"));
                }
                last_token = token;
                open = Some((token, extra));
            }
            "end" => {
                if open.take_if(|(open, _)| *open == token).is_none() {
                    told.broken.push(format!("one-holder: {name}: section {token} still ran when another had begun"));
                }
                if !values.contains(&extra) {
                    told.broken.push(format!("lost update: {name}: section {token} read {extra}, not {values:?}"));
                }
                values = BTreeSet::from([extra + 1]);
                told.sections += 1;
            }
            _ => told.broken.push(format!("one-holder: {name}: {line}")),
        }
    }
    cut_open(&mut open, &mut values, &mut told);
    if !values.contains(&counter) {
        told.broken.push(format!("lost update: {name}: the counter is {counter}, not {values:?}"));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(journal: &str, counter: u64, killed: &[u64]) -> Vec<String> {
        let killed = killed.iter().copied().collect();
        judge_journal("x", journal, counter, &killed).broken
    }

    #[test]
    fn sections_one_after_the_other_are_judged_innocent() {
        assert!(broken("start 1 7\nend 1 0\nstart 3 8\nend 3 1\n", 2, &[]).is_empty());
        assert!(broken("start 1 7\nstart 3 8\nend 3 1\n", 2, &[7]).is_empty(), "a killed one may have written");
        assert!(broken("start 1 7\nstart 3 8\nend 3 0\n", 1, &[7]).is_empty(), "or not");
    }

    #[test]
    fn what_overlaps_or_loses_an_update_is_found() {
        let found = |journal, counter, what: &str| broken(journal, counter, &[]).iter().any(|line| line.contains(what));
        assert!(found("start 1 7\nstart 3 8\nend 1 0\nend 3 0\n", 1, "still ran"));
        assert!(found("start 1 7\nend 1 0\nstart 3 8\nend 3 0\n", 1, "lost update"));
        assert!(found("start 1 7\nend 1 0\n", 0, "lost update"));
        assert!(found("start 3 7\nend 3 0\nstart 1 8\nend 1 1\n", 2, "token-order"));
        assert!(found("start 1 7\nstart 3 8\nend 3 0\n", 1, "nobody killed"));
        assert!(found("start 1 7\noverlap 1 6\nend 1 0\n", 1, "one-holder"));
    }

    #[test]
    fn a_line_may_be_missing_only_if_its_writer_was_killed() {
        let told = |event: &str, owner: &str, lock_id: &str, token| Told {
            event: event.into(),
            name: "x".into(),
            owner: owner.into(),
            lock_id: lock_id.into(),
            token: Some(token),
            extra: serde_json::Value::Null,
        };
        let history = [told("acquire", "a", "1", 1), told("acquire", "b", "2", 2), told("release", "b", "2", 2)];
        for (killed, count) in [("a", 0), ("b", 1)] {
            let mut broken = Vec::new();
            Audit::of(&history, &HashSet::from([killed.to_owned()]), &mut broken);
            assert_eq!(broken.len(), count, "{broken:?}");
        }
    }
}
