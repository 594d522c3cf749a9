//! Signals that a process must not leave as it got them.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigHandler, Signal, signal};

/// Whoever started us may ignore the end of children; the kernel then throws their exit codes away.
#[expect(unsafe_code, reason = "there is no safe way to reset a signal; docs/architecture.md says why it must be")]
pub(super) fn listen_to_children() {
    // SAFETY: the default disposition runs no code of ours.
    let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
}

/// SIGPIPE was ignored before we ignored it.
static PIPES_IGNORED: AtomicBool = AtomicBool::new(false);

/// Did the program that started us ignore SIGPIPE, as systemd does for its services? Its command is to be started so, too. In a program
/// that didn't call [`ignore_closed_pipes`] Rust's runtime ignores it, and nobody knows what was before: no.
pub(super) fn ignored_closed_pipes() -> bool {
    PIPES_IGNORED.load(Ordering::Relaxed)
}

/// Whoever closed our output doesn't want it any more, which is no reason to die in the middle of something.
#[expect(unsafe_code, reason = "there is no safe way to ignore a signal; docs/architecture.md says why it must be")]
pub(super) fn ignore_closed_pipes() {
    // SAFETY: ignoring a signal runs no code of ours.
    let before = unsafe { signal(Signal::SIGPIPE, SigHandler::SigIgn) };
    PIPES_IGNORED.store(matches!(before, Ok(SigHandler::SigIgn)), Ordering::Relaxed);
}
