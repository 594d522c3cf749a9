//! What a waiting command shows: one live line on a terminal; elsewhere a line at the start, one a minute, one at the end.

use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use lokt::sys::terminal::Size;
use lokt::{Denial, EntryState, Inbox, Link, Liveness, LockId, LockName, Lokt, Waiting, duration};
use serde::Serialize;

use crate::exit::Exit;
use crate::members::{KeeperMembers, kept_by};
use crate::outbox;
pub(super) use crate::progress::CLEAR;
use crate::report::{Failure, Format, Report, say};
use crate::show::{Subject, age, clean, owner_at, pid_of, quoted, refusal, renews, seconds};
use crate::width;

/// Off a terminal, how often a wait says that it still waits.
const REMINDER: Duration = Duration::from_secs(60);
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

/// Shows how a wait stands.
pub(crate) struct Display<'a> {
    lokt: &'a Lokt,
    /// Is there a terminal? Asked when there is something to show.
    live: Option<bool>,
    /// When something was last said, and how long it had been waited then.
    said: Option<Duration>,
    began_ms: u64,
    /// Nothing but warnings is shown.
    quiet: bool,
    /// Look whether those who wait for each other stand in a circle: for somebody who holds something.
    pub(crate) may_deadlock: bool,
    /// When that was last looked for, by the monotonic clock.
    looked_ms: Option<u64>,
    /// The circle that was told of: the tickets in it.
    told: Option<Vec<u64>>,
    /// Who keeps the hold of a guard that is gone, since when that is known, and which hold it is.
    kept: Option<(u64, LockId, Vec<KeeperMembers>)>,
}

impl<'a> Display<'a> {
    pub(crate) fn new(lokt: &'a Lokt) -> Self {
        Self {
            lokt,
            live: None,
            said: None,
            began_ms: lokt.now().monotonic_ms,
            quiet: false,
            may_deadlock: false,
            looked_ms: None,
            told: None,
            kept: None,
        }
    }

    /// A display that shows nothing if `quiet`.
    pub(crate) fn quiet(mut self, quiet: bool) -> Self {
        self.quiet = quiet;
        self
    }

    pub(crate) fn show(&mut self, waiting: &Waiting<'_>) {
        let live = *self.live.get_or_insert_with(|| stderr().is_terminal());
        if self.may_deadlock {
            self.warn_of_deadlock(waiting.name);
        }
        if self.quiet {
            return;
        }
        let was_kept = self.kept.is_some();
        let orphan = self.look_for_orphan(waiting);
        let waiting = &Waiting { denial: orphan.as_ref().unwrap_or(waiting.denial), ..*waiting };
        if live {
            say(&format!("{CLEAR}{}", self.fitting_line(waiting)));
        } else if self.said.is_none_or(|at| waiting.waited >= at + REMINDER) || self.kept.is_some() && !was_kept {
            say(&format!("{}\n", self.line(waiting)));
        } else {
            return;
        }
        self.said = Some(waiting.waited);
    }

    /// Says once that those who wait stand in a circle, as soon as they do.
    fn warn_of_deadlock(&mut self, name: &str) {
        let now_ms = self.lokt.now().monotonic_ms;
        if self.looked_ms.is_some_and(|at| now_ms < at + LOOK_MS) {
            return;
        }
        self.looked_ms = Some(now_ms);
        // What can't be looked at is no circle.
        let found = LockName::new(name).ok().and_then(|name| self.lokt.deadlock(&name).ok().flatten());
        let tickets =
            found.as_ref().map(|cycle| cycle.iter().map(|link| link.waiter.ticket.number).collect::<Vec<_>>());
        if let Some(cycle) = found.filter(|_| tickets != self.told) {
            let clear = if self.live == Some(true) && self.said.is_some() { CLEAR } else { "" };
            say(&format!("{clear}{}", deadlock(cycle, self.lokt.me().pid)));
        }
        self.told = tickets;
    }

