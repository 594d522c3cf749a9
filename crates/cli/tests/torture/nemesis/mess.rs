//! Damages by hand what the promise about tokens covers: lock files and lokt's own notes are deleted or filled with rubbish, in a ward of its own.

use std::path::Path;
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
        pause(Duration::from_millis(100 + dice.below(500)));
        let record = root.join(format!("locks/{}.json", MESSY[dice.index(MESSY.len())]));
        let (path, rubbish) = match dice.below(8) {
            0..3 => (record, None),
            3..5 => (record, Some("{\"version\":1,\"na")),
            5 => (root.join("state/next"), None),
            6 => (root.join("state/next"), Some("rubbish")),
            _ => {
                if std::fs::remove_dir_all(root.join("state")).is_ok() {
                    note(dir, "deleted file");
                }
                continue;
            }
        };
        match rubbish {
            None if rustix::fs::unlink(&path).is_ok() => note(dir, "deleted file"),
            Some(rubbish) if overwritten(&path, rubbish) => note(dir, "damaged file"),
            _ => {}
        }
    }
}

/// Only what is there: a file that nobody made isn't damaged.
fn overwritten(path: &Path, rubbish: &str) -> bool {
    use std::io::Write as _;
    let file = std::fs::OpenOptions::new().write(true).truncate(true).open(path);
    file.is_ok_and(|mut file| file.write_all(rubbish.as_bytes()).is_ok())
}
