//! The stand-in for `jvs` (`peers/jvs.py`), in a repository.

use serde_json::Value;

use super::Said;
use super::grove::Grove;

const PEER: [&str; 4] = ["-B", "-E", "-s", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/jvs.py")];
/// The last version with locks.
pub(crate) const LOCKS: &str = "locks";
/// All tagged versions.
pub(crate) const V8: &str = "v8";
pub(crate) const ERAS: [&str; 2] = [LOCKS, V8];

impl Grove {
    /// A repository that `jvs` made, with a file in `main`.
    pub(crate) fn of_jvs(era: &str) -> Self {
        let grove = Self::none();
        grove.jvs(era, "init", 0);
        grove.put("main/page", "version 1\n");
        grove
    }

    /// Runs `jvs`, and gives what it says.
    #[track_caller]
    pub(crate) fn jvs_says(&self, era: &str, words: &str, code: i32) -> Said {
        self.call("python3").args(PEER).args([era]).args(words.split_whitespace()).run().exits(code, words)
    }

    /// Runs `jvs`, and gives its answer; null if it gives none.
    #[track_caller]
    pub(crate) fn jvs(&self, era: &str, words: &str, code: i32) -> Value {
        serde_json::from_str(&self.jvs_says(era, words, code).stdout).unwrap_or_default()
    }

    /// A snapshot that `jvs` takes, under its own lock where it has one: its id.
    #[track_caller]
    pub(crate) fn jvs_takes(&self, era: &str, note: &str) -> String {
        if era == LOCKS {
            self.jvs(era, "lock acquire", 0);
        }
        let taken = self.jvs(era, &format!("snapshot {note}"), 0);
        if era == LOCKS {
            self.jvs(era, "lock release", 0);
        }
        taken["snapshot_id"].as_str().unwrap_or_else(|| panic!("a snapshot has an id: {taken}")).to_owned()
    }

    /// The ids in the history of `jvs`, the newest first.
    #[track_caller]
    pub(crate) fn jvs_history(&self, era: &str) -> Vec<String> {
        let history = self.jvs(era, "history", 0);
        let history = history.as_array().unwrap_or_else(|| panic!("it is a list: {history}"));
        history.iter().map(|one| one["snapshot_id"].as_str().expect("each has an id").to_owned()).collect()
    }

    /// Does `jvs` find everything sound?
    #[track_caller]
    pub(crate) fn jvs_verifies(&self, era: &str, count: usize) {
        let results = self.jvs(era, "verify", 0);
        let results = results.as_array().unwrap_or_else(|| panic!("it is a list: {results}"));
        assert_eq!(results.len(), count, "{era}: every snapshot is one: {results:?}");
        for result in results {
            assert_eq!(result["tamper_detected"], false, "{era}: {result}");
        }
    }
}
