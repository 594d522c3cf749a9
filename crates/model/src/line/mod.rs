//! The line: waiters for one name, whom each of them sleeps on, and who wakes them.
//!
//! **What happens.** A few processes run `guard --wait` for one name, and now and then one runs `guard` without it. Whoever is refused
//! takes a ticket, leaves the mutex, opens the pulse of the one it waits for, and sleeps until the kernel drops the lock on it. Once a
//! second a sleeper looks around: at its own pulse (was it offered the lock?), at its predecessor (can that one take it?), and at the
//! record (does anybody have it?). Between any two steps waiters are killed, stopped, continued, and run out of time; guards are killed
//! with and without their commands; commands close the pulse they inherit, or leave something behind that keeps it; records are removed
//! by force. [`decide`](lokt_core::decide::decide), the weighing of evidence and the rules of the line ([`lokt_core::line`]) are the
//! product's; the order of the steps is the shell's, written down again in `step.rs` and `look.rs`.
//!
//! **What is promised.** [`ONE_HOLDER`], [`IN_ORDER`], [`KEEPS_PLACE`], and that nobody waits for ever, in two strengths:
//!
//! - [`NO_LOST_WAKE`]: the kernel's wakes suffice. Where nothing is stopped and no command is careless with the pulse, there is no state
//!   in which the lock is free, no process has a step to take, and somebody waits. The look each second is switched off for this, so
//!   that it can't hide anything. It is the promise that a wake which comes too early breaks.
//! - [`NO_ENDLESS_WAIT`]: the look each second mends the rest. In any quiet state where the lock is left alone the world may come to
//!   *rest*: nothing comes from outside any more. Then, in whatever order, everybody who can looks around once and takes the steps that
//!   follow; that is a *round*. At its end somebody must have the lock. Where a waiter may be stopped without being seen (in another
//!   pid namespace, frozen), each such waiter may cost one round more, in which it lets an offer pass. A waiter that isn't first is
//!   covered too: whoever got the lock releases it or dies, and the same holds again with one waiter less.
//!
//! Both speak of quiet states; [`COMES_TO_REST`] says that there are any.
//!
//! They are judged by a truth beside the files (`truth.rs`): who came first is the order of [`State::processes`], not a ticket's number;
//! who let an offer pass is known without the note in its pulse. [`Flaw`] puts mistakes back, each of which must break one of them.
//!
//! **How far.** [`Bounds`] limit how many processes there are at a time and what may befall them. How often is not limited: only the order
//! of tickets is kept and the age of offers, so that the states are finite and runs of any length are covered.
//!
//! # Limitations
//!
//! - A look inside the mutex is one step, and so is a timeout's. A grant and a release are not: others see what is between their
//!   effects, and a process may be killed there. It isn't stopped there: that stops the whole root, as is documented.
//! - A guard whose command runs isn't stopped; others can't tell that from a long command. So a round ends at the next holder.
//! - Holds have a process part without a lease and always a pulse. For an owner part, a freeze or a bound process there is none, and the
//!   head has nothing but its look at the record, as beside a command that closed its pulse.
//! - Offers are young or older than they last. A round is as long as an offer lasts and a look takes; how many seconds that is, is
//!   not counted.
//! - A process of another pid namespace can't be seen to be stopped, but to be dead: the evidence is that of one namespace.
//! - Of a guard that lost its lock by force only the pulse matters, so it isn't killed without its command.
//! - Tickets are not deleted by hand, and pulses of the dead are gone at once: they are never listed as living, and nobody can tell an
//!   unlocked ticket from a missing one.

mod action;
mod bounds;
mod circle;
mod flaw;
mod judge;
mod look;
mod state;
mod step;
mod truth;
mod witness;

use std::fmt::Display;

use stateright::{Model, Property};

use crate::protocol::Protocol;
use crate::run::{self, Survey, Trail};
pub use action::Action;
pub use bounds::{Bounds, Stops};
pub use flaw::Flaw;
pub use state::{Age, Command, Phase, Place, Process, Space, State, Target};
pub use truth::Offences;

/// At most one process, or the command of a dead one, acts as if it had the lock.
pub const ONE_HOLDER: &str = "one-holder";
/// Nobody is granted the lock while somebody waits who came earlier, isn't stopped, and hasn't let it alone for two seconds.
pub const IN_ORDER: &str = "in-order";
/// Whoever looks, having come before all who could take the free lock, gets it; also if it was stopped and passed over before.
pub const KEEPS_PLACE: &str = "keeps-place";
/// The kernel's wakes suffice: no waiter sleeps beside a free lock when nobody has anything to do.
pub const NO_LOST_WAKE: &str = "no-lost-wake";
/// With the look each second somebody takes the free lock, whatever was stopped, killed or left behind.
pub const NO_ENDLESS_WAIT: &str = "no-endless-wait";

/// No process looks, finds no reason to sleep, and looks again, for as long as nothing else happens.
pub const COMES_TO_REST: &str = "comes-to-rest";

/// The model: how far, and with which mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// How far.
    pub bounds: Bounds,
    /// With which mistake.
    pub flaw: Flaw,
    /// Is it noted what was reached, too?
    pub witnesses: bool,
}

