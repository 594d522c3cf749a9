//! Running a command under a claim: renewed while it runs, given back when it has ended.

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lokt_core::denial::Holder;
use lokt_core::guard::{Ended, Guard, Manners, OnLost, Outcome, RENEW_MS_MIN};
use lokt_core::ledger::claiming::Refused;
use lokt_core::ledger::seq::Seq;

use super::Notice;
use super::kept::{Kept, Minded};
use super::shell::Shell;
use crate::ledger::{ClaimTerms, Claimed, Claiming, Ledger, Releasing};
use crate::locks::Said;
use crate::sys::machine::{Linux, Machine};
use crate::sys::signals::Inbox;
use crate::sys::spawn::spawn;
use crate::wait::Alarm as _;

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
    force: bool,
}

impl ClaimGuard {
    /// Looks after a claim that was just made. `force` as it was then.
    pub fn new(ledger: Ledger, claimed: &Claimed, force: bool) -> Self {
        let (node, token, ttl_sec) = (claimed.node.clone(), claimed.token, claimed.ttl_sec);
        Self { held: Some(Held { ledger, node, token, ttl_sec, force }) }
    }

    /// Runs `command` and gives the claim back when it has ended. Gives the code to exit with; an error is one of starting it.
    pub fn run(
        mut self,
        command: &mut Command,
        on_lost: OnLost,
        inbox: &mut Inbox,
        tell: &mut dyn FnMut(&Notice<'_>),
    ) -> io::Result<u8> {
        let Some(held) = &self.held else { unreachable!("it is run once") };
        command.env("LOKT_CLAIM_NODE", &held.node);
        command.env("LOKT_CLAIM_TOKEN", held.token.to_string());
        command.env("LOKT_LEDGER_DIR", held.ledger.path().parent().unwrap_or(held.ledger.path()));
        // Whoever pressed Ctrl-C while the node was being claimed pressed it before there was a command to reach.
        if inbox.went_off() {
            return Ok(Ended::Signal(inbox.ended_by().and_then(|signal| u8::try_from(signal).ok()).unwrap_or(0)).code());
        }
        let own_group = on_lost == OnLost::Stop;
        let machine: Arc<dyn Machine> = Arc::new(Linux);
        let began_ms = machine.now().monotonic_ms;
        let pid = spawn(command, own_group, inbox.before())?;
        let manners = Manners { ttl_sec: Some(held.ttl_sec), on_lost, until_all: false };
        // Two renewals may fail before the lease is over.
        let interval_ms = (held.ttl_sec.saturating_mul(1000) / 3).max(RENEW_MS_MIN);
        let guard = Guard::new(manners, &[began_ms], began_ms).renewing_every(interval_ms);
        let kept: Option<Box<dyn Kept>> = self.held.take().map(|held| Box::new(held) as _);
        let mut shell = Shell::new(machine, vec![kept], pid, own_group);
        shell.pass_foreground();
        shell.drive(guard, inbox, tell)
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
    fn terms(&self) -> ClaimTerms {
        ClaimTerms { ttl_sec: Some(self.ttl_sec), force: self.force, ..ClaimTerms::default() }
    }

    fn give_back(&self) -> Said<Outcome> {
        match self.ledger.release(&self.node, Some(self.token), &self.terms()) {
            Ok(Said { value: Releasing::Released { .. }, warnings }) => said(Outcome::Kept { late_ms: None }, warnings),
            Ok(Said { value: Releasing::Denied(refused), warnings }) => said(lost(&refused), warnings),
            Err(error) => said(Outcome::Failed(error.to_string()), Vec::new()),
        }
    }
}

impl Kept for Held {
    fn minded(&self) -> Arc<dyn Minded> {
        Arc::new(Minder { held: self.clone(), seen: AtomicU64::new(0) })
    }

    fn release(self: Box<Self>) -> Said<Outcome> {
        self.give_back()
    }
}

/// Looks after a claim.
struct Minder {
    held: Held,
    /// Up to this event it was ours.
    seen: AtomicU64,
}

impl Minded for Minder {
    fn name(&self) -> &str {
        &self.held.node
    }

    fn renew(&self) -> Said<Outcome> {
        let held = &self.held;
        match held.ledger.extend(&held.node, Some(held.token), &held.terms()) {
            Ok(Said { value: Claiming::Claimed(_), warnings }) => said(Outcome::Kept { late_ms: None }, warnings),
            Ok(Said { value: Claiming::Denied { refused, .. }, warnings }) => said(lost(&refused), warnings),
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
        let claims = match held.ledger.claims() {
            Ok(claims) => claims.value,
            Err(error) => return Outcome::Failed(error.to_string()),
        };
        let ours = |holder: &Holder| holder.hold.token.is_some_and(|token| token.get() == held.token.get());
        match claims.into_iter().find(|entry| entry.node == held.node && entry.lock_file.is_none()) {
            Some(entry) if ours(&entry.holder) => {
                self.seen.store(head, Ordering::Relaxed);
                Outcome::Kept { late_ms: None }
            }
            other => Outcome::Lost(other.map(|entry| Box::new(entry.holder))),
        }
    }
}

/// It isn't ours any more.
fn lost(refused: &Refused) -> Outcome {
    let holder = match refused {
        Refused::Hold(denial) => denial.holder().cloned(),
        Refused::NoSuchNode | Refused::NotAvailable(_) => None,
    };
    Outcome::Lost(holder.map(Box::new))
}

fn said(value: Outcome, warnings: Vec<String>) -> Said<Outcome> {
    Said { value, warnings }
}
