//! Leases of worktrees: acquired, renewed, used to publish a file, and given back.

use super::fenced::{Published, count_up, published};
use super::{Life, answer, number_in};
use crate::scene::WORKTREES;

const TIMES: u64 = 4;
const LEASE: &str = "900ms";
const LEASE_MS: u64 = 900;
const DWELL_MS: u64 = 1_200;

pub(super) fn lease(life: &mut Life) {
    for time in 0..TIMES {
        if life.is_over() {
            return;
        }
        let worktree = WORKTREES[life.dice.index(WORKTREES.len() - 1)];
        let lock = format!("{}-{worktree}/lease", life.word("ward"));
        let session = life.dir.join(format!("scratch/{}-{time}.session", life.who)).display().to_string();
        let same = ["--worktree", worktree, "--session", &session, "--json"];
        let policy = ["--lease", LEASE, "--renew", "300ms", "--skew", "0s", "--grace", "0s"];
        let timeout = format!("{}ms", 10 + life.dice.below(2_500));
        life.asked(&lock);
        let ended = life.lokt(&[&["lease", "acquire"], &same[..], &policy, &["--timeout", &timeout]].concat());
        let Some(answer) = answer(&ended) else {
            life.gave_up(&lock);
            continue;
        };
        let token = number_in(&answer, "/fencing_token");
        // The boot clock is ahead of the monotonic one by what the machine slept. It doesn't sleep during a run.
        let until_ms = number_in(&answer, "/lock/holder_boottime_ms") + LEASE_MS;
        life.entered(&lock, Some(token), Some(until_ms * 1_000_000));
        let target = life.base.join("worktrees").join(worktree).join("published");
        let before = published(&target);
        life.dwell(DWELL_MS);
        if life.dice.below(2) == 0 {
            life.lokt(&[&["lease", "renew"], &same[..]].concat());
        }
        let owner = format!("w{}-{time}", life.who);
        let of = Published { register: &format!("{}/{worktree}", life.word("ward")), target: &target, before };
        count_up(life, &owner, &["lease", "fence", "publish", "--worktree", worktree], token, &of);
        life.left(&lock);
        life.lokt(&[&["lease", "release"], &same[..]].concat());
        let _ = rustix::fs::unlink(&session);
    }
}
