//! A copy has everything that its source has, and so has what is restored from it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use lokt::tree::{Kind, Skipped};
use rustix::fs::{CWD, FileType, Mode, mkfifoat, mknodat};

use crate::scene::{described, put, quiesced, restored, set_mode, set_mtime, set_xattr};

/// A tree with one of everything that can be copied.
pub(crate) fn one_of_everything(root: &Path) {
    put(&root.join("plain"), b"bytes");
    put(&root.join("empty"), b"");
    put(&root.join("big"), &(0..9_000_000_u32).map(|at| (at % 255) as u8).collect::<Vec<u8>>());
    put(&root.join("sub/run"), b"#!/bin/sh\n");
    set_mode(&root.join("sub/run"), 0o4755);
    put(&root.join("sub/group"), b"g");
    set_mode(&root.join("sub/group"), 0o2775);
    put(&root.join("sub/hidden"), b"secret");
    set_mode(&root.join("sub/hidden"), 0o000);
    put(&root.join("sub/all"), b"x");
    set_mode(&root.join("sub/all"), 0o666);
    fs::create_dir_all(root.join("nothing/in/here")).expect("directories");
    fs::create_dir(root.join("sticky")).expect("a directory");
    set_mode(&root.join("sticky"), 0o1777);
    put(&root.join("locked/file"), b"inside");
    set_mode(&root.join("locked"), 0o500);
    put(&root.join(OsStr::from_bytes(b"no\xff\xfetext")), b"odd");
    put(&root.join("new\nline and \"quotes\""), b"odd");
    fs::hard_link(root.join("plain"), root.join("sub/plain-too")).expect("a link");
    fs::hard_link(root.join("plain"), root.join("a-first")).expect("a link");
    symlink("plain", root.join("to-plain")).expect("a link");
    symlink("../nowhere/at/all", root.join("sub/dangling")).expect("a link");
    symlink("/etc", root.join("out")).expect("a link");
    fs::hard_link(root.join("out"), root.join("out-too")).expect("a link to a link");
    let sparse = fs::File::create(root.join("sparse")).expect("a file");
    sparse.write_all_at(b"head", 0).expect("room");
    sparse.write_all_at(b"middle", 5 << 20).expect("room");
    sparse.set_len(20 << 20).expect("room");
    fs::File::create(root.join("all-hole")).and_then(|file| file.set_len(1 << 20)).expect("a file");
    for (path, secs, nanos) in
        [("plain", 1, 1), ("to-plain", 1_000_000_000, 987_654_321), ("nothing/in/here", 5, 0), ("big", -5, 7)]
    {
        set_mtime(&root.join(path), secs, nanos);
    }
}

/// With what needs attributes and the superuser.
pub(crate) fn attributes_too(root: &Path) {
    set_xattr(&root.join("plain"), "user.note", b"kept\0whole");
    set_xattr(&root.join("sub"), "user.on-a-directory", b"");
    set_xattr(&root.join("empty"), "user.long", &[7; 2000]);
    // user::rw-, user:1234:r--, group::r--, mask::r--, other::---
    let acl = acl(&[(1, 6, u32::MAX), (2, 4, 1234), (4, 4, u32::MAX), (0x10, 4, u32::MAX), (0x20, 0, u32::MAX)]);
    set_xattr(&root.join("sub/all"), "system.posix_acl_access", &acl);
    let default = acl_dir();
    set_xattr(&root.join("sticky"), "system.posix_acl_default", &default);
    put(&root.join("sticky/inherits"), b"");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(root.join("sub/group"), Some(1234), Some(4321)).expect("we are root");
        set_mode(&root.join("sub/group"), 0o6775);
        std::os::unix::fs::lchown(root.join("to-plain"), Some(1234), Some(1)).expect("we are root");
        std::os::unix::fs::chown(root.join("nothing"), Some(77), Some(78)).expect("we are root");
        set_xattr(&root.join("sub/run"), "trusted.mark", b"t");
        set_xattr(&root.join("to-plain"), "trusted.on-a-link", b"l");
        // cap_net_raw+ep, version 2.
        let capability = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        set_xattr(&root.join("big"), "security.capability", &capability);
    }
    set_mtime(&root.join("sticky"), 12, 34);
}

fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn acl_dir() -> Vec<u8> {
    acl(&[(1, 7, u32::MAX), (2, 5, 99), (4, 5, u32::MAX), (0x10, 5, u32::MAX), (0x20, 0, u32::MAX)])
}

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
    let plain = |mut entry: lokt::tree::Entry| {
        entry.source = None;
        entry
    };
    let entries = |captured: lokt::tree::Captured| captured.copied.entries.into_iter().map(plain).collect::<Vec<_>>();
    assert_eq!(entries(captured), entries(again), "it came back whole");
}
