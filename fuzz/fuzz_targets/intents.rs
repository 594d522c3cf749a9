//! Any bytes as a history: owners, guards and bound processes on several machines act on one name, clocks step and sleep, machines start
//! again, others edit the record. Every answer of `decide` is held against the books of the simulation that the random tests use too.
#![cfg_attr(fuzzing, no_main)]

#[path = "../../crates/core/tests/sim/mod.rs"]
mod sim;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use lokt_core::decide::Breaking;
use sim::act::Aim;
use sim::machines::Seat;
use sim::steps::{Outside, Step};
use sim::world::{Frost, World};

/// Longer histories find nothing that shorter ones don't, and take longer.
const STEPS_MAX: usize = 80;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let mut world = World::new(input.arbitrary().unwrap_or_default());
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            return;
        }
        let Ok(step) = step(&mut input) else { return };
        world.run(&step);
    }
});

fn step(input: &mut Unstructured<'_>) -> Result<Step> {
    const HOUR_MS: i64 = 3_600_000;
    Ok(match input.int_in_range(0_u8..=22)? {
        0 | 1 => Step::Pass(ms(input)?),
        2 => Step::Suspend(machine(input)?, ms(input)?),
        3 => Step::SetWall(machine(input)?, input.int_in_range(-HOUR_MS..=HOUR_MS)?),
        4 => Step::Reboot(machine(input)?),
        5 | 6 => Step::Lock { seat: seat(input)?, ttl_sec: ttl(input)?, misfit: rarely(input)? },
        7 | 8 => Step::Guard {
            seat: seat(input)?,
            ttl_sec: ttl(input)?,
            keeps_pulse: input.arbitrary()?,
            misfit: rarely(input)?,
        },
        9 => Step::Bind { seat: seat(input)?, ttl_sec: ttl(input)?, misfit: rarely(input)? },
        10 => Step::BindAgain(ttl(input)?),
        11 => Step::Nest(seat(input)?),
        12 => Step::Renew(process(input)?),
        13 => Step::Release(process(input)?),
        14 => Step::KillGuard(process(input)?),
        15 => Step::KillCommand(process(input)?),
        16 => Step::Unlock {
            seat: seat(input)?,
            breaking: *input.choose(&[Breaking::No, Breaking::Stale, Breaking::Force])?,
            aim: *input.choose(&[Aim::Any, Aim::Id, Aim::WrongId, Aim::Token, Aim::OldToken])?,
            misfit: rarely(input)?,
        },
        17 => Step::UnlockFor { seat: seat(input)?, owner: owner(input)?, misfit: rarely(input)? },
        18 => Step::Prune { seat: seat(input)?, misfit: rarely(input)? },
        19 => Step::Freeze(*input.choose(&[None, Some(Frost::Known), Some(Frost::Unreadable)])?),
        20 => Step::Check {
            seat: seat(input)?,
            number: input.int_in_range(0_usize..=7)?,
            any: input.int_in_range(0_u64..=11)?,
        },
        21 => Step::Line(input.int_in_range(0_usize..=1)?),
        _ => Step::Outside(outside(input)?),
    })
}

fn outside(input: &mut Unstructured<'_>) -> Result<Outside> {
    Ok(match input.int_in_range(0_u8..=9)? {
        0 => Outside::MoveEnd(machine(input)?, input.int_in_range(-100_000_i64..=400_000)?),
        1 => Outside::DropEnd,
        2 => Outside::DropExpiresAt,
        3 => Outside::AddMember(input.arbitrary()?),
        4 => Outside::OldRefresh,
        5 => Outside::OldGuard { owner: owner(input)?, ttl_sec: ttl(input)? },
        6 => Outside::Delete,
        7 => Outside::Corrupt,
        8 => Outside::Newer,
        _ => Outside::Empty,
    })
}

/// One byte, so that a changed byte changes one thing.
fn seat(input: &mut Unstructured<'_>) -> Result<Seat> {
    let byte: u8 = input.arbitrary()?;
    let (machine, owner) = (usize::from(byte & 3) % 3, usize::from(byte >> 2 & 3) % 3);
    Ok(Seat { machine, owner, container: byte >> 4 & 3 == 3, time_ns: byte >> 6 == 3 })
}

fn ttl(input: &mut Unstructured<'_>) -> Result<Option<u64>> {
    Ok(match input.arbitrary::<u8>()? {
        byte @ 0..=99 => Some(u64::from(byte)),
        byte @ 100..=179 => Some(u64::from(byte) * 5_000),
        _ => None,
    })
}

/// Whole seconds and single milliseconds: ends are met exactly, and missed by little.
fn ms(input: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match input.arbitrary::<u8>()? {
        byte @ 0..=3 => u64::from(byte),
        byte @ 4..=199 => u64::from(byte) * 1000,
        byte => u64::from(byte - 199) * 70_001,
    })
}

fn machine(input: &mut Unstructured<'_>) -> Result<usize> {
    input.int_in_range(0..=2)
}

fn owner(input: &mut Unstructured<'_>) -> Result<usize> {
    input.int_in_range(0..=2)
}

fn process(input: &mut Unstructured<'_>) -> Result<usize> {
    input.int_in_range(0..=11)
}

fn rarely(input: &mut Unstructured<'_>) -> Result<bool> {
    Ok(input.arbitrary::<u8>()? >= 220)
}
