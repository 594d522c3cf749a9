//! What comes back by `lokt snapshot restore`: everything, with everything about it, in a worktree of its own and in place; and what
//! doesn't go by it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use lokt_testkit::mounted::Mounted;
use lokt_testkit::tenancy::Tenancy;
use lokt_testkit::trees::{attributes_too, described, one_of_everything};

use crate::common::grove::Grove;
use crate::common::{LOKT, names_in, put};

/// Both trees have the same, and take as much room.
#[track_caller]
fn same(found: &Path, expected: &Described, what: &str) {
    let found = Described::new(found);
    for (path, line) in &expected.entries {
        assert_eq!(found.entries.get(path), Some(line), "{what}: {}", String::from_utf8_lossy(path));
    }
    assert_eq!(found.entries.len(), expected.entries.len(), "{what}: nothing more");
    for ((path, found), (_, wanted)) in found.blocks.iter().zip(&expected.blocks) {
        assert!(*found <= wanted + 16, "{what}: {path} had {wanted} blocks and has {found}");
    }
}

/// What is in a tree, and how many blocks the files with holes take.
struct Described {
    entries: std::collections::BTreeMap<Vec<u8>, String>,
    blocks: Vec<(&'static str, u64)>,
}

impl Described {
    fn new(root: &Path) -> Self {
        let blocks = |name| (name, fs::metadata(root.join(name)).map_or(0, |meta| meta.blocks()));
        Self { entries: described(root), blocks: ["sparse", "all-hole", "big"].map(blocks).to_vec() }
    }
}

/// Takes a snapshot of one of everything, changes it, and gets it back both ways.
fn everything_comes_back(worktree: &str, flags: &str) {
    let grove = Grove::new();
    let isolation = if flags.is_empty() { "--isolation shared" } else { "" };
    grove.run("setup", &format!("worktree create {worktree} {isolation}")).exits(0, "a worktree is made");
    let place = grove.top().join("worktrees").join(worktree);
    one_of_everything(&place);
    attributes_too(&place);
    let before = Described::new(&place);
    let at = format!("--worktree {worktree}");
    let first = grove.json("a", &format!("snapshot create {flags} {at}"), 0);
    let first = first["snapshot_id"].as_str().expect("it has an id");
    same(&place, &before, "whoever is saved isn't touched");

    grove.run("a", &format!("snapshot restore {first} --into copy {at}")).exits(0, "it comes back");
    same(&grove.top().join("worktrees/copy"), &before, "in a worktree of its own");

    grove.call("rm").args(["-r", "sub", "sparse"]).cwd(&place).run().exits(0, "files can be removed");
    put(&place.join("plain"), "other");
    grove.run("a", &format!("snapshot create {flags} {at}")).exits(0, "it is saved");
    grove.run("a", &format!("snapshot restore {first} --in-place {flags} {at}")).exits(0, "nothing is lost");
    same(&place, &before, "in place");
    grove.run("a", &format!("snapshot diff {first} --exit-code {at}")).exits(0, "nothing differs");
    grove.run("a", "snapshot verify --all").exits(0, "and what is stored is as it was");
}

#[test]
fn everything_comes_back_under_a_lease() {
    lokt_testkit::need!(root);
    everything_comes_back("w", "--acquire");
}

#[test]
fn everything_comes_back_where_all_may_write() {
    lokt_testkit::need!(root);
    everything_comes_back("notes", "");
}

#[test]
fn what_comes_back_shares_nothing_with_the_snapshot() {
    let grove = Grove::new();
    grove.put("main/a", "saved");
    let id = grove.take("");
    for words in [format!("snapshot restore {id} --into copy"), format!("snapshot restore {id} --in-place --acquire")] {
        grove.run("a", &words).exits(0, "it comes back");
    }
    // Whoever writes into a file in place must not reach the one that is stored.
    for path in ["main/a", "worktrees/copy/a"] {
        grove.put(path, "mine!");
    }
    assert_eq!(grove.text(&format!(".jvs/snapshots/{id}/a")), "saved");
    grove.run("a", "snapshot verify --all").exits(0, "it is as it was");
}

#[test]
fn what_was_there_is_in_the_trash_whole() {
    lokt_testkit::need!(root);
    let grove = Grove::new();
    let place = grove.top().join("main");
    grove.put("main/a", "saved");
    grove.put("main/.lokt-ignore", "cache/\n*.log\n");
    let id = grove.take("");
    one_of_everything(&place);
    grove.put("main/cache/big", "ignored");
    grove.put("main/sub/x.log", "ignored");
    let words = format!("snapshot restore {id} --in-place --acquire");
    let before = Described::new(&place);
    grove.run("a", &words).exits(1, "what isn't saved would be lost");
    same(&place, &before, "nothing was changed");
    let json = grove.json("a", &format!("{words} --force"), 0);
    let old = Path::new(json["old_tree"].as_str().expect("where what was there is"));
    let found = described(old);
    // What is ignored was moved out of its directories, which moves their times.
    let moved = |path: &[u8]| path.starts_with(b"cache") || [&b""[..], b"sub", b"sub/x.log"].contains(&path);
    for (path, line) in before.entries.iter().filter(|(path, _)| !moved(path)) {
        assert_eq!(found.get(path), Some(line), "{}", String::from_utf8_lossy(path));
    }
    assert_eq!(grove.text("main/cache/big"), "ignored", "what is ignored stays in place");
    assert!(!grove.inside(&format!("snapshots/{id}/cache")).exists(), "and isn't in the snapshot");
    assert_eq!(grove.text("main/sub/x.log"), "ignored", "also where the snapshot has no such directory");
    assert_eq!(grove.text("main/a"), "saved");
}

/// A directory that comes from the layer below can't be renamed on an overlay: then nothing is changed, and it is said; or it can.
#[test]
fn on_an_overlay_a_worktree_from_below_is_restored_or_as_it_was() {
    lokt_testkit::need!(root);
    let prepare = format!(
        "cd lower; HOME=$PWD LOKT_OWNER=a {LOKT} worktree init >&2; echo old > main/a; mkdir main/sub; echo old > main/sub/b; cd ..;"
    );
    let mounted = Mounted::overlay_over(&prepare);
    let grove = Grove::none();
    let call = |words: &str| grove.lokt("a").cwd(&mounted.at()).args(words.split_whitespace());
    let place = mounted.at().join("main");
    let id = call("snapshot create --acquire --json").run().exits(0, "it can be saved").json();
    let id = id["snapshot_id"].as_str().expect("it has an id").to_owned();
    put(&place.join("a"), "new");
    let second = call("snapshot create --acquire --json").run().exits(0, "it can be saved").json();
    let before = described(&place);
    let said = call(&format!("snapshot restore {id} --in-place --acquire --json")).run();
    let history = call("snapshot history --json").run().exits(0, "it is listed").json();
    if said.code == 0 {
        assert_eq!(fs::read_to_string(place.join("a")).expect("it is there"), "old\n", "it came back{said}");
        assert_eq!(history["head"], id.as_str());
    } else {
        said.failure();
        assert_eq!(described(&place), before, "nothing was changed{said}");
        assert_eq!(history["head"], second["snapshot_id"], "it is where it was{said}");
        call(&format!("snapshot restore {id} --into copy")).run().exits(0, "there is another way");
        assert_eq!(fs::read_to_string(mounted.at().join("worktrees/copy/a")).expect("it is there"), "old\n");
    }
    assert!(names_in(&mounted.at().join(".jvs/restores")).is_empty(), "nothing is left over{said}");
    call("lease acquire").run().exits(0, "everybody goes on");
    call("doctor --strict").run().exits(0, "nothing is wrong");
}

/// Whoever can't exchange two directories in one step does it in two.
#[test]
fn where_directories_cant_be_exchanged_it_takes_two_steps() {
    lokt_testkit::need!(root, "bindfs");
    let mounted = Mounted::new("bindfs", "mkdir real; bindfs real at");
    let tenancy = Tenancy::within(LOKT, &mounted.at());
    let place = tenancy.place.beside("main");
    put(&place.join("a"), "old");
    let id =
        tenancy.says("a", "snapshot create --acquire", 0)["snapshot_id"].as_str().expect("it has an id").to_owned();
    put(&place.join("a"), "new");
    tenancy.says("a", "snapshot create --acquire", 0);
    // What copies there has less exact times than its source: the tree looks as if somebody had touched it.
    tenancy.says("a", &format!("snapshot restore {id} --in-place --acquire --force"), 0);
    assert_eq!(fs::read_to_string(place.join("a")).expect("it is there"), "old");
    assert!(names_in(&tenancy.inside("restores")).is_empty(), "nothing is left over");
    tenancy.says("a", "doctor --strict", 0);
}
