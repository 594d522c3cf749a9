//! The simulated world: one slot, whatever was put there as bytes, and everybody who acts on it. Every answer of `decide` is held
//! against the books; an assertion that fails begins with the name of the promise that was broken.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use lokt_core::decide::{Cause, Decision, Facts, Freeze, Intent, Line, Policy, Slot, Token, decide};
use lokt_core::denial::{Denial, Holder};
use lokt_core::hold::{Fence, Hold, Identity, LockId, PartKind, PulseRef, RECORD_VERSION};
use lokt_core::liveness::{Liveness, weigh};
use lokt_core::record::{self, Parsed};
use lokt_core::time::{Elapsed, Lease, Moment};
use serde_json::Value;

use super::ledger::Ledger;
use super::machines::{Seat, Stage};

/// What kind of freeze is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frost {
    Known,
    Unreadable,
}

/// What is stored: bytes, as in a file, or an empty file that is still young.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    Nothing,
    Bytes(Vec<u8>),
    Young,
}

/// What somebody saw before the answer, and the answer.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, by the books")]
pub(crate) struct Asked {
    /// The hold that was there.
    pub(crate) before: Option<Hold>,
    /// By the books: does its process part count, does its owner part?
    pub(crate) process_lives: bool,
    pub(crate) owner_lives: bool,
    /// Is its process, or its command, seen to run?
    pub(crate) seen: bool,
    pub(crate) mine: bool,
    pub(crate) decision: Decision,
}

impl Asked {
    pub(crate) fn lives(&self) -> bool {
        self.process_lives || self.owner_lives
    }
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) stage: Stage,
    pub(crate) stored: Stored,
    pub(crate) ledger: Ledger,
    /// The times that were written and the books as they were, if somebody has edited the record since.
    pub(crate) unedited: Option<([Option<Value>; 2], Ledger)>,
    pub(crate) frost: Option<Frost>,
    pub(crate) ahead: usize,
    /// The last token that was given.
    tokens: u64,
    /// Every lock id that was ever given, for new ones to differ from.
    ids: BTreeSet<String>,
    fresh: u128,
}

impl World {
    pub(crate) fn new(shared: bool) -> Self {
        Self {
            stage: Stage::new(shared),
            stored: Stored::Nothing,
            ledger: Ledger::default(),
            unedited: None,
            frost: None,
            ahead: 0,
            tokens: 0,
            ids: BTreeSet::new(),
            fresh: 0,
        }
    }

    /// The stored hold, read anew from its bytes.
    pub(crate) fn hold(&self) -> Option<Hold> {
        match &self.stored {
            Stored::Bytes(bytes) => match record::parse(bytes) {
                Parsed::Hold(hold) => Some(*hold),
                Parsed::Newer(_) | Parsed::Corrupt(_) => None,
            },
            Stored::Nothing | Stored::Young => None,
        }
    }

    /// Asks `intent` as `me` from `seat`, and puts the answer into the slot. The books are the caller's to keep.
    pub(crate) fn ask(&mut self, seat: Seat, me: &Identity, intent: &Intent, misfit: bool) -> Asked {
        self.ask_with_pulse(seat, me, intent, None, misfit)
    }

