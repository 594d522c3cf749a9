//! Acts on a ledger in memory, held against what was promised. Random histories play it, and whatever a fuzzer finds in
//! `fuzz/fuzz_targets/claims.rs`.

use std::collections::BTreeMap;

use lokt_core::ledger::claims::Remark;
use lokt_core::ledger::seq::{Seq, Style};
use serde_json::json;

use super::book::Book;

pub(crate) const OWNERS: [&str; 3] = ["a", "b", "c"];
pub(crate) const NODES: [&str; 3] = ["1", "1.1", "1.2"];

pub(crate) fn time(second: u32) -> String {
    format!("2026-11-16T00:{:02}:{:02}Z", second / 60, second % 60)
}

/// What somebody does.
#[derive(Debug, Clone)]
pub(crate) enum Act {
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

/// What was promised to whom, kept apart from what is stored.
#[derive(Default)]
struct Promises {
    /// Node to owner, token and the last moment of the boot clock, while that boot lasts.
    held: BTreeMap<String, (usize, Seq, u64)>,
    newest: u64,
}

/// Plays acts on a book. Whatever is written passes the proof in every prefix: the book sees to that.
pub(crate) struct Play {
    book: Book,
    promises: Promises,
    ms: u64,
    boots: u32,
}

impl Play {
    pub(crate) fn new(native: bool) -> Self {
        let book = if native { Book::with_nodes(&NODES) } else { Book::new(Style::Documented) };
        Self { book, promises: Promises::default(), ms: 0, boots: 0 }
    }

    /// Whatever we wrote can be understood.
    pub(crate) fn end(&self) {
        assert!(!self.book.remarks.iter().any(Remark::is_damage), "what we write can be understood");
    }

    pub(crate) fn act(&mut self, act: &Act) {
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
