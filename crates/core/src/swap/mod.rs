//! Named locks on a remote key-value engine: the pure half.
//!
//! A caller reads the keys of a name, and [`View`] turns them into what [`crate::decide`] needs.
//! The caller decides, and [`plan()`] turns the ruling into one [`Change`](crate::engine::Change),
//! with everything that was relied on as pins. Nothing here sends a request or reads a clock.
//!
//! **Additions** (a member, a part, a freeze) rewrite the name's `cell` and pin it, together with
//! `meta`. So no copy of such a change is made twice, or after the name has changed, and
//! [`Settling`] can void one whose outcome is unknown. **Removals** pin the keys that they name:
//! revisions never repeat. **Tickets** pin the cell and don't rewrite it.
//!
//! | module | one idea |
//! | --- | --- |
//! | [`keys`] | the keys of a space |
//! | [`record`] | the values |
//! | [`view`] | a read, as facts for a decision |
//! | [`ruled`] | a ruling, and what it is based on |
//! | [`mod@plan`] | a decision as a change |
//! | [`settle`] | the outcome of a change without an answer |
//! | [`sweep`] | deleting the cells of free names |
//! | [`keep`] | whether a renewal counts |
//!
//! # Limitations
//!
//! Exclusive mode only: a cell of another mode is treated as that of a newer program. Kept
//! positions (`away/`), pools, reservations and the ledger aren't here yet.

pub mod keep;
pub mod keys;
pub mod plan;
pub mod record;
pub mod ruled;
pub mod settle;
pub mod sweep;
pub mod view;

use core::fmt;

pub use keys::Space;
pub use plan::{Granting, Kind, Plan, Refusal, Request, plan};
pub use ruled::Ruled;
pub use settle::Settling;
pub use view::{NameView, Seen, Target, View};

use crate::decide::Policy;

/// The policy of named locks on an engine: as on files, but stored records stay stored.
///
/// On files, a record of another boot may be one that a power cut restored, so a hold that is
/// joined from another boot gets a new token. An engine answers after a quorum has synced, and
/// every joiner may be on another machine.
pub const POLICY: Policy = Policy { durable: true, ..Policy::NAMED };

/// One request over all its attempts: it distinguishes its audit events from those of every other
/// request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op(pub u128);

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