impl Queue {
    /// The protocol as it is.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, flaw: Flaw::None, witnesses: false }
    }

    /// With a look at what is reached.
    #[must_use]
    pub fn with_witnesses(self) -> Self {
        Self { witnesses: true, ..self }
    }

    /// Does a helper that is blocked on this come back?
    fn is_woken(self, state: &State, target: Target) -> bool {
        state.is_dropped(target) && self.flaw != Flaw::WakeBeforeDrop
    }

    /// Can a process be seen from there to be stopped?
    fn sees(self, process: &Process, viewer: Space) -> bool {
        process.space == viewer && self.bounds.stops != Stops::Unseen
    }

    /// What a process does by itself.
    fn own_actions(self, state: &State, place: usize, actions: &mut Vec<Action>) {
        let process = &state.processes[place];
        match process.phase {
            _ if process.stopped => {}
            Phase::Awake | Phase::Ended { .. } | Phase::Dropped if !state.is_mutex_free() => {}
            Phase::Granting => {
                actions.push(Action::Publish(place, Command::Keeps));
                if self.bounds.strays {
                    actions.push(Action::Publish(place, Command::Closes));
                }
            }
            Phase::Dying(_) => actions.push(Action::Drop(place)),
            _ if process.is_busy(self, state) => actions.push(Action::Step(place)),
            Phase::Asleep(_) if self.bounds.seconds && !process.looked => actions.push(Action::Second(place)),
            _ => {}
        }
    }

    /// What befalls it.
    fn outer_actions(self, state: &State, place: usize, actions: &mut Vec<Action>) {
        let process = &state.processes[place];
        if process.waits() && !process.stopped && state.is_mutex_free() {
            actions.push(Action::TimeOut(place));
        }
        match process.phase {
            Phase::Holding(command) => {
                actions.push(Action::Orphan(place));
                actions.push(Action::CommandEnds { process: place, leaves: false });
                if self.bounds.strays && command == Command::Keeps {
                    actions.push(Action::CommandEnds { process: place, leaves: true });
                }
            }
            Phase::Lost => actions.push(Action::CommandEnds { process: place, leaves: false }),
            Phase::Orphaned(Command::Keeps) if self.bounds.strays => {
                actions.push(Action::CommandEnds { process: place, leaves: true });
            }
            _ => {}
        }
        if !matches!(process.phase, Phase::Dying(_)) {
            actions.push(Action::Kill(place));
        }
        let may_stop = process.waits() || matches!(process.phase, Phase::Leaving | Phase::Unlinked { .. });
        if process.stopped {
            actions.push(Action::Continue(place));
        } else if self.bounds.stops != Stops::Never && may_stop {
            actions.push(Action::Stop(place));
        }
    }

    /// The ends of rest and of its rounds.
    fn rest_actions(self, state: &State, actions: &mut Vec<Action>) {
        if !self.bounds.seconds || !state.is_left_alone() || !state.is_quiet(self) {
            return;
        }
        match state.rounds {
            None => actions.push(Action::Rest),
            Some(rounds) => {
                let has_looked = |process: &Process| process.looked || !process.is_ready();
                if rounds <= state.rounds_max(self) && state.processes.iter().all(has_looked) {
                    actions.push(Action::Round);
                }
            }
        }
    }
}

impl Model for Queue {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // Somebody got it.
        if state.rounds.is_some() && !state.is_left_alone() {
            return;
        }
        for place in 0..state.processes.len() {
            self.own_actions(state, place, actions);
        }
        self.rest_actions(state, actions);
        if state.processes.iter().any(|process| process.offered == Some(Age::Young)) {
            actions.push(Action::Tick);
        }
        if state.rounds.is_some() {
            return;
        }
        for place in 0..state.processes.len() {
            self.outer_actions(state, place, actions);
        }
        let holds = |process: &Process| matches!(process.phase, Phase::Holding(_));
        if self.bounds.strays && state.is_mutex_free() && state.processes.iter().any(holds) {
            actions.push(Action::Force);
        }
        if state.processes.len() < self.bounds.processes && state.is_mutex_free() {
            for space in [Space::First, Space::Second] {
                if space == Space::First || self.bounds.stops == Stops::Apart {
                    actions.push(Action::Arrive(space));
                    actions.push(Action::Try(space));
                }
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        step::act(*self, last, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::<Self>::always(ONE_HOLDER, |_, state| state.has_one_holder()),
            Property::<Self>::always(IN_ORDER, |_, state| !state.offences.overtaken),
            Property::<Self>::always(KEEPS_PLACE, |_, state| !state.offences.displaced),
        ];
        properties.push(if self.bounds.seconds {
            Property::<Self>::always(NO_ENDLESS_WAIT, |model, state| {
                state.rounds.is_none_or(|rounds| rounds <= state.rounds_max(*model))
            })
        } else {
            Property::<Self>::always(NO_LOST_WAKE, |model, state| !(state.is_left_alone() && state.is_quiet(*model)))
        });
        if self.witnesses {
            properties.extend(witness::all());
        }
        properties
    }
}

impl Protocol for Queue {
    type Flaw = Flaw;
    const FLAWS: &'static [(Flaw, &'static str)] = &Flaw::ALL;

    fn called(flaw: Flaw) -> &'static str {
        flaw.as_str()
    }

    fn with_flaw(flaw: Flaw) -> Self {
        Self { flaw, ..Self::new(flaw.bounds()) }
    }

    fn bounds(&self) -> impl Display {
        self.bounds
    }

    fn survey(self, threads: usize) -> Survey {
        run::survey(self, &run::Way::Broad, threads)
    }

    /// The same; or any circle of steps, if that is what breaks it.
    fn hunt(self, promise: &'static str) -> Option<Trail<Action>> {
        if promise == COMES_TO_REST { circle::circle(self) } else { run::hunt(self, promise) }
    }
}
