//! Appending events from a caller: under conditions, or many at once.

use lokt_core::ledger::claiming;
use lokt_core::ledger::draft::{Added, Draft};
use lokt_core::ledger::proof::wrong_hash;
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::Stored;

use super::Ledger;
use super::answers::{AppendTerms, Appended, Appending, Progress, Slot, Unmet};
use super::claim_list::trusted;
use super::log::{Compose, Composed, LedgerView, Need, Op, Piece};
use lokt_sys::call::Call;
use lokt_sys::error::{Error, ErrorKind};
use lokt_sys::warnings::{Warning, WithWarnings};

/// Members that lokt adds, and that differ from one attempt to the next.
const ADDED: [&str; 5] = ["timestamp", "idempotency_key", "claim_token", "filler", "chain"];

impl Ledger {
    /// Appends an event.
    pub fn append(&self, event: &Draft, terms: &AppendTerms<'_>) -> Result<WithWarnings<Appending>, Error> {
        self.append_batch(std::slice::from_ref(event), terms, &mut |_, _| {})
    }

    /// Appends many events, one after the other, and makes them durable together. Readers may see
    /// the first of them before the last. No event at all is an error.
    pub fn append_batch(
        &self,
        events: &[Draft],
        terms: &AppendTerms<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<WithWarnings<Appending>, Error> {
        if events.is_empty() {
            return Err(Error::new(ErrorKind::BadEvent, "there is no event to append"));
        }
        let rest = (0..events.len()).collect();
        let (done, refusal) = (Vec::new(), None);
        let mut composer = Append { events, rest, done, terms, refusal, ledger: self, progress };
        let (added, mut warnings) = if terms.dry_run {
            let said = self.log().rehearse(&mut composer, &Call::UNLIMITED)?;
            (
                said.value.map(|would| (seq(would.head + 1), seq(would.head + would.count), would.count, None)),
                said.warnings,
            )
        } else {
            let said = self.log().commit(&Op::new(), &mut composer, &Call::UNLIMITED)?;
            (said.value.map(|done| (done.first, done.last, done.count, done.filler)), said.warnings)
        };
        let value = match (added, composer.refusal) {
            (Some((first, last, count, filler)), _) => {
                Appending::Appended(Appended { first, last, count, duplicate: false, filler })
            }
            (None, Some(Refusal::Unmet(unmet))) => Appending::Denied(unmet),
            (None, Some(Refusal::Duplicate(seq))) => {
                // Its writer may have been killed before it was durable.
                if !terms.dry_run {
                    self.log().persist(seq, &Call::UNLIMITED)?;
                }
                warnings.extend(self.differs(&events[0], seq)?);
                Appending::Appended(Appended { first: seq, last: seq, count: 1, duplicate: true, filler: None })
            }
            (None, None) => return Err(Error::new(ErrorKind::BadEvent, "there is no event to append")),
        };
        Ok(WithWarnings { value, warnings })
    }

    /// A warning if the event that was appended under a key isn't the one that is asked for under
    /// it.
    fn differs(&self, event: &Draft, seq: Seq) -> Result<Option<Warning>, Error> {
        let Slot::Event(bytes) = self.read(seq)? else { return Ok(None) };
        let now = self.now().wall;
        let asked = event.render(self.settings().style, now, Added::default()).ok();
        let members = |bytes: &[u8]| {
            let mut members = Stored::parse(bytes).ok()?.members;
            members.retain(|name, _| !ADDED.contains(&name.as_str()));
            Some(members)
        };
        let is_other = members(&bytes) != asked.as_deref().and_then(members);
        let other = || format!("event {seq} was appended under the same key, and is another one");
        Ok(is_other.then(|| Warning::KeyReused(other())))
    }
}

fn seq(number: u64) -> Seq {
    Seq::new(number).unwrap_or(Seq::MAX)
}

/// The reason why nothing is appended.
enum Refusal {
    Unmet(Unmet),
    Duplicate(Seq),
}

struct Append<'a, 'p> {
    events: &'a [Draft],
    /// Indices of events that aren't in the ledger yet.
    rest: Vec<usize>,
    /// Indices of events that are.
    done: Vec<usize>,
    terms: &'a AppendTerms<'a>,
    /// The reason why the last answer was no.
    refusal: Option<Refusal>,
    ledger: &'a Ledger,
    progress: &'a mut Progress<'p>,
}

impl Compose for Append<'_, '_> {
    fn need(&self) -> Need {
        let AppendTerms { expect, id, token, .. } = self.terms;
        let is_native = self.ledger.settings().style == Style::Native;
        if id.is_some()
            || token.is_some()
            || (is_native && self.events.iter().any(|event| Style::Native.knows(event.kind())))
        {
            Need::Fold
        } else if expect.is_some() {
            Need::Head
        } else {
            Need::Nothing
        }
    }

