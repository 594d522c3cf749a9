//! Running a command under a claim: renewed while it runs, given back when it has ended.

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lokt_core::denial::Holder;
use lokt_core::guard::{Ended, Guard, Manners, OnLost, Outcome, RENEW_MS_MIN};
use lokt_core::ledger::claiming::Refused;
use lokt_core::ledger::seq::Seq;

use super::boottime::BootTime;
use super::kept::{Kept, Minded};
use super::shell::Shell;
use super::{Finished, Notice, drive, interrupted};
use crate::error::Error;
use crate::ledger::{ClaimEntry, ClaimTerms, Claimed, Claiming, Ledger, LockPatience, Releasing};
use crate::locks::Said;
use crate::sys::machine::{Linux, Machine};
use crate::sys::signals::Inbox;
use crate::sys::spawn::spawn;

/// A claim under which a command can run. Dropped without running one, it is given back.
pub struct ClaimGuard {
    /// Gone when it is in the shell's hand.
    held: Option<Held>,
}

/// A claim of ours.
#[derive(Clone)]
struct Held {
    ledger: Ledger,
    node: String,
    token: Seq,
    ttl_sec: u64,
    /// From when on it lasts that long, by `CLOCK_BOOTTIME`.
    began_ms: u64,
    force: bool,
}

impl ClaimGuard {
    /// Looks after a claim that was just made. `force` as it was then.
    pub fn new(ledger: Ledger, claimed: &Claimed, force: bool) -> Self {
        let (node, token, ttl_sec) = (claimed.node.clone(), claimed.token, claimed.ttl_sec);
        Self { held: Some(Held { ledger, node, token, ttl_sec, began_ms: claimed.at.boottime_ms, force }) }
    }

    /// Runs `command` and gives the claim back when it has ended. An error is one of starting it, unless it [had started](super::had_started).
    pub fn run(
        mut self,
        command: &mut Command,
        on_lost: OnLost,
        inbox: &mut Inbox,
        tell: &mut dyn FnMut(&Notice<'_>),
    ) -> io::Result<Finished> {
        let Some(held) = &self.held else { unreachable!("it is run once") };
        command.env("LOKT_CLAIM_NODE", &held.node);
        command.env("LOKT_CLAIM_TOKEN", held.token.to_string());
        command.env("LOKT_LEDGER_DIR", held.ledger.path().parent().unwrap_or(held.ledger.path()));
        if let Some(finished) = interrupted(inbox) {
            return Ok(finished);
        }
        let own_group = on_lost == OnLost::Stop;
        let machine: Arc<dyn Machine> = Arc::new(BootTime(Arc::new(Linux)));
        let began_ms = held.began_ms;
        let pid = spawn(command, own_group, inbox.before(), Vec::new())?;
        let manners = Manners { ttl_sec: Some(held.ttl_sec), on_lost, until_all: false };
        // Two renewals may fail before the lease is over.
        let interval_ms = (held.ttl_sec.saturating_mul(1000) / 3).max(RENEW_MS_MIN);
        let guard = Guard::new(manners, &[began_ms], machine.now().monotonic_ms);
        let guard = guard.renewing_every(interval_ms).ending_for_good(&[began_ms]);
        let kept: Option<Box<dyn Kept>> = self.held.take().map(|held| Box::new(held) as _);
        let mut shell = Shell::new(machine, vec![kept], pid, own_group);
        shell.pass_foreground();
        drive(shell, guard, inbox, tell)
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.give_back();
        }
    }
}

impl Held {
    /// When a lease that began then ends.
    fn ends_ms(&self, began_ms: u64) -> u64 {
        began_ms.saturating_add(self.ttl_sec.saturating_mul(1000))
    }

    fn terms(&self) -> ClaimTerms {
        ClaimTerms { ttl_sec: Some(self.ttl_sec), force: self.force, ..ClaimTerms::default() }
    }

