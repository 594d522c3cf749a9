//! The state machine of a guard: it renews, checks, forwards, warns, terminates, releases,
//! finishes.
//!
//! [`Guard`] receives events with their times and returns actions; it never reads a clock and never
//! touches a process. A shell (`lokt_guard`) drives it with a real command; tests drive it with
//! every possible order of events.
//!
//! The caller chooses the clock: `CLOCK_MONOTONIC` for a hold, whose lease pauses while the machine
//! sleeps, as the command does; `CLOCK_BOOTTIME` for leases that end by others' clocks, too.

mod events;

use alloc::vec::Vec;

pub use events::{Action, Ended, Event, GuardConfig, OnLost, Outcome, Warning};

/// Minimum interval between renewals, in milliseconds.
pub const RENEW_MS_MIN: u64 = 500;
/// Time in milliseconds between asking a command to end and killing it.
pub const KILL_AFTER_MS: u64 = 5_000;
/// The same if another process already holds the lock: two processes are writing.
pub const KILL_SOON_MS: u64 = 1_000;
/// Exit code for a lost lock.
pub const LOST: u8 = 79;

/// Returns the interval between renewals of a lease of this length: half of it.
pub fn renewal_interval_ms(ttl_sec: u64) -> u64 {
    (ttl_sec.saturating_mul(1000) / 2).max(RENEW_MS_MIN)
}

/// Returns when a command under a lease that is [stopped ahead](Guard::stopping_ahead) is asked to
/// end: after two thirds of the lease, counted from the start of the last good renewal.
pub fn terminated_after_ms(lease_ms: u64) -> u64 {
    lease_ms.saturating_mul(2) / 3
}

