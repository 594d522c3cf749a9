//! Locks with leases, fencing tokens and queues, in plain files on one machine. There is no daemon,
//! and the command `lokt` uses the same files.
//!
//! Programs and shell scripts exclude each other: `lokt guard` waits for a lock that
//! [`Lokt::guard`] holds, and vice versa.
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
//! Acquiring several locks, cancelling a wait from another thread, holding a lock beyond the
//! program's lifetime, and listing holders:
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
//! | … or wait with a time limit, or until another thread cancels | [`acquire_timeout`](Request::acquire_timeout), [`acquire_until`](Request::acquire_until) |
//! | hold several locks, all or nothing | `lokt.guard_all(["a", "b"]).acquire()?`, in short [`lokt.acquire_all(["a", "b"])?`](Lokt::acquire_all) |
//! | show progress while waiting | [`on_wait`](Request::on_wait) |
//! | hold a lock across programs, until it is unlocked | `lokt.lock("x").acquire()?`, later `lokt.unlock("x")?` |
//! | replace a file only if the lock is still held | [`held.publish(&draft, &target)?`](Held::publish): it copies the draft |
//! | check whether a lock was lost | [`held.check()`](Held::check) |
//! | be notified when it is | [`held.losses()`](Held::losses), a receiver |
//! | see who holds a lock, or all of them | [`lokt.holder("x")?`](Lokt::holder), [`lokt.status()?`](Lokt::status) |
//! | prevent new acquisitions for a while | [`lokt.freeze("x").ttl(time).apply()?`](Lokt::freeze) |
//! | break a lock | [`break_stale`](Lokt::break_stale), [`force_unlock`](Lokt::force_unlock) |
//! | be the only one to work on a task of a ledger | `ledger.claim("1.2").acquire()?`, the same [`Request`] |
//! | be the only writer of a worktree | `worktree.lease().acquire()?`, the same [`Request`] |
//! | wait for the next events of a ledger | `ledger.follow(from)`, an iterator |
//! | cancel any wait, or the copying of a snapshot | [`Cancel`], from another thread |
//!
//! # What to know
//!
//! - **Errors.** A [`LockError`] is a refusal (`Denied`, with a [`Denial`] that names the holder),
//!   a bad name, a cancelled wait, or a system [`Error`]. A wait that times out is refused.
//! - **Owners.** An owner is a string, by default the login name of the process. Guards exclude
//!   each other, even if they have the same owner or run in the same process. A lock acquired with
//!   [`Lokt::lock`] belongs to its owner: the owner can acquire it again, and only the owner can
//!   unlock it.
//! - **Leases.** Without a `ttl`, a guard's lock ends with its process, and an owner's lock ends
//!   with `unlock`. A lease ends it earlier: when the process was suspended for that long, or when
//!   the lease was not renewed.
//! - **Tokens.** Each hold has a fencing token, a number that only increases. A process that was
//!   suspended for longer than its lease has lost the lock and doesn't know it yet. A service
//!   should therefore refuse tokens below the greatest one it has seen. To replace a file, use
//!   [`Held::publish`].
//! - **Side effects.** The library never prints, never ends the process and never reads the
//!   environment. Calls block; there is no async runtime. A [`Held`] may be sent to another thread;
//!   in a forked child it still belongs to the parent.
//!
//! # Features
//!
//! - `ledger` (default): append-only ledgers of events with claims, in the module `ledger`.
//!   Refusals are returned as `ClaimError`.
//! - `worktree` (default): leases on worktrees and fenced snapshots, in the module `worktree`.
//!   Refusals are returned as `LeaseError`.
//!
//! A program that only needs locks can set `default-features = false`. Linux only; the minimum Rust
//! version is 1.95.

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

/// Includes the examples of both READMEs in the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compile-time check: a lock may be acquired in one thread and released in another, and errors may
/// be sent to other threads.
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
