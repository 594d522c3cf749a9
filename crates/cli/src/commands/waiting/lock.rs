//! A wait for a lock: the waiter's position in the queue, the holder, and deadlocks.

use std::time::Duration;

use lokt_core::denial::Denial;
use lokt_core::duration;
use lokt_core::hold::LockId;
use lokt_core::liveness::Liveness;
use lokt_core::name::LockName;
use lokt_named::{EntryState, Link, Lokt};
use lokt_sys::wait_policy::Waiting;

use super::{Display, Subject as Waited, how_long};
use crate::members::{KeeperMembers, kept_by};
use crate::report::say;
use crate::show::{Subject, age, clean, owner_at, pid_of, quoted, refusal, renews, seconds};
use crate::width;

/// On a terminal, a wait that was longer than this is worth a line that stays.
const LONG: Duration = Duration::from_secs(2);
/// A holder's name is cut to what fits, but not shorter than this.
const WHO_COLUMNS_MIN: usize = 8;
/// How often a waiter that holds something looks for a circle.
const LOOK_MS: u64 = 1_000;
/// For how long it is believed who keeps a hold: finding out means looking at every process.
const KEEPERS_MS: u64 = 5_000;
/// A lock's name is cut to this.
const NAME_COLUMNS_MAX: usize = 24;

/// A lock that a command waits for.
pub(crate) struct LockWait<'a> {
    lokt: &'a Lokt,
    began_ms: u64,
    /// The caller holds something, so it can be part of a deadlock.
    may_deadlock: bool,
    /// Time of the last search for a deadlock, by the monotonic clock.
    looked_ms: Option<u64>,
    /// The tickets in the deadlock that was reported last.
    told: Option<Vec<u64>>,
    /// The processes that keep a hold whose guard is gone, with the time of the search and the hold's id.
    kept: Option<(u64, LockId, Vec<KeeperMembers>)>,
    /// The hold whose guard is gone.
    orphan: Option<Denial>,
}

impl<'a> LockWait<'a> {
    pub(crate) fn new(lokt: &'a Lokt, may_deadlock: bool) -> Self {
        Self {
            lokt,
            began_ms: lokt.now().monotonic_ms,
            may_deadlock,
            looked_ms: None,
            told: None,
            kept: None,
            orphan: None,
        }
    }

    /// Says once that those who wait stand in a circle, as soon as they do.
    fn warn_of_deadlock(&mut self, name: &str, clear: &str) {
        let now_ms = self.lokt.now().monotonic_ms;
        if self.looked_ms.is_some_and(|at| now_ms < at + LOOK_MS) {
            return;
        }
        self.looked_ms = Some(now_ms);
        // What can't be looked at is no circle.
        let found = LockName::new(name).ok().and_then(|name| self.lokt.inspect().deadlock(&name).ok().flatten());
        let tickets =
            found.as_ref().map(|cycle| cycle.iter().map(|link| link.waiter.ticket.number).collect::<Vec<_>>());
        if let Some(cycle) = found.filter(|_| tickets != self.told) {
            say(&format!("{clear}{}", deadlock(cycle, self.lokt.me().pid)));
        }
        self.told = tickets;
    }

    /// Who holds it, if its guard is gone and something that it ran keeps it. That is not what a waiter wakes for.
    fn look_for_orphan(&mut self, waiting: &Waiting<'_>) -> Option<Denial> {
        let now_ms = self.lokt.now().monotonic_ms;
        let orphan = match waiting.denial {
            Denial::Held(holder) if holder.liveness == Liveness::Orphan => Some(holder.clone()),
            Denial::Held(holder)
                if holder.hold.pulse.is_some() && self.lokt.inspect().pid_status(&holder.hold) != "alive" =>
            {
                let holder = self.lokt.freezes().still_held(&LockName::new(waiting.name).ok()?).ok().flatten();
                holder.filter(|holder| holder.liveness == Liveness::Orphan).map(Box::new)
            }
            _ => None,
        };
        let Some(orphan) = orphan else {
            self.kept = None;
            return None;
        };
        let is_known =
            |(at, lock_id, _): &(u64, LockId, _)| *lock_id == orphan.hold.lock_id && now_ms < at + KEEPERS_MS;
        if !self.kept.as_ref().is_some_and(is_known) {
            self.kept = Some((now_ms, orphan.hold.lock_id.clone(), kept_by(self.lokt, &orphan)));
        }
        Some(Denial::Held(orphan))
    }

