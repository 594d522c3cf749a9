//! Waiting for a lease: woken when the chain or the view changes, or the pulse of its holder stops; and when its time is over.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use lokt_core::denial::Denial;
use lokt_core::lease::names::File;
use lokt_core::lease::session::Session;

use super::Worktree;
use super::answers::{LeaseRefusal, LeaseTerms, Leasing};
use super::chain::Links;
use super::sight::Sight;
use super::take::Attempt;
use crate::error::{Error, ErrorKind};
use crate::sys::bell::{Bell, sleep_on};
use crate::wait::{Patience, Waiting};

/// How often to look at what the kernel doesn't report: other machines do what they do without it.
const LOOK: Duration = Duration::from_secs(1);
/// How often where it reports nothing.
const POLL: Duration = Duration::from_millis(100);

impl Worktree {
    pub(crate) fn pursue(
        &self,
        session: &Session,
        terms: &LeaseTerms,
        patience: &mut Patience<'_>,
    ) -> Result<(Leasing, Option<Box<Links>>), Error> {
        let mut sight = Sight::default();
        let began_ms = self.repo.machine.now().monotonic_ms;
        let timeout = patience.timeout.unwrap_or_default();
        loop {
            // Before the look: what changes after it wakes us.
            let watches = if patience.timeout.is_some() { self.watches() } else { Vec::new() };
            let refusal = match self.attempt(session, terms, &mut sight) {
                Ok(Attempt::Granted(lease, links)) => return Ok((Leasing::Granted(lease), Some(links))),
                Ok(Attempt::Refused(refusal)) => Some(refusal),
                Err(error) if error.kind() == ErrorKind::Busy && patience.timeout.is_some() => None,
                Err(error) => return Err(error),
            };
            let waited = Duration::from_millis(self.repo.machine.now().monotonic_ms.saturating_sub(began_ms));
            let left = timeout.saturating_sub(waited);
            match refusal {
                Some(refusal) if left.is_zero() || !may_pass(&refusal) => return Ok((Leasing::Denied(refusal), None)),
                None if left.is_zero() => return Err(self.too_busy()),
                refusal => {
                    if let (Some(refusal), Some(tell)) = (&refusal, patience.tell.as_mut()) {
                        let denial = &refusal.denial;
                        tell(&Waiting { name: self.name.as_str(), denial, ahead: 0, waited, left });
                    }
                    if self.sleep(refusal.as_deref(), &watches, left, patience)? {
                        return Ok((Leasing::Interrupted, None));
                    }
                }
            }
        }
    }

    /// What tells of changes: the chain, and the view beside it.
    fn watches(&self) -> Vec<OwnedFd> {
        let disk = &self.repo.disk;
        ["locks".to_owned(), self.chain_dir()].iter().filter_map(|dir| disk.changes(dir).ok()).collect()
    }

    /// True: the wait was interrupted.
    fn sleep(
        &self,
        refusal: Option<&LeaseRefusal>,
        watches: &[OwnedFd],
        left: Duration,
        patience: &mut Patience<'_>,
    ) -> Result<bool, Error> {
        let pulse = refusal.and_then(|refusal| refusal.record.as_ref()?.pulse);
        let bell = pulse.and_then(|pulse| {
            let bell = Bell::new().ok()?;
            let path = self.chain_file(&File::Pulse(pulse.number));
            self.repo.disk.watch(&path, &bell).unwrap_or(false).then_some(bell)
        });
        let tick = if watches.len() == 2 && (pulse.is_none() || bell.is_some()) { LOOK } else { POLL };
        // The last millisecond is still its owner's.
        let ends_in = refusal.and_then(|refusal| refusal.retry_after_ms).map(|ms| Duration::from_millis(ms + 1));
        let nap = tick.min(left).min(ends_in.unwrap_or(tick));
        let mut fds: Vec<_> = watches.iter().map(|fd| fd.as_fd()).collect();
        fds.extend(bell.as_ref().map(Bell::as_fd));
        fds.extend(patience.alarm.as_ref().map(|alarm| alarm.fd()));
        let ready = sleep_on(&fds, nap).map_err(|error| Error::io("wait in", &self.repo.path, error))?;
        let alarmed = patience.alarm.is_some() && ready.last() == Some(&true);
        Ok(alarmed && patience.alarm.as_mut().is_some_and(|alarm| alarm.went_off()))
    }
}

/// May waiting help?
fn may_pass(refusal: &LeaseRefusal) -> bool {
    matches!(refusal.denial, Denial::Held(_) | Denial::BeingWritten | Denial::Corrupt { .. })
}
