//! Copies beside a process that writes: a copy that is called true is true, on every file system and however
//! the process writes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lokt_tree::{Consistency, TreeError};

use crate::scene::{Mounted, take, written_to};

/// As in `writer.py`.
const SIZE: usize = 256 << 10;
const PAGE: usize = 4096;

/// Somebody who writes until this is dropped.
struct Writer(Child);

impl Writer {
    fn start(way: &str, file: &Path, busy_ms: u32, pause_ms: u32) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees/writer.py");
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

/// Is it what the file was at one moment? Writers fill page after page from the front; one that the kernel stopped in the middle leaves
/// pages of its number, at most one page that has some of both in any order, and pages of the number before.
fn is_one_state(bytes: &[u8]) -> bool {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight of them"));
    let numbers: Vec<u64> = bytes.chunks_exact(8).map(number).collect();
    let (Some(&newest), Some(&oldest)) = (numbers.iter().max(), numbers.iter().min()) else { return false };
    let pages: Vec<&[u64]> = numbers.chunks(PAGE / 8).collect();
    let written = pages.iter().take_while(|page| page.iter().all(|number| *number == newest)).count();
    let left = pages.iter().rev().take_while(|page| page.iter().all(|number| *number == oldest)).count();
    bytes.len() == SIZE && newest - oldest <= 1 && written + 1 + left >= pages.len()
}

#[test]
fn what_a_stopped_writer_leaves_is_one_state_and_a_mixture_is_none() {
    let pages = |numbers: &[u64]| -> Vec<u8> {
        let mut all: Vec<u64> = numbers.iter().flat_map(|number| [*number; PAGE / 8]).collect();
        all.resize(SIZE / 8, *numbers.last().expect("a page"));
        all.into_iter().flat_map(u64::to_le_bytes).collect()
    };
    let mut stopped = pages(&[5, 5, 4]);
    stopped[2 * PAGE + 64..2 * PAGE + 72].copy_from_slice(&5u64.to_le_bytes());
    for whole in [pages(&[5]), pages(&[5, 4]), pages(&[5, 5, 4]), stopped] {
        assert!(is_one_state(&whole));
    }
    // Read while it was written: the end is newer than the front, or the front is newer by two.
    for torn in [pages(&[4, 5]), pages(&[4, 4, 5]), pages(&[6, 4]), pages(&[5, 4, 5, 4])] {
        assert!(!is_one_state(&torn));
    }
    assert!(!is_one_state(&pages(&[5])[..SIZE - 8]));
    assert!(!is_one_state(b""));
}

/// Copies beside a writer, often. What is refused is refused for the file or the directory that it is in.
fn beside(at: &Path, way: &str, on: &str) {
    let source = written_to(at);
    // From hardly ever to all the time, so that copies meet writers in the middle and in between.
    for (round, (busy_ms, pause_ms)) in
        [(2, 500), (20, 100), (60, 30), (500, 0)].into_iter().cycle().take(crate::TRIES).enumerate()
    {
        let _writer = Writer::start(way, &source.join("sub/file"), busy_ms, pause_ms);
        let into = at.join(format!("copy-{round}"));
        match take(&source, &into, Consistency::Quiesced) {
            Ok(_) => {
                assert!(
                    is_one_state(&fs::read(into.join("sub/file")).expect("it was copied")),
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
    lokt_testkit::need!(root, "mkfs.ext4", "python3");
    let mounted = Mounted::image("ext4", 600);
    beside_all(&mounted.at(), "ext4");
}

#[test]
fn beside_writers_on_tmpfs_a_copy_is_true_or_refused() {
    lokt_testkit::need!(root, "python3");
    let mounted = Mounted::tmpfs();
    beside_all(&mounted.at(), "tmpfs");
}

#[test]
fn beside_writers_on_overlayfs_a_copy_is_true_or_refused() {
    lokt_testkit::need!(root, "python3");
    let mounted = Mounted::overlay();
    beside_all(&mounted.at(), "overlay");
}

#[test]
fn beside_writers_on_xfs_and_btrfs_a_copy_is_true_or_refused() {
    lokt_testkit::need!(root, "mkfs.xfs", "mkfs.btrfs", "python3");
    for (kind, megabytes) in [("xfs", 320), ("btrfs", 256)] {
        let mounted = Mounted::image(kind, megabytes);
        beside_all(&mounted.at(), kind);
    }
}