    /// Who holds it, if its guard is gone and something that it ran keeps it. That is not what a waiter wakes for.
    fn look_for_orphan(&mut self, waiting: &Waiting<'_>) -> Option<Denial> {
        let now_ms = self.lokt.now().monotonic_ms;
        let orphan = match waiting.denial {
            Denial::Held(holder) if holder.liveness == Liveness::Orphan => Some(holder.clone()),
            Denial::Held(holder) if holder.hold.pulse.is_some() && self.lokt.pid_status(&holder.hold) != "alive" => {
                let holder = self.lokt.still_held(&LockName::new(waiting.name).ok()?).ok().flatten();
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

    /// The wait is over.
    pub(crate) fn end(&self, name: &str, got: bool) {
        if self.said.is_none() {
            return;
        }
        let live = self.live == Some(true);
        if live {
            say(CLEAR);
        }
        let waited = Duration::from_millis(self.lokt.now().monotonic_ms.saturating_sub(self.began_ms));
        if got && (!live || waited >= LONG) {
            say(&format!("got lock {} after {}\n", quoted(name), duration::show(waited)));
        }
    }

    /// What fits one line of the terminal: a longer one would scroll away instead of being replaced.
    fn fitting_line(&self, waiting: &Waiting<'_>) -> String {
        let line = self.line(waiting);
        match Size::of(stderr()) {
            Some(Size { columns, .. }) if width::of(&line) >= columns => {
                width::cut(&self.short_line(waiting, columns - 1), columns - 1)
            }
            _ => line,
        }
    }

    /// What we wait for, in which place, whose it is and for how long: the rest is in `lokt why`.
    fn short_line(&self, waiting: &Waiting<'_>, columns: usize) -> String {
        let name = width::cut_middle(waiting.name, NAME_COLUMNS_MAX);
        let place = match self.ahead(waiting.name).unwrap_or(waiting.ahead) {
            0 => "next".to_owned(),
            ahead => format!("{ahead} ahead"),
        };
        let before = format!("waiting for {}: {place}, ", quoted(&name));
        let denial = self.denial_by_now(waiting);
        let (state, hold, left_ms) = match denial.as_ref().unwrap_or(waiting.denial) {
            Denial::Held(holder) => ("held by", &holder.hold, holder.left_ms().filter(|_| !renews(holder))),
            Denial::Frozen(Some(freeze)) => ("frozen by", &freeze.hold, freeze.elapsed.left_ms()),
            denial => return before + &refusal(Subject::Lock, waiting.name, denial, "", self.lokt.now().wall),
        };
        let lease = left_ms.map(|ms| format!(" ({} left)", duration::show_seconds(seconds(ms)))).unwrap_or_default();
        // Where it is here, that goes without saying.
        let who = if hold.host == self.lokt.me().host { clean(&hold.owner) } else { owner_at(hold) };
        let timeout =
            waiting.left.map_or(", no timeout".to_owned(), |left| format!(", timeout {}", duration::show(left)));
        let rest = columns.saturating_sub(width::of(&before) + state.len() + 1 + lease.len());
        // Whoever waits chose the timeout; whose lock it is they can't know.
        let who_columns = if lease.is_empty() { WHO_COLUMNS_MIN } else { width::of(&who) };
        let timeout = if who_columns + timeout.len() <= rest { timeout } else { String::new() };
        let who = width::cut_middle(&who, rest.saturating_sub(timeout.len()).max(WHO_COLUMNS_MIN));
        format!("{before}{state} {who}{lease}{timeout}")
    }

    fn line(&self, waiting: &Waiting<'_>) -> String {
        let now = self.lokt.now().wall;
        let name = waiting.name;
        let place = match self.ahead(waiting.name).unwrap_or(waiting.ahead) {
            0 => "first in line".to_owned(),
            1 => "1 ahead".to_owned(),
            ahead => format!("{ahead} ahead"),
        };
        let denial = self.denial_by_now(waiting);
        let obstacle = match denial.as_ref().unwrap_or(waiting.denial) {
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

    /// Who holds it by now, and for how long: a waiter with others ahead looks only when it is their turn. On a terminal somebody looks.
    fn denial_by_now(&self, waiting: &Waiting<'_>) -> Option<Denial> {
        if self.live != Some(true) || !matches!(waiting.denial, Denial::Held(_)) {
            return None;
        }
        match self.lokt.entry(&LockName::new(waiting.name).ok()?).ok().flatten()?.state {
            EntryState::Held(holder) if holder.lives() => Some(Denial::Held(holder)),
            _ => None,
        }
    }

    /// How many are ahead by now. On a terminal somebody looks.
    fn ahead(&self, name: &str) -> Option<usize> {
        let me = self.lokt.me().pid;
        let line = self.lokt.queue(&LockName::new(name).ok()?).ok().filter(|_| self.live == Some(true))?;
        line.iter().position(|waiter| waiter.pulse.process.pid == me)
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
pub(super) fn what_keeps_it(keepers: &[KeeperMembers]) -> Option<String> {
    let list = |show: &dyn Fn(&KeeperMembers) -> String, between: &str| {
        keepers.iter().map(show).collect::<Vec<_>>().join(between)
    };
    let kill = list(&|keeper| keeper.pid.to_string(), " ");
    (!keepers.is_empty()).then(|| format!("kept by {}: `kill {kill}` ends it", list(&KeeperMembers::line, ", ")))
}

/// `waited 2s, giving up in 58s`
pub(super) fn how_long(waiting: &Waiting<'_>) -> String {
    let left = waiting.left.map_or("no timeout".to_owned(), |left| format!("giving up in {}", duration::show(left)));
    format!("waited {}, {left}", duration::show(waiting.waited))
}

/// What fits one line of the terminal: a longer one would scroll away instead of being replaced.
pub(super) fn fitting(line: &str) -> String {
    match Size::of(stderr()) {
        Some(size) => width::cut(line, size.columns - 1),
        None => line.to_owned(),
    }
}

/// The signals of this process. They do nothing by themselves any more, so nothing may keep us from receiving them: a full stderr neither.
pub(crate) fn inbox() -> Result<Inbox, Failure> {
    outbox::open();
    Inbox::open().map_err(|error| Failure::io(format!("receive signals: {error}"), None))
}

#[derive(Serialize)]
struct Interrupted<'a> {
    status: &'static str,
    name: &'a str,
    code: &'static str,
    message: String,
    signal: i32,
}

/// A signal ended the wait; the line was left.
pub(crate) fn interrupted(name: &str, signal: i32, format: Format) -> Report {
    interrupted_at("lock", name, signal, format)
}

/// A signal ended the wait for a lock, or whatever `what` is.
pub(crate) fn interrupted_at(what: &str, name: &str, signal: i32, format: Format) -> Report {
    let message = format!("interrupted while waiting for {what} {}", quoted(name));
    let report = Report::new(Exit::of_signal(signal));
    match format {
        Format::Json => report.json(&Interrupted { status: "error", name, code: "E_INTERRUPTED", message, signal }),
        Format::Text => report.note(message),
    }
}
