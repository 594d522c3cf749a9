//! A guard beside books that are kept apart from it: every event is entered, and every action is held against what was entered.

use std::hash::{Hash, Hasher};

use lokt_core::guard::{
    Action, Ended, Event, Guard, GuardConfig, KILL_AFTER_MS, KILL_SOON_MS, LOST, OnLost, Outcome, Warning,
    renewal_interval_ms,
};

use super::LOOK_MS;

/// `Err` is the sentence that became false.
pub(crate) type Verdict<T = ()> = Result<T, String>;

fn must(holds: bool, sentence: &str) -> Verdict {
    if holds { Ok(()) } else { Err(sentence.into()) }
}

/// What became of one hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Standing {
    Ours,
    Lost,
    /// A release is asked for.
    Releasing,
    Released,
    /// The guard was told to end, what the command left behind keeps it.
    LeftBehind,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct HoldBook {
    standing: Standing,
    /// When the renewal that is under way began.
    pub(crate) renewing: Option<u64>,
    /// A look is under way.
    pub(crate) looking: bool,
    /// From when on it may be renewed, and from when on it must.
    due: Option<(u64, u64)>,
    /// When its last good renewal began.
    good_ms: u64,
}

impl HoldBook {
    pub(crate) fn releasing(&self) -> bool {
        self.standing == Standing::Releasing
    }

    /// Ours, and nothing is being done about it.
    fn idle(&self) -> bool {
        self.standing == Standing::Ours && self.renewing.is_none()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Command {
    Runs,
    /// It ended with this code, and what it left behind is awaited.
    Lingers(u8),
    /// Nothing is left to guard; the code to pass on.
    Over(u8),
}

/// What an event must lead to, besides what is due by time.
#[derive(Default)]
struct Answers {
    warnings: Vec<Warning>,
    forward: Option<i32>,
    terminate: bool,
    kill: bool,
    await_all: bool,
}

/// What the command was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Told {
    Nothing,
    ToEnd,
    /// And it didn't, in time.
    Killed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Books {
    config: GuardConfig,
    /// The lease in milliseconds, if the command must not run to its end.
    ahead: Option<u64>,
    pub(crate) now_ms: u64,
    pub(crate) holds: Vec<HoldBook>,
    pub(crate) command: Command,
    look_due: u64,
    kill_due: Option<u64>,
    told: Told,
    lost: bool,
    /// What the command left behind is still there.
    pub(crate) left_behind: bool,
    pub(crate) finished: bool,
}

/// The config stay the same and tell nothing apart.
impl Hash for Books {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.now_ms, &self.holds, self.command, self.look_due, self.kill_due).hash(state);
        (self.told, self.lost, self.left_behind, self.finished).hash(state);
    }
}

/// A guard and its books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) guard: Guard,
    pub(crate) books: Books,
}

impl Watched {
    pub(crate) fn new(config: GuardConfig, granted_ms: &[u64], now_ms: u64) -> Self {
        let books = Books::new(config, None, granted_ms, now_ms);
        Self { guard: Guard::new(config, granted_ms, now_ms), books }
    }

    /// One that must not let its command run to the end of a lease of so many milliseconds.
    pub(crate) fn ahead(config: GuardConfig, lease_ms: u64, granted_ms: &[u64], now_ms: u64) -> Self {
        let books = Books::new(config, Some(lease_ms), granted_ms, now_ms);
        Self { guard: Guard::new(config, granted_ms, now_ms).stopping_ahead(lease_ms, granted_ms), books }
    }

    /// Enters the event, tells the guard, and judges what it wants to do.
    pub(crate) fn step(&mut self, now_ms: u64, event: &Event) -> Verdict<Vec<Action>> {
        let answers = self.books.enter(now_ms, event);
        let actions = self.guard.step(now_ms, event.clone());
        self.books.judge(&actions, &answers).map_err(|sentence| format!("{sentence}; it wants {actions:?}"))?;
        self.books.judge_wake(self.guard.wake_at())?;
        Ok(actions)
    }
}

impl Books {
    fn new(config: GuardConfig, ahead: Option<u64>, granted_ms: &[u64], now_ms: u64) -> Self {
        let mut books = Self {
            config,
            ahead,
            now_ms,
            holds: Vec::new(),
            command: Command::Runs,
            look_due: now_ms + LOOK_MS,
            kill_due: None,
            told: Told::Nothing,
            lost: false,
            left_behind: false,
            finished: false,
        };
        let due = |at: u64| books.interval_ms().map(|interval| (at + interval, at + interval));
        let hold = |at: &u64| HoldBook {
            standing: Standing::Ours,
            renewing: None,
            looking: false,
            due: due(*at),
            good_ms: *at,
        };
        books.holds = granted_ms.iter().map(hold).collect();
        books
    }

