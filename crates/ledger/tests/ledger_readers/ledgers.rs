//! Ledgers in real directories, and what others do to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lokt_core::ledger::draft::Draft;
use lokt_core::ledger::seq::{Seq, Style};
use lokt_ledger::{AppendTerms, Appending, Finding, Fix, InitOptions, Ledger, Verification};
use tempfile::TempDir;

/// A new ledger.
pub(crate) fn fresh(style: Style, chain: bool) -> (TempDir, Ledger) {
    let dir = tempfile::tempdir().expect("temp");
    let me = lokt_sys::machine::identity("tester".into(), None);
    let ledger = Ledger::init(dir.path(), InitOptions { style: Some(style), chain }, me).expect("it can be made").0;
    (dir, ledger)
}

/// A new documented one with so many events.
pub(crate) fn with_events(count: u64, chain: bool) -> (TempDir, Ledger) {
    let (dir, ledger) = fresh(Style::Documented, chain);
    for number in 1..=count {
        append(&ledger, &format!(r#"{{"type":"note","n":{number}}}"#));
    }
    (dir, ledger)
}

/// The same ledger, opened anew.
pub(crate) fn reopened(dir: &TempDir) -> Ledger {
    let me = lokt_sys::machine::identity("tester".into(), None);
    Ledger::existing(dir.path(), me).expect("it can be opened").expect("it is there")
}

/// Appends an event; gives its number.
pub(crate) fn append(ledger: &Ledger, json: &str) -> u64 {
    let draft = Draft::parse(json.as_bytes()).expect("an event");
    match ledger.append(&draft, &AppendTerms::default()).expect("it is written").value {
        Appending::Appended(appended) => appended.last.get(),
        Appending::Denied(unmet) => panic!("{unmet:?}"),
    }
}

pub(crate) fn seq(number: u64) -> Seq {
    Seq::new(number).expect("the number of an event")
}

/// The file of an event.
pub(crate) fn file(ledger: &Ledger, number: u64) -> PathBuf {
    ledger.path().join(ledger.settings().style.file_name(seq(number)))
}

/// Puts bytes under a name, as a program does that knows nothing of us.
pub(crate) fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    let temp = path.with_extension("new");
    put_new(&temp, bytes);
    mv(&temp, path);
}

pub(crate) fn put_new(path: &Path, bytes: impl AsRef<[u8]>) {
    use std::io::Write as _;
    let mut file = fs::File::create(path).expect("it can be made");
    file.write_all(bytes.as_ref()).expect("it can be written");
}

/// Replaces whatever is there.
pub(crate) fn mv(from: &Path, to: &Path) {
    rustix::fs::rename(from, to).expect("it can be renamed");
}

pub(crate) fn rm(path: &Path) {
    rustix::fs::unlink(path).expect("it can be removed");
}

pub(crate) fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("it can be made");
}

/// As if it had been there for an hour.
pub(crate) fn made_old(path: &Path) {
    let then = fs::metadata("/proc/self").expect("proc").modified().expect("a time") - Duration::from_secs(3600);
    fs::File::open(path).expect("it is there").set_modified(then).expect("it is ours");
}

pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).expect("it is there")
}

pub(crate) fn verified(ledger: &Ledger) -> Verification {
    ledger.verify(None, &mut |_, _| {}).expect("it can be read").value
}

/// What doctor finds.
pub(crate) fn found(ledger: &Ledger) -> Vec<Finding> {
    ledger.doctor(false, &mut |_, _| {}).expect("it can be looked at").value
}

/// What doctor finds and mends.
pub(crate) fn mended(ledger: &Ledger) -> Vec<Finding> {
    ledger.doctor(true, &mut |_, _| {}).expect("it can be looked at").value
}

/// Code and number of each.
pub(crate) fn codes(problems: &[Finding]) -> Vec<(&'static str, Option<u64>)> {
    problems.iter().map(|problem| (problem.code, problem.seq)).collect()
}

pub(crate) fn all_done(problems: &[Finding]) -> bool {
    problems.iter().all(|problem| matches!(problem.fix, Fix::Done(_)))
}

/// The files that doctor put aside, with their bytes.
pub(crate) fn aside(ledger: &Ledger) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(ledger.path().join(".lokt/aside")) else { return Vec::new() };
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.file_type().expect("a type").is_file())
        .map(|entry| (entry.file_name().into_string().expect("text"), bytes(&entry.path())))
        .collect();
    files.sort();
    files
}
