//! Named locks: the shell's protocol around the real [`decide`](lokt_core::decide::decide), one effect on disk at a time.
//!
//! **What happens.** Three clients, two of them of one owner, run `lock`, `guard` (both with and without a TTL), `unlock`, `--force`
//! and `--break-stale`; guards renew and release. Every step is one effect on disk, and after every one of them a client may be
//! killed (the kernel gives its mutex back), a guard may be killed without its command, a lease may run out, somebody may delete the
//! record by hand, and the power may be cut: then all processes are gone, the boot is another one, what was not synced may be lost,
//! and a record may be left empty. `decide`, the token counter, the arithmetic of leases and the weighing of evidence are the
//! product's; the order of the steps is that of `docs/protocol.md`, written down again in `step.rs`.
//!
//! **What is promised.** [`ONE_HOLDER`], [`TOKEN_ORDER`], [`NO_LOST_THIEF`], and two that follow from what tokens are for:
//! [`OWN_TOKEN`] and [`NO_RETURN`]. They are judged by a truth that is kept beside the files (`truth.rs`) and never by what the
//! files say. [`Flaw`] puts known mistakes back, each of which must break one of them.
//!
//! **How far.** [`Bounds`] limit how often things happen; within them every order is looked at. Kills are limited only by what there
//! is to kill.
//!
//! # Limitations
//!
//! - No line, no freeze, no nested guard, no `--bind`, no records of other programs, no program that ignores the mutex.
//! - `unlock --owner`, `--lock-id`, `--token` and pruning are left out: they remove records by the same steps as the rest.
//! - Wall clock and boot clocks go at the same pace and are never set; the machine doesn't sleep. A process may stand still for as long
//!   as it likes, inside the mutex too.
//! - One mount per boot; the ceiling is never lost; a power cut keeps the order of directory changes.
//! - It says nothing about waiting: a refused client may try again, or not.

mod action;
mod bounds;
mod counter;
mod disk;
mod flaw;
mod judge;
mod record;
mod representative;
mod state;
mod step;
mod truth;
mod witness;

use std::fmt::Display;

use stateright::{Model, Property};

use crate::protocol::Protocol;
use crate::run::{self, Survey};
pub use action::Action;
pub use bounds::Bounds;
pub use disk::{Disk, Entry, Version};
pub use flaw::Flaw;
pub use state::{Breaks, Client, Op, Phase, Plan, State};
pub use truth::{Claim, Claimant, Truth};

/// At most one live hold, and in it at most one live process part.
pub const ONE_HOLDER: &str = "one-holder";
/// Every new life of a hold gets a token greater than every one that was ever published, even if a power cut undid that.
pub const TOKEN_ORDER: &str = "token-order";
/// Nobody removes or replaces another hold, or another process's part, than the one that was judged.
pub const NO_LOST_THIEF: &str = "no-lost-thief";
/// No two running commands were told the same token.
pub const OWN_TOKEN: &str = "own-token";
/// No hold goes on under a token that was overtaken.
pub const NO_RETURN: &str = "no-return";

/// The model: how far, and with which mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// How far.
    pub bounds: Bounds,
    /// With which mistake.
    pub flaw: Flaw,
    /// Is it noted what was reached, too?
    pub witnesses: bool,
}

impl Named {
    /// The protocol as it is.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, flaw: Flaw::None, witnesses: false }
    }

    /// With a look at what is reached.
    #[must_use]
    pub fn with_witnesses(self) -> Self {
        Self { witnesses: true, ..self }
    }

    fn client_actions(self, state: &State, client: Client, actions: &mut Vec<Action>) {
        let may_ask = state.ops < self.bounds.ops;
        match state.phase(client) {
            Phase::Idle => {
                for op in Op::COMMANDS.into_iter().filter(|_| may_ask) {
                    let queues = self.flaw == Flaw::TicketIsToken && op.takes();
                    actions.push(if queues { Action::Arrive(client, op) } else { Action::Start(client, op) });
                }
                return;
            }
            Phase::Ticketed(op, _) => actions.push(Action::Start(client, *op)),
            Phase::Prepared(_) if state.is_mutex_free() => actions.push(Action::Enter(client)),
            Phase::Prepared(_) => {}
            Phase::Mutex(..) | Phase::Loose(..) => actions.push(Action::Step(client)),
            Phase::Syncing { .. } => actions.push(Action::Sync(client)),
            Phase::Inside(grip) => {
                actions.push(Action::Start(client, Op::Release));
                actions.push(Action::Orphan(client));
                if grip.leased && may_ask {
                    actions.push(Action::Start(client, Op::Renew));
                }
            }
            Phase::Orphaned(_) => {}
        }
        actions.push(Action::Kill(client));
    }

    fn power_cuts(state: &State, actions: &mut Vec<Action>) {
        for (kept, version) in state.disk.versions().iter().enumerate() {
            for torn in [false, true] {
                for next_lost in [false, true] {
                    let may_tear = !version.whole && version.entry.record().is_some();
                    if (may_tear || !torn) && (state.disk.next.is_some() || !next_lost) {
                        actions.push(Action::PowerCut { kept, torn, next_lost });
                    }
                }
            }
        }
    }
}

impl Model for Named {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // When nobody may ask for anything any more, only what is under way can still break a promise.
        let may_ask = state.ops < self.bounds.ops;
        if !may_ask && state.clients.iter().all(|phase| *phase == Phase::Idle) {
            return;
        }
        for client in Client::ALL {
            self.client_actions(state, client, actions);
        }
        if state.now < self.bounds.ticks && state.has_running_lease() {
            actions.push(Action::Tick);
        }
        if state.deletes < self.bounds.deletes && *state.disk.entry() != Entry::Nothing {
            actions.push(Action::Delete);
        }
        if state.boot < self.bounds.cuts && may_ask {
            Self::power_cuts(state, actions);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = step::act(*self, last, action)?;
        if state.boot == self.bounds.cuts {
            state.disk.forget();
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::<Self>::always(ONE_HOLDER, |_, state| state.truth.has_one_holder(state.now)),
            Property::<Self>::always(TOKEN_ORDER, |_, state| !state.truth.offences.token_order),
            Property::<Self>::always(NO_LOST_THIEF, |_, state| !state.truth.offences.lost_thief),
            Property::<Self>::always(OWN_TOKEN, |_, state| state.has_own_tokens()),
            Property::<Self>::always(NO_RETURN, |_, state| !state.truth.offences.returned),
        ];
        if self.witnesses {
            properties.extend(witness::all());
        }
        properties
    }
}

impl Protocol for Named {
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
        run::survey(self, &run::Way::Deep(representative::representative), threads)
    }
}
