//! Named locks: who may enter, who waits, and until when.

mod acquire;
mod audit_log;
mod deadlock;
pub mod doctor;
mod fence;
mod file;
mod freeze;
mod guarding;
mod held;
mod inspect;
pub mod judge;
mod locks;
mod owned_hold;
mod pursuit;
mod root;
mod shared_renewal;
pub mod store;
pub mod swap;
mod sweep;
mod wait;
mod watch;

pub use acquire::Acquired;
pub use audit_log::Follower;
pub use deadlock::Link;
pub use fence::{Fenced, Publishing};
pub use file::FileStore;
pub use freeze::{Drained, Freezes, Freezing, FrozenNow};
pub use guarding::{Guarded, Guarding, Overtaken};
pub use held::{Held, Holding, Lost, NotReleased};
pub use inspect::{Entry, EntryState, GuardOutlook, Inspection, KnownNames, Outlook, living_parts};
pub use locks::{Condition, End, Ended, Grant, Granted, Lokt, Refusal};
pub use owned_hold::OwnedHold;
pub use root::{Found as FoundRoot, Method as RootMethod, State as RootState, Surroundings};
pub use store::{Found, Waiter};
pub use sweep::{Pruned, Swept};
pub use watch::{Watch, Woken};
