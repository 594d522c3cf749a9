//! What a guard does next: renew, look, forward, warn, terminate, release, finish.
//!
//! [`Guard`] is told what happened and when, and says what to do; it never asks the clock and never touches a process. A shell drives it
//! with a real command (`lokt::guard`), tests drive it with every order of events there is.
//!
//! Time is `CLOCK_MONOTONIC`: while the machine sleeps neither the command nor the lease goes on.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::denial::Holder;

/// The shortest interval between renewals.
pub const RENEW_MS_MIN: u64 = 500;
/// How often a guard looks whether its record is still there.
pub const LOOK_MS: u64 = 1_000;
/// How long a command that is told to end has before it is killed.
pub const KILL_AFTER_MS: u64 = 5_000;
/// The exit code of a lost lock.
pub const LOST: u8 = 79;

/// The interval between renewals of a lease of this length: half of it.
pub fn renewal_interval_ms(ttl_sec: u64) -> u64 {
    (ttl_sec.saturating_mul(1000) / 2).max(RENEW_MS_MIN)
}

/// What to do when the lock is lost while the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLost {
    /// Let it go on, but don't call it a success.
    #[default]
    Fail,
    /// Let it go on, and pass on how it ended.
    Warn,
    /// End it.
    Stop,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(u8),
    /// By this signal.
    Signal(u8),
}

impl Ended {
    /// As an exit code: 128+n for signal n.
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => signal.saturating_add(128),
        }
    }
}

/// What came of a renewal, a look or a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The hold is ours, or was until it was released. A lease that had run out before says by how much.
    Kept {
        /// How long the lease had been over.
        late_ms: Option<u64>,
    },
    /// It is somebody else's, or nobody's.
    Lost(Option<Box<Holder>>),
    /// It couldn't be found out or done; the text says why.
    Failed(String),
}

/// Something happened. Holds are counted from 0, in the order of [`Guard::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Time passed.
    Tick,
    /// A renewal that began at `began_ms` came back.
    Renewed {
        /// Of which hold.
        hold: usize,
        /// When it began: the new lease may have begun then.
        began_ms: u64,
        /// What came of it.
        outcome: Outcome,
    },
    /// A look at the record came back.
    Looked {
        /// Of which hold.
        hold: usize,
        /// What was seen.
        outcome: Outcome,
    },
    /// A signal came for us.
    Signal {
        /// Its number.
        number: i32,
        /// Its place in the group of signals that ask a process to end.
        ends: bool,
        /// The terminal sent it, to the command too.
        from_terminal: bool,
    },
    /// The command ended.
    Ended(Ended),
    /// Nobody but us keeps the pulses any more: what the command left behind has ended too.
    AllGone,
    /// A release came back.
    Released {
        /// Of which hold.
        hold: usize,
        /// What came of it.
        outcome: Outcome,
    },
}

/// What the user should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The lease was over for so long when it was renewed; nobody took the lock meanwhile.
    Late {
        /// Of which hold.
        hold: usize,
        /// For how long.
        late_ms: u64,
    },
    /// A lease that isn't revived ended before it was renewed.
    Expired {
        /// Which hold.
        hold: usize,
        /// The command is told to end.
        stops: bool,
    },
    /// A renewal failed; it will be tried again.
    RenewalFailed {
        /// Of which hold.
        hold: usize,
        /// Why.
        why: String,
    },
    /// The lock is lost.
    Lost {
        /// Which hold.
        hold: usize,
        /// Who has it now.
        holder: Option<Box<Holder>>,
        /// The command is told to end.
        stops: bool,
    },
    /// The lock couldn't be released; with the pulse dropped it counts as dead.
    ReleaseFailed {
        /// Of which hold.
        hold: usize,
        /// Why.
        why: String,
    },
    /// We were told to end while waiting for what the command left behind: it keeps the lock.
    LeftBehind,
    /// The lock is as it should be, something beside it isn't: its line in the audit log. Said by the shell; the machine doesn't know.
    Beside {
        /// Of which hold.
        hold: usize,
        /// What.
        what: String,
    },
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Begin a renewal; [`Event::Renewed`] must follow.
    Renew(usize),
    /// Look at the record; [`Event::Looked`] must follow.
    Look(usize),
    /// Send this signal to the command.
    Forward(i32),
    /// Tell the user.
    Warn(Warning),
    /// Ask the command to end.
    Terminate,
    /// End it.
    Kill,
    /// Wait for what the command left behind; [`Event::AllGone`] must follow.
    AwaitAll,
    /// Release; [`Event::Released`] must follow.
    Release(usize),
    /// That was all: exit with this code.
    Finish(u8),
}