    /// The same for a process with this pulse.
    pub(crate) fn ask_with_pulse(
        &mut self,
        seat: Seat,
        me: &Identity,
        intent: &Intent,
        pulse: Option<PulseRef>,
        misfit: bool,
    ) -> Asked {
        let parsed = match &self.stored {
            Stored::Bytes(bytes) => Some(record::parse(bytes)),
            Stored::Nothing | Stored::Young => None,
        };
        let slot = match (&self.stored, &parsed) {
            (Stored::Young, _) => Slot::BeingWritten,
            (_, None) => Slot::Free,
            (_, Some(Parsed::Hold(hold))) => Slot::Held(hold),
            (_, Some(Parsed::Newer(version))) => Slot::Newer(*version),
            (_, Some(Parsed::Corrupt(why))) => Slot::Corrupt(why),
        };
        let now = self.stage.now(seat);
        let before = match slot {
            Slot::Held(hold) => Some(hold.clone()),
            _ => None,
        };
        // Behind a misfit only the guard's pid is left to ask about: that its command may outlive it unseen is a limit of that view.
        let misfit = misfit && !self.an_orphan_holds();
        let (elapsed, liveness) = match &before {
            Some(hold) => (Elapsed::of(hold, &now, me), weigh(hold, me, self.stage.look(hold, seat, misfit))),
            None => (Elapsed::NOTHING, Liveness::Unknown),
        };
        let (process_lives, owner_lives) = self.judge(before.as_ref(), seat, misfit, elapsed, liveness);
        self.fresh += 1;
        let fresh_id = LockId::from_bits(self.fresh);
        let freeze = Holder { hold: freeze_hold(), liveness: Liveness::Unknown, elapsed: Elapsed::NOTHING };
        let facts = Facts {
            slot,
            liveness,
            elapsed,
            frozen: self.frost.map(|frost| match frost {
                Frost::Known => Freeze::Known(&freeze),
                Frost::Unreadable => Freeze::Unreadable,
            }),
            line: Line { ahead: self.ahead },
            fresh_id: &fresh_id,
            now,
        };
        let token = Fence::new(self.tokens + 1).expect("tests give few tokens");
        let mut decision = decide(intent, facts, me, &Policy::NAMED);
        check_drawn(&decision);
        decision = decision.with_token(token);
        if let Some(pulse) = pulse {
            decision = decision.with_pulse(pulse);
        }
        let mine = before.as_ref().is_some_and(|hold| hold.owner == me.owner);
        if let Decision::Commit { next, cause, .. } = &decision {
            match next {
                None => self.put(Stored::Nothing),
                Some(next) => {
                    // The shell knows the name.
                    let next = Hold { name: "build".into(), ..(**next).clone() };
                    self.check_tokens(before.as_ref(), &next, *cause, process_lives || owner_lives);
                    check_record(before.as_ref(), &next, now, me);
                    self.put(Stored::Bytes(record::encode(&next)));
                }
            }
        }
        let seen = matches!(liveness, Liveness::Alive | Liveness::Orphan);
        Asked { before, process_lives, owner_lives, seen, mine, decision }
    }

    /// Replaces what is stored; edits of what was there before are history.
    pub(crate) fn put(&mut self, stored: Stored) {
        self.stored = stored;
        self.unedited = None;
    }

    fn an_orphan_holds(&self) -> bool {
        let process = self.ledger.claim(PartKind::Process).and_then(|claim| claim.process);
        process.map(|number| &self.stage.processes[number]).is_some_and(|p| !p.alive && p.command == Some(true))
    }

    /// What the books say about the parts, after holding what was measured against it.
    fn judge(
        &self,
        before: Option<&Hold>,
        seat: Seat,
        misfit: bool,
        elapsed: Elapsed,
        liveness: Liveness,
    ) -> (bool, bool) {
        let Some(hold) = before else {
            assert!(self.ledger.claims.is_empty(), "one-holder: a hold vanished: {:?}", self.ledger);
            return (false, false);
        };
        let runs = |kind| {
            let claim = self.ledger.claim(kind);
            let runs = claim.is_some_and(|claim| !claim.is_over(seat, &self.stage));
            let measured = elapsed.part(kind);
            assert_eq!(
                measured.runs(),
                runs,
                "no-clock-trust: {measured:?} was measured from {seat:?} for {claim:?}, machines {:?}",
                self.stage.machines
            );
            assert_eq!(measured == Lease::Absent, claim.is_none(), "{measured:?} was measured for {claim:?}");
            runs
        };
        let (process_runs, owner_runs) = (runs(PartKind::Process), runs(PartKind::Owner));
        let number = self.ledger.claim(PartKind::Process).and_then(|claim| claim.process);
        let gone = number.is_some_and(|number| {
            let process = &self.stage.processes[number];
            let provable = self.stage.is_provably_gone(hold, process, seat, misfit);
            assert!(provable || liveness != Liveness::Gone, "child-counts: {process:?} counts as gone from {seat:?}");
            assert!(
                !provable || liveness == Liveness::Gone,
                "crash-frees: {process:?} counts as {liveness:?} from {seat:?}"
            );
            provable
        });
        (process_runs && !gone, owner_runs)
    }

    fn check_tokens(&mut self, before: Option<&Hold>, next: &Hold, cause: Cause, lived: bool) {
        let token = next.token.expect("token-order: a hold was written without a token").get();
        let kept = before.is_some_and(|hold| hold.lock_id == next.lock_id && hold.token == next.token);
        if kept {
            // A late renewal is the one thing that may go on with a hold that is over.
            let late =
                cause == Cause::Renew && next.pulse.is_some() && before.is_some_and(|hold| hold.pulse == next.pulse);
            assert!(lived || late, "token-order: token {token} went on though its hold was over");
            return;
        }
        assert!(token > self.tokens, "token-order: {token} was given after {}", self.tokens);
        self.tokens = token;
        let same_id = before.is_some_and(|hold| hold.lock_id == next.lock_id);
        let fresh = self.ids.insert(next.lock_id.as_str().into());
        assert!(same_id || fresh, "token-order: lock id {} was given twice", next.lock_id);
        assert!(!next.lock_id.is_empty(), "a hold was written without a lock id");
    }

