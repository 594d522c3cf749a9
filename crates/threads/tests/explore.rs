//! Running something in very many orders, and one of them again.

use std::io::Write as _;

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

use crate::tally::{self, Trial};

/// Orders that are drawn by lot.
const SCHEDULES: usize = 10_000;
/// Orders in which a planted flaw is looked for. Only one in some thousand shows it, so that
/// [`SCHEDULES`] miss it in about one run of two hundred.
const HUNTED: usize = 20 * SCHEDULES;
/// Orders in which one thread goes on for as long as it can, and which one changes only a few times.
const LONG_TURNS: usize = 3_000;
/// How often it changes in those.
const TURNS: usize = 3;
/// A run that takes more steps than this doesn't end.
const STEPS_MAX: usize = 50_000;
/// Where all orders are tried there must be fewer than this.
const ORDERS_MAX: usize = 200_000;
/// The library's records are parsed with buffers on the stack.
const STACK_BYTES: usize = 256 << 10;

/// Holds a schedule that shuttle printed: only that one is run.
const REPLAY: &str = "LOKT_SCHEDULE";

/// Runs `body` in 13,000 orders.
pub(crate) fn explore(sentence: &str, body: fn()) {
    if replay(body) {
        return;
    }
    let random = run(RandomScheduler::new(SCHEDULES), body);
    let long_turns = run(PctScheduler::new(TURNS, LONG_TURNS), body);
    tell(&format!("{sentence}: {random} random schedules, {long_turns} of long turns"));
}

/// Runs `body`, which has a flaw, until an order shows it, in at most [`HUNTED`] orders.
pub(crate) fn explore_until_found(sentence: &str, body: fn()) {
    if replay(body) {
        return;
    }
    let random = run(RandomScheduler::new(HUNTED), body);
    tell(&format!("{sentence}: not in {random} random schedules"));
}

/// Runs `body` in every order there is.
pub(crate) fn explore_all(sentence: &str, body: fn()) {
    if replay(body) {
        return;
    }
    let orders = run(DfsScheduler::new(Some(ORDERS_MAX), false), body);
    assert!(orders < ORDERS_MAX, "all orders were tried, not only {orders} of them");
    tell(&format!("{sentence}: all {orders} schedules"));
}

fn replay(body: fn()) -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "a schedule to run again is handed over by whoever looks for a fault"
    )]
    let Ok(schedule) = std::env::var(REPLAY) else { return false };
    // A long one is printed in several lines.
    let schedule: String = schedule.split_whitespace().collect();
    run(ReplayScheduler::new_from_encoded(&schedule), body);
    true
}

fn run(scheduler: impl Scheduler + 'static, body: fn()) -> usize {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    // The order of memory accesses is not what is tried here: nothing is shared without a mutex.
    config.silence_warnings = true;
    let orders = Runner::new(scheduler, config).run(body);
    tally::add(Trial::Schedule, orders);
    orders
}

/// On the real stderr, which isn't kept back when a test passes.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
