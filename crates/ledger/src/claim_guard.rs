//! Work under a claim: a command, or a part of this program. The claim is renewed during the work
//! and released afterwards.

use std::fmt;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lokt_core::denial::Holder;
use lokt_core::guard::{Ended, Guard, GuardConfig, OnLost, Outcome, RENEW_MS_MIN};
use lokt_core::ledger::claiming::Refused;
use lokt_core::ledger::seq::Seq;

use super::{ClaimEntry, ClaimTerms, Claimed, Claiming, Ledger, LockPatience, Releasing};
use lokt_guard::{
    ClockKind, Finished, Guardable, LOOK_MS, Notice, Renewable, Renewal, Renewer, Shell, drive, interrupted,
};
use lokt_sys::error::Error;
use lokt_sys::signals::SignalQueue;
use lokt_sys::spawn::spawn;
use lokt_sys::warnings::{Warning, WithWarnings};

/// A claim under which a command or a part of this program can run. Dropping it releases the claim.
pub struct ClaimGuard {
    /// `None` once the shell has it.
    held: Option<Held>,
}

/// A claim of ours.
#[derive(Clone)]
struct Held {
    ledger: Ledger,
    node: String,
    token: Seq,
    ttl_sec: u64,
    /// The start of its duration, by `CLOCK_BOOTTIME`.
    began_ms: u64,
    force: bool,
}

impl ClaimGuard {
    /// Guards a claim that was just made. `force` as it was then.
    pub fn new(ledger: Ledger, claimed: &Claimed, force: bool) -> Self {
        let (node, token, ttl_sec) = (claimed.node.clone(), claimed.token, claimed.ttl_sec);
        Self { held: Some(Held { ledger, node, token, ttl_sec, began_ms: claimed.at.boottime_ms, force }) }
    }

    /// Runs `command` and releases the claim afterwards. An error is one of starting it, unless it
    /// [had started](lokt_guard::had_started).
    pub fn run(
        mut self,
        command: &mut Command,
        on_lost: OnLost,
        inbox: &mut SignalQueue,
        tell: &mut dyn FnMut(&Notice<'_>),
    ) -> io::Result<Finished> {
        let held = self.held();
        command.env("LOKT_CLAIM_NODE", &held.node);
        command.env("LOKT_CLAIM_TOKEN", held.token.to_string());
        command.env("LOKT_LEDGER_DIR", held.ledger.path().parent().unwrap_or(held.ledger.path()));
        if let Some(finished) = interrupted(inbox) {
            return Ok(finished);
        }
        let own_group = on_lost == OnLost::Stop;
        let (machine, clock) = (Arc::clone(&held.ledger.machine), ClockKind::BootTime);
        let began_ms = held.began_ms;
        let pid = spawn(command, own_group, inbox.before(), Vec::new())?;
        let guard = held.guard(on_lost, began_ms, clock.now_ms(&*machine));
        let kept: Option<Box<dyn Guardable>> = self.held.take().map(|held| Box::new(held) as _);
        let mut shell = Shell::new(machine, vec![kept], pid, own_group).on_clock(clock);
        shell.pass_foreground();
        drive(shell, guard, inbox, tell)
    }

    /// Renews the claim in a thread until the renewer is dropped. If the claim is lost, `tell` is
    /// called once, with the new holder. Drop the renewer before this guard: no renewal may come
    /// after the release.
    pub fn renewer(&self, tell: impl FnOnce(Option<Box<Holder>>) + Send + 'static) -> Renewer {
        let held = self.held();
        let machine = Arc::clone(&held.ledger.machine);
        let now_ms = move || ClockKind::BootTime.now_ms(&*machine);
        let guard = held.guard(OnLost::Warn, held.began_ms, now_ms());
        Renewer::start(held.minded(), guard, now_ms, tell)
    }

    /// Renews the claim now, for as long as it was asked for.
    pub fn extend(&self) -> Result<WithWarnings<Claiming>, Error> {
        let held = self.held();
        held.ledger.extend(&held.node, Some(held.token), &held.terms())
    }

    /// Checks whether the claim is still ours.
    pub fn look(&self) -> Outcome {
        self.held().minded().look()
    }

    /// Releases the claim. An error leaves it to expire.
    pub fn release(mut self) -> Result<WithWarnings<Releasing>, Error> {
        let Some(held) = self.held.take() else { unreachable!("it is released once") };
        held.ledger.release(&held.node, Some(held.token), &held.terms())
    }

    fn held(&self) -> &Held {
        let Some(held) = &self.held else { unreachable!("running and releasing take the guard away") };
        held
    }
}

impl fmt::Debug for ClaimGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held.as_ref().map(|held| (&held.node, held.token));
        f.debug_struct("ClaimGuard").field("held", &held).finish_non_exhaustive()
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
    /// The end of a claim that began at `began_ms`.
    fn ends_ms(&self, began_ms: u64) -> u64 {
        began_ms.saturating_add(self.ttl_sec.saturating_mul(1000))
    }

