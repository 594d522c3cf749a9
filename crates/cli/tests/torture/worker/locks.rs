//! Named locks: in a program, bound to a process, and of an owner.

use std::time::Duration;

use lokt::Lokt;
use lokt_torture::history::Deed;

use super::section::{lease_end, open, set, value};
use super::{Life, answer, number_in};
use crate::scene::{BRIEF, LASTING, MESSY};

/// How often one life does it.
const TIMES: u64 = 6;
/// Sections of brief leases may outlive them.
const BRIEF_MS: u64 = 1_400;

/// Adds one to the register of a lock that is held.
fn count(life: &mut Life, lock: &str, token: Option<u64>) {
    let register = open(&life.dir, lock);
    let seen = value(&register);
    life.dwell(60);
    set(&register, seen + 1);
    life.write(Deed::Wrote { register: lock.into(), token, seen, made: seen + 1, taken: true });
}

/// As a program that uses the library.
pub(super) fn hold(life: &mut Life) {
    // A full disk has no room for a root.
    let Ok(lokt) = Lokt::open(life.base.join("root")) else { return };
    let lokt = lokt.owner(life.owner());
    for _ in 0..TIMES {
        if life.is_over() {
            return;
        }
        let brief = life.dice.below(3) == 0;
        let name = if brief { BRIEF[life.dice.index(BRIEF.len())] } else { LASTING[life.dice.index(LASTING.len())] };
        let lock = life.lock(name);
        let timeout = Duration::from_millis(life.dice.below(5_000));
        let mut request = lokt.guard(name);
        let ttl_sec = if brief { 1 } else { [0, 30][life.dice.index(2)] };
        if ttl_sec > 0 {
            request = request.ttl(Duration::from_secs(ttl_sec));
        }
        life.asked(&lock);
        let Ok(held) = request.acquire_timeout(timeout) else {
            life.gave_up(&lock);
            continue;
        };
        let token = Some(held.token().get());
        let until = (ttl_sec > 0).then(|| lease_end(&life.base, name, token));
        life.entered(&lock, token, until);
        if brief {
            life.dwell(BRIEF_MS);
        } else {
            count(life, &lock, token);
        }
        life.left(&lock);
        drop(held);
    }
}

/// As a shell script that locks for as long as it lives.
pub(super) fn bind(life: &mut Life) {
    let pid = std::process::id().to_string();
    for _ in 0..TIMES {
        if life.is_over() {
            return;
        }
        let name = LASTING[life.dice.index(LASTING.len())];
        let lock = life.lock(name);
        let timeout = format!("{}ms", 10 + life.dice.below(5_000));
        life.asked(&lock);
        let ended = life.lokt(&["lock", name, "--bind", &pid, "--timeout", &timeout, "--json"]);
        let Some(answer) = answer(&ended) else {
            life.gave_up(&lock);
            if ended.code == Some(2) {
                continue;
            }
            // It may hold the lock without knowing. That ends with its life.
            return;
        };
        let token = Some(number_in(&answer, "/fencing_token"));
        life.entered(&lock, token, None);
        count(life, &lock, token);
        life.left(&lock);
        if life.lokt(&["unlock", name]).code != Some(0) {
            return;
        }
    }
}

/// As somebody who locks for a second, and may come back later than that.
pub(super) fn own(life: &mut Life) {
    own_one_of(life, &BRIEF, true);
}

/// The same, where files are damaged meanwhile.
pub(super) fn own_messy(life: &mut Life) {
    own_one_of(life, &MESSY, false);
}

fn own_one_of(life: &mut Life, names: &[&str], certain: bool) {
    for _ in 0..TIMES {
        if life.is_over() {
            return;
        }
        let name = names[life.dice.index(names.len())];
        let lock = life.lock(name);
        let timeout = format!("{}ms", 10 + life.dice.below(3_000));
        life.asked(&lock);
        let ended = life.lokt(&["lock", name, "--ttl", "1s", "--timeout", &timeout, "--json"]);
        let Some(answer) = answer(&ended) else {
            life.gave_up(&lock);
            continue;
        };
        let token = Some(number_in(&answer, "/fencing_token"));
        // A hold that is refreshed keeps its token: somebody of that name holds it, which is this life, from a command whose answer was lost.
        if answer["refreshed"] == true {
            life.gave_up(&lock);
        } else {
            let until = if certain { lease_end(&life.base, name, token) } else { 0 };
            life.entered(&lock, token, Some(until));
        }
        life.dwell(BRIEF_MS);
        life.left(&lock);
        life.lokt(&["unlock", name]);
    }
}
