//! A copy has everything that its source has, and so has what is restored from it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use lokt_tree::{Kind, Skipped};
use rustix::fs::{CWD, FileType, Mode, mkfifoat, mknodat};

use lokt_testkit::trees::acl_dir;
pub(crate) use lokt_testkit::trees::{attributes_too, one_of_everything};

use crate::scene::{described, put, quiesced, restored, set_mode, set_xattr};

/// Copies a tree within `dir`, restores the copy, and compares all three.
pub(crate) fn comes_back(dir: &Path, on: &str) {
    let (source, copy, back) = (dir.join("source"), dir.join("copy"), dir.join("back"));
    let before = described(&source);
    let captured = quiesced(&source, &copy);
    assert_eq!(captured.copied.lost, [], "{on}: everything can be copied here");
    captured.copied.sync(&crate::scene::control()).expect("it can be synced");
    same(&before, &described(&source), on, "the source isn't touched");
    same(&before, &described(&copy), on, "the copy is the same");
    let blocks = |root: &Path| fs::metadata(root.join("sparse")).expect("it is there").blocks();
    assert!(blocks(&copy) <= blocks(&source) + 16, "{on}: {} blocks became {}", blocks(&source), blocks(&copy));
    restored(&captured, &copy, &back);
    same(&before, &described(&back), on, "what comes back is the same");
    assert!(blocks(&back) <= blocks(&source) + 16, "{on}: holes come back");
}

fn same(
    a: &std::collections::BTreeMap<Vec<u8>, String>,
    b: &std::collections::BTreeMap<Vec<u8>, String>,
    on: &str,
    what: &str,
) {
    for (path, line) in a {
        assert_eq!(Some(line), b.get(path), "{on}: {what}: {}", String::from_utf8_lossy(path));
    }
    assert_eq!(a.len(), b.len(), "{on}: {what}: nothing more");
}

#[test]
fn one_of_everything_comes_back() {
    lokt_testkit::need!(root);
    let dir = tempfile::tempdir().expect("a directory");
    one_of_everything(&dir.path().join("source"));
    attributes_too(&dir.path().join("source"));
    comes_back(dir.path(), "here");
}

#[test]
fn rights_that_the_place_would_hand_down_are_not_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("source/sub/file"), b"x");
    set_mode(dir.path(), 0o2775);
    set_xattr(dir.path(), "system.posix_acl_default", &acl_dir());
    let captured = quiesced(&dir.path().join("source"), &dir.path().join("copy"));
    restored(&captured, &dir.path().join("copy"), &dir.path().join("back"));
    for copy in ["copy", "back"] {
        assert_eq!(described(&dir.path().join(copy)), described(&dir.path().join("source")), "{copy}");
    }
}

#[test]
fn what_cant_be_copied_is_listed_and_nobody_waits_for_it() {
    lokt_testkit::need!(root);
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    put(&source.join("file"), b"x");
    mkfifoat(CWD, source.join("pipe"), Mode::from_raw_mode(0o600)).expect("a FIFO");
    let _socket = UnixListener::bind(source.join("socket")).expect("a socket");
    mknodat(CWD, source.join("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o666), rustix::fs::makedev(1, 3))
        .expect("a device, which needs root");
    let captured = quiesced(&source, &dir.path().join("copy"));
    let skipped = |path: &str, kind| Skipped { path: path.as_bytes().to_vec(), kind };
    let expected = [skipped("null", "device"), skipped("pipe", "fifo"), skipped("socket", "socket")];
    assert_eq!(captured.scan.skipped, expected);
    assert_eq!(described(&dir.path().join("copy")).len(), 2, "the root and the file");
}

#[test]
fn links_are_those_of_the_manifest() {
    lokt_testkit::need!(root);
    let dir = tempfile::tempdir().expect("a directory");
    one_of_everything(&dir.path().join("source"));
    let captured = quiesced(&dir.path().join("source"), &dir.path().join("copy"));
    let find = |path: &str| captured.copied.entries.iter().find(|entry| entry.path == path.as_bytes());
    let kind = |path: &str| find(path).map(|entry| entry.kind.clone());
    assert!(matches!(kind("a-first"), Some(Kind::File { size: 5, .. })), "the first name has the bytes");
    let link = |to: &str| Some(Kind::HardLink { to: to.as_bytes().to_vec() });
    assert_eq!(kind("plain"), link("a-first"));
    assert_eq!(kind("sub/plain-too"), link("a-first"));
    assert_eq!(kind("out-too"), link("out"), "links have names, too");
    assert!(captured.copied.entries.is_sorted_by(|a, b| a.path < b.path), "by path");
    assert_eq!(find("sub/run").map(|entry| entry.mode), Some(0o4755));
}

#[test]
fn a_tree_may_be_deeper_than_any_path() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    fs::create_dir(&source).expect("a directory");
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    let mut at = rustix::fs::open(&source, flags, Mode::empty()).expect("it opens");
    let name = "d".repeat(100);
    for _ in 0..100 {
        rustix::fs::mkdirat(&at, &*name, Mode::from_raw_mode(0o755)).expect("a directory");
        at = rustix::fs::openat(&at, &*name, flags, Mode::empty()).expect("it opens");
        let create = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
        let file = rustix::fs::openat(&at, "file", create, Mode::from_raw_mode(0o644)).expect("a file");
        rustix::io::write(&file, b"deep").expect("room");
        rustix::fs::symlinkat("file", &at, "link").expect("a link");
    }
    let captured = quiesced(&source, &dir.path().join("copy"));
    assert_eq!((captured.scan.files, captured.copied.entries.len()), (100, 301));
    restored(&captured, &dir.path().join("copy"), &dir.path().join("back"));
    let again = quiesced(&dir.path().join("back"), &dir.path().join("again"));
    let plain = |mut entry: lokt_tree::Entry| {
        entry.source = None;
        entry
    };
    let entries = |captured: lokt_tree::Captured| captured.copied.entries.into_iter().map(plain).collect::<Vec<_>>();
    assert_eq!(entries(captured), entries(again), "it came back whole");
}
