//! A repository whose worktree has many files, and what must be true of its snapshots whatever happened to those who took them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use lokt_testkit::swarm::{Ended, pause, put};
use lokt_testkit::tenancy::{LONG, Tenancy};
use serde_json::Value;

use crate::LOKT;

/// So many files are in each directory.
const IN_A_DIR: usize = 100;
/// Nothing changes any more within the time that a file's time can tell.
const QUIET: Duration = Duration::from_millis(30);

pub(crate) struct Store {
    pub(crate) tenancy: Tenancy,
    /// Of `a`, who holds the lease of `main`.
    pub(crate) token: u64,
    files: usize,
}

impl Store {
    /// With so many files in `main`; in `parent`, if it matters where.
    pub(crate) fn new(files: usize, parent: Option<&Path>) -> Self {
        let tenancy = parent.map_or_else(|| Tenancy::new(LOKT), |parent| Tenancy::within(LOKT, parent));
        for number in 0..files {
            put(&tenancy.place.beside(&format!("main/{}/{number}", number / IN_A_DIR)), number.to_string());
        }
        let token = tenancy.acquire("a", LONG);
        pause(QUIET);
        Self { tenancy, token, files }
    }

    /// What takes a snapshot under the lease.
    pub(crate) fn args(&self) -> Vec<String> {
        self.tenancy.args("a", &format!("snapshot create --token {}", self.token))
    }

    pub(crate) fn run(&self, words: &str) -> Ended {
        self.tenancy.run("observer", words)
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &str, context: &str) -> Value {
        let ended = self.run(words);
        assert_eq!(ended.code, Some(0), "{context}: {words}: {ended:?}");
        lokt_testkit::tenancy::answer(&ended)
    }

    /// The ids of those that are visible.
    pub(crate) fn visible(&self, context: &str) -> BTreeSet<String> {
        let json = self.says("snapshot history --all", context);
        let snapshots = json["snapshots"].as_array().expect("it is a list");
        snapshots.iter().map(|one| one["snapshot_id"].as_str().expect("each has an id").to_owned()).collect()
    }

    /// The names in a directory of `.jvs`.
    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.tenancy.inside(dir)) else { return Vec::new() };
        entries.map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned()).collect()
    }

    /// The names in directories of `.jvs` that belong to no visible snapshot.
    fn left_over(&self, visible: &BTreeSet<String>) -> Vec<String> {
        let is_visible = |name: &String| name.split('.').next().is_some_and(|id| visible.contains(id));
        let left = |dir: &str| -> Vec<String> {
            self.names(dir).into_iter().filter(|name| !is_visible(name)).map(|name| format!("{dir}/{name}")).collect()
        };
        ["snapshots", "descriptors", "intents"].into_iter().flat_map(left).collect()
    }

    /// What is visible is complete; what isn't is listed, and can be removed.
    #[track_caller]
    pub(crate) fn is_whole(&self, context: &str) {
        let visible = self.visible(context);
        let verified = self.says("snapshot verify --all", context);
        assert_eq!(verified["checked"], visible.len(), "{context}: {verified}");
        for one in verified["results"].as_array().expect("it is a list") {
            assert_eq!(one["files"], self.files, "all-or-nothing: {context}: {one}");
        }
        let left = self.left_over(&visible);
        // A minute has passed: what has no other sign of life is nobody's by then.
        for path in left.iter().filter(|path| path.contains("/.lokt-") || path.starts_with("intents/")) {
            let file = File::options().write(true).open(self.tenancy.inside(path)).expect("it is there");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("it is ours");
        }
        let told = self.says("doctor --strict", context).to_string();
        let ids = left.iter().filter_map(|path| path.strip_prefix("snapshots/")?.split('.').next());
        for id in ids {
            assert!(told.contains(&format!("snapshot {id} was never finished")), "{context}: {id} is listed: {told}");
        }
        let fixed = self.says("doctor --strict --fix", context);
        assert_eq!(fixed["overall"], "ok", "{context}: nothing else is wrong: {fixed}");
        assert_eq!(self.visible(context), visible, "{context}: nothing else goes");
        assert_eq!(self.left_over(&visible), [""; 0], "{context}: nothing is left: {told}");
    }

    /// Changes every file, so that all are copied again.
    pub(crate) fn touch(&self) {
        for number in 0..self.files {
            let path = self.tenancy.place.beside(&format!("main/{}/{number}", number / IN_A_DIR));
            let file = File::options().write(true).open(path).expect("it is there");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_700_000_000)).expect("it is ours");
        }
        pause(QUIET);
    }
}
