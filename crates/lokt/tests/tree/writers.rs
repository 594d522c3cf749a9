//! Copies beside somebody who writes: what says that it is true is true, on every file system and whatever the writer does.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use lokt::tree::{Consistency, Control, Ignore, Phase, Progress, Tree, TreeError, capture};
use lokt_testkit::swarm::pause;

use crate::scene::{GO_ON, Mounted, put, take};

/// More of them with the long tests.
const TRIES: usize = if cfg!(feature = "long") { 50 } else { 6 };
const SIZE: usize = 256 << 10;

/// Somebody who writes until this is dropped.
struct Writer(Child);

impl Writer {
    fn start(way: &str, file: &Path, busy_ms: u32, pause_ms: u32) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tree/writer.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(way).arg(file).arg(busy_ms.to_string()).arg(pause_ms.to_string());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("python3 runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("it tells");
        assert_eq!(line, "ready\n", "the writer writes");
        Self(child)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A tree with one file that is written to among some that aren't.
fn scene(at: &Path) -> PathBuf {
    let source = at.join("source");
    for name in 0..20 {
        put(&source.join(format!("quiet/{name}")), &vec![7; 10_000]);
    }
    put(&source.join("sub/file"), &[]);
    source
}

/// Is it what the file was at one moment? Writers begin at the front; one that the kernel stopped in the middle has written the beginning of
/// its number after the end of the one before, and never anything else.
fn is_one_state(file: &Path) -> bool {
    let bytes = fs::read(file).expect("it was copied");
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight of them"));
    let numbers: Vec<u64> = bytes.chunks_exact(8).map(number).collect();
    bytes.len() == SIZE && numbers.is_sorted_by(|a, b| a >= b) && numbers[0] - numbers[numbers.len() - 1] <= 1
}

/// Copies beside a writer, often. What is refused is refused for the file or the directory that it is in.
fn beside(at: &Path, way: &str, on: &str) {
    let source = scene(at);
    // From hardly ever to all the time, so that copies meet writers in the middle and in between.
    for (round, (busy_ms, pause_ms)) in
        [(2, 500), (20, 100), (60, 30), (500, 0)].into_iter().cycle().take(TRIES).enumerate()
    {
        let _writer = Writer::start(way, &source.join("sub/file"), busy_ms, pause_ms);
        let into = at.join(format!("copy-{round}"));
        match take(&source, &into, Consistency::Quiesced) {
            Ok(_) => {
                assert!(
                    is_one_state(&into.join("sub/file")),
                    "{on}, {way}: a torn file in a copy that says it is true"
                );
            }
            Err(TreeError::Changed { paths }) => {
                let is_theirs = |path: &Vec<u8>| path.starts_with(b"sub");
                assert!(!paths.is_empty() && paths.iter().all(is_theirs), "{on}, {way}: only that changed: {paths:?}");
            }
            Err(error) => panic!("{on}, {way}: {error}"),
        }
    }
}

fn beside_all(at: &Path, on: &str) {
    for way in ["plain", "mmap", "rename", "times"] {
        beside(&at.join(way), way, on);
    }
}

#[test]
fn beside_writers_on_ext4_a_copy_is_true_or_refused() {
    let mounted = Mounted::image("ext4", 600);
    beside_all(&mounted.at(), "ext4");
}

#[test]
fn beside_writers_on_tmpfs_a_copy_is_true_or_refused() {
    let mounted = Mounted::tmpfs();
    beside_all(&mounted.at(), "tmpfs");
}

#[test]
fn beside_writers_on_overlayfs_a_copy_is_true_or_refused() {
    let mounted = Mounted::overlay();
    beside_all(&mounted.at(), "overlay");
}

#[test]
fn beside_writers_on_xfs_and_btrfs_a_copy_is_true_or_refused() {
    for (kind, megabytes) in [("xfs", 320), ("btrfs", 256)] {
        let mounted = Mounted::image(kind, megabytes);
        beside_all(&mounted.at(), kind);
    }
}

/// Somebody who writes once whenever a file has been copied, the last one too: then only a look or a reading afterwards can tell.
struct Intruder(Mutex<(Child, ChildStdin, BufReader<ChildStdout>)>);

impl Intruder {
    fn start(way: &str, file: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tree/writer.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(way).arg(file).arg("when-told").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 runs");
        let (orders, answers) = (child.stdin.take().expect("it is piped"), child.stdout.take().expect("it is piped"));
        let mut answers = BufReader::new(answers);
        answers.read_line(&mut String::new()).expect("it is ready");
        // Nothing that happened before is news.
        pause(Duration::from_millis(50));
        Self(Mutex::new((child, orders, answers)))
    }

    fn write(&self) {
        let (_, orders, answers) = &mut *self.0.lock().expect("nobody panics");
        orders.write_all(b"write\n").and_then(|()| orders.flush()).expect("it listens");
        let mut line = String::new();
        answers.read_line(&mut line).expect("it answers");
        assert_eq!(line, "wrote\n");
    }
}

impl Progress for Intruder {
    fn step(&self, phase: Phase, files_done: u64, _: u64, _: u64, _: u64) {
        if phase == Phase::Copying && files_done > 0 {
            self.write();
        }
    }
}

impl Drop for Intruder {
    fn drop(&mut self) {
        let (child, ..) = self.0.get_mut().expect("nobody panics");
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[test]
fn a_write_after_a_file_was_copied_is_noticed_everywhere() {
    let places = [
        ("ext4", Mounted::image("ext4", 600)),
        ("xfs", Mounted::image("xfs", 320)),
        ("btrfs", Mounted::image("btrfs", 256)),
        ("tmpfs", Mounted::tmpfs()),
        ("overlay", Mounted::overlay()),
    ];
    for (on, mounted) in &places {
        for way in ["plain", "mmap", "rename", "times"] {
            let source = scene(&mounted.at().join(way));
            let tree = Tree::open(&source).expect("it is there");
            for consistency in [Consistency::Quiesced, Consistency::BestEffort] {
                let intruder = Intruder::start(way, &source.join("sub/file"));
                let control = Control::new(&intruder, &GO_ON);
                let into = mounted.at().join(format!("{way}-{consistency:?}"));
                let changed = match capture(&tree, &Ignore::default(), &into, consistency, None, &control) {
                    Ok(captured) if consistency == Consistency::BestEffort => captured.changed,
                    Err(TreeError::Changed { paths }) if consistency == Consistency::Quiesced => paths,
                    other => panic!("{on}, {way}, {consistency:?}: {other:?}"),
                };
                assert!(changed.iter().any(|path| path.starts_with(b"sub")), "{on}, {way}: {changed:?}");
            }
        }
    }
}

#[test]
fn files_that_come_go_grow_and_shrink_end_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let source = scene(dir.path());
    let script = "while :; do \
        for i in 1 2 3 4 5 6 7 8; do head -c ${i}00000 /dev/zero > f$i; done; \
        for i in 1 2 3 4; do rm f$i; mkdir f$i; : > f$i/x; rm -r f$i; mkfifo f$i; rm f$i; ln -s / f$i; rm f$i; done; \
        for i in 5 6 7 8; do : > f$i; done; done";
    let mut busy =
        Command::new("sh").args(["-c", script]).current_dir(source.join("sub")).spawn().expect("a shell runs");
    let results: Vec<_> = (0..10)
        .map(|round| {
            let consistency = if round % 3 == 0 { Consistency::Quiesced } else { Consistency::BestEffort };
            (consistency, take(&source, &dir.path().join(format!("copy-{round}")), consistency))
        })
        .collect();
    let _ = busy.kill();
    let _ = busy.wait();
    for (consistency, result) in results {
        match result {
            Ok(captured) => {
                let same = |path: &&lokt::tree::Entry| path.path.starts_with(b"quiet/");
                assert_eq!(captured.copied.entries.iter().filter(same).count(), 20, "the rest is there");
            }
            Err(TreeError::Changed { .. }) if consistency == Consistency::Quiesced => {}
            Err(error) => panic!("{consistency:?}: {error}"),
        }
    }
}
