//! Verification: reading everything and naming what is wrong.

use std::fmt;

use crate::Error;
use lokt_core::checkup::Finding;
use lokt_core::ledger::checkpoint::Checkpoint;
use lokt_sys::error::ErrorKind;

use super::Ledger;
use crate::Warning;

impl Ledger {
    /// Reads every event and names what is wrong, as `lokt ledger verify` does.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be read. Problems are no error.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = lokt::ledger::Ledger::create_chained(dir.path())?;
    /// ledger.append("paid", r#"{"amount":12}"#)?;
    /// ledger.append("paid", r#"{"amount":30}"#)?;
    /// assert!(ledger.verify()?.is_sound());
    ///
    /// let first = ledger.path().join("event-000001.json");
    /// let forged = std::fs::read_to_string(&first)?.replace("12", "99");
    /// std::fs::write(&first, forged)?;
    /// assert_eq!(ledger.verify()?.problems().len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify(&self) -> Result<Verification, Error> {
        self.verified(None)
    }

    /// Does the same, and checks that the ledger still begins with the events that an earlier
    /// [`checkpoint`](Verification::checkpoint) was about.
    ///
    /// # Errors
    ///
    /// As [`verify`](Self::verify); the kind is [`ErrorKind::BadInput`](crate::ErrorKind::BadInput) if the text is no
    /// checkpoint.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = lokt::ledger::Ledger::create(dir.path())?;
    /// ledger.append("note", "{}")?;
    /// let checkpoint = ledger.verify()?.checkpoint();
    /// ledger.append("note", "{}")?;
    /// assert!(ledger.verify_against(&checkpoint)?.is_sound());
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify_against(&self, checkpoint: &str) -> Result<Verification, Error> {
        let parsed = checkpoint.parse::<Checkpoint>();
        self.verified(Some(parsed.map_err(|bad| Error::new(ErrorKind::BadEvent, bad.to_string()))?))
    }

    fn verified(&self, checkpoint: Option<Checkpoint>) -> Result<Verification, Error> {
        let said = self.inner.verify(checkpoint, &mut |_, _| {})?;
        Ok(Verification {
            events: said.value.events,
            checkpoint: said.value.checkpoint,
            problems: said.value.problems.into_iter().map(|finding| Problem { finding }).collect(),
            warnings: said.warnings,
        })
    }
}

/// The result of a verification.
///
/// ```
/// use lokt::ledger::Ledger;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let ledger = Ledger::create(dir.path())?;
/// ledger.append("note", "{}")?;
/// let verification = ledger.verify()?;
/// assert_eq!(verification.events(), 1);
/// for problem in verification.problems() {
///     eprintln!("{}: {problem}", problem.code());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Verification {
    events: u64,
    checkpoint: Checkpoint,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl Verification {
    /// Reports whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// Returns how many events were read.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns what is wrong.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the number of the last event and the digest of all events, as text. Kept elsewhere,
    /// it shows [later](Ledger::verify_against) that none of them was changed or removed.
    pub fn checkpoint(&self) -> String {
        self.checkpoint.to_string()
    }

    /// Returns what the caller should know, although it is no problem.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// Something that is wrong with a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    finding: Finding,
}

impl Problem {
    /// Returns its stable code, as in the JSON of `lokt ledger verify`.
    pub fn code(&self) -> &str {
        self.finding.code
    }

    /// Returns the number of the event that it is about.
    pub fn seq(&self) -> Option<u64> {
        self.finding.seq
    }

    /// Returns what can be done about it.
    pub fn hint(&self) -> Option<&str> {
        self.finding.hint.as_deref()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.finding.message)
    }
}
