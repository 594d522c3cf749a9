//! Verification: reading all events and reporting problems.

use std::fmt;

use crate::Error;
use lokt_core::checkup::Finding;
use lokt_core::ledger::checkpoint::Checkpoint;
use lokt_sys::error::ErrorKind;

use super::Ledger;
use crate::Warning;

impl Ledger {
    /// Reads every event and reports problems, as `lokt ledger verify` does.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be read. Problems of the ledger are not errors.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = lokt::ledger::Ledger::create_chained(dir.path())?;
    /// ledger.append("paid", r#"{"amount":"twelve"}"#)?;
    /// ledger.append("paid", r#"{"amount":"thirty"}"#)?;
    /// assert!(ledger.verify()?.is_sound());
    ///
    /// let first = ledger.path().join("event-000001.json");
    /// let forged = std::fs::read_to_string(&first)?.replace("twelve", "ninety");
    /// std::fs::write(&first, forged)?;
    /// assert_eq!(ledger.verify()?.problems().len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn verify(&self) -> Result<Verification, Error> {
        self.verified(None)
    }

    /// Verifies the ledger, and checks that it still begins with the events that an earlier
    /// [`checkpoint`](Verification::checkpoint) covered.
    ///
    /// # Errors
    ///
    /// Same as [`verify`](Self::verify); the kind is
    /// [`ErrorKind::BadInput`](crate::ErrorKind::BadInput) if the text is not a checkpoint.
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
    /// Reports whether no problem was found.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// Returns the number of events that were read.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the problems that were found.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the number of the last event and the digest of all events, as text. Stored
    /// elsewhere, it shows [later](Ledger::verify_against) that none of them was changed or
    /// removed.
    pub fn checkpoint(&self) -> String {
        self.checkpoint.to_string()
    }

    /// Returns warnings that are not problems.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// A problem of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    finding: Finding,
}

impl Problem {
    /// Returns its stable code, as in the JSON of `lokt ledger verify`.
    pub fn code(&self) -> &str {
        self.finding.code
    }

    /// Returns the number of the event that has the problem.
    pub fn seq(&self) -> Option<u64> {
        self.finding.seq
    }

    /// Returns a suggested fix, if there is one.
    pub fn hint(&self) -> Option<&str> {
        self.finding.hint.as_deref()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.finding.message)
    }
}
