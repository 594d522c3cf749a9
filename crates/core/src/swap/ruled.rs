//! A ruling to be made a change of: what was judged, and what is to become of it.
//!
//! Judging is done by the caller, with [`NameView::facts`] and [`crate::decide`]; so is telling the
//! audit log.

use super::record::GUARDED;
use super::view::{NameView, Target};
use crate::audit::Event;
use crate::decide::{Cause, Intent, Token};
use crate::hold::{Hold, PartKind, PulseRef};
use crate::liveness::Liveness;

/// A ruling about one name: everything that [`plan`](super::plan::plan) needs of it.
#[derive(Debug, Clone, Copy)]
pub struct Ruled<'a> {
    /// What was judged.
    pub view: &'a NameView,
    /// What it is about.
    pub target: Target,
    /// What was asked.
    pub intent: &'a Intent,
    /// The liveness by which it was judged.
    pub liveness: Liveness,
    /// The hold to store; `None`: the judged one ends.
    pub next: Option<&'a Hold>,
    /// Which token it gets.
    pub token: Token,
    /// What that means.
    pub cause: Cause,
    /// What the audit log is told: at least one event, which proves that the change was made.
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

    /// True if the process part belongs to a process that asks for nothing itself: `lock --bind`.
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
