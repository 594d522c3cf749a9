//! Mistakes that lokt does not make, put back one at a time.

use lokt_core::engine::{Pin, Span, Write};
use lokt_core::name::LockName;
use lokt_core::swap::Plan;
use lokt_core::swap::view::View;

use super::bounds::{Bounds, Step};
use super::state::space;

/// One mistake in a change, in its settling, or in what is made of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The protocol as it is.
    None,
    /// A guard that joins its owner's part leaves the cell as it is.
    JoinKeepsCell,
    /// A refresh does.
    RefreshKeepsCell,
    /// A freeze does.
    FreezeKeepsCell,
    /// A sweep leaves `meta` alone.
    SweepWithoutMeta,
    /// A change without an answer is given up by closing its session.
    SettledByRevoking,
    /// A change without an answer counts as not made if a look doesn't show it.
    SettledByReading,
    /// A change without an answer is planned anew.
    BlindRetry,
    /// A change whose session is gone counts as refused for ever, although a copy may be under way.
    GoneSessionTrusted,
    /// A refused change counts as refused for ever, although a copy may be under way.
    ElseTrusted,
    /// A refused change counts as not made, although a copy of it was.
    EchoTrusted,
    /// A deadline counts from the answer to a renewal.
    DeadlineFromAnswer,
    /// A renewal counts by its answer alone.
    KeepWithoutRead,
    /// A renewal counts although another server is in charge.
    KeepWithoutTerm,
    /// The last renewal of a waiter counts at its grant, although another server is in charge.
    WaiterWithoutTerm,
    /// A request has another place in each queue.
    PlacePerName,
    /// A grant doesn't compare the queue.
    NoRangeCompare,
    /// The token of a hold is the revision of its name's cell.
    TokenFromCell,
}

impl Flaw {
    /// Every mistake with the promise that it breaks.
    pub const ALL: [(Self, &'static str); 17] = [
        (Self::JoinKeepsCell, super::NO_GHOST),
        (Self::RefreshKeepsCell, super::NO_GHOST),
        (Self::FreezeKeepsCell, super::TRUE_FACTS),
        (Self::SweepWithoutMeta, super::NO_GHOST),
        (Self::SettledByRevoking, super::NO_GHOST),
        (Self::SettledByReading, super::NO_GHOST),
        (Self::BlindRetry, super::NO_GHOST),
        (Self::GoneSessionTrusted, super::NO_GHOST),
        (Self::ElseTrusted, super::NO_GHOST),
        (Self::EchoTrusted, super::NO_GHOST),
        (Self::DeadlineFromAnswer, super::STOP_BEFORE_FREE),
        (Self::KeepWithoutRead, super::STOP_BEFORE_FREE),
        (Self::KeepWithoutTerm, super::STOP_BEFORE_FREE),
        (Self::WaiterWithoutTerm, super::STOP_BEFORE_FREE),
        (Self::PlacePerName, super::ONE_ORDER),
        (Self::NoRangeCompare, super::FIRST_COME),
        (Self::TokenFromCell, super::TOKEN_ORDER),
    ];

    /// As people call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::JoinKeepsCell => "cell not rewritten by a join",
            Self::RefreshKeepsCell => "cell not rewritten by a refresh",
            Self::FreezeKeepsCell => "cell not rewritten by a freeze",
            Self::SweepWithoutMeta => "sweep without meta",
            Self::SettledByRevoking => "settled by revoking",
            Self::SettledByReading => "settled by reading",
            Self::BlindRetry => "blind retry",
            Self::GoneSessionTrusted => "not settled after a gone session",
            Self::ElseTrusted => "not settled after a refusal",
            Self::EchoTrusted => "not looked for after a refusal",
            Self::DeadlineFromAnswer => "deadline from the answer",
            Self::KeepWithoutRead => "keep-alive without a read",
            Self::KeepWithoutTerm => "keep-alive of another reign",
            Self::WaiterWithoutTerm => "a waiter's renewal of another reign",
            Self::PlacePerName => "another place per name",
            Self::NoRangeCompare => "no range compare",
            Self::TokenFromCell => "token from the cell",
        }
    }

    /// A world that is large enough for it to matter.
    pub fn bounds(self) -> Bounds {
        match self {
            Self::None => Bounds::GRANTS,
            Self::JoinKeepsCell | Self::RefreshKeepsCell => Bounds::PARTS,
            Self::FreezeKeepsCell => Bounds::FREEZES,
            Self::SweepWithoutMeta => Bounds { faults: 2, ..Bounds::SWEEPS },
            Self::SettledByRevoking
            | Self::SettledByReading
            | Self::BlindRetry
            | Self::GoneSessionTrusted
            | Self::EchoTrusted => Bounds::GRANTS,
            Self::ElseTrusted => Bounds::SECOND_THOUGHTS,
            Self::DeadlineFromAnswer | Self::KeepWithoutRead | Self::KeepWithoutTerm => Bounds::TIME,
            Self::WaiterWithoutTerm => Bounds::LONG_WAIT,
            Self::PlacePerName => Bounds::BOTH,
            Self::NoRangeCompare => Bounds::QUEUE,
            Self::TokenFromCell => Bounds::THAWS,
        }
    }

    /// The change of a program with this mistake.
    pub(super) fn spoil(self, plan: &mut Plan, step: Step) {
        let space = space();
        let change = &mut plan.change;
        let is_grant = change.pins.iter().any(|pin| matches!(pin, Pin::Empty(_)));
        let keeps_cell = match self {
            Self::JoinKeepsCell => step.guards() && !is_grant,
            Self::RefreshKeepsCell => matches!(step, Step::Lock | Step::LockLeased) && !is_grant,
            Self::FreezeKeepsCell => matches!(step, Step::Freeze | Step::FreezeLeased),
            _ => false,
        };
        if keeps_cell {
            let cell = |key: &lokt_core::engine::Key| key.0.ends_with("/cell");
            change.writes.retain(|write| !matches!(write, Write::Put(key, ..) if cell(key)));
        }
        if self == Self::SweepWithoutMeta && step == Step::Sweep {
            let meta = space.meta();
            change.pins.retain(|pin| !matches!(pin, Pin::Since(key, _) if *key == meta));
            change.writes.retain(|write| !matches!(write, Write::Put(key, ..) if *key == meta));
        }
        if self == Self::NoRangeCompare {
            change.pins.retain(|pin| !matches!(pin, Pin::Empty(Span::Below(_) | Span::Between(..))));
        }
    }

    /// The tickets of a request whose second name has a place of its own.
    pub(super) fn misplace(self, plan: &mut Plan, view: &View, second: &LockName) {
        if self != Self::PlacePerName {
            return;
        }
        let keys = space().name(second);
        for write in &mut plan.change.writes {
            if let Write::Put(key, _, Some(session)) = write
                && keys.line().contains(key)
            {
                *key = keys.ticket(view.at, *session);
            }
        }
    }
}
