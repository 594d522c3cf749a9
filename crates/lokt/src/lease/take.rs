//! Getting the lease: of a free worktree, or of one whose lease is over.

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
use super::commit::{Added, Deed, Step};
use super::fences::followed;
use super::scene::{Asker, Scene, Standing};
use super::sight::Sight;
use super::view::{Board, Foreign, Shown, View};
use crate::error::{Error, ErrorKind};
use crate::sys::disk::Unlock;

/// Somebody else is faster: each time one of them has got somewhere.
pub(crate) const TRIES: usize = 10_000;

/// What came of one attempt.
pub(crate) enum Attempt {
    /// And the chain as it is then.
    Granted(Box<Lease>, Box<Links>),
    /// And behind what, if it was the chain's.
    Refused(Box<LeaseRefusal>, Option<Behind>),
}

/// The last link that was read.
pub(crate) struct Behind {
    pub(crate) chain: String,
    /// The number of the next one.
    pub(crate) next: u64,
}

impl Worktree {
    /// One attempt. `gate`: the courtesy mutex, if whoever asks has it.
    pub(crate) fn attempt(
        &self,
        session: &Session,
        terms: &LeaseTerms,
        sight: &mut Sight,
        mut gate: Option<Box<dyn Unlock>>,
    ) -> Result<Attempt, Error> {
        for _ in 0..TRIES {
            let Some(scene) = self.look(Asker::Session(session), sight)? else {
                // Before its birth there is no chain whose view it could be.
                let mut above = 0;
                for board in Board::ALL {
                    if let View::Foreign(foreign) = self.read_view(board, "")? {
                        above = above.max(foreign.token().and_then(followed).unwrap_or(0));
                    }
                }
                self.give_birth(above)?;
                gate = gate.or_else(|| self.gate(terms.policy.lease_ms));
                continue;
            };
            if let Some(attempt) = self.take(&scene, session, terms)? {
                return Ok(attempt);
            }
            gate = gate.or_else(|| self.gate(terms.policy.lease_ms));
        }
        Err(self.too_busy())
    }

    /// Why nobody may change a shared worktree, which has no lease: another tool, which knows no shared ones, holds it.
    pub(crate) fn held_by_others(&self) -> Result<Option<LeaseRefusal>, Error> {
        let Some(scene) = self.look(Asker::Anybody, &mut Sight::default())? else {
            if !self.jvs_holds()? {
                return Ok(None);
            }
            self.be_born()?;
            return self.held_by_others();
        };
        let is_foreign = matches!(
            &scene.standing,
            Standing::Held { foreign: true, .. } | Standing::Unreadable { foreign: true, .. }
        );
        if !is_foreign {
            return Ok(None);
        }
        let asked = Ask::Acquire { nonce: "", session_id: "" };
        let token = self.fence(scene.links.next())?;
        match ask(asked, scene.standing.stored(), token, &LockId::default(), scene.links.now, &self.me()) {
            Answer::Deny(denial) => Ok(Some(scene.refusal(denial))),
            _ => Ok(None),
        }
    }

    pub(crate) fn too_busy(&self) -> Error {
        let message = format!("others change the lease of worktree \"{}\" all the time", self.name);
        Error::new(ErrorKind::Busy, message)
    }

    /// `None`: everything is to be looked at again.
    fn take(&self, scene: &Scene, session: &Session, terms: &LeaseTerms) -> Result<Option<Attempt>, Error> {
        let links = &scene.links;
        let lock_id = LockId::from_bits(self.random()?);
        let nonce = session.nonce(&lock_id);
        let (nonce_text, session_id) = (nonce.as_str(), session.id.as_str());
        let asked = match terms.taking {
            Taking::FreeOrOver => Ask::Acquire { nonce: nonce_text, session_id },
            Taking::Over => Ask::Steal { nonce: nonce_text, session_id },
        };
        let token = self.fence(links.next())?;
        let broken = match ask(asked, scene.standing.stored(), token, &lock_id, links.now, &self.me()) {
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
            self.jump(links, theirs)?;
            return Ok(None);
        }
        self.empty_staging(links.next())?;
        self.empty_restores(links)?;
        let began = self.repo.machine.now();
        let evidence = broken.map(|_| evidence_of(scene));
        let record = self.new_record(session, terms, lock_id, nonce, token, links.acquire_seq() + 1, began, evidence);
        let deed = grant_deed(scene, &record, began, evidence);
        let step = Step { kind: Kind::Grant, record: Some(record.clone()), deed };
        let Some(added) = self.add(links, step)? else { return Ok(None) };
        let slot = &added.slot;
        self.still_stays().inspect_err(|_| drop(self.give_back(slot, "the worktree is gone")))?;
        // Whoever deletes a chain bit by bit takes its end first, perhaps after we had looked what was noted of it.
        let noted = self.noted_grant()?;
        if noted.as_ref().is_some_and(|(chain, noted)| *chain == slot.chain && *noted >= slot.number) {
            self.give_back(slot, "its number was given before")?;
            return Ok(None);
        }
        // Best effort: what it tells is told by the chain, as long as nobody deletes a part of that.
        let _ = self.note_grant(noted, slot);
        if !self.show_grant(&added, &foreign)? || !self.still_stands(&added)? {
            return Ok(None);
        }
        let stolen = evidence.map(|evidence| (scene.record().cloned(), evidence));
        let lease = Lease { record, token, began, stolen };
        if self.repo.machine.now().boottime_ms.saturating_sub(began.boottime_ms) > lease.record.policy.lease_ms {
            return Ok(Some(self.came_late(slot, &lease)?));
        }
        Ok(Some(Attempt::Granted(Box::new(lease), Box::new(links.with(added)))))
    }

