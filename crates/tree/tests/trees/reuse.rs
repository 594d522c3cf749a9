//! A second copy of a tree that didn't change shares the first one's files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use lokt_testkit::swarm::pause;
use lokt_tree::{Captured, Consistency, Reuse};

use crate::scene::{described, manifest, put, quiesced, set_mtime, take_with};

fn again(first: &Captured, dir: &Path) -> Captured {
    let manifest = manifest(first);
    let tree = dir.join("first");
    let reuse = Reuse { tree: &tree, manifest: &manifest };
    take_with(&dir.join("source"), &dir.join("second"), Consistency::Quiesced, Some(reuse)).expect("nobody writes")
}

#[test]
fn what_did_not_change_is_not_copied_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    for name in ["kept", "sub/kept", "touched", "rewritten", "moved", "linked"] {
        put(&source.join(name), name.as_bytes());
    }
    let first = quiesced(&source, &dir.path().join("first"));
    put(&source.join("rewritten"), b"REWRITTEN");
    set_mtime(&source.join("rewritten"), 5, 5);
    fs::hard_link(source.join("linked"), source.join("linked-too")).expect("a link");
    fs::rename(source.join("moved"), source.join("elsewhere")).expect("it moves");
    let second = again(&first, dir.path());
    assert_eq!(second.copied.reused_files, 3, "kept, sub/kept, touched");
    assert_eq!(described(&dir.path().join("second")), described(&source));
    let ino = |copy: &str, name: &str| fs::metadata(dir.path().join(copy).join(name)).expect("it is there").ino();
    assert_eq!(ino("first", "kept"), ino("second", "kept"), "it is the same file");
    assert_ne!(ino("first", "rewritten"), ino("second", "rewritten"));
}

#[test]
fn a_rewritten_file_with_its_old_time_and_size_is_copied_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    put(&source.join("file"), b"old");
    set_mtime(&source.join("file"), 100, 5);
    let first = quiesced(&source, &dir.path().join("first"));
    pause(Duration::from_millis(30));
    fs::File::options()
        .write(true)
        .open(source.join("file"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"new"))
        .expect("room");
    set_mtime(&source.join("file"), 100, 5);
    let second = again(&first, dir.path());
    assert_eq!(second.copied.reused_files, 0);
    assert_eq!(fs::read(dir.path().join("second/file")).expect("it is there"), b"new");
    assert_eq!(fs::read(dir.path().join("first/file")).expect("it is there"), b"old");
}

#[test]
fn a_stored_file_that_is_missing_or_other_is_copied_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    for name in ["missing", "longer", "kept"] {
        put(&source.join(name), name.as_bytes());
    }
    let first = quiesced(&source, &dir.path().join("first"));
    fs::rename(dir.path().join("first/missing"), dir.path().join("aside")).expect("it moves");
    put(&dir.path().join("first/longer"), b"much longer than it was");
    let second = again(&first, dir.path());
    assert_eq!(second.copied.reused_files, 1);
    assert_eq!(described(&dir.path().join("second")), described(&source));
}

#[test]
fn what_proves_nothing_is_not_used() {
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("source/file"), b"x");
    let mut first = quiesced(&dir.path().join("source"), &dir.path().join("first"));
    first.trusted = false;
    assert_eq!(again(&first, dir.path()).copied.reused_files, 0, "it was taken where times prove nothing");
}

#[test]
fn what_changed_about_when_it_was_looked_at_is_not_used() {
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("source/file"), b"x");
    let mut first = quiesced(&dir.path().join("source"), &dir.path().join("first"));
    let ctime = first.scan.entries.last().expect("the file").stat.ctime;
    first.scan.at = ctime;
    assert_eq!(again(&first, dir.path()).copied.reused_files, 0, "another change could have had the same time");
}
