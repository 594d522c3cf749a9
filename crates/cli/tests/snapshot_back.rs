//! Coming back in place, at length: killed at each step, the worktree has its old tree or the new one, at the latest after the next command;
//! stopped at each step while another takes the lease, it changes nothing any more when it goes on.

#[path = "snapshot_back/killed.rs"]
mod killed;
#[path = "snapshot_back/scene.rs"]
mod scene;
#[path = "snapshot_back/stopped.rs"]
mod stopped;

use std::io::Write as _;

const LOKT: &str = env!("CARGO_BIN_EXE_lokt");

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
