//! Many names in a few entries into the mutex, each handled on its own.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Kind;
use super::attempt::{Answer, Attempt, Pending};
use super::audit_write::AuditWrite;
use super::durable::is_synced;
use super::transact::Transactions;
use super::transact::begin;
use crate::store::{Answers, Call, Done, Judge, Request, Target};
use lokt_sys::error::Error;
use lokt_sys::warnings::Warning;

/// Maximum number of names that are changed in one hold of the mutex.
const BATCH_MAX: usize = 256;
/// Maximum milliseconds of one hold of the mutex: a request for one name mustn't wait for thousands
/// of others.
const BATCH_MS: u64 = 50;

/// Answers by the number of their ask.
type Answered = BTreeMap<usize, Done>;

impl Transactions<'_> {
    /// Carries out each ask on its own: judged and changed in one step, and logged right after it.
    /// Locks are changed a few hundred in each hold of the mutex. Only the work outside the mutex
    /// is done for all of them at once: a directory is synced for a batch, not for each. A failure
    /// ends it and is the last answer; what was answered before is durable.
    pub(super) fn each(&self, request: &mut Request<'_>, judge: &mut Judge<'_>, call: &Call<'_>) -> Answers {
        let (mut answers, count) = (Answered::new(), request.asks.len());
        let mut next = 0;
        let mut failure = None;
        while next < count && failure.is_none() {
            let reached = match request.asks[next].target {
                Target::Lock => self.some(request, next..count, judge, call, &mut answers),
                Target::Freeze => self.pursue(request, next, Kind::Freeze, judge, call).map(|done| {
                    answers.insert(next, done);
                    next + 1
                }),
            };
            match reached {
                Ok(reached) => next = reached,
                Err(error) => failure = Some(error),
            }
        }
        let failed = failure.map(|error| (count, Done::Failed(error)));
        answers.into_iter().chain(failed).collect()
    }

    /// Handles the first of `numbers`, as many as fit into one hold of the mutex. Returns the first
    /// of the rest.
    fn some(
        &self,
        request: &mut Request<'_>,
        numbers: Range<usize>,
        judge: &mut Judge<'_>,
        call: &Call<'_>,
        answers: &mut Answered,
    ) -> Result<usize, Error> {
        let inside = self.store.enter_for(request, call)?;
        let began_ms = self.store.machine.now().monotonic_ms;
        let (mut batch, mut trails, mut again) = (Vec::new(), Vec::new(), Vec::new());
        let (mut reached, mut failure) = (numbers.start, None);
        let locks = numbers.take_while(|number| request.asks[*number].target == Target::Lock);
        for number in locks.take(BATCH_MAX) {
            reached = number + 1;
            // Sync inside, so that no other process gets in between. A request that only ends a
            // hold has nothing to sync.
            match self.attempt(&inside, &mut begin(request, number, Kind::Lock, None), judge, true) {
                Ok(Attempt::Done(pending)) => batch.push((number, *pending)),
                Ok(Attempt::Again(trail)) => {
                    trails.push(trail);
                    again.push(number);
                }
                Ok(Attempt::Failed(trail, error)) => {
                    trails.push(trail);
                    failure = Some(error);
                }
                Ok(Attempt::Waits(_) | Attempt::Prepare(_)) => unreachable!("nobody waits, and nothing is prepared"),
                Err(error) => failure = Some(error),
            }
            if failure.is_some() || self.store.machine.now().monotonic_ms.saturating_sub(began_ms) >= BATCH_MS {
                break;
            }
        }
        drop(inside);
        self.finish_batch(batch, trails, answers)?;
        for number in again {
            let done = self.pursue(request, number, Kind::Lock, judge, call)?;
            answers.insert(number, done);
        }
        failure.map_or(Ok(reached), Err)
    }

    /// [`Self::finish`] for the locks of a batch.
    fn finish_batch(
        &self,
        mut batch: Vec<(usize, Pending)>,
        mut trails: Vec<AuditWrite>,
        answers: &mut Answered,
    ) -> Result<(), Error> {
        let (mut durable, mut syncs) = (Ok(()), false);
        for (_, pending) in &mut batch {
            self.put_away(pending);
            if let Answer::Commit(commit) = &pending.answer {
                syncs |= is_synced(commit, &pending.view.slot);
                durable = durable
                    .and_then(|()| self.store.records().sync_record(Kind::Lock, commit, pending.file.as_deref()));
            }
            trails.push(std::mem::take(&mut pending.trail));
        }
        if syncs {
            durable = durable.and_then(|()| self.store.records().sync_records(Kind::Lock));
        }
        let mut warnings: Vec<Warning> =
            AuditWrite::joined(trails).flat_map(|trail| self.store.sync_audit(trail)).collect();
        durable?;
        for (number, pending) in batch {
            answers.insert(number, pending.answered(std::mem::take(&mut warnings)));
        }
        Ok(())
    }
}
