//! Who is killed, and who is stopped for how long. Pure: choices and their times.

use super::dice::Dice;

const MS: u64 = 1_000_000;
/// Between two deeds.
const PAUSE_NS: (u64, u64) = (20 * MS, 200 * MS);
/// Most stops are shorter than a lease, some are longer.
const SHORT_NS: (u64, u64) = (MS, 60 * MS);
const LONG_NS: (u64, u64) = (1_100 * MS, 1_600 * MS);
const LONG_ONCE_IN: u64 = 12;

/// What is done to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blow {
    Kill,
    /// For so many nanoseconds.
    Stop(u64),
}

/// When the next blow falls, after this one.
pub(super) fn pause(dice: &mut Dice) -> u64 {
    dice.between(PAUSE_NS.0, PAUSE_NS.1)
}

/// Whom it hits, of so many, and what it is.
pub(super) fn choose(dice: &mut Dice, procs: usize) -> (usize, Blow) {
    let victim = usize::try_from(dice.below(procs as u64)).unwrap_or(0);
    let blow = match dice.below(2) {
        0 => Blow::Kill,
        _ if dice.once_in(LONG_ONCE_IN) => Blow::Stop(dice.between(LONG_NS.0, LONG_NS.1)),
        _ => Blow::Stop(dice.between(SHORT_NS.0, SHORT_NS.1)),
    };
    (victim, blow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_hit_and_some_stops_outlast_a_lease() {
        let mut dice = Dice::new(1);
        let blows: Vec<(usize, Blow)> = (0..1_000).map(|_| choose(&mut dice, 8)).collect();
        assert!((0..8).all(|victim| blows.contains(&(victim, Blow::Kill))), "each of them is killed at times");
        let long = |blow: &Blow| matches!(blow, Blow::Stop(ns) if *ns > 1_000 * MS);
        assert!(blows.iter().any(|(_, blow)| long(blow)), "a lease of a second ends meanwhile");
    }
}
