//! Cuts in a row on one file system, and on new ones now and then.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use lokt_testkit::dice::Dice;
use lokt_testkit::swarm::{pause, wait_until};
use lokt_testkit::tally::{Trial, count};
use serde_json::Value;

use crate::actors::{self, Acks, Actor};
use crate::gate::Gate;
use crate::site::{Call, Site, Stop};
use crate::tally::Tally;

/// Everybody was answered once, and everything at the first time, long before this.
const WARM_UP: Duration = Duration::from_secs(300);
/// One cut in so many is followed by a new file system.
const FRESH_ONE_IN: u64 = 8;

/// A file system with those who work on it.
pub(crate) struct Stage {
    pub(crate) site: Site,
    pub(crate) actors: Vec<Box<dyn Actor>>,
}

impl Stage {
    /// A new one, on which everybody has moved in.
    pub(crate) fn new(kind: &str, tally: &mut Tally) -> Self {
        let mut stage = Self { site: Site::new(kind), actors: actors::all() };
        for actor in &mut stage.actors {
            note(tally, actor.kind(), actor.move_in(&stage.site));
        }
        stage
    }

    /// Everybody works, until the power is cut. Before that everybody is answered, and everything of which nothing was acknowledged before.
    pub(crate) fn work_until_cut(&mut self, dice: &mut Dice, tally: &mut Tally) -> Moment {
        let count = self.actors.len();
        let site = &self.site;
        let started: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let answered: Vec<Mutex<Acks>> = (0..count).map(|_| Mutex::default()).collect();
        let wrong: Mutex<Vec<(&'static str, Stop)>> = Mutex::default();
        let missing: BTreeSet<&str> = actors::kinds().into_iter().filter(|kind| !tally.is_acknowledged(kind)).collect();
        let gate = Gate::open(count);
        let moment = Moment::draw(dice, count);
        let mut seeds: Vec<Dice> = (0..count).map(|_| Dice::new(dice.below(u64::MAX))).collect();
        thread::scope(|scope| {
            let mut workers = Vec::new();
            for (nth, (actor, dice)) in self.actors.iter_mut().zip(&mut seeds).enumerate() {
                let (started, answered, wrong, gate) = (&started[nth], &answered[nth], &wrong, &gate);
                workers.push(scope.spawn(move || {
                    let mut step = || {
                        started.fetch_add(1, Ordering::SeqCst);
                        let done = actor.step(site, dice);
                        let acks = done.map_err(|stop| {
                            wrong.lock().expect("no thread panicked with it").push((actor.kind(), stop));
                        });
                        acks.map(|acks| answered.lock().expect("no thread panicked with it").extend(acks)).is_ok()
                    };
                    while !site.is_off() && gate.pass(nth, &mut step) != Some(false) {}
                }));
            }
            let known = |acks: &Mutex<Acks>| acks.lock().expect("no thread panicked with it").clone();
            let all_answered = || {
                let acks: Vec<Acks> = answered.iter().map(known).collect();
                let kinds: BTreeSet<&str> = acks.iter().flatten().map(|(kind, _)| *kind).collect();
                acks.iter().all(|acks| !acks.is_empty()) && missing.is_subset(&kinds)
            };
            let has_stopped = || workers.iter().any(ScopedJoinHandle::is_finished);
            if !wait_until(WARM_UP, || all_answered() || has_stopped()) {
                let sentence = "everybody is answered within minutes, and everything once".to_owned();
                wrong.lock().expect("no thread panicked with it").push(("warm-up", Stop::Wrong(sentence)));
            }
            if !moment.wait(&started, &gate, has_stopped) {
                let sentence = "whatever was begun ends".to_owned();
                wrong.lock().expect("no thread panicked with it").push(("waiting for the cut", Stop::Wrong(sentence)));
            }
            site.cut_power();
            // Somebody may have been about to start one more.
            while !workers.iter().all(ScopedJoinHandle::is_finished) {
                site.end_all();
                pause(Duration::from_millis(5));
            }
        });
        for acks in answered {
            for (kind, count) in acks.into_inner().expect("no thread panicked with it") {
                tally.acknowledged(kind, count);
            }
        }
        tally.repeated(site.take_repeated());
        for (kind, stop) in wrong.into_inner().expect("no thread panicked with it") {
            note(tally, kind, Err(stop));
        }
        moment
    }

    /// Compares what is there with the books of everybody.
    pub(crate) fn look(&mut self, tally: &mut Tally) {
        for actor in &mut self.actors {
            let done = actor.look(&self.site, tally);
            note(tally, actor.kind(), done);
        }
    }

    /// Whatever is left to those who work is decided; and time passes, where somebody has to wait for that.
    fn settle(&mut self, tally: &mut Tally) {
        for actor in &mut self.actors {
            let done = actor.settle(&self.site, tally);
            note(tally, actor.kind(), done);
        }
        for dir in ["documented", "native"] {
            if self.site.age_ledger_lock(dir) {
                tally.mended("by waiting for half a minute: a ledger's lock without its bytes");
            }
        }
        for _ in 0..self.site.age_intents("snapped") {
            tally.mended("by waiting for a minute, and `doctor --strict --fix`: an announced snapshot or restore without its bytes");
        }
    }

    pub(crate) fn go_on(&mut self, tally: &mut Tally) {
        for actor in &mut self.actors {
            let done = actor.go_on(&self.site, tally);
            note(tally, actor.kind(), done);
        }
    }

    /// What is wrong can be mended, and then nothing is wrong.
    fn see_doctors(&self, tally: &mut Tally) {
        self.site.wait_for_blank_records();
        let all = [("doctor", "."), ("doctor --strict", "leased"), ("doctor --strict", "snapped")];
        let ledgers = [("ledger doctor", "documented"), ("ledger doctor", "native")];
        for (doctor, dir) in all.into_iter().chain(ledgers) {
            for complaint in self.complaints(doctor, dir) {
                // After a reboot lost lines come back; only on the boot on which they were written that looks like tampering.
                if self.site.is_rebooted() && complaint["code"] == "E_AUDIT_CHAIN_BROKEN" {
                    tally.wrong("doctor", &format!("what a power cut took is not called tampering: {complaint}"));
                }
                tally.mended(&format!("by `{doctor} --fix`: {}", headline(&complaint)));
            }
            let fix = self.site.run(&Call::new("peggy", &format!("{doctor} --fix")).within(dir));
            let left = self.complaints(doctor, dir);
            if fix.code != Some(0) || !left.is_empty() {
                tally.wrong("doctor", &format!("`{doctor} --fix` mends everything in {dir}: {left:?} {fix:?}"));
            }
        }
    }

    /// What a doctor says is wrong.
    fn complaints(&self, doctor: &str, dir: &str) -> Vec<Value> {
        let ended = self.site.run(&Call::new("peggy", &format!("{doctor} --json")).within(dir));
        let Ok(answer) = serde_json::from_str::<Value>(&ended.stdout) else { return vec![format!("{ended:?}").into()] };
        let list = |member: &str| answer[member].as_array().cloned().unwrap_or_default();
        let checks = list("checks").into_iter().filter(|check| check["status"] != "ok");
        checks.chain(list("problems")).flat_map(one_by_one).collect()
    }
}

/// A check may have several findings.
fn one_by_one(check: Value) -> Vec<Value> {
    let Some(findings) = check["findings"].as_array() else { return vec![check] };
    let named = |finding: &Value| {
        let mut finding = finding.clone();
        finding["name"] = check["name"].clone();
        finding
    };
    findings.iter().map(named).collect()
}

/// What a complaint is about, without what differs from one to the next, so that they can be counted.
fn headline(complaint: &Value) -> String {
    let words = ["name", "code"].iter().filter_map(|member| complaint[*member].as_str());
    words.collect::<Vec<_>>().join(", ")
}

/// When the power goes.
#[derive(Clone, Copy)]
pub(crate) enum Moment {
    /// At any moment.
    Any { ms: u64 },
    /// Right after somebody has begun something.
    Begun { whose: usize, us: u64 },
    /// Right after somebody was answered who was alone for its last steps: nobody else's syncs made durable what it did.
    Answered { whose: usize, steps: u64 },
}

impl Moment {
    fn draw(dice: &mut Dice, count: usize) -> Self {
        let whose = dice.index(count);
        match dice.below(3) {
            0 => Self::Any { ms: 50 + dice.below(1950) },
            1 => Self::Begun { whose, us: dice.below(20_000) },
            _ => Self::Answered { whose, steps: 1 + dice.below(3) },
        }
    }

