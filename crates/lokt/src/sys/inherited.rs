//! What a process inherits from the one that started it and must not keep.

use nix::sys::signal::{SigHandler, Signal, signal};

/// Whoever started us may ignore the end of children; the kernel then throws their exit codes away.
#[expect(unsafe_code, reason = "there is no safe way to reset a signal; docs/architecture.md says why it must be")]
pub(crate) fn listen_to_children() {
    // SAFETY: the default disposition runs no code of ours.
    let _ = unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) };
}
