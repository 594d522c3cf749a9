//! A lock as many programs have it: a file that is made exclusively, with a pid in it, and deleted by whoever believes that its owner is gone.
//! It is here to be condemned: a judge that acquits it would acquit anything.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use lokt_testkit::guarding::Relative;
use lokt_testkit::swarm::{now_ms, pause};

use super::{Life, detached};

const PATIENCE_MS: u64 = 10_000;

/// Runs what stands behind `--` under such a lock. Its token is one more than that in the file that was there, if one was.
pub(super) fn run(life: &Life) -> ExitCode {
    let path = life.base.join("naive.lock");
    let began_ms = now_ms();
    let mut token = 1;
    while !created(&path, token) {
        if now_ms() - began_ms > PATIENCE_MS {
            return ExitCode::from(2);
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut words = text.split_whitespace();
        let pid: i64 = words.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
        if pid > 0 && Relative::of(pid).lives() {
            pause(Duration::from_millis(3));
            continue;
        }
        // Stale: the owner is dead, or wrote nothing.
        token = words.next().and_then(|token| token.parse().ok()).unwrap_or(0) + 1;
        let _ = rustix::fs::unlink(&path);
    }
    let mut command = Command::new(&life.command[0]);
    command.args(&life.command[1..]).env("NAIVE_TOKEN", token.to_string());
    detached(&mut command, &life.dir);
    let ended = command.status().expect("this program can be run");
    let _ = rustix::fs::unlink(&path);
    if ended.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn created(path: &Path, token: u64) -> bool {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.is_ok_and(|mut file| writeln!(file, "{} {token}", std::process::id()).is_ok())
}
