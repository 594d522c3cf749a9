//! What the program is told.

use lokt_testkit::storm::new_seed;
use lokt_testkit::words::{Wanted, number, read};

/// A run that CI can afford.
const CUTS: u32 = 10;
/// What filters are compared with.
const NAME: &str = "power_cut";

/// How much is done, and where.
pub(crate) struct Options {
    /// Cuts in all, shared out among the file systems.
    pub(crate) cuts: u32,
    /// The same seed makes the same choices. When processes run is up to the kernel.
    pub(crate) seed: u64,
    /// The file systems.
    pub(crate) kinds: Vec<&'static str>,
}

impl Options {
    /// `None`: something else is wanted than power cuts.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let Wanted::Test(own) = read(words, NAME, &["--cuts", "--seed", "--fs"])? else { return Ok(None) };
        let mut options = Self { cuts: CUTS, seed: new_seed(), kinds: vec!["ext4", "xfs"] };
        for (flag, value) in own {
            match flag.as_str() {
                "--cuts" => options.cuts = number(&flag, &value)?,
                "--seed" => options.seed = number(&flag, &value)?,
                _ => options.kinds.retain(|kind| *kind == value),
            }
            if options.cuts == 0 {
                return Err("--cuts is 1 at least: without a cut nothing is tried".into());
            }
            if options.kinds.is_empty() {
                return Err(format!("--fs is ext4 or xfs, not {value}"));
            }
        }
        Ok(Some(options))
    }
}
