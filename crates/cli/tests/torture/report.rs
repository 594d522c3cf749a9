//! What is said: every check as a line, the figures, and how to repeat it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use lokt_torture::history::{Deed, Entry, Percentiles, figures, judge};

use crate::peers::{self, Peer};
use crate::validate::{Check, SENTENCES_MAX, per_scope, plain};

/// Says something.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// How to do it again.
pub(crate) fn again(dir: &Path, seconds: u64, seed: u64) -> String {
    let program = "cargo test -p lokt-cli --test torture --";
    let disks = disks(dir);
    let dir = dir.display();
    let mut text = format!(
        "seed {seed}; everything is kept in {dir}\nthe same choices again:\n  {program} --seconds {seconds} --seed {seed}\n\
         the same history judged again:\n  {program} --judge {dir}"
    );
    for disk in disks {
        let _ = write!(text, "\n{MOUNTED_AGAIN}\n  mount -o loop {}/image {}/at", disk.display(), disk.display());
    }
    text
}

/// What stands before the line that mounts the disk.
pub(crate) const MOUNTED_AGAIN: &str = "the disk that was filled, mounted again:";

/// Directories with the image of a disk.
fn disks(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.join("image").is_file()).collect()
}

/// Says something that is wrong.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Adds a line to a file.
pub(crate) fn file(path: &Path, line: &str) {
    if let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path) {
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

/// What was done to whom, and how fast it went.
pub(crate) struct Account<'a> {
    /// The history of lokt.
    pub(crate) entries: &'a [Entry],
    /// What the nemesis did.
    pub(crate) troubles: BTreeMap<String, u64>,
    /// Other locks.
    pub(crate) peers: &'a [(&'a Peer, peers::Outcome)],
    /// How many processes lived.
    pub(crate) lives: u64,
}

impl Account<'_> {
    /// As text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let figures = figures(self.entries);
        let _ = writeln!(text, "\n{} lives, {} entries in the history", self.lives, self.entries.len());
        let _ = writeln!(text, "\nwhat | let in | gave up\n--- | --- | ---");
        for (scope, (holds, gave_up)) in per_scope(self.entries) {
            let _ = writeln!(text, "{scope} | {holds} | {gave_up}");
        }
        let events = self.entries.iter().filter(|entry| matches!(entry.deed, Deed::Appended { .. })).count();
        let _ = writeln!(text, "events acknowledged | {events} |");
        let _ = writeln!(text, "\nfrom asking to entering: {}", millis(&figures.wait));
        let _ = writeln!(text, "from leaving to the next who waits: {}", millis(&figures.hand_over));
        let _ = writeln!(text, "\nnemesis | times\n--- | ---");
        for (kind, count) in &self.troubles {
            let _ = writeln!(text, "{kind} | {count}");
        }
        let _ = writeln!(text, "\nwrites of late holders | acknowledged | refused | lost\n--- | --- | --- | ---");
        let (mut count, mut acknowledged, mut lost) = (0, 0, 0);
        for register in judge::registers(self.entries) {
            if register.name.starts_with("fenced/") {
                let (taken, refused, gone) = (register.acknowledged, register.refused, register.lost.len());
                let _ = writeln!(text, "{} | {taken} | {refused} | {gone}", plain(&register.name));
            } else {
                count += 1;
                acknowledged += register.acknowledged;
                lost += register.lost.len();
            }
        }
        let _ = writeln!(text, "\n{count} registers under locks: {acknowledged} writes, {lost} lost");
        let _ = writeln!(
            text,
            "\nlock | killed | holds | overlaps | lost updates | bad tokens\n--- | --- | --- | --- | --- | ---"
        );
        for (peer, peers::Outcome { holds, killed, overlaps, lost, tokens, .. }) in self.peers {
            let _ = writeln!(text, "{} | {killed} | {holds} | {overlaps} | {lost} | {tokens}", peer.title);
        }
        for (peer, outcome) in self.peers {
            if let Some(example) = &outcome.example {
                let _ = writeln!(text, "{}: {example}", peer.title);
            }
        }
        text
    }
}

fn millis(of: &Percentiles) -> String {
    let [p50, p90, p99, max] =
        [of.p50, of.p90, of.p99, of.max].map(|ns| format!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000));
    format!("p50 {p50} ms, p90 {p90} ms, p99 {p99} ms, at most {max} ms ({} times)", of.count)
}

/// One line for each check, and what is against it.
pub(crate) fn verdict(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let word = match (check.broken.is_empty(), check.is_about_the_run) {
            (true, _) => "ok",
            (false, true) => "not shown",
            (false, false) => "FAILED",
        };
        let _ = writeln!(text, "test {} ... {word}", check.what);
        for sentence in check.told() {
            let _ = writeln!(text, "    {sentence}");
        }
        if check.broken.len() > SENTENCES_MAX {
            let _ = writeln!(text, "    and {} more", check.broken.len() - SENTENCES_MAX);
        }
    }
    text
}

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Well,
    /// Nothing is wrong with lokt, but something that should have happened never did.
    ShownTooLittle,
    Wrong,
}

/// What the checks come to.
pub(crate) fn outcome(checks: &[Check]) -> Outcome {
    let failed: Vec<&Check> = checks.iter().filter(|check| !check.broken.is_empty()).collect();
    match () {
        () if failed.is_empty() => Outcome::Well,
        () if failed.iter().all(|check| check.is_about_the_run) => Outcome::ShownTooLittle,
        () => Outcome::Wrong,
    }
}

/// The last line, as every test program has it; none where it is not the last.
pub(crate) fn result(checks: &[Check], seconds: u64) -> Outcome {
    let outcome = outcome(checks);
    let failed = checks.iter().filter(|check| !check.broken.is_empty()).count();
    if outcome == Outcome::ShownTooLittle {
        say(&format!("\nnothing is wrong, but {failed} of these things never happened\n"));
        return outcome;
    }
    let (word, passed) = (if failed == 0 { "ok" } else { "FAILED" }, checks.len() - failed);
    say(&format!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out; finished in {seconds}s\n"
    ));
    outcome
}
