//! Named locks on a remote key-value engine: the pure half.
//!
//! A caller looks at the keys of a name, [`View`] makes of them what [`crate::decide`] needs, the
//! caller decides, and [`plan()`] makes of the ruling one [`Change`](crate::engine::Change) with everything that was
//! relied on as pins. Nothing here sends a request or reads a clock.
//!
//! **Additions** (a member, a part, a freeze) rewrite the name's `cell` and pin it, together with
//! `meta`. So no copy of such a change is made twice, or after the name has changed, and
//! [`Settling`] can void one whose outcome is unknown. **Removals** pin the keys that they name:
//! revisions never return. **Tickets** pin the cell and don't rewrite it.
//!
//! | module | one idea |
//! | --- | --- |
//! | [`keys`] | where everything is kept |
//! | [`record`] | the values |
//! | [`view`] | a look, as facts for a decision |
//! | [`ruled`] | a ruling, and what it was judged by |
//! | [`mod@plan`] | a decision as a change |
//! | [`settle`] | what became of a change without an answer |
//! | [`sweep`] | deleting the cells of free names |
//! | [`keep`] | whether a renewal counts |
//!
//! # Limitations
//!
//! Exclusive mode only: a cell of another mode reads as that of a newer program. Kept places
//! (`away/`), pools, reservations and the ledger aren't here yet.

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

/// The policy of named locks on an engine: as on files, but what was stored stays stored.
///
/// On files a record of another boot may be one that a power cut brought back, so a hold that is
/// joined from another boot gets a new token. An engine answers after a quorum has synced, and
/// every joiner may be on another machine.
pub const POLICY: Policy = Policy { durable: true, ..Policy::NAMED };

/// One request over all its tries: it tells its audit events from those of every other request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op(pub u128);

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