/// How a guard is asked to behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Manners {
    /// The lease of every hold, in seconds; `None` needs no renewal.
    pub ttl_sec: Option<u64>,
    /// What to do about a lost lock.
    pub on_lost: OnLost,
    /// The lock is kept until everything that the command left behind has ended.
    pub until_all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tie {
    /// Ours.
    Held,
    /// Ours, and a renewal is under way.
    Renewing,
    /// Somebody else's or nobody's.
    Lost,
    /// Lost or left to others, but a renewal is still under way.
    LostRenewing,
    /// Being given back.
    Releasing,
    /// Given back, or left alone because it was lost.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// The command has ended, something of it may live.
    Lingering(Ended),
    /// Nothing is left to guard: renewals are awaited, then holds released.
    Closing(u8),
    Finished,
}

/// A guard. See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    manners: Manners,
    /// Between renewals of a lease.
    interval_ms: Option<u64>,
    ties: Vec<Tie>,
    /// When each lease is to be renewed.
    renew_at: Vec<Option<u64>>,
    /// When each lease is over for good; `None`: it can be revived as long as nobody else has it.
    ends_at: Vec<Option<u64>>,
    /// At which of them a look is under way.
    looking: Vec<bool>,
    look_at: u64,
    kill_at: Option<u64>,
    lost: bool,
    stage: Stage,
}

impl Guard {
    /// A guard of holds that were asked for at these moments.
    pub fn new(manners: Manners, granted_ms: &[u64], now_ms: u64) -> Self {
        let interval = manners.ttl_sec.map(renewal_interval_ms);
        Self {
            manners,
            interval_ms: interval,
            ties: granted_ms.iter().map(|_| Tie::Held).collect(),
            renew_at: granted_ms.iter().map(|at| interval.map(|interval| at + interval)).collect(),
            ends_at: granted_ms.iter().map(|_| None).collect(),
            looking: granted_ms.iter().map(|_| false).collect(),
            look_at: now_ms + LOOK_MS,
            kill_at: None,
            lost: false,
            stage: Stage::Running,
        }
    }

    /// The same with another interval between the renewals of a lease.
    #[must_use]
    pub fn renewing_every(mut self, interval_ms: u64) -> Self {
        let Some(before_ms) = self.interval_ms else { return self };
        self.interval_ms = Some(interval_ms);
        for at in self.renew_at.iter_mut().flatten() {
            *at = *at - before_ms + interval_ms;
        }
        self
    }

    /// The same with leases that are lost when they end: whoever is late gets nothing back.
    #[must_use]
    pub fn ending_for_good(mut self, granted_ms: &[u64]) -> Self {
        let Some(lease_ms) = self.lease_ms() else { return self };
        self.ends_at = granted_ms.iter().map(|at| Some(at.saturating_add(lease_ms))).collect();
        self
    }

    fn lease_ms(&self) -> Option<u64> {
        self.manners.ttl_sec.map(|ttl_sec| ttl_sec.saturating_mul(1000))
    }

    /// May this lease's end be judged without asking? A renewal under way knows better, but a command that is to be stopped can't wait.
    fn is_judged(&self, hold: usize) -> bool {
        let stops = self.manners.on_lost == OnLost::Stop && self.stage == Stage::Running;
        self.ties[hold] == Tie::Held || (self.ties[hold] == Tie::Renewing && stops)
    }

