//! A repository with worktrees, and the commands in it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Call, Root, Said, eventually, put};

/// A lease that a test can outlive; with slack for a machine on which it takes a while to start a process.
pub(crate) const SHORT: &str = "--lease 400ms --renew 100ms --skew 50ms --grace 50ms";
/// A lease that no test outlives.
pub(crate) const LONG: &str = "--lease 1h";

/// A directory that is, or becomes, a repository. It goes away with the test.
pub(crate) struct Grove {
    root: Root,
}

impl Grove {
    /// No repository yet.
    pub(crate) fn none() -> Self {
        let grove = Self { root: Root::new() };
        fs::create_dir(grove.top()).expect("a temp directory is writable");
        grove
    }

    /// A repository with nothing but `main`.
    pub(crate) fn new() -> Self {
        let grove = Self::none();
        grove.run("setup", "worktree init").exits(0, "a repository is made");
        grove
    }

    /// With further worktrees.
    pub(crate) fn with(names: &[&str]) -> Self {
        let grove = Self::new();
        for name in names {
            grove.run("setup", &format!("worktree create {name}")).exits(0, "a worktree is made");
        }
        grove
    }

    /// Where commands run: the repository's top.
    pub(crate) fn top(&self) -> PathBuf {
        self.root.outside().join("repo")
    }

    /// Around the repository.
    pub(crate) fn outside(&self) -> &Path {
        self.root.outside()
    }

    /// Everybody's home; sessions are there.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.outside().join("home")
    }

    /// Something in `.jvs`.
    pub(crate) fn inside(&self, path: &str) -> PathBuf {
        self.top().join(".jvs").join(path)
    }

    /// `lokt`, as `owner`, at the top.
    pub(crate) fn lokt(&self, owner: &str) -> Call {
        self.root.lokt(owner).cwd(&self.top()).env("HOME", self.home())
    }

    /// Any program, at the top.
    pub(crate) fn call(&self, program: &str) -> Call {
        self.root.call(program).cwd(&self.top()).env("HOME", self.home())
    }

    /// Runs `lokt` with `words`, which are separated by spaces.
    pub(crate) fn run(&self, owner: &str, words: &str) -> Said {
        self.lokt(owner).args(words.split_whitespace()).run()
    }

    /// Runs it with `--json`, and gives the answer.
    #[track_caller]
    pub(crate) fn json(&self, owner: &str, words: &str, code: i32) -> Value {
        self.run(owner, &format!("{words} --json")).exits(code, words).json()
    }

    /// Acquires the lease of `main`, and gives the answer. Where it took longer than the lease lasts, once more.
    #[track_caller]
    pub(crate) fn lease(&self, owner: &str, flags: &str) -> Value {
        let words = format!("lease acquire {flags} --json");
        let mut said = self.run(owner, &words);
        for _ in 0..50 {
            if said.code != 5 {
                break;
            }
            said = self.run(owner, &words);
        }
        said.exits(0, &words).json()
    }

    /// The same, and gives its token.
    #[track_caller]
    pub(crate) fn acquire(&self, owner: &str, flags: &str) -> u64 {
        let json = self.lease(owner, flags);
        json["fencing_token"].as_u64().unwrap_or_else(|| panic!("a lease has a token: {json}"))
    }

    /// Takes a snapshot of `main` as somebody who holds nothing, and gives its id.
    #[track_caller]
    pub(crate) fn take(&self, flags: &str) -> String {
        let json = self.json("taker", &format!("snapshot create --acquire {flags}"), 0);
        json["snapshot_id"].as_str().unwrap_or_else(|| panic!("a snapshot has an id: {json}")).to_owned()
    }

    /// The ids in the history, the newest first.
    #[track_caller]
    pub(crate) fn history(&self, flags: &str) -> Vec<String> {
        let json = self.json("observer", &format!("snapshot history {flags}"), 0);
        let snapshots = json["snapshots"].as_array().unwrap_or_else(|| panic!("it is a list: {json}"));
        snapshots.iter().map(|one| one["snapshot_id"].as_str().expect("each has an id").to_owned()).collect()
    }

    /// How a lease stands.
    #[track_caller]
    pub(crate) fn state(&self, worktree: &str) -> String {
        let json = self.json("observer", &format!("lease status --worktree {worktree}"), 0);
        json["state"].as_str().unwrap_or_else(|| panic!("it has a state: {json}")).to_owned()
    }

    /// Waits until the lease of `main` is over for everybody.
    #[track_caller]
    pub(crate) fn is_over(&self) {
        eventually("a lease that nobody renews is over", || self.state("main") == "expired");
    }

    /// The public lock file.
    pub(crate) fn view(&self, worktree: &str) -> PathBuf {
        self.inside(&format!("locks/{worktree}.lock"))
    }

    /// What is in it.
    #[track_caller]
    pub(crate) fn record(&self, worktree: &str) -> Value {
        let path = self.view(worktree);
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{} is there: {error}", path.display()));
        serde_json::from_slice(&text).expect("a lock file is JSON")
    }

    /// Its bytes: equal ones mean that nothing changed.
    pub(crate) fn view_bytes(&self, worktree: &str) -> Option<Vec<u8>> {
        fs::read(self.view(worktree)).ok()
    }

    /// The only session file of `owner` in `main`.
    pub(crate) fn session_of(&self, owner: &str) -> PathBuf {
        let id = fs::read_to_string(self.inside("repo_id")).expect("a repository has an id");
        self.home().join(".local/state/lokt/sessions").join(id.trim()).join(format!("main.{owner}"))
    }

    /// Puts a file below the top.
    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        put(&self.top().join(path), bytes);
    }

    /// Reads one there.
    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.top().join(path)).unwrap_or_else(|error| panic!("{path} is there: {error}"))
    }

    /// The events in the audit log.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.inside("audit/audit.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("an audit line is JSON")).collect()
    }

    /// Those of one kind.
    pub(crate) fn events_of(&self, operation: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["operation"] == operation).collect()
    }
}
