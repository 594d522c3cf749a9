//! Appending to ledgers short and long, alone and beside seven others, in batches; and reading one. Each beside the bare system calls
//! that it can't do without, on the same disk in the same run.
//!
//!     cargo bench -p lokt-ledger
//!
//! Words after `--` choose rows by their names: `append`, `writers`, `batch`, `replay`.
//!
//! * The floor of an append: write a file without a name, sync it, link it, sync the directory.
//! * The floor of a batch: write the files, sync the file system, rename each, sync the directory.
//! * The floor of a replay: open, read and close every file, in order.
//!
//! Both sides are taken in turns, so that a noisy moment of the disk hits both; a figure is a median, but for the rates of writers,
//! which are medians of blocks of a second.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::Style;
use lokt_ledger::{AppendTerms, Appending, InitOptions, Ledger};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, fsync, linkat, mkdirat, open, openat, renameat_with, syncfs, unlinkat,
};

const SHORT: u64 = 1_000;
const LONG: u64 = 50_000;
/// Second names of so many events are kept by a ledger that has been in use.
const KEPT: u64 = 1_024;
const APPENDS: usize = 600;
const BLOCKS: usize = 9;
const BLOCK: Duration = Duration::from_secs(1);
const WRITERS: usize = 8;
const BATCH: u64 = 1_000;
const BATCHES: usize = 25;
const REPLAYS: usize = 9;
/// What a writer process is told to be by its first argument.
const WRITER: &str = "write-until-told";

/// Measures something in a directory of its own.
type Measure = fn(&Path) -> Vec<Row>;

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if words.first().is_some_and(|word| word == WRITER) {
        return write_until_told(Path::new(&words.remove(1)));
    }
    // Below the target directory, so that it is the disk that is measured and not a temp file system.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable");
    let rows: [(&str, Measure); 4] = [("append", append), ("writers", writers), ("batch", batch), ("replay", replay)];
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    say("| what | | against | | ratio | budget |\n| --- | --- | --- | --- | --- | --- |");
    for (name, measure) in rows.into_iter().filter(|(name, _)| wanted(name)) {
        let place = dir.path().join(name);
        fs::create_dir(&place).expect("it is new");
        for row in measure(&place) {
            say(&row.to_string());
        }
        fs::remove_dir_all(&place).expect("it is ours");
    }
}

/// One line of the table.
struct Row {
    what: String,
    ours: String,
    against: String,
    theirs: String,
    ratio: f64,
    budget: Budget,
}

#[derive(Clone, Copy)]
enum Budget {
    AtMost(f64),
    AtLeast(f64),
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, ours, against, theirs, ratio, budget } = self;
        let (budget, is_met) = match *budget {
            Budget::AtMost(most) => (format!("at most {most}"), *ratio <= most),
            Budget::AtLeast(least) => (format!("at least {least}"), *ratio >= least),
        };
        let mark = if is_met { "" } else { " (missed)" };
        write!(f, "| {what} | {ours} | {against} | {theirs} | {ratio:.2} | {budget}{mark} |")
    }
}

/// Single appends, at both sizes, and what is left of the floor's rate.
fn append(place: &Path) -> Vec<Row> {
    let (short, long) = (ledger(place, "short", SHORT), ledger(place, "long", LONG));
    let (bare_short, bare_long) = (Bare::new(place, "bare-short", SHORT), Bare::new(place, "bare-long", LONG));
    let mut next = [SHORT, LONG];
    let mut times = [const { Vec::new() }; 4];
    let event = draft(1);
    for _ in 0..APPENDS {
        for next in &mut next {
            *next += 1;
        }
        times[0].push(timed(|| append_one(&short, &event)));
        times[1].push(timed(|| bare_short.append(next[0])));
        times[2].push(timed(|| append_one(&long, &event)));
        times[3].push(timed(|| bare_long.append(next[1])));
    }
    let [short, bare_short, long, bare_long] = times.map(median);
    let row = |what: String, ours: u32, against: String, theirs: u32, ratio: f64, budget| Row {
        what,
        ours: format!("{ours} us"),
        against,
        theirs: format!("{theirs} us"),
        ratio,
        budget,
    };
    let rate = |ours: u32, bare: u32| f64::from(bare) / f64::from(ours);
    let (at_short, at_long) = (format!("append at {SHORT} events"), format!("append at {LONG} events"));
    vec![
        row(at_long.clone(), long, at_short.clone(), short, f64::from(long) / f64::from(short), Budget::AtMost(1.3)),
        row(format!("{at_short}, rate"), short, "its floor".into(), bare_short, rate(short, bare_short), FLOOR),
        row(format!("{at_long}, rate"), long, "its floor".into(), bare_long, rate(long, bare_long), FLOOR),
    ]
}

const FLOOR: Budget = Budget::AtLeast(0.8);