    fn is_chained(&self) -> bool {
        self.terms.chain
    }

    fn compose(&mut self, view: &mut LedgerView<'_>) -> Result<Composed, Error> {
        self.refusal = self.refused(view)?;
        if self.refusal.is_some() {
            return Ok(Composed::Refused);
        }
        self.check_native(view)?;
        let piece = |nth: &usize| Piece {
            draft: self.events[*nth].clone(),
            id: self.terms.id.map(ToOwned::to_owned),
            token: self.terms.token,
        };
        Ok(Composed::Add(self.rest.iter().map(piece).collect()))
    }

    fn published(&mut self, count: usize) {
        self.done.extend(self.rest.drain(..count));
    }

    fn lost(&mut self, which: &[usize]) {
        self.done.append(&mut self.rest);
        self.rest = which.iter().filter_map(|nth| self.done.get(*nth).copied()).collect();
        self.done.clear();
    }

    fn progress(&mut self, done: u64, total: u64) {
        (self.progress)(done, total);
    }
}

impl Append<'_, '_> {
    /// Returns the first condition that isn't met. Comes before the events are checked: a caller
    /// that lost a race must learn that, not that its event doesn't fit what the winner wrote.
    fn refused(&self, view: &mut LedgerView<'_>) -> Result<Option<Refusal>, Error> {
        if let Some(id) = self.terms.id
            && let Some(seq) = view.seq_of_key(id)?
        {
            return Ok(Some(Refusal::Duplicate(seq)));
        }
        if let (Some(folded), Some(token)) = (view.folded.as_deref(), self.terms.token) {
            trusted(folded, view.gap, false)?;
            if let Err(denial) = claiming::check(&folded.table, token, &view.now, self.ledger.me()) {
                return Ok(Some(Refusal::Unmet(Unmet::Fence { token, denial })));
            }
        }
        let is_whole = self.rest.len() == self.events.len();
        let head = view.head;
        let expected = self.terms.expect.filter(|expected| is_whole && *expected != head);
        Ok(expected.map(|expected| Refusal::Unmet(Unmet::Sequence { expected, head })))
    }

    /// Refuses events that the af program's replay would never accept, and nodes that make it call
    /// the proof invalid.
    fn check_native(&self, view: &LedgerView<'_>) -> Result<(), Error> {
        let Some(proof) = view.folded.as_deref().and_then(|folded| folded.proof.as_ref()) else { return Ok(()) };
        let bad = |why: String| Error::new(ErrorKind::BadEvent, why);
        let stored = self.rest.iter().map(|nth| {
            let draft = &self.events[*nth];
            let bytes = draft.render(Style::Native, view.now.wall, Added::default()).map_err(|error| bad(error.0))?;
            Stored::parse(&bytes).map_err(|error| bad(error.0))
        });
        let stored: Vec<Stored> = stored.collect::<Result<_, Error>>()?;
        let mut proof = proof.part(&stored);
        for (event, seq) in stored.iter().zip(view.next.get()..) {
            if let Some(wrong) = wrong_hash(event) {
                return Err(bad(format!("the native program could not verify this ledger any more: {wrong}")));
            }
            let Some(seq) = Seq::new(seq) else { continue };
            proof.apply(seq, event).map_err(|refusal| {
                bad(format!("the native program could not read this ledger any more: {}", refusal.0))
            })?;
        }
        Ok(())
    }
}
