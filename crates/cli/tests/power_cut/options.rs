//! What the program is told. Flags of libtest that it doesn't know are passed over: `cargo test` gives them to every program alike.

use lokt_testkit::storm::new_seed;

/// A run that CI can afford.
const CUTS: u32 = 10;

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
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { cuts: CUTS, seed: new_seed(), kinds: vec!["ext4", "xfs"] };
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--cuts" => options.cuts = number(&value()?)?,
                "--seed" => options.seed = number(&value()?)?,
                "--fs" => {
                    let wanted = value()?;
                    options.kinds.retain(|kind| *kind == wanted);
                    if options.kinds.is_empty() {
                        return Err(format!("--fs is ext4 or xfs, not {wanted}"));
                    }
                }
                _ => {}
            }
        }
        Ok(options)
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}
