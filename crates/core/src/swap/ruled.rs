//! A ruling to turn into a change: what was inspected, and what becomes of it.
//!
//! The caller decides, with [`NameView::facts`] and [`crate::decide`], and provides the audit
//! events.

use super::record::GUARDED;
use super::view::{NameView, Target};
use crate::audit::Event;
use crate::decide::{Cause, Intent, Token};
use crate::hold::{Hold, PartKind, PulseRef};
use crate::liveness::Liveness;

/// A ruling about one name: everything that [`plan`](super::plan::plan) needs of it.
#[derive(Debug, Clone, Copy)]
pub struct Ruled<'a> {
    /// The inspected name.
    pub view: &'a NameView,
    /// The object of the ruling.
    pub target: Target,
    /// The request.
    pub intent: &'a Intent,
    /// The liveness on which the decision was based.
    pub liveness: Liveness,
    /// The hold to store; `None`: the inspected one ends.
    pub next: Option<&'a Hold>,
    /// The token of that hold.
    pub token: Token,
    /// The cause of the change.
    pub cause: Cause,
    /// The audit events: at least one, which proves that the change was made.
    pub events: &'a [Event],
}

impl Ruled<'_> {
    /// The part that the intent begins anew.
    pub(super) fn begins(&self) -> Option<PartKind> {
        match self.intent {
            Intent::Lock(_) | Intent::TakeOver(_) | Intent::Extend { .. } | Intent::Freeze(_) => Some(PartKind::Owner),
            Intent::Guard(..) => Some(PartKind::Process),
            _ => None,
        }
    }

    /// Reports whether the process part belongs to a process that asks for nothing itself:
    /// `lock --bind`.
    pub(super) fn is_bound(&self) -> bool {
        matches!(self.intent, Intent::Guard(_, holder) if !holder.has_pulse)
    }

    /// The pulse that the record is written with.
    pub(super) fn pulse(&self, next: &Hold) -> Option<PulseRef> {
        match self.intent {
            Intent::Guard(_, holder) => holder.has_pulse.then_some(GUARDED),
            _ => next.pulse,
        }
    }
}
