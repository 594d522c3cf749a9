//! How far long work has come: a line on a terminal that is replaced as it goes on, and nothing elsewhere.

use std::io::{IsTerminal as _, stderr};

use crate::machine;
use crate::report::say;

/// Nobody needs to be told about what is over by then.
const QUIET_MS: u64 = 1_000;
/// How often the line is replaced.
const EVERY_MS: u64 = 100;
/// Moves to the beginning of the line and clears it.
pub(crate) const CLEAR: &str = "\r\x1b[K";

/// Work that may take long.
pub(crate) struct Progress {
    what: &'static str,
    /// Is there a terminal?
    live: bool,
    began_ms: u64,
    shown_ms: Option<u64>,
    /// It was said what is waited for.
    waits: bool,
}

impl Progress {
    /// `what` is what is being done, as in `verifying`.
    pub(crate) fn new(what: &'static str) -> Self {
        let live = stderr().is_terminal();
        Self { what, live, began_ms: if live { machine::now().monotonic_ms } else { 0 }, shown_ms: None, waits: false }
    }

    /// So much of it is done, of so much.
    pub(crate) fn step(&mut self, done: u64, of: u64) {
        if !self.live {
            return;
        }
        let now_ms = machine::now().monotonic_ms;
        let next_ms = self.shown_ms.map_or(self.began_ms + QUIET_MS, |shown_ms| shown_ms + EVERY_MS);
        if now_ms >= next_ms {
            self.shown_ms = Some(now_ms);
            say(&format!("{CLEAR}{}", line(self.what, done, of)));
        }
    }

    /// Says what is waited for, once and whether or not there is a terminal: without that it would seem to hang.
    pub(crate) fn wait_for(&mut self, what: impl FnOnce() -> String) {
        if !self.waits {
            self.waits = true;
            let clear = if self.shown_ms.take().is_some() { CLEAR } else { "" };
            say(&format!("{clear}{}", what()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown_ms.is_some() {
            say(CLEAR);
        }
    }
}

fn line(what: &str, done: u64, of: u64) -> String {
    // What comes meanwhile is done, too.
    let of = of.max(done);
    let percent = (u128::from(done) * 100).checked_div(u128::from(of)).unwrap_or(100);
    format!("{what}: {done} of {of} ({percent} %)")
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn the_line_says_how_much_of_how_much() {
        assert_eq!(line("verifying", 12_000, 50_000), "verifying: 12000 of 50000 (24 %)");
        assert_eq!(line("verifying", 0, 0), "verifying: 0 of 0 (100 %)", "nothing to do is done");
        assert_eq!(line("reading", 7, 5), "reading: 7 of 7 (100 %)", "never more than all of it");
    }
}
