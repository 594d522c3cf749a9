//! What is done in the world, and the books that are kept of it.

use lokt_core::decide::{Breaking, Cause, Condition, Decision, HoldKey, InheritedHold, Intent, ProcessHolder, Terms};
use lokt_core::denial::Denial;
use lokt_core::hold::{Hold, LockId, PartKind, PulseRef};
use lokt_core::pulse::ProcessRef;

use super::ledger::{Claim, Ledger};
use super::machines::{OWNERS, Process, Seat};
use super::world::{Asked, Stored, World};

/// Which hold a conditional unlock is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    Any,
    Id,
    WrongId,
    Token,
    OldToken,
}

impl World {
    pub(crate) fn lock(&mut self, seat: Seat, ttl_sec: Option<u64>, misfit: bool) {
        let pid = self.stage.next_pid();
        let me = self.stage.identity(seat, pid);
        let asked = self.ask(seat, &me, &Intent::Lock(Terms { ttl_sec, reason: None }), misfit);
        match &asked.decision {
            Decision::Commit { next: Some(_), cause: Cause::Acquire, .. } => {
                self.check_grant(&asked, seat);
                assert!(!asked.mine, "a stale hold of one's own is revived, not replaced");
                self.ledger = Ledger::default();
            }
            Decision::Commit { next: Some(next), cause: Cause::Renew, broken: None, .. } => {
                assert!(asked.mine, "one-holder: {} refreshed another's hold", seat.owner());
                let before = asked.before.as_ref().expect("something was refreshed");
                if asked.lives() {
                    let process = self.ledger.take(PartKind::Process);
                    let stays = asked.process_lives && (!before.is_foreign() || asked.seen);
                    self.ledger = Ledger::default();
                    match process {
                        Some(process) if stays => {
                            assert_eq!(
                                (next.pid, &next.host),
                                (before.pid, &before.host),
                                "the guard's identity stays"
                            );
                            assert_eq!(next.pulse, before.pulse, "the guard's pulse stays");
                            self.ledger.claims.push(process.carried(before, next));
                        }
                        dropped => self.check_dropped(dropped.as_ref(), seat, before.is_foreign()),
                    }
                } else {
                    self.check_grant(&asked, seat);
                    self.ledger = Ledger::default();
                }
            }
            Decision::Deny(denial) => return self.check_refusal(&asked, denial, false),
            other => panic!("no answer to lock: {other:?}"),
        }
        let boot = self.hold().and_then(|hold| hold.boot_id);
        self.ledger.claims.push(Claim::begun(PartKind::Owner, ttl_sec, None, seat, &self.stage, boot.as_deref()));
        self.check_parts();
    }

    pub(crate) fn guard(&mut self, seat: Seat, ttl_sec: Option<u64>, keeps_pulse: bool, misfit: bool) {
        let pid = self.stage.next_pid();
        let number = u64::try_from(pid).expect("pids grow from 100");
        let pulse = Some(PulseRef { number, dev: 66, ino: number + 1000 });
        let boot = self.stage.machine(seat).boot;
        let process = Process { seat, boot, pid, alive: true, command: Some(true), keeps_pulse, pulse, grip: None };
        let number = self.stage.add(process);
        self.enter(number, ttl_sec, misfit);
    }

    pub(crate) fn bind(&mut self, seat: Seat, ttl_sec: Option<u64>, misfit: bool) {
        let pid = self.stage.next_pid();
        let boot = self.stage.machine(seat).boot;
        let process =
            Process { seat, boot, pid, alive: true, command: None, keeps_pulse: false, pulse: None, grip: None };
        let number = self.stage.add(process);
        self.enter(number, ttl_sec, misfit);
    }

    /// Binds the process that the record names once more.
    pub(crate) fn bind_again(&mut self, ttl_sec: Option<u64>) {
        let number = self.ledger.claim(PartKind::Process).and_then(|claim| claim.process);
        if let Some(number) = number
            && self.stage.processes[number].pulse.is_none()
            && self.stage.processes[number].alive
        {
            self.enter(number, ttl_sec, false);
        }
    }

