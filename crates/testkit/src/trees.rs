//! Trees of files with one of everything, and a way to say what is in one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

/// A tree with one of everything that can be copied.
pub fn one_of_everything(root: &Path) {
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
pub fn attributes_too(root: &Path) {
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

/// An access control list for what is made in a directory.
pub fn acl_dir() -> Vec<u8> {
    acl(&[(1, 7, u32::MAX), (2, 5, 99), (4, 5, u32::MAX), (0x10, 5, u32::MAX), (0x20, 0, u32::MAX)])
}

/// Writes a file, making the directories above it.
pub fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("it is in something")).expect("directories");
    fs::File::create(path).and_then(|mut file| std::io::Write::write_all(&mut file, bytes)).expect("a file");
}

/// Permissions with suid, sgid and sticky bits.
pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// The time of the last change, of a link its own.
pub fn set_mtime(path: &Path, secs: i64, nanos: u32) {
    let time = |tv_nsec| rustix::fs::Timespec { tv_sec: secs, tv_nsec };
    let omit = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let times = rustix::fs::Timestamps { last_access: omit, last_modification: time(nanos.into()) };
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, flags).expect("it is ours");
}

/// Everything about a tree that a copy must have, found by other means than the engine's.
pub fn described(root: &Path) -> BTreeMap<Vec<u8>, String> {
    let (mut all, mut first) = (BTreeMap::new(), BTreeMap::new());
    describe(root, root, &mut all, &mut first);
    all
}

fn describe(root: &Path, path: &Path, all: &mut BTreeMap<Vec<u8>, String>, first: &mut BTreeMap<(u64, u64), Vec<u8>>) {
    let meta = fs::symlink_metadata(path).expect("it is there");
    let name = path.strip_prefix(root).expect("it is below").as_os_str().as_bytes().to_vec();
    let content = if meta.is_symlink() {
        format!("link {}", fs::read_link(path).expect("a link").display())
    } else if meta.is_dir() {
        "dir".to_owned()
    } else {
        let same = first.entry((meta.dev(), meta.ino())).or_insert_with(|| name.clone());
        let is_sparse = meta.blocks() * 512 < meta.len();
        format!("file {} as {same:?} sparse {is_sparse}", blake3(path))
    };
    let xattrs = xattrs(path);
    let line = format!(
        "{content} {:o} {}:{} {}.{} {xattrs:?}",
        meta.mode(),
        meta.uid(),
        meta.gid(),
        meta.mtime(),
        meta.mtime_nsec()
    );
    all.insert(name, line);
    if meta.is_dir() {
        let mut names: Vec<_> =
            fs::read_dir(path).expect("it is readable").map(|entry| entry.expect("it lists").path()).collect();
        names.sort();
        for name in names {
            describe(root, &name, all, first);
        }
    }
}

fn blake3(path: &Path) -> String {
    // Not the hash of the engine: whoever is wrong must not agree with themselves.
    use std::hash::{DefaultHasher, Hasher as _};
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(path).expect("it is readable"));
    format!("{:x}", hasher.finish())
}

/// Extended attributes, by name.
pub fn xattrs(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0_u8; 65536];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0_u8; 65536];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).expect("it is listed");
        (String::from_utf8_lossy(name).into_owned(), value[..length].to_vec())
    };
    names.map(value).collect()
}

/// Sets one.
pub fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, rustix::fs::XattrFlags::empty()).expect("it can be set");
}
