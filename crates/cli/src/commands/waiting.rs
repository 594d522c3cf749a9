//! What a waiting command shows: one live line on a terminal; elsewhere a line at the start, one a minute, one at the end.

use std::io::IsTerminal as _;
use std::time::Duration;

use lokt::{Denial, Inbox, LockName, Lokt, Waiting, duration};
use serde::Serialize;

use crate::exit::Exit;
use crate::report::{Failure, Format, Report, say};
use crate::show::{Subject, age, owner_at, quoted, refusal, seconds};

/// Off a terminal, how often a wait says that it still waits.
const REMINDER: Duration = Duration::from_secs(60);
/// Moves to the beginning of the line and clears it.
pub(super) const CLEAR: &str = "\r\x1b[K";

/// Shows how a wait stands.
pub(crate) struct Display<'a> {
    lokt: &'a Lokt,
    /// Is there a terminal? Asked when there is something to show.
    live: Option<bool>,
    /// When something was last said, and how long it had been waited then.
    said: Option<Duration>,
    began_ms: u64,
}

impl<'a> Display<'a> {
    pub(crate) fn new(lokt: &'a Lokt) -> Self {
        Self { lokt, live: None, said: None, began_ms: lokt.now().monotonic_ms }
    }

    pub(crate) fn show(&mut self, waiting: &Waiting<'_>) {
        if *self.live.get_or_insert_with(|| std::io::stderr().is_terminal()) {
            let line = self.line(waiting);
            say(&format!("{CLEAR}{}", fitting(&line)));
        } else if self.said.is_none_or(|at| waiting.waited >= at + REMINDER) {
            say(&format!("{}\n", self.line(waiting)));
        } else {
            return;
        }
        self.said = Some(waiting.waited);
    }

    /// The wait is over.
    pub(crate) fn end(&self, name: &str, got: bool) {
        match (self.said.is_some(), self.live == Some(true)) {
            (false, _) => {}
            (true, true) => say(CLEAR),
            (true, false) if got => say(&format!(
                "got lock {} after {}\n",
                quoted(name),
                duration::show(Duration::from_millis(self.lokt.now().monotonic_ms.saturating_sub(self.began_ms)))
            )),
            (true, false) => {}
        }
    }

    fn line(&self, waiting: &Waiting<'_>) -> String {
        let now = self.lokt.now().wall;
        let name = waiting.name.as_str();
        let place = match self.ahead(waiting.name).unwrap_or(waiting.ahead) {
            0 => "first in line".to_owned(),
            1 => "1 ahead".to_owned(),
            ahead => format!("{ahead} ahead"),
        };
        let obstacle = match waiting.denial {
            Denial::Held(holder) => {
                let hold = &holder.hold;
                let end = match holder.left_ms() {
                    Some(left_ms) => format!(", lease for {} more", duration::show_seconds(seconds(left_ms))),
                    None => String::new(),
                };
                format!("held by {} (pid {}) for {}{end}", owner_at(hold), hold.pid, age(hold.began(), now))
            }
            denial => refusal(Subject::Lock, name, denial, "", now),
        };
        let (waited, left) = (duration::show(waiting.waited), duration::show(waiting.left));
        format!("waiting for lock {}: {place}; {obstacle}; waited {waited}, giving up in {left}", quoted(name))
    }

    /// How many are ahead by now. On a terminal somebody looks.
    fn ahead(&self, name: &LockName) -> Option<usize> {
        let me = self.lokt.me().pid;
        let line = self.lokt.queue(name).ok().filter(|_| self.live == Some(true))?;
        line.iter().position(|waiter| waiter.pulse.process.pid == me)
    }
}

/// What fits one line of the terminal: a longer one would scroll away instead of being replaced.
pub(super) fn fitting(line: &str) -> String {
    let width = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    if width < 2 { line.to_owned() } else { line.chars().take(width - 1).collect() }
}

/// The signals of this process.
pub(crate) fn inbox() -> Result<Inbox, Failure> {
    Inbox::open().map_err(|error| Failure::io(format!("receive signals: {error}"), None))
}

#[derive(Serialize)]
struct Interrupted<'a> {
    status: &'static str,
    name: &'a str,
    code: &'static str,
    message: String,
    signal: i32,
}

/// A signal ended the wait; the line was left.
pub(crate) fn interrupted(name: &str, signal: i32, format: Format) -> Report {
    let code = u8::try_from(signal).unwrap_or(0).saturating_add(128);
    let message = format!("interrupted while waiting for lock {}", quoted(name));
    let report = Report::new(Exit::Other(code));
    match format {
        Format::Json => report.json(&Interrupted { status: "error", name, code: "E_INTERRUPTED", message, signal }),
        Format::Text => report.note(message),
    }
}
