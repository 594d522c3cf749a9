//! What the program was told. Beside its own flags it takes those of libtest, since `cargo test` gives the same words to every test program.

use std::path::PathBuf;

/// How long a run takes in all, unless it is told otherwise: what a change may cost.
pub(crate) const SECONDS: u64 = 60;
/// What this program calls its one test.
const NAME: &str = "torture";
/// Flags of libtest that are followed by a value.
const WITH_VALUE: [&str; 7] =
    ["--test-threads", "--format", "--color", "--logfile", "--shuffle-seed", "-Z", "--report-time"];

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Torture.
    Run {
        /// For so many seconds in all.
        seconds: u64,
        /// From this seed.
        seed: Option<u64>,
    },
    /// Judge what an earlier run kept.
    Judge(PathBuf),
    /// Say what there is, as libtest does.
    List,
    /// Something else is wanted: a filter that this isn't.
    Nothing,
}

/// Reads the words.
pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Wish, String> {
    let mut words = words.into_iter();
    let (mut seconds, mut seed, mut judged, mut list) = (SECONDS, None, None, false);
    let (mut filters, mut skipped, mut exact) = (Vec::new(), Vec::new(), false);
    while let Some(word) = words.next() {
        let (flag, given) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag.to_owned(), Some(value.to_owned())),
            _ => (word, None),
        };
        let mut value = || given.clone().or_else(|| words.next()).ok_or(format!("{flag} needs a value"));
        match flag.as_str() {
            "--seconds" => seconds = number(&flag, &value()?)?,
            "--seed" => seed = Some(number(&flag, &value()?)?),
            "--judge" => judged = Some(PathBuf::from(value()?)),
            "--skip" => skipped.push(value()?),
            "--list" => list = true,
            "--exact" => exact = true,
            _ if WITH_VALUE.contains(&flag.as_str()) => drop(value()?),
            _ if flag.starts_with('-') => {}
            _ => filters.push(flag),
        }
    }
    let matches = |filter: &String| if exact { NAME == filter } else { NAME.contains(filter.as_str()) };
    if list {
        return Ok(Wish::List);
    }
    if let Some(dir) = judged {
        return Ok(Wish::Judge(dir));
    }
    if skipped.iter().any(matches) || (!filters.is_empty() && !filters.iter().any(matches)) {
        return Ok(Wish::Nothing);
    }
    Ok(Wish::Run { seconds, seed })
}

fn number(flag: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{flag} needs a number, not {text:?}"))
}
