//! `quiesced` beside those who write: a snapshot is refused, or it is the tree of one moment. On ext4, in memory and on an overlay; with
//! plain writes, through memory maps whose pages are dirty already, by renames, and with times that are put back.
//!
//! `peers/writer.py` writes so that one can tell: see there. That the judge finds what is torn is shown on copies that promise nothing.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lokt_testkit::mounted::Mounted;
use lokt_testkit::swarm::in_parallel;
use lokt_testkit::tenancy::{Tenancy, answer};

const LOKT: &str = env!("CARGO_BIN_EXE_lokt");
const WRITER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/writer.py");

/// What the writer writes.
const FILES: usize = 6;
const PAGES: usize = 32;
const PAGE: usize = 4096;
const RECORD: usize = 16;

/// So often each is tried.
const TRIES: usize = 50;

const WAYS: [&str; 4] = ["plain", "mmap", "rename", "mtime"];

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Somebody who writes until this is dropped.
struct Writer(Child);

impl Writer {
    /// `rest_ms`: so long it rests at most after each burst.
    fn start(dir: &Path, way: &str, rest_ms: u32) -> Self {
        let mut command = Command::new("python3");
        command.args(["-B", "-E", "-s", WRITER]).arg(dir).args([way, &rest_ms.to_string()]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("python3 runs");
        let mut line = String::new();
        let said = BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line);
        let writer = Self(child);
        assert!(said.is_ok() && line == "writing\n", "the writer has begun: {line}");
        writer
    }