    /// Waits for it. `gone`: somebody has stopped working. Says whether it came.
    fn wait(self, started: &[AtomicU64], gate: &Gate, gone: impl Fn() -> bool) -> bool {
        match self {
            Self::Any { ms } => pause(Duration::from_millis(ms)),
            Self::Begun { whose, us } => {
                let before = started[whose].load(Ordering::SeqCst);
                wait_until(Duration::from_secs(2), || started[whose].load(Ordering::SeqCst) > before);
                pause(Duration::from_micros(us));
            }
            Self::Answered { whose, steps } => return gate.leave_alone(whose, steps, gone),
        }
        true
    }
}

fn note(tally: &mut Tally, kind: &'static str, done: Result<(), Stop>) {
    if let Err(Stop::Wrong(sentence)) = done {
        tally.wrong(kind, &sentence);
    }
}

/// How a course went.
#[derive(Default)]
pub(crate) struct Course {
    pub(crate) cuts: u32,
    pub(crate) file_systems: u32,
    pub(crate) reboots: u32,
    /// Cuts right after the answer to somebody who was alone.
    pub(crate) alone: u32,
}

impl Course {
    /// Cuts the power so many times. Ends early when something was found.
    pub(crate) fn run(&mut self, kind: &str, cuts: u32, dice: &mut Dice, tally: &mut Tally, say: impl Fn(&str)) {
        let mut stage: Option<Stage> = None;
        for cut in 1..=cuts {
            let on = stage.get_or_insert_with(|| {
                self.file_systems += 1;
                Stage::new(kind, tally)
            });
            let moment = on.work_until_cut(dice, tally);
            self.alone += u32::from(matches!(moment, Moment::Answered { .. }));
            count(Trial::Outage);
            let rebooted = dice.below(2) == 0;
            self.cuts += 1;
            self.reboots += u32::from(rebooted);
            on.site.come_back(rebooted);
            on.look(tally);
            on.settle(tally);
            // Nobody needs a doctor to go on, and nobody is hurt by one.
            if dice.below(2) == 0 {
                on.see_doctors(tally);
                on.go_on(tally);
            } else {
                on.go_on(tally);
                on.see_doctors(tally);
            }
            tally.repeated(on.site.take_repeated());
            if !tally.findings.is_empty() {
                let boot = if rebooted { "another boot" } else { "the same boot" };
                say(&format!("{kind}: after cut {cut}, on {boot}:"));
                return;
            }
            if dice.below(FRESH_ONE_IN) == 0 {
                stage = None;
            }
        }
    }
}
