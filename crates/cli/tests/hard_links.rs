//! Files of lokt's that have a second name somewhere: that file is never written to.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::common::{Call, LOKT, Pulse, Root, names_in};

/// Gives every file below `dir` a second name elsewhere.
struct Linked {
    dir: TempDir,
    /// The second names, and what is in them.
    files: Vec<(PathBuf, PathBuf, Vec<u8>)>,
}

impl Linked {
    fn of(dir: &Path) -> Self {
        let mut linked = Self {
            dir: tempfile::tempdir_in(dir.parent().expect("it is in a directory")).expect("temp"),
            files: Vec::new(),
        };
        linked.add(dir);
        assert!(!linked.files.is_empty(), "there are files in {}", dir.display());
        linked
    }

    fn add(&mut self, dir: &Path) {
        for path in names_in(dir) {
            if path.is_dir() {
                self.add(&path);
            } else {
                let other = self.dir.path().join(self.files.len().to_string());
                fs::hard_link(&path, &other).expect("links can be made here");
                let content = fs::read(&other).expect("it can be read");
                self.files.push((path, other, content));
            }
        }
    }

    /// Nothing was written to a file by its second name.
    #[track_caller]
    fn is_unchanged(&self, after: &str) {
        for (path, other, content) in &self.files {
            let now = fs::read(other).expect("it can be read");
            assert!(now == *content, "after {after}: {} was written to through its second name", path.display());
        }
    }
}

#[test]
fn a_lock_root_is_never_written_through() {
    lokt_testkit::need!(root);
    for owner in [0, 20_001] {
        let root = Root::used();
        chown(root.path(), Some(owner), Some(owner)).expect("these tests run as root, as CI does");
        root.run("a", "lock kept").exits(0, "it is free");
        root.run("a", "freeze frozen --ttl 5m").exits(0, "it is free");
        let linked = Linked::of(&root.path());
        for words in [
            "lock x",
            "lock kept --ttl 5m",
            "guard y --ttl 5s -- true",
            "unlock kept",
            "unfreeze frozen",
            "status --prune-expired",
            "doctor --fix",
        ] {
            root.run("a", words);
            linked.is_unchanged(words);
        }
    }
}

#[test]
fn a_counter_with_a_second_name_is_named_with_what_to_do() {
    let root = Root::used();
    let next = root.path().join("state/next");
    let victim = root.outside().join("victim");
    fs::hard_link(&next, &victim).expect("links can be made here");
    let before = fs::read(&victim).expect("it is there");
    let said = root.run("a", "lock x").exits(1, "it can't be counted");
    said.notes(&next.display().to_string(), "the path is named")
        .notes("another name (a hard link)", "it says why")
        .notes("`cp` it to a new file", "it says what to do");
    assert_eq!(fs::read(&victim).expect("it is there"), before, "nothing was written");
    assert!(!root.has_record("x"), "nothing was granted");
    let script = format!("cp {0} {0}.new && mv {0}.new {0}", next.display());
    Call::new("sh").args(["-c", &script]).run().exits(0, "that can be done");
    root.run("a", "lock x").exits(0, "then it works");
    assert_eq!(fs::read(&victim).expect("it is there"), before, "the other file is as it was");
}

#[test]
fn a_log_with_a_second_name_is_named_and_stops_nothing() {
    let root = Root::used();
    let victim = root.outside().join("victim");
    fs::hard_link(root.path().join("audit.log"), &victim).expect("links can be made here");
    let before = fs::read(&victim).expect("it is there");
    let said = root.run("a", "lock x").exits(0, "a lock doesn't need the log");
    said.notes("warning: audit: can't write", "but says so").notes("another name (a hard link)", "and why");
    assert_eq!(fs::read(&victim).expect("it is there"), before, "nothing was written");
}

/// Whoever finds a lock free for a waiter notes that in the waiter's file.
#[test]
fn a_ticket_with_a_second_name_is_not_written_to() {
    let root = Root::used();
    let _waiter = Pulse::waiting(&root, "x", "w");
    let linked = Linked::of(&root.path().join("state/line"));
    root.run("a", "lock x");
    linked.is_unchanged("lock x");
}

/// Where a new name can only be given by a link, its maker may be killed before it removes the first one.
#[test]
fn what_a_killed_maker_left_is_no_second_name() {
    let root = Root::used();
    for file in ["state/next", "audit.log"] {
        let path = root.path().join(file);
        let unfinished = root.path().join(format!("{file}~"));
        fs::hard_link(&path, &unfinished).expect("links can be made here");
        let said = root.run("a", "guard x -- true").exits(0, "it goes on by itself");
        assert_eq!(said.stderr, "", "nothing is wrong with {file}");
        assert!(!unfinished.exists(), "{file}: the first name is gone");
    }
}

#[test]
fn a_lokt_repository_is_never_written_through() {
    let place = Root::new();
    let run = |words: &str| {
        let call = Call::new(LOKT).cwd(place.outside()).env("LOKT_OWNER", "a").env("HOME", place.outside());
        call.args(words.split_whitespace()).run()
    };
    run("worktree init").exits(0, "a repository can be made");
    run("lease acquire --worktree main").exits(0, "it is free");
    run("snapshot create --worktree main").exits(0, "it can be saved");
    let linked = Linked::of(&place.outside().join(".jvs"));
    for words in [
        "lease renew --worktree main",
        "snapshot create --worktree main",
        "worktree create b",
        "lease release --worktree main",
        "lease acquire --worktree main",
        "doctor --strict --fix",
        "snapshot gc run",
    ] {
        run(words);
        linked.is_unchanged(words);
    }
}

#[test]
fn a_ledger_is_never_written_through() {
    let place = Root::new();
    let run = |words: &[&str]| Call::new(LOKT).cwd(place.outside()).env("LOKT_OWNER", "a").args(words).run();
    run(&["ledger", "init"]).exits(0, "a ledger can be made");
    for n in ["1", "2", "3"] {
        let event = format!(r#"{{"type":"note","text":"{n}","id":"i{n}"}}"#);
        run(&["ledger", "append", &event]).exits(0, "it can be added");
    }
    run(&["claim", "take", "1"]).exits(0, "it is free");
    let linked = Linked::of(&place.outside().join("ledger"));
    for words in [
        &["ledger", "append", r#"{"type":"note","text":"4"}"#][..],
        &["ledger", "append", "--idempotency-key", "k", r#"{"type":"note","text":"5"}"#],
        &["claim", "extend", "1"],
        &["claim", "list"],
        &["claim", "release", "1"],
        &["ledger", "verify"],
        &["ledger", "doctor"],
    ] {
        run(words);
        linked.is_unchanged(&words.join(" "));
    }
}
