//! Mistakes that lokt does not make, put back one at a time.
//!
//! Each is a way in which lock programs were really built. A model that can't tell them from the protocol proves nothing, so every one
//! of them has a test that says which promise it breaks.

use super::bounds::Bounds;

/// One mistake in the shell, in the facts it gathers, or in what it makes of the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The protocol as it is.
    None,
    /// A stale record is read, judged and unlinked outside the mutex: whatever lies there by then is removed.
    BreakByUnlink,
    /// The next token is one more than the stored record's, and 1 where there is none.
    TokenInDeletedFile,
    /// An owner part counts as gone when the process that wrote it has exited, which every `lock` command soon does.
    CommandPidProvesLife,
    /// The token is drawn when a client arrives, not when it is granted.
    TicketIsToken,
    /// The record is published first and the counter is advanced afterwards.
    RecordBeforeCounter,
    /// One's own expired hold is revived under the token it had.
    SameTokenOnExpiredRefresh,
    /// A hold that its owner part keeps alive goes on under its token, although a process whose lease ran out still has it.
    SharedToken,
    /// A hold that a power cut brought back goes on under its token, although a greater one may have been given.
    ReturnedToken,
    /// The caller is answered when the record is visible, before it is durable.
    AnswerBeforeSync,
}

impl Flaw {
    /// Every mistake with the promise that it breaks.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::BreakByUnlink, super::ONE_HOLDER),
        (Self::TokenInDeletedFile, super::TOKEN_ORDER),
        (Self::CommandPidProvesLife, super::ONE_HOLDER),
        (Self::TicketIsToken, super::TOKEN_ORDER),
        (Self::RecordBeforeCounter, super::TOKEN_ORDER),
        (Self::SameTokenOnExpiredRefresh, super::TOKEN_ORDER),
        (Self::SharedToken, super::OWN_TOKEN),
        (Self::ReturnedToken, super::NO_RETURN),
        (Self::AnswerBeforeSync, super::ONE_HOLDER),
    ];

    /// As people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::BreakByUnlink => "break by unlink",
            Self::TokenInDeletedFile => "token in the deleted file",
            Self::CommandPidProvesLife => "pid of the command proves life",
            Self::TicketIsToken => "the ticket is the token",
            Self::RecordBeforeCounter => "record before counter",
            Self::SameTokenOnExpiredRefresh => "same token on an expired refresh",
            Self::SharedToken => "a token shared with a stopped guard",
            Self::ReturnedToken => "a token back after a power cut",
            Self::AnswerBeforeSync => "answer before sync",
        }
    }

    /// Far enough to catch it.
    pub fn bounds(self) -> Bounds {
        match self {
            Self::SharedToken => Bounds { ops: 4, ticks: 1, cuts: 0, deletes: 0 },
            Self::ReturnedToken => Bounds { ops: 4, ticks: 0, cuts: 1, deletes: 0 },
            _ => Bounds::SMALL,
        }
    }
}
