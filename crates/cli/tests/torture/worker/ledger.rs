//! Appends: plain, under a key that is repeated until it is acknowledged, and several at once.

use lokt_torture::history::Deed;

use super::{Life, answer, number_in};

const TIMES: u64 = 8;
/// A key is repeated so often when the answer isn't known.
const REPEATS: usize = 3;
/// So many are appended together.
const TOGETHER: u64 = 3;

/// The event that has this text.
pub(super) fn event(key: &str) -> String {
    format!(r#"{{"type":"note","text":"{key}"}}"#)
}

/// Says that an append was acknowledged.
pub(super) fn acknowledged(life: &Life, key: &str, number: u64) {
    life.write(Deed::Appended { ledger: life.word("ward").into(), key: key.into(), number });
}

/// Says that it begins.
pub(super) fn appending(life: &Life, key: &str) {
    life.write(Deed::Appending { ledger: life.word("ward").into(), key: key.into() });
}

pub(super) fn append(life: &mut Life) {
    for time in 0..TIMES {
        if life.is_over() {
            return;
        }
        let key = format!("w{}-{time}", life.who);
        match life.dice.below(6) {
            0 => together(life, &key),
            1..3 => once(life, &key),
            _ => {
                appending(life, &key);
                let ended = life.lokt(&["ledger", "append", &event(&key), "--json"]);
                if let Some(number) = answer(&ended).map(|answer| number_in(&answer, "/seq")) {
                    acknowledged(life, &key, number);
                }
            }
        }
        life.dwell(100);
    }
}

/// Whoever doesn't know what came of it asks again under the same key.
fn once(life: &mut Life, key: &str) {
    for _ in 0..REPEATS {
        appending(life, key);
        let ended = life.lokt(&["ledger", "append", &event(key), "--id", key, "--json"]);
        if let Some(number) = answer(&ended).map(|answer| number_in(&answer, "/seq")) {
            acknowledged(life, key, number);
            return;
        }
    }
}

fn together(life: &mut Life, key: &str) {
    let keys: Vec<String> = (0..TOGETHER).map(|part| format!("{key}-{part}")).collect();
    let lines: String = keys.iter().map(|key| event(key) + "\n").collect();
    let file = life.scratch("events", &lines);
    for key in &keys {
        appending(life, key);
    }
    let ended = life.lokt(&["ledger", "append", "--file", &file, "--json"]);
    if let Some(answer) = answer(&ended) {
        for (number, key) in (number_in(&answer, "/first")..).zip(&keys) {
            acknowledged(life, key, number);
        }
    }
    let _ = rustix::fs::unlink(&file);
}
