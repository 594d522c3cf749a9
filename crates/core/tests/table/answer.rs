//! What an answer means for the record, to its last member.

use jiff::Timestamp;
use lokt_core::decide::{Broken, Cause, Decision, Intent, Policy, ProcessHolder, Token, decide};
use lokt_core::denial::{Denial, Staleness};
use lokt_core::hold::{Hold, Part, PartKind, Parts, RECORD_VERSION};
use lokt_core::liveness::Liveness;
use lokt_core::time::{Elapsed, Lease};
use serde_json::Map;

use super::case::{Case, FreezeKind, NOW, TERMS_SEC, freeze_holder, fresh_id, me};
use crate::common::holds::{at, fence};

/// An answer in the words of the design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A new hold.
    Granted(Breaks),
    /// One's own stale hold: the same lock id, a new token, an owner part and nothing else.
    Revived,
    /// An owner part in place of whatever was there.
    OwnerPartAlone,
    /// An owner part; the process part and its identity stay.
    OwnerPartBesideProcess,
    /// An owner part; another program's process becomes a process part, and its identity stays.
    OwnerPartBesideForeign,
    /// A process part; the owner part stays if it lives.
    ProcessPartAdded,
    /// The same process is bound again.
    BindingRefreshed,
    /// Inside already.
    Inside,
    /// The process part begins again.
    Renewed,
    /// The owner part remains.
    ProcessPartEnded,
    /// The process part remains.
    OwnerPartEnded,
    /// The process part remains, and it was a break.
    OwnerPartBroken,
    /// Nothing remains.
    Removed(Cause),
    /// A new freeze.
    Frozen(Breaks),
    /// One's own freeze gets a new end.
    FreezeExtended,
    /// No.
    Refused(Refusal),
}

/// What a grant breaks first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breaks {
    Nothing,
    Stale(Staleness),
    Corrupt,
}

impl Breaks {
    fn broken(self) -> Option<Broken> {
        match self {
            Self::Nothing => None,
            Self::Stale(why) => Some(Broken::Stale(why)),
            Self::Corrupt => Some(Broken::Corrupt),
        }
    }
}

/// Why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Held,
    Queued(usize),
    Frozen,
    /// What stands in the way is the stored freeze itself.
    FrozenByStored,
    FrozenByUnread,
    BeingWritten,
    Newer,
    Corrupt,
    Missing,
    NotYours,
    Guarded,
    OtherHold,
    OtherIssuer,
    StaleToken(u64),
    NoToken(u64),
    Over,
    NotStale,
    Lost,
    Kept,
}

/// Decides `intent` in `case` and holds it against `answer`.
pub(crate) fn check(case: &Case, intent: &Intent, policy: Policy, answer: &Answer, says: &str) {
    let me = me();
    if let Some(hold) = case.hold() {
        assert_eq!(Elapsed::of(&hold, &NOW, &me), case.elapsed(), "the stored times are not what {case:?} says");
    }
    let decision = case.with_facts(|facts| decide(intent, facts, &me, &policy));
    let mut expected = expected(case, intent, answer);
    // Who extends a hold says how long and nothing else.
    if let (Intent::Extend { .. }, Decision::Commit { next: Some(next), .. }) = (intent, &mut expected) {
        next.reason = stored(case).reason;
    }
    assert_eq!(decision, expected, "{says:?} is false for {intent:?} in {case:?}");
}

