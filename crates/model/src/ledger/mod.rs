//! Appending to a ledger beside foreign writers that know its lock but not our mutex.
//!
//! **What happens.** Two of ours at a time append events, plain ones and claims of one node; foreign writers of three
//! kinds append one each. Every step is one effect on disk. Between any two of them one of ours may be killed (the
//! kernel gives its mutex back, its lock stays), a foreign writer may die or stand still for as long as it likes, and
//! time may pass, so that its lock becomes stale. Then one of ours takes it over: notes that somebody may come back,
//! exchanges the lock with a directory that isn't empty, looks at what it displaced, puts that back if it isn't what it
//! judged, deletes temporary files, publishes a filler at the number that the paused writer has counted, and its own
//! event after it, or a second filler if it is refused. Whoever finds a dead take-over goes on with it. The paused
//! writer may go on at any later time, rename over the filler, and try to remove a lock that isn't its own any more.
//! Its event may be a claim, which lokt's cached claims don't know of. The hint may say that the head is where it was
//! although a foreign writer has appended since, because time stamps are coarse; and the last event may be taken away,
//! as by a `git checkout`. What a lock proves is decided by the product's
//! [`judge`](lokt_core::ledger::writer_lock::judge); the order of the steps is the shell's, written down again in
//! `step.rs`.
//!
//! **What is promised.** [`NO_OVERWRITE`], [`NO_GAP`], [`RIGHT_DECISION`], [`SOUND_CHAIN`], [`ONE_INSIDE`],
//! [`LOCK_KEPT`], [`LIVE_RESPECTED`], [`NO_UNSEEN_LOSS`], [`NEXT_WORKS`]. They are judged by a truth beside lokt's
//! notes (`truth.rs`). [`Flaw`] puts mistakes back, each of which must break one of them.
//!
//! **How far.** [`Bounds`] limit how many appends there are; within them every order is looked at.
//!
//! # Limitations
//!
//! What lokt can't promise is in the model as a [`Limit`], one at a time. Beyond each of them an acknowledged event of
//! ours can be replaced by a foreign writer; that is shown, and that it is noticed ([`NO_UNSEEN_LOSS`] holds even
//! there):
//!
//! - A foreign writer that was stopped before it counted, and whose lock was taken over, counts without a lock when it
//!   goes on. If it then stands still once more before its rename, it replaces what was published in between.
//! - A foreign writer whose lock was taken over removes another foreign one's lock when it goes on. We are inside then
//!   beside that one.
//! - A lock that somebody deletes while its owner goes on: by hand, or because it is old, as the documented protocol
//!   says. Of ours only files can be deleted so, and after a take-over they are directories.
//!
//! Besides:
//!
//! - An event that lands in a filler's place after a claim was decided comes too late: ours has the later number and
//!   holds by the rule of the fold. The decision is right for what was read inside the lock. The foreign program may
//!   think that it has the node, too.
//! - The note that somebody may come back is never lost. Who deletes it has locks that are files again
//!   ([`Flaw::NeverWary`]).
//! - The ledger gets shorter only while nobody writes. No power cuts: fault tests have those. No gaps to begin with: a
//!   shell writer that counts files would hit an event. Claims don't end; a fenced append or compare-and-swap is
//!   decided as a claim is.
//! - Reading all events is one step. Only fillers change, each at most once, so what is read is what was there before
//!   or after.
//! - Nothing about how long anybody waits; [`NEXT_WORKS`] only says that nothing is stuck for good.

mod action;
mod bounds;
mod disk;
mod flaw;
mod foreign;
mod judge;
mod next;
mod state;
mod step;
mod truth;
mod witness;

use std::fmt::Display;

use stateright::{Model, Property};

use crate::protocol::Protocol;
use crate::run::{self, Survey};
pub use action::Action;
pub use bounds::{Bounds, Claims, Limit};
pub use disk::{Disk, Event, Fold, Form, Hint, Inode, Lock, Owner};
pub use flaw::Flaw;
pub use foreign::{Foreign, Stage, Tool};
pub use state::{Draft, Outcome, Phase, State, Swap, Writer};
pub use truth::{Offence, Truth};

/// No acknowledged event is lost or changed, and none of ours ever replaces one.
pub const NO_OVERWRITE: &str = "no-overwrite";
/// There is an event under every number up to the highest.
pub const NO_GAP: &str = "no-gap";
/// Whether a claim is granted or refused is right for all that comes before it.
pub const RIGHT_DECISION: &str = "right-decision";
/// The digest that an event of ours carries is the one of all that comes before it, whatever has landed in a filler's
/// place since.
pub const SOUND_CHAIN: &str = "sound-chain";
/// At most one of ours is inside.
pub const ONE_INSIDE: &str = "one-inside";
/// No foreign writer frees the lock of one of ours.
pub const LOCK_KEPT: &str = "lock-kept";
/// Beside a foreign writer whose lock wasn't stale nothing is published, and its temporary file stays.
pub const LIVE_RESPECTED: &str = "live-respected";
/// An acknowledged event that is lost is missed: its hard link is there.
pub const NO_UNSEEN_LOSS: &str = "no-unseen-loss";
/// Whenever none of ours is under way, the next append works once every foreign lock has become old.
pub const NEXT_WORKS: &str = "next-works";

