//! The real command with a wall clock that is wrong, or that is set while it runs.
//!
//! `libfaketime` moves the clock of the standard library by preloading, so it needs a dynamically linked build. Boot clocks are read by direct
//! system calls, which it can't move, and are left alone.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// How often the wrapper is asked: each time it is another process.
const ATTEMPTS: usize = 100;

/// The command, linked dynamically. Built beside the usual build, in `tmp` (`CARGO_TARGET_TMPDIR`), from the package in `manifest_dir`.
pub fn dynamic_build(cargo: &str, manifest_dir: &str, tmp: &str) -> String {
    let target = Path::new(tmp).join("dynamic");
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "lokt-cli", "--target", "host-tuple", "--target-dir"])
        .arg(&target)
        // An empty RUSTFLAGS would leave the configured flags in place.
        .env("RUSTFLAGS", "-C target-feature=-crt-static")
        // Everything is compiled once more, for a few processes.
        .envs([("CARGO_PROFILE_DEV_OPT_LEVEL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")])
        .current_dir(manifest_dir)
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "a dynamic build: {}", String::from_utf8_lossy(&built.stderr));
    let found = std::fs::read_dir(&target)
        .expect("cargo made it")
        .filter_map(|entry| Some(entry.ok()?.path().join("debug/lokt")))
        .find(|path| path.is_file());
    found.expect("cargo built the command").display().to_string()
}

/// The library that moves clocks. Who starts many processes that get killed asks once and hands it on to them.
pub fn library() -> &'static str {
    static LIBRARY: OnceLock<String> = OnceLock::new();
    LIBRARY.get_or_init(ask_for_library)
}

fn ask_for_library() -> String {
    // The wrapper knows where it is. It can't start where another one, that was killed, had its pid before, so it isn't used for more.
    let mut said = String::new();
    for _ in 0..ATTEMPTS {
        let asked = Command::new("faketime").args(["-f", "+0", "sh", "-c", "echo $LD_PRELOAD"]).output();
        let asked = asked.unwrap_or_else(|error| panic!("faketime is needed, which moves clocks: {error}"));
        let library = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
        if library.contains("faketime") {
            return library;
        }
        said = format!("{asked:?}");
    }
    panic!("faketime preloads its library: {said}")
}

/// Words before a command line, whose wall clock then is off by `offset` (`+1h`), or begins at a time (`@2001-02-03 04:05:06`).
pub fn by_offset(offset: &str) -> Vec<String> {
    preloaded(library(), &format!("FAKETIME={offset}"))
}

/// Words before a command line, whose wall clock then is what the file `clock` says (`+3600`, seconds from the true one), also if that
/// changes while it runs.
pub fn by_file(library: &str, clock: &Path) -> Vec<String> {
    let mut words = preloaded(library, &format!("FAKETIME_TIMESTAMP_FILE={}", clock.display()));
    words.push("FAKETIME_NO_CACHE=1".to_owned());
    words
}

fn preloaded(library: &str, clock: &str) -> Vec<String> {
    ["env", &format!("LD_PRELOAD={library}"), clock, "FAKETIME_DONT_FAKE_MONOTONIC=1"].map(str::to_owned).to_vec()
}

/// Takes away, in the end, what processes with a moved clock have left behind since then when they were killed.
#[derive(Debug)]
pub struct Broom {
    before: HashSet<PathBuf>,
}

impl Broom {
    /// What is there already is somebody else's.
    pub fn take() -> Self {
        Self { before: shared().collect() }
    }
}

impl Drop for Broom {
    fn drop(&mut self) {
        for path in shared().filter(|path| !self.before.contains(path)) {
            let pid = path.to_str().and_then(|path| path.rsplit('_').next()).unwrap_or_default();
            if !Path::new("/proc").join(pid).exists() {
                let _ = rustix::fs::unlink(&path);
            }
        }
    }
}

/// What the library keeps in shared memory for each process.
fn shared() -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir("/dev/shm").expect("there is shared memory").flatten();
    entries.map(|entry| entry.path()).filter(|path| path.to_str().is_some_and(|path| path.contains("faketime_s")))
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use super::*;
    use crate::swarm::{put, wait_until};

    /// One of these tests sweeps away what the others make.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// What the wrapper leaves behind if it is killed, for the pids that come next.
    struct Leftovers(Vec<PathBuf>);

    impl Leftovers {
        fn of_the_next(count: u32) -> Self {
            let mut last = Command::new("true").spawn().expect("it runs");
            last.wait().expect("it is our child");
            let next = last.id() + 1..=last.id() + count;
            let files = next.map(|pid| PathBuf::from(format!("/dev/shm/sem.faketime_sem_{pid}"))).collect::<Vec<_>>();
            for file in &files {
                put(file, "");
            }
            Self(files)
        }
    }

    impl Drop for Leftovers {
        fn drop(&mut self) {
            for file in &self.0 {
                let _ = rustix::fs::unlink(file);
            }
        }
    }

    #[test]
    fn a_clock_moves_whatever_killed_processes_left_behind() {
        crate::need!("faketime");
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let words = by_offset("@2001-02-03 04:05:06");
        // Pids start again at the lowest after the highest one, and other processes take some.
        let cant_start = || {
            let leftovers = Leftovers::of_the_next(200);
            let wrapper = Command::new("faketime").args(["-f", "+0", "true"]).output().expect("faketime runs");
            (!wrapper.status.success()).then_some(leftovers)
        };
        let leftovers = (0..10).find_map(|_| cant_start());
        assert!(leftovers.is_some(), "the control: the wrapper can't start over it");

        let moved = Command::new(&words[0]).args(&words[1..]).args(["date", "+%F %H"]).env("TZ", "UTC").output();
        let moved = moved.expect("env runs");
        assert_eq!(String::from_utf8_lossy(&moved.stdout), "2001-02-03 04\n", "{moved:?}");
        drop(leftovers);
    }

    #[test]
    fn the_library_is_found_whatever_killed_processes_left_behind() {
        crate::need!("faketime");
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let leftovers = Leftovers::of_the_next(5);
        assert!(ask_for_library().contains("libfaketime"), "it asks again");
        drop(leftovers);
    }

    #[test]
    fn what_is_left_behind_is_swept_away_once_nobody_uses_it() {
        crate::need!("faketime");
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let words = by_offset("+1h");
        let broom = Broom::take();
        let mut child = Command::new(&words[0]).args(&words[1..]).args(["sleep", "60"]).spawn().expect("env runs");
        let file = PathBuf::from(format!("/dev/shm/sem.faketime_sem_{}", child.id()));
        let there = wait_until(Duration::from_secs(10), || file.exists());
        drop(Broom { before: shared().filter(|path| *path != file).collect() });
        let used = file.exists();
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
        assert!(there && used, "a process that runs keeps it");
        drop(Broom::take());
        assert!(file.exists(), "what was there before is not ours");
        drop(broom);
        assert!(!file.exists(), "the rest goes");
    }
}