    /// A guard or a bound process asks for its part.
    fn enter(&mut self, number: usize, ttl_sec: Option<u64>, misfit: bool) {
        let process = self.stage.processes[number].clone();
        let seat = process.seat;
        let caller = if process.pulse.is_some() { process.pid } else { self.stage.next_pid() };
        let me = self.stage.identity(seat, caller);
        let bearer = ProcessRef { pid: process.pid, start: process.start() };
        let bearer = ProcessHolder { process: bearer, has_pulse: process.pulse.is_some(), inside: None };
        let intent = Intent::Guard(Terms { ttl_sec, reason: None }, bearer);
        let asked = self.ask_with_pulse(seat, &me, &intent, process.pulse, misfit);
        let next = match &asked.decision {
            Decision::Commit { next: Some(next), cause: Cause::Acquire, .. } => {
                self.check_grant(&asked, seat);
                self.ledger = Ledger::default();
                next
            }
            Decision::Commit { next: Some(next), cause: Cause::Renew, broken: None, .. } => {
                assert!(asked.mine && asked.lives(), "one-holder: {} joined another's hold", seat.owner());
                let before = asked.before.as_ref().expect("something was joined");
                let again = asked.process_lives && before.pid == process.pid && process.pulse.is_none();
                assert!(again || !asked.process_lives, "one-holder: two guards of {} are inside", seat.owner());
                assert!(again || self.frost.is_none(), "frozen-means-frozen: a guard began under a freeze");
                let owner = self.ledger.take(PartKind::Owner);
                let replaced = self.ledger.take(PartKind::Process);
                if !again {
                    self.check_dropped(replaced.as_ref(), seat, false);
                }
                if let Some(owner) = owner.filter(|_| asked.owner_lives) {
                    self.ledger.claims.push(owner.carried(before, next));
                }
                next
            }
            Decision::Deny(denial) => return self.check_refusal(&asked, denial, true),
            other => panic!("no answer to guard: {other:?}"),
        };
        let grip = HoldKey { lock_id: next.lock_id.clone(), token: next.token, pulse: next.pulse };
        self.stage.processes[number].grip = Some(grip);
        let boot = next.boot_id.as_deref();
        self.ledger.claims.push(Claim::begun(PartKind::Process, ttl_sec, Some(number), seat, &self.stage, boot));
        self.check_parts();
    }

    /// A guard inside the stored hold, if that lives, runs at once and changes nothing.
    pub(crate) fn nest(&mut self, seat: Seat) {
        let Some(hold) = self.hold().filter(|hold| !hold.lock_id.is_empty() && hold.pulse.is_some()) else { return };
        let pid = self.stage.next_pid();
        let me = self.stage.identity(seat, pid);
        let inside = Some(InheritedHold {
            lock_id: hold.lock_id,
            token: hold.token,
            pulse: hold.pulse.map(|pulse| pulse.number),
        });
        let bearer = ProcessHolder { process: ProcessRef { pid, start: me.pid_start }, has_pulse: false, inside };
        let stored = (self.stored.clone(), self.unedited.clone());
        let asked = self.ask(seat, &me, &Intent::Guard(Terms::default(), bearer), false);
        if asked.decision != Decision::Inside {
            assert!(!asked.lives(), "a guard inside its own hold was stopped");
            // It asked like any other guard then; `enter` is about those.
            (self.stored, self.unedited) = stored;
        }
    }

    pub(crate) fn renew(&mut self, number: usize) {
        let Some((seat, grip)) = self.awake(number) else { return };
        let me = self.stage.identity(seat, self.stage.processes[number].pid);
        let own = self.is_inside(number);
        let asked = self.ask(seat, &me, &Intent::Renew(grip), false);
        match &asked.decision {
            Decision::Commit { next: Some(next), cause: Cause::Renew, broken: None, .. } => {
                assert!(own, "no-lost-thief: process {number} renewed what is not its own: {:?}", self.ledger);
                let before = asked.before.as_ref().expect("something was renewed");
                assert_eq!((&next.lock_id, next.token), (&before.lock_id, before.token), "no-lost-thief");
                let owner = self.ledger.take(PartKind::Owner).filter(|_| asked.owner_lives);
                let ttl_sec =
                    next.parts.as_ref().and_then(|parts| parts.process.as_ref()).and_then(|part| part.ttl_sec);
                let boot = next.boot_id.as_deref();
                let process = Claim::begun(PartKind::Process, ttl_sec, Some(number), seat, &self.stage, boot);
                self.ledger = Ledger { claims: vec![process] };
                self.ledger.claims.extend(owner.map(|owner| owner.carried(before, next)));
                self.check_parts();
            }
            Decision::Deny(Denial::Lost(_)) => {
                assert!(!own, "process {number} was told that it lost what is still its own");
                self.stage.processes[number].grip = None;
            }
            other => panic!("no answer to a renewal: {other:?}"),
        }
    }

