//! An event that happens at most once. Each listener receives it once, even if it subscribed late.

use super::threads::mpsc::{self, Receiver, Sender};
use super::threads::{Mutex, locked};

/// The event, and the listeners that have not received it yet.
pub struct OneShot<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    known: Option<T>,
    listeners: Vec<Sender<T>>,
}

impl<T> Default for OneShot<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State { known: None, listeners: Vec::new() }) }
    }
}

impl<T: Clone> OneShot<T> {
    /// Reports the event. If it was already reported, the first value stays.
    pub fn tell(&self, what: T) -> T {
        let mut state = locked(&self.state);
        let known = state.known.get_or_insert(what).clone();
        for listener in state.listeners.drain(..) {
            // The receiver may have been dropped.
            let _ = listener.send(known.clone());
        }
        known
    }

    /// The event, if it has happened.
    pub fn known(&self) -> Option<T> {
        locked(&self.state).known.clone()
    }

    /// Returns a receiver of the event, which gets it at once if it has already happened.
    pub fn listen(&self) -> Receiver<T> {
        let (send, receive) = mpsc::channel();
        let mut state = locked(&self.state);
        match &state.known {
            // We hold the receiver, so this can't fail.
            Some(known) => drop(send.send(known.clone())),
            None => state.listeners.push(send),
        }
        receive
    }
}
