//! Who takes part in a run and isn't done yet, and who panicked. A part that panics is done: nobody waits for it, and the run says so.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread::{Scope, ScopedJoinHandle};

use crate::traffic::locked;

/// The parts of a run.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    at_work: Mutex<BTreeSet<String>>,
    panicked: Mutex<Vec<String>>,
}

/// One of them. Its work is done when this is dropped.
pub(crate) struct Part<'a> {
    roll: &'a Roll,
    name: String,
}

impl Roll {
    /// One more. To be called before its thread is started: who isn't on the roll isn't waited for. No other part has its name.
    pub(crate) fn enter(&self, name: impl Into<String>) -> Part<'_> {
        let name = name.into();
        locked(&self.at_work).insert(name.clone());
        Part { roll: self, name }
    }

    /// Starts a thread for a part.
    pub(crate) fn start<'scope, T: Send + 'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        name: impl Into<String>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, Option<T>> {
        let part = self.enter(name);
        scope.spawn(move || part.play(work))
    }

    /// Those that aren't done.
    pub(crate) fn at_work(&self) -> Vec<String> {
        locked(&self.at_work).iter().cloned().collect()
    }

    /// Is the part of this name at work?
    pub(crate) fn has(&self, name: &str) -> bool {
        locked(&self.at_work).contains(name)
    }

    /// Is nobody at work?
    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.at_work).is_empty()
    }

    /// Those that panicked, and what they said.
    pub(crate) fn panicked(&self) -> Vec<String> {
        locked(&self.panicked).clone()
    }
}

impl Part<'_> {
    /// Does its work. Gives nothing if that panicked.
    pub(crate) fn play<T>(self, work: impl FnOnce() -> T) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(work));
        if let Err(why) = &done {
            locked(&self.roll.panicked).push(format!("{} panicked: {}", self.name, text(why.as_ref())));
        }
        done.ok()
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        locked(&self.roll.at_work).remove(&self.name);
    }
}

fn text(why: &(dyn Any + Send)) -> &str {
    let owned = why.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| why.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}
