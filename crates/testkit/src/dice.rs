//! Random choices that can be made again: the same seed, the same choices.

use std::ops::RangeInclusive;

/// Numbers from a seed.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    /// A number of the range.
    pub fn among(&mut self, range: &RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// An index into something of that length.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("it is below a length")
    }

    /// Some of the names, in any order.
    pub fn shuffled(&mut self, names: &[&'static str], count: u64) -> Vec<&'static str> {
        let mut left = names.to_vec();
        (0..count.min(left.len() as u64)).map(|_| left.swap_remove(self.index(left.len()))).collect()
    }
}
