//! Locks with leases, fencing tokens and queues, in plain files on one machine: no daemon, and the same files as the command `lokt`.
//!
//! A program and a shell script exclude each other: what [`Lokt::guard`] holds here, `lokt guard` waits for there.
//!
//! ```
//! use std::time::Duration;
//! use lokt::{LockError, Lokt};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let project = dir.path();
//! # let (draft, page) = (project.join("page.draft"), project.join("page"));
//! // The locks that the command uses in a directory: those of its git repository, else a `.lokt` directory. `Lokt::open` names one.
//! let lokt = Lokt::discover(project)?;
//!
//! // Waits in the queue for at most five seconds. The lease is renewed until `held` is dropped.
//! let request = lokt.guard("page").ttl(Duration::from_secs(60)).reason("release");
//! let held = match request.acquire_timeout(Duration::from_secs(5)) {
//!     Ok(held) => held,
//!     Err(LockError::Denied(denial)) => {
//!         println!("{denial}"); // lock "page" is held by alice@host (pid 4711)
//!         return Ok(());
//!     }
//!     Err(error) => return Err(error.into()),
//! };
//! println!("writing under token {}", held.token());
//!
//! // Replaces `page` by `draft`, but only if the lock is still held at that moment.
//! std::fs::write(&draft, "new")?;
//! held.publish(&draft, &page)?;
//! held.release()?;
//! # Ok(())
//! # }
//! ```
//!
//! Several locks, a wait that another thread ends, a lock that outlives the program, and who holds what:
//!
//! ```
//! use std::time::Duration;
//! use lokt::{Cancel, LockError, Lokt};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let lokt = Lokt::open(dir.path().join("locks"))?.owner("ci");
//!
//! // All or none: a `Vec<Held>`, in the order of the names. Dropped, each is released.
//! let held = lokt.guard_all(["database", "search"]).try_acquire()?;
//! for lock in lokt.status()? {
//!     println!("{}: {:?}, {} waiting", lock.name(), lock.holder(), lock.waiters());
//! }
//! for lock in &held {
//!     lock.check()?; // an error means that it was lost
//! }
//!
//! let cancel = Cancel::new();
//! std::thread::spawn({
//!     let cancel = cancel.clone();
//!     move || cancel.cancel()
//! });
//! let waited = lokt.guard("search").acquire_until(&cancel);
//! assert!(matches!(waited, Err(LockError::Cancelled)));
//!
//! // The owner's, not this process's: it is held until it is unlocked, or its lease is over.
//! lokt.lock("release").ttl(Duration::from_secs(3600)).try_acquire()?;
//! lokt.unlock("release")?;
//!
//! // Nothing new starts for an hour. Without a `ttl`: until it is unfrozen.
//! lokt.freeze("deploy").ttl(Duration::from_secs(3600)).reason("incident").apply()?;
//! lokt.unfreeze("deploy")?;
//! # Ok(())
//! # }
//! ```
//!
//! # Which call
//!
//! | you want | call |
//! |---|---|
//! | hold a lock while this program does something | `lokt.guard("x").acquire()?`: a [`Held`] |
//! | … only if it is free | `lokt.guard("x").try_acquire()?` |
//! | … or for a while, or until another thread cancels | [`acquire_timeout`](Request::acquire_timeout), [`acquire_until`](Request::acquire_until) |
//! | hold several locks, all or none | `lokt.guard_all(["a", "b"]).acquire()?`, in short [`lokt.acquire_all(["a", "b"])?`](Lokt::acquire_all) |
//! | show a wait | [`on_wait`](Request::on_wait) |
//! | hold a lock across programs, until it is unlocked | `lokt.lock("x").acquire()?`, later `lokt.unlock("x")?` |
//! | replace a file only while the lock is really held | [`held.publish(&draft, &target)?`](Held::publish): it copies the draft |
//! | ask whether a lock was taken away | [`held.check()`](Held::check) |
//! | be told when it is | [`held.losses()`](Held::losses), a receiver |
//! | see who holds a lock, or all of them | [`lokt.holder("x")?`](Lokt::holder), [`lokt.status()?`](Lokt::status) |
//! | let nothing start for a while | [`lokt.freeze("x").ttl(time).apply()?`](Lokt::freeze) |
//! | break a lock | [`break_stale`](Lokt::break_stale), [`force_unlock`](Lokt::force_unlock) |
//! | have a task of a ledger to yourself | `ledger.claim("1.2").acquire()?`, the same [`Request`] |
//! | be the one writer of a worktree | `worktree.lease().acquire()?`, the same [`Request`] |
//! | wait for the next events of a ledger | `ledger.follow(from)`, an iterator |
//! | end any wait, or the copying of a snapshot | [`Cancel`], from another thread |
//!
//! # What to know
//!
//! - **Answers.** A [`LockError`] is a refusal (`Denied`, with a [`Denial`] that names the holder), a bad name, a cancelled wait, or an [`Error`]
//!   of the system. A wait that times out is refused.
//! - **Owners.** An owner is a text, by default the login of the process. Guards exclude each other, also of one owner and in one process.
//!   What [`Lokt::lock`] holds is its owner's: the owner gets it again, and only the owner unlocks it.
//! - **Leases.** Without a `ttl` a guard's lock ends with its process, and an owner's by `unlock`. A lease ends it earlier: when the process was
//!   stopped for that long, or when nobody renewed it.
//! - **Tokens.** Each hold has a fencing token, a number that only grows. A process that was stopped for longer than its lease has lost the
//!   lock and doesn't know it yet. So a service should refuse a token below the greatest that it saw, and a file is best replaced
//!   by [`Held::publish`].
//! - **Manners.** The library never prints, never ends the process and never reads the environment. It blocks; it has no runtime. A [`Held`]
//!   may be sent to another thread; in a forked child it is the parent's.
//!
//! # Features
//!
//! - `ledger` (default): append-only ledgers of events with claims, in the module `ledger`. Refusals are a `ClaimError`.
//! - `worktree` (default): leases on worktrees and fenced snapshots, in the module `worktree`. Refusals are a `LeaseError`.
//!
//! A program that only locks says `default-features = false`. Linux only; the oldest Rust is 1.95.

