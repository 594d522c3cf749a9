//! Claims over random histories: the fold against the documented one, written down once more, and the promises of what we decide.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lokt_core::ledger::claims::{End, Table};
use lokt_core::ledger::seq::{Seq, Style};
use lokt_core::ledger::stored::Stored;
use lokt_core::time::parse_wall;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::book::Book;
use crate::tally;

const OWNERS: [&str; 3] = ["a", "b", "c"];
const NODES: [&str; 3] = ["1", "1.1", "1.2"];

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

fn time(second: u32) -> String {
    format!("2026-11-16T00:{:02}:{:02}Z", second / 60, second % 60)
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

/// What somebody does.
#[derive(Debug, Clone)]
enum Act {
    Take {
        owner: usize,
        node: usize,
    },
    TakeAny {
        owner: usize,
    },
    Extend {
        owner: usize,
        node: usize,
        with_token: bool,
    },
    Release {
        owner: usize,
        node: usize,
        with_token: bool,
    },
    Reap {
        owner: usize,
    },
    Pass {
        ms: u64,
    },
    SetWall {
        ms: i64,
    },
    Reboot,
    /// Another program claims a node that is free, or releases one, by its own rules.
    Foreign {
        owner: usize,
        node: usize,
    },
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

/// What was promised to whom, kept apart from what is stored.
#[derive(Default)]
struct Promises {
    /// Node to owner, token and the last moment of the boot clock, while that boot lasts.
    held: BTreeMap<String, (usize, Seq, u64)>,
    newest: u64,
}

/// Plays acts on a book. Whatever is written passes the proof in every prefix: the book sees to that.
struct Play {
    book: Book,
    promises: Promises,
    ms: u64,
    boots: u32,
}

impl Play {
    fn act(&mut self, act: &Act) {
        match *act {
            Act::Take { owner, node } => self.take(owner, &[NODES[node]]),
            Act::TakeAny { owner } => self.take(owner, &NODES),
            Act::Extend { owner, node, with_token } => {
                let token = self.token(owner, NODES[node], with_token);
                let extended = self.book.extend(OWNERS[owner], NODES[node], token);
                self.is_owners(owner, NODES[node], extended.is_ok(), "extended");
                if let (Ok(_), Some(promise)) = (extended, self.promises.held.get_mut(NODES[node])) {
                    promise.2 = self.ms + 60_000;
                }
            }
            Act::Release { owner, node, with_token } => {
                let token = self.token(owner, NODES[node], with_token);
                let ended = self.book.release(OWNERS[owner], NODES[node], token);
                self.is_owners(owner, NODES[node], ended.is_ok(), "released");
                if ended.is_ok() {
                    self.promises.held.remove(NODES[node]);
                }
            }
            Act::Reap { owner } => {
                for (node, ..) in self.book.reap(OWNERS[owner]).claims {
                    self.is_over(&node, "reaped");
                    self.promises.held.remove(&node);
                }
                let before = self.book.head;
                assert!(self.book.reap(OWNERS[owner]).drafts.is_empty(), "what was reaped is not reaped again");
                assert_eq!(self.book.head, before);
            }
            Act::Pass { ms } => {
                self.ms += ms;
                self.book.pass(ms);
            }
            Act::SetWall { ms } => self.book.wall_shift_ms = ms,
            Act::Reboot => {
                self.boots += 1;
                self.book.boot = format!("boot-{}", self.boots);
                // From now on the wall clock decides, and that was set at will: nothing is promised any more.
                self.promises.held.clear();
            }
            Act::Foreign { owner, node } => self.foreign(owner, NODES[node]),
        }
    }

    fn take(&mut self, owner: usize, nodes: &[&str]) {
        let Ok(taken) = self.book.take_any(OWNERS[owner], nodes) else { return };
        let claim = self.book.table.claim(&taken.node).expect("it was just taken").clone();
        assert_eq!(claim.owner, OWNERS[owner], "who takes a node has it");
        if let Some(token) = taken.token {
            assert_eq!(claim.token, token, "a refresh keeps the token");
            self.is_owners(owner, &taken.node, true, "refreshed");
        } else {
            self.is_over(&taken.node, "taken");
            assert_eq!(claim.token.get(), self.book.head, "a new claim's token is the number of its event");
            assert!(claim.token.get() > self.promises.newest, "token-order: {} is not new", claim.token);
            self.promises.newest = claim.token.get();
        }
        self.promises.held.insert(taken.node, (owner, claim.token, self.ms + 60_000));
    }

    fn token(&self, owner: usize, node: &str, with_token: bool) -> Option<Seq> {
        let promise = self.promises.held.get(node).filter(|promise| with_token && promise.0 == owner)?;
        Some(promise.1)
    }

    /// Nobody may be promised this node any more.
    fn is_over(&self, node: &str, what: &str) {
        if let Some((owner, token, until)) = self.promises.held.get(node) {
            let owner = OWNERS[*owner];
            assert!(self.ms > *until, "one-holder: {node} was {what}, but is {owner}'s until {until} (token {token})");
        }
    }

    /// If it was done, it was its owner's to do, and in time.
    fn is_owners(&self, owner: usize, node: &str, done: bool, what: &str) {
        if let (true, Some((holder, _, until))) = (done, self.promises.held.get(node)) {
            assert!(*holder == owner, "{node} was {what} by {}, but is {}'s", OWNERS[owner], OWNERS[*holder]);
            assert!(self.ms <= *until, "{node} was {what} after its end");
        }
    }

    fn foreign(&mut self, owner: usize, node: &str) {
        let owner = OWNERS[owner];
        let is_native = self.book.proof.is_some();
        let json = match (self.book.table.claim(node).is_some(), is_native) {
            (true, true) => json!({"type":"nodes_released","timestamp":time(0),"node_ids":[node]}),
            (true, false) => json!({"type":"lock_released","timestamp":time(0),"node_id":node,"owner":owner}),
            (false, true) => {
                json!({"type":"nodes_claimed","timestamp":time(0),"node_ids":[node],"owner":owner,"timeout":time(90)})
            }
            (false, false) => {
                json!({"type":"lock_acquired","timestamp":time(0),"node_id":node,"owner":owner,"expires_at":time(90)})
            }
        };
        self.book.write(&json.to_string());
        // Others may do as they like; what they touched was promised by nobody.
        self.promises.held.remove(node);
        self.promises.newest = self.book.head;
    }
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
        let book = if native { Book::with_nodes(&NODES) } else { Book::new(Style::Documented) };
        let mut play = Play { book, promises: Promises::default(), ms: 0, boots: 0 };
        for act in &acts {
            play.act(act);
        }
        prop_assert!(
            !play.book.remarks.iter().any(lokt_core::ledger::claims::Remark::is_damage),
            "what we write can be understood"
        );
    }
}
