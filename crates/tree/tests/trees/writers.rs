//! A write is noticed wherever it falls between the steps of a copy, and ends nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use lokt_testkit::swarm::pause;
use lokt_tree::{Consistency, Control, Ignore, Phase, Progress, Tree, TreeError, capture};

use crate::scene::{GO_ON, Mounted, take, written_to};

/// Somebody who writes once whenever a file has been copied, the last one too: then only a look or a reading afterwards can tell.
struct Intruder(Mutex<(Child, ChildStdin, BufReader<ChildStdout>)>);

impl Intruder {
    fn start(way: &str, file: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees/writer.py");
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
    lokt_testkit::need!(root, "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "python3");
    let places = [
        ("ext4", Mounted::image("ext4", 600)),
        ("xfs", Mounted::image("xfs", 320)),
        ("btrfs", Mounted::image("btrfs", 256)),
        ("tmpfs", Mounted::tmpfs()),
        ("overlay", Mounted::overlay()),
    ];
    for (on, mounted) in &places {
        for way in ["plain", "mmap", "rename", "times"] {
            let source = written_to(&mounted.at().join(way));
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
    let source = written_to(dir.path());
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
                let same = |path: &&lokt_tree::Entry| path.path.starts_with(b"quiet/");
                assert_eq!(captured.copied.entries.iter().filter(same).count(), 20, "the rest is there");
            }
            Err(TreeError::Changed { .. }) if consistency == Consistency::Quiesced => {}
            Err(error) => panic!("{consistency:?}: {error}"),
        }
    }
}