/// At most that many of ours are under way.
const AT_A_TIME: usize = 2;

/// The model: how far, and with which mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appends {
    /// How far.
    pub bounds: Bounds,
    /// With which mistake.
    pub flaw: Flaw,
    /// Is it noted what was reached, too?
    pub witnesses: bool,
}

impl Appends {
    /// The protocol as it is.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, flaw: Flaw::None, witnesses: false }
    }

    /// With a look at what is reached.
    #[must_use]
    pub fn with_witnesses(self) -> Self {
        Self { witnesses: true, ..self }
    }

    fn own_actions(self, state: &State, actions: &mut Vec<Action>) {
        if state.ops < self.bounds.ours && state.writers.len() < AT_A_TIME {
            actions.push(Action::Start(Draft::Plain));
            if self.bounds.claims != Claims::None {
                actions.push(Action::Start(Draft::Claim));
            }
        }
        for (place, writer) in state.writers.iter().enumerate() {
            if step::can_step(self, state, place) {
                actions.push(Action::Step(writer.op, writer.phase.as_str()));
            }
            if step::can_lag(state, place) {
                actions.push(Action::Lag(writer.op));
            }
            actions.push(Action::Kill(writer.op));
        }
    }

    fn foreign_actions(self, state: &State, actions: &mut Vec<Action>) {
        for (place, foreign) in state.foreign.iter().enumerate() {
            match foreign.stage {
                Stage::Away if state.disk.lock.is_some() => {}
                Stage::Away => {
                    actions.push(Action::Come { place, claims: false });
                    if self.bounds.claims != Claims::None {
                        actions.push(Action::Come { place, claims: true });
                    }
                }
                Stage::Left => {}
                _ => actions.extend([Action::Foreign(place, foreign.stage.next()), Action::End(place)]),
            }
        }
    }

    fn outer_actions(self, state: &State, actions: &mut Vec<Action>) {
        if let Some(Lock { owner: Owner::Foreign(owner), is_old, .. }) = &state.disk.lock {
            let may_stop = state.foreign[usize::from(*owner)].stage != Stage::Locked;
            if !is_old && (may_stop || self.bounds.limit == Limit::StoppedBeforeCount) {
                actions.push(Action::Tick);
            }
        }
        let is_removable = state.disk.lock.as_ref().is_some_and(|lock| lock.form != Form::Full);
        if self.bounds.limit == Limit::Deleted && is_removable {
            actions.push(Action::Delete);
        }
        let is_quiet = state.writers.is_empty() && !state.foreign.iter().any(Foreign::is_inside);
        if state.shortened < self.bounds.shortened && is_quiet && state.disk.head() > 0 {
            actions.push(Action::Shorten);
        }
    }
}

impl Model for Appends {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(
            self.bounds.foreign.iter().copied().map(Foreign::new).collect(),
            self.bounds.claims == Claims::Taken,
        )]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.own_actions(state, actions);
        self.foreign_actions(state, actions);
        self.outer_actions(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let place = |op| last.writers.iter().position(|writer| writer.op == op);
        match action {
            Action::Start(draft) => step::start(*self, &mut state, draft),
            Action::Step(op, _) => step::step(*self, &mut state, place(op)?, false),
            Action::Lag(op) => step::step(*self, &mut state, place(op)?, true),
            Action::Kill(op) => step::end(&mut state, place(op)?),
            Action::Come { place, claims } => foreign::come(&mut state, place, claims),
            Action::Foreign(place, _) => foreign::step(*self, &mut state, place),
            Action::End(place) => foreign::end(&mut state, place),
            Action::Tick => state.disk.lock.as_mut()?.is_old = true,
            Action::Shorten => state.shorten(),
            Action::Delete => state.delete_lock(),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::<Self>::always(NO_OVERWRITE, |_, state| state.has_no_overwrite()),
            Property::<Self>::always(NO_GAP, |_, state| state.has_no_gap()),
            Property::<Self>::always(RIGHT_DECISION, |_, state| !state.truth.offences.contains(&Offence::Misjudged)),
            Property::<Self>::always(SOUND_CHAIN, |_, state| state.has_sound_chain()),
            Property::<Self>::always(ONE_INSIDE, |_, state| state.has_one_inside()),
            Property::<Self>::always(LOCK_KEPT, |_, state| !state.truth.offences.contains(&Offence::Freed)),
            Property::<Self>::always(LIVE_RESPECTED, |_, state| !state.truth.offences.contains(&Offence::Intruded)),
            Property::<Self>::always(NO_UNSEEN_LOSS, |_, state| state.has_no_unseen_loss()),
            Property::<Self>::always(NEXT_WORKS, |model, state| {
                !state.writers.is_empty() || next::works(*model, state)
            }),
        ];
        if self.witnesses {
            properties.extend(witness::all());
        }
        properties
    }
}

impl Protocol for Appends {
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
}
