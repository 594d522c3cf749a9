//! The display of a wait: one live line on a terminal; elsewhere a line at the start and one a minute.

mod lock;

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use lokt_core::duration;
use lokt_sys::signals::SignalQueue;
use lokt_sys::terminal::Size;
use lokt_sys::wait_policy::Waiting;
use serde::Serialize;

pub(crate) use self::lock::{LockWait, what_keeps_it};
use crate::exit::Exit;
use crate::outbox;
pub(super) use crate::progress::CLEAR;
use crate::report::{Failure, Format, Report, say};
use crate::show::quoted;
use crate::width;

/// Interval of the reminders off a terminal.
const REMINDER: Duration = Duration::from_secs(60);

/// The object that a command waits for.
pub(crate) trait Subject {
    /// Warns about the wait itself, also if nothing else is shown. `clear` removes the live line.
    fn warn(&mut self, _waiting: &Waiting<'_>, _clear: &str) {}

    /// Inspects the object before a line is made. Returns true if a line is due off a terminal.
    fn inspect(&mut self, _waiting: &Waiting<'_>) -> bool {
        false
    }

    /// The line. `live`: it is replaced every second, so it can be as new as possible.
    fn line(&self, waiting: &Waiting<'_>, live: bool) -> String;

    /// A shorter form for a terminal of `columns` columns; `None`: the line is cut.
    fn short_line(&self, _waiting: &Waiting<'_>, _columns: usize) -> Option<String> {
        None
    }
}

/// Shows the state of a wait for `S`. When it is dropped, the live line is removed.
pub(crate) struct Display<S> {
    subject: S,
    /// Is stderr a terminal? Asked when there is something to show.
    live: Option<bool>,
    /// The time that had been waited when the last line was shown.
    said: Option<Duration>,
    /// Only warnings are shown.
    quiet: bool,
}

impl<S: Subject> Display<S> {
    pub(crate) fn new(subject: S, quiet: bool) -> Self {
        Self { subject, live: None, said: None, quiet }
    }

    pub(crate) fn show(&mut self, waiting: &Waiting<'_>) {
        let live = *self.live.get_or_insert_with(|| stderr().is_terminal());
        self.subject.warn(waiting, if live && self.said.is_some() { CLEAR } else { "" });
        if self.quiet {
            return;
        }
        let is_due = self.subject.inspect(waiting);
        if live {
            say(&format!("{CLEAR}{}", self.fitting_line(waiting)));
        } else if is_due || self.said.is_none_or(|at| waiting.waited >= at + REMINDER) {
            say(&format!("{}\n", self.subject.line(waiting, live)));
        } else {
            return;
        }
        self.said = Some(waiting.waited);
    }

    /// The line, at most as wide as the terminal: a wider one would scroll instead of being replaced.
    fn fitting_line(&self, waiting: &Waiting<'_>) -> String {
        let line = self.subject.line(waiting, true);
        match Size::of(stderr()) {
            Some(Size { columns, .. }) if width::of(&line) >= columns => {
                width::cut(&self.subject.short_line(waiting, columns - 1).unwrap_or(line), columns - 1)
            }
            _ => line,
        }
    }
}

impl<S> Display<S> {
    /// Removes the live line. Returns true if anything was shown.
    fn clear(&mut self) -> bool {
        let was_shown = self.said.take().is_some();
        if was_shown && self.live == Some(true) {
            say(CLEAR);
        }
        was_shown
    }
}

impl<S> Drop for Display<S> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `waited 2s, giving up in 58s`
pub(super) fn how_long(waiting: &Waiting<'_>) -> String {
    let left = waiting.left.map_or("no timeout".to_owned(), |left| format!("giving up in {}", duration::show(left)));
    format!("waited {}, {left}", duration::show(waiting.waited))
}

/// The part of a line that fits one line of the terminal.
pub(super) fn fitting(line: &str) -> String {
    match Size::of(stderr()) {
        Some(size) => width::cut(line, size.columns - 1),
        None => line.to_owned(),
    }
}

/// Opens the queue of this process's signals. From then on a signal does nothing by itself, so nothing may
/// keep the process from receiving it: a full stderr neither.
pub(crate) fn inbox() -> Result<SignalQueue, Failure> {
    outbox::open();
    SignalQueue::open().map_err(|error| Failure::io(format!("receive signals: {error}"), None))
}

#[derive(Serialize)]
struct Interrupted<'a> {
    status: &'static str,
    name: &'a str,
    code: &'static str,
    message: String,
    signal: i32,
}

/// The answer if a signal ended the wait for `name`. `what`: `lock`, `node` or `worktree`.
pub(crate) fn interrupted(what: &str, name: &str, signal: i32, format: Format) -> Report {
    let message = format!("interrupted while waiting for {what} {}", quoted(name));
    let report = Report::new(Exit::of_signal(signal));
    match format {
        Format::Json => report.json(&Interrupted { status: "error", name, code: "E_INTERRUPTED", message, signal }),
        Format::Text => report.note(message),
    }
}
