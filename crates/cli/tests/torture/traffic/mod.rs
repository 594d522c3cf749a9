//! The traffic: slots, in each of which one process after another lives and works until the time is over.

mod lives;

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lokt_testkit::dice::Dice;
use lokt_testkit::guarding::Relative;
use lokt_testkit::scribe::{Scribe, now_ns};
use lokt_testkit::swarm::{now_ms, pause};
use lokt_torture::history::Deed;

pub(crate) use self::lives::{LOAD, What, worker_words};
use self::lives::{Started, planted, planted_worker};
use crate::ends::{self, ABORT, Ended, REFUSED, Whose};
use crate::roll::Roll;
use crate::scene::{Scene, settle};

/// Everything that runs at once.
pub(crate) struct Traffic<'a> {
    /// Where.
    pub(crate) scene: &'a Scene,
    /// Nobody begins anything later.
    pub(crate) ends_ms: u64,
    /// Who lives in each slot now.
    pub(crate) targets: Vec<Mutex<Option<Target>>>,
    /// Who is at work.
    pub(crate) roll: Roll,
    next_who: AtomicU64,
    /// How many have lived in each slot.
    births: Vec<AtomicU64>,
    seed: u64,
    complaints: Mutex<Vec<String>>,
}

/// Somebody who lives now.
pub(crate) struct Target {
    /// Its number in the history.
    pub(crate) who: u64,
    /// Its first process.
    pub(crate) process: Relative,
}

/// What the part of a run is called that lives in a slot.
pub(crate) fn part(slot: usize) -> String {
    format!("slot {slot:02}")
}