    /// Between renewals.
    fn interval_ms(&self) -> Option<u64> {
        self.ahead.map(|lease_ms| lease_ms / 3).or(self.config.ttl_sec.map(renewal_interval_ms))
    }

    /// A loss now would end the command.
    fn stops(&self) -> bool {
        self.config.on_lost == OnLost::Stop && self.command == Command::Runs
    }

    /// Something may have to be renewed, looked at or ended.
    fn guards(&self) -> bool {
        !matches!(self.command, Command::Over(_))
    }

    fn enter(&mut self, now_ms: u64, event: &Event) -> Answers {
        self.now_ms = now_ms;
        let mut answers = Answers::default();
        match event {
            Event::Tick => {}
            Event::Renewed { hold, began_ms, outcome } => self.enter_renewed(*hold, *began_ms, outcome, &mut answers),
            Event::Looked { hold, outcome } => {
                self.holds[*hold].looking = false;
                if self.holds[*hold].standing == Standing::Ours {
                    self.enter_loss(*hold, outcome, &mut answers);
                }
            }
            Event::Signal { number, ends, from_terminal } => match self.command {
                Command::Runs => answers.forward = (!from_terminal).then_some(*number),
                Command::Lingers(code) if *ends => {
                    self.command = Command::Over(code);
                    for hold in self.holds.iter_mut().filter(|hold| hold.standing == Standing::Ours) {
                        hold.standing = Standing::LeftBehind;
                        answers.warnings = vec![Warning::LeftBehind];
                    }
                }
                Command::Lingers(_) | Command::Over(_) => {}
            },
            Event::Ended(ended) => {
                let code = match ended {
                    Ended::Code(code) => *code,
                    Ended::Signal(signal) => 128 + signal,
                };
                answers.await_all = self.config.until_all && !self.holds.is_empty();
                self.left_behind = answers.await_all;
                self.command = if answers.await_all { Command::Lingers(code) } else { Command::Over(code) };
            }
            Event::AllGone => {
                self.left_behind = false;
                if let Command::Lingers(code) = self.command {
                    self.command = Command::Over(code);
                }
            }
            Event::Released { hold, outcome } => {
                self.holds[*hold].standing = Standing::Released;
                match outcome {
                    Outcome::Kept { .. } => {}
                    Outcome::Lost(_) => self.enter_loss(*hold, outcome, &mut answers),
                    Outcome::Failed(why) => {
                        answers.warnings.push(Warning::ReleaseFailed { hold: *hold, why: why.clone() });
                    }
                }
            }
        }
        self.enter_ends(&mut answers);
        if self.command == Command::Runs && self.kill_due.is_some_and(|at| at <= now_ms) {
            self.kill_due = None;
            answers.kill = true;
        }
        let told = if answers.kill { Told::Killed } else { Told::ToEnd };
        if answers.kill || answers.terminate {
            self.told = self.told.max(told);
        }
        answers
    }

    /// Leases that are over by now, without anybody having to say so.
    fn enter_ends(&mut self, answers: &mut Answers) {
        let Some(lease_ms) = self.ahead else { return };
        for hold in 0..self.holds.len() {
            let HoldBook { standing, renewing, good_ms, .. } = self.holds[hold];
            // Whoever stops its command stops it ahead; whoever doesn't hears a renewal out.
            let over = if self.stops() {
                good_ms + lease_ms * 2 / 3 <= self.now_ms
            } else {
                good_ms + lease_ms <= self.now_ms && renewing.is_none()
            };
            if over && self.guards() && standing == Standing::Ours {
                self.enter_end(hold, answers);
            } else if !self.guards() && good_ms + lease_ms <= self.now_ms {
                // What hangs for so long isn't waited for.
                self.holds[hold].renewing = None;
            }
        }
    }

    fn enter_end(&mut self, hold: usize, answers: &mut Answers) {
        let stops = self.stops();
        answers.warnings.push(Warning::Expired { hold, stops });
        self.enter_stop(hold, None, answers);
        self.holds[hold].standing = Standing::Lost;
    }

    /// The command must end now, and within so many milliseconds at the latest.
    fn enter_stop(&mut self, hold: usize, within_ms: Option<u64>, answers: &mut Answers) {
        if self.stops() {
            answers.terminate |= !self.lost;
            let by_lease = self.ahead.map(|lease_ms| self.holds[hold].good_ms + lease_ms * 9 / 10);
            let within = within_ms.map(|ms| self.now_ms + ms);
            let due = [by_lease, within, self.kill_due].into_iter().flatten().min();
            self.kill_due = due.filter(|_| self.told < Told::Killed);
        }
        self.lost = true;
    }

