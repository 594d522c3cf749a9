//! What the program was told.

use std::path::PathBuf;

use lokt_testkit::words::{Wanted, number, read};

/// How long a run takes in all, unless it is told otherwise: what a change may cost.
pub(crate) const SECONDS: u64 = 60;
/// What this program calls its one test.
const NAME: &str = "torture";

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
    let own = match read(words, NAME, &["--seconds", "--seed", "--judge"])? {
        Wanted::Test(own) => own,
        Wanted::List => return Ok(Wish::List),
        Wanted::Nothing => return Ok(Wish::Nothing),
    };
    let (mut seconds, mut seed, mut judged) = (SECONDS, None, None);
    for (flag, value) in own {
        match flag.as_str() {
            "--seconds" => seconds = number(&flag, &value)?,
            "--seed" => seed = Some(number(&flag, &value)?),
            _ => judged = Some(PathBuf::from(value)),
        }
    }
    Ok(judged.map_or(Wish::Run { seconds, seed }, Wish::Judge))
}
