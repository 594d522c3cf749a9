//! A lock root inside a worktree: no snapshot has it, and no restore moves it, wherever it is and whatever it is called.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lokt_core::snapshot::descriptor::Descriptor;
use lokt_core::snapshot::hash::{BLAKE3, Hash};
use lokt_core::snapshot::manifest::Manifest;

use crate::common::grove::Grove;
use crate::common::{Call, eventually, names_in, put, remove};

/// Where a root can be, below the worktree.
const PLACES: [&str; 4] = [".git/lokt", ".lokt", "sub/.lokt", "deep/er/any name"];

/// A worktree with files, and a root that has been used.
fn grove(place: &str) -> Grove {
    let grove = Grove::new();
    grove.put("main/a", "old");
    grove.put("main/sub/b", "old");
    if place.starts_with(".git") {
        git(&grove, "init -q");
    }
    grove.put("main/deep/er/c", "old");
    guarded(&grove, place, "build", "true").run().exits(0, "the root is made");
    grove
}

fn git(grove: &Grove, words: &str) {
    let said = grove.call("git").cwd(&grove.top().join("main")).args(words.split_whitespace()).run();
    said.exits(0, words);
}

fn root(grove: &Grove, place: &str) -> PathBuf {
    grove.top().join("main").join(place)
}

/// A guard in that root.
fn guarded(grove: &Grove, place: &str, name: &str, script: &str) -> Call {
    let call = grove.lokt("alice").env("LOKT_ROOT", root(grove, place));
    call.args(["guard", name, "--", "sh", "-c", script])
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{} is there: {error}", path.display())).ino()
}

fn manifest(grove: &Grove, id: &str) -> String {
    fs::read_to_string(grove.inside(&format!("snapshots/{id}.manifest"))).expect("a snapshot has a manifest")
}

#[test]
fn a_root_is_no_part_of_a_snapshot() {
    lokt_testkit::need!("git");
    for place in PLACES {
        let grove = grove(place);
        let id = grove.take("");
        assert!(!manifest(&grove, &id).contains("audit.log"), "{place}: the root isn't listed");
        let copy = grove.inside(&format!("snapshots/{id}")).join(place);
        assert!(!copy.exists(), "{place}: nor copied");
        guarded(&grove, place, "other", "true").run().exits(0, "the root changes");
        let said = grove.run("alice", "snapshot diff latest --exit-code").exits(0, place);
        said.says("", "").notes("nothing differs", "a root is no file of the user's");
        grove.run("alice", "snapshot restore latest --into copy").exits(0, place);
        assert!(!grove.top().join("worktrees/copy").join(place).exists(), "{place}: none comes with it");
        let said = grove.run("alice", "snapshot restore latest --in-place --acquire");
        said.exits(0, "nothing is unsaved, whatever happened in the root");
    }
}

#[test]
fn a_root_in_which_nothing_but_a_freeze_was_placed_stays() {
    let grove = Grove::new();
    grove.put("main/a", "old");
    let frozen = |words: &[&str]| grove.lokt("alice").env("LOKT_ROOT", root(&grove, "run")).args(words).run();
    grove.take("");
    frozen(&["freeze", "deploy"]).exits(0, "it is free");
    let before = inode(&root(&grove, "run"));
    grove.run("alice", "snapshot restore latest --in-place --acquire --force").exits(0, "around the root");
    assert_eq!(inode(&root(&grove, "run")), before, "the root is the same directory");
    frozen(&["guard", "deploy", "--", "true"]).exits(2, "frozen-means-frozen: through a restore");
    let id = grove.take("");
    assert!(!manifest(&grove, &id).contains("freezes"), "nor is it saved");
}

#[test]
fn directories_that_stay_get_the_rights_that_they_had() {
    use std::os::unix::fs::PermissionsExt as _;
    let grove = grove("deep/er/any name");
    let dirs = ["main", "main/deep", "main/deep/er"].map(|dir| grove.top().join(dir));
    let rights = || dirs.each_ref().map(|dir| fs::metadata(dir).expect("it is there").mode() & 0o7777);
    let before = rights();
    grove.take("");
    for dir in &dirs {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).expect("it is ours");
    }
    grove.put("main/a", "new");
    grove.run("alice", "snapshot restore latest --in-place --acquire --force").exits(0, "around the root");
    assert_eq!(rights(), before, "as they were when the snapshot was taken");
    grove.run("alice", "snapshot diff latest --exit-code").exits(0, "so nothing differs");
}

