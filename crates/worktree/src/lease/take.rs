//! Acquires the lease: of a free worktree, or of one whose lease has ended.

use super::attempts::Turn;
use super::chain::Chain;
use lokt_core::hold::{Fence, LockId};
use lokt_core::lease::deciding::{Answer, Ask, ask};
use lokt_core::lease::evidence::Evidence;
use lokt_core::lease::record::{Binding, Record};
use lokt_core::lease::session::Session;
use lokt_core::lease::slot::{Kind, Slot};
use lokt_core::time::{Moment, plus_millis};

use super::Worktree;
use super::answers::{Lease, LeaseRefusal, LeaseTerms, Taking};
use super::chain::Links;
use super::commit::{Added, AuditEntry, NewLink};
use super::fences::followed;
use super::scene::{Caller, LeaseSnapshot, Ownership};
use super::sight::Sight;
use super::view::{Board, Foreign, Shown, View};
use lokt_sys::disk::Unlock;
use lokt_sys::error::{Error, ErrorKind};

/// Result of one attempt.
pub(crate) enum Attempt {
    /// The lease, and the chain after the grant.
    Granted(Box<Lease>, Box<Links>),
    /// The refusal, and the link to wait behind, if it was due to the chain.
    Refused(Box<LeaseRefusal>, Option<Behind>),
}

/// The last link that was read.
pub(crate) struct Behind {
    pub(crate) chain: String,
    /// The number of the next one.
    pub(crate) next: u64,
}

/// Acquires the lease of a worktree.
pub(crate) struct Acquirer<'w> {
    pub(crate) worktree: &'w Worktree,
}

