//! Claims of nodes: taken for seconds, used for an append under their token, and given back.

use super::ledger::{acknowledged, appending, event};
use super::{Life, answer, number_in};
use crate::scene::NODES;

const TIMES: u64 = 5;
const TTL: &str = "2s";
const TTL_NS: u64 = 2_000_000_000;
/// Some come back when it is over.
const DWELL_MS: u64 = 2_600;

pub(super) fn claim(life: &mut Life) {
    for time in 0..TIMES {
        if life.is_over() {
            return;
        }
        let node = NODES[life.dice.index(NODES.len())];
        let lock = format!("{}-claims/{node}", life.word("ward"));
        // Each time as somebody else: the same owner would refresh what a killed command had got.
        let owner = format!("w{}-{time}", life.who);
        let asked = life.asked(&lock);
        let ended = life.lokt(&["claim", "take", node, "--owner", &owner, "--ttl", TTL, "--json"]);
        let Some(token) = answer(&ended).map(|answer| number_in(&answer, "/token")) else {
            life.gave_up(&lock);
            life.dwell(400);
            continue;
        };
        life.entered(&lock, Some(token), Some(asked + TTL_NS));
        life.dwell(DWELL_MS);
        let token = token.to_string();
        let key = format!("c{}-{time}", life.who);
        appending(life, &key);
        let fenced = life.lokt(&["ledger", "append", &event(&key), "--token", &token, "--json"]);
        if let Some(answer) = answer(&fenced) {
            acknowledged(life, &key, number_in(&answer, "/seq"));
        }
        life.left(&lock);
        life.lokt(&["claim", "release", node, "--owner", &owner, "--token", &token]);
    }
}
