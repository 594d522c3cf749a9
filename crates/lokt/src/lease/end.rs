//! The end of a lease: given back, or broken.

use std::io;

use lokt_core::decide::Cause;
use lokt_core::hold::LockId;
use lokt_core::lease::deciding::{Answer, Ask, ask};
use lokt_core::lease::session::Session;
use lokt_core::lease::slot::{Kind, Slot};

use super::Worktree;
use super::answers::{LeaseRefusal, Released, Releasing};
use super::chain::{Links, Reading};
use super::commit::{Deed, Step};
use super::fences::followed;
use super::scene::{Asker, Scene, Standing};
use super::sight::Sight;
use super::take::TRIES;
use super::view::{Board, View};
use crate::error::{At as _, Error, ErrorKind};

impl Worktree {
    /// Gives the chain, too, as a release left it.
    pub(crate) fn end(
        &self,
        session: Option<&Session>,
        reason: Option<&str>,
    ) -> Result<(Releasing, Option<Links>), Error> {
        // Whoever has the lease is alone, mostly: only who was in somebody's way waits.
        let mut gate = None;
        let mut sight = Sight::default();
        for _ in 0..TRIES {
            let Some(scene) = self.look(session.map_or(Asker::Anybody, Asker::Session), &mut sight)? else {
                return Ok((Releasing::Denied(Box::new(LeaseRefusal::nobody())), None));
            };
            if let Some(ended) = self.end_in(&scene, session, reason)? {
                return Ok(ended);
            }
            gate = gate.or_else(|| self.gate(u64::MAX));
        }
        Err(self.too_busy())
    }

    /// `None`: everything is to be looked at again.
    fn end_in(
        &self,
        scene: &Scene,
        session: Option<&Session>,
        reason: Option<&str>,
    ) -> Result<Option<(Releasing, Option<Links>)>, Error> {
        let links = &scene.links;
        let nonce = match (session, scene.record()) {
            (Some(session), Some(record)) => session.nonce(&record.lock_id),
            _ => String::new(),
        };
        let asked = match session {
            Some(session) => Ask::Release { nonce: &nonce, session_id: &session.id },
            None => Ask::Break,
        };
        let next = self.fence(links.next())?;
        let cause = match ask(asked, scene.standing.stored(), next, &LockId::default(), links.now, &self.me()) {
            Answer::End(cause) => cause,
            Answer::Deny(denial) => return Ok(Some((Releasing::Denied(Box::new(scene.refusal(denial))), None))),
            other => unreachable!("a lease ends or doesn't, not {other:?}"),
        };
        self.empty_staging(links.next())?;
        self.empty_restores(links)?;
        let operation =
            if cause == Cause::ForceBreak || cause == Cause::CorruptBreak { "lock_break" } else { "lock_release" };
        let mut deed = Deed::new(operation, self.repo.machine.now());
        deed.reason = reason.map(str::to_owned);
        if let Some(record) = scene.record() {
            deed = deed.about(record).with("holder", record.holder_id.as_str());
        }
        let is_foreign = matches!(
            &scene.standing,
            Standing::Held { foreign: true, .. } | Standing::Unreadable { foreign: true, .. }
        );
        let foreign = if is_foreign { scene.foreigners() } else { Vec::new() };
        if is_foreign {
            deed = deed.with("foreign", true);
        }
        if let Some(damaged) = &links.damaged {
            let overtaken = self.overtake(links, damaged, deed)?;
            self.settle_view()?;
            return Ok(overtaken.then_some((Releasing::Released(Released { record: None, cause }), None)));
        }
        // Another tool's numbers count, too, also when its lock is gone.
        let theirs = foreign.iter().filter_map(|(_, foreign)| foreign.token().and_then(followed)).max().unwrap_or(0);
        if theirs >= links.next() {
            self.jump(links, theirs)?;
            return Ok(None);
        }
        // While the chain says that nobody else may touch it: later it may be another's. If the link isn't added, it comes back.
        for (board, view) in scene.views() {
            if let (View::Ours(_), false) = (view, scene.standing.is_over()) {
                self.take_down(board, &links.base.chain, |found| found == view)?;
            }
        }
        let added = self.add(links, Step { kind: Kind::Release, record: None, deed });
        let added = match added {
            Ok(Some(added)) => added,
            failed => {
                self.settle_view()?;
                return failed.map(|_| None);
            }
        };
        for (board, foreign) in foreign {
            let judged = View::Foreign(foreign.clone());
            self.take_down(board, &added.slot.chain, |found| *found == judged)?;
        }
        self.settle_after(&added)?;
        let released = Released { record: scene.record().cloned().map(Box::new), cause };
        Ok(Some((Releasing::Released(released), Some(links.with(added)))))
    }

    /// Moves aside what no decision can be made about: a chain without a readable beginning, a view that is no file. Says what it moved.
    pub(crate) fn clear_the_way(&self, reason: &str) -> Result<Vec<String>, Error> {
        let mut moved = Vec::new();
        let is_no_dir = |error: &Error| matches!(error.io_kind(), Some(io::ErrorKind::NotADirectory));
        let damaged =
            |error: &Error| matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotARecord) || is_no_dir(error);
        if self.read_base().is_err_and(|error| damaged(&error)) {
            moved.push(self.move_aside(&self.chain_dir(), reason)?);
        }
        for board in Board::ALL {
            if let View::Odd(_) = self.read_view(board, "")? {
                moved.push(self.move_aside(&self.view_file(board), reason)?);
            }
        }
        Ok(moved)
    }

    fn move_aside(&self, path: &str, reason: &str) -> Result<String, Error> {
        let aside = format!("locks/.aside-{:032x}", self.random()?);
        self.repo.disk.rename(path, &aside).at("move aside", &self.repo.path, path)?;
        let mut deed =
            Deed::new("lock_break", self.repo.machine.now()).with("moved", path).with("aside", aside.as_str());
        deed.reason = Some(reason.to_owned());
        self.note(deed);
        let shown = |path: &str| self.repo.path.join(path).display().to_string();
        Ok(format!("{} couldn't be read; it was moved to {}", shown(path), shown(&aside)))
    }

    /// Takes back the link that we have just added, if it is still the last: whoever built on it knows better.
    pub(crate) fn give_back(&self, slot: &Slot, why: &str) -> Result<(), Error> {
        let Reading::Born(links) = self.read_chain()? else { return Ok(()) };
        let is_last = links.last.as_ref().is_some_and(|last| last.number == slot.number && last.chain == slot.chain);
        let (true, Some(record)) = (is_last, &slot.record) else { return Ok(()) };
        let mut deed = Deed::new("lock_release", self.repo.machine.now()).about(record);
        deed.reason = Some(why.to_owned());
        self.add(&links, Step { kind: Kind::Release, record: None, deed })?;
        self.settle_view()?;
        Ok(())
    }
}
