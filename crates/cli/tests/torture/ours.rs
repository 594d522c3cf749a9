//! The processes of a run: whatever has its mark.

use std::fs;
use std::path::Path;
use std::time::Duration;

use lokt_testkit::guarding::Relative;
use lokt_testkit::swarm::wait_until;

use crate::scene::MARK;

/// Between two attempts to end them all: some of them start others meanwhile.
const BETWEEN: Duration = Duration::from_millis(200);
/// So often at most. Whoever is still there then can't be killed.
const ATTEMPTS: usize = 100;

/// Every process that a run started and that still lives, with its command line.
pub(crate) fn ours(dir: &Path) -> Vec<(Relative, String)> {
    let mark = format!("{MARK}={}", dir.display());
    let own = i64::from(std::process::id());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i64>().ok());
    let is_ours = |pid: &i64| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        *pid != own && environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let with_words = |pid: i64| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        (Relative::of(pid), String::from_utf8_lossy(&words).replace('\0', " "))
    };
    pids.filter(is_ours).map(with_words).filter(|(process, _)| process.lives()).collect()
}

/// Ends them until `over`; says whether that came.
pub(crate) fn end_until(dir: &Path, over: impl Fn() -> bool) -> bool {
    for _ in 0..ATTEMPTS {
        for (process, _) in ours(dir) {
            process.kill();
        }
        if wait_until(BETWEEN, &over) {
            return true;
        }
    }
    false
}

/// Ends them all.
pub(crate) fn end(dir: &Path) -> bool {
    end_until(dir, || ours(dir).is_empty())
}
