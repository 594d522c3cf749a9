//! Named locks on a key-value engine: the product's own plans, decisions and settling, against
//! requests that are late, doubled or never made, answers that are lost, and sessions that end.
//!
//! **What happens.** Two or three clients run the commands of a world ([`Bounds`]): guards, locks,
//! waits, freezes, their ends, force and sweeps. A client looks, decides and sends in one step; the
//! engine works on the request in another. In between anything may happen. A request may be
//! delayed: its client settles it, and the engine works on it whenever it likes. It may be worked on
//! twice, of which either answer may come, or its answer may be lost; the same goes for requests that settle. Sessions end at any
//! moment, and a late request may open a closed one again. In the world with time, sessions end
//! only by the server's clock, servers change, and servers answer renewals falsely.
//!
//! View, `decide`, plan, settling and the judgement of renewals are the product's
//! ([`lokt_core::swap`]), and so is the engine ([`lokt_core::engine::Keyspace`]). The order of the
//! steps is written down in `step.rs`.
//!
//! **What is promised.** [`TRUE_FACTS`], [`ONE_HOLDER`], [`NO_GHOST`], [`STOP_BEFORE_FREE`],
//! [`FIRST_COME`], [`ONE_ORDER`], [`TOKEN_ORDER`]. They are judged by what clients were told and by
//! deciding again at the moment of each change. [`Flaw`] puts mistakes back.
//!
//! # Limitations
//!
//! - A look is one step with the decision and the sending; looks are never late.
//! - No shared or slot mode, no pools, no kept places, no ledger, no space-wide freeze.
//! - In the world with time a guard's command is dead at its deadline; that is the warden's promise.
//! - Nothing is said about waiting for ever: a waiter may look again, or not.

mod action;
mod bounds;
mod flaw;
mod judge;
mod state;
mod step;
mod truth;
mod witness;

use std::fmt::Display;

use stateright::{Model, Property};

use crate::protocol::Protocol;
use crate::run::{self, Survey};
pub use action::Action;
pub use bounds::{Bounds, Program, Step};
pub use flaw::Flaw;
pub use state::{Client, HoldKey, Phase, Ruling, Sent, State, Used};
pub use truth::{Offence, Truth};
pub use witness::Witness;

use state::Number;

/// Every addition would be decided again in the same way at the revision at which it is made.
pub const TRUE_FACTS: &str = "true-facts";
/// At most one member of a name lives.
pub const ONE_HOLDER: &str = "one-holder";
/// Nothing is made for a client that was told that it wasn't, or made twice; nothing that a client
/// was told of is absent.
pub const NO_GHOST: &str = "no-ghost";
/// A holder's deadline is never later than the end of its life key.
pub const STOP_BEFORE_FREE: &str = "stop-before-free";
/// No hold is granted past a ticket that came before.
pub const FIRST_COME: &str = "first-come";
/// Of two requests for the same names, one is first in all queues.
pub const ONE_ORDER: &str = "one-order";
/// Every drawn token is greater than all before it, and stays that of its hold.
pub const TOKEN_ORDER: &str = "token-order";

/// The model: in which world, and with which mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap {
    /// In which world.
    pub bounds: Bounds,
    /// With which mistake.
    pub flaw: Flaw,
    /// Is it noted what was reached, too?
    pub witnesses: bool,
}

impl Swap {
    /// The protocol as it is.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, flaw: Flaw::None, witnesses: false }
    }

    /// With a look at what is reached.
    #[must_use]
    pub fn with_witnesses(self) -> Self {
        Self { witnesses: true, ..self }
    }

    fn client_actions(&self, state: &State, number: Number, actions: &mut Vec<Action>) {
        let client = &state.clients[number];
        let Some(step) = state::step(&self.bounds, number, client.at) else { return };
        match &client.phase {
            Phase::Ready | Phase::Queued => {
                actions.push(Action::Go(number, step));
                let waits = step.waits() && client.place.is_some();
                if self.bounds.ticks > 0 && state.used.elections > 0 && waits {
                    actions.push(Action::GoOld(number, step));
                }
            }
            Phase::Sent(_) | Phase::Settling(..) => {
                actions.push(Action::Deliver(number));
                if state.used.faults < self.bounds.faults {
                    actions.push(Action::Lose(number));
                    actions.push(Action::Delay(number));
                    actions.push(Action::Double(number));
                    actions.push(Action::Echo(number));
                }
            }
            Phase::Keeping(_) => {
                actions.push(Action::Renew(number));
                let session = client.grip.as_ref().map(|grip| grip.session);
                let is_gone = session.is_none_or(|session| !state.keys.has_session(session));
                if is_gone && state.used.lies < self.bounds.lies {
                    actions.push(Action::Lie(number));
                }
                if state.used.elections > 0 {
                    actions.push(Action::Old(number));
                }
            }
            Phase::Answered(_) => actions.push(Action::Verify(number)),
        }
    }

    fn session_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let is_timed = self.bounds.ticks > 0;
        for session in state.keys.sessions() {
            let is_over = state.expiry.get(&session).is_some_and(|expiry| *expiry <= state.now);
            if (is_timed && is_over) || (!is_timed && state.used.ends < self.bounds.ends) {
                actions.push(Action::End(session));
            }
        }
        if state.used.reopens < self.bounds.reopens {
            actions.extend(state.closed.iter().copied().map(Action::Reopen));
        }
    }
}

impl Model for Swap {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.bounds)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for number in 0..state.clients.len() {
            self.client_actions(state, number, actions);
        }
        actions.extend((0..state.strays.len()).map(Action::Stray));
        self.session_actions(state, actions);
        if state.now < self.bounds.ticks {
            actions.push(Action::Tick);
        }
        if state.used.elections < self.bounds.elections {
            actions.push(Action::Elect);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        step::act(*self, last, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::<Self>::always(TRUE_FACTS, |_, state| !state.truth.offences.contains(&Offence::Untrue)),
            Property::<Self>::always(ONE_HOLDER, |_, state| !state.truth.offences.contains(&Offence::Two)),
            Property::<Self>::always(NO_GHOST, |_, state| state.truth.has_no_ghost(&state.keys)),
            Property::<Self>::always(STOP_BEFORE_FREE, |model, state| {
                model.bounds.ticks == 0 || state.stops_before_free()
            }),
            Property::<Self>::always(FIRST_COME, |_, state| !state.truth.offences.contains(&Offence::Overtook)),
            Property::<Self>::always(ONE_ORDER, |_, state| state.has_one_order()),
            Property::<Self>::always(TOKEN_ORDER, |_, state| !state.truth.offences.contains(&Offence::Token)),
        ];
        if self.witnesses {
            properties.extend(self.bounds.witnesses.iter().map(|witness| witness.property()));
        }
        properties
    }
}

impl Protocol for Swap {
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
        run::survey(self, &run::Way::Deep(State::clone), threads)
    }
}
