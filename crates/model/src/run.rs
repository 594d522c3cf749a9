//! Running the checker: through every state, or to the nearest counterexample.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// What was found by going through every state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Different states, not counting those that have the same future as another.
    pub states: usize,
    /// States on the longest way that was gone.
    pub depth: usize,
    /// Was every state looked at?
    pub complete: bool,
    /// The promises that were broken.
    pub broken: BTreeSet<&'static str>,
    /// What should be reachable and was never reached.
    pub unreached: BTreeSet<&'static str>,
}

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, depth, complete, broken, .. } = self;
        let all = if *complete { "all" } else { "not all" };
        write!(f, "{states} states, {all} of them looked at, up to {depth} deep; broken: ")?;
        if broken.is_empty() {
            return f.write_str("nothing");
        }
        broken.iter().enumerate().try_for_each(|(n, name)| write!(f, "{}{name}", if n == 0 { "" } else { ", " }))
    }
}

/// How to go through the states.
pub(crate) enum Way<M: Model> {
    /// To the end of one run after another, with one state for all that have the same representative. For runs that end soon.
    Deep(fn(&M::State) -> M::State),
    /// All states of one distance after another. For runs without an end.
    Broad,
}

/// Goes through every state on that many threads.
pub(crate) fn survey<M>(model: M, way: &Way<M>, threads: usize) -> Survey
where
    M: Model<State: Hash + Clone + PartialEq + Send + Sync, Action: Clone + PartialEq> + Copy + Send + Sync + 'static,
{
    let builder = model.checker().threads(threads);
    match way {
        Way::Deep(representative) => summary(&model, &builder.symmetry_fn(*representative).spawn_dfs().join()),
        Way::Broad => summary(&model, &builder.spawn_bfs().join()),
    }
}

fn summary<M: Model>(model: &M, checker: &impl Checker<M>) -> Survey
where
    M::State: Hash + Clone + PartialEq,
    M::Action: Clone + PartialEq,
{
    let found: BTreeSet<_> = checker.discoveries().into_keys().collect();
    let named = |expectation: Expectation| {
        let properties = model.properties().into_iter();
        properties.filter(move |property| property.expectation == expectation).map(|property| property.name)
    };
    Survey {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        complete: checker.is_done(),
        broken: named(Expectation::Always).filter(|name| found.contains(name)).collect(),
        unreached: named(Expectation::Sometimes).filter(|name| !found.contains(name)).collect(),
    }
}

/// A shortest way to a broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trail<A> {
    /// How many states were looked at until it was found.
    pub states: usize,
    /// The way.
    pub actions: Vec<A>,
}

/// Looks for a shortest way to a state that breaks `promise`; `None` if there is none within the bounds.
pub(crate) fn hunt<M>(model: M, promise: &'static str) -> Option<Trail<M::Action>>
where
    M: Model<State: Hash + Clone + PartialEq + Send + Sync, Action: Clone + PartialEq> + Copy + Send + Sync + 'static,
{
    let mut best: Option<Trail<M::Action>> = None;
    loop {
        let builder = model.checker().finish_when(HasDiscoveries::AnyOf([promise].into()));
        // The checker goes on for a while after it has found one, and keeps the last. Its depth counts states, not steps.
        let builder = match &best {
            Some(trail) => builder.target_max_depth(trail.actions.len() + 1),
            None => builder,
        };
        let checker = builder.spawn_bfs().join();
        match checker.discovery(promise) {
            Some(path) => best = Some(Trail { states: checker.unique_state_count(), actions: path.into_actions() }),
            None => return best,
        }
    }
}

impl<A: fmt::Display> fmt::Display for Trail<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.actions.iter().enumerate().try_for_each(|(step, action)| writeln!(f, "{:>4}. {action}", step + 1))
    }
}
