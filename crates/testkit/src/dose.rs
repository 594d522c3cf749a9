//! How much of a long table a test goes through: every pair in `scripts/test --full` and in CI, one in seven when a
//! contributor runs the tests.

use std::env;
use std::sync::OnceLock;

/// Set by `scripts/test --full`.
const FULL: &str = "LOKT_TEST_FULL";
/// One pair of this many is a dose. It is odd, so that both formats of an answer stay in it where they alternate.
const ONE_IN: usize = 7;

/// Reports whether this run goes through the pair with this number. Numbers that begin with another one in each row
/// of a table reach all of its columns.
pub fn is_due(number: usize) -> bool {
    static IS_FULL: OnceLock<bool> = OnceLock::new();
    *IS_FULL.get_or_init(is_full) || number.is_multiple_of(ONE_IN)
}

#[expect(clippy::disallowed_methods, reason = "the tests' own variables, which no command reads")]
fn is_full() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|word| !word.is_empty() && word != "false");
    is_set(FULL) || is_set("CI")
}
