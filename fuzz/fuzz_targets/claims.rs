//! Any bytes as a history of claims: owners take, extend, release and reap nodes, clocks step, machines start again, other programs write
//! events. Every answer is held against what was promised, by the books that the random tests keep too.
#![cfg_attr(fuzzing, no_main)]

#[expect(dead_code, reason = "the tables of the tests use more of it")]
#[path = "../../crates/core/tests/claims/book.rs"]
mod book;
#[path = "../../crates/core/tests/claims/play.rs"]
mod play;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use play::{Act, Play};

/// Longer histories find nothing that shorter ones don't, and take longer.
const ACTS_MAX: usize = 80;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let mut play = Play::new(input.arbitrary().unwrap_or_default());
    for _ in 0..ACTS_MAX {
        if input.is_empty() {
            break;
        }
        let Ok(act) = act(&mut input) else { break };
        play.act(&act);
    }
    play.end();
});

fn act(input: &mut Unstructured<'_>) -> Result<Act> {
    let kind = input.int_in_range(0_u8..=9)?;
    // One byte, so that a changed byte changes one thing.
    let who: u8 = input.arbitrary()?;
    let (owner, node, with_token) = (usize::from(who & 3) % 3, usize::from(who >> 2 & 3) % 3, who & 16 != 0);
    Ok(match kind {
        0 | 1 => Act::Take { owner, node },
        2 => Act::TakeAny { owner },
        3 => Act::Extend { owner, node, with_token },
        4 => Act::Release { owner, node, with_token },
        5 => Act::Reap { owner },
        6 | 7 => Act::Pass { ms: *input.choose(&[1, 999, 30_000, 59_999, 60_000, 60_001, 70_000])? },
        8 if who & 128 != 0 => Act::Reboot,
        8 => Act::SetWall { ms: input.int_in_range(-100_000_i64..=100_000)? },
        _ => Act::Foreign { owner, node },
    })
}