/// Many writer processes beside one, and the slowest of them beside its share.
fn writers(place: &Path) -> Vec<Row> {
    drop(ledger(place, "ledger", SHORT));
    let dir = place.join("ledger");
    let (mut alone, mut together, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..BLOCKS {
        alone.push(written(&dir, 1).iter().sum::<u64>());
        let counts = written(&dir, WRITERS);
        let sum = counts.iter().sum::<u64>();
        together.push(sum);
        let least = counts.iter().min().copied().unwrap_or(0);
        shares.push((1_000 * least * WRITERS as u64).checked_div(sum).unwrap_or(0));
    }
    let [alone, together, share] = [alone, together, shares].map(|counts| to_float(median(counts)));
    let secs = BLOCK.as_secs_f64();
    vec![
        Row {
            what: format!("{WRITERS} writer processes, rate"),
            ours: format!("{:.0}/s", together / secs),
            against: "one writer process".into(),
            theirs: format!("{:.0}/s", alone / secs),
            ratio: together / alone,
            budget: Budget::AtLeast(1.2),
        },
        Row {
            what: format!("the slowest of {WRITERS}"),
            ours: format!("{:.0}/s", together / secs / to_float(WRITERS as u64) * share / 1_000.0),
            against: "its share".into(),
            theirs: format!("{:.0}/s", together / secs / to_float(WRITERS as u64)),
            ratio: share / 1_000.0,
            budget: FLOOR,
        },
    ]
}

/// Many events at once.
fn batch(place: &Path) -> Vec<Row> {
    let ours = ledger(place, "ledger", SHORT);
    let bare = Bare::new(place, "bare", SHORT);
    let events: Vec<Draft> = (0..BATCH).map(draft).collect();
    let mut times = [const { Vec::new() }; 2];
    for nth in 0..BATCHES as u64 {
        times[0].push(timed(|| {
            let said = ours.append_batch(&events, &AppendTerms::default(), &mut |_, _| {}).expect("the disk works");
            assert!(matches!(said.value, Appending::Appended(_)), "nothing was asked of the ledger");
        }));
        times[1].push(timed(|| bare.batch(SHORT + 1 + nth * BATCH, BATCH)));
    }
    let [ours, bare] = times.map(median);
    vec![Row {
        what: format!("a batch of {BATCH}"),
        ours: format!("{ours} us"),
        against: "its floor".into(),
        theirs: format!("{bare} us"),
        ratio: f64::from(ours) / f64::from(bare),
        budget: Budget::AtMost(1.3),
    }]
}

/// Every event is read and folded, as by the first command that asks for claims.
#[expect(clippy::disallowed_methods, reason = "a benchmark takes the cache away")]
fn replay(place: &Path) -> Vec<Row> {
    let ours = ledger(place, "ledger", LONG);
    let cache = place.join("ledger/ledger/.lokt/fold.json");
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..REPLAYS {
        let _ = fs::remove_file(&cache);
        times[0].push(timed(|| {
            ours.claims().expect("the disk works");
        }));
        times[1].push(timed(|| read_all(ours.path())));
    }
    let [ours, bare] = times.map(median);
    vec![Row {
        what: format!("replay of {LONG} events"),
        ours: format!("{} ms", ours / 1_000),
        against: "open + read + close of the same files".into(),
        theirs: format!("{} ms", bare / 1_000),
        ratio: f64::from(ours) / f64::from(bare),
        budget: Budget::AtMost(2.0),
    }]
}

/// A ledger that has been in use: so many events, and the second names of the last of them.
fn ledger(place: &Path, name: &str, count: u64) -> Ledger {
    let dir = place.join(name);
    let options = InitOptions { style: Some(Style::Documented), chain: false };
    let (ledger, _) =
        Ledger::init(&dir, options, lokt_sys::machine::identity("bench".into(), None)).expect("a new directory");
    fill(ledger.path(), count);
    let kept = ledger.path().join(".lokt/kept");
    fs::create_dir(&kept).expect("it is new");
    for number in count.saturating_sub(KEPT) + 1..=count {
        fs::hard_link(ledger.path().join(file_name(number)), kept.join(format!("{number:06}"))).expect("it is new");
    }
    append_one(&ledger, &draft(0));
    settle(ledger.path());
    ledger
}

/// Files as a ledger has them.
#[expect(clippy::disallowed_methods, reason = "nobody reads them before they are whole")]
fn fill(dir: &Path, count: u64) {
    for number in 1..=count {
        fs::write(dir.join(file_name(number)), event(number)).expect("the disk works");
    }
}

/// Nothing of what was prepared is left to be written while something else is measured.
fn settle(dir: &Path) {
    syncfs(File::open(dir).expect("it is there")).expect("the disk works");
}

fn file_name(number: u64) -> String {
    format!("event-{number:06}.json")
}

/// Events of all kinds: one in ten claims a node or releases it.
fn event(number: u64) -> String {
    let (node, time) =
        (number / 20 % 200, format!("2026-01-01T{:02}:{:02}:00Z", number / 3_600 % 24, number / 60 % 60));
    match number % 20 {
        0 => format!(
            r#"{{"type":"lock_acquired","timestamp":"{time}","node_id":"1.{node}","owner":"agent-{node}","expires_at":"2026-01-02T00:00:00Z"}}"#
        ),
        10 => format!(r#"{{"type":"lock_released","timestamp":"{time}","node_id":"1.{node}","owner":"agent-{node}"}}"#),
        _ => format!(
            r#"{{"type":"node_created","timestamp":"{time}","node_id":"1.{node}.{number}","statement":"what there is to be done here, in a sentence of a usual length","depends_on":["1.{node}"]}}"#
        ),
    }
}

fn draft(number: u64) -> Draft {
    let text =
        format!(r#"{{"type":"node_created","node_id":"1.{number}","statement":"what there is to be done here"}}"#);
    Draft::parse(text.as_bytes()).expect("it is an event")
}

fn append_one(ledger: &Ledger, event: &Draft) {
    let said = ledger.append(event, &AppendTerms::default()).expect("the disk works");
    assert!(matches!(said.value, Appending::Appended(_)), "nothing was asked of the ledger");
}

/// The least that an append must do.
struct Bare {
    dir: OwnedFd,
    path: PathBuf,
}

impl Bare {
    fn new(place: &Path, name: &str, count: u64) -> Self {
        let path = place.join(name);
        fs::create_dir(&path).expect("it is new");
        fill(&path, count);
        settle(&path);
        let dir = open(&path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("it was just made");
        Self { dir, path }
    }

    fn append(&self, number: u64) {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = openat(&self.dir, c".", flags, Mode::from_raw_mode(0o644)).expect("the file system can do that");
        rustix::io::write(&file, event(number).as_bytes()).expect("the disk works");
        fsync(&file).expect("the disk works");
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, unnamed, &self.dir, file_name(number), AtFlags::SYMLINK_FOLLOW).expect("the name is free");
        fsync(&self.dir).expect("the disk works");
    }

    fn batch(&self, first: u64, count: u64) {
        let temp = self.path.join("batch");
        mkdirat(CWD, &temp, Mode::RWXU).expect("it is new");
        let temp_dir = open(&temp, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("it was just made");
        let name = |nth: u64| nth.to_string();
        for nth in 0..count {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = openat(&temp_dir, name(nth), flags, Mode::from_raw_mode(0o644)).expect("it is new");
            rustix::io::write(&file, event(first + nth).as_bytes()).expect("the disk works");
        }
        syncfs(&self.dir).expect("the disk works");
        for nth in 0..count {
            let (from, to) = (name(nth), file_name(first + nth));
            renameat_with(&temp_dir, from, &self.dir, to, RenameFlags::NOREPLACE).expect("the name is free");
        }
        unlinkat(CWD, &temp, AtFlags::REMOVEDIR).expect("it is empty");
        fsync(&self.dir).expect("the disk works");
    }
}

fn read_all(path: &Path) {
    let dir = open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("it is there");
    let mut buffer = [0_u8; 4096];
    for number in 1..=LONG {
        let file = openat(dir.as_fd(), file_name(number), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        rustix::io::read(file.expect("it is there"), &mut buffer).expect("the disk works");
    }
}

/// How many events each of `count` writer processes appends in the time of a block.
fn written(dir: &Path, count: usize) -> Vec<u64> {
    let mut writers: Vec<Child> = (0..count).map(|_| writer(dir)).collect();
    for child in &mut writers {
        let mut ready = [0];
        child.stdout.as_mut().expect("it is piped").read_exact(&mut ready).expect("it says when it is ready");
    }
    for child in &mut writers {
        child.stdin.take().expect("it is piped").write_all(b"!").expect("it waits for that");
    }
    let count = |child: Child| {
        let output = child.wait_with_output().expect("it is our child");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("it says how many")
    };
    writers.into_iter().map(count).collect()
}

fn writer(dir: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.arg(WRITER).arg(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().expect("this program starts again")
}

/// As a writer process: appends for the time of a block, from when it is told to, and says how many.
fn write_until_told(dir: &Path) {
    let me = lokt_sys::machine::identity("bench".into(), None);
    let ledger = Ledger::existing(dir, me).expect("the disk works").expect("it was made");
    let event = draft(1);
    say(".");
    io::stdin().read_exact(&mut [0]).expect("it is told when to begin");
    let began = now();
    let mut count = 0_u64;
    while began.elapsed() < BLOCK {
        append_one(&ledger, &event);
        count += 1;
    }
    say(&count.to_string());
}

fn median<T: Ord + Copy>(mut all: Vec<T>) -> T {
    all.sort_unstable();
    all[all.len() / 2]
}

fn to_float(count: u64) -> f64 {
    f64::from(u32::try_from(count).expect("so many are not written in a second"))
}

fn timed(work: impl FnOnce()) -> u32 {
    let start = now();
    work();
    u32::try_from(start.elapsed().as_micros()).expect("less than an hour")
}

fn say(line: &str) {
    writeln!(io::stdout(), "{line}").expect("stdout is open");
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}
