//! Signal dispositions that a process must not keep as it inherited them.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigHandler, Signal, signal};

/// Restores the default for SIGCHLD: if our parent ignored it, the kernel would discard the exit
/// codes of our children.
#[expect(unsafe_code, reason = "there is no safe way to reset a signal; docs/architecture.md says why it must be")]
pub(super) fn listen_to_children() {
    // SAFETY: the default disposition runs no code of ours.
    let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
}

/// True if SIGPIPE was ignored before we ignored it.
static PIPES_IGNORED: AtomicBool = AtomicBool::new(false);

/// Reports whether the program that started us ignored SIGPIPE, as systemd does for its services.
/// The command must be started the same way. In a program that didn't call [`ignore_closed_pipes`],
/// Rust's runtime ignores it and the earlier state is unknown: false.
pub(super) fn ignored_closed_pipes() -> bool {
    PIPES_IGNORED.load(Ordering::Relaxed)
}

/// Ignores SIGPIPE: a closed output is no reason to die in the middle of an operation.
#[expect(unsafe_code, reason = "there is no safe way to ignore a signal; docs/architecture.md says why it must be")]
pub(super) fn ignore_closed_pipes() {
    // SAFETY: ignoring a signal runs no code of ours.
    let before = unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) };
    PIPES_IGNORED.store(matches!(before, Ok(SigHandler::SigIgn)), Ordering::Relaxed);
}
