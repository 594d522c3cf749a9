//! Judges what a store shows: facts, decision, whether waiting may help, and the events for the
//! audit log. Pure, and the same for all stores.

use std::sync::Arc;

use lokt_core::audit::{self, Account, Event, Program, Wait};
use lokt_core::decide::{Cause, Decision, Facts, Freeze, Intent, Line, Slot as Judged, Token, decide};
use lokt_core::denial::Denial;
use lokt_core::guard::Ended;
use lokt_core::hold::{Hold, Identity};
use lokt_core::time::{Elapsed, Moment};

use crate::store::{Ask, Commit, Contract, Frozen, Ruling, Slot, Target, View};
use lokt_core::liveness::Liveness;

/// Facts about an ask that the audit log receives beside the decision.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// The wait that this attempt ends without a grant.
    pub waited: Option<Waited>,
    /// Time at which the ask was first put in the queue, by the monotonic clock, and its position.
    pub queued: Option<(u64, u64)>,
    /// The command that runs under the hold.
    pub program: Option<Arc<Program>>,
    /// For a hold that is released: since when it was held, by the boot clock, and how the command
    /// under it ended.
    pub held: Option<(u64, Option<Ended>)>,
}

/// A wait that ended without a grant.
#[derive(Debug, Clone, Copy)]
pub struct Waited {
    /// Its duration in milliseconds.
    pub ms: u64,
    /// The reason why it ended.
    pub why: &'static str,
}

/// Rules on `ask`. `waits`: the caller queues instead of accepting a refusal that may pass.
pub fn rule(ask: &Ask<'_>, waits: bool, story: &Story, view: &View, me: &Identity, contract: &Contract) -> Ruling {
    let decision = decision(ask, view, me, contract);
    match decision {
        Decision::Deny(denial) if waits && may_pass(&denial) => Ruling::Queue(denial),
        Decision::Deny(_) | Decision::Inside => {
            let events = told(&decision, view.slot.hold(), ask, story, me, &view.at);
            let why = if let Decision::Deny(denial) = decision { Some(denial) } else { None };
            Ruling::Stay { why, events }
        }
        Decision::Commit { .. } => commit(decision, ask, story, view, me),
    }
}

/// Decides `ask`, for callers that only want to know.
pub fn decision(ask: &Ask<'_>, view: &View, me: &Identity, contract: &Contract) -> Decision {
    decide(&ask.intent, facts(ask, view), me, &contract.policy)
}

/// Reports whether waiting may help.
pub fn may_pass(denial: &Denial) -> bool {
    matches!(denial, Denial::Held(_) | Denial::Queued { .. } | Denial::Frozen(_) | Denial::BeingWritten)
}

/// Returns the facts that a decision needs.
fn facts<'a>(ask: &'a Ask<'_>, view: &'a View) -> Facts<'a> {
    let (mut liveness, mut elapsed) = (Liveness::Unknown, Elapsed::NOTHING);
    let slot = match &view.slot {
        Slot::Free => Judged::Free,
        Slot::Held(holder) => {
            (liveness, elapsed) = (holder.liveness, holder.elapsed);
            Judged::Held(&holder.hold)
        }
        Slot::Corrupt(why) => Judged::Corrupt(why),
        Slot::BeingWritten => Judged::BeingWritten,
        Slot::Newer(version) => Judged::Newer(*version),
        Slot::Unreadable(_) => Judged::Corrupt("it can't be read"),
    };
    let frozen = view.frozen.as_ref().map(|frozen| match frozen {
        Frozen::Known(holder) => Freeze::Known(holder),
        Frozen::Unreadable(_) => Freeze::Unreadable,
    });
    let line = Line { ahead: view.ahead };
    Facts { slot, liveness, elapsed, frozen, line, fresh_id: &ask.fresh_id, now: view.at }
}