    /// Why somebody who wants a hold is refused: nothing but the reasons that there are.
    pub(crate) fn check_refusal(&self, asked: &Asked, denial: &Denial, for_guard: bool) {
        match denial {
            Denial::Held(_) => {
                let excluded = asked.lives() && (!asked.mine || (for_guard && asked.process_lives));
                assert!(excluded, "crash-frees: refused by a hold that is over: {asked:?}");
            }
            Denial::Frozen(freeze) => {
                assert!(self.frost.is_some(), "refused by a freeze that is not there");
                assert_eq!(freeze.is_none(), self.frost == Some(Frost::Unreadable));
                assert!(!asked.lives() || (asked.mine && for_guard), "a freeze refused what it must not: {asked:?}");
            }
            Denial::Queued { ahead } => {
                assert!(*ahead == self.ahead && self.ahead > 0, "in-order: refused by a line that is not there");
                assert!(!asked.lives() && self.frost.is_none(), "{asked:?}");
            }
            Denial::BeingWritten => assert_eq!(self.stored, Stored::Young),
            Denial::Newer { .. } => assert!(asked.before.is_none()),
            other => panic!("no reason to refuse: {other:?}"),
        }
    }
}

fn freeze_hold() -> Hold {
    let Parsed::Hold(hold) = record::parse(br#"{"owner":"ops","host":"vm"}"#) else { panic!("it is a record") };
    *hold
}

/// A hold that gets a new token has none yet; one that keeps its token has it.
fn check_drawn(decision: &Decision) {
    if let Decision::Commit { next, token, .. } = decision {
        let has_token = next.as_ref().is_none_or(|next| next.token.is_some());
        assert_eq!(*token == Token::Keep, has_token, "token-order: {decision:?}");
    }
}

/// What is written reads back, and its top level tells the truth to readers that know nothing else.
fn check_record(before: Option<&Hold>, next: &Hold, now: Moment, me: &Identity) {
    let bytes = record::encode(next);
    assert_eq!(record::parse(&bytes), Parsed::Hold(Box::new(next.clone())), "whole-records: it reads back differently");
    assert_eq!(next.version, RECORD_VERSION, "what we write is of our version");
    assert_eq!(next.acquired, Some(now.wall), "acquired_ts is the time of this write");
    if let Some(before) = before.filter(|before| before.lock_id == next.lock_id) {
        assert_eq!(next.extra, before.extra, "a rewrite lost members that it did not know");
    }

    let parts = next.parts.as_ref().expect("what we write has parts");
    let present: Vec<_> = [&parts.process, &parts.owner].into_iter().flatten().collect();
    assert!(!present.is_empty() && !parts.edited, "a hold has at least one part, and is not edited by its own writer");
    if let [only] = present[..]
        && only.since == now.wall
    {
        let ttl = only.ttl_sec.map(|ttl| i64::try_from(ttl).expect("tests write short leases"));
        assert_eq!(next.ttl_sec, ttl.unwrap_or(0), "ttl_sec is not the lease of the only part");
        let end = ttl.map(|ttl| now.wall.checked_add(SignedDuration::from_secs(ttl)).expect("in this century"));
        assert_eq!(next.expires_at, end, "expires_at is not acquired_ts + ttl_sec");
    }

    let blind = Hold { parts: None, ..next.clone() };
    let seen = Elapsed::of(&blind, &now, me).process;
    match (seen, Elapsed::of(next, &now, me).left_ms()) {
        (Lease::Endless, None) => {}
        (Lease::Left(seen_ms), Some(left_ms)) => {
            assert!(seen_ms.abs_diff(left_ms) <= 1, "the top level says {seen_ms} ms, but {left_ms} ms are left");
            let by_ttl = u64::try_from(next.ttl_sec).expect("a lease is not negative") * 1000;
            assert!(by_ttl >= left_ms, "ttl_sec says {by_ttl} ms, but {left_ms} ms are left");
            // Another program's heartbeat counts its next end from `ttl_sec`, which must not shrink below its lease.
            let process = parts.process.as_ref().filter(|_| next.has_foreign_process());
            let heartbeat_ms = process.and_then(|part| part.ttl_sec).unwrap_or(0) * 1000;
            assert!(by_ttl <= (left_ms.max(1) + 999).max(heartbeat_ms), "ttl_sec is more than rounded up");
        }
        (seen, left) => panic!("the top level says {seen:?}, but {left:?} ms are left"),
    }
}
