//! Work that can't be finished ends, and says why.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use lokt_tree::{Consistency, Control, Ignore, Phase, Progress, Tree, TreeError, capture, restore, scan};

use crate::scene::{GO_ON, Mounted, control, put, quiesced, set_mode, take};

#[test]
fn a_tree_that_does_not_fit_is_refused_before_anything_is_copied() {
    lokt_testkit::need!(root);
    let mounted = Mounted::new("tmpfs", "mount -t tmpfs -o size=4M none at");
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("source/file"), &vec![1; 8 << 20]);
    let into = mounted.at().join("copy");
    let error = take(&dir.path().join("source"), &into, Consistency::Quiesced).expect_err("it is too large");
    assert!(error.is_full_disk(), "{error}");
    let TreeError::NoSpace { needed, free, .. } = error else { panic!("{error}") };
    assert!(needed >= 8 << 20 && free <= 4 << 20, "{needed} {free}");
    assert_eq!(fs::read_dir(&into).expect("it is ours").count(), 0, "nothing is in it");
}

#[test]
fn a_disk_that_fills_up_meanwhile_is_an_error_with_the_path() {
    lokt_testkit::need!(root);
    // The files fit, their inodes don't.
    let mounted = Mounted::new("tmpfs", "mount -t tmpfs -o nr_inodes=20 none at");
    let dir = tempfile::tempdir().expect("a directory");
    for at in 0..100 {
        put(&dir.path().join(format!("source/{at}")), b"x");
    }
    let error =
        take(&dir.path().join("source"), &mounted.at().join("copy"), Consistency::Quiesced).expect_err("it is full");
    assert!(error.is_full_disk(), "{error}");
    assert!(matches!(&error, TreeError::Io { path, .. } if path.starts_with(mounted.at().join("copy"))), "{error}");
}

#[test]
fn a_restore_that_does_not_fit_is_refused() {
    lokt_testkit::need!(root);
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("source/file"), &vec![1; 8 << 20]);
    let captured = quiesced(&dir.path().join("source"), &dir.path().join("copy"));
    let mounted = Mounted::new("tmpfs", "mount -t tmpfs -o size=4M none at");
    let entries = &captured.copied.entries;
    let error =
        restore(entries, &dir.path().join("copy"), &mounted.at().join("back"), &control()).expect_err("too large");
    assert!(matches!(error, TreeError::NoSpace { .. }), "{error}");
}

#[test]
fn holes_need_no_room() {
    lokt_testkit::need!(root);
    let mounted = Mounted::new("tmpfs", "mount -t tmpfs -o size=4M none at");
    let source = mounted.at().join("source");
    put(&source.join("small"), b"x");
    fs::File::create(source.join("sparse")).and_then(|file| file.set_len(64 << 20)).expect("a file");
    let captured = quiesced(&source, &mounted.at().join("copy"));
    restore(&captured.copied.entries, &mounted.at().join("copy"), &mounted.at().join("back"), &control())
        .expect("it fits");
}

#[test]
fn a_target_that_is_there_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    put(&dir.path().join("source/file"), b"x");
    fs::create_dir(dir.path().join("copy")).expect("a directory");
    let error =
        take(&dir.path().join("source"), &dir.path().join("copy"), Consistency::Quiesced).expect_err("it is there");
    assert!(
        matches!(&error, TreeError::Io { error, .. } if error.kind() == std::io::ErrorKind::AlreadyExists),
        "{error}"
    );
}

/// Asks to stop in one phase, after so many steps.
struct Stopper<'a> {
    at: Phase,
    halt: &'a AtomicBool,
}

impl Progress for Stopper<'_> {
    fn step(&self, phase: Phase, files: u64, _: u64, bytes: u64, _: u64) {
        if phase == self.at && files + bytes > 0 {
            self.halt.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn it_stops_when_asked_to() {
    for at in [Phase::Scanning, Phase::Copying] {
        let dir = tempfile::tempdir().expect("a directory");
        put(&dir.path().join("source/big"), &vec![1; 30 << 20]);
        put(&dir.path().join("source/sub/file"), b"x");
        let halt = AtomicBool::new(false);
        let stopper = Stopper { at, halt: &halt };
        let control = Control::new(&stopper, &halt);
        let tree = Tree::open(&dir.path().join("source")).expect("it is there");
        let into = dir.path().join("copy");
        let stopped = capture(&tree, &Ignore::default(), &into, Consistency::Quiesced, None, &control);
        assert!(matches!(stopped, Err(TreeError::Halted)), "{at:?}: {stopped:?}");
        let copied = fs::metadata(into.join("big")).map_or(0, |found| found.len());
        assert!(copied < 30 << 20, "in the middle of a file");
    }
}

#[test]
fn what_we_may_not_read_is_an_error_and_not_left_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    put(&source.join("sub/file"), b"x");
    set_mode(dir.path(), 0o755);
    set_mode(&source.join("sub"), 0o000);
    let look = || {
        let tree = Tree::open(&source).expect("it is there");
        scan(&tree, &Ignore::default(), &Control::new(&lokt_tree::Silent, &GO_ON)).map(|scan| scan.files)
    };
    if !rustix::process::geteuid().is_root() {
        let error = look().expect_err("it isn't readable");
        assert!(error.to_string().contains("sub"), "{error}");
        return;
    }
    assert_eq!(look().expect("the superuser may"), 1);
    let exe = std::env::current_exe().expect("we run");
    let exe = exe.to_str().expect("a path that is text");
    let me = ["--exact", "ends::what_we_may_not_read_is_an_error_and_not_left_out"];
    let done = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", exe])
        .args(me)
        .output()
        .expect("setpriv runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn every_phase_is_told() {
    #[derive(Default)]
    struct Seen(std::sync::Mutex<Vec<(Phase, u64, u64)>>);
    impl Progress for Seen {
        fn step(&self, phase: Phase, files_done: u64, _: u64, bytes_done: u64, _: u64) {
            self.0.lock().expect("nobody panics").push((phase, files_done, bytes_done));
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    for at in 0..10 {
        put(&dir.path().join(format!("source/{at}")), b"four");
    }
    let seen = Seen::default();
    let control = Control::new(&seen, &GO_ON);
    let tree = Tree::open(&dir.path().join("source")).expect("it is there");
    let captured = capture(&tree, &Ignore::default(), &dir.path().join("copy"), Consistency::Quiesced, None, &control);
    captured.expect("nobody writes").copied.sync(&control).expect("it can be synced");
    let seen = seen.0.into_inner().expect("nobody panics");
    for phase in [Phase::Scanning, Phase::Copying, Phase::Checking, Phase::Syncing] {
        assert!(seen.iter().any(|(told, ..)| *told == phase), "{phase:?}");
    }
    let last = seen.iter().rfind(|(phase, ..)| *phase == Phase::Copying);
    assert_eq!(last, Some(&(Phase::Copying, 10, 40)), "all of it");
}
