//! Work on many files: it shows how far it is, and a signal ends it without leaving anything behind.

use std::sync::atomic::AtomicBool;

use lokt_tree::Control;
use serde::Serialize;

use super::super::waiting::inbox;
use crate::exit::Exit;
use crate::report::{Failure, Format, Report};
use crate::tree_progress::TreeProgress;

/// What ended the work before it was done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended(Option<i32>);

/// Does the work. With its result comes what ended it, if it says that something did.
pub(super) fn watched<T>(work: impl FnOnce(&Control<'_>) -> T) -> Result<(T, Ended), Failure> {
    let inbox = inbox()?;
    let halt = AtomicBool::new(false);
    let progress = TreeProgress::new();
    let done = inbox.during(&halt, || work(&Control::new(&progress, &halt)));
    drop(progress);
    let (done, signal) = done.map_err(|error| Failure::io(format!("receive signals: {error}"), None))?;
    Ok((done, Ended(signal)))
}

#[derive(Serialize)]
struct Interrupted {
    status: &'static str,
    code: &'static str,
    message: String,
    signal: Option<i32>,
}

impl Ended {
    /// Says that it was interrupted. `undone`: what didn't happen.
    pub(super) fn report(self, undone: &str, format: Format) -> Report {
        let exit = self.0.map_or(Exit::TryAgain, Exit::of_signal);
        let message = format!("interrupted: {undone}");
        let report = Report::new(exit);
        match format {
            Format::Json => {
                report.json(&Interrupted { status: "error", code: "E_INTERRUPTED", message, signal: self.0 })
            }
            Format::Text => report.note(message),
        }
    }
}
