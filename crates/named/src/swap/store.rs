//! The methods of a store.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use lokt_core::checkup::Check;
use lokt_core::hold::Hold;
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;
use lokt_core::swap::view as keys;

use super::session::Session;
use super::{CONTRACT, Engine, Shared, SwapStore};
use crate::store::{
    Answers, AuditLog, Call, Contract, Depth, Done, Judge, Presence, Queued, Request, Ruling, Scan, See, Stayed, Store,
    Subscription, Target, Told, View, WakeOn,
};
use lokt_sys::error::Error;
use lokt_sys::wakeup::Wakeup;

impl<E: Engine> Shared<E> {
    /// Returns a view of one name.
    pub(super) fn view(
        &self,
        name: &LockName,
        _depth: Depth,
        mine: Option<&dyn Presence>,
        call: &Call<'_>,
    ) -> Result<View, Error> {
        let mine = mine.and_then(|mine| (mine as &dyn Any).downcast_ref::<Session<E>>());
        let sight = self.see(&keys::spans(&self.space, [name]), call)?;
        let sighted = self.read([name], &sight)?;
        let seen = sighted.names.first().expect("one name was asked for");
        Ok(self.shown(seen, Target::Lock, mine.map(|session| session.id), self.now()))
    }
}

impl<E: Engine> Store for SwapStore<E> {
    fn contract(&self) -> &Contract {
        &CONTRACT
    }

    fn location(&self, name: Option<&LockName>) -> PathBuf {
        let location = &self.shared.location;
        name.map_or_else(|| location.clone(), |name| location.join(name.as_str()))
    }

    fn view(&self, name: &LockName, depth: Depth, mine: Option<&dyn Presence>, call: &Call<'_>) -> Result<View, Error> {
        self.shared.view(name, depth, mine, &self.shared.limited(call))
    }

    fn names(&self, of: Scan, call: &Call<'_>) -> Result<Vec<LockName>, Error> {
        let sighted = self.shared.pages(of, &self.shared.limited(call))?;
        Ok(sighted.names.into_iter().map(|name| name.name).collect())
    }

    fn scan(&self, of: Scan, _depth: Depth, call: &Call<'_>, see: &See<'_>) -> Result<(), Error> {
        let shared = &self.shared;
        let sighted = shared.pages(of, &shared.limited(call))?;
        let (now, target) = (shared.now(), if of == Scan::Frozen { Target::Freeze } else { Target::Lock });
        for (number, name) in sighted.names.iter().enumerate() {
            see(number, &name.name, shared.shown(name, target, None, now));
        }
        Ok(())
    }

    fn transact(&self, request: &mut Request<'_>, judge: &mut Judge<'_>, call: &Call<'_>) -> Result<Answers, Error> {
        self.shared.carry_out(request, judge, call)
    }

    fn leave(&self, request: &mut Request<'_>, told: Option<&mut Told<'_>>, call: &Call<'_>) {
        let shared = &self.shared;
        shared.forget_wait(request);
        // Its tickets end with its session, and a hold that may have been stored is no longer
        // alive.
        request.presence = None;
        if let (Some(told), Some(ask)) = (told, request.asks.first()) {
            shared.note_denial(ask.name, &told(&shared.now()), &shared.limited(call));
        }
    }

    fn under(
        &self,
        request: &Request<'_>,
        judge: &mut Judge<'_>,
        act: &mut dyn FnMut() -> Result<(), Error>,
        call: &Call<'_>,
    ) -> Result<Done, Error> {
        let (shared, ask) = (&self.shared, &request.asks[0]);
        // Each request has its own time limit: the action between the checks may take long.
        let mut check = || -> Result<_, Error> {
            let view = shared.view(ask.name, ask.depth(), None, &shared.limited(call))?;
            let view = view.readable(ask.name, ask.target)?;
            let Ruling::Stay { why, events } = judge(0, &view) else { unreachable!("a check changes nothing") };
            Ok((view, why, events))
        };
        let (mut view, mut why, mut events) = check()?;
        if why.is_none() {
            act()?;
            // The action may have come too late: the caller is notified.
            let unsure = "it was done; whether the token was still current can't be said";
            (view, why, events) = check().map_err(|error| error.hint(unsure))?;
        }
        let warnings = shared.tell(request.op, &events, &shared.limited(call));
        let View { slot, waiting, .. } = view;
        Ok(Done::Stayed(Box::new(Stayed { why, holder: slot.into_holder(), waiting, warnings })))
    }

    fn arm(&self, name: &LockName, on: WakeOn, wakeup: &Wakeup) -> Option<Subscription> {
        self.shared.subscribe(name, on, wakeup)
    }

    fn needs_recheck(&self, name: &LockName, queued: &Queued, call: &Call<'_>) -> bool {
        self.shared.stirs(name, queued, &self.shared.limited(call))
    }

    fn command(&self, _hold: &Hold) -> Option<ProcessRef> {
        None
    }

    fn audit(&self) -> &dyn AuditLog {
        self
    }

    fn checkup(&self, repair: bool, call: &Call<'_>, see: &mut dyn FnMut(Check)) -> Result<(), Error> {
        see(Check::new("space", self.findings(repair, call)?.into_iter().map(Into::into)));
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<E: Engine> SwapStore<E> {
    pub(super) fn shared(&self) -> &Arc<Shared<E>> {
        &self.shared
    }
}
