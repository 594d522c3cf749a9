//! Fills a small disk until nothing fits any more, and empties it again.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::Duration;

use lokt_testkit::dice::Dice;
use lokt_testkit::swarm::pause;

use super::troubles::note;
use crate::traffic::Traffic;

/// Fills and empties until the time is over. In the end it is empty.
pub(crate) fn fill(traffic: &Traffic<'_>, mut dice: Dice) {
    let filler = traffic.scene.base("disk").join("filler");
    while !traffic.is_over() {
        pause(Duration::from_millis(800 + dice.below(2_000)));
        let file = OpenOptions::new().append(true).create(true).open(&filler);
        let full = file.is_ok_and(|mut file| {
            let block = vec![0; 1 << 16];
            while file.write_all(&block).is_ok() {}
            // The last bytes, too.
            while file.write_all(&block[..512]).is_ok() {}
            file.sync_all().is_err() || file.write_all(&block[..512]).is_err()
        });
        if full {
            note(&traffic.scene.dir, "full disk");
        }
        pause(Duration::from_millis(300 + dice.below(1_500)));
        let _ = rustix::fs::unlink(&filler);
    }
}
