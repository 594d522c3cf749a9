//! One decision about claims: the composer that asks the pure judge and writes what it says.

use lokt_core::ledger::claiming::ClaimFacts;
use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::lock_file::LockFile;
use lokt_core::ledger::seq::Seq;

use super::Ledger;
use super::answers::ClaimTerms;
use super::claim_list::{trusted, unreadable};
use super::log::{Compose, Composed, LedgerView, Need, Op, Piece};
use lokt_sys::call::Call;
use lokt_sys::error::Error;
use lokt_sys::warnings::Warning;

/// A decision and the events that record it.
pub(super) type Decided<T, D> = Result<(T, Vec<Draft>), D>;

/// A decision, and what came of it.
pub(super) enum Judged<T, D> {
    /// The last event has this number.
    Done(T, Seq),
    /// The pure judge said no.
    Denied(D),
    /// No event was needed.
    Nothing,
}

/// One decision about claims.
pub(super) struct Judge<'j, T, D> {
    ledger: &'j Ledger,
    force: bool,
    files: &'j [LockFile],
    decide: &'j dyn Fn(ClaimFacts<'_>) -> Decided<T, D>,
    /// The last answer.
    decided: Option<Result<T, D>>,
    warning: Option<Warning>,
    /// The number of the last event that was composed.
    written: Option<Seq>,
    /// Number of the last published event, if some of them were lost: it may be a claim of ours.
    made: Option<Seq>,
}

impl<'j, T, D> Judge<'j, T, D> {
    pub(super) fn new(
        ledger: &'j Ledger,
        files: &'j [LockFile],
        decide: &'j dyn Fn(ClaimFacts<'_>) -> Decided<T, D>,
    ) -> Self {
        Self { ledger, force: false, files, decide, decided: None, warning: None, written: None, made: None }
    }

    /// Decides and adds the events of the decision. Of a dry run, the answer has the number that
    /// the last of them would get.
    pub(super) fn run(
        mut self,
        terms: &ClaimTerms,
        warnings: &mut Vec<Warning>,
        call: &Call<'_>,
    ) -> Result<Judged<T, D>, Error> {
        self.force = terms.force;
        let log = self.ledger.log();
        let last = if terms.dry_run {
            let said = log.rehearse(&mut self, call)?;
            warnings.extend(said.warnings);
            said.value.map(|would| would.head + would.count)
        } else {
            let said = log.commit(&Op::new(), &mut self, call)?;
            warnings.extend(said.warnings);
            said.value.map(|done| done.last.get())
        };
        warnings.extend(self.warning);
        Ok(match (last, self.decided) {
            (Some(last), Some(Ok(decided))) => Judged::Done(decided, Seq::new(last).unwrap_or(Seq::MAX)),
            (None, Some(Err(denied))) => Judged::Denied(denied),
            _ => Judged::Nothing,
        })
    }
}

impl<T, D> Compose for Judge<'_, T, D> {
    fn need(&self) -> Need {
        Need::Fold
    }

    fn compose(&mut self, at: &mut LedgerView<'_>) -> Result<Composed, Error> {
        let folded = at.fold();
        trusted(folded, at.gap, self.force)?;
        self.warning = unreadable(folded);
        let facts = ClaimFacts {
            style: self.ledger.settings().style,
            table: &folded.table,
            proof: folded.proof.as_ref(),
            files: self.files,
            now: at.now,
            me: self.ledger.me(),
            next: at.next,
            made: self.made,
        };
        let (decided, composed) = match (self.decide)(facts) {
            Ok((decided, drafts)) => {
                self.written = Seq::new(at.next.get() + (drafts.len() as u64).saturating_sub(1));
                (Ok(decided), Composed::Add(drafts.into_iter().map(Piece::from).collect()))
            }
            Err(denied) => (Err(denied), Composed::Refused),
        };
        self.decided = Some(decided);
        Ok(composed)
    }

    fn lost(&mut self, _which: &[usize]) {
        self.made = self.written;
    }
}
