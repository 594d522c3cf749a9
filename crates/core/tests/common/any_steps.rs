//! Anything that can happen in the simulated world, at random.

use lokt_core::decide::Breaking;
use proptest::prelude::*;

use crate::sim::act::Aim;
use crate::sim::machines::Seat;
use crate::sim::steps::{Outside, Step};
use crate::sim::world::Frost;

pub(crate) fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any_step(), 1..40)
}

fn any_seat() -> impl Strategy<Value = Seat> {
    (0_usize..3, 0_usize..3, prop::bool::weighted(0.2), prop::bool::weighted(0.1))
        .prop_map(|(machine, owner, container, time_ns)| Seat { machine, owner, container, time_ns })
}

fn any_ttl() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![2 => Just(None), 4 => (0_u64..100).prop_map(Some), 1 => (1_u64..1_000_000).prop_map(Some)]
}

fn any_ms() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0_u64..3_000, 3 => 0_u64..120_000, 1 => 0_u64..4_000_000, 1 => (0_u64..200).prop_map(|s| s * 1000)]
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.15)
}

fn any_step() -> impl Strategy<Value = Step> {
    const HOUR_MS: i64 = 3_600_000;
    let process = 0_usize..12;
    let world = prop_oneof![
        8 => any_ms().prop_map(Step::Pass),
        2 => (0_usize..3, any_ms()).prop_map(|(machine, ms)| Step::Suspend(machine, ms)),
        3 => (0_usize..3, -HOUR_MS..=HOUR_MS).prop_map(|(machine, ms)| Step::SetWall(machine, ms)),
        1 => (0_usize..3).prop_map(Step::Reboot),
        3 => process.clone().prop_map(Step::KillGuard),
        3 => process.clone().prop_map(Step::KillCommand),
        1 => prop::option::of(prop_oneof![Just(Frost::Known), Just(Frost::Unreadable)]).prop_map(Step::Freeze),
        2 => Just(Step::Freeze(None)),
        2 => (any_seat(), 0_usize..8, 0_u64..12).prop_map(|(seat, number, any)| Step::Check { seat, number, any }),
        2 => (0_usize..2).prop_map(Step::Line),
        4 => any_outside().prop_map(Step::Outside),
    ];
    let breaking = prop_oneof![4 => Just(Breaking::No), 2 => Just(Breaking::Stale), 1 => Just(Breaking::Force)];
    let aim = prop_oneof![
        4 => Just(Aim::Any), 1 => Just(Aim::Id), 1 => Just(Aim::WrongId), 1 => Just(Aim::Token), 1 => Just(Aim::OldToken)
    ];
    let taking = prop_oneof![
        5 => (any_seat(), any_ttl(), rarely()).prop_map(|(seat, ttl_sec, misfit)| Step::Lock { seat, ttl_sec, misfit }),
        6 => (any_seat(), any_ttl(), any::<bool>(), rarely())
            .prop_map(|(seat, ttl_sec, keeps_pulse, misfit)| Step::Guard { seat, ttl_sec, keeps_pulse, misfit }),
        1 => (any_seat(), any_ttl(), rarely()).prop_map(|(seat, ttl_sec, misfit)| Step::Bind { seat, ttl_sec, misfit }),
        1 => any_ttl().prop_map(Step::BindAgain),
        1 => any_seat().prop_map(Step::Nest),
    ];
    let ending = prop_oneof![
        4 => process.clone().prop_map(Step::Renew),
        3 => process.prop_map(Step::Release),
        3 => (any_seat(), breaking, aim, rarely())
            .prop_map(|(seat, breaking, aim, misfit)| Step::Unlock { seat, breaking, aim, misfit }),
        1 => (any_seat(), 0_usize..3, rarely()).prop_map(|(seat, owner, misfit)| Step::UnlockFor { seat, owner, misfit }),
        1 => (any_seat(), rarely()).prop_map(|(seat, misfit)| Step::Prune { seat, misfit }),
    ];
    prop_oneof![3 => world, 4 => taking, 3 => ending]
}

fn any_outside() -> impl Strategy<Value = Outside> {
    prop_oneof![
        4 => (0_usize..3, prop_oneof![2 => -100_000_i64..400_000, 1 => -2_i64..=2]).prop_map(|(machine, ms)| Outside::MoveEnd(machine, ms)),
        1 => Just(Outside::DropEnd),
        1 => Just(Outside::DropExpiresAt),
        3 => any::<u8>().prop_map(Outside::AddMember),
        2 => Just(Outside::OldRefresh),
        2 => (0_usize..3, any_ttl()).prop_map(|(owner, ttl_sec)| Outside::OldGuard { owner, ttl_sec }),
        1 => Just(Outside::Delete),
        1 => Just(Outside::Corrupt),
        1 => Just(Outside::Newer),
        1 => Just(Outside::Empty),
    ]
}
