//! The real command with a wall clock that is wrong, or that is set while it runs.
//!
//! `libfaketime` moves the clock of the standard library by preloading, so it needs a dynamically linked build. Boot clocks are read by direct
//! system calls, which it can't move, and are left alone.

use std::path::Path;
use std::process::Command;

/// The command, linked dynamically. Built beside the usual build, in `tmp` (`CARGO_TARGET_TMPDIR`), from the package in `manifest_dir`.
pub fn dynamic_build(cargo: &str, manifest_dir: &str, tmp: &str) -> String {
    let target = Path::new(tmp).join("dynamic");
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "lokt-cli", "--target", "host-tuple", "--target-dir"])
        .arg(&target)
        // An empty RUSTFLAGS would leave the configured flags in place.
        .env("RUSTFLAGS", "-C target-feature=-crt-static")
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

/// The library that moves clocks.
pub fn library() -> String {
    // The wrapper knows where it is.
    let asked = Command::new("faketime").args(["-f", "+0", "sh", "-c", "echo $LD_PRELOAD"]).output();
    let asked = asked.unwrap_or_else(|error| panic!("faketime is needed, which moves clocks: {error}"));
    let library = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    assert!(library.contains("faketime"), "faketime preloads its library: {asked:?}");
    library
}

/// Words before a command line, whose clock then is what the file `clock` says (`+3600`, seconds from the true one), also if that changes
/// while it runs.
pub fn by_file(library: &str, clock: &Path) -> Vec<String> {
    let file = format!("FAKETIME_TIMESTAMP_FILE={}", clock.display());
    // Shared memory would be left behind by whoever is killed.
    let flags = ["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DISABLE_SHM=1"];
    let mut words = vec!["env".to_owned(), format!("LD_PRELOAD={library}"), file];
    words.extend(flags.map(str::to_owned));
    words
}
