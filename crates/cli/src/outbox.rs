//! What is said on stderr by a command that holds something, or waits for it.
//!
//! A pipe that nobody reads, and a terminal that Ctrl-S stopped, keep whoever writes to them for as long as they like. A guard must renew its
//! lease and stop its command meanwhile, and a waiter must take its turn. So a thread writes, from the first message on, and whoever has
//! something to say waits only for a moment: long enough that in the usual case everything stands where it was said, before whatever
//! the command writes next.
//!
//! The thread has every signal blocked. So SIGTTOU, too, and a job in the background isn't stopped by its own warning (`stty tostop`).

use std::collections::VecDeque;
use std::io::stderr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lokt_sys::output::{write_all, write_at_once};
use lokt_sys::signals::spawn_deaf;

/// How long a message is waited for. One that takes longer is written when somebody makes room, and so are those after it, which aren't
/// waited for.
const MOMENT: Duration = Duration::from_millis(200);
/// How long the end of the process is put off for what isn't written yet.
const FAREWELL: Duration = Duration::from_secs(1);
/// Messages that are kept for a reader who may come back.
const MESSAGES_MAX: usize = 256;

/// Messages on their way to stderr.
struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    stage: Stage,
    waiting: VecDeque<String>,
    /// So many were thrown away since the last one that was written.
    dropped: usize,
    /// A message is being written.
    is_writing: bool,
    /// Nobody has made room for a moment.
    is_stuck: bool,
}

#[derive(PartialEq, Eq)]
enum Stage {
    /// Messages don't come here.
    Shut,
    /// None has come yet.
    Idle,
    /// A thread writes them.
    Works,
    /// The system has no thread for us.
    Alone,
    /// Nobody will ever read them: the other end is closed.
    Unread,
}

static OUTBOX: Outbox = Outbox {
    state: Mutex::new(State {
        stage: Stage::Shut,
        waiting: VecDeque::new(),
        dropped: 0,
        is_writing: false,
        is_stuck: false,
    }),
    changed: Condvar::new(),
};

/// From now on nobody waits for stderr for longer than a moment.
pub(crate) fn open() {
    let mut state = OUTBOX.lock();
    if state.stage == Stage::Shut {
        state.stage = Stage::Idle;
    }
}

/// Takes a message, if messages come here.
pub(crate) fn put(text: &str) -> bool {
    let mut state = OUTBOX.lock();
    if state.stage == Stage::Idle {
        let started = spawn_deaf(|| OUTBOX.work());
        state.stage = if started.is_ok() { Stage::Works } else { Stage::Alone };
    }
    match state.stage {
        Stage::Shut => return false,
        Stage::Unread => return true,
        Stage::Alone => {
            write_at_once(stderr(), text.as_bytes());
            return true;
        }
        Stage::Idle | Stage::Works => {}
    }
    state.add(text.to_owned());
    OUTBOX.changed.notify_all();
    if !state.is_stuck {
        let mut state = OUTBOX.wait(state, MOMENT);
        state.is_stuck = state.is_busy();
    }
    true
}

/// Waits for what isn't written yet, but not for long.
pub(crate) fn close() {
    drop(OUTBOX.wait(OUTBOX.lock(), FAREWELL));
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything is written.
    fn wait<'a>(&self, state: MutexGuard<'a, State>, patience: Duration) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout_while(state, patience, |state| state.is_busy());
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// What the thread does.
    fn work(&self) {
        loop {
            let state = self.changed.wait_while(self.lock(), |state| state.waiting.is_empty());
            let mut state = state.unwrap_or_else(PoisonError::into_inner);
            let Some(mut text) = state.waiting.pop_front() else { continue };
            if state.dropped > 0 {
                text = format!("warning: nobody read this in time, and {} messages are lost\n{text}", state.dropped);
                state.dropped = 0;
            }
            state.is_writing = true;
            drop(state);
            let written = write_all(stderr(), text.as_bytes());
            let mut state = self.lock();
            state.is_writing = false;
            if written.is_err() {
                state.stage = Stage::Unread;
                state.waiting.clear();
            }
            state.is_stuck &= state.is_busy();
            self.changed.notify_all();
        }
    }
}

impl State {
    fn is_busy(&self) -> bool {
        self.is_writing || !self.waiting.is_empty()
    }

    fn add(&mut self, text: String) {
        if is_progress(&text) {
            // It takes the place of the last one, also where nobody has seen that.
            self.waiting.pop_back_if(|last| is_progress(last));
        }
        if self.waiting.len() >= MESSAGES_MAX {
            self.dropped += 1;
            let oldest = self.waiting.iter().position(|text| is_progress(text)).unwrap_or(0);
            self.waiting.remove(oldest);
        }
        self.waiting.push_back(text);
    }
}

/// A line that isn't ended will be replaced by the next one.
fn is_progress(text: &str) -> bool {
    !text.ends_with('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State { stage: Stage::Works, waiting: VecDeque::new(), dropped: 0, is_writing: false, is_stuck: false }
    }

    #[test]
    fn progress_replaces_progress_and_messages_stay_in_order() {
        let mut state = state();
        for text in ["a\n", "\r1", "\r2", "b\n", "\r3", "\r4"] {
            state.add(text.to_owned());
        }
        assert_eq!(state.waiting, ["a\n", "\r2", "b\n", "\r4"]);
        assert_eq!(state.dropped, 0, "what was replaced isn't missed");
    }

    #[test]
    fn too_many_messages_push_out_progress_and_then_the_oldest() {
        let mut state = state();
        for number in 0..MESSAGES_MAX - 1 {
            state.add(format!("{number}\n"));
        }
        state.add("\rhalf".to_owned());
        state.add("next\n".to_owned());
        assert_eq!((state.waiting.len(), state.waiting[0].as_str(), state.dropped), (MESSAGES_MAX, "0\n", 1));
        state.add("last\n".to_owned());
        assert_eq!((state.waiting.len(), state.waiting[0].as_str(), state.dropped), (MESSAGES_MAX, "1\n", 2));
        assert_eq!(state.waiting.back().map(String::as_str), Some("last\n"));
    }
}