    fn enter_renewed(&mut self, hold: usize, began_ms: u64, outcome: &Outcome, answers: &mut Answers) {
        self.holds[hold].renewing = None;
        if self.holds[hold].standing != Standing::Ours {
            return;
        }
        let interval = self.interval_ms().expect("only leases are renewed");
        let over = self.ahead.is_some_and(|lease_ms| self.holds[hold].good_ms + lease_ms <= self.now_ms);
        match outcome {
            Outcome::Kept { late_ms } if self.ahead.is_some() && self.guards() && (over || late_ms.is_some()) => {
                self.enter_end(hold, answers);
            }
            Outcome::Kept { late_ms } => {
                self.holds[hold].good_ms = began_ms;
                self.holds[hold].due = Some((began_ms + interval, began_ms + interval));
                answers.warnings.extend(late_ms.map(|late_ms| Warning::Late { hold, late_ms }));
            }
            Outcome::Lost(_) => self.enter_loss(hold, outcome, answers),
            // The lease has half of its time left: at least three more tries must fit.
            Outcome::Failed(why) => {
                self.holds[hold].due = Some((self.now_ms + 1, self.now_ms + interval / 4));
                if self.guards() {
                    answers.warnings.push(Warning::RenewalFailed { hold, why: why.clone() });
                }
            }
        }
    }

    fn enter_loss(&mut self, hold: usize, outcome: &Outcome, answers: &mut Answers) {
        let Outcome::Lost(holder) = outcome else { return };
        let stops = self.stops();
        answers.warnings.push(Warning::Lost { hold, holder: holder.clone(), stops });
        let soon = self.ahead.is_some() && holder.is_some();
        self.enter_stop(hold, Some(if soon { KILL_SOON_MS } else { KILL_AFTER_MS }), answers);
        if self.holds[hold].standing == Standing::Ours {
            self.holds[hold].standing = Standing::Lost;
        }
    }

    fn judge(&mut self, actions: &[Action], answers: &Answers) -> Verdict {
        let count = |wanted: &Action| actions.iter().filter(|action| *action == wanted).count();
        must(count(&Action::Terminate) == usize::from(answers.terminate), "the first loss ends the command, once")?;
        must(count(&Action::Kill) == usize::from(answers.kill), "a command that doesn't end in time is killed, once")?;
        must(count(&Action::AwaitAll) == usize::from(answers.await_all), "what is left behind is awaited if asked")?;
        let forwards = actions.iter().filter_map(|action| match action {
            Action::Forward(number) => Some(*number),
            _ => None,
        });
        must(forwards.eq(answers.forward), "each signal reaches a running command exactly once")?;
        let warnings = actions.iter().filter_map(|action| match action {
            Action::Warn(warning) => Some(warning),
            _ => None,
        });
        must(warnings.eq(&answers.warnings), "the user is told what happened and nothing else")?;
        for action in actions {
            must(!self.finished, "nothing is done after the end")?;
            must(*action != Action::Terminate || self.lost, "nothing is ended while all is well")?;
            match action {
                Action::Renew(hold) => self.judge_renew(*hold)?,
                Action::Look(hold) => self.judge_look(*hold)?,
                Action::Release(hold) => self.judge_release(*hold)?,
                Action::Finish(code) => self.judge_finish(*code)?,
                _ => {}
            }
        }
        self.judge_omissions()
    }

    fn judge_renew(&mut self, hold: usize) -> Verdict {
        must(self.guards(), "nothing is renewed after the command's end")?;
        let hold = &mut self.holds[hold];
        must(hold.renewing.is_none(), "one renewal of a hold at a time")?;
        must(hold.standing == Standing::Ours, "only what is ours is renewed")?;
        must(hold.due.is_some_and(|(from, _)| from <= self.now_ms), "a renewal waits until it is due")?;
        hold.renewing = Some(self.now_ms);
        Ok(())
    }

    fn judge_look(&mut self, hold: usize) -> Verdict {
        must(self.guards(), "nothing is looked at after the command's end")?;
        must(self.look_due <= self.now_ms, "there is one look a second")?;
        let hold = &mut self.holds[hold];
        must(!hold.looking, "one look at a hold at a time")?;
        must(hold.idle(), "only what is ours and at rest is looked at")?;
        hold.looking = true;
        Ok(())
    }

