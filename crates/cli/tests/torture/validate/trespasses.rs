//! **all-or-nothing**: a token that was given in another root publishes nothing here, whatever its number is.

use std::fs;

use super::Check;
use crate::scene::Scene;
use crate::worker::trespass::{ATTEMPTS, TARGET};

/// The exit code of a stale or foreign token.
const REFUSED: &str = "6";

/// What the attempts of a run show.
pub(crate) fn check(scene: &Scene) -> Vec<Check> {
    let text = fs::read_to_string(scene.dir.join(ATTEMPTS)).unwrap_or_default();
    let target = scene.base("fenced").join(TARGET);
    let mut broken = let_in(&text);
    broken.extend(target.exists().then(|| format!("{} was published", target.display())));
    let planted = let_in(&format!("{text}0 publish r planted\n")).len() == let_in(&text).len() + 1;
    let refused = text.lines().filter(|line| line.split(' ').next() == Some(REFUSED)).count();
    vec![
        Check::new("all-or-nothing: a token of another root opened no fence", broken),
        Check::holds(
            "the judge finds what is planted: a token of another root that was taken",
            planted,
            "it missed it",
        ),
        Check::holds("tokens of another root were refused", refused > 0, "nobody tried").about_the_run(),
    ]
}

fn let_in(attempts: &str) -> Vec<String> {
    attempts
        .lines()
        .filter(|line| line.split(' ').next() == Some("0"))
        .map(|line| format!("it ended with {line}"))
        .collect()
}
