//! Copies of trees beside `cp`, `sync` and plain hashing, on the same disk in the same run.
//!
//!     cargo bench -p lokt-tree              # everything; cloning needs root, for the mounts
//!     cargo bench -p lokt-tree -- small     # or: big, clone, many
//!
//! Ours is a process that looks, flushes, copies and hashes, looks again, and syncs. Both sides are taken in turns; a time is the median.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use lokt_tree::{Consistency, Control, Header, Ignore, Manifest, Reuse, Silent, Tree, capture};

/// What a process is told to do by its first argument.
const OURS: &str = "copy-a-tree";
const HASH: &str = "hash-a-file";
const TWICE: &str = "copy-a-tree-twice";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [OURS, from, into] => return ours(Path::new(from), Path::new(into)),
        [TWICE, from, into, again] => return twice(Path::new(from), Path::new(into), Path::new(again)),
        [HASH, file] => return hash(Path::new(file)),
        _ => {}
    }
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    // Below the target directory, so that it is the disk that is measured and not a temp file system.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable");
    for (name, bench) in [("small", small as fn(&Path)), ("big", big), ("clone", clone), ("many", many)] {
        if wanted(name) {
            bench(dir.path());
        }
    }
}

fn ours(from: &Path, into: &Path) {
    let halt = AtomicBool::new(false);
    let control = Control::new(&Silent, &halt);
    let tree = Tree::open(from).expect("it is there");
    let captured = capture(&tree, &Ignore::default(), into, Consistency::Quiesced, None, &control);
    captured.expect("nobody writes").copied.sync(&control).expect("the disk works");
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
/// Copies, then copies again with the first copy at hand, and tells both times and the most memory that it took.
fn twice(from: &Path, into: &Path, again: &Path) {
    let halt = AtomicBool::new(false);
    let control = Control::new(&Silent, &halt);
    let tree = Tree::open(from).expect("it is there");
    let start = Instant::now();
    let first = capture(&tree, &Ignore::default(), into, Consistency::Quiesced, None, &control).expect("quiet");
    first.copied.sync(&control).expect("the disk works");
    let first_time = start.elapsed();
    let header = Header { scanned_at: first.scan.at, trusted: first.trusted };
    let manifest = Manifest { header, entries: first.copied.entries };
    let reuse = Some(Reuse { tree: into, manifest: &manifest });
    let start = Instant::now();
    let second = capture(&tree, &Ignore::default(), again, Consistency::Quiesced, reuse, &control).expect("quiet");
    second.copied.sync(&control).expect("the disk works");
    assert_eq!(second.copied.copied_files, 0, "everything is used again");
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel counts").trim();
    say(&format!("{} {} {peak}", first_time.as_millis(), start.elapsed().as_millis()));
}

/// What hashing costs: one thread, large reads.
fn hash(file: &Path) {
    let (mut file, mut hasher, mut block) =
        (File::open(file).expect("it is there"), blake3::Hasher::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut block).expect("the disk works") {
            0 => break,
            got => _ = hasher.update(&block[..got]),
        }
    }
    assert_ne!(hasher.finalize().as_bytes(), &[0; 32]);
}

fn small(dir: &Path) {
    let source = dir.join("small");
    make_files(&source, 1000, 1024);
    let turns = [
        (itself(&[OURS, &text(&source), &text(&dir.join("copy"))]), 15),
        (shell("cp -a --reflink=auto \"$1\" \"$2\" && sync -f \"$2\"", &source, &dir.join("copy")), 15),
    ];
    let [ours, cp] = in_turns(turns, &dir.join("copy"));
    report("1,000 files of 1 KB, to cp + sync", ours, cp, 1.2);
}

fn big(dir: &Path) {
    let source = dir.join("big");
    make_files(&source, 1, 1 << 30);
    let turns = [
        (itself(&[OURS, &text(&source), &text(&dir.join("copy"))]), 5),
        (shell("cp -a --reflink=auto \"$1\" \"$2\" && sync -f \"$2\"", &source, &dir.join("copy")), 5),
        (itself(&[HASH, &text(&source.join("0/0"))]), 5),
    ];
    let [ours, cp, hash] = in_turns(turns, &dir.join("copy"));
    say(&format!("  cp + sync {cp:.0?}, hashing {hash:.0?}"));
    report("a file of 1 GB, to the larger of cp + sync and hashing", ours, cp.max(hash), 1.2);
    fs::remove_dir_all(source).expect("it is ours");
}

