//! Copies on the file systems that people have.

use std::fs;
use std::process::Command;

use lokt_tree::{Lost, Tree};

use crate::faithful::{attributes_too, comes_back, one_of_everything};
use crate::scene::{Mounted, described, put, quiesced, set_xattr};

fn works_on(mounted: &Mounted, on: &str, trusted: bool) {
    let source = mounted.at().join("source");
    one_of_everything(&source);
    attributes_too(&source);
    assert_eq!(Tree::open(&source).expect("it is there").is_trusted(), trusted, "{on}");
    comes_back(&mounted.at(), on);
}

#[test]
fn everything_comes_back_on_ext4() {
    lokt_testkit::need!(root, "mkfs.ext4");
    works_on(&Mounted::image("ext4", 600), "ext4", true);
}

#[test]
fn everything_comes_back_on_xfs() {
    lokt_testkit::need!(root, "mkfs.xfs");
    works_on(&Mounted::image("xfs", 320), "xfs", true);
}

#[test]
fn everything_comes_back_on_btrfs() {
    lokt_testkit::need!(root, "mkfs.btrfs");
    works_on(&Mounted::image("btrfs", 256), "btrfs", true);
}

#[test]
fn everything_comes_back_on_tmpfs() {
    lokt_testkit::need!(root);
    works_on(&Mounted::tmpfs(), "tmpfs", false);
}

#[test]
fn everything_comes_back_on_overlayfs() {
    lokt_testkit::need!(root);
    works_on(&Mounted::overlay(), "overlay", true);
}

#[test]
fn files_are_cloned_where_the_file_system_can() {
    lokt_testkit::need!(root, "mkfs.xfs", "mkfs.btrfs");
    for (kind, megabytes) in [("xfs", 320), ("btrfs", 128)] {
        let mounted = Mounted::image(kind, megabytes);
        put(&mounted.at().join("source/file"), &vec![5; 3 << 20]);
        let captured = quiesced(&mounted.at().join("source"), &mounted.at().join("copy"));
        assert_eq!(captured.copied.engine, "reflink-copy", "{kind}");
    }
    let mounted = Mounted::tmpfs();
    put(&mounted.at().join("source/file"), b"x");
    assert_eq!(quiesced(&mounted.at().join("source"), &mounted.at().join("copy")).copied.engine, "copy");
}

#[test]
fn a_volatile_overlay_proves_nothing() {
    lokt_testkit::need!(root);
    let script =
        "mkdir lower upper work; mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work,volatile none at";
    let mounted = Mounted::new("overlay", script);
    assert!(!Tree::open(&mounted.at()).expect("it is there").is_trusted());
}

#[test]
fn a_copy_can_go_to_another_file_system() {
    lokt_testkit::need!(root, "mkfs.ext4");
    let (from, to) = (Mounted::tmpfs(), Mounted::image("ext4", 600));
    one_of_everything(&from.at().join("source"));
    attributes_too(&from.at().join("source"));
    let captured = quiesced(&from.at().join("source"), &to.at().join("copy"));
    assert_eq!(captured.copied.lost, []);
    let (a, b) = (described(&from.at().join("source")), described(&to.at().join("copy")));
    for (path, line) in &a {
        assert_eq!(Some(line), b.get(path), "{}", String::from_utf8_lossy(path));
    }
}

#[test]
fn a_mount_is_listed_and_not_entered() {
    lokt_testkit::need!(root);
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    put(&source.join("file"), b"x");
    put(&source.join("bound"), b"below");
    fs::create_dir(source.join("mounted")).expect("a directory");
    fs::create_dir(dir.path().join("other")).expect("a directory");
    put(&dir.path().join("other/secret"), b"not ours");
    let bind = |from: &str, to: &str| {
        let done = Command::new("mount").arg("--bind").args([dir.path().join(from), source.join(to)]).status();
        assert!(done.is_ok_and(|done| done.success()), "binding needs root");
    };
    bind("other", "mounted");
    bind("other/secret", "bound");
    let captured = quiesced(&source, &dir.path().join("copy"));
    for name in ["mounted", "bound"] {
        let _ = Command::new("umount").arg("--lazy").arg(source.join(name)).status();
    }
    let skipped: Vec<_> = captured.scan.skipped.iter().map(|skipped| (&*skipped.path, skipped.kind)).collect();
    assert_eq!(skipped, [(&b"bound"[..], "mount"), (&b"mounted"[..], "mount")]);
    assert_eq!(described(&dir.path().join("copy")).len(), 2, "the root and the file");
}

#[test]
fn an_attribute_that_does_not_fit_is_lost_and_not_a_full_disk() {
    lokt_testkit::need!(root, "mkfs.ext4");
    // Blocks of 1 KB, and all attributes of a file in one.
    let (from, to) = (Mounted::tmpfs(), Mounted::image("ext4", 64));
    let source = from.at().join("source");
    put(&source.join("file"), b"x");
    set_xattr(&source.join("file"), "user.long", &[7; 2000]);
    set_xattr(&source.join("file"), "user.short", b"kept");
    let copied = quiesced(&source, &to.at().join("copy")).copied;
    assert_eq!(copied.lost, [Lost { path: b"file".to_vec(), what: b"user.long".to_vec() }]);
    assert_eq!(copied.entries[1].xattrs, [(b"user.short".to_vec(), b"kept".to_vec())], "what the copy has");
}
