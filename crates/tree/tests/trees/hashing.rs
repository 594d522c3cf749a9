//! What a tree is, read from the tree itself.

use std::fs;
use std::path::Path;

use lokt_tree::{
    Entry, HashOptions, Hashed, Ignore, Kind, Known, Names, Tree, TreeError, hash_tree, recheck_hashes, restore,
};

use crate::faithful::{attributes_too, one_of_everything};
use crate::scene::{control, manifest, put, quiesced, set_mtime};

fn hashed(root: &Path, names: Names) -> Hashed {
    let known = Known::default();
    let options = HashOptions { names, known: &known, since: None };
    let tree = Tree::open(root).expect("it is there");
    hash_tree(&tree, &Ignore::default(), &options, &control()).expect("it can be read")
}

fn plain(entries: &[Entry]) -> Vec<Entry> {
    entries.iter().map(|entry| Entry { source: None, ..entry.clone() }).collect()
}

#[test]
fn source_copy_and_manifest_are_the_same_tree() {
    lokt_testkit::need!(root);
    let dir = tempfile::tempdir().expect("a directory");
    let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
    one_of_everything(&source);
    attributes_too(&source);
    let captured = quiesced(&source, &copy);
    let entries = plain(&captured.copied.entries);
    assert_eq!(plain(&hashed(&source, Names::Links).entries), entries, "the source");
    assert_eq!(plain(&hashed(&copy, Names::Links).entries), entries, "the copy");
    let files = hashed(&copy, Names::Files).entries;
    assert!(files.iter().all(|entry| !matches!(entry.kind, Kind::HardLink { .. })), "stored names are files");
}

#[test]
fn the_hash_is_blake3_of_the_bytes() {
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("abc"), b"abc");
    let entries = hashed(dir.path(), Names::Links).entries;
    let Kind::File { size: 3, hash } = entries[1].kind else { panic!("{entries:?}") };
    let published = [
        0x64, 0x37, 0xb3, 0xac, 0x38, 0x46, 0x51, 0x33, 0xff, 0xb6, 0x3b, 0x75, 0x27, 0x3a, 0x8d, 0xb5, 0x48, 0xc5,
        0x58, 0x46, 0x5d, 0x79, 0xdb, 0x03, 0xfd, 0x35, 0x9c, 0x6c, 0xd5, 0xbd, 0x9d, 0x85,
    ];
    assert_eq!(hash, published, "as its authors publish it");
}

#[test]
fn an_unchanged_tree_is_not_read_and_a_changed_file_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    for name in ["a", "b"] {
        put(&source.join(name), b"old");
        set_mtime(&source.join(name), 9, 9);
    }
    let captured = quiesced(&source, &dir.path().join("copy"));
    let mut since = manifest(&captured);
    // A lie shows what is taken from there.
    for entry in &mut since.entries {
        if let Kind::File { hash, .. } = &mut entry.kind {
            *hash = [9; 32];
        }
    }
    fs::File::options()
        .write(true)
        .open(source.join("b"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"new"))
        .expect("room");
    set_mtime(&source.join("b"), 9, 9);
    let known = Known::default();
    let options = HashOptions { names: Names::Links, known: &known, since: Some(&since) };
    let tree = Tree::open(&source).expect("it is there");
    let found = hash_tree(&tree, &Ignore::default(), &options, &control()).expect("it can be read").entries;
    assert!(matches!(found[1].kind, Kind::File { hash, .. } if hash == [9; 32]), "a wasn't read");
    assert!(matches!(found[2].kind, Kind::File { hash, .. } if hash != [9; 32]), "b was");
}

#[test]
fn a_second_reading_finds_what_times_hide() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    for name in ["a", "b", "c"] {
        put(&source.join(name), b"old");
    }
    let captured = quiesced(&source, &dir.path().join("copy"));
    let tree = Tree::open(&source).expect("it is there");
    let recheck = || recheck_hashes(&tree, &captured.copied.entries, &control()).expect("it can be read");
    assert!(recheck().is_empty());
    put(&source.join("b"), b"new");
    fs::rename(source.join("c"), source.join("d")).expect("it moves");
    assert_eq!(recheck(), [b"b".to_vec(), b"c".to_vec()]);
}

#[test]
fn a_damaged_copy_is_not_restored() {
    for (damage, why) in [
        (&(|file: &Path| put(file, b"other")) as &dyn Fn(&Path), "not those"),
        (&|file: &Path| put(file, b"shorter or longer"), "not those"),
        (&|file: &Path| fs::rename(file, file.with_extension("gone")).expect("it moves"), "missing"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        put(&dir.path().join("source/file"), b"bytes");
        let captured = quiesced(&dir.path().join("source"), &dir.path().join("copy"));
        damage(&dir.path().join("copy/file"));
        let error = restore(&captured.copied.entries, &dir.path().join("copy"), &dir.path().join("back"), &control());
        let Err(TreeError::Damaged { path, why: told }) = error else { panic!("it was restored: {error:?}") };
        assert!(path.ends_with("copy/file") && told.contains(why), "{path:?} {told}");
    }
}