fn clone(dir: &Path) {
    for kind in ["xfs", "btrfs"] {
        let place = dir.join(kind);
        fs::create_dir(&place).expect("it is new");
        let script = "cd \"$1\" && mkdir at && truncate -s 6G image && mkfs.$2 -q image && mount -o loop image at";
        let made = shell(script, &place, Path::new(kind)).status().expect("a shell runs");
        assert!(made.success(), "mounting needs root");
        let at = place.join("at");
        make_files(&at.join("source"), 1, 1 << 30);
        let turns = [
            (itself(&[OURS, &text(&at.join("source")), &text(&at.join("copy"))]), 5),
            (itself(&[HASH, &text(&at.join("source/0/0"))]), 5),
        ];
        let [ours, hash] = in_turns(turns, &at.join("copy"));
        shell("umount --lazy \"$1\" && rm \"$2\"", &at, &place.join("image")).status().expect("a shell runs");
        report(&format!("a file of 1 GB, cloned on {kind}, to hashing it"), ours, hash, 1.2);
    }
}

fn many(dir: &Path) {
    let mut last = None;
    for count in [10_000, 100_000] {
        let source = dir.join(format!("many-{count}"));
        make_files(&source, count, 100);
        let (copy, again) = (dir.join("copy"), dir.join("again"));
        let told = itself(&[TWICE, &text(&source), &text(&copy), &text(&again)]).stderr(Stdio::piped()).output();
        let told = String::from_utf8(told.expect("it runs").stderr).expect("text");
        let words: Vec<f64> = told.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [first, second, peak] = words[..] else { panic!("{told}") };
        say(&format!(
            "{count} files: {first} ms, again {second} ms ({:.2}), at most {:.0} MB",
            second / first,
            peak / 1024.0
        ));
        if let Some(before) = last.replace(first) {
            say(&format!("  ten times the files took {:.1} times as long", first / before));
        }
        for path in [source, copy, again] {
            fs::remove_dir_all(path).expect("it is ours");
        }
    }
}

/// Files of so many bytes, a hundred to a directory.
fn make_files(root: &Path, count: usize, bytes: usize) {
    let mut block: Vec<u8> = (0..bytes.min(1 << 20)).map(|at| (at * 7 % 251).to_le_bytes()[0]).collect();
    for at in 0..count {
        let dir = root.join((at / 100).to_string());
        if at % 100 == 0 {
            fs::create_dir_all(&dir).expect("it is new");
        }
        let mut file = File::create(dir.join((at % 100).to_string())).expect("it is new");
        block[0] = at.to_le_bytes()[0];
        for _ in 0..bytes.div_ceil(block.len()) {
            file.write_all(&block).expect("there is room");
        }
    }
    // And some time, so that nothing waits for the clock to move on.
    shell("sync -f \"$1\"; sleep 0.1", root, root).status().expect("a shell runs");
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn in_turns<const N: usize>(mut turns: [(Command, usize); N], copy: &Path) -> [Duration; N] {
    let mut times = [const { Vec::new() }; N];
    for round in 0..turns.iter().map(|(_, rounds)| *rounds).max().unwrap_or(0) {
        for (which, (command, rounds)) in turns.iter_mut().enumerate() {
            if round < *rounds {
                let start = Instant::now();
                let done = command.status().expect("it runs");
                times[which].push(start.elapsed());
                assert!(done.success(), "{command:?}");
                shell("rm -rf \"$1\"; sync -f \"$2\"", copy, copy.parent().expect("it is in something"))
                    .status()
                    .expect("a shell runs");
            }
        }
    }
    times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    })
}

fn itself(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("we run"));
    command.args(words).stdout(Stdio::null());
    command
}

fn shell(script: &str, one: &Path, two: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args([one, two]).stdout(Stdio::null());
    command
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path that is text").to_owned()
}

fn report(what: &str, ours: Duration, theirs: Duration, most: f64) {
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    let mark = if ratio <= most { "" } else { " (missed)" };
    say(&format!("{what}: {ours:.1?} to {theirs:.1?}, {ratio:.2}, at most {most}{mark}"));
}

fn say(line: &str) {
    writeln!(std::io::stderr(), "{line}").expect("somebody listens");
}
