//! Files as a store of named locks.

use std::any::Any;
use std::path::PathBuf;

use lokt_core::checkup::Check;
use lokt_core::hold::Hold;
use lokt_core::name::LockName;
use lokt_core::pulse::ProcessRef;

use super::freezes::FREEZES_DIR;
use super::line::LINE_DIR;
use super::presence::FilePresence;
use super::slot::Found;
use super::{CONTRACT, FileStore, LOCKS_DIR, checkup, freeze_path, record_path};
use crate::store::{
    Answers, AuditLog, Call, Contract, Depth, Done, Judge, Presence, QueueDepth, Queued, Request, Ruling, Scan, See,
    Stayed, Store, Subscription, Told, View, WakeOn, WatchedPlace,
};
use lokt_sys::error::{At as _, Error};
use lokt_sys::parallel;
use lokt_sys::wakeup::Wakeup;
use lokt_sys::warnings::Warning;

/// Directories in which something changes when a lock, a freeze or a queue does. The first waiter
/// of a queue is seen at once, the others at the next check.
const WATCHED_DIRS: [&str; 3] = [LOCKS_DIR, FREEZES_DIR, LINE_DIR];

impl Store for FileStore {
    fn contract(&self) -> &Contract {
        &CONTRACT
    }

    fn location(&self, name: Option<&LockName>) -> PathBuf {
        name.map_or_else(|| self.root.clone(), |name| self.root.join(record_path(name)))
    }

    fn view(
        &self,
        name: &LockName,
        depth: Depth,
        mine: Option<&dyn Presence>,
        _call: &Call<'_>,
    ) -> Result<View, Error> {
        let mine = mine.and_then(|mine| (mine as &dyn Any).downcast_ref::<FilePresence>());
        let ticket = mine.and_then(|mine| mine.ticket(name));
        Ok(self.records().look_at(name, depth, ticket, &self.machine.now())?.view)
    }

    fn names(&self, of: Scan, _call: &Call<'_>) -> Result<Vec<LockName>, Error> {
        match of {
            Scan::Held => self.names_in(LOCKS_DIR),
            Scan::Frozen => self.names_in(FREEZES_DIR),
            Scan::Awaited => {
                let lines = self.disk.list(LINE_DIR).at("list", &self.root, LINE_DIR)?;
                let mut names: Vec<LockName> = lines.iter().filter_map(|line| LockName::new(line).ok()).collect();
                names.sort_unstable();
                Ok(names)
            }
        }
    }

    fn scan(&self, of: Scan, depth: Depth, call: &Call<'_>, see: &See<'_>) -> Result<(), Error> {
        let now = self.machine.now();
        // Most names have no queue: one listing instead of one for each.
        let lines = match (of, depth.queue) {
            (Scan::Held, QueueDepth::IfReadable) => Some(self.disk.list(LINE_DIR).unwrap_or_default()),
            _ => None,
        };
        let has_line = |name: &LockName| {
            lines.as_ref().is_none_or(|lines| lines.binary_search_by(|line| line.as_str().cmp(name.as_str())).is_ok())
        };
        let look = |name: &LockName| match of {
            Scan::Frozen => {
                let Found { slot, ends, .. } =
                    self.records().find(&freeze_path(name), name.as_str(), &now).without_liveness();
                Some(View { at: now, slot, frozen: None, queue: Vec::new(), ahead: 0, waiting: 0, ends })
            }
            Scan::Held | Scan::Awaited => {
                let queue = if has_line(name) { depth.queue } else { QueueDepth::Nothing };
                // An entry that can't be read as a queue doesn't affect other names.
                self.records().look_at(name, Depth { queue, ..depth }, None, &now).ok().map(|seen| seen.view)
            }
        };
        let names: Vec<(usize, LockName)> = self.names(of, call)?.into_iter().enumerate().collect();
        parallel::map(&names, |(number, name)| {
            if let Some(view) = look(name) {
                see(*number, name, view);
            }
        });
        Ok(())
    }

    fn transact(&self, request: &mut Request<'_>, judge: &mut Judge<'_>, call: &Call<'_>) -> Result<Answers, Error> {
        self.transactions().carry_out(request, judge, call)
    }

    fn leave(&self, request: &mut Request<'_>, told: Option<&mut Told<'_>>, _call: &Call<'_>) {
        match told {
            Some(told) => self.transactions().leave_lines(request, told),
            None => self.transactions().give_up(request),
        }
    }

    fn under(
        &self,
        request: &Request<'_>,
        judge: &mut Judge<'_>,
        act: &mut dyn FnMut() -> Result<(), Error>,
        call: &Call<'_>,
    ) -> Result<Done, Error> {
        let ask = &request.asks[0];
        let inside = self.enter(call)?;
        let seen = self.records().look_at(ask.name, ask.depth(), None, &self.machine.now())?;
        let view = seen.view.readable(ask.name, ask.target)?;
        let Ruling::Stay { why, events } = judge(0, &view) else { unreachable!("a check changes nothing") };
        if why.is_none() {
            act()?;
        }
        let trail = self.account(&inside, &events);
        drop(inside);
        let warnings = self.sync_audit(trail);
        let View { slot, waiting, .. } = view;
        Ok(Done::Stayed(Box::new(Stayed { why, holder: slot.into_holder(), waiting, warnings })))
    }

    fn arm(&self, name: &LockName, on: WakeOn, wakeup: &Wakeup) -> Option<Subscription> {
        self.subscribe(name, on, wakeup)
    }

    fn needs_recheck(&self, name: &LockName, queued: &Queued, _call: &Call<'_>) -> bool {
        self.stirs(name, queued)
    }

    fn reopen(&self) -> Option<Result<Vec<Warning>, Error>> {
        if !self.lost_root() {
            return None;
        }
        let remade = self.remake_root().map(|said| said.into_iter().collect());
        Some(remade.map_err(|error| Error::io("open", &self.root, error)))
    }

    fn is_new(&self) -> bool {
        self.is_new
    }

    fn watch(&self, mut before: Vec<WatchedPlace>) -> Vec<WatchedPlace> {
        let watched = |dir: &&str| {
            // A directory that was replaced is another one; the kernel keeps reporting on the old
            // one.
            let stamp = self.disk.stamp(dir).ok().flatten()?;
            let id = (stamp.dev, stamp.ino);
            let Some(at) = before.iter().position(|place| place.id == id) else {
                // inotify is limited per user; without it the store is checked once in a while.
                return Some(WatchedPlace { id, changes: self.disk.changes(dir).ok()? });
            };
            let place = before.swap_remove(at);
            place.changes.drain();
            Some(place)
        };
        WATCHED_DIRS.iter().filter_map(watched).collect()
    }

    fn command(&self, hold: &Hold) -> Option<ProcessRef> {
        self.records().command_of(hold)
    }

    fn audit(&self) -> &dyn AuditLog {
        self
    }

    fn checkup(&self, repair: bool, _call: &Call<'_>, see: &mut dyn FnMut(Check)) -> Result<(), Error> {
        checkup::examine(self, repair, see);
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
