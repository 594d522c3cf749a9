//! Claims: exactly one agent has a task, until it releases the claim or the claim expires.
//!
//! A decision is made about the ledger inside the lock, and its events are added in the same hold
//! of it. So an expired claim is ended and the next one made with no writer in between, and a reap
//! never ends a claim that was extended in the last moment. A waiter is woken by changes of the
//! ledger and by the end of the claim that it waits for.

use std::time::Duration;

use lokt_core::denial::Denial;
use lokt_core::ledger::claiming::{self, ClaimFacts, Refused, Taken, check_node};
use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::meta::{LOCK_TIMEOUT_SEC, LOCK_TIMEOUT_SEC_MAX};
use lokt_core::ledger::seq::Seq;

use super::Ledger;
use super::answers::{ClaimTerms, Claimed, Claiming, How, Reaped, Releasing};
use super::claim_judge::{Judge, Judged};
use super::file::{FileLog, LockFiles};
use lokt_sys::call::Call;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::nap::{Nap, Subscription, WaitClock, Woken};
use lokt_sys::wait_policy::{Timeout, WaitPolicy};
use lokt_sys::wakeup::Wakeup;
use lokt_sys::warnings::{Warning, WithWarnings};

impl Ledger {
    /// Claims the first of `nodes` that is free, waiting for it if asked to.
    pub fn take(
        &self,
        nodes: &[String],
        terms: &ClaimTerms,
        patience: &mut WaitPolicy<'_>,
    ) -> Result<WithWarnings<Claiming>, Error> {
        self.check_names(nodes)?;
        let mut odd = Vec::new();
        let ttl_sec = self.ttl_sec(terms.ttl_sec, &mut odd)?;
        let timeout = if terms.dry_run { Timeout::Once } else { patience.timeout };
        let cant_sleep = |error| Error::io("wait in", self.path(), error);
        let wakeup = (!timeout.is_once()).then(Wakeup::new).transpose().map_err(cant_sleep)?;
        let clock = WaitClock::start(&*self.machine, timeout);
        loop {
            let left = clock.left();
            self.log().check()?;
            // Subscribe before the attempt, so that any change after it wakes us.
            let changes = match &wakeup {
                Some(wakeup) if !left.is_zero() => {
                    wakeup.heard();
                    self.log().arm(None, wakeup)?
                }
                _ => Subscription::none(),
            };
            // A caller's timeout counts for another program's lock, too.
            let call = match timeout {
                Timeout::After(_) => Call::within(left, &self.now()),
                Timeout::Once | Timeout::Never => Call::UNLIMITED,
            };
            let mut warnings = odd.clone();
            let refused = match self.try_take(nodes, ttl_sec, terms, &mut warnings, &call) {
                Ok(Judged::Done(taken, seq)) => {
                    let value = Claiming::Claimed(self.claimed(taken, seq, ttl_sec));
                    return Ok(WithWarnings { value, warnings });
                }
                Ok(Judged::Denied(refused)) => refused,
                Ok(Judged::Nothing) => unreachable!("a claim is an event"),
                // Treat a busy ledger like a claimed node: keep waiting.
                Err(error) if error.kind() == ErrorKind::Busy && !left.is_zero() => Vec::new(),
                Err(error) => return Err(error),
            };
            let is_busy = refused.is_empty();
            if left.is_zero() || !(is_busy || refused.iter().any(|(_, refused)| may_end(refused))) {
                let first = refused.into_iter().next();
                let (node, refused) = first.unwrap_or_else(|| (String::new(), Refused::NoSuchNode));
                return Ok(WithWarnings { value: Claiming::Denied { node, refused }, warnings });
            }
            if let Some((node, denial)) = held(&refused) {
                clock.tell_if_due(patience, node, denial, 0);
            }
            // A busy ledger changes all the time: its changes say nothing about the claim.
            let changes = if is_busy { Subscription::none() } else { changes };
            let woken = Nap::new(&clock)
                .on_all(&wakeup)
                .subscribed(&changes)
                .due_in(ends_in(&refused))
                .sleep(patience.alarm.as_deref_mut())
                .map_err(cant_sleep)?;
            if woken == Woken::Interrupted {
                return Ok(WithWarnings { value: Claiming::Interrupted, warnings });
            }
        }
    }

    fn try_take(
        &self,
        nodes: &[String],
        ttl_sec: u64,
        terms: &ClaimTerms,
        warnings: &mut Vec<Warning>,
        call: &Call<'_>,
    ) -> Result<Judged<Taken, Vec<(String, Refused)>>, Error> {
        let files = self.lock_files();
        warnings.extend(files.warnings);
        let decide = |facts: ClaimFacts<'_>| claiming::take(facts, nodes, ttl_sec, terms.only_new).map(with_drafts);
        Judge::new(self, &files.found, &decide).run(terms, warnings, call)
    }

    /// Gives a claim a new end, counted from now. `token`: only if it is this one.
    pub fn extend(&self, node: &str, token: Option<Seq>, terms: &ClaimTerms) -> Result<WithWarnings<Claiming>, Error> {
        self.check_names(&[node.to_owned()])?;
        let mut warnings = Vec::new();
        let ttl_sec = self.ttl_sec(terms.ttl_sec, &mut warnings)?;
        let decide = |facts: ClaimFacts<'_>| claiming::extend(facts, node, ttl_sec, token).map(with_drafts);
        let value = match Judge::new(self, &[], &decide).run(terms, &mut warnings, &Call::UNLIMITED)? {
            Judged::Done(taken, seq) => Claiming::Claimed(self.claimed(taken, seq, ttl_sec)),
            Judged::Denied(refused) => Claiming::Denied { node: node.to_owned(), refused },
            Judged::Nothing => unreachable!("an extension is an event"),
        };
        Ok(WithWarnings { value, warnings })
    }