#[test]
fn a_holder_keeps_its_lock_while_its_worktree_is_restored() {
    lokt_testkit::need!("git");
    for place in PLACES {
        let grove = grove(place);
        grove.take("");
        grove.put("main/a", "new");
        grove.put("main/sub/added", "new");
        remove(&grove.top().join("main/sub/b"));
        let go_on = grove.outside().join("go-on");
        let script = format!(
            "echo $LOKT_FENCING_TOKEN > {}; while [ ! -e {} ]; do sleep 0.05; done",
            grove.outside().join("first").display(),
            go_on.display()
        );
        let holder = guarded(&grove, place, "deploy", &script).start();
        eventually("the holder has it", || grove.outside().join("first").exists());
        let before = inode(&root(&grove, place));
        let said = grove.run("alice", "snapshot restore latest --in-place --acquire --force");
        said.exits(0, "it comes back around the root");
        assert_eq!(inode(&root(&grove, place)), before, "{place}: the root is the same directory");
        assert_eq!((grove.text("main/a"), grove.text("main/sub/b")), ("old".into(), "old".into()), "{place}");
        assert!(!grove.top().join("main/sub/added").exists(), "{place}: what the snapshot hasn't got is gone");
        let thief = grove.lokt("thief").env("LOKT_ROOT", root(&grove, place));
        thief.args(["guard", "deploy", "--", "true"]).run().exits(2, "it is still held");
        put(&go_on, "");
        holder.wait().exits(0, "nothing happened to its lock");
        let out = grove.outside().join("second");
        let script = format!("echo $LOKT_FENCING_TOKEN > {}", out.display());
        guarded(&grove, place, "deploy", &script).run().exits(0, "it is free");
        let [first, second] = ["first", "second"].map(|name| {
            let text = fs::read_to_string(grove.outside().join(name)).expect("it was written");
            text.trim().parse::<u64>().expect("a token is a number")
        });
        assert!(second > first, "{place}: token-order: {first}, then {second}");
        assert!(names_in(&grove.inside("restores")).is_empty(), "{place}: nothing is left over");
        grove.run("alice", "snapshot diff latest --exit-code").exits(0, "and the files are those of the snapshot");
    }
}

#[test]
fn guards_exclude_each_other_through_many_restores() {
    lokt_testkit::need!("git");
    let place = ".git/lokt";
    let grove = grove(place);
    let ids = ["one", "two"].map(|text| {
        grove.put("main/a", text);
        grove.put(&format!("main/only-{text}/x"), text);
        grove.take("")
    });
    let (log, inside) = (grove.outside().join("log"), grove.outside().join("inside"));
    // Two inside would find each other's directory.
    let script = format!(
        "mkdir {0} || echo TWO >> {1}; echo $LOKT_FENCING_TOKEN >> {1}; rmdir {0}",
        inside.display(),
        log.display()
    );
    let is_over = AtomicBool::new(false);
    let runs = thread::scope(|scope| {
        let contend = || {
            let mut runs = 0;
            while !is_over.load(Ordering::Relaxed) {
                let call = grove.lokt("contender").env("LOKT_ROOT", root(&grove, place));
                let said = call.args(["guard", "x", "--timeout", "60s", "--", "sh", "-c", &script]).run();
                said.exits(0, "it gets its turn");
                runs += 1;
            }
            runs
        };
        let contenders = [(); 3].map(|()| scope.spawn(contend));
        for round in 0..20 {
            let id = &ids[round % 2];
            let said = grove.run("alice", &format!("snapshot restore {id} --in-place --acquire --force"));
            said.exits(0, "it comes back");
        }
        is_over.store(true, Ordering::Relaxed);
        contenders.map(|contender| contender.join().expect("no contender panics")).iter().sum::<usize>()
    });
    let text = fs::read_to_string(&log).expect("they wrote it");
    assert!(!text.contains("TWO"), "one-holder: {text}");
    let tokens: Vec<u64> = text.lines().map(|line| line.parse().expect("a token is a number")).collect();
    assert_eq!(tokens.len(), runs, "each wrote its token");
    assert!(tokens.is_sorted_by(|a, b| a < b), "token-order: {tokens:?}");
}

/// Makes a snapshot one that a lokt took which knew nothing of roots: `-lokt` in it, which sorts where `.lokt` does, is called `.lokt`.
fn make_old(grove: &Grove, id: &str) {
    let tree = grove.inside(&format!("snapshots/{id}"));
    rustix::fs::rename(tree.join("-lokt"), tree.join(".lokt")).expect("it is there");
    let path = grove.inside(&format!("snapshots/{id}.manifest"));
    let text = fs::read_to_string(&path).expect("it is text").replace("\"-lokt", "\".lokt");
    let manifest = Manifest::parse(text.as_bytes()).expect("it is still one");
    put(&path, text);
    let described = grove.inside(&format!("descriptors/{id}.json"));
    let descriptor = Descriptor::parse(&fs::read(&described).expect("it is there")).expect("it is one");
    let root_hash = Hash::new(BLAKE3, &manifest.root_hash().expect("it has one"));
    put(&described, Descriptor { root_hash, ..descriptor }.sealed().to_bytes());
    // Made again from the descriptor, where there is none; the chain no longer vouches for it.
    let receipt = grove.inside(&format!("snapshots/{id}.ready"));
    let mut json: serde_json::Value =
        serde_json::from_slice(&fs::read(&receipt).expect("it is there")).expect("it is JSON");
    let sealed = Descriptor::parse(&fs::read(&described).expect("it is there")).expect("it is one");
    json["descriptor_checksum"]["value"] = sealed.members()["descriptor_checksum"]["value"].clone();
    json["payload_root_hash"]["value"] = sealed.members()["payload_root_hash"]["value"].clone();
    put(&receipt, json.to_string());
}