    pub(crate) fn release(&mut self, number: usize) {
        let Some((seat, grip)) = self.awake(number) else { return };
        let me = self.stage.identity(seat, self.stage.processes[number].pid);
        let own = self.is_inside(number);
        let stored = self.stored.clone();
        let asked = self.ask(seat, &me, &Intent::Release(grip), false);
        let process = &mut self.stage.processes[number];
        process.grip = None;
        match &asked.decision {
            Decision::Commit { next, cause: Cause::Release(PartKind::Process), broken: None, .. } => {
                assert!(own, "no-lost-thief: process {number} released what is not its own: {:?}", self.ledger);
                (process.alive, process.command) = (false, Some(false));
                let before = asked.before.as_ref().expect("something was released");
                let owner = self.ledger.take(PartKind::Owner).filter(|_| asked.owner_lives);
                assert_eq!(owner.is_some(), next.is_some(), "the owner part is what remains: {asked:?}");
                self.ledger = Ledger::default();
                if let (Some(owner), Some(next)) = (owner, next) {
                    self.ledger.claims.push(owner.carried(before, next));
                }
                self.check_parts();
            }
            Decision::Deny(Denial::Lost(_)) => {
                assert!(!own, "process {number} was told that it lost what is still its own");
                assert_eq!(self.stored, stored, "no-lost-thief: a refused release changed the slot");
            }
            other => panic!("no answer to a release: {other:?}"),
        }
    }

    pub(crate) fn unlock(&mut self, seat: Seat, breaking: Breaking, aim: Aim, misfit: bool) {
        let hold = self.hold();
        let token = hold.as_ref().and_then(|hold| hold.token).map_or(0, lokt_core::hold::Fence::get);
        let condition = match aim {
            Aim::Any => Condition::default(),
            Aim::Id => Condition { lock_id: hold.as_ref().map(|hold| hold.lock_id.clone()), token: None },
            Aim::WrongId => Condition { lock_id: Some(LockId::from_text("another")), token: None },
            Aim::Token => Condition { lock_id: None, token: Some(token) },
            Aim::OldToken => Condition { lock_id: None, token: Some(token.wrapping_sub(1)) },
        };
        let pid = self.stage.next_pid();
        let me = self.stage.identity(seat, pid);
        let asked = self.ask(seat, &me, &Intent::Unlock(breaking, condition), misfit);
        let Decision::Commit { next, cause, .. } = &asked.decision else { return };
        assert!(
            !matches!(aim, Aim::WrongId | Aim::OldToken),
            "no-lost-thief: an unlock met another hold than it named"
        );
        match (breaking, cause) {
            (Breaking::No, Cause::Release(_)) => {
                assert!(asked.mine, "no-lost-thief: an unlock ended another owner's hold");
                self.check_owners_end(&asked, next.as_deref());
            }
            (Breaking::Stale, Cause::StaleBreak) => {
                assert!(!asked.lives(), "one-holder: --break-stale broke a live hold: {asked:?}");
                self.ledger = Ledger::default();
            }
            (Breaking::Stale | Breaking::Force, Cause::CorruptBreak) => assert!(asked.before.is_none()),
            (Breaking::Force, Cause::ForceBreak) => self.ledger = Ledger::default(),
            other => panic!("no answer to unlock: {other:?}"),
        }
    }

    pub(crate) fn unlock_for(&mut self, seat: Seat, owner: usize, misfit: bool) {
        let pid = self.stage.next_pid();
        let me = self.stage.identity(seat, pid);
        let asked = self.ask(seat, &me, &Intent::UnlockFor(OWNERS[owner].into()), misfit);
        let Decision::Commit { next, cause, .. } = &asked.decision else { return };
        let before = asked.before.as_ref().expect("something was unlocked");
        assert_eq!(before.owner, OWNERS[owner], "no-lost-thief: --owner met another owner's hold");
        let own = matches!(cause, Cause::Release(_));
        assert_eq!(own, seat.owner == owner, "ending another's hold is a break: {cause:?}");
        self.check_owners_end(&asked, next.as_deref());
    }