    /// Ends a claim of ours. `token`: only if it is this one.
    pub fn release(
        &self,
        node: &str,
        token: Option<Seq>,
        terms: &ClaimTerms,
    ) -> Result<WithWarnings<Releasing>, Error> {
        self.check_names(&[node.to_owned()])?;
        let mut warnings = Vec::new();
        let decide =
            |facts: ClaimFacts<'_>| claiming::release(facts, node, token).map(|ended| (ended.token, vec![ended.draft]));
        let value = match Judge::new(self, &[], &decide).run(terms, &mut warnings, &Call::UNLIMITED)? {
            Judged::Done(token, seq) => Releasing::Released { seq, token },
            Judged::Denied(refused) => Releasing::Denied(refused),
            Judged::Nothing => unreachable!("a release is an event"),
        };
        Ok(WithWarnings { value, warnings })
    }

    /// Ends every claim that has expired.
    pub fn reap(&self, terms: &ClaimTerms) -> Result<WithWarnings<Reaped>, Error> {
        let mut warnings = Vec::new();
        let decide = |facts: ClaimFacts<'_>| {
            let swept = claiming::reap(facts);
            Ok::<_, Refused>((swept.claims, swept.drafts))
        };
        let value = match Judge::new(self, &[], &decide).run(terms, &mut warnings, &Call::UNLIMITED)? {
            Judged::Done(claims, seq) => {
                let claims = claims.into_iter().map(|(node, owner, token)| (node, owner, Some(token)));
                Reaped { claims: claims.collect(), seq: Some(seq).filter(|_| !terms.dry_run) }
            }
            Judged::Denied(_) | Judged::Nothing => Reaped::default(),
        };
        Ok(WithWarnings { value, warnings })
    }

    /// The duration of a claim in seconds, if `asked` was asked for. What is odd about it becomes a
    /// warning.
    fn ttl_sec(&self, asked: Option<u64>, warnings: &mut Vec<Warning>) -> Result<u64, Error> {
        match asked {
            Some(0) => Err(Error::new(ErrorKind::BadEvent, "a claim lasts at least a second")),
            Some(ttl_sec) => {
                if ttl_sec > LOCK_TIMEOUT_SEC_MAX {
                    let limit = "other programs expect a claim to last an hour at most";
                    warnings.push(Warning::OtherPrograms(limit.to_owned()));
                }
                Ok(ttl_sec)
            }
            None => {
                let (ttl_sec, warning) = self.files.as_ref().map_or((LOCK_TIMEOUT_SEC, None), FileLog::lock_timeout);
                warnings.extend(warning);
                Ok(ttl_sec)
            }
        }
    }

    /// Claims in files of their own, where there are files.
    pub(super) fn lock_files(&self) -> LockFiles {
        self.files.as_ref().map(FileLog::lock_files).unwrap_or_default()
    }

    fn check_names(&self, nodes: &[String]) -> Result<(), Error> {
        let bad = |why: String| Err(Error::new(ErrorKind::BadEvent, why));
        if nodes.is_empty() {
            return bad("there is no node to claim".to_owned());
        }
        if self.me().owner.trim().is_empty() {
            return bad("an owner's name must not be blank".to_owned());
        }
        match nodes.iter().find_map(|node| check_node(self.settings().style, node).err()) {
            Some(why) => bad(why.to_string()),
            None => Ok(()),
        }
    }

    fn claimed(&self, taken: Taken, seq: Seq, ttl_sec: u64) -> Claimed {
        let how = match (taken.token, taken.from) {
            (Some(_), _) => How::Refreshed,
            (None, Some(from)) => How::TookOver { from },
            (None, None) => How::New,
        };
        let (owner, token) = (self.me().owner.clone(), taken.token.unwrap_or(seq));
        let (at, expires_at, before) = (taken.at, taken.expires_at, taken.before.map(Box::new));
        Claimed { node: taken.node, owner, seq, token, ttl_sec, at, expires_at, how, before }
    }
}

/// A new or extended claim with its events.
fn with_drafts(mut taken: Taken) -> (Taken, Vec<Draft>) {
    let drafts = std::mem::take(&mut taken.drafts);
    (taken, drafts)
}

/// The first node that has a holder, and why it can't be claimed.
fn held(refused: &[(String, Refused)]) -> Option<(&str, &Denial)> {
    refused.iter().find_map(|(node, refused)| match refused {
        Refused::Hold(denial) => Some((node.as_str(), denial)),
        Refused::NotAvailable(_) | Refused::NoSuchNode => None,
    })
}

/// Time until the first of the claims in the way expires.
fn ends_in(refused: &[(String, Refused)]) -> Option<Duration> {
    let left_ms = |(_, refused): &(String, Refused)| match refused {
        Refused::Hold(denial) => denial.holder()?.left_ms(),
        Refused::NotAvailable(_) | Refused::NoSuchNode => None,
    };
    // The last millisecond is still its owner's.
    refused.iter().filter_map(left_ms).min().map(|left_ms| Duration::from_millis(left_ms + 1))
}

/// Reports whether waiting may help.
fn may_end(refused: &Refused) -> bool {
    match refused {
        Refused::Hold(denial) => matches!(denial, Denial::Held(_)),
        Refused::NotAvailable(_) => true,
        Refused::NoSuchNode => false,
    }
}
