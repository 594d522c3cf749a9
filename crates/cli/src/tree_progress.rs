//! How far work on many files has come: a line on a terminal that is replaced as it goes on, and nothing elsewhere.

use std::io::{IsTerminal as _, stderr};
use std::sync::Mutex;

use lokt_sys::terminal::Size;
use lokt_tree::{Phase, Progress};

use crate::machine;
use crate::progress::CLEAR;
use crate::report::say;
use crate::show::{rough, seconds, size};
use crate::width;

/// Nobody needs to be told about what is over by then.
const QUIET_MS: u64 = 1_000;
/// How often the line is replaced.
const EVERY_MS: u64 = 100;
/// What a speed was measured in less time than this is no measure.
const MEASURED_MS: u64 = 500;

/// Work that many threads do, and that may take long.
pub(crate) struct TreeProgress {
    /// Is there a terminal?
    live: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    began_ms: u64,
    /// What is being done, and since when.
    phase: Option<(Phase, u64)>,
    shown_ms: Option<u64>,
}

impl TreeProgress {
    pub(crate) fn new() -> Self {
        let live = stderr().is_terminal();
        let began_ms = if live { machine::now().monotonic_ms } else { 0 };
        Self { live, state: Mutex::new(State { began_ms, ..State::default() }) }
    }
}

impl Progress for TreeProgress {
    fn step(&self, phase: Phase, files_done: u64, files: u64, bytes_done: u64, bytes: u64) {
        // While one thread draws the others have better things to do.
        let Some(mut state) = self.live.then(|| self.state.try_lock().ok()).flatten() else { return };
        let now_ms = machine::now().monotonic_ms;
        let since_ms = match state.phase {
            Some((of, since_ms)) if of == phase => since_ms,
            _ => {
                state.phase = Some((phase, now_ms));
                now_ms
            }
        };
        let next_ms = state.shown_ms.map_or(state.began_ms + QUIET_MS, |shown_ms| shown_ms + EVERY_MS);
        if now_ms < next_ms {
            return;
        }
        state.shown_ms = Some(now_ms);
        let line = line(phase, (files_done, files), (bytes_done, bytes), now_ms.saturating_sub(since_ms));
        let columns = Size::of(stderr()).map_or(usize::MAX, |size| size.columns.saturating_sub(1));
        say(&format!("{CLEAR}{}", width::cut(&line, columns)));
    }
}

impl Drop for TreeProgress {
    fn drop(&mut self) {
        if self.state.get_mut().is_ok_and(|state| state.shown_ms.is_some()) {
            say(CLEAR);
        }
    }
}

/// `copying: 120 of 5000 files, 1.2 MB of 45.6 MB, 1m left`. What nobody knows yet is left out.
fn line(phase: Phase, (files_done, files): (u64, u64), (bytes_done, bytes): (u64, u64), for_ms: u64) -> String {
    let what = match phase {
        Phase::Scanning => "looking at files",
        Phase::Copying => "copying",
        Phase::Syncing => "waiting for the disk",
        Phase::Checking => "looking whether anything changed",
        Phase::Hashing => "reading",
    };
    let mut parts = Vec::new();
    match (files_done, files) {
        (0, 0) => {}
        (done, 0) => parts.push(format!("{done} files")),
        (done, of) => parts.push(format!("{done} of {} files", of.max(done))),
    }
    if bytes > 0 {
        parts.push(format!("{} of {}", size(bytes_done), size(bytes.max(bytes_done))));
    }
    // Small files take as long as their number says, large ones as long as their bytes do.
    let left_ms =
        [(files_done, files), (bytes_done, bytes)].into_iter().filter_map(|(done, of)| left(done, of, for_ms));
    parts.extend(left_ms.max().map(|ms| format!("{} left", rough(seconds(ms)))));
    if parts.is_empty() { what.to_owned() } else { format!("{what}: {}", parts.join(", ")) }
}

/// How long the rest takes, if it takes as long as what is done did.
fn left(done: u64, of: u64, for_ms: u64) -> Option<u64> {
    if done == 0 || of <= done || for_ms < MEASURED_MS {
        return None;
    }
    u64::try_from(u128::from(of - done) * u128::from(for_ms) / u128::from(done)).ok()
}

#[cfg(test)]
mod tests {
    use lokt_tree::Phase;

    use super::line;

    #[test]
    fn the_line_says_how_much_of_how_much_and_how_long_it_takes() {
        let copying = |files, bytes, ms| line(Phase::Copying, files, bytes, ms);
        assert_eq!(
            copying((100, 400), (1_000_000, 2_000_000), 10_000),
            "copying: 100 of 400 files, 1.0 MB of 2.0 MB, 30s left"
        );
        assert_eq!(copying((100, 400), (1_000_000, 2_000_000), 100), "copying: 100 of 400 files, 1.0 MB of 2.0 MB");
        assert_eq!(copying((1, 2), (10, 70), 20_000), "copying: 1 of 2 files, 10 B of 70 B, 2m left", "by its bytes");
        assert_eq!(copying((2, 2), (70, 70), 20_000), "copying: 2 of 2 files, 70 B of 70 B", "nothing is left");
        assert_eq!(
            copying((3, 2), (80, 70), 20_000),
            "copying: 3 of 3 files, 80 B of 80 B",
            "never more than all of it"
        );
        assert_eq!(line(Phase::Scanning, (1_200, 0), (0, 0), 5_000), "looking at files: 1200 files");
        assert_eq!(line(Phase::Syncing, (0, 0), (0, 0), 5_000), "waiting for the disk");
    }
}
