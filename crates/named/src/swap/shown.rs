//! Converts a look at a name into the view that a judge gets.

use lokt_core::decide::{Freeze, Slot as Found};
use lokt_core::denial::Holder;
use lokt_core::engine::SessionId;
use lokt_core::hold::{Hold, LockId};
use lokt_core::line::Ticket;
use lokt_core::liveness::Liveness;
use lokt_core::pulse::{ProcessRef, Pulse};
use lokt_core::swap::view::{NameView, Seen, Target as Kept, Ticket as Place};
use lokt_core::time::Moment;

use super::{Engine, Shared};
use crate::store::{Frozen, Slot, Target, View, Waiter, WakeOn};

/// Returns the kind of record that a look is about.
pub(super) fn kept(target: Target) -> Kept {
    match target {
        Target::Lock => Kept::Lock,
        Target::Freeze => Kept::Freeze,
    }
}

impl<E: Engine> Shared<E> {
    /// Returns what is known about the process of a hold. One that isn't found may run on another
    /// machine, or be killed at this moment by its watcher: it counts as long as its session does.
    pub(super) fn liveness(&self, name: &NameView, target: Target) -> Liveness {
        let judged = name.judged(kept(target), Liveness::Unknown);
        let is_here = |hold: &Hold| {
            let is_ours = hold.boot_id.is_some() && hold.boot_id == self.me.boot_id && hold.pid_ns == self.me.pid_ns;
            is_ours && self.machine.process(hold.pid).is_some_and(|stat| stat.start == hold.pid_start)
        };
        let is_here = judged.and_then(|member| member.hold()).is_some_and(is_here);
        if is_here { Liveness::Alive } else { Liveness::Unknown }
    }

    /// Shows a name to a caller whose session is `mine`.
    pub(super) fn shown(&self, name: &NameView, target: Target, mine: Option<SessionId>, now: Moment) -> View {
        let liveness = self.liveness(name, target);
        let fresh_id = LockId::default();
        let seen = Seen { liveness, fresh_id: &fresh_id, now, session: mine };
        let facts = name.facts(kept(target), &seen);
        let slot = match facts.slot {
            Found::Free => Slot::Free,
            Found::Held(hold) => {
                let (hold, liveness, elapsed) = (hold.clone(), facts.liveness, facts.elapsed);
                Slot::Held(Box::new(Holder { hold, liveness, elapsed }))
            }
            Found::Corrupt(why) => Slot::Corrupt(why.into()),
            Found::BeingWritten => Slot::BeingWritten,
            Found::Newer(version) => Slot::Newer(version),
        };
        let frozen = facts.frozen.map(|frozen| match frozen {
            Freeze::Known(holder) => Frozen::Known(Box::new(holder.clone())),
            Freeze::Unreadable => Frozen::Unreadable("its record can't be read".into()),
        });
        let is_mine = |place: &&Place| Some(place.session) == mine;
        let waiting = name.line.len() - name.line.iter().filter(is_mine).count();
        let queue = name.line.iter().map(|place| waiter(name, place)).collect();
        View { at: now, slot, frozen, queue, ahead: facts.line.ahead, waiting, ends: WakeOn::Holder }
    }
}

fn waiter(name: &NameView, place: &Place) -> Waiter {
    let waiter = place.waiter.clone().unwrap_or_default();
    let pulse = Pulse {
        version: 1,
        name: name.name.to_string(),
        owner: waiter.owner,
        agent_id: waiter.agent_id,
        process: ProcessRef { pid: waiter.pid, start: waiter.pid_start },
        command: None,
        pid_ns: None,
        since: waiter.since,
        reason: waiter.reason,
        holds: waiter.holds,
        offered_ms: None,
    };
    Waiter { pulse, ticket: Ticket { number: place.place.0, stopped: false, offered_ms: None } }
}