impl Acquirer<'_> {
    /// Makes one attempt. `gate` is the advisory mutex, if the caller has it.
    pub(crate) fn attempt(
        &self,
        session: &Session,
        terms: &LeaseTerms,
        sight: &mut Sight,
        gate: Option<Box<dyn Unlock>>,
    ) -> Result<Attempt, Error> {
        let after = Some(terms.policy.lease_ms);
        let turn = Turn { caller: Caller::Session(session), sight, gate, gate_after_conflict_ms: after };
        self.worktree.writer().decide(turn, |scene| {
            if let Some(scene) = scene {
                return self.take(scene, session, terms);
            }
            // Without a chain, a view can't belong to it.
            let mut above = 0;
            for board in Board::ALL {
                if let View::Foreign(foreign) = self.worktree.views().read(board, "")? {
                    above = above.max(foreign.token().and_then(followed).unwrap_or(0));
                }
            }
            self.worktree.chain().create(above)?;
            Ok(None)
        })
    }

    /// Returns why a shared worktree, which has no lease, can't be changed: another tool, which
    /// doesn't know shared worktrees, holds it.
    pub(crate) fn held_by_others(&self) -> Result<Option<LeaseRefusal>, Error> {
        let Some(scene) = self.worktree.observer().read(Caller::Anybody, &mut Sight::default())? else {
            if !self.worktree.observer().jvs_holds()? {
                return Ok(None);
            }
            self.worktree.chain().ensure_created()?;
            return self.held_by_others();
        };
        let is_foreign = matches!(
            &scene.standing,
            Ownership::Held { foreign: true, .. } | Ownership::Unreadable { foreign: true, .. }
        );
        if !is_foreign {
            return Ok(None);
        }
        let asked = Ask::Acquire { nonce: "", session_id: "" };
        match ask(asked, scene.standing.stored(), &LockId::default(), scene.links.now, &self.worktree.me()) {
            Answer::Deny(denial) => Ok(Some(scene.refusal(denial))),
            _ => Ok(None),
        }
    }

    /// Decides and adds the grant. `None`: everything must be read again.
    fn take(&self, scene: &LeaseSnapshot, session: &Session, terms: &LeaseTerms) -> Result<Option<Attempt>, Error> {
        let links = &scene.links;
        let lock_id = LockId::from_bits(self.worktree.repo.random()?);
        let nonce = session.nonce(&lock_id);
        let (nonce_text, session_id) = (nonce.as_str(), session.id.as_str());
        let asked = match terms.taking {
            Taking::FreeOrOver => Ask::Acquire { nonce: nonce_text, session_id },
            Taking::Over => Ask::Steal { nonce: nonce_text, session_id },
        };
        let token = self.worktree.chain().token(links.next())?;
        let broken = match ask(asked, scene.standing.stored(), &lock_id, links.now, &self.worktree.me()) {
            Answer::Grant { broken } => broken,
            Answer::Deny(denial) => {
                return Ok(Some(Attempt::Refused(Box::new(scene.refusal(denial)), behind(scene))));
            }
            other => unreachable!("a lease is granted or refused, not {other:?}"),
        };
        // Another tool's numbers count, too.
        let foreign = scene.foreigners();
        let tokens = foreign.iter().filter_map(|(_, foreign)| foreign.token().and_then(followed));
        let theirs = tokens.max().unwrap_or(0);
        if theirs >= links.next() {
            self.worktree.writer().skip_to(links, theirs)?;
            return Ok(None);
        }
        self.worktree.staging().empty(links.next())?;
        self.worktree.tree_swap().empty_restores(links)?;
        let began = self.worktree.repo.machine.now();
        let evidence = broken.map(|_| evidence_of(scene));
        let record = self.new_record(session, terms, lock_id, nonce, token, links.acquire_seq() + 1, began, evidence);
        let deed = grant_deed(scene, &record, began, evidence);
        let step = NewLink { kind: Kind::Grant, record: Some(record.clone()), deed };
        let Some(added) = self.worktree.writer().add(links, step)? else { return Ok(None) };
        let slot = &added.slot;
        self.worktree
            .writer()
            .still_stays()
            .inspect_err(|_| drop(self.worktree.writer().give_back(slot, "the worktree is gone")))?;
        // A chain that is deleted file by file loses its end first, perhaps after the note was
        // read.
        let noted = self.worktree.fences().noted_grant()?;
        if noted.as_ref().is_some_and(|(chain, noted)| *chain == slot.chain && *noted >= slot.number) {
            self.worktree.writer().give_back(slot, "its number was given before")?;
            return Ok(None);
        }
        // Best effort: the chain has it too.
        let _ = self.worktree.fences().note_grant(noted, slot);
        if !self.show_grant(&added, &foreign)? || !self.worktree.writer().still_stands(&added)? {
            return Ok(None);
        }
        let stolen = evidence.map(|evidence| (scene.record().cloned(), evidence));
        let lease = Lease { record, token, began, stolen };
        if self.worktree.repo.machine.now().boottime_ms.saturating_sub(began.boottime_ms) > lease.record.policy.lease_ms
        {
            return Ok(Some(self.came_late(slot, &lease)?));
        }
        Ok(Some(Attempt::Granted(Box::new(lease), Box::new(links.with(added)))))
    }

    /// Publishes the view of a new lease. Returns false if another tool was faster where both
    /// compete, and the lease was released. It is also released if the view can't be published:
    /// other tools would know nothing of the lease.
    fn show_grant(&self, added: &Added, over: &[(Board, &Foreign)]) -> Result<bool, Error> {
        let slot = &added.slot;
        let shown = || {
            for (board, foreign) in over {
                // Any other file that is there by now is put back.
                let judged = View::Foreign((*foreign).clone());
                self.worktree.views().remove_view(*board, &slot.chain, |found| *found == judged)?;
            }
            // At once if no view is there, which is almost always the case.
            added.due().map_or(Ok(()), |right| self.worktree.views().publish_view(Board::Record, &right))?;
            let shown = self.worktree.views().settle_after(added)?;
            self.worktree.chain().sync()?;
            self.worktree.views().sync()?;
            Ok(shown)
        };
        match shown() {
            Ok(Shown::Right) => Ok(true),
            Ok(Shown::Foreign) => {
                self.worktree.writer().give_back(slot, "another program's lock file came first")?;
                Ok(false)
            }
            Err(error) => {
                let _ = self.worktree.writer().give_back(slot, "its lock file couldn't be written");
                Err(error)
            }
        }
    }

    /// Revokes a lease that expired before it could be reported.
    fn came_late(&self, slot: &Slot, lease: &Lease) -> Result<Attempt, Error> {
        self.worktree.writer().give_back(slot, "it was over before it could be answered")?;
        Ok(Attempt::Refused(Box::new(LeaseRefusal::over(&lease.record)), None))
    }

    #[expect(clippy::too_many_arguments, reason = "each is a member of the record")]
    fn new_record(
        &self,
        session: &Session,
        terms: &LeaseTerms,
        lock_id: LockId,
        nonce: String,
        token: Fence,
        acquire_seq: u64,
        began: Moment,
        evidence: Option<Evidence>,
    ) -> Record {
        let me = self.worktree.me();
        Record {
            lock_id,
            worktree: self.worktree.name.to_string(),
            holder_id: self.worktree.log().holder_id(),
            nonce,
            session_id: session.id.clone(),
            acquire_seq,
            created_at: began.wall,
            last_renewed_at: began.wall,
            policy: terms.policy,
            lease_expires_at: plus_millis(began.wall, terms.policy.lease_ms),
            token: Some(token),
            binding: Some(if terms.bearer.is_some() { Binding::Process } else { Binding::Session }),
            boot_id: me.boot_id.clone(),
            boottime_ms: me.boot_clocks.then_some(began.boottime_ms),
            pid_ns: me.pid_ns,
            fs: me.fs,
            pulse: terms.bearer.map(|bearer| bearer.pulse),
            agent_id: Some(me.agent_id).filter(|agent_id| !agent_id.is_empty()),
            purpose: terms.purpose.clone(),
            evidence: evidence.map(|evidence| evidence.as_str().to_owned()),
        }
        .renewed(&began, &self.worktree.me())
    }
}

