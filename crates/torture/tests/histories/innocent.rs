//! Histories of a lock that works: an imagined machine with one lock server, a register, a ledger, and somebody who kills and stops.

use std::collections::{BTreeMap, VecDeque};

use lokt_torture::history::{Deed, Entry, figures, judge};
use proptest::prelude::*;

pub(super) const NAMES: [&str; 3] = ["hot", "cold", "leased"];
const LEASE_NS: u64 = 1_000_000_000;

/// Small random numbers; the same ones for the same seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The lock server: who is inside and since when, and who waits.
#[derive(Default)]
struct Server {
    holder: Option<(u64, u64)>,
    line: VecDeque<u64>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Idle,
    Waiting(usize),
    Inside(usize),
}

struct Life {
    who: u64,
    state: State,
    stopped: bool,
    /// Of its last hold.
    token: u64,
}

/// A history of `steps` steps of a lock that works. Entries are written on the right side of what they tell, with some time between.
pub(super) fn working_lock(seed: u64, steps: usize) -> Vec<Entry> {
    let mut world = World {
        dice: Dice(seed),
        now: 1_000,
        entries: Vec::new(),
        servers: Default::default(),
        token: 0,
        register: 0,
        number: 0,
        lives: Vec::new(),
        born: 0,
    };
    for _ in 0..6 {
        world.give_birth();
    }
    for _ in 0..steps {
        world.step();
    }
    world.entries
}

struct World {
    dice: Dice,
    now: u64,
    entries: Vec<Entry>,
    servers: [Server; 3],
    token: u64,
    register: u64,
    number: u64,
    lives: Vec<Life>,
    born: u64,
}

impl World {
    fn give_birth(&mut self) {
        self.born += 1;
        self.lives.push(Life { who: self.born, state: State::Idle, stopped: false, token: 0 });
    }

    fn write(&mut self, who: u64, deed: Deed) {
        self.now += 1 + self.dice.below(1_000_000);
        self.entries.push(Entry { at: self.now, who, deed });
    }

    fn name(name: usize) -> String {
        NAMES[name].to_owned()
    }

    /// A lease that is over lets others in, whatever its holder believes.
    fn let_in_next(&mut self, name: usize) {
        if name == 2 && self.servers[2].holder.is_some_and(|(_, since)| self.now > since + LEASE_NS) {
            self.servers[2].holder = None;
        }
        self.let_in(name);
    }

    /// Lets the next in line in, if it is free: whoever is stopped is passed over.
    fn let_in(&mut self, name: usize) {
        let awake = |who: &&u64| self.lives.iter().any(|life| life.who == **who && !life.stopped);
        if self.servers[name].holder.is_some() {
            return;
        }
        let Some(who) = self.servers[name].line.iter().find(awake).copied() else { return };
        self.servers[name].line.retain(|waiter| *waiter != who);
        self.servers[name].holder = Some((who, self.now));
        self.token += 1 + self.dice.below(3);
        let until = (name == 2).then_some(self.now + LEASE_NS);
        let token = Some(self.token);
        self.write(who, Deed::Entered { name: Self::name(name), token, until });
        let life = self.lives.iter_mut().find(|life| life.who == who).expect("who waits lives");
        life.state = State::Inside(name);
        life.token = self.token;
    }

    fn step(&mut self) {
        for name in 0..NAMES.len() {
            self.let_in_next(name);
        }
        let chosen = usize::try_from(self.dice.below(self.lives.len() as u64)).expect("it is small");
        let (who, state, stopped) = {
            let life = &self.lives[chosen];
            (life.who, life.state, life.stopped)
        };
        match self.dice.below(40) {
            0 => return self.kill(chosen),
            1 if !stopped => {
                self.write(who, Deed::Stopped);
                self.lives[chosen].stopped = true;
                return;
            }
            2..12 if stopped => {
                self.lives[chosen].stopped = false;
                return self.write(who, Deed::Continued);
            }
            _ if stopped => return,
            _ => {}
        }
        match state {
            State::Idle if self.dice.below(4) == 0 => self.append(who),
            State::Idle => self.ask(chosen, who),
            State::Waiting(name) if self.dice.below(8) == 0 => self.give_up(chosen, who, name),
            State::Waiting(_) => self.now += self.dice.below(100_000_000),
            State::Inside(name) => self.work(chosen, who, name),
        }
    }

    fn ask(&mut self, chosen: usize, who: u64) {
        let name = usize::try_from(self.dice.below(3)).expect("it is small");
        self.write(who, Deed::Asked { name: Self::name(name) });
        let server = &mut self.servers[name];
        if self.dice.below(4) == 0 && (server.holder.is_some() || !server.line.is_empty()) {
            return self.write(who, Deed::GaveUp { name: Self::name(name) });
        }
        let server = &mut self.servers[name];
        server.line.push_back(who);
        self.lives[chosen].state = State::Waiting(name);
        self.write(who, Deed::InLine { name: Self::name(name) });
    }

    /// Its time is over. Whoever is next may be inside before it says so.
    fn give_up(&mut self, chosen: usize, who: u64, name: usize) {
        let until = self.now;
        self.servers[name].line.retain(|waiter| *waiter != who);
        self.lives[chosen].state = State::Idle;
        self.let_in_next(name);
        self.write(who, Deed::OutOfTime { name: Self::name(name), until });
        self.write(who, Deed::GaveUp { name: Self::name(name) });
    }