/// Returns when such a command is killed if it hasn't ended: after nine tenths of the lease. The
/// last tenth is for the kernel, and for a guard that wakes late.
pub fn killed_after_ms(lease_ms: u64) -> u64 {
    lease_ms.saturating_mul(9) / 10
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HoldState {
    /// Held by this guard.
    Held,
    /// Held by this guard, with a renewal in progress.
    Renewing,
    /// Held by another process or by nobody.
    Lost,
    /// Lost or left to others, with a renewal still in progress.
    LostRenewing,
    /// Being released.
    Releasing,
    /// Released, or left alone because it was lost.
    Over,
}

impl HoldState {
    fn is_renewing(self) -> bool {
        matches!(self, Self::Renewing | Self::LostRenewing)
    }

    /// The state after a renewal has returned, or is no longer awaited.
    fn without_renewal(self) -> Self {
        match self {
            Self::Renewing => Self::Held,
            Self::LostRenewing => Self::Lost,
            tie => tie,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// The command has ended; processes that it left behind may live.
    Lingering(Ended),
    /// Nothing is left to guard: renewals are awaited, then holds are released.
    Closing(u8),
    Finished,
}

/// A guard. See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    config: GuardConfig,
    lease_ms: Option<u64>,
    /// Interval between renewals of a lease.
    interval_ms: Option<u64>,
    /// The command must not run to the end of the lease, and a renewal that returns after that end
    /// doesn't count.
    ahead: bool,
    ties: Vec<HoldState>,
    /// Time at which each lease must be renewed.
    renew_at: Vec<Option<u64>>,
    /// Time at which each lease ends for good; `None`: it can be revived while no other process
    /// holds the lock.
    ends_at: Vec<Option<u64>>,
    /// The holds that are being checked.
    looking: Vec<bool>,
    /// Time of the next check of the records.
    look_at: Option<u64>,
    kill_at: Option<u64>,
    killed: bool,
    lost: bool,
    stage: Stage,
}

impl Guard {
    /// A guard of holds that were requested at these times.
    pub fn new(config: GuardConfig, granted_ms: &[u64], now_ms: u64) -> Self {
        let interval = config.ttl_sec.map(renewal_interval_ms);
        Self {
            config,
            lease_ms: config.ttl_sec.map(|ttl_sec| ttl_sec.saturating_mul(1000)),
            interval_ms: interval,
            ahead: false,
            ties: granted_ms.iter().map(|_| HoldState::Held).collect(),
            renew_at: granted_ms.iter().map(|at| interval.map(|interval| at + interval)).collect(),
            ends_at: granted_ms.iter().map(|_| None).collect(),
            looking: granted_ms.iter().map(|_| false).collect(),
            look_at: config.look_ms.map(|look_ms| now_ms + look_ms),
            kill_at: None,
            killed: false,
            lost: false,
            stage: Stage::Running,
        }
    }

    /// Returns the guard with another interval between the renewals of a lease.
    #[must_use]
    pub fn renewing_every(mut self, interval_ms: u64) -> Self {
        let Some(before_ms) = self.interval_ms else { return self };
        self.interval_ms = Some(interval_ms);
        for at in self.renew_at.iter_mut().flatten() {
            *at = *at - before_ms + interval_ms;
        }
        self
    }

    /// Returns the guard with leases that are lost when they end: a late renewal revives nothing.
    #[must_use]
    pub fn ending_for_good(mut self, granted_ms: &[u64]) -> Self {
        let Some(lease_ms) = self.lease_ms else { return self };
        self.ends_at = granted_ms.iter().map(|at| Some(at.saturating_add(lease_ms))).collect();
        self
    }

    /// Returns the guard with leases of `lease_ms`, whatever the config says, that end for good. No
    /// command may run to their end: one that must be stopped is asked to end, and killed, before
    /// it. Unless set otherwise, they are renewed three times per lease.
    #[must_use]
    pub fn stopping_ahead(mut self, lease_ms: u64, granted_ms: &[u64]) -> Self {
        let interval_ms = (lease_ms / 3).max(1);
        self.lease_ms = Some(lease_ms);
        self.interval_ms = Some(interval_ms);
        self.renew_at = granted_ms.iter().map(|at| Some(at.saturating_add(interval_ms))).collect();
        self.ahead = true;
        self.ending_for_good(granted_ms)
    }

    /// Reports whether a loss would end the command.
    fn stops(&self) -> bool {
        self.config.on_lost == OnLost::Stop && self.stage == Stage::Running
    }

    /// Returns the time `after_ms` into the lease that this hold has by its last good renewal.
    fn moment(&self, hold: usize, after_ms: fn(u64) -> u64) -> Option<u64> {
        let (ends_at, lease_ms) = (self.ends_at[hold]?, self.lease_ms?);
        Some(ends_at.saturating_sub(lease_ms).saturating_add(after_ms(lease_ms)))
    }

    /// Returns when this lease counts as expired if it isn't renewed.
    fn over_at(&self, hold: usize) -> Option<u64> {
        if self.ahead && self.stops() { self.moment(hold, terminated_after_ms) } else { self.ends_at[hold] }
    }

    /// Reports whether this lease may be declared expired without asking. A renewal in progress
    /// knows better, but a command that must be stopped can't wait for it.
    fn is_judged(&self, hold: usize) -> bool {
        self.ties[hold] == HoldState::Held || (self.ties[hold] == HoldState::Renewing && self.stops())
    }

    /// Returns until when a renewal in progress is awaited after the command has ended; `None`:
    /// without a limit. A renewal that hangs beyond the end of its lease must not delay the guard.
    fn awaited_until(&self, hold: usize) -> Option<u64> {
        self.ends_at[hold].filter(|_| self.ahead)
    }

    /// Returns when the caller must send an [`Event::Tick`] if nothing else happens; `None`: no
    /// tick is needed.
    pub fn wake_at(&self) -> Option<u64> {
        let guards = matches!(self.stage, Stage::Running | Stage::Lingering(_));
        let held = |tie: &HoldState| *tie == HoldState::Held;
        let renewals = self.ties.iter().zip(&self.renew_at).filter(|(tie, _)| held(tie)).filter_map(|(_, at)| *at);
        let looks = self.look_at.filter(|_| self.ties.iter().any(held));
        let ends = (0..self.ties.len()).filter(|hold| self.is_judged(*hold)).filter_map(|hold| self.over_at(hold));
        let kill = self.kill_at.filter(|_| self.stage == Stage::Running);
        let closes = matches!(self.stage, Stage::Closing(_));
        let awaited = (0..self.ties.len()).filter(|hold| closes && self.ties[*hold].is_renewing());
        let awaited = awaited.filter_map(|hold| self.awaited_until(hold));
        renewals.chain(looks).chain(ends).filter(|_| guards).chain(kill).chain(awaited).min()
    }

    /// Processes an event, and returns the actions to take.
    pub fn step(&mut self, now_ms: u64, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Tick => {}
            Event::Renewed { hold, began_ms, outcome } => self.renewed(now_ms, hold, began_ms, outcome, &mut actions),
            Event::Looked { hold, outcome } => {
                self.looking[hold] = false;
                // A failed check is no evidence; the next one may succeed.
                if let (Outcome::Lost(holder), HoldState::Held | HoldState::Renewing) = (outcome, self.ties[hold]) {
                    self.lose(now_ms, hold, |stops| Warning::Lost { hold, holder, stops }, &mut actions);
                }
            }
            Event::Signal { number, ends, from_terminal } => self.signal(number, ends, from_terminal, &mut actions),
            Event::Ended(ended) if self.stage == Stage::Running => {
                if self.config.until_all && !self.ties.is_empty() {
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
        self.close(now_ms, &mut actions);
        actions
    }

    fn on_time(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        if !matches!(self.stage, Stage::Running | Stage::Lingering(_)) {
            return;
        }
        for hold in 0..self.ties.len() {
            if self.over_at(hold).is_some_and(|at| at <= now_ms) && self.is_judged(hold) {
                self.lose(now_ms, hold, |stops| Warning::Expired { hold, stops }, actions);
            }
        }
        if self.kill_at.is_some_and(|at| at <= now_ms) && self.stage == Stage::Running {
            self.kill_at = None;
            self.killed = true;
            actions.push(Action::Kill);
        }
        for hold in 0..self.ties.len() {
            if self.ties[hold] == HoldState::Held && self.renew_at[hold].is_some_and(|at| at <= now_ms) {
                self.ties[hold] = HoldState::Renewing;
                actions.push(Action::Renew(hold));
            }
        }
        if self.look_at.is_some_and(|at| at <= now_ms) {
            self.look_at = self.config.look_ms.map(|look_ms| now_ms + look_ms);
            for hold in 0..self.ties.len() {
                if self.ties[hold] == HoldState::Held && !self.looking[hold] {
                    self.looking[hold] = true;
                    actions.push(Action::Look(hold));
                }
            }
        }
    }

    fn renewed(&mut self, now_ms: u64, hold: usize, began_ms: u64, outcome: Outcome, actions: &mut Vec<Action>) {
        self.ties[hold] = self.ties[hold].without_renewal();
        let Some(interval_ms) = self.interval_ms else { return };
        let is_over = self.ends_at[hold].is_some_and(|at| at <= now_ms);
        let closes = matches!(self.stage, Stage::Closing(_));
        match outcome {
            _ if self.ties[hold] != HoldState::Held => {}
            // The renewal may be valid, but nobody could know that while the command continued to
            // run.
            Outcome::Kept { late_ms } if self.ahead && !closes && (is_over || late_ms.is_some()) => {
                self.lose(now_ms, hold, |stops| Warning::Expired { hold, stops }, actions);
            }
            Outcome::Kept { late_ms } => {
                self.renew_at[hold] = Some(began_ms + interval_ms);
                let lease_ms = self.lease_ms.unwrap_or(u64::MAX);
                self.ends_at[hold] = self.ends_at[hold].map(|_| began_ms.saturating_add(lease_ms));
                actions.extend(late_ms.map(|late_ms| Action::Warn(Warning::Late { hold, late_ms })));
            }
            Outcome::Lost(holder) => self.lose(now_ms, hold, |stops| Warning::Lost { hold, holder, stops }, actions),
            // There is no next attempt, and the release will report the problem.
            Outcome::Failed(_) if closes => {}
            Outcome::Failed(why) => {
                // Several attempts fit into the rest of the lease.
                self.renew_at[hold] = Some(now_ms + (interval_ms / 4).max(1));
                actions.push(Action::Warn(Warning::RenewalFailed { hold, why }));
            }
        }
    }

    fn lose(&mut self, now_ms: u64, hold: usize, say: impl FnOnce(bool) -> Warning, actions: &mut Vec<Action>) {
        self.ties[hold] =
            if self.ties[hold] == HoldState::Renewing { HoldState::LostRenewing } else { HoldState::Lost };
        let stops = self.stops();
        let warning = say(stops);
        if stops && !self.lost {
            actions.push(Action::Terminate);
        }
        if stops && !self.killed && (self.ahead || !self.lost) {
            let at = self.kills_at(now_ms, hold, &warning);
            self.kill_at = Some(self.kill_at.map_or(at, |before| before.min(at)));
        }
        actions.push(Action::Warn(warning));
        self.lost = true;
    }

    /// Returns when a command that doesn't end after this loss is killed. A lease that no other
    /// process can have yet is ours until shortly before its end.
    fn kills_at(&self, now_ms: u64, hold: usize, loss: &Warning) -> u64 {
        let patience_ms = match loss {
            _ if !self.ahead => Some(KILL_AFTER_MS),
            Warning::Lost { holder: Some(_), .. } => Some(KILL_SOON_MS),
            Warning::Lost { holder: None, .. } => Some(KILL_AFTER_MS),
            _ => None,
        };
        let ahead = self.moment(hold, killed_after_ms).filter(|_| self.ahead);
        let patient = patience_ms.map(|ms| now_ms.saturating_add(ms));
        ahead.into_iter().chain(patient).min().unwrap_or(now_ms)
    }

    fn signal(&mut self, number: i32, ends: bool, from_terminal: bool, actions: &mut Vec<Action>) {
        match self.stage {
            Stage::Running if !from_terminal => actions.push(Action::Forward(number)),
            // No command is left to forward it to. Processes that were left behind keep the pulse,
            // and with it the holds that aren't lost.
            Stage::Lingering(ended) if ends => {
                if self.ties.iter().any(|tie| matches!(tie, HoldState::Held | HoldState::Renewing)) {
                    actions.push(Action::Warn(Warning::LeftBehind));
                }
                for tie in &mut self.ties {
                    *tie = if tie.is_renewing() { HoldState::LostRenewing } else { HoldState::Over };
                }
                self.stage = Stage::Closing(ended.code());
            }
            _ => {}
        }
    }

    fn released(&mut self, hold: usize, outcome: Outcome, actions: &mut Vec<Action>) {
        self.ties[hold] = HoldState::Over;
        match outcome {
            Outcome::Kept { .. } => {}
            Outcome::Lost(holder) => {
                self.lost = true;
                actions.push(Action::Warn(Warning::Lost { hold, holder, stops: false }));
            }
            Outcome::Failed(why) => actions.push(Action::Warn(Warning::ReleaseFailed { hold, why })),
        }
    }

    /// If nothing is left to guard, waits for renewals, then releases the holds one by one, the
    /// last one first.
    fn close(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        let Stage::Closing(code) = self.stage else { return };
        for hold in 0..self.ties.len() {
            if self.awaited_until(hold).is_some_and(|at| at <= now_ms) {
                self.ties[hold] = self.ties[hold].without_renewal();
            }
        }
        if self.ties.iter().any(|tie| tie.is_renewing() || *tie == HoldState::Releasing) {
            return;
        }
        if let Some(hold) = self.ties.iter().rposition(|tie| *tie == HoldState::Held) {
            self.ties[hold] = HoldState::Releasing;
            actions.push(Action::Release(hold));
        } else {
            self.stage = Stage::Finished;
            actions.push(Action::Finish(self.exit_code(code)));
        }
    }

    fn exit_code(&self, code: u8) -> u8 {
        match (self.lost, self.config.on_lost) {
            (true, OnLost::Stop) => LOST,
            (true, OnLost::Fail) if code == 0 => LOST,
            _ => code,
        }
    }
}