    /// When to come back with a [`Event::Tick`] if nothing else happens; `None`: only something else will do.
    pub fn wake_at(&self) -> Option<u64> {
        let guards = matches!(self.stage, Stage::Running | Stage::Lingering(_));
        let held = |tie: &Tie| *tie == Tie::Held;
        let renewals = self.ties.iter().zip(&self.renew_at).filter(|(tie, _)| held(tie)).filter_map(|(_, at)| *at);
        let looks = self.ties.iter().any(held).then_some(self.look_at);
        let ends = (0..self.ties.len()).filter(|hold| self.is_judged(*hold)).filter_map(|hold| self.ends_at[hold]);
        let kill = self.kill_at.filter(|_| self.stage == Stage::Running);
        renewals.chain(looks).chain(ends).filter(|_| guards).chain(kill).min()
    }

    /// Something happened; what is to be done?
    pub fn step(&mut self, now_ms: u64, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Tick => {}
            Event::Renewed { hold, began_ms, outcome } => self.renewed(now_ms, hold, began_ms, outcome, &mut actions),
            Event::Looked { hold, outcome } => {
                self.looking[hold] = false;
                // A look that fails is no evidence; the next one may not.
                if let (Outcome::Lost(holder), Tie::Held | Tie::Renewing) = (outcome, self.ties[hold]) {
                    self.lose(now_ms, hold, |stops| Warning::Lost { hold, holder, stops }, &mut actions);
                }
            }
            Event::Signal { number, ends, from_terminal } => self.signal(number, ends, from_terminal, &mut actions),
            Event::Ended(ended) if self.stage == Stage::Running => {
                if self.manners.until_all && !self.ties.is_empty() {
                    self.stage = Stage::Lingering(ended);
                    actions.push(Action::AwaitAll);
                } else {
                    self.stage = Stage::Closing(ended.code());
                }
            }
            Event::AllGone => {
                if let Stage::Lingering(ended) = self.stage {
                    self.stage = Stage::Closing(ended.code());
                }
            }
            Event::Released { hold, outcome } => self.released(hold, outcome, &mut actions),
            Event::Ended(_) => {}
        }
        self.on_time(now_ms, &mut actions);
        self.close(&mut actions);
        actions
    }

    fn on_time(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        if !matches!(self.stage, Stage::Running | Stage::Lingering(_)) {
            return;
        }
        if self.kill_at.is_some_and(|at| at <= now_ms) && self.stage == Stage::Running {
            self.kill_at = None;
            actions.push(Action::Kill);
        }
        for hold in 0..self.ties.len() {
            if self.ends_at[hold].is_some_and(|at| at <= now_ms) && self.is_judged(hold) {
                self.lose(now_ms, hold, |stops| Warning::Expired { hold, stops }, actions);
            }
        }
        for hold in 0..self.ties.len() {
            if self.ties[hold] == Tie::Held && self.renew_at[hold].is_some_and(|at| at <= now_ms) {
                self.ties[hold] = Tie::Renewing;
                actions.push(Action::Renew(hold));
            }
        }
        if self.look_at <= now_ms {
            self.look_at = now_ms + LOOK_MS;
            for hold in 0..self.ties.len() {
                if self.ties[hold] == Tie::Held && !self.looking[hold] {
                    self.looking[hold] = true;
                    actions.push(Action::Look(hold));
                }
            }
        }
    }

    fn renewed(&mut self, now_ms: u64, hold: usize, began_ms: u64, outcome: Outcome, actions: &mut Vec<Action>) {
        self.ties[hold] = match self.ties[hold] {
            Tie::Renewing => Tie::Held,
            Tie::LostRenewing => Tie::Lost,
            tie => tie,
        };
        let Some(interval_ms) = self.interval_ms else { return };
        match outcome {
            _ if self.ties[hold] != Tie::Held => {}
            Outcome::Kept { late_ms } => {
                self.renew_at[hold] = Some(began_ms + interval_ms);
                let lease_ms = self.lease_ms().unwrap_or(u64::MAX);
                self.ends_at[hold] = self.ends_at[hold].map(|_| began_ms.saturating_add(lease_ms));
                actions.extend(late_ms.map(|late_ms| Action::Warn(Warning::Late { hold, late_ms })));
            }
            Outcome::Lost(holder) => self.lose(now_ms, hold, |stops| Warning::Lost { hold, holder, stops }, actions),
            // There is no next try, and the release will tell what is wrong.
            Outcome::Failed(_) if matches!(self.stage, Stage::Closing(_)) => {}
            Outcome::Failed(why) => {
                // Several tries fit what is left of the lease.
                self.renew_at[hold] = Some(now_ms + interval_ms / 4);
                actions.push(Action::Warn(Warning::RenewalFailed { hold, why }));
            }
        }
    }

    fn lose(&mut self, now_ms: u64, hold: usize, say: impl FnOnce(bool) -> Warning, actions: &mut Vec<Action>) {
        self.ties[hold] = if self.ties[hold] == Tie::Renewing { Tie::LostRenewing } else { Tie::Lost };
        let stops = self.manners.on_lost == OnLost::Stop && self.stage == Stage::Running;
        let first = !self.lost;
        if stops && first {
            self.kill_at = Some(now_ms + KILL_AFTER_MS);
            actions.push(Action::Terminate);
        }
        actions.push(Action::Warn(say(stops)));
        self.lost = true;
    }

    fn signal(&mut self, number: i32, ends: bool, from_terminal: bool, actions: &mut Vec<Action>) {
        match self.stage {
            Stage::Running if !from_terminal => actions.push(Action::Forward(number)),
            // There is nobody to forward it to. What was left behind keeps the pulse, and with it what isn't lost.
            Stage::Lingering(ended) if ends => {
                if self.ties.iter().any(|tie| matches!(tie, Tie::Held | Tie::Renewing)) {
                    actions.push(Action::Warn(Warning::LeftBehind));
                }
                for tie in &mut self.ties {
                    *tie = if matches!(tie, Tie::Renewing | Tie::LostRenewing) { Tie::LostRenewing } else { Tie::Over };
                }
                self.stage = Stage::Closing(ended.code());
            }
            _ => {}
        }
    }

    fn released(&mut self, hold: usize, outcome: Outcome, actions: &mut Vec<Action>) {
        self.ties[hold] = Tie::Over;
        match outcome {
            Outcome::Kept { .. } => {}
            Outcome::Lost(holder) => {
                self.lost = true;
                actions.push(Action::Warn(Warning::Lost { hold, holder, stops: false }));
            }
            Outcome::Failed(why) => actions.push(Action::Warn(Warning::ReleaseFailed { hold, why })),
        }
    }

    /// With nothing left to guard: waits for renewals, then releases one hold after the other, the last one first.
    fn close(&mut self, actions: &mut Vec<Action>) {
        let Stage::Closing(code) = self.stage else { return };
        if self.ties.iter().any(|tie| matches!(tie, Tie::Renewing | Tie::LostRenewing | Tie::Releasing)) {
            return;
        }
        if let Some(hold) = self.ties.iter().rposition(|tie| *tie == Tie::Held) {
            self.ties[hold] = Tie::Releasing;
            actions.push(Action::Release(hold));
        } else {
            self.stage = Stage::Finished;
            actions.push(Action::Finish(self.exit_code(code)));
        }
    }

    fn exit_code(&self, code: u8) -> u8 {
        match (self.lost, self.manners.on_lost) {
            (true, OnLost::Stop) => LOST,
            (true, OnLost::Fail) if code == 0 => LOST,
            _ => code,
        }
    }
}
