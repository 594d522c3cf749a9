//! Appending events: one, or many together, under conditions.

use std::error;
use std::fmt;

use crate::Error;
use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::Seq;
use lokt_ledger::{AppendTerms, Appending, Unmet};
use lokt_sys::error::ErrorKind;
use lokt_sys::warnings::WithWarnings;

use super::{Claimed, Ledger, NewEvent};
use crate::Holder;
use crate::Token;
use crate::Warning;

impl Ledger {
    /// Appends an event of the type `kind`. `body` is a JSON object with its other members; `{}` if
    /// there are none. The event is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`AppendError::Failed`] if the event is invalid or cannot be written. To append under
    /// conditions, use a [`batch`](Self::batch).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = lokt::ledger::Ledger::create(dir.path())?;
    /// let appended = ledger.append("task_added", r#"{"task":"1.2"}"#)?;
    /// assert_eq!(appended.seq(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn append(&self, kind: &str, body: &str) -> Result<Appended, AppendError> {
        self.batch().event(kind, body)?.append()
    }

    /// Starts a batch: events that are appended together, and conditions for them.
    ///
    /// ```
    /// use lokt::ledger::AppendError;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = lokt::ledger::Ledger::create(dir.path())?;
    /// let batch = ledger.batch().event("opened", "{}")?.event("closed", "{}")?.expect_head(0);
    /// assert_eq!(batch.append()?.count(), 2);
    ///
    /// let late = ledger.batch().event("opened", "{}")?.expect_head(0).append();
    /// assert!(matches!(late, Err(AppendError::HeadMoved { head: 2, .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch(&self) -> Batch<'_> {
        Batch { ledger: self, drafts: Vec::new(), expect: None, key: None, token: None }
    }
}

/// Events that are appended together, one after the other. Made by [`Ledger::batch`].
///
/// ```
/// use lokt::ledger::Ledger;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let ledger = Ledger::create(dir.path())?;
/// let claimed = ledger.claim("1.2").try_acquire()?;
/// let batch = ledger.batch().event("task_done", r#"{"task":"1.2"}"#)?;
/// batch.under(&claimed).idempotency_key("1.2 done").append()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch does nothing until `append` is called"]
pub struct Batch<'a> {
    ledger: &'a Ledger,
    drafts: Vec<Draft>,
    expect: Option<u64>,
    key: Option<String>,
    token: Option<Token>,
}

impl Batch<'_> {
    /// Adds an event of the type `kind`. `body` is a JSON object with its other members.
    ///
    /// # Errors
    ///
    /// The kind is [`ErrorKind::BadInput`](crate::ErrorKind::BadInput) if the event is invalid.
    pub fn event(self, kind: &str, body: &str) -> Result<Self, Error> {
        Ok(self.push(NewEvent::new(kind, body)?))
    }

    /// Adds an event.
    pub fn push(mut self, event: NewEvent) -> Self {
        self.drafts.push(event.into_draft());
        self
    }

    /// Appends only if the last event has this number; 0 for an empty ledger.
    pub fn expect_head(mut self, head: u64) -> Self {
        self.expect = Some(head);
        self
    }

    /// Appends at most once under this key. If the key was used before, the append returns the
    /// number of the earlier event. A batch with a key has one event.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Appends only while this claim is held.
    pub fn under(self, claimed: &Claimed) -> Self {
        self.token(claimed.token())
    }

    /// Appends only while this is the token of a live claim.
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Appends the events. They are durable when this returns. Readers may see the first of them
    /// before the last.
    ///
    /// # Errors
    ///
    /// An [`AppendError`] says which condition was not met; then no event was appended.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let ledger = lokt::ledger::Ledger::create(dir.path())?;
    /// let pay = || ledger.batch().event("paid", "{}")?.idempotency_key("invoice 7").append();
    /// assert!(!pay()?.is_duplicate());
    /// assert!(pay()?.is_duplicate());
    /// assert_eq!(ledger.head()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn append(self) -> Result<Appended, AppendError> {
        let bad = |message: &str| AppendError::Failed(Error::new(ErrorKind::BadEvent, message));
        if self.key.is_some() && self.drafts.len() > 1 {
            return Err(bad("a batch with an idempotency key has one event"));
        }
        let token = match self.token.map(|token| (token, Seq::new(token.get()))) {
            Some((token, None)) => return Err(AppendError::StaleToken { token, holder: None }),
            Some((_, token)) => token,
            None => None,
        };
        let terms = AppendTerms { expect: self.expect, id: self.key.as_deref(), token, ..AppendTerms::default() };
        let said = self.ledger.inner.append_batch(&self.drafts, &terms, &mut |_, _| {}).map_err(Error::from)?;
        match said.value {
            Appending::Appended(appended) => Ok(Appended::new(appended, said.warnings)),
            Appending::Denied(Unmet::Sequence { expected, head }) => Err(AppendError::HeadMoved { expected, head }),
            Appending::Denied(Unmet::Fence { token, denial }) => {
                let holder = denial.holder().cloned().map(Holder::of);
                Err(AppendError::StaleToken { token: numbered(token), holder })
            }
        }
    }
}

