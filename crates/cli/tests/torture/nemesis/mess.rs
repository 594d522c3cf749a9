//! Damages by hand what the promise about tokens covers: lock files, lokt's own notes, and the pulses of those who wait and of those who hold are
//! deleted or filled with rubbish, in a ward of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lokt_testkit::dice::Dice;
use lokt_testkit::swarm::pause;

use super::troubles::note;
use crate::scene::MESSY;
use crate::traffic::Traffic;

/// Damages until the time is over.
pub(crate) fn make_a_mess(traffic: &Traffic<'_>, mut dice: Dice) {
    let dir = &traffic.scene.dir;
    let root = traffic.scene.base("mess").join("root");
    while !traffic.is_over() {
        pause(Duration::from_millis(100 + dice.below(300)));
        let name = MESSY[dice.index(MESSY.len())];
        let record = root.join(format!("locks/{name}.json"));
        let (what, path, rubbish) = match dice.below(14) {
            0..3 => ("file", record, None),
            3..5 => ("file", record, Some("{\"version\":1,\"na")),
            5 => ("file", root.join("state/next"), None),
            6 => ("file", root.join("state/next"), Some("rubbish")),
            7 => {
                if std::fs::remove_dir_all(root.join("state")).is_ok() {
                    note(dir, "deleted file");
                }
                continue;
            }
            kind => {
                // Those who wait have tickets, those who hold have pulses; most often there are few.
                let tickets = files(&root.join("state/line").join(name));
                let pulses = [tickets, files(&root.join("state/held"))].concat();
                if pulses.is_empty() {
                    continue;
                }
                let pulse = pulses[dice.index(pulses.len())].clone();
                ("pulse", pulse, [None, Some(""), Some("rubbish")][usize::try_from(kind % 3).unwrap_or(0)])
            }
        };
        match rubbish {
            None if rustix::fs::unlink(&path).is_ok() => note(dir, &format!("deleted {what}")),
            Some(rubbish) if overwritten(&path, rubbish) => note(dir, &format!("damaged {what}")),
            _ => {}
        }
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Only what is there: a file that nobody made isn't damaged.
fn overwritten(path: &Path, rubbish: &str) -> bool {
    use std::io::Write as _;
    let file = std::fs::OpenOptions::new().write(true).truncate(true).open(path);
    file.is_ok_and(|mut file| file.write_all(rubbish.as_bytes()).is_ok())
}
