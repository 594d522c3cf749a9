//! One renewal for all holds of a request.
//!
//! Where a store itself ends leases, keeping the presence of a request renews all its holds. A
//! guard renews each hold in its own thread: the first sends, the others receive the answer.

use std::sync::Arc;
use std::time::Duration;

use lokt_core::decide::HoldKey;
use lokt_core::denial::Holder;
use lokt_core::guard::Outcome;
use lokt_core::name::LockName;
use lokt_core::time::Moment;

use crate::store::{Call, Kept, Presence};
use lokt_guard::Renewal;
use lokt_sys::threads::{Condvar, Mutex, locked, sleep_until};

/// Maximum time that a renewal may take.
const RENEWAL: Duration = Duration::from_secs(5);

/// The renewal that the holds of one request share.
pub(crate) struct SharedRenewal {
    presence: Arc<dyn Presence>,
    holds: Vec<(LockName, HoldKey)>,
    round: Mutex<Round>,
    ended: Condvar,
}

/// The renewal under way, and the result of the last one.
#[derive(Default)]
struct Round {
    is_under_way: bool,
    /// Number of callers that wait for it.
    sharers: usize,
    last: Option<Answered>,
}

/// Result of a renewal.
#[derive(Clone)]
enum Answered {
    Kept { began_ms: u64, each: Vec<Result<(), Option<Box<Holder>>>> },
    Failed { began_ms: u64, why: String },
}

impl SharedRenewal {
    /// Returns a renewal of `holds`, which `presence` keeps alive.
    pub(crate) fn new(presence: Arc<dyn Presence>, holds: Vec<(LockName, HoldKey)>) -> Self {
        Self { presence, holds, round: Mutex::default(), ended: Condvar::default() }
    }

    /// Renews all holds, or waits for the renewal that is under way. Returns the result for `name`.
    pub(crate) fn renew(&self, name: &LockName, now: &Moment) -> Renewal {
        let leads = {
            let mut round = locked(&self.round);
            let leads = !std::mem::replace(&mut round.is_under_way, true);
            round.sharers += usize::from(!leads);
            leads
        };
        let answered = if leads { self.send(now) } else { self.wait() };
        match answered {
            Answered::Failed { began_ms, why } => Renewal { began_ms, outcome: Outcome::Failed(why) },
            Answered::Kept { began_ms, each } => {
                let place = self.holds.iter().position(|(held, _)| held == name);
                let outcome = match place.and_then(|place| each.into_iter().nth(place)) {
                    Some(Ok(())) => Outcome::Kept { late_ms: None },
                    Some(Err(holder)) => Outcome::Lost(holder),
                    None => Outcome::Failed(format!("the renewal of {name} wasn't answered")),
                };
                Renewal { began_ms, outcome }
            }
        }
    }

    fn send(&self, now: &Moment) -> Answered {
        let answered = match self.presence.keep(&self.holds, &Call::within(RENEWAL, now)) {
            Ok(Kept { lasts, each }) => {
                Answered::Kept { began_ms: lasts.map_or(*now, |lasts| lasts.sent).boottime_ms, each }
            }
            Err(error) => Answered::Failed { began_ms: now.boottime_ms, why: error.to_string() },
        };
        let mut round = locked(&self.round);
        *round = Round { is_under_way: false, sharers: 0, last: Some(answered.clone()) };
        drop(round);
        self.ended.notify_all();
        answered
    }

    fn wait(&self) -> Answered {
        while !sleep_until(&self.round, &self.ended, RENEWAL, |round| !round.is_under_way) {}
        locked(&self.round).last.clone().expect("a renewal that has ended was answered")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    use lokt_core::decide::HoldKey;
    use lokt_core::guard::Outcome;
    use lokt_core::hold::LockId;
    use lokt_core::name::LockName;

    use super::SharedRenewal;
    use crate::store::{Call, Kept, Lasts, Presence};
    use lokt_sys::error::Error;
    use lokt_sys::machine::{Linux, Machine as _};
    use lokt_sys::threads::locked;

    /// A presence that counts its renewals. The second hold is lost.
    #[derive(Default)]
    struct Session {
        renewals: AtomicUsize,
        gate: Option<Arc<Barrier>>,
    }

    impl Presence for Session {
        fn keep(&self, holds: &[(LockName, HoldKey)], _call: &Call<'_>) -> Result<Kept, Error> {
            self.renewals.fetch_add(1, Ordering::SeqCst);
            if let Some(gate) = &self.gate {
                gate.wait();
            }
            let each = (0..holds.len()).map(|hold| if hold == 1 { Err(None) } else { Ok(()) }).collect();
            Ok(Kept { lasts: Some(Lasts { sent: Linux.now(), ttl: Duration::from_secs(15) }), each })
        }
    }

    fn holds() -> Vec<(LockName, HoldKey)> {
        let key = || HoldKey { lock_id: LockId::from_bits(1), token: None, pulse: None };
        ["a", "b", "c"].map(|name| (LockName::new(name).expect("a name"), key())).into()
    }

    #[test]
    fn each_hold_of_a_request_gets_its_own_answer() {
        let renewal = SharedRenewal::new(Arc::new(Session::default()), holds());
        let renew = |(name, _): &(LockName, HoldKey)| renewal.renew(name, &Linux.now()).outcome;
        let outcomes: Vec<Outcome> = holds().iter().map(renew).collect();
        assert_eq!(outcomes[0], Outcome::Kept { late_ms: None }, "the first is still there");
        assert_eq!(outcomes[1], Outcome::Lost(None), "the second is lost");
        assert_eq!(outcomes[2], Outcome::Kept { late_ms: None }, "the third isn't affected");
    }

    #[test]
    fn renewals_at_the_same_time_are_sent_once() {
        let gate = Arc::new(Barrier::new(2));
        let session = Arc::new(Session { gate: Some(Arc::clone(&gate)), ..Session::default() });
        let renewal = &SharedRenewal::new(Arc::clone(&session) as Arc<dyn Presence>, holds());
        std::thread::scope(|scope| {
            let first = scope.spawn(|| renewal.renew(&holds()[0].0, &Linux.now()));
            while !locked(&renewal.round).is_under_way {
                std::thread::yield_now();
            }
            let others: Vec<_> =
                [1, 2].map(|hold: usize| scope.spawn(move || renewal.renew(&holds()[hold].0, &Linux.now()))).into();
            // They wait for the answer of the first, which can't come yet.
            while locked(&renewal.round).sharers < others.len() {
                std::thread::yield_now();
            }
            gate.wait();
            let began_ms = first.join().expect("it doesn't panic").began_ms;
            for other in others {
                let renewed = other.join().expect("it doesn't panic");
                assert_eq!(renewed.began_ms, began_ms, "the renewal that counts began once");
            }
        });
        assert_eq!(session.renewals.load(Ordering::SeqCst), 1, "one renewal was sent");
    }
}