    /// Puts the view of a new lease in its place. False: another tool was faster where it and we compete, and the lease was given back. So it
    /// is if the view can't be put there: other tools would know nothing of the lease.
    fn show_grant(&self, added: &Added, over: &[(Board, &Foreign)]) -> Result<bool, Error> {
        let slot = &added.slot;
        let shown = || {
            for (board, foreign) in over {
                // Whatever else is there by now is put back.
                let judged = View::Foreign((*foreign).clone());
                self.take_down(*board, &slot.chain, |found| *found == judged)?;
            }
            // At once where nothing is, which is almost always.
            added.due().map_or(Ok(()), |right| self.hang(Board::Record, &right))?;
            let shown = self.settle_after(added)?;
            self.sync_chain()?;
            self.sync_locks()?;
            Ok(shown)
        };
        match shown() {
            Ok(Shown::Right) => Ok(true),
            Ok(Shown::Foreign) => {
                self.give_back(slot, "another program's lock file came first")?;
                Ok(false)
            }
            Err(error) => {
                let _ = self.give_back(slot, "its lock file couldn't be written");
                Err(error)
            }
        }
    }

    /// It took so long that the lease is over again.
    fn came_late(&self, slot: &Slot, lease: &Lease) -> Result<Attempt, Error> {
        self.give_back(slot, "it was over before it could be answered")?;
        Ok(Attempt::Refused(Box::new(Self::over(&lease.record)), None))
    }

    pub(crate) fn fence(&self, number: u64) -> Result<Fence, Error> {
        Fence::new(number).ok_or_else(|| {
            let message = format!("worktree \"{}\" has used up its tokens", self.name);
            Error::new(ErrorKind::Unusable, message)
        })
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
        let me = self.me();
        Record {
            lock_id,
            worktree: self.name.to_string(),
            holder_id: self.holder_id(),
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
        .renewed(&began, &self.me())
    }
}

/// What has to be followed by another link, if it is the chain that is in the way.
fn behind(scene: &Scene) -> Option<Behind> {
    let links = &scene.links;
    let is_chain = matches!(&scene.standing, Standing::Held { foreign: false, .. }) && links.damaged.is_none();
    is_chain.then(|| Behind { chain: links.base.chain.clone(), next: links.next() })
}

/// How it is known that what is broken was over. What can't be read was looked at for long enough.
fn evidence_of(scene: &Scene) -> Evidence {
    scene.verdict().and_then(|verdict| verdict.evidence).unwrap_or(Evidence::Observed)
}

fn grant_deed(scene: &Scene, record: &Record, began: Moment, evidence: Option<Evidence>) -> Deed {
    let operation = if evidence.is_some() { "lock_steal" } else { "lock_acquire" };
    let mut deed = Deed::new(operation, began).about(record).with("new_holder", record.holder_id.as_str());
    deed = deed.with("new_token", record.token.map(Fence::get));
    deed.reason.clone_from(&record.purpose);
    if let Some(evidence) = evidence {
        deed = deed.with("evidence", evidence.as_str());
        let foreign = matches!(
            &scene.standing,
            Standing::Held { foreign: true, .. } | Standing::Unreadable { foreign: true, .. }
        );
        deed = if foreign { deed.with("foreign", true) } else { deed };
    }
    if let (Some(_), Some(old)) = (evidence, scene.record()) {
        deed = deed.with("old_holder", old.holder_id.as_str()).with("old_token", old.token.map(Fence::get));
        deed = deed.with("old_lock_id", old.lock_id.as_str());
    }
    deed
}
