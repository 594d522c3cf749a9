//! lokt: locks with leases and fencing tokens, in plain files.
//!
//! This is the library behind the `lokt` command. It never prints, never exits and never reads the environment. [`Lokt`] is one root
//! directory; its methods are the commands. What was refused is a [`Denial`], an answer; what went wrong is an [`Error`].
//!
//! ```
//! use lokt::{Lokt, Terms, LockName, Grant};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let build = LockName::new("build").map_err(|bad| bad.to_string())?;
//! let alice = Lokt::create(&dir.path().join("root"), lokt::identity("alice".into(), None))?;
//! let bob = Lokt::create(&dir.path().join("root"), lokt::identity("bob".into(), None))?;
//!
//! let Grant::Granted(held) = alice.take(&build, Terms { ttl_sec: Some(300), reason: None })?.value else { panic!("it was free") };
//! assert!(matches!(bob.take(&build, Terms::default())?.value, Grant::Denied(_)));
//! assert!(held.hold.token.is_some());
//! # Ok(())
//! # }
//! ```

mod audit_log;
mod deadlock;
pub mod doctor;
mod error;
mod fence;
mod freeze;
mod grasp;
mod guard;
mod held;
mod inspect;
pub mod lease;
pub mod ledger;
mod locks;
mod minder;
mod parallel;
pub mod repo;
mod root;
pub mod snapshot;
mod store;
pub mod sys;
pub mod torture;
pub mod tree;
mod wait;
mod watch;
mod witness;

pub use audit_log::{Follower, Found};
pub use deadlock::Link;
pub use error::{Error, ErrorKind, too_many_open};
pub use fence::{Fenced, Publishing};
pub use freeze::{Drained, Freezing, FrozenNow};
pub use guard::{
    ClaimGuard, Finished, Guarded, Guarding, Habits, LeaseGuard, LeaseGuarding, Notice, Overtaken, had_started,
};
pub use held::{Held, Lost, NotAcquired, NotReleased, Request};
pub use inspect::{Entry, EntryState, GuardOutlook, KnownNames, Outlook, living_parts};
pub use locks::{Condition, End, Ended, Grant, Granted, Lokt, Pruned, Refusal, Said, Swept};
pub use lokt_core::audit::{EVENTS, Event, Filter, LINE_BYTES_MAX, Line};
pub use lokt_core::badges::Badges;
pub use lokt_core::decide::{Breaking, Broken, Cause, Presented, Terms};
pub use lokt_core::denial::{Denial, Holder, Staleness};
pub use lokt_core::guard::{LOST, OnLost, Warning};
pub use lokt_core::history::{Figures, Percentiles};
pub use lokt_core::hold::{Fence, Hold, Identity, LockId, Part, PartKind};
pub use lokt_core::lease::config::Isolation;
pub use lokt_core::lease::evidence::Evidence;
pub use lokt_core::lease::policy::{BadPolicy, LeasePolicy, PolicyWish};
pub use lokt_core::lease::record::{Binding, HolderId, Record as LeaseRecord};
pub use lokt_core::lease::session::Session;
pub use lokt_core::ledger::chain::Digest;
pub use lokt_core::ledger::claiming::Refused;
pub use lokt_core::ledger::draft::{Added, BadEvent, Draft, EVENT_BYTES_MAX};
pub use lokt_core::ledger::seq::{Oddity, Seq, Style};
pub use lokt_core::ledger::stored::{
    Damage, Stored, line as event_line, readable as readable_json, shown as shown_members,
};
pub use lokt_core::liveness::Liveness;
pub use lokt_core::name::{BadName, LockName};
pub use lokt_core::snapshot::descriptor::{Consistency, Descriptor, Schema};
pub use lokt_core::snapshot::gc::{Kept, Plan as GcPlan, Retention, Why};
pub use lokt_core::snapshot::id::SnapshotId;
pub use lokt_core::{duration, time};
pub use root::{Found as FoundRoot, Method as RootMethod, State as RootState, Surroundings};
pub use store::line::Waiter;
pub use sys::keepers::Keeper;
pub use sys::machine::{identity, login_name};
pub use sys::signals::Inbox;
pub use sys::spawn::NotRecorded;
pub use wait::{Alarm, Patience, TIMEOUT, Timeout, Waiting};
pub use watch::{Watch, Woken};

/// The program on the first page compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
