//! A program's decision about the ledger: no other writer gets between the view and the events.

use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::fold::Folded;
use lokt_core::ledger::seq::Seq;

use super::Ledger;
use super::answers::{Appended, Slot};
use super::log::{Committed, Compose, Composed, LedgerView, Need, Op, Piece, view};
use lokt_sys::call::Call;
use lokt_sys::error::Error;
use lokt_sys::warnings::WithWarnings;

/// The outcome of a decision.
#[derive(Debug)]
pub enum Transacted<D> {
    /// Its events are durable.
    Appended(Appended),
    /// It returned no events.
    Nothing,
    /// It refused.
    Denied(D),
}

impl Ledger {
    /// Appends the events that `decide` returns for the fold of all events. It is called before the
    /// lock is acquired, and again inside if the ledger has moved in the meantime, a few times at
    /// most. So it must be pure. A busy ledger doesn't make it fail.
    ///
    /// ```
    /// use lokt_core::ledger::draft::Draft;
    /// use lokt_ledger::{InitOptions, Ledger, Transacted};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let me = lokt_sys::machine::identity("alice".into(), None);
    /// let (ledger, _) = Ledger::init(dir.path(), InitOptions::default(), me)?;
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
    ) -> Result<WithWarnings<Transacted<D>>, Error> {
        let mut composer = Decide { decide, denied: None };
        let WithWarnings { value, warnings } = self.log().commit(&Op::new(), &mut composer, &Call::UNLIMITED)?;
        let value = match (value, composer.denied) {
            (Some(Committed { first, last, count, filler }), _) => {
                Transacted::Appended(Appended { first, last, count, duplicate: false, filler })
            }
            (None, Some(denied)) => Transacted::Denied(denied),
            (None, None) => Transacted::Nothing,
        };
        Ok(WithWarnings { value, warnings })
    }

    /// The fold of all events: claims, the chain, gaps and damage.
    pub fn fold(&self) -> Result<WithWarnings<Folded>, Error> {
        let mut folded = None;
        let warnings = view(self.log(), &Call::UNLIMITED, &mut |at| folded = Some(at.fold().clone()))?;
        Ok(WithWarnings { value: folded.expect("the view was shown"), warnings })
    }

    /// The first number whose event can't be read although there are events after it, or is
    /// missing, in words. `None`: everything can be read.
    pub fn unread(&self) -> Result<Option<String>, Error> {
        let trouble = self.fold()?.value.trouble;
        // An event that merely makes no sense as a claim was read.
        let is_unread =
            |number: &u64| !Seq::new(*number).is_some_and(|seq| matches!(self.read(seq), Ok(Slot::Event(_))));
        Ok(trouble.into_iter().find(|(number, _)| is_unread(number)).map(|(_, what)| what))
    }
}

/// A program's decision.
struct Decide<F, D> {
    decide: F,
    /// The reason why the last answer was no.
    denied: Option<D>,
}

impl<D, F: FnMut(&Folded) -> Result<Vec<Draft>, D>> Compose for Decide<F, D> {
    fn need(&self) -> Need {
        Need::Fold
    }

    fn compose(&mut self, at: &mut LedgerView<'_>) -> Result<Composed, Error> {
        self.denied = None;
        Ok(match (self.decide)(at.fold()) {
            Ok(drafts) => Composed::Add(drafts.into_iter().map(Piece::from).collect()),
            Err(denied) => {
                self.denied = Some(denied);
                Composed::Refused
            }
        })
    }
}
