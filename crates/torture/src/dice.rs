//! Random choices that can be made again: the same seed, the same choices.

/// A generator of small numbers, good enough to choose by (splitmix64).
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// One of `0..limit`.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.any() % limit.max(1)
    }

    /// One of `from..to`.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from))
    }

    /// Once in so many times.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_choices_and_another_makes_others() {
        let choices = |seed| {
            let mut dice = Dice::new(seed);
            (0..100).map(|_| dice.between(10, 20)).collect::<Vec<u64>>()
        };
        assert_eq!(choices(7), choices(7));
        assert_ne!(choices(7), choices(8));
        assert!((10..20).all(|number| choices(7).contains(&number)), "each is chosen at times: {:?}", choices(7));
    }
}
