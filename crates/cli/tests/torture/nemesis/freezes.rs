//! Freezes a lock for a while, and another one after that. It isn't disturbed: what is asked for during a freeze is.

use std::path::Path;
use std::time::Duration;

use lokt_testkit::dice::Dice;
use lokt_testkit::scribe::now_ns;
use lokt_testkit::swarm::pause;

use super::troubles::note;
use crate::ends::{self, Whose};
use crate::report;
use crate::scene::{BRIEF, LASTING};
use crate::traffic::Traffic;

/// Those in line leave a free lock alone for less than the two seconds after which they are passed over.
const FREEZE_MS_MAX: u64 = 1_200;
/// A root that is busy is asked again, so often.
const ATTEMPTS: usize = 30;

/// A lock was frozen for certain from one moment to another, on the clock of the history.
pub(crate) struct Freeze {
    /// As the history calls it.
    pub(crate) name: String,
    /// It was answered.
    pub(crate) from: u64,
    /// Nobody had begun to end it.
    pub(crate) to: u64,
}

impl Freeze {
    /// Did it last at this moment?
    pub(crate) fn lasts_at(&self, at: u64) -> bool {
        self.from < at && at < self.to
    }
}

/// Freezes until the time is over. In the end nothing is frozen.
pub(crate) fn freeze(traffic: &Traffic<'_>, mut dice: Dice) {
    let scene = traffic.scene;
    let names = [LASTING.as_slice(), &BRIEF].concat();
    while !traffic.is_over() {
        pause(Duration::from_millis(500 + dice.below(2_500)));
        let name = names[dice.index(names.len())];
        let said = |args: &[&str]| {
            let ended = scene.run("main", args);
            ended.stderr.lines().for_each(|line| traffic.hear(0, line));
            ends::note(&scene.dir, Whose::Commands(0), "main", &args.join(" "), false, &ended);
            ended.code == Some(0)
        };
        // If its answer is lost it may be there all the same.
        let frozen = said(&["freeze", name, "--ttl", "10m"]);
        let from = now_ns();
        pause(Duration::from_millis(100 + dice.below(FREEZE_MS_MAX)));
        let to = now_ns();
        let ended = (0..ATTEMPTS).any(|_| said(&["unfreeze", name]) || !frozen);
        assert!(ended, "{name} can be unfrozen");
        if frozen {
            report::file(&scene.dir.join("freezes"), &format!("main/{name} {from} {to}"));
            note(&scene.dir, "freeze");
        }
    }
}

/// The freezes of a run.
pub(crate) fn read(dir: &Path) -> Vec<Freeze> {
    let text = std::fs::read_to_string(dir.join("freezes")).unwrap_or_default();
    let freeze = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        Some(Freeze { name, from: words.next()?.parse().ok()?, to: words.next()?.parse().ok()? })
    };
    text.lines().map(|line| freeze(line).expect("a line has a name and two moments")).collect()
}