/// The lock, whoever panicked with it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Traffic<'a> {
    /// Nothing runs yet.
    pub(crate) fn new(scene: &'a Scene, seed: u64, ends_ms: u64) -> Self {
        let targets = LOAD.iter().map(|_| Mutex::new(None)).collect();
        let births = LOAD.iter().map(|_| AtomicU64::new(0)).collect();
        let (roll, next_who, complaints) = (Roll::default(), AtomicU64::new(1), Mutex::default());
        Self { scene, ends_ms, targets, roll, next_who, births, seed, complaints }
    }

    /// A number for one more life.
    pub(crate) fn someone(&self) -> u64 {
        self.next_who.fetch_add(1, Ordering::SeqCst)
    }

    /// How many have lived so far.
    pub(crate) fn lives(&self) -> u64 {
        self.next_who.load(Ordering::SeqCst) - 1
    }

    /// Numbers for one part of the run, from the seed. Who is the `nth` of its part is the same in every run; the numbers in the history aren't,
    /// since all parts draw those at once.
    pub(crate) fn dice(&self, part: &str, nth: u64) -> Dice {
        // FNV-1a.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let bytes = part.bytes().chain(nth.to_le_bytes()).chain(self.seed.to_le_bytes());
        Dice::new(bytes.fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// The next life of a slot: its number in the history, and its choices.
    pub(crate) fn born(&self, slot: usize) -> (u64, Dice) {
        let nth = self.births[slot].fetch_add(1, Ordering::SeqCst);
        (self.someone(), self.dice(&part(slot), nth))
    }

    /// Is it time to begin nothing more?
    pub(crate) fn is_over(&self) -> bool {
        now_ms() >= self.ends_ms
    }

    /// What nobody should have said.
    pub(crate) fn complaints(&self) -> Vec<String> {
        locked(&self.complaints).clone()
    }

    /// The file in which a slot's lives write.
    fn history(&self, slot: usize) -> PathBuf {
        self.scene.dir.join(format!("history/slot-{slot:02}.jsonl"))
    }

    /// One life after another.
    pub(crate) fn live(&self, slot: usize) {
        let kind = &LOAD[slot];
        while !self.is_over() {
            let (who, mut dice) = self.born(slot);
            let started = kind.life(self, who, &self.history(slot), &mut dice);
            let refused = self.see(slot, who, &started);
            let rest_ms = if refused { 20 + dice.below(80) } else { dice.below(10) };
            pause(Duration::from_millis(rest_ms));
        }
    }

    /// Runs one life to its end, and that of everything that it started: all of them have its stderr. Says whether it was refused.
    fn see(&self, slot: usize, who: u64, started: &Started) -> bool {
        let base = self.scene.base(started.ward);
        let scribe = Scribe::new(&self.history(slot), who).expect("a history can be written");
        // The nemesis must come to its turn among them. Whatever ends this program ends them too, also those that stand still.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "nice", "-n", "5"]).args(&started.words);
        command.current_dir(base.join(started.place));
        settle(&mut command, &base, &format!("w{who}"), &self.scene.dir);
        // As git tells the hooks of a bare repository, which then go elsewhere.
        if started.has_git_dir {
            command.env("GIT_DIR", ".");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        for lock in &started.asks {
            scribe.write(Deed::Asked { name: lock.clone() });
        }
        let mut child = command.spawn().expect("a process can be started");
        *locked(&self.targets[slot]) = Some(Target { who, process: Relative::of(i64::from(child.id())) });
        let stderr = child.stderr.take().expect("it is piped");
        let mut said = String::new();
        for line in BufReader::new(stderr).split(b'\n') {
            let at = now_ns();
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.starts_with("waiting for lock") && started.plain && started.asks.len() == 1 {
                self.in_line(&scribe, slot, who, at, &started.asks[0]);
            }
            self.hear(who, &line);
            said.extend([&line, "\n"]);
        }
        let pid = child.id();
        let ended = child.wait().expect("it is our child");
        *locked(&self.targets[slot]) = None;
        let (code, signal) = (ended.code(), ended.signal());
        let told = Ended { pid, code, signal, stdout: String::new(), stderr: said };
        ends::note(&self.scene.dir, Whose::Life(who), started.ward, &started.command, !started.plain, &told);
        if let Some(wrapped) = &started.wrapped {
            wrapped.note(&self.scene.dir);
        }
        let refused = ended.code() == Some(REFUSED) || (started.refuses_by_2 && ended.code() == Some(2));
        if refused {
            for lock in &started.asks {
                scribe.write(Deed::GaveUp { name: lock.clone() });
            }
        }
        refused || ended.code() == Some(1)
    }

    /// When nobody else runs: lives and commands that end as none may, for those who judge ends.
    pub(crate) fn plant_ends(&self) {
        let slot = 0;
        let (dir, history) = (&self.scene.dir, self.history(slot));
        let troubled = |mut started: Started| {
            started.plain = false;
            started
        };
        let lives = [
            planted("exits with 1", "echo planted >&2; exit 1"),
            planted("dies of a signal", "kill -TERM $$"),
            planted("aborts", ABORT),
            troubled(planted("aborts in trouble", ABORT)),
        ];
        for started in lives {
            self.see(slot, self.someone(), &started);
        }
        let who = self.someone();
        self.see(slot, who, &planted_worker(self, who, &history));
        let who = self.someone();
        ends::strike(dir, who, 0);
        self.see(slot, who, &planted("exits with 1, and was struck", "exit 1"));
    }

    /// It was seen in line at `at`. If it has entered since, that isn't written down: it would look like a sign of life of a process that may
    /// have been killed before.
    fn in_line(&self, scribe: &Scribe, slot: usize, who: u64, at: u64, lock: &str) {
        let text = std::fs::read_to_string(self.history(slot)).unwrap_or_default();
        let mark = format!("\"who\":{who},\"did\":\"entered\"");
        if !text.lines().rev().take(4).any(|line| line.contains(&mark)) {
            scribe.write_at(at, Deed::InLine { name: lock.to_owned() });
        }
    }

    /// Somebody said something. What nobody should say is remembered.
    pub(crate) fn hear(&self, who: u64, line: &str) {
        let mut complaints = locked(&self.complaints);
        let whose = format!("process {who}: ");
        if line.contains("panicked at") {
            complaints.push(whose + line);
        } else if let Some(first) = complaints.iter_mut().find(|said| said.starts_with(&whose) && said.ends_with(':')) {
            // What it is about is in the second line.
            first.extend([" ", line]);
        }
        drop(complaints);
        crate::report::file(&self.scene.dir.join("said"), &format!("{who} {line}"));
    }
}