fn expected(case: &Case, intent: &Intent, answer: &Answer) -> Decision {
    let renew = |hold| commit(Some(hold), Cause::Renew, None);
    match answer {
        Answer::Granted(breaks) => commit(Some(new_hold(intent)), Cause::Acquire, breaks.broken()),
        Answer::Frozen(breaks) => {
            commit(Some(Hold { token: None, ..new_hold(intent) }), Cause::Freeze, breaks.broken())
        }
        Answer::FreezeExtended => {
            let freeze = Hold { token: None, ..signed(case) };
            commit(Some(ended(freeze, None, Some(new_owner_part()))), Cause::Freeze, None)
        }
        Answer::Revived => {
            let old = case.hold().expect("only a hold is revived");
            renew(Hold { lock_id: old.lock_id, extra: old.extra, ..new_hold(intent) })
        }
        Answer::OwnerPartAlone => renew(ended(signed(case), None, Some(new_owner_part()))),
        Answer::OwnerPartBesideProcess => {
            let mut hold = stored(case);
            hold.reason = Some("asked".into());
            let process = stored_part(&hold, PartKind::Process);
            renew(ended(hold, process, Some(new_owner_part())))
        }
        Answer::OwnerPartBesideForeign => {
            let mut hold = stored(case);
            hold.reason = Some("asked".into());
            let ttl_sec = u64::try_from(hold.ttl_sec).ok().filter(|ttl_sec| *ttl_sec > 0);
            let process = Part { since: hold.acquired.expect("it says when"), ttl_sec, clock_ms: None };
            // The record names no boot, so its clocks can't be compared.
            let owner = Part { clock_ms: None, ..new_owner_part() };
            renew(ended(hold, Some(process), Some(owner)))
        }
        Answer::ProcessPartAdded | Answer::BindingRefreshed => {
            let hold = borne(signed(case), intent);
            let owner = live_owner_part(case);
            renew(ended(hold, Some(new_process_part()), owner))
        }
        Answer::Inside => Decision::Inside,
        Answer::Renewed => {
            let hold = stored(case);
            let before = stored_part(&hold, PartKind::Process).expect("a guard has a process part");
            let process = Part { since: NOW.wall, clock_ms: Some(NOW.monotonic_ms), ..before };
            renew(ended(hold, Some(process), live_owner_part(case)))
        }
        Answer::ProcessPartEnded => {
            let hold = Hold { pulse: None, ..stored(case) };
            commit(Some(ended(hold, None, live_owner_part(case))), Cause::Release(PartKind::Process), None)
        }
        Answer::OwnerPartEnded | Answer::OwnerPartBroken => {
            let hold = stored(case);
            let process = stored_part(&hold, PartKind::Process);
            let was_own = *answer == Answer::OwnerPartEnded;
            let event = if was_own { Cause::Release(PartKind::Owner) } else { Cause::ForceBreak };
            commit(Some(ended(hold, process, None)), event, None)
        }
        Answer::Removed(event) => commit(None, *event, None),
        Answer::Refused(refusal) => Decision::Deny(denial(case, *refusal)),
    }
}

/// Whatever is stored has a token, or gets a new one; only a freeze has none.
fn commit(next: Option<Hold>, cause: Cause, broken: Option<Broken>) -> Decision {
    let draws = cause != Cause::Freeze && next.as_ref().is_some_and(|next| next.token.is_none());
    let token = if draws { Token::Draw } else { Token::Keep };
    Decision::Commit { next: next.map(Box::new), token, cause, broken }
}

fn denial(case: &Case, refusal: Refusal) -> Denial {
    let holder = || Box::new(case.holder().expect("there is a hold in the way"));
    match refusal {
        Refusal::Held => Denial::Held(holder()),
        Refusal::Queued(ahead) => Denial::Queued { ahead },
        Refusal::Frozen => Denial::Frozen(match case.frozen.expect("there is a freeze") {
            FreezeKind::Known => Some(Box::new(freeze_holder())),
            FreezeKind::Unreadable => None,
        }),
        Refusal::FrozenByStored => Denial::Frozen(Some(holder())),
        Refusal::FrozenByUnread => Denial::Frozen(None),
        Refusal::BeingWritten => Denial::BeingWritten,
        Refusal::Newer => Denial::Newer { version: 2 },
        Refusal::Corrupt => Denial::Corrupt { why: "no JSON".into() },
        Refusal::Missing => Denial::Missing,
        Refusal::NotYours => Denial::NotYours(holder()),
        Refusal::Guarded => Denial::Guarded(holder()),
        Refusal::OtherHold => Denial::OtherHold(holder()),
        Refusal::OtherIssuer => Denial::OtherIssuer { named: 7, holder: holder() },
        Refusal::StaleToken(named) => Denial::StaleToken { named, current: Some(fence(7)) },
        Refusal::NoToken(named) => Denial::StaleToken { named, current: None },
        Refusal::Over => Denial::Over(holder()),
        Refusal::NotStale => Denial::NotStale(holder()),
        Refusal::Lost => Denial::Lost(case.holder().map(Box::new)),
        Refusal::Kept => Denial::Kept,
    }
}