#[cfg(not(target_os = "linux"))]
compile_error!("lokt needs target_os = \"linux\": it stands on pidfd, boot clocks, O_TMPFILE and renameat2");

mod cancel;
mod denial;
mod error;
mod freeze;
mod handle;
mod held;
mod holder;
mod locked;
mod request;
mod status;
mod token;

pub use cancel::Cancel;
pub use denial::{Denial, DenialReason};
pub use error::{Error, ErrorKind, LockError};
pub use freeze::FreezeRequest;
pub use handle::Lokt;
pub use held::{Held, Losses, Lost, ReleaseError};
pub use holder::Holder;
pub use locked::Locked;
pub use lokt_core::name::{BadName, LockName};
pub use lokt_sys::warnings::Warning;
pub use request::{Acquire, Request, Waiting};
pub use status::{LockState, LockStatus};
pub use token::Token;

#[cfg(feature = "ledger")]
pub mod ledger;
#[cfg(feature = "worktree")]
pub mod worktree;

/// The compiler reads the examples of both READMEs, too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../README.md")]
struct Readme;

/// A lock may be acquired in one thread and released in another, and errors may be sent to where they are shown.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    const fn is_send<T: Send>() {}
    is_send_and_sync::<Lokt>();
    is_send_and_sync::<Held>();
    is_send_and_sync::<Locked>();
    is_send_and_sync::<Cancel>();
    is_send_and_sync::<Denial>();
    is_send_and_sync::<Error>();
    is_send_and_sync::<LockError>();
    is_send_and_sync::<ReleaseError>();
    is_send_and_sync::<Holder>();
    is_send_and_sync::<LockStatus>();
    is_send::<Losses>();
    is_send::<Request<'_, Held>>();
};