fn commit(mut decision: Decision, ask: &Ask<'_>, story: &Story, view: &View, me: &Identity) -> Ruling {
    if let Decision::Commit { next: Some(next), .. } = &mut decision {
        ask.name.as_str().clone_into(&mut next.name);
    }
    let before = view.slot.hold();
    let events = told(&decision, before, ask, story, me, &view.at);
    let Decision::Commit { next, token, cause, broken } = decision else {
        unreachable!("only commits are made into one")
    };
    let removed = match (&next, broken, view.slot.holder()) {
        (Some(_), Some(_), _) => events.first().cloned(),
        // The caller's own stale hold, which was to be revived.
        (Some(_), None, Some(holder)) if !holder.lives() => {
            let gone = Decision::Commit { next: None, token: Token::Keep, cause: Cause::Prune, broken: None };
            told(&gone, before, ask, story, me, &view.at).into_iter().next()
        }
        _ => None,
    };
    Ruling::Commit(Box::new(Commit { next, token, cause, broken, events, removed }))
}

/// Returns the audit events for a decision.
pub(crate) fn told(
    decision: &Decision,
    before: Option<&Hold>,
    ask: &Ask<'_>,
    story: &Story,
    me: &Identity,
    now: &Moment,
) -> Vec<Event> {
    // A check leaves no trace.
    if matches!(ask.intent, Intent::Check(_)) {
        return Vec::new();
    }
    let mut told = audit::events(decision, before, ttl_sec(&ask.intent), ask.name.as_str(), me, now.wall);
    for event in told.iter_mut().filter(|event| ask.target == Target::Freeze && event.event == "auto-prune") {
        event.extra.insert("freeze".into(), true.into());
    }
    if let (Some(waited), Decision::Deny(_), Some(event)) = (story.waited, decision, told.first_mut()) {
        event.extra.insert("waited_ms".into(), waited.ms.into());
        event.extra.insert("reason".into(), waited.why.into());
    }
    let mut account = story.account(now);
    // The caller of `unlock` knows about a hold only what the record says.
    if let (None, Decision::Commit { cause: Cause::Release(part), .. }, Some(hold)) =
        (account.held_ms, decision, before)
    {
        account.held_ms = audit::held_ms(hold, *part, now, me);
    }
    account.complete(&mut told);
    told
}

impl Story {
    fn account(&self, now: &Moment) -> Account {
        let waited = |(since_ms, position)| Wait { ms: now.monotonic_ms.saturating_sub(since_ms), position };
        Account {
            wait: self.queued.map(waited),
            program: self.program.as_deref().cloned(),
            ended: self.held.and_then(|(_, ended)| ended),
            held_ms: self.held.map(|(since_ms, _)| now.boottime_ms.saturating_sub(since_ms)),
        }
    }
}

