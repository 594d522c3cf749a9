//! What can be asked of every model here, whatever it is a model of.

use std::fmt::Display;
use std::hash::Hash;

use stateright::Model;

use crate::run::{self, Survey, Trail};

/// A protocol in a small world of its own.
pub trait Protocol:
    Model<State: Hash + Clone + PartialEq + Send + Sync, Action: Clone + PartialEq + Display> + Copy + Send + Sync + 'static
{
    /// A mistake that can be put into it.
    type Flaw: Copy + PartialEq + 'static;

    /// Every mistake that breaks a promise, and the promise.
    const FLAWS: &'static [(Self::Flaw, &'static str)];

    /// What a mistake is called.
    fn called(flaw: Self::Flaw) -> &'static str;

    /// The protocol with one mistake, in a world that is large enough for it to matter.
    fn with_flaw(flaw: Self::Flaw) -> Self;

    /// How far it goes.
    fn bounds(&self) -> impl Display;

    /// Goes through every state on that many threads.
    fn survey(self, threads: usize) -> Survey;

    /// Looks for a shortest way to a state that breaks `promise`; `None` if there is none within the bounds.
    fn hunt(self, promise: &'static str) -> Option<Trail<Self::Action>> {
        run::hunt(self, promise)
    }
}
