//! The real command on a root of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::swarm::Ended;

/// A binary and a root directory for it.
pub struct Place {
    dir: TempDir,
    binary: PathBuf,
}

impl Place {
    /// A new, empty root.
    pub fn new(binary: &str) -> Self {
        Self { dir: tempfile::tempdir().expect("a temp directory can be made"), binary: binary.into() }
    }

    /// The same in a directory on a file system of the test's choice.
    pub fn within(binary: &str, parent: &Path) -> Self {
        Self { dir: tempfile::tempdir_in(parent).expect("a temp directory can be made"), binary: binary.into() }
    }

    /// The root directory.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// A path beside the root, for the test's own files.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The record of a lock.
    pub fn record(&self, name: &str) -> PathBuf {
        self.root().join(format!("locks/{name}.json"))
    }

    /// The record as JSON; `None` if there is none. What is there but isn't JSON fails the test: no reader ever sees that.
    pub fn stored(&self, name: &str) -> Option<Value> {
        let bytes = std::fs::read(self.record(name)).ok()?;
        Some(serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("whole-records: {error}: {bytes:?}")))
    }

    /// The words of a command line.
    pub fn words<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        let mut words = vec![self.binary.to_str().expect("a plain path")];
        words.extend_from_slice(args);
        words
    }

    /// The environment for `owner`.
    pub fn env(&self, owner: &str) -> Vec<(&'static str, String)> {
        vec![("LOKT_ROOT", self.root().display().to_string()), ("LOKT_OWNER", owner.to_owned())]
    }

    /// Runs the command as `owner`.
    pub fn run(&self, owner: &str, args: &[&str]) -> Ended {
        self.run_words(owner, &self.words(args))
    }

    /// Runs any command line with `owner`'s environment; `strace …` for example.
    pub fn run_words(&self, owner: &str, words: &[&str]) -> Ended {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).envs(self.env(owner)).current_dir(self.dir.path());
        let output = command.output().unwrap_or_else(|error| panic!("run {words:?}: {error}"));
        // Nearly every test makes a root; what is said about that is no answer to what it tests.
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stderr = stderr.split_inclusive('\n').filter(|line| !line.starts_with("note: created a new lock root: "));
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: stderr.collect(),
        }
    }

    /// Runs `lock --json` as `owner`, which must be granted; gives lock id and token.
    pub fn take(&self, owner: &str, args: &[&str]) -> (String, u64) {
        let ended = self.run(owner, &[&["lock", "--json"], args].concat());
        assert_eq!(ended.code, Some(0), "{owner} gets the lock: {} {}", ended.stdout, ended.stderr);
        granted(&ended)
    }

    /// The root path.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// Lock id and token of a granted `lock --json`.
pub fn granted(ended: &Ended) -> (String, u64) {
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {}", ended.stdout));
    let lock_id = answer["lock_id"].as_str().expect("a grant has a lock id").to_owned();
    (lock_id, answer["fencing_token"].as_u64().expect("a grant has a token"))
}
