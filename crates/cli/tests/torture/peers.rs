//! Other locks under the same load and before the same judge. Two of them fail by design, and must be seen to: a judge that acquits them
//! would acquit anything.
//!
//! The load: four at a time want one lock, around a register that nothing else protects, and the process that took the lock is killed again
//! and again while its command goes on.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lokt_testkit::dice::Dice;
use lokt_testkit::guarding::{Relative, family};
use lokt_testkit::scribe::{self, Scribe};
use lokt_testkit::swarm::{now_ms, pause, wait_until};
use lokt_torture::history::{Deed, Entry, judge};
use rustix::process::Signal;

use crate::ends::{self, Ended, REFUSED, Whose};
use crate::scene::{LOKT, MARK};
use crate::traffic::{Traffic, locked, worker_words};

const RIVALS: usize = 4;
/// A command that is inside for so long at most, and most often for an eighth of it.
const DWELL_MS: u64 = 400;
/// A process that was killed is gone before that.
const DEATH: Duration = Duration::from_secs(20);
/// Whoever must fail gets so many slices of time to do so.
const SLICES_MAX: usize = 6;

/// A lock, and what is expected of it.
pub(crate) struct Peer {
    /// How it is called in the report.
    pub(crate) title: &'static str,
    dir: &'static str,
    /// Two of its holders are inside at once, sooner or later.
    pub(crate) fails: bool,
    /// Its holders get numbers that can't be trusted, sooner or later.
    pub(crate) misnumbers: bool,
    words: fn(&str) -> Vec<String>,
}

/// Those that are compared.
pub(crate) const PEERS: [Peer; 4] = [
    Peer {
        title: "lokt guard",
        dir: "peers/lokt",
        fails: false,
        misnumbers: false,
        words: |_| owned(&[LOKT, "guard", "-E", &REFUSED.to_string(), "x", "--timeout", "10s", "--"]),
    },
    Peer {
        title: "flock",
        dir: "peers/flock",
        fails: false,
        misnumbers: false,
        words: |base| owned(&["flock", "-w", "10", &format!("{base}/file")]),
    },
    Peer {
        title: "flock -o",
        dir: "peers/flock-o",
        fails: true,
        misnumbers: false,
        words: |base| owned(&["flock", "-o", "-w", "10", &format!("{base}/file")]),
    },
    Peer { title: "naive lock file", dir: "peers/naive", fails: true, misnumbers: true, words: |_| Vec::new() },
];

