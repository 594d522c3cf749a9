//! Skips a test that needs what this machine or user doesn't have, and counts it.
//!
//! `need!(root, "strace")` is the first line of such a test. Where something is missing, the test ends there: it
//! adds a line to the file that `LOKT_SKIPPED` names, or says so on stderr without that variable. `scripts/test`
//! counts the lines. In CI (`CI=true`) nothing may be skipped, so the test fails there.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

/// Names the file.
const FILE: &str = "LOKT_SKIPPED";

/// What a test may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The superuser, for other users, namespaces and mounts.
    Root,
    /// A program in `PATH`.
    Program(&'static str),
}

/// Returns from the calling test, as skipped, unless everything that it names is here: `root`, and programs
/// between quotes.
#[macro_export]
macro_rules! need {
    (@one root) => { $crate::need::Need::Root };
    (@one $program:literal) => { $crate::need::Need::Program($program) };
    ($($what:tt),+ $(,)?) => {
        if $crate::need::is_skipped(&[$($crate::need!(@one $what)),+]) {
            return;
        }
    };
}

/// Is the calling test skipped, because one of these is missing? Then it has been counted.
pub fn is_skipped(needs: &[Need]) -> bool {
    let Some(reason) = needs.iter().find_map(|need| need.lack()) else { return false };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    assert!(!in_ci(), "{test} {reason}, and in CI no test may be skipped");
    tell(test, &reason);
    true
}

impl Need {
    /// Why a test with this need is skipped here.
    fn lack(self) -> Option<String> {
        match self {
            Self::Root => (!rustix::process::geteuid().is_root()).then(|| "needs root".to_owned()),
            Self::Program(name) => (!is_program(name)).then(|| format!("needs {name}")),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the tests' own question, which no command asks")]
fn is_program(name: &str) -> bool {
    // Tools of the superuser aren't in every user's path.
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    dirs.map(|dir| dir.join(name)).any(|file| is_executable(&file))
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

#[expect(clippy::disallowed_methods, reason = "the tests' own question, which no command asks")]
fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|word| !word.is_empty() && word != "false")
}

#[expect(clippy::disallowed_methods, reason = "the tests' own variable, which no command reads")]
fn tell(test: &str, reason: &str) {
    let Some(path) = env::var_os(FILE) else {
        // Past the harness, which shows what a test says only when it fails.
        let _ = writeln!(std::io::stderr(), "skipped: {reason}: {test}");
        return;
    };
    let program = env::current_exe().unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy();
    // One write: lines of several programs don't mix.
    let line = format!("{program}\t{test}\t{reason}\n");
    let written = OpenOptions::new().append(true).create(true).open(&path);
    let written = written.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", Path::new(&path).display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_the_path_is_found_and_another_is_not() {
        assert_eq!(Need::Program("sh").lack(), None);
        let reason = Need::Program("no-such-program").lack();
        assert_eq!(reason.as_deref(), Some("needs no-such-program"));
    }

    #[test]
    fn root_lacks_nothing_and_another_user_lacks_root() {
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(Need::Root.lack().is_none(), is_root);
    }
}
