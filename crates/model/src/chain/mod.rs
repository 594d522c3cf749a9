//! Leases of a worktree: the chain that decides who has one.
//!
//! **What happens.** Clients acquire a lease (free or over), renew it, release it, publish a file under its token, and prune the chain.
//! Every step is one effect on disk, or one look at it. Between any two of them a client may be killed or stand still for as long as it
//! likes, time may pass, and somebody may delete the whole chain. There is no mutex: every order of steps happens. What may be done is
//! decided by the product's [`decide`](lokt_core::decide::decide) with its policy for leases; the order of the steps is the shell's,
//! written down again in `step.rs`.
//!
//! **What is promised.** [`ONE_HOLDER`], [`TOKEN_ORDER`], [`GRANT_KEPT`], [`END_KEPT`], [`FENCED`], [`UNDISTURBED`], [`NEXT_WORKS`]. They are judged by
//! a truth beside the files (`truth.rs`). [`Flaw`] puts mistakes back, each of which must break one of them; [`Flaw::HARMLESS`] are rules
//! that no promise depends on.
//!
//! **How far.** [`Bounds`] limit how many commands there are; within them every order is looked at.
//!
//! # Limitations
//!
//! - Who holds a lease when the chain is deleted isn't asked before the next one gets it. Tokens and what is published are promised even
//!   then; that there is one holder is promised for leases that were given since.
//! - The chain is deleted at once, or from its last slot downwards ([`Bounds::CUT`]).
//! - With [`Clocks::Wrong`] a lease that lives is taken for one that is over: two believe that they hold it, which is shown, and all that
//!   is fenced still is.
//! - There a grant is noted exclusively, outside of the chain. One file that is replaced ([`Flaw::NoteReplaced`]) leaves moments, while a
//!   deletion is under way, in which a token can be given twice.
//! - Listing and reading the slots is one step. No power cuts: fault tests have those.
//! - The view and tools that know only that aren't here: no decision is made by the view.

mod action;
mod bounds;
mod commit;
mod disk;
mod flaw;
mod look;
mod next;
mod representative;
mod state;
mod step;
mod truth;

use std::fmt::Display;

use stateright::{Model, Property};

use crate::protocol::Protocol;
use crate::run::{self, Survey};
pub use action::Action;
pub use bounds::{Beginning, Bounds, Clocks};
pub use disk::{Base, Disk, File, Kind, Record, Renewal, Slot, Staged};
pub use flaw::Flaw;
pub use state::{Aim, Command, Known, Op, Phase, Session, State};
pub use truth::{Offence, Truth};

/// No two sessions believe at the same time, each by its own clock, that they hold the lease.
pub const ONE_HOLDER: &str = "one-holder";
/// Every token that is given is greater than all that were given before, also after the chain was deleted.
pub const TOKEN_ORDER: &str = "token-order";
/// Whoever was told last that it holds is what the chain says, and no overtaken holder is told that it renewed or released.
pub const GRANT_KEPT: &str = "grant-kept";
/// The chain never loses its last slot.
pub const END_KEPT: &str = "end-kept";
/// Nothing gets into its place under a token after a greater one was given.
pub const FENCED: &str = "fenced";
/// Nobody but a new holder makes a publication of the holder fail.
pub const UNDISTURBED: &str = "undisturbed";
/// Whenever nobody is under way, somebody new gets the lease after enough time.
pub const NEXT_WORKS: &str = "next-works";

/// How many ticks a lease lasts.
const LEASE: u8 = 2;
/// How many more ticks others wait.
const GRACE: u8 = 1;

/// The model: how far, and with which mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leases {
    /// How far.
    pub bounds: Bounds,
    /// With which mistake.
    pub flaw: Flaw,
    /// Are clients that could change places one and the same? Then there are fewer states, but a way through them can't be followed.
    pub symmetric: bool,
}

impl Leases {
    /// The protocol as it is.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, flaw: Flaw::None, symmetric: false }
    }

    /// Of which session a client is.
    fn session(self, client: u8) -> usize {
        usize::from(if self.bounds.shared { client.saturating_sub(1) } else { client })
    }

    fn may_start(self, state: &State, client: u8, op: Op) -> bool {
        let session = state.sessions[self.session(client)];
        match op {
            Op::Acquire => !state.believes(&session) || self.bounds.clocks == Clocks::Wrong,
            Op::Renew | Op::Release | Op::Publish => session.token != 0,
            Op::Prune => state.disk.slots.len() > 1,
        }
    }
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State::new(self.bounds.clients, self.bounds.clients - u8::from(self.bounds.shared));
        match self.bounds.beginning {
            Beginning::Unborn => {}
            Beginning::Born => state.bear(self.bounds.block),
            Beginning::Held => state.hold(self.bounds.block),
            Beginning::Stopped => state.stop(self.bounds.block),
            Beginning::Late => state.be_late(self.bounds.block),
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (client, command) in (0..).zip(&state.clients) {
            match command {
                Some(command) => {
                    actions.push(Action::Step(client, command.phase.as_str()));
                    if command.may_leave_something(&state.disk) {
                        actions.push(Action::Kill(client));
                    }
                }
                // Whoever has done nothing yet is like any other such: they come in order.
                None if state.ops < self.bounds.commands && client <= state.come => {
                    let ops = self.bounds.ops.iter().copied().filter(|op| self.may_start(state, client, *op));
                    actions.extend(ops.map(|op| Action::Start(client, op)));
                }
                None => {}
            }
        }
        if state.now < self.bounds.ticks {
            actions.push(Action::Tick);
        }
        if state.removals < self.bounds.removals && state.disk.dir {
            actions.push(Action::Remove);
        }
        if state.cuts < self.bounds.cuts && !state.disk.slots.is_empty() {
            actions.push(Action::Cut);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Start(client, op) => step::start(*self, &mut state, client, op),
            Action::Step(client, _) => step::step(*self, &mut state, client)?,
            Action::Kill(client) => state.clients[usize::from(client)] = None,
            Action::Tick => state.now += 1,
            Action::Remove => state.remove(),
            Action::Cut => state.cut(),
        }
        state.forget(*self);
        Some(if self.symmetric { state.sorted(*self) } else { state })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(ONE_HOLDER, |model, state| {
                model.bounds.clocks == Clocks::Wrong || state.has_one_holder()
            }),
            Property::<Self>::always(TOKEN_ORDER, |_, state| !state.truth.offences.contains(&Offence::OldToken)),
            Property::<Self>::always(GRANT_KEPT, |model, state| {
                !state.truth.offences.contains(&Offence::Overtaken)
                    && (model.bounds.clocks == Clocks::Wrong || state.keeps_grant(*model))
            }),
            Property::<Self>::always(END_KEPT, |_, state| !state.truth.offences.contains(&Offence::EndLost)),
            Property::<Self>::always(FENCED, |_, state| !state.truth.offences.contains(&Offence::StaleFile)),
            Property::<Self>::always(UNDISTURBED, |model, state| {
                model.bounds.clocks == Clocks::Wrong || !state.truth.offences.contains(&Offence::Disturbed)
            }),
            Property::<Self>::always(NEXT_WORKS, |model, state| !state.is_quiet() || next::works(*model, state)),
        ]
    }
}

impl Protocol for Leases {
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
        run::survey(Self { symmetric: true, ..self }, &run::Way::Broad, threads)
    }
}
