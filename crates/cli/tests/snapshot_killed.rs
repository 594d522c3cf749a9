//! Snapshots at length: killed at random moments and at each step of the commit, taken by fifteen at once, and collected beside those who take
//! and restore them.

#[path = "snapshot_killed/collected.rs"]
mod collected;
#[path = "snapshot_killed/killed.rs"]
mod killed;
#[path = "snapshot_killed/store.rs"]
mod store;
#[path = "snapshot_killed/together.rs"]
mod together;

use std::io::Write as _;

const LOKT: &str = env!("CARGO_BIN_EXE_lokt");

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
