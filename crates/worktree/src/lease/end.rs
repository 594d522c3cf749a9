//! The end of a lease: released or broken.

use super::attempts::Turn;
use super::commit::Writer;
use std::io;

use lokt_core::decide::Cause;
use lokt_core::hold::LockId;
use lokt_core::lease::deciding::{Answer, Ask, ask};
use lokt_core::lease::session::Session;
use lokt_core::lease::slot::{Kind, Slot};

use super::Worktree;
use super::answers::{LeaseRefusal, Released, Releasing};
use super::chain::{Links, Reading};
use super::commit::{AuditEntry, NewLink};
use super::fences::followed;
use super::scene::{Caller, LeaseSnapshot, Ownership};
use super::sight::Sight;
use super::view::{Board, View};
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::warnings::Warning;

/// Ends the lease of a worktree.
pub(crate) struct Ender<'w> {
    pub(crate) worktree: &'w Worktree,
}

impl Ender<'_> {
    /// Ends the lease. Also returns the chain as a release left it.
    pub(crate) fn end(
        &self,
        session: Option<&Session>,
        reason: Option<&str>,
    ) -> Result<(Releasing, Option<Links>), Error> {
        // The holder is usually alone: it waits for others only after a conflict.
        let caller = session.map_or(Caller::Anybody, Caller::Session);
        let sight = &mut Sight::default();
        let turn = Turn { caller, sight, gate: None, gate_after_conflict_ms: Some(u64::MAX) };
        self.worktree.writer().decide(turn, |scene| match scene {
            Some(scene) => self.end_in(scene, session, reason),
            None => Ok(Some((Releasing::Denied(Box::new(LeaseRefusal::nobody())), None))),
        })
    }

    /// Decides and ends the lease. `None`: everything must be read again.
    fn end_in(
        &self,
        scene: &LeaseSnapshot,
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
        let cause = match ask(asked, scene.standing.stored(), &LockId::default(), links.now, &self.worktree.me()) {
            Answer::End(cause) => cause,
            Answer::Deny(denial) => return Ok(Some((Releasing::Denied(Box::new(scene.refusal(denial))), None))),
            other => unreachable!("a lease ends or doesn't, not {other:?}"),
        };
        self.worktree.staging().empty(links.next())?;
        self.worktree.tree_swap().empty_restores(links)?;
        let operation =
            if cause == Cause::ForceBreak || cause == Cause::CorruptBreak { "lock_break" } else { "lock_release" };
        let mut deed = AuditEntry::new(operation, self.worktree.repo.machine.now());
        deed.reason = reason.map(str::to_owned);
        if let Some(record) = scene.record() {
            deed = deed.about(record).with("holder", record.holder_id.as_str());
        }
        let is_foreign = matches!(
            &scene.standing,
            Ownership::Held { foreign: true, .. } | Ownership::Unreadable { foreign: true, .. }
        );
        let foreign = if is_foreign { scene.foreigners() } else { Vec::new() };
        if is_foreign {
            deed = deed.with("foreign", true);
        }
        if let Some(damaged) = &links.damaged {
            let overtaken = self.worktree.writer().supersede_damaged(links, damaged, deed)?;
            self.worktree.views().settle()?;
            return Ok(overtaken.then_some((Releasing::Released(Released { record: None, cause }), None)));
        }
        // Another tool's numbers count too, even after its lock has been removed.
        let theirs = foreign.iter().filter_map(|(_, foreign)| foreign.token().and_then(followed)).max().unwrap_or(0);
        if theirs >= links.next() {
            self.worktree.writer().skip_to(links, theirs)?;
            return Ok(None);
        }
        // Now, while the chain reserves the view for us. If the link isn't added, the view is
        // restored.
        for (board, view) in scene.views() {
            if let (View::Ours(_), false) = (view, scene.standing.is_over()) {
                self.worktree.views().remove_view(board, &links.base.chain, |found| found == view)?;
            }
        }
        let added = self.worktree.writer().add(links, NewLink { kind: Kind::Release, record: None, deed });
        let added = match added {
            Ok(Some(added)) => added,
            failed => {
                self.worktree.views().settle()?;
                return failed.map(|_| None);
            }
        };
        for (board, foreign) in foreign {
            let judged = View::Foreign(foreign.clone());
            self.worktree.views().remove_view(board, &added.slot.chain, |found| *found == judged)?;
        }
        self.worktree.views().settle_after(&added)?;
        let released = Released { record: scene.record().cloned().map(Box::new), cause };
        Ok(Some((Releasing::Released(released), Some(links.with(added)))))
    }

    /// Moves aside whatever makes a decision impossible: a chain without a readable beginning, or a
    /// view that is not a file. Returns what it moved.
    pub(crate) fn clear_the_way(&self, reason: &str) -> Result<Vec<Warning>, Error> {
        let mut moved = Vec::new();
        let is_no_dir = |error: &Error| matches!(error.io_kind(), Some(io::ErrorKind::NotADirectory));
        let damaged =
            |error: &Error| matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotARecord) || is_no_dir(error);
        if self.worktree.chain().read_base().is_err_and(|error| damaged(&error)) {
            moved.push(self.move_aside(&self.worktree.chain().dir(), reason)?);
        }
        for board in Board::ALL {
            if let View::Odd(_) = self.worktree.views().read(board, "")? {
                moved.push(self.move_aside(&self.worktree.views().path(board), reason)?);
            }
        }
        Ok(moved)
    }

    fn move_aside(&self, path: &str, reason: &str) -> Result<Warning, Error> {
        let aside = format!("locks/.aside-{:032x}", self.worktree.repo.random()?);
        self.worktree.repo.disk.rename(path, &aside).at("move aside", &self.worktree.repo.path, path)?;
        let mut deed = AuditEntry::new("lock_break", self.worktree.repo.machine.now())
            .with("moved", path)
            .with("aside", aside.as_str());
        deed.reason = Some(reason.to_owned());
        self.worktree.log().note(deed);
        let shown = |path: &str| self.worktree.repo.path.join(path).display().to_string();
        let moved = format!("{} couldn't be read; it was moved to {}", shown(path), shown(&aside));
        Ok(Warning::Damaged(moved))
    }
}

impl Writer<'_> {
    /// Revokes the link that we have just added, if it is still the last one.
    pub(crate) fn give_back(&self, slot: &Slot, why: &str) -> Result<(), Error> {
        let Reading::Born(links) = self.worktree.chain().read()? else { return Ok(()) };
        let is_last = links.last.as_ref().is_some_and(|last| last.number == slot.number && last.chain == slot.chain);
        let (true, Some(record)) = (is_last, &slot.record) else { return Ok(()) };
        let mut deed = AuditEntry::new("lock_release", self.worktree.repo.machine.now()).about(record);
        deed.reason = Some(why.to_owned());
        self.add(&links, NewLink { kind: Kind::Release, record: None, deed })?;
        self.worktree.views().settle()?;
        Ok(())
    }
}