    fn give_back(&self) -> Said<Outcome> {
        match self.ledger.release(&self.node, Some(self.token), &self.terms()) {
            Ok(Said { value: Releasing::Released { .. }, warnings }) => said(Outcome::Kept { late_ms: None }, warnings),
            Ok(Said { value: Releasing::Denied(refused), warnings }) => said(self.lost(&refused), warnings),
            Err(error) => said(Outcome::Failed(error.to_string()), Vec::new()),
        }
    }

    /// It isn't ours any more.
    fn lost(&self, refused: &Refused) -> Outcome {
        let holder = match refused {
            Refused::Hold(denial) => denial.holder().cloned(),
            Refused::NoSuchNode | Refused::NotAvailable(_) => None,
        };
        // A token that isn't current says nothing about whose is.
        let holder = holder.or_else(|| self.entry().ok()?.map(|entry| entry.holder));
        Outcome::Lost(holder.map(Box::new))
    }

    /// Who has the node.
    fn entry(&self) -> Result<Option<ClaimEntry>, Error> {
        let claims = self.ledger.claims()?.value;
        Ok(claims.into_iter().find(|entry| entry.node == self.node && entry.lock_file.is_none()))
    }

    fn is_ours(&self, holder: &Holder) -> bool {
        holder.hold.token.is_some_and(|token| token.get() == self.token.get())
    }
}

impl Kept for Held {
    fn minded(&self) -> Arc<dyn Minded> {
        let ends_ms = AtomicU64::new(self.ends_ms(self.began_ms));
        Arc::new(Minder { held: self.clone(), seen: AtomicU64::new(0), ends_ms })
    }

    fn release(self: Box<Self>, _ended: Option<Ended>) -> Said<Outcome> {
        self.give_back()
    }
}

/// Looks after a claim.
struct Minder {
    held: Held,
    /// Up to this event it was ours.
    seen: AtomicU64,
    /// Until then at least it lasts.
    ends_ms: AtomicU64,
}

impl Minder {
    /// Waits for the ledger's lock no longer than the claim lasts, and leaves time for another try.
    fn patience(&self, now_ms: u64) -> LockPatience {
        let left_ms = self.ends_ms.load(Ordering::Relaxed).saturating_sub(now_ms);
        let patience = LockPatience::default();
        LockPatience { timeout: patience.timeout.min(Duration::from_millis(left_ms / 4 * 3)), ..patience }
    }
}

impl Minded for Minder {
    fn name(&self) -> &str {
        &self.held.node
    }

    fn renew(&self) -> Said<Outcome> {
        let held = &self.held;
        let now_ms = held.ledger.now().boottime_ms;
        let ledger = held.ledger.clone().patient(self.patience(now_ms));
        match ledger.extend(&held.node, Some(held.token), &held.terms()) {
            Ok(Said { value: Claiming::Claimed(_), warnings }) => {
                self.ends_ms.store(held.ends_ms(now_ms), Ordering::Relaxed);
                said(Outcome::Kept { late_ms: None }, warnings)
            }
            Ok(Said { value: Claiming::Denied { refused, .. }, warnings }) => said(held.lost(&refused), warnings),
            Ok(Said { value: Claiming::Interrupted, .. }) => unreachable!("nothing is waited for"),
            Err(error) => said(Outcome::Failed(error.to_string()), Vec::new()),
        }
    }

    fn look(&self) -> Outcome {
        let held = &self.held;
        let head = match held.ledger.head() {
            // Nothing has happened since.
            Ok(head) if head.value == self.seen.load(Ordering::Relaxed) => return Outcome::Kept { late_ms: None },
            Ok(head) => head.value,
            Err(error) => return Outcome::Failed(error.to_string()),
        };
        match held.entry() {
            Ok(Some(entry)) if held.is_ours(&entry.holder) => {
                self.seen.store(head, Ordering::Relaxed);
                Outcome::Kept { late_ms: None }
            }
            Ok(other) => Outcome::Lost(other.map(|entry| Box::new(entry.holder))),
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    fn successor(&self) -> Option<Holder> {
        let holder = self.held.entry().ok()??.holder;
        (holder.lives() && !self.held.is_ours(&holder)).then_some(holder)
    }
}

fn said(value: Outcome, warnings: Vec<String>) -> Said<Outcome> {
    Said { value, warnings }
}