    fn is_writing(&mut self) -> bool {
        self.0.try_wait().expect("it is our child").is_none()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In which order the writer writes what: a file and a page of it, or a whole file.
fn order(way: &str) -> Vec<(usize, Option<usize>)> {
    if way == "rename" {
        return (0..FILES).map(|step| (step * 5 % FILES, None)).collect();
    }
    let cell = |step: usize| step * 29 % (FILES * PAGES);
    (0..FILES * PAGES).map(|step| (cell(step) / PAGES, Some(cell(step) % PAGES))).collect()
}

/// The generations in a piece, the newest first.
fn generations(piece: &[u8]) -> Result<Vec<u64>, String> {
    let number = |record: &[u8]| {
        let text = std::str::from_utf8(record).unwrap_or_default().trim_end();
        text.parse().map_err(|_| format!("no number: {text:?}"))
    };
    let found: BTreeSet<u64> = piece.chunks(RECORD).map(number).collect::<Result<_, _>>()?;
    Ok(found.into_iter().rev().collect())
}

/// Was the tree like this at one moment? If not: why. Pieces are of one generation up to where the writer was, of the one before from
/// there on; only the page at which it was may be of both. A file that comes whole by its name is of one.
fn of_one_moment(tree: &Path, way: &str) -> Result<(), String> {
    let read = |number| std::fs::read(tree.join(format!("f{number}"))).map_err(|error| format!("f{number}: {error}"));
    let files = (0..FILES).map(read).collect::<Result<Vec<_>, _>>()?;
    if let Some(number) = files.iter().position(|file| file.len() != PAGES * PAGE) {
        return Err(format!("f{number} has {} bytes", files[number].len()));
    }
    let (mut all, mut mixed) = (Vec::new(), 0);
    for (file, page) in order(way) {
        let piece = page.map_or(&files[file][..], |page| &files[file][page * PAGE..(page + 1) * PAGE]);
        let found = generations(piece)?;
        mixed += usize::from(found.len() > 1);
        all.extend(found);
    }
    let (newest, oldest) = (all[0], all[all.len() - 1]);
    let most = usize::from(way != "rename");
    if all.is_sorted_by(|a, b| a >= b) && newest - oldest <= 1 && mixed <= most {
        return Ok(());
    }
    Err(format!("{mixed} pieces are torn, and the generations are {all:?}"))
}

/// A repository on a file system, and somebody who writes in it.
struct Beside {
    // It ends before its directory goes.
    writer: Writer,
    tenancy: Tenancy,
    way: &'static str,
}

impl Beside {
    fn new(on: &Path, way: &'static str, rest_ms: u32) -> Self {
        let tenancy = Tenancy::within(LOKT, on);
        let writer = Writer::start(&tenancy.place.beside("main"), way, rest_ms);
        Self { writer, tenancy, way }
    }

    /// Tries to take one: what is said about it, and whether it is of one moment. `None`: it was refused.
    fn takes(&mut self, consistency: &str, on: &str) -> Option<(serde_json::Value, Result<(), String>)> {
        let context = format!("{on}, {}", self.way);
        let args = ["snapshot", "create", "--json", "--acquire", "--consistency", consistency];
        let ended = self.tenancy.place.run("a", &args);
        assert!(self.writer.is_writing(), "{context}: the writer goes on");
        let said = answer(&ended);
        match ended.code {
            Some(0) => {
                let id = said["snapshot_id"].as_str().unwrap_or_else(|| panic!("{context}: it has an id: {said}"));
                assert_eq!(said["consistency_level"], consistency, "{context}: it says what it is");
                let tree = self.tenancy.inside("snapshots").join(id);
                let judged = of_one_moment(&tree, self.way);
                Some((said, judged))
            }
            Some(8) => {
                assert_eq!(said["code"], "E_CONSISTENCY_UNAVAILABLE", "{context}: it says why: {said}");
                None
            }
            _ => panic!("{context}: refused or taken: {ended:?}"),
        }
    }
}

impl Beside {
    /// The risk of the last snapshot, with what changed, is wherever one looks.
    fn tells_everywhere(&self, said: &serde_json::Value) {
        let (id, risk) = (&said["snapshot_id"], &said["risk"]);
        let changed = risk["changed_during_copy"].as_array().map_or(0, Vec::len);
        assert!(changed > 0, "the paths are named: {said}");
        let ask = |words: &str| self.tenancy.says("observer", words, 0);
        let (history, info, show) = (ask("snapshot history"), ask("snapshot info"), ask("snapshot show latest"));
        for told in [&history["snapshots"][0], &info["latest"], &show] {
            assert_eq!((&told["snapshot_id"], &told["risk"]), (id, risk), "it is told: {told}");
        }
        let risky = info["risky_snapshots"].as_array().is_some_and(|risky| risky.contains(id));
        assert!(risky, "it is one of those with a risk: {info}");
        for words in [&["snapshot", "history"][..], &["snapshot", "info"], &["snapshot", "show", "latest"]] {
            let ended = self.tenancy.place.run("observer", words);
            assert!(ended.stdout.contains("[RISK]"), "people see it, too: {words:?}: {ended:?}");
        }
    }
}

/// Tries each way of writing, beside who rests now and then and beside who never does: every snapshot that says `quiesced` is of one
/// moment.
fn is_refused_or_true(mounted: &Mounted, kind: &str) {
    assert_eq!(mounted.kind(), kind, "what is tried is what was meant");
    in_parallel(2, WAYS, |way| {
        let (mut refused, mut tries) = (0, 0);
        // On a machine that is busy, only who rests for long leaves time for one.
        for rest_ms in [60, 0, 1_000, 4_000] {
            let is_short = rest_ms < 1_000;
            if !is_short && refused < tries {
                break;
            }
            let mut beside = Beside::new(&mounted.at(), way, rest_ms);
            for nth in 0..if is_short { TRIES / 2 } else { 5 } {
                tries += 1;
                match beside.takes("quiesced", kind) {
                    None => refused += 1,
                    Some((said, judged)) => {
                        assert_eq!(judged, Ok(()), "quiesced: {kind}, {way}, {rest_ms}, try {nth}: {said}");
                        assert!(said["risk"].is_null(), "{kind}, {way}: it carries no risk: {said}");
                    }
                }
            }
        }
        say(&format!("{kind}, {way}: {refused} of {tries} refused, the others true"));
        assert!(refused < tries, "{kind}, {way}: some were taken, or nothing was judged");
    });
}

/// The same judge finds copies that are torn, where that isn't excluded; and these say so.
fn is_torn_where_nothing_is_promised(mounted: &Mounted, kind: &str) {
    let (mut torn, mut count) = (0, 0);
    for way in WAYS {
        let mut beside = Beside::new(&mounted.at(), way, 0);
        // Where processors are few, whoever copies may be done before the writer is let on again.
        for _ in 0..TRIES {
            let (said, judged) = beside.takes("best_effort", kind).expect("it is taken in any case");
            count += 1;
            assert_eq!(said["risk"]["label"], "best_effort", "{kind}, {way}: it carries the risk: {said}");
            if judged.is_err() {
                torn += 1;
                assert_ne!(said["risk"]["changed_count"], 0, "{kind}, {way}: and what changed: {said}: {judged:?}");
                beside.tells_everywhere(&said);
                break;
            }
        }
    }
    say(&format!("{kind}: {torn} of {count} best_effort are torn"));
    assert!(torn > 0, "{kind}: the judge can tell");
}

fn works_on(mounted: &Mounted, kind: &str) {
    is_refused_or_true(mounted, kind);
    is_torn_where_nothing_is_promised(mounted, kind);
}

#[test]
fn on_ext4_quiesced_is_refused_or_true() {
    lokt_testkit::need!(root, "mkfs.ext4");
    works_on(&Mounted::image("ext4", 512), "ext4");
}

#[test]
fn in_memory_quiesced_is_refused_or_true() {
    lokt_testkit::need!(root);
    works_on(&Mounted::tmpfs(), "tmpfs");
}

#[test]
fn on_an_overlay_quiesced_is_refused_or_true() {
    lokt_testkit::need!(root);
    works_on(&Mounted::overlay(), "overlay");
}