/// The token of a claim: the number of the event that began it.
pub(super) fn numbered(seq: Seq) -> Token {
    Token::new(seq.get()).expect("events are counted from 1")
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("events", &self.drafts).finish_non_exhaustive()
    }
}

/// Events that were appended.
///
/// ```
/// use lokt::ledger::Ledger;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let ledger = Ledger::create(dir.path())?;
/// let appended = ledger.batch().event("opened", "{}")?.event("closed", "{}")?.append()?;
/// assert_eq!((appended.seq(), appended.last_seq(), appended.count()), (1, 2, 2));
/// for warning in appended.warnings() {
///     eprintln!("warning: {warning}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Appended {
    inner: lokt_ledger::Appended,
    warnings: Vec<Warning>,
}

impl Appended {
    pub(super) fn of(said: WithWarnings<lokt_ledger::Appended>) -> Self {
        Self::new(said.value, said.warnings)
    }

    fn new(inner: lokt_ledger::Appended, warnings: Vec<Warning>) -> Self {
        Self { inner, warnings }
    }

    /// Returns the number of the first event.
    pub fn seq(&self) -> u64 {
        self.inner.first.get()
    }

    /// Returns the number of the last event.
    pub fn last_seq(&self) -> u64 {
        self.inner.last.get()
    }

    /// Returns the number of appended events. A program that ignores the lock may have written
    /// between the first and the last.
    pub fn count(&self) -> u64 {
        self.inner.count
    }

    /// Reports whether the idempotency key was used before. If so, nothing was appended, and the
    /// number is that of the earlier event.
    pub fn is_duplicate(&self) -> bool {
        self.inner.duplicate
    }

    /// Returns the warnings of the successful append.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// The reason why no event was appended.
#[derive(Debug)]
#[non_exhaustive]
pub enum AppendError {
    /// The last event is not the expected one.
    #[non_exhaustive]
    HeadMoved {
        /// The expected number.
        expected: u64,
        /// The number of the last event.
        head: u64,
    },
    /// The token does not belong to a live claim.
    #[non_exhaustive]
    StaleToken {
        /// The token.
        token: Token,
        /// The holder of the claim, or its last holder, if that is known.
        holder: Option<Holder>,
    },
    /// The event is invalid, or it could not be written.
    Failed(Error),
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeadMoved { expected, head } => {
                write!(f, "the last event is {head}, and {expected} was expected")
            }
            Self::StaleToken { token, holder: None } => write!(f, "token {token} is not that of a live claim"),
            Self::StaleToken { token, holder: Some(holder) } => {
                write!(f, "token {token} is not that of a live claim; the claim was that of {holder}")
            }
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl error::Error for AppendError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            Self::HeadMoved { .. } | Self::StaleToken { .. } => None,
        }
    }
}

impl From<Error> for AppendError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
