//! Claims over random histories: the fold against the documented one, written down once more, and the promises of what we decide.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lokt_core::ledger::claims::{End, Table};
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::Stored;
use lokt_core::time::parse_wall;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::play::{Act, NODES, OWNERS, Play, time};
use crate::tally;

/// What the documentation says about one lock, and which event began it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lock {
    owner: String,
    acquired_at: String,
    expires_at: String,
    began: u64,
}

/// The documented way to reconstruct the state, with the native family beside it. It knows nothing of lokt's types.
fn reconstruct(events: &[Value]) -> BTreeMap<String, Lock> {
    let mut locks: BTreeMap<String, Lock> = BTreeMap::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for (number, event) in (1..).zip(events) {
        let lock = |end: &str| Lock {
            owner: text(&event["owner"]),
            acquired_at: text(&event["timestamp"]),
            expires_at: text(&event[end]),
            began: number,
        };
        let node = text(&event["node_id"]);
        let nodes: Vec<String> = event["node_ids"].as_array().into_iter().flatten().map(text).collect();
        match event["type"].as_str() {
            Some("lock_acquired") => {
                let mut lock = lock("expires_at");
                if let Some(old) = locks.get(&node)
                    && old.owner == lock.owner
                    && event["refresh_of"].as_u64() == Some(old.began)
                {
                    lock.began = old.began;
                }
                locks.insert(node, lock);
            }
            Some("lock_released" | "lock_reaped") => {
                locks.remove(&node);
            }
            Some("nodes_claimed") => locks.extend(nodes.into_iter().map(|node| (node, lock("timeout")))),
            Some("nodes_released") => nodes.iter().for_each(|node| {
                locks.remove(node);
            }),
            Some("claim_refreshed") => {
                let fresh = lock("new_timeout");
                if let Some(old) = locks.get_mut(&node).filter(|old| old.owner == fresh.owner) {
                    *old = Lock { began: old.began, ..fresh };
                }
            }
            _ => {}
        }
    }
    locks
}

/// Any event of either family, and some that are none of claims.
fn any_event() -> impl Strategy<Value = Value> {
    let parts = (0..8_usize, 0..3_usize, 0..3_usize, 0..600_u32, 0..600_u32, prop::option::of(1..12_u64));
    parts.prop_map(|(kind, node, owner, now, end, refresh_of)| {
        let (node, owner, now, end) = (NODES[node], OWNERS[owner], time(now), time(end));
        match kind {
            0 => json!({"type":"lock_acquired","timestamp":now,"node_id":node,"owner":owner,"expires_at":end}),
            1 => json!({"type":"lock_acquired","timestamp":now,"node_id":node,"owner":owner,"expires_at":end,"refresh_of":refresh_of}),
            2 => json!({"type":"lock_released","timestamp":now,"node_id":node,"owner":owner}),
            3 => json!({"type":"lock_reaped","timestamp":now,"node_id":node,"owner":owner}),
            4 => json!({"type":"nodes_claimed","timestamp":now,"node_ids":[node],"owner":owner,"timeout":end}),
            5 => json!({"type":"claim_refreshed","timestamp":now,"node_id":node,"owner":owner,"new_timeout":end}),
            6 => json!({"type":"nodes_released","timestamp":now,"node_ids":[node,"1.9"]}),
            _ => json!({"type":"custom_event","timestamp":now,"node_id":node,"owner":owner}),
        }
    })
}

fn any_act() -> impl Strategy<Value = Act> {
    let owner = 0..OWNERS.len();
    let node = 0..NODES.len();
    prop_oneof![
        4 => (owner.clone(), node.clone()).prop_map(|(owner, node)| Act::Take { owner, node }),
        1 => owner.clone().prop_map(|owner| Act::TakeAny { owner }),
        2 => (owner.clone(), node.clone(), any::<bool>())
            .prop_map(|(owner, node, with_token)| Act::Extend { owner, node, with_token }),
        2 => (owner.clone(), node.clone(), any::<bool>())
            .prop_map(|(owner, node, with_token)| Act::Release { owner, node, with_token }),
        1 => owner.clone().prop_map(|owner| Act::Reap { owner }),
        3 => prop_oneof![Just(1_u64), Just(59_999), Just(60_001), 0..70_000_u64].prop_map(|ms| Act::Pass { ms }),
        1 => (-100_000..100_000_i64).prop_map(|ms| Act::SetWall { ms }),
        1 => Just(Act::Reboot),
        1 => (owner, node).prop_map(|(owner, node)| Act::Foreign { owner, node }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn the_table_is_what_the_documentation_reconstructs(
        events in prop::collection::vec(any_event(), 0..40),
        native in any::<bool>(),
        now in 0..600_u32,
    ) {
        tally::count(tally::Trial::Case);
        let style = if native { Style::Native } else { Style::Documented };
        let mut table = Table::new(style);
        for (number, event) in (1..).zip(&events) {
            let stored = Stored::parse(event.to_string().as_bytes()).expect("an event");
            table.apply(Seq::new(number).expect("not zero"), &stored);
        }
        let expected = reconstruct(&events);
        let found: BTreeMap<String, Lock> = table.iter().map(|(node, claim)| {
            let lock = Lock {
                owner: claim.owner.clone(),
                acquired_at: claim.renewed.expect("all of them have a time").to_string(),
                expires_at: match &claim.end {
                    End::At(end) => end.to_string(),
                    End::Unreadable(text) => panic!("{text} is a time"),
                },
                began: claim.token.get(),
            };
            (node.to_owned(), lock)
        }).collect();
        prop_assert_eq!(&found, &expected);
        // Which of them still count is what the documentation filters by the time.
        let at: Timestamp = parse_wall(&time(now)).expect("a time");
        let clocks = lokt_core::time::Moment { wall: at, monotonic_ms: 0, boottime_ms: 0 };
        for (node, claim) in table.iter() {
            let ends = parse_wall(&expected[node].expires_at).expect("a time");
            // Its last moment is still its owner's, here as in the native program.
            let lives = claim.holder(node, &clocks, &lokt_core::hold::Identity::default()).lives();
            prop_assert_eq!(lives, ends >= at, "{} until {}", node, ends);
        }
        prop_assert_eq!(Table::from_rows(style, table.rows()), Some(table));
    }

    #[test]
    fn what_is_promised_is_kept_in_both_styles(
        acts in prop::collection::vec(any_act(), 0..60),
        native in any::<bool>(),
    ) {
        tally::count(tally::Trial::Case);
        let mut play = Play::new(native);
        for act in &acts {
            play.act(act);
        }
        play.end();
    }
}
