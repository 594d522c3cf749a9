//! The part of a history that a sentence of the verdict is about: a machine on which a run failed may be gone when somebody reads that.

use std::collections::BTreeSet;

use lokt_torture::history::{Deed, Entry};

/// So many entries for one sentence: those that are nearest to its moments.
const AROUND: usize = 50;
/// So many in all.
const LINES_MAX: usize = 600;

/// For each sentence the entries about its names and its processes, as they are in the history.
pub(crate) fn excerpts<'a>(sentences: impl IntoIterator<Item = &'a str>, entries: &[Entry]) -> String {
    let mut text = String::new();
    let mut lines = 0;
    for sentence in sentences {
        let found = excerpt(sentence, entries);
        if found.is_empty() {
            continue;
        }
        if lines + found.len() > LINES_MAX {
            text.push_str("and more, which is in the histories\n");
            break;
        }
        lines += found.len();
        text.extend(["history of: ", sentence, "\n"]);
        text.extend(found.iter().map(|entry| format!("    {}", entry.encode())));
    }
    text
}

fn excerpt<'a>(sentence: &str, entries: &'a [Entry]) -> Vec<&'a Entry> {
    let about = About::read(sentence);
    let mut found: Vec<&Entry> = entries.iter().filter(|entry| about.concerns(entry)).collect();
    found.sort_by_key(|entry| about.distance(entry.at));
    found.truncate(AROUND);
    found.sort_by_key(|entry| entry.at);
    found
}

/// What a sentence names.
struct About<'a> {
    words: BTreeSet<&'a str>,
    lives: BTreeSet<u64>,
    /// In nanoseconds.
    moments: Vec<u64>,
}

impl<'a> About<'a> {
    /// Processes are called `process 7`, moments `12.345678 s`. Any word may be the name of a lock.
    fn read(sentence: &'a str) -> Self {
        let plain = |word: &'a str| word.trim_matches(|letter: char| !letter.is_alphanumeric());
        let words: Vec<&str> = sentence.split_whitespace().map(plain).collect();
        let pairs = || words.iter().zip(words.iter().skip(1));
        let lives = pairs().filter(|(word, _)| **word == "process").filter_map(|(_, number)| number.parse().ok());
        let moments = pairs().filter(|(_, unit)| **unit == "s").filter_map(|(moment, _)| nanoseconds(moment));
        Self { lives: lives.collect(), moments: moments.collect(), words: words.iter().copied().collect() }
    }

    fn concerns(&self, entry: &Entry) -> bool {
        let name = match &entry.deed {
            Deed::Asked { name }
            | Deed::InLine { name }
            | Deed::Entered { name, .. }
            | Deed::Left { name }
            | Deed::GaveUp { name } => Some(name),
            Deed::Wrote { register, .. } => Some(register),
            Deed::Appending { key, .. } | Deed::Appended { key, .. } => Some(key),
            _ => None,
        };
        self.lives.contains(&entry.who) || name.is_some_and(|name| self.words.contains(name.as_str()))
    }

    /// How far a moment is from those that are named; without any the last ones are the nearest.
    fn distance(&self, at: u64) -> u64 {
        self.moments.iter().map(|moment| moment.abs_diff(at)).min().unwrap_or(u64::MAX - at)
    }
}

fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, micros) = text.split_once('.')?;
    let micros = if micros.len() == 6 { micros.parse::<u64>().ok()? } else { return None };
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)?.checked_mul(1_000)
}