/// Returns the TTL that is asked for, in seconds.
fn ttl_sec(intent: &Intent) -> Option<u64> {
    match intent {
        Intent::Lock(terms) | Intent::TakeOver(terms) | Intent::Guard(terms, _) => terms.ttl_sec,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lokt_core::decide::{Policy, Presented, Terms};
    use lokt_core::denial::Holder;
    use lokt_core::hold::{Fence, LockId};
    use lokt_core::name::LockName;

    use super::*;
    use crate::store::{Child, Commit, Expiry, Publish, Several, WakeOn};
    use lokt_sys::machine::{Linux, Machine as _, identity};

    const CONTRACT: Contract = Contract {
        policy: Policy::NAMED,
        expiry: Expiry::Clock,
        spans_hosts: false,
        child: Child::Counts,
        several: Several::OneByOne,
        publish: Publish::Atomic,
        look_ms: None,
    };

    fn somebody(owner: &str) -> Identity {
        identity(owner.into(), None)
    }

    fn view(slot: Slot) -> View {
        let (at, ends) = (Linux.now(), WakeOn::Time);
        View { at, slot, frozen: None, queue: Vec::new(), ahead: 0, waiting: 0, ends }
    }

    fn ask(name: &LockName, intent: Intent) -> Ask<'_> {
        Ask::lock(name, intent, LockId::from_bits(7))
    }

    fn ruling(ask: &Ask<'_>, waits: bool, view: &View, owner: &str) -> Ruling {
        rule(ask, waits, &Story::default(), view, &somebody(owner), &CONTRACT)
    }

    fn granted(name: &LockName, owner: &str) -> Box<Commit> {
        match ruling(&ask(name, Intent::Lock(Terms::default())), false, &view(Slot::Free), owner) {
            Ruling::Commit(commit) => commit,
            other => panic!("the name is free: {other:?}"),
        }
    }

    /// A name that alice holds without an end.
    fn held(name: &LockName) -> View {
        let mut commit = granted(name, "alice");
        commit.fill_token(Fence::new(5).expect("a token"));
        let hold = *commit.next.expect("a hold is stored");
        let (at, me) = (Linux.now(), somebody("alice"));
        let elapsed = Elapsed::of(&hold, &at, &me);
        view(Slot::Held(Box::new(Holder { hold, liveness: Liveness::Unknown, elapsed })))
    }

    #[test]
    fn a_drawn_token_is_in_the_hold_and_in_the_event_that_tells_of_it() {
        let name = LockName::new("x").expect("a name");
        let mut commit = granted(&name, "alice");
        assert_eq!(commit.token, Token::Draw, "a new hold draws");
        commit.fill_token(Fence::new(42).expect("a token"));
        assert_eq!(commit.next.and_then(|next| next.token), Fence::new(42), "the hold has it");
        let told = commit.events.last().and_then(|event| event.extra.get("fencing_token").cloned());
        assert_eq!(told, Some(42.into()), "the event has it");
    }

    #[test]
    fn a_refusal_that_may_pass_queues_only_those_who_wait() {
        let name = LockName::new("x").expect("a name");
        let lock = ask(&name, Intent::Lock(Terms::default()));
        assert!(matches!(ruling(&lock, true, &held(&name), "bob"), Ruling::Queue(Denial::Held(_))), "bob waits");
        let Ruling::Stay { why: Some(Denial::Held(_)), events } = ruling(&lock, false, &held(&name), "bob") else {
            panic!("bob is refused")
        };
        assert_eq!(events.len(), 1, "a refusal is told");
        let newer = ruling(&lock, true, &view(Slot::Newer(9)), "bob");
        assert!(matches!(newer, Ruling::Stay { why: Some(Denial::Newer { version: 9 }), .. }), "waiting can't help");
    }

    #[test]
    fn a_check_of_a_token_leaves_no_trace() {
        let name = LockName::new("x").expect("a name");
        for (token, passes) in [(5, true), (4, false)] {
            let check = ask(&name, Intent::Check(Presented::from(token)));
            let Ruling::Stay { why, events } = ruling(&check, false, &held(&name), "alice") else {
                panic!("a check changes nothing")
            };
            assert_eq!(why.is_none(), passes, "the token is {token}");
            assert!(events.is_empty(), "nothing is told");
        }
    }

    #[test]
    fn what_is_removed_without_a_successor_is_told_as_that() {
        let name = LockName::new("x").expect("a name");
        let mut stale = held(&name);
        if let Slot::Held(holder) = &mut stale.slot {
            holder.elapsed.owner = lokt_core::time::Lease::Over(1);
        }
        for (owner, event) in [("bob", "auto-prune"), ("alice", "auto-prune")] {
            let lock = ask(&name, Intent::Lock(Terms::default()));
            let Ruling::Commit(commit) = ruling(&lock, false, &stale, owner) else { panic!("it is over") };
            let removed = commit.removed.expect("something is removed first");
            assert_eq!(removed.event, event, "{owner} removed it");
        }
        assert!(granted(&name, "bob").removed.is_none(), "nothing was there");
    }
}