    /// The rules by which it is renewed: two renewals may fail before it expires.
    fn guard(&self, on_lost: OnLost, began_ms: u64, now_ms: u64) -> Guard {
        let config = GuardConfig { ttl_sec: Some(self.ttl_sec), on_lost, until_all: false, look_ms: Some(LOOK_MS) };
        let interval_ms = (self.ttl_sec.saturating_mul(1000) / 3).max(RENEW_MS_MIN);
        let guard = Guard::new(config, &[began_ms], now_ms);
        guard.renewing_every(interval_ms).ending_for_good(&[began_ms])
    }

    fn terms(&self) -> ClaimTerms {
        ClaimTerms { ttl_sec: Some(self.ttl_sec), force: self.force, ..ClaimTerms::default() }
    }

    fn give_back(&self) -> WithWarnings<Outcome> {
        match self.ledger.release(&self.node, Some(self.token), &self.terms()) {
            Ok(WithWarnings { value: Releasing::Released { .. }, warnings }) => {
                said(Outcome::Kept { late_ms: None }, warnings)
            }
            Ok(WithWarnings { value: Releasing::Denied(refused), warnings }) => said(self.lost(&refused), warnings),
            Err(error) => said(Outcome::Failed(error.to_string()), Vec::new()),
        }
    }

    /// The outcome of a claim that isn't ours any more.
    fn lost(&self, refused: &Refused) -> Outcome {
        let holder = match refused {
            Refused::Hold(denial) => denial.holder().cloned(),
            Refused::NoSuchNode | Refused::NotAvailable(_) => None,
        };
        // A refused token doesn't tell who holds the current one.
        let holder = holder.or_else(|| self.entry().ok()?.map(|entry| entry.holder));
        Outcome::Lost(holder.map(Box::new))
    }

    /// The holder of the node.
    fn entry(&self) -> Result<Option<ClaimEntry>, Error> {
        let claims = self.ledger.claims()?.value;
        Ok(claims.into_iter().find(|entry| entry.node == self.node && entry.lock_file.is_none()))
    }

    fn is_ours(&self, holder: &Holder) -> bool {
        holder.hold.token.is_some_and(|token| token.get() == self.token.get())
    }
}

impl Guardable for Held {
    fn minded(&self) -> Arc<dyn Renewable> {
        let ends_ms = AtomicU64::new(self.ends_ms(self.began_ms));
        Arc::new(ClaimRenewal { held: self.clone(), seen: AtomicU64::new(0), ends_ms })
    }

    fn release(self: Box<Self>, _ended: Option<Ended>) -> WithWarnings<Outcome> {
        self.give_back()
    }
}

/// Renews a claim.
struct ClaimRenewal {
    held: Held,
    /// The last event up to which it was ours.
    seen: AtomicU64,
    /// The earliest time at which it may end.
    ends_ms: AtomicU64,
}

impl ClaimRenewal {
    /// Waits for the ledger's lock no longer than the claim lasts, and leaves time for another try.
    fn patience(&self, now_ms: u64) -> LockPatience {
        let left_ms = self.ends_ms.load(Ordering::Relaxed).saturating_sub(now_ms);
        let patience = LockPatience::default();
        LockPatience { timeout: patience.timeout.min(Duration::from_millis(left_ms / 4 * 3)), ..patience }
    }
}

impl Renewable for ClaimRenewal {
    fn name(&self) -> &str {
        &self.held.node
    }

    fn renew(&self) -> WithWarnings<Renewal> {
        let held = &self.held;
        let began_ms = held.ledger.now().boottime_ms;
        let ledger = held.ledger.clone().patient(self.patience(began_ms));
        let (outcome, warnings) = match ledger.extend(&held.node, Some(held.token), &held.terms()) {
            Ok(WithWarnings { value: Claiming::Claimed(_), warnings }) => {
                self.ends_ms.store(held.ends_ms(began_ms), Ordering::Relaxed);
                (Outcome::Kept { late_ms: None }, warnings)
            }
            Ok(WithWarnings { value: Claiming::Denied { refused, .. }, warnings }) => (held.lost(&refused), warnings),
            Ok(WithWarnings { value: Claiming::Interrupted, .. }) => unreachable!("nothing is waited for"),
            Err(error) => (Outcome::Failed(error.to_string()), Vec::new()),
        };
        WithWarnings { value: Renewal { began_ms, outcome }, warnings }
    }

    fn look(&self) -> Outcome {
        let held = &self.held;
        let head = match held.ledger.head() {
            // The ledger hasn't changed.
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

fn said(value: Outcome, warnings: Vec<Warning>) -> WithWarnings<Outcome> {
    WithWarnings { value, warnings }
}