    pub(crate) fn prune(&mut self, seat: Seat, misfit: bool) {
        let pid = self.stage.next_pid();
        let me = self.stage.identity(seat, pid);
        let asked = self.ask(seat, &me, &Intent::Prune, misfit);
        if let Decision::Commit { next, cause, .. } = &asked.decision {
            assert_eq!((next, *cause), (&None, Cause::Prune));
            assert!(!asked.lives(), "one-holder: a live hold was tidied away: {asked:?}");
            self.ledger = Ledger::default();
        }
    }

    /// all-or-nothing: a token is good exactly while the hold that has it lives, whoever asks and whatever is frozen.
    pub(crate) fn check(&mut self, seat: Seat, number: usize, any: u64) {
        let grip = self.stage.processes.get(number).and_then(|process| process.grip.as_ref());
        let named = grip.and_then(|grip| grip.token).map_or(any, lokt_core::hold::Fence::get);
        let pid = self.stage.next_pid();
        let me = self.stage.identity(seat, pid);
        let asked = self.ask(seat, &me, &Intent::Check(named.into()), false);
        let stored = asked.before.as_ref().and_then(|hold| hold.token).map(lokt_core::hold::Fence::get);
        let good = asked.lives() && stored == Some(named);
        assert_eq!(matches!(asked.decision, Decision::Inside), good, "all-or-nothing: token {named}: {asked:?}");
    }

    /// An unlock ended what it may: the owner part, or a hold that no living guard is behind.
    fn check_owners_end(&mut self, asked: &Asked, next: Option<&Hold>) {
        let before = asked.before.as_ref().expect("something was unlocked");
        let process = self.ledger.take(PartKind::Process);
        self.ledger = Ledger::default();
        if let Some(next) = next {
            assert!(asked.process_lives && asked.owner_lives, "{asked:?}");
            let process = process.expect("the books know the guard");
            self.ledger.claims.push(process.carried(before, next));
            self.check_parts();
        } else {
            let is_guard = before.pulse.is_some() || (before.has_foreign_process() && asked.seen);
            assert!(!asked.process_lives || !is_guard, "child-counts: an unlock took a guard's hold away");
        }
    }

    /// Somebody got what nobody has: then nothing may have been in the way.
    fn check_grant(&self, asked: &Asked, seat: Seat) {
        assert!(!asked.lives(), "one-holder: {} was let in beside {:?}", seat.owner(), self.ledger);
        assert!(self.frost.is_none(), "frozen-means-frozen: {} was let in under a freeze", seat.owner());
        assert_eq!(self.ahead, 0, "in-order: {} overtook the line", seat.owner());
        self.check_dropped(self.ledger.claim(PartKind::Process), seat, false);
        if let Some(owner) = self.ledger.claim(PartKind::Owner) {
            assert!(owner.is_over(seat, &self.stage), "one-holder: {owner:?} was taken away");
        }
    }

    /// A process part that is dropped has ended by its lease, or its guard and command are really gone.
    fn check_dropped(&self, claim: Option<&Claim>, seat: Seat, foreign: bool) {
        let Some(claim) = claim.filter(|_| !foreign) else { return };
        let gone = claim.process.is_none_or(|number| self.stage.processes[number].is_gone());
        assert!(gone || claim.is_over(seat, &self.stage), "one-holder: {claim:?} still ran when it was taken away");
    }

    /// The record has the parts that the books have.
    fn check_parts(&self) {
        let hold = self.hold();
        for kind in [PartKind::Process, PartKind::Owner] {
            let written = hold.as_ref().is_some_and(|hold| hold.has(kind));
            assert_eq!(written, self.ledger.claim(kind).is_some(), "{kind:?} in {hold:?}, but {:?}", self.ledger);
        }
        if hold.is_none() {
            assert_eq!(self.stored, Stored::Nothing);
        }
    }

    /// The guard, if it can act at all.
    fn awake(&self, number: usize) -> Option<(Seat, HoldKey)> {
        let process = self.stage.processes.get(number).filter(|process| process.alive)?;
        Some((process.seat, process.grip.clone().filter(|grip| grip.pulse.is_some())?))
    }

    /// Is the stored process part that of this guard?
    fn is_inside(&self, number: usize) -> bool {
        self.ledger.claim(PartKind::Process).is_some_and(|claim| claim.process == Some(number))
    }
}