/// What became of one of them.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// How often somebody was let in.
    pub(crate) holds: usize,
    /// How often the process that took the lock was killed.
    pub(crate) killed: u64,
    /// Two were inside at once.
    pub(crate) overlaps: usize,
    /// Writes that were lost.
    pub(crate) lost: usize,
    /// Tokens that were given twice or went back.
    pub(crate) tokens: usize,
    /// One of the overlaps, as a sentence.
    pub(crate) example: Option<String>,
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl Peer {
    /// Where its history is.
    pub(crate) fn history(&self, dir: &Path) -> PathBuf {
        dir.join(self.dir).join("history")
    }

    /// Has everything happened that a verdict about it needs? For a lock that must fail that is each of its failures.
    pub(crate) fn has_shown(&self, outcome: &Outcome) -> bool {
        let failed = !self.fails || outcome.overlaps > 0;
        let misnumbered = !self.misnumbers || outcome.tokens > 0;
        outcome.holds > 0 && outcome.killed > 0 && failed && misnumbered
    }

    /// Runs it for a slice of time, or for several if nothing happened yet that a verdict could be about.
    pub(crate) fn run(&self, traffic: &Traffic<'_>, slice: Duration) -> Outcome {
        let history = self.history(&traffic.scene.dir);
        fs::create_dir_all(&history).expect("a temp directory is writable");
        let mut shown = Outcome::default();
        for _ in 0..SLICES_MAX {
            let killed = shown.killed + self.storm(traffic, slice);
            let entries = scribe::read(&history).expect("a history can be read");
            shown = Outcome { killed, ..outcome(&entries) };
            if self.has_shown(&shown) {
                break;
            }
        }
        shown
    }

    /// Gives how many were killed.
    fn storm(&self, traffic: &Traffic<'_>, slice: Duration) -> u64 {
        let ends_ms = now_ms() + u64::try_from(slice.as_millis()).expect("a slice is short");
        let wrappers: Vec<Mutex<Option<(u64, Relative)>>> = (0..RIVALS).map(|_| Mutex::new(None)).collect();
        let (killed, left) = (AtomicU64::new(0), AtomicU64::new(RIVALS as u64));
        thread::scope(|scope| {
            for rival in 0..RIVALS {
                let (wrappers, left) = (&wrappers, &left);
                let part = traffic.roll.enter(format!("{}, rival {rival}", self.title));
                scope.spawn(move || {
                    part.play(|| {
                        let mut dice = traffic.dice(self.title, 1 + rival as u64);
                        while now_ms() < ends_ms {
                            self.one(traffic, rival, &mut dice, &wrappers[rival]);
                        }
                    });
                    left.fetch_sub(1, Ordering::SeqCst);
                });
            }
            let history = self.history(&traffic.scene.dir).join("nemesis.jsonl");
            let scribe = Scribe::new(&history, 0).expect("a history can be written");
            let mut dice = traffic.dice(self.title, 0);
            while now_ms() < ends_ms && left.load(Ordering::SeqCst) > 0 {
                pause(Duration::from_millis(20 + dice.below(60)));
                // Whose command runs is inside.
                let inside = |wrapper: &Mutex<Option<(u64, Relative)>>| {
                    locked(wrapper).clone().filter(|(_, wrapper)| family(wrapper.pid).len() > 1)
                };
                let Some((who, wrapper)) = wrappers.iter().find_map(inside) else { continue };
                ends::strike(&traffic.scene.dir, who, wrapper.pid);
                // Not counted among what was done to lokt.
                wrapper.signal(Signal::KILL);
                wait_until(DEATH, || !wrapper.lives());
                scribe.write_about(who, scribe::now_ns(), Deed::Killed);
                killed.fetch_add(1, Ordering::SeqCst);
            }
        });
        killed.into_inner()
    }

    /// One who wants it, from its start to the end of everything that it started.
    fn one(&self, traffic: &Traffic<'_>, rival: usize, dice: &mut Dice, shown: &Mutex<Option<(u64, Relative)>>) {
        let scene = traffic.scene;
        let base = scene.base(self.dir);
        let who = traffic.someone();
        let history = self.history(&scene.dir).join(format!("rival-{rival}.jsonl"));
        let seed = dice.below(u64::MAX);
        let mut section = worker_words(traffic, self.dir, who, seed, &history, "section");
        section.extend([format!("dwell_ms={DWELL_MS}"), "register=yes".to_owned()]);
        let mut words = (self.words)(&base.display().to_string());
        if words.is_empty() {
            words = worker_words(traffic, self.dir, who, seed, &history, "naive");
            words.push("--".into());
        }
        words.extend(section);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&base).env("LOKT_ROOT", base.join("root")).env(MARK, &scene.dir);
        command.env_remove("LOKT_HOLDS").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let lock = format!("{}/x", self.dir);
        Scribe::new(&history, who).expect("a history can be written").write(Deed::Asked { name: lock });
        let mut child = command.spawn().expect("it can be started");
        *locked(shown) = Some((who, Relative::of(i64::from(child.id()))));
        let stderr = child.stderr.take().expect("it is piped");
        let mut said = String::new();
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            traffic.hear(who, &String::from_utf8_lossy(&line));
            said.extend([&String::from_utf8_lossy(&line), "\n"]);
        }
        let pid = child.id();
        let ended = child.wait().expect("it is our child");
        if words[0] == LOKT {
            let (code, signal) = (ended.code(), ended.signal());
            let ended = Ended { pid, code, signal, stdout: String::new(), stderr: said };
            ends::note(&scene.dir, Whose::Life(who), self.dir, &words[1..].join(" "), false, &ended);
        }
        *locked(shown) = None;
    }
}

/// What a history of one lock shows.
pub(crate) fn outcome(entries: &[Entry]) -> Outcome {
    let overlaps = judge::overlaps(entries);
    Outcome {
        holds: entries.iter().filter(|entry| matches!(entry.deed, Deed::Entered { .. })).count(),
        killed: 0,
        example: overlaps.first().map(ToString::to_string),
        overlaps: overlaps.len(),
        lost: judge::lost_updates(entries).len(),
        tokens: judge::tokens(entries, |name| name).len(),
    }
}