    fn judge_release(&mut self, hold: usize) -> Verdict {
        must(!self.guards(), "nothing is released while something is guarded")?;
        must(self.holds.iter().all(|hold| hold.renewing.is_none()), "nothing is released during a renewal")?;
        must(self.holds[hold].standing == Standing::Ours, "only what is ours is released, once")?;
        let last = self.holds.iter().rposition(|hold| matches!(hold.standing, Standing::Ours | Standing::Releasing));
        must(last == Some(hold), "the last hold is released first, one after the other")?;
        self.holds[hold].standing = Standing::Releasing;
        Ok(())
    }

    fn judge_finish(&mut self, code: u8) -> Verdict {
        let over = |hold: &HoldBook| !matches!(hold.standing, Standing::Ours | Standing::Releasing);
        must(self.holds.iter().all(over), "the end comes when every hold is over")?;
        must(self.holds.iter().all(|hold| hold.renewing.is_none()), "the end waits for renewals")?;
        let Command::Over(ended) = self.command else { return Err("the end comes after the command's".into()) };
        let stop = self.config.on_lost == OnLost::Stop;
        let fail = self.config.on_lost == OnLost::Fail;
        let expected = if self.lost && (stop || (fail && ended == 0)) { LOST } else { ended };
        must(code == expected, "the exit code is the command's, or tells of the loss")?;
        self.finished = true;
        Ok(())
    }

    /// Whatever happened: who runs a command that is to be stopped has told it in time, and killed it in time.
    fn judge_ahead(&self) -> Verdict {
        let Some(lease_ms) = self.ahead.filter(|_| self.stops()) else { return Ok(()) };
        let past = |ms: u64| self.holds.iter().any(|hold| hold.good_ms + ms <= self.now_ms);
        must(
            self.told >= Told::ToEnd || !past(lease_ms * 2 / 3),
            "it is told to end when two thirds of the lease are over",
        )?;
        must(
            self.told >= Told::Killed || !past(lease_ms * 9 / 10),
            "it is killed when nine tenths of the lease are over",
        )
    }

    /// What should have been done by now was done.
    fn judge_omissions(&mut self) -> Verdict {
        self.judge_ahead()?;
        if self.guards() {
            let now = self.now_ms;
            let overdue = |hold: &HoldBook| hold.idle() && hold.due.is_some_and(|(_, by)| by <= now);
            must(!self.holds.iter().any(overdue), "a renewal that is due begins")?;
            if self.look_due <= now {
                let missed = |hold: &HoldBook| hold.idle() && !hold.looking;
                must(!self.holds.iter().any(missed), "every hold is looked at once a second")?;
                self.look_due = now + LOOK_MS;
            }
            return Ok(());
        }
        let awaited = self.holds.iter().any(|hold| hold.renewing.is_some() || hold.releasing());
        must(awaited != self.finished, "whoever waits for nothing any more ends")
    }

    fn judge_wake(&self, wake_at: Option<u64>) -> Verdict {
        must(wake_at.is_none_or(|at| at > self.now_ms), "what was due is done, so the next tick lies ahead")?;
        let by = |at: u64| wake_at.is_some_and(|wake| wake <= at);
        if !self.guards() {
            // What hangs is awaited to the end of its lease, if that is what counts.
            let ends = self.ahead.map(|lease_ms| move |hold: &HoldBook| hold.good_ms + lease_ms);
            let end = ends.and_then(|end| self.holds.iter().filter(|hold| hold.renewing.is_some()).map(end).min());
            return must(wake_at == end, "with nothing to guard only answers are awaited");
        }
        if let Some(lease_ms) = self.ahead.filter(|_| self.stops()) {
            let ours = |hold: &&HoldBook| hold.standing == Standing::Ours;
            let told = self.holds.iter().filter(ours).all(|hold| by(hold.good_ms + lease_ms * 2 / 3));
            must(told, "the tick comes in time to tell the command")?;
            let killed =
                self.told == Told::Killed || self.holds.iter().all(|hold| by(hold.good_ms + lease_ms * 9 / 10));
            must(killed, "the tick comes in time to kill, whatever was lost")?;
        }
        let kill = self.kill_due.filter(|_| self.command == Command::Runs);
        must(kill.is_none_or(by), "the tick comes in time to kill")?;
        let mut idle = self.holds.iter().filter(|hold| hold.idle());
        must(idle.clone().next().is_none() || by(self.look_due), "the tick comes in time to look")?;
        must(idle.all(|hold| hold.due.is_none_or(|(_, at)| by(at))), "the tick comes in time to renew")
    }
}