    fn work(&mut self, chosen: usize, who: u64, name: usize) {
        // Only what needs no lease may write without being fenced.
        if name == 0 && self.dice.below(3) > 0 {
            let seen = self.register;
            self.register += 1;
            let deed = Deed::Wrote { register: "hot".into(), token: None, seen, made: seen + 1, taken: true };
            return self.write(who, deed);
        }
        let is_over = self.servers[2].holder.is_none_or(|(holder, since)| holder != who || self.now > since + LEASE_NS);
        if name == 2 && is_over {
            let token = self.lives[chosen].token;
            self.write(who, Deed::Overslept { name: Self::name(name), token });
            let deed = Deed::Wrote { register: "fenced".into(), token: Some(token), seen: 0, made: 1, taken: false };
            self.write(who, deed);
        }
        self.write(who, Deed::Left { name: Self::name(name) });
        self.lives[chosen].state = State::Idle;
        if self.servers[name].holder.is_some_and(|(holder, _)| holder == who) {
            self.servers[name].holder = None;
        }
    }

    fn append(&mut self, who: u64) {
        let (ledger, key) = (String::from("events"), format!("{who}-{}", self.number));
        self.write(who, Deed::Appending { ledger: ledger.clone(), key: key.clone() });
        self.number += 1;
        let number = self.number;
        self.write(who, Deed::Appended { ledger: ledger.clone(), key: key.clone(), number });
        if self.dice.below(8) == 0 {
            self.write(who, Deed::Appending { ledger: ledger.clone(), key: key.clone() });
            self.write(who, Deed::Appended { ledger, key, number });
        }
    }

    fn kill(&mut self, chosen: usize) {
        let life = self.lives.remove(chosen);
        if life.state == State::Inside(0) && self.dice.below(2) == 0 {
            // It wrote, and died before it could say so.
            self.register += 1;
        }
        // It lived a moment ago, and has what it has until it is dead. Nobody gets in before that, though a lease may end.
        self.write(life.who, Deed::Killing);
        self.now += self.dice.below(LEASE_NS);
        for name in 0..NAMES.len() {
            self.let_in_next(name);
        }
        for server in &mut self.servers {
            server.line.retain(|waiter| *waiter != life.who);
            if server.holder.is_some_and(|(holder, _)| holder == life.who) {
                server.holder = None;
            }
        }
        // Whoever waited may be inside before anybody writes down that it was killed.
        for name in 0..NAMES.len() {
            self.let_in_next(name);
        }
        self.write(life.who, Deed::Killed);
        self.give_birth();
    }
}

/// Everything that all judges have to say.
pub(super) fn verdict(history: &[Entry]) -> Vec<String> {
    let mut found: Vec<String> = judge::overlaps(history).iter().map(ToString::to_string).collect();
    found.extend(judge::tokens(history, |_| "").iter().map(ToString::to_string));
    found.extend(judge::late_writes(history).iter().map(ToString::to_string));
    found.extend(judge::line(history).iter().map(ToString::to_string));
    found.extend(judge::lost_updates(history).iter().map(ToString::to_string));
    found.extend(judge::ledger(history).iter().map(ToString::to_string));
    found
}

/// What judges of registers say who hear the history in four parts, and of earlier ones only how far each register had come.
pub(super) fn lost_in_rounds(history: &[Entry]) -> Vec<String> {
    let mut greatest = BTreeMap::new();
    let mut found = Vec::new();
    for part in history.chunks((history.len() / 4).max(1)) {
        for register in judge::registers_after(&greatest, part) {
            found.extend(register.lost.iter().map(ToString::to_string));
            greatest.extend(register.greatest.map(|greatest| (register.name, greatest)));
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn a_lock_that_works_is_never_condemned(seed in any::<u64>(), steps in 0_usize..2_000) {
        let mut history = working_lock(seed, steps);
        prop_assert_eq!(verdict(&history), Vec::<String>::new(), "a working lock is innocent");
        prop_assert_eq!(lost_in_rounds(&history), Vec::<String>::new(), "and it is so in any part, after those before");
        let before = figures(&history);
        let mut dice = Dice(seed);
        history.sort_by_cached_key(|_| dice.below(u64::MAX >> 33));
        prop_assert_eq!(figures(&history), before, "entries may come in any order");
        prop_assert_eq!(verdict(&history), Vec::<String>::new(), "entries may come in any order");
    }
}

#[test]
fn the_imagined_machine_does_everything_that_can_be_judged() {
    let history = working_lock(1, 20_000);
    let figures = figures(&history);
    assert!(figures.holds > 1_000, "it is entered: {figures:?}");
    assert!(figures.hand_offs > 100 && figures.hand_over.count == figures.hand_offs, "and handed on: {figures:?}");
    assert!(figures.killed > 100 && figures.stopped > 100, "processes are killed and stopped: {figures:?}");
    assert!(figures.gave_up > 100, "some give up: {figures:?}");
    assert!(figures.wait.p50 > 0 && figures.wait.p50 <= figures.wait.p99, "waiting takes time: {figures:?}");
    let registers = judge::registers(&history);
    assert!(registers[0].refused > 10, "late writers come and are refused: {registers:?}");
    assert!(registers[1].acknowledged > 500, "registers are written: {registers:?}");
    let out_of_time = history.iter().filter(|entry| matches!(entry.deed, Deed::OutOfTime { .. })).count();
    assert!(out_of_time > 100, "some wait in vain: {out_of_time}");
}

#[test]
fn a_million_entries_are_judged_in_seconds() {
    let history = working_lock(7, 1_300_000);
    assert!(history.len() > 1_000_000, "that is a million: {}", history.len());
    #[expect(clippy::disallowed_methods, reason = "a test of speed looks at the clock")]
    let began = std::time::Instant::now();
    assert_eq!(verdict(&history), Vec::<String>::new());
    let took = began.elapsed();
    assert!(took.as_secs() < 60, "a million entries took {took:?}");
}
