//! Checks the counter of fencing tokens: does it exist, and is it ahead of every known token?

use lokt_core::hold::Fence;

use super::{Check, Finding, Patient};
use crate::file::tokens::{CEILING, CounterFile, NEXT, is_plausible};
use crate::store::Call;

const NAME: &str = "tokens";
/// Hint if the ceiling is lost and the other file isn't.
const LATER: &str =
    "nothing to do: it is written anew within the next thousand locks; a reboot before that makes tokens leap";
/// Hint if both are lost.
const BY_ITSELF: &str = "nothing to do: the next lock goes on above all that were used, and says so in the audit log";

pub(super) fn check(patient: &Patient) -> Check {
    if let Some(busy) = &patient.busy {
        return Check::new(NAME, [Finding::skipped(busy)]);
    }
    let store = patient.store();
    let inside = match store.enter(&Call::UNLIMITED) {
        Ok(inside) => inside,
        Err(error) => return Check::new(NAME, [Finding::skipped(error)]),
    };
    // Read after the records: the ceiling only rises, and it rises before a record appears.
    let (ceiling, next) = store.tokens().counter(&inside);
    drop(inside);
    let (at, next_at) = (patient.shown(CEILING), patient.shown(NEXT));
    let used = || !matches!(next, CounterFile::Missing) || store.tokens().gave_tokens();
    let in_the_way = |why: &str| {
        Finding::error(format!("{why}, so no lock can be taken"))
            .hint("move it away: tokens go on above all that were used")
    };
    let by_itself = if matches!(next, CounterFile::Known(_)) { LATER } else { BY_ITSELF };
    let mut findings = Vec::new();
    match &ceiling {
        CounterFile::Known(ceiling) => findings.extend(behind(patient, *ceiling)),
        CounterFile::Missing if used() => {
            findings.push(
                Finding::warn(format!("{at}, which remembers how far tokens have come, is gone")).hint(by_itself),
            );
        }
        CounterFile::Missing => {}
        CounterFile::Damaged => {
            findings.push(
                Finding::warn(format!("{at}, which remembers how far tokens have come, is damaged")).hint(by_itself),
            );
        }
        CounterFile::InTheWay(why) => findings.push(in_the_way(why)),
    }
    match &next {
        CounterFile::Damaged => findings.push(
            Finding::warn(format!("{next_at}, the token counter, is damaged"))
                .hint("nothing to do: the next lock goes on at the synced ceiling"),
        ),
        CounterFile::InTheWay(why) => findings.push(in_the_way(why)),
        CounterFile::Missing | CounterFile::Known(_) => {}
    }
    Check::new(NAME, findings)
}

/// Reports a record whose token the counter hasn't reached: an old `state/` was restored.
fn behind(patient: &Patient, ceiling: u64) -> Option<Finding> {
    let tokens = patient.records.iter().filter_map(|seen| Some((&seen.name, seen.hold()?.token?)));
    let (name, token) = tokens.filter(|(_, token)| is_plausible(*token)).max_by_key(|(_, token)| token.get())?;
    (token.get() >= ceiling).then(|| {
        Finding::warn(format!(
            "lock \"{name}\" has token {token}, but the counter has come to {ceiling} at most: an old state directory was put back"
        ))
        .hint(format!("take and give back \"{name}\": the counter then goes on above its token (tokens stay below {})", Fence::LIMIT))
    })
}