    /// The obstacle as it was when the holder was last inspected.
    fn denial<'w>(&'w self, waiting: &'w Waiting<'_>) -> &'w Denial {
        self.orphan.as_ref().unwrap_or(waiting.denial)
    }

    /// The present holder: a waiter with others ahead looks only when it is first. On a terminal the line is new.
    fn denial_by_now(&self, waiting: &Waiting<'_>) -> Option<Denial> {
        if !matches!(self.denial(waiting), Denial::Held(_)) {
            return None;
        }
        match self.lokt.inspect().entry(&LockName::new(waiting.name).ok()?).ok().flatten()?.state {
            EntryState::Held(holder) if holder.lives() => Some(Denial::Held(holder)),
            _ => None,
        }
    }

    /// The present number of waiters ahead of this process.
    fn ahead(&self, name: &str) -> Option<usize> {
        let me = self.lokt.me().pid;
        let line = self.lokt.inspect().queue(&LockName::new(name).ok()?).ok()?;
        line.iter().position(|waiter| waiter.pulse.process.pid == me)
    }
}

impl Waited for LockWait<'_> {
    fn warn(&mut self, waiting: &Waiting<'_>, clear: &str) {
        if self.may_deadlock {
            self.warn_of_deadlock(waiting.name, clear);
        }
    }

    fn inspect(&mut self, waiting: &Waiting<'_>) -> bool {
        let was_kept = self.kept.is_some();
        self.orphan = self.look_for_orphan(waiting);
        self.kept.is_some() && !was_kept
    }

    fn line(&self, waiting: &Waiting<'_>, live: bool) -> String {
        let now = self.lokt.now().wall;
        let name = waiting.name;
        let place = match live.then(|| self.ahead(name)).flatten().unwrap_or(waiting.ahead) {
            0 => "first in line".to_owned(),
            1 => "1 ahead".to_owned(),
            ahead => format!("{ahead} ahead"),
        };
        let denial = live.then(|| self.denial_by_now(waiting)).flatten();
        let obstacle = match denial.as_ref().unwrap_or_else(|| self.denial(waiting)) {
            Denial::Held(holder) => {
                let hold = &holder.hold;
                let end = match holder.left_ms() {
                    Some(left_ms) => format!(", lease for {} more", duration::show_seconds(seconds(left_ms))),
                    None => String::new(),
                };
                let kept = self.kept.as_ref().and_then(|(_, _, keepers)| what_keeps_it(keepers));
                let kept = kept.map(|kept| format!("; its guard is gone, {kept}")).unwrap_or_default();
                format!("held by {}{} for {}{end}{kept}", owner_at(hold), pid_of(hold), age(hold.began(), now))
            }
            denial => refusal(Subject::Lock, name, denial, "", now),
        };
        format!("waiting for lock {}: {place}; {obstacle}; {}", quoted(name), how_long(waiting))
    }

    /// Name, position, owner and remaining time: the rest is in `lokt why`.
    fn short_line(&self, waiting: &Waiting<'_>, columns: usize) -> Option<String> {
        let name = width::cut_middle(waiting.name, NAME_COLUMNS_MAX);
        let place = match self.ahead(waiting.name).unwrap_or(waiting.ahead) {
            0 => "next".to_owned(),
            ahead => format!("{ahead} ahead"),
        };
        let before = format!("waiting for {}: {place}, ", quoted(&name));
        let denial = self.denial_by_now(waiting);
        let (state, hold, left_ms) = match denial.as_ref().unwrap_or_else(|| self.denial(waiting)) {
            Denial::Held(holder) => ("held by", &holder.hold, holder.left_ms().filter(|_| !renews(holder))),
            Denial::Frozen(Some(freeze)) => ("frozen by", &freeze.hold, freeze.elapsed.left_ms()),
            denial => return Some(before + &refusal(Subject::Lock, waiting.name, denial, "", self.lokt.now().wall)),
        };
        let lease = left_ms.map(|ms| format!(" ({} left)", duration::show_seconds(seconds(ms)))).unwrap_or_default();
        // A holder on this host is shown without the host.
        let who = if hold.host == self.lokt.me().host { clean(&hold.owner) } else { owner_at(hold) };
        let timeout =
            waiting.left.map_or(", no timeout".to_owned(), |left| format!(", timeout {}", duration::show(left)));
        let rest = columns.saturating_sub(width::of(&before) + state.len() + 1 + lease.len());
        // The reader chose the timeout, but can't know the holder.
        let who_columns = if lease.is_empty() { WHO_COLUMNS_MIN } else { width::of(&who) };
        let timeout = if who_columns + timeout.len() <= rest { timeout } else { String::new() };
        let who = width::cut_middle(&who, rest.saturating_sub(timeout.len()).max(WHO_COLUMNS_MIN));
        Some(format!("{before}{state} {who}{lease}{timeout}"))
    }
}