#[test]
fn an_older_snapshot_with_a_root_in_it_comes_back_without_it() {
    let grove = Grove::new();
    grove.put("main/a", "old");
    grove.put("main/-lokt/audit.log", "stale");
    grove.put("main/-lokt/locks/x.json", "{}");
    let id = grove.take("");
    make_old(&grove, &id);
    grove.run("alice", "snapshot verify --all").exits(0, "the old snapshot is whole");
    fs::remove_dir_all(grove.top().join("main/-lokt")).expect("it is ours");
    grove.run("alice", "snapshot diff latest --exit-code").exits(0, "what was in the root is nobody's file");
    grove.run("alice", "snapshot restore latest --in-place --acquire").exits(0, "it comes back");
    assert!(!grove.top().join("main/.lokt").exists(), "where none was, none appears");
    grove.run("alice", "snapshot restore latest --into copy").exits(0, "in a new worktree, too");
    assert!(!grove.top().join("worktrees/copy/.lokt").exists());
    assert_eq!(grove.text("worktrees/copy/a"), "old");
    guarded(&grove, ".lokt", "x", "true").run().exits(0, "a root of today");
    let (before, text) = (inode(&root(&grove, ".lokt")), grove.text("main/.lokt/audit.log"));
    grove.run("alice", "snapshot restore latest --in-place --acquire --force").exits(0, "it comes back");
    assert_eq!((inode(&root(&grove, ".lokt")), grove.text("main/.lokt/audit.log")), (before, text), "it stays");
}

#[test]
fn a_git_directory_that_the_snapshot_lacks_stays_with_its_root() {
    lokt_testkit::need!("git");
    let grove = Grove::new();
    grove.put("main/a", "old");
    grove.take("");
    git(&grove, "init -q");
    guarded(&grove, ".git/lokt", "x", "true").run().exits(0, "the root is made");
    grove.put("main/a", "new");
    grove.run("alice", "snapshot restore latest --in-place --acquire --force").exits(0, "it comes back");
    assert_eq!(grove.text("main/a"), "old");
    git(&grove, "status --short");
}

#[test]
fn what_can_not_be_put_around_a_root_is_refused_before_anything_changes() {
    let grove = Grove::new();
    grove.put("main/a", "old");
    grove.put("main/x", "a file");
    grove.take("");
    remove(&grove.top().join("main/x"));
    guarded(&grove, "x/.lokt", "x", "true").run().exits(0, "the root is made");
    grove.put("main/a", "new");
    let said = grove.run("alice", "snapshot restore latest --in-place --acquire --force").exits(69, "it can't");
    said.notes("main/x can't be replaced", "which").notes("nothing was changed", "and what happened");
    assert_eq!(grove.text("main/a"), "new");
    assert!(names_in(&grove.inside("restores")).is_empty(), "nothing is left over");
    // A worktree that is a root itself.
    let grove = Grove::new();
    guarded(&grove, ".", "x", "true").run().exits(0, "the root is made");
    let said = grove.run("alice", "snapshot create --acquire").exits(69, "nothing in it is a file of a user's");
    said.notes("is a lock root itself", "why");
}

#[test]
fn what_is_ignored_stays_where_it_is_around_a_root() {
    let grove = grove("deep/er/any name");
    grove.put("main/.lokt-ignore", "cache\n*.log\n");
    grove.take("");
    for path in ["main/cache/x", "main/sub/cache/x", "main/deep/er/y.log", "main/z.log"] {
        grove.put(path, "ignored");
    }
    grove.put("main/.lokt-ignore", "cache\n*.log\nmore\n");
    let before = inode(&grove.top().join("main/cache"));
    grove.run("alice", "snapshot restore latest --in-place --acquire --force").exits(0, "it comes back");
    for path in ["main/cache/x", "main/sub/cache/x", "main/deep/er/y.log", "main/z.log"] {
        assert_eq!(grove.text(path), "ignored", "{path}");
    }
    assert_eq!(grove.text("main/.lokt-ignore"), "cache\n*.log\n", "and the snapshot's own files are back");
    assert_eq!(inode(&grove.top().join("main/cache")), before);
}
