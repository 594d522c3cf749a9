//! Something that happens at most once, and is told once to each who listens, whether they came before or after it.

use super::threads::mpsc::{self, Receiver, Sender};
use super::threads::{Mutex, locked};

/// What happened, and who is still to be told.
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
    /// It happened. If it was known already, what was told first stays.
    pub fn tell(&self, what: T) -> T {
        let mut state = locked(&self.state);
        let known = state.known.get_or_insert(what).clone();
        for listener in state.listeners.drain(..) {
            // Whoever doesn't listen any more needn't know.
            let _ = listener.send(known.clone());
        }
        known
    }

    /// What happened, if it did.
    pub fn known(&self) -> Option<T> {
        locked(&self.state).known.clone()
    }

    /// Is told when it happens, or at once if it did.
    pub fn listen(&self) -> Receiver<T> {
        let (send, receive) = mpsc::channel();
        let mut state = locked(&self.state);
        match &state.known {
            // The other end is in our hand.
            Some(known) => drop(send.send(known.clone())),
            None => state.listeners.push(send),
        }
        receive
    }
}