impl Display<LockWait<'_>> {
    /// Ends the wait. `got`: the lock was acquired.
    pub(crate) fn end(&mut self, name: &str, got: bool) {
        if !self.clear() {
            return;
        }
        let wait = &self.subject;
        let waited = Duration::from_millis(wait.lokt.now().monotonic_ms.saturating_sub(wait.began_ms));
        if got && (self.live != Some(true) || waited >= LONG) {
            say(&format!("got lock {} after {}\n", quoted(name), duration::show(waited)));
        }
    }
}

/// A circle of processes that wait for each other, told to the process `me`.
fn deadlock(mut cycle: Vec<Link>, me: i64) -> String {
    let ours = cycle.iter().position(|link| link.waiter.pulse.process.pid == me);
    cycle.rotate_left(ours.unwrap_or(0));
    let mut names: Vec<&str> = cycle.iter().flat_map(|link| [link.holds.as_str(), link.waits_for.as_str()]).collect();
    names.sort_unstable();
    names.dedup();
    let told: Vec<String> = cycle
        .iter()
        .map(|link| {
            let (holds, waits_for) = (quoted(link.holds.as_str()), quoted(link.waits_for.as_str()));
            let pulse = &link.waiter.pulse;
            if pulse.process.pid == me {
                format!("you hold {holds} and wait for {waits_for}")
            } else {
                format!("{} (pid {}) holds {holds} and waits for {waits_for}", clean(&pulse.owner), pulse.process.pid)
            }
        })
        .collect();
    let kills: Vec<String> = cycle.iter().map(|link| format!("`kill {}`", link.waiter.pulse.process.pid)).collect();
    let together = match names.as_slice() {
        // A process that waits for what it is inside of.
        [_] => String::new(),
        names => format!("; next time, `lokt guard {} -- COMMAND` takes them together", names.join(" ")),
    };
    format!(
        "warning: deadlock: {}\nhint: ending one of these waits is enough: {}{together}\n",
        told.join("; "),
        kills.join(", ")
    )
}

/// `kept by sleep (pid 42): `kill 42` ends it`, of a hold whose guard is gone.
pub(crate) fn what_keeps_it(keepers: &[KeeperMembers]) -> Option<String> {
    let list = |show: &dyn Fn(&KeeperMembers) -> String, between: &str| {
        keepers.iter().map(show).collect::<Vec<_>>().join(between)
    };
    let kill = list(&|keeper| keeper.pid.to_string(), " ");
    (!keepers.is_empty()).then(|| format!("kept by {}: `kill {kill}` ends it", list(&KeeperMembers::line, ", ")))
}