fn stored(case: &Case) -> Hold {
    case.hold().expect("the answer is about a stored hold")
}

fn stored_part(hold: &Hold, kind: PartKind) -> Option<Part> {
    let parts = hold.parts.as_ref().expect("it is one of ours");
    match kind {
        PartKind::Process => parts.process.clone(),
        PartKind::Owner => parts.owner.clone(),
    }
}

/// The owner part, which a writer of the other one copies, or drops when it is over.
fn live_owner_part(case: &Case) -> Option<Part> {
    if case.owner_lives() { stored_part(&stored(case), PartKind::Owner) } else { None }
}

fn new_owner_part() -> Part {
    Part { since: NOW.wall, ttl_sec: Some(TERMS_SEC), clock_ms: Some(NOW.boottime_ms) }
}

fn new_process_part() -> Part {
    Part { since: NOW.wall, ttl_sec: Some(TERMS_SEC), clock_ms: Some(NOW.monotonic_ms) }
}

/// The stored hold under the asker's name: same lock id, same beginning, new identity. The token stays too, unless a process whose
/// lease ran out may still run with it.
fn signed(case: &Case) -> Hold {
    let me = me();
    let overtaken = case.process != Lease::Absent && !case.process_lives() && case.liveness != Liveness::Gone;
    Hold {
        token: stored(case).token.filter(|_| !overtaken),
        host: me.host,
        pid: me.pid,
        pid_start: me.pid_start,
        agent_id: me.agent_id,
        boot_id: me.boot_id,
        pid_ns: me.pid_ns,
        fs: me.fs,
        pulse: None,
        reason: Some("asked".into()),
        ..stored(case)
    }
}

/// The hold with the process that `intent` brings.
fn borne(hold: Hold, intent: &Intent) -> Hold {
    let Intent::Guard(_, ProcessHolder { process, .. }) = intent else { return hold };
    Hold { pid: process.pid, pid_start: process.start, pulse: None, ..hold }
}

/// What a grant stores: everything from the asker, nothing from before. The name is the shell's to fill in.
fn new_hold(intent: &Intent) -> Hold {
    let me = me();
    let hold = Hold {
        version: RECORD_VERSION,
        name: String::new(),
        lock_id: fresh_id(),
        owner: me.owner,
        host: me.host,
        pid: me.pid,
        pid_start: me.pid_start,
        agent_id: me.agent_id,
        acquired: None,
        ttl_sec: 0,
        expires_at: None,
        token: None,
        parts: None,
        pulse: None,
        boot_id: me.boot_id,
        pid_ns: me.pid_ns,
        fs: me.fs,
        held_since: Some(NOW.wall),
        reason: Some("asked".into()),
        extra: Map::new(),
    };
    match intent {
        Intent::Guard(..) => ended(borne(hold, intent), Some(new_process_part()), None),
        _ => ended(hold, None, Some(new_owner_part())),
    }
}

/// The hold with these parts and the top level that belongs to them: written now, ends with the later part.
fn ended(hold: Hold, process: Option<Part>, owner: Option<Part>) -> Hold {
    let ends: Vec<Option<Timestamp>> = [&process, &owner].into_iter().flatten().map(end_of).collect();
    // No end is later than any.
    let end = if ends.contains(&None) { None } else { ends.into_iter().flatten().max() };
    let ttl_sec = end.map_or(0, |end| end.as_second() - NOW.wall.as_second());
    Hold {
        acquired: Some(NOW.wall),
        ttl_sec,
        expires_at: end,
        parts: Some(Parts { process, owner, edited: false }),
        ..hold
    }
}

/// When a part of these tests ends; all of them end on the same fraction of a second.
fn end_of(part: &Part) -> Option<Timestamp> {
    let seconds = i64::try_from(part.ttl_sec?).expect("tests write short leases");
    let end = Timestamp::new(part.since.as_second() + seconds, part.since.subsec_nanosecond());
    Some(end.expect("tests write times of this century"))
}

#[test]
fn the_clocks_of_these_tests_agree() {
    assert_eq!(NOW.wall, at("2026-11-15T18:00:00.25Z"));
}