impl Chain<'_> {
    pub(crate) fn token(&self, number: u64) -> Result<Fence, Error> {
        Fence::new(number).ok_or_else(|| {
            let message = format!("worktree \"{}\" has used up its tokens", self.name);
            Error::new(ErrorKind::Unusable, message)
        })
    }
}

/// Returns the link that must be followed by another one, if the chain is the obstacle.
fn behind(scene: &LeaseSnapshot) -> Option<Behind> {
    let links = &scene.links;
    let is_chain = matches!(&scene.standing, Ownership::Held { foreign: false, .. }) && links.damaged.is_none();
    is_chain.then(|| Behind { chain: links.base.chain.clone(), next: links.next() })
}

/// Returns how it is known that the broken lease had ended. An unreadable one was observed for long
/// enough.
fn evidence_of(scene: &LeaseSnapshot) -> Evidence {
    scene.verdict().and_then(|verdict| verdict.evidence).unwrap_or(Evidence::Observed)
}

fn grant_deed(scene: &LeaseSnapshot, record: &Record, began: Moment, evidence: Option<Evidence>) -> AuditEntry {
    let operation = if evidence.is_some() { "lock_steal" } else { "lock_acquire" };
    let mut deed = AuditEntry::new(operation, began).about(record).with("new_holder", record.holder_id.as_str());
    deed = deed.with("new_token", record.token.map(Fence::get));
    deed.reason.clone_from(&record.purpose);
    if let Some(evidence) = evidence {
        deed = deed.with("evidence", evidence.as_str());
        let foreign = matches!(
            &scene.standing,
            Ownership::Held { foreign: true, .. } | Ownership::Unreadable { foreign: true, .. }
        );
        deed = if foreign { deed.with("foreign", true) } else { deed };
    }
    if let (Some(_), Some(old)) = (evidence, scene.record()) {
        deed = deed.with("old_holder", old.holder_id.as_str()).with("old_token", old.token.map(Fence::get));
        deed = deed.with("old_lock_id", old.lock_id.as_str());
    }
    deed
}
