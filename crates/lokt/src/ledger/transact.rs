//! What a program decides about the ledger as it stands: no other writer gets between the look and the events.

use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::fold::Folded;

use super::Ledger;
use super::answers::Appended;
use super::commit::{Committed, Compose, Need, Outcome, Piece, View};
use crate::error::Error;
use crate::locks::Said;

/// What came of a decision.
#[derive(Debug)]
pub enum Transacted<D> {
    /// Its events are durable.
    Appended(Appended),
    /// It wanted none.
    Nothing,
    /// It said no.
    Denied(D),
}

impl Ledger {
    /// Appends what `decide` says when it is shown what all events say. It is asked before the lock is taken, and again inside if the ledger
    /// has moved meanwhile, a few times at most; so it must be pure, and a busy ledger doesn't make it fail.
    ///
    /// ```
    /// use lokt::Draft;
    /// use lokt::ledger::{Founding, Ledger, Transacted};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let (ledger, _) = Ledger::init(dir.path(), Founding::default(), lokt::identity("alice".into(), None))?;
    /// let said = ledger.transact(|events| {
    ///     if events.through >= 100 {
    ///         return Err("that is enough");
    ///     }
    ///     Ok(vec![Draft::new("counted", vec![("so_far", events.through.into())])])
    /// })?;
    /// assert!(matches!(said.value, Transacted::Appended(appended) if appended.first.get() == 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn transact<D>(
        &self,
        decide: impl FnMut(&Folded) -> Result<Vec<Draft>, D>,
    ) -> Result<Said<Transacted<D>>, Error> {
        let mut warnings = Vec::new();
        let value = match self.commit(&mut Decide(decide), self.settings.chain, &mut warnings, &mut |_, _| {})? {
            Outcome::Committed(done) => {
                let Committed { first, last, count, filler } = done;
                Transacted::Appended(Appended { first, last, count, duplicate: false, filler })
            }
            Outcome::Nothing => Transacted::Nothing,
            Outcome::Denied(denied) => Transacted::Denied(denied),
        };
        Ok(Said { value, warnings })
    }

    /// What all events say: who has what, the chain, gaps and damage.
    pub fn fold(&self) -> Result<Said<Folded>, Error> {
        let head = self.catch_up()?;
        let folded = self.folded(head.seq)?;
        self.keep_what_was_read(Some(folded.clone()));
        Ok(Said { value: folded, warnings: head.warning(self).into_iter().collect() })
    }
}

struct Decide<F>(F);

impl<D, F: FnMut(&Folded) -> Result<Vec<Draft>, D>> Compose for Decide<F> {
    type Denied = D;

    fn need(&self) -> Need {
        Need::Fold
    }

    fn compose(&mut self, view: &mut View<'_>) -> Result<Result<Vec<Piece>, D>, Error> {
        let folded = view.folded.as_deref().expect("it was asked for");
        Ok((self.0)(folded).map(|drafts| drafts.into_iter().map(Piece::from).collect()))
    }
}
