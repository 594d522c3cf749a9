//! Requirements for a remote store of records: keys with revisions, and sessions. Blocking; it
//! knows nothing about locks.
//!
//! An engine answers exactly, or says that it doesn't know ([`Trouble::Unknown`]). Everything that
//! makes locks of it, above all the handling of requests without an answer, is in
//! [`super::SwapStore`].

use std::time::Duration;

use lokt_core::engine::{Change, Key, Lasts, Made, Rev, SessionId, Sight, Span};

use crate::store::{Call, Subscription};
use lokt_sys::error::Error;
use lokt_sys::wakeup::Wakeup;

/// Reason why a request has no answer.
#[derive(Debug)]
pub enum Trouble {
    /// It did not happen. If a session doesn't exist, the kind of the error is
    /// [`Missing`](lokt_sys::error::ErrorKind::Missing).
    Refused(Error),
    /// It may have happened, or may still happen.
    Unknown(Error),
    /// Nothing was sent.
    Away(Error),
}

impl Trouble {
    /// Returns the error.
    pub fn error(&self) -> &Error {
        match self {
            Self::Refused(error) | Self::Unknown(error) | Self::Away(error) => error,
        }
    }

    /// Returns the error.
    pub fn into_error(self) -> Error {
        match self {
            Self::Refused(error) | Self::Unknown(error) | Self::Away(error) => error,
        }
    }
}

/// An engine's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Card {
    /// The identity of the cluster.
    pub cluster: String,
    /// The version of its program.
    pub version: String,
    /// The shortest session that it grants.
    pub ttl_min: Duration,
}

impl Card {
    /// Returns the description of an engine of this cluster and version.
    pub fn new(cluster: impl Into<String>, version: impl Into<String>, ttl_min: Duration) -> Self {
        Self { cluster: cluster.into(), version: version.into(), ttl_min }
    }
}

/// A remote key-value store.
pub trait Engine: Send + Sync + 'static {
    /// Returns its description.
    fn card(&self, call: &Call<'_>) -> Result<Card, Trouble>;

    /// Shows all spans at one revision, which is not older than any answer given before the
    /// request.
    fn look(&self, spans: &[Span], call: &Call<'_>) -> Result<Sight, Trouble>;

    /// Shows the first keys of `span` behind `after`, at the revision `at` if that is given; that
    /// is then the revision of the sight. A page without a key is behind the last one. An `at` that
    /// is no longer kept is refused.
    fn page(&self, span: &Span, after: Option<&Key>, at: Option<Rev>, call: &Call<'_>) -> Result<Sight, Trouble>;

    /// Makes a change atomically, or shows what it asked to be shown.
    fn make(&self, change: &Change, call: &Call<'_>) -> Result<Made, Trouble>;

    /// Opens a session. May be repeated: an existing session with this id continues and isn't
    /// extended, so its time counts from the first of these requests.
    fn open(&self, id: SessionId, ttl: Duration, call: &Call<'_>) -> Result<Lasts, Trouble>;

    /// Renews a session; `None`: it doesn't exist. Proves nothing until a look or a change after it
    /// has the same term.
    fn renew(&self, id: SessionId, call: &Call<'_>) -> Result<Option<Lasts>, Trouble>;

    /// Ends a session and its keys.
    fn close(&self, id: SessionId, call: &Call<'_>) -> Result<(), Trouble>;

    /// Rings `wakeup` when a key of `spans` changes after the revision `after`: a hint, never a
    /// promise.
    fn watch(&self, spans: &[Span], after: Rev, wakeup: &Wakeup) -> Result<Subscription, Trouble>;

    /// Looks and opens a session. An engine that can send both at once overrides this.
    fn look_and_open(
        &self,
        spans: &[Span],
        id: SessionId,
        ttl: Duration,
        call: &Call<'_>,
    ) -> (Result<Sight, Trouble>, Result<Lasts, Trouble>) {
        (self.look(spans, call), self.open(id, ttl, call))
    }
}
