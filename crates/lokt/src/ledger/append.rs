//! Appending what somebody typed: under conditions, or many at once.

use lokt_core::ledger::claiming;
use lokt_core::ledger::draft::{Added, Draft};
use lokt_core::ledger::fold::Folded;
use lokt_core::ledger::proof::wrong_hash;
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::Stored;

use super::Ledger;
use super::answers::{AppendTerms, Appended, Appending, Progress, Slot, Unmet};
use super::claims::trusted;
use super::commit::{Compose, Need, Outcome, Piece, View};
use crate::error::{At as _, Error, ErrorKind};
use crate::locks::Said;

/// Members that lokt adds, and that differ from one attempt to the next.
const ADDED: [&str; 5] = ["timestamp", "idempotency_key", "claim_token", "filler", "chain"];

impl Ledger {
    /// Appends an event.
    pub fn append(&self, event: &Draft, terms: &AppendTerms<'_>) -> Result<Said<Appending>, Error> {
        self.append_batch(std::slice::from_ref(event), terms, &mut |_, _| {})
    }

    /// Appends many events, one after the other, and makes them durable together. Readers may see the first of them before the last is
    /// there. No event at all is an error.
    pub fn append_batch(
        &self,
        events: &[Draft],
        terms: &AppendTerms<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<Said<Appending>, Error> {
        if events.is_empty() {
            return Err(Error::new(ErrorKind::BadEvent, "there is no event to append"));
        }
        let mut warnings = Vec::new();
        let rest = (0..events.len()).collect();
        let mut composer = Append { events, rest, done: Vec::new(), terms, ledger: self };
        let outcome = if terms.dry_run {
            match self.rehearse(&mut composer, &mut warnings)? {
                Ok((head, count)) => Ok((seq(head + 1), seq(head + count), count, None)),
                Err(denied) => Err(denied),
            }
        } else {
            match self.commit(&mut composer, terms.chain || self.settings.chain, &mut warnings, progress)? {
                Outcome::Committed(done) => Ok((done.first, done.last, done.count, done.filler)),
                Outcome::Denied(denied) => Err(denied),
                Outcome::Nothing => return Err(Error::new(ErrorKind::BadEvent, "there is no event to append")),
            }
        };
        let value = match outcome {
            Ok((first, last, count, filler)) => {
                Appending::Appended(Appended { first, last, count, duplicate: false, filler })
            }
            Err(Refusal::Unmet(unmet)) => Appending::Denied(unmet),
            Err(Refusal::Duplicate(seq)) => {
                if !terms.dry_run {
                    self.make_durable(seq)?;
                }
                warnings.extend(self.differs(&events[0], seq)?);
                Appending::Appended(Appended { first: seq, last: seq, count: 1, duplicate: true, filler: None })
            }
        };
        Ok(Said { value, warnings })
    }

    /// Whoever appended it may have been killed before it was durable, or is about to make it so.
    fn make_durable(&self, seq: Seq) -> Result<(), Error> {
        let file = self.file(seq);
        self.disk.sync(&file).at("sync", &self.path, &file)?;
        self.disk.sync_dir("").at("sync", &self.path, "")
    }

    /// What to say if the event that was appended under a key isn't the one that is asked for under it.
    fn differs(&self, event: &Draft, seq: Seq) -> Result<Option<String>, Error> {
        let Slot::Event(bytes) = self.read(seq)? else { return Ok(None) };
        let now = self.now().wall;
        let asked = event.render(self.settings.style, now, Added::default()).ok();
        let members = |bytes: &[u8]| {
            let mut members = Stored::parse(bytes).ok()?.members;
            members.retain(|name, _| !ADDED.contains(&name.as_str()));
            Some(members)
        };
        let is_other = members(&bytes) != asked.as_deref().and_then(members);
        Ok(is_other.then(|| format!("event {seq} was appended under the same key, and is another one")))
    }
}

fn seq(number: u64) -> Seq {
    Seq::new(number).unwrap_or(Seq::MAX)
}

/// Why nothing is appended.
enum Refusal {
    Unmet(Unmet),
    Duplicate(Seq),
}

struct Append<'a> {
    events: &'a [Draft],
    /// Which of them aren't in the ledger yet.
    rest: Vec<usize>,
    /// Which are.
    done: Vec<usize>,
    terms: &'a AppendTerms<'a>,
    ledger: &'a Ledger,
}

impl Compose for Append<'_> {
    type Denied = Refusal;

    fn need(&self) -> Need {
        let AppendTerms { expect, id, token, .. } = self.terms;
        let is_native = self.ledger.settings.style == Style::Native;
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

    fn compose(&mut self, view: &mut View<'_>) -> Result<Result<Vec<Piece>, Refusal>, Error> {
        let is_whole = self.rest.len() == self.events.len();
        if let Some(folded) = view.folded.as_deref_mut() {
            if let Some(id) = self.terms.id
                && let Some(seq) = self.seq_of_id(folded, id)?
            {
                return Ok(Err(Refusal::Duplicate(seq)));
            }
            if let Some(token) = self.terms.token {
                trusted(folded, view.gap, false)?;
                if let Err(denial) = claiming::check(&folded.table, token, &view.now, &self.ledger.me) {
                    return Ok(Err(Refusal::Unmet(Unmet::Fence { token, denial })));
                }
            }
        }
        // Before the event is judged: whoever lost the race is told so, not that its event no longer fits what the winner wrote.
        if let Some(expected) = self.terms.expect.filter(|expected| is_whole && *expected != view.head) {
            return Ok(Err(Refusal::Unmet(Unmet::Sequence { expected, head: view.head })));
        }
        self.check_native(view)?;
        let piece = |nth: &usize| Piece {
            draft: self.events[*nth].clone(),
            id: self.terms.id.map(ToOwned::to_owned),
            token: self.terms.token,
        };
        Ok(Ok(self.rest.iter().map(piece).collect()))
    }

    fn published(&mut self, count: usize) {
        self.done.extend(self.rest.drain(..count));
    }

    fn lost(&mut self, which: &[usize]) {
        self.done.append(&mut self.rest);
        self.rest = which.iter().filter_map(|nth| self.done.get(*nth).copied()).collect();
        self.done.clear();
    }
}

impl Append<'_> {
    /// The event under a key. What the cache says is believed only if that event says so, too: another may have its number by now.
    fn seq_of_id(&self, folded: &mut Folded, id: &str) -> Result<Option<Seq>, Error> {
        let folder = self.ledger.folder();
        let Some(seq) = folder.seq_of_id(folded, id)? else { return Ok(None) };
        if let Slot::Event(bytes) = self.ledger.read(seq)?
            && Stored::parse(&bytes).is_ok_and(|event| event.id() == Some(id))
        {
            return Ok(Some(seq));
        }
        let head = folded.through;
        *folded = Folded::new(self.ledger.settings.style);
        folder.fold_on(folded, head)?;
        folder.seq_of_id(folded, id)
    }

    /// What the native program's replay would refuse for good must not get into its ledger, nor a node that makes it call the proof
    /// invalid.
    fn check_native(&self, view: &View<'_>) -> Result<(), Error> {
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
