//! Stopped after each call, while another takes the lease away.

use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use lokt_testkit::strace::{Call, stopped_after};
use lokt_testkit::swarm::{in_parallel, put};
use lokt_testkit::tenancy::{LONG, answer, as_words};

use crate::say;
use crate::scene::{Isolation, Scene, tree};

/// Nothing but the token is in its way.
const FORCE: &str = "--force";

/// Gives whether it was stopped before it was decided.
fn is_stopped_after(isolation: Isolation, call: &Call) -> bool {
    let context = format!("stopped after {}#{}", call.name, call.nth);
    let scene = Scene::new(isolation, LONG);
    let stopped = stopped_after(&scene.tenancy.place, "a", &as_words(&scene.args(FORCE)), call);
    let stopped = stopped.unwrap_or_else(|| panic!("{context}: it is met there"));
    scene.tenancy.says("b", "lease break --force --reason test --worktree w", 0);
    let thief = scene.acquire("b", LONG);
    assert!(Some(thief) > scene.token, "token-order: {context}");
    let is_new = scene.is_whole(&format!("{context}, the thief has it"));
    put(&scene.place().join("thief"), "mine");
    let inode = || std::fs::metadata(scene.place()).map(|meta| meta.ino()).ok();
    let (head, directory, files) = (scene.head(), inode(), tree(&scene.place()));
    let ended = stopped.goes_on();
    let code = ended.code;
    assert!(code.is_some_and(|code| [0, 4, 5, 6].contains(&code)), "{context}: it ends: {ended:?}");
    assert_eq!(inode(), directory, "{context}: nothing is swapped after the lease was lost: {ended:?}");
    assert_eq!(tree(&scene.place()), files, "{context}: the thief's files are as they were: {ended:?}");
    assert_eq!(scene.head(), head, "{context}: and it is at the same snapshot: {ended:?}");
    assert_eq!(code == Some(0), is_new, "{context}: it says what happened: {ended:?}");
    if !is_new {
        let code = answer(&ended)["code"].clone();
        assert_eq!(code, "E_FENCING_MISMATCH", "{context}: it says why: {ended:?}");
    }
    scene.tenancy.says("b", "lease renew --worktree w", 0);
    scene.can_be_tidied(&context);
    assert_eq!(tree(&scene.place()), files, "{context}: tidying touches nothing");
    !is_new
}

#[test]
fn whoever_was_stopped_swaps_nothing_under_the_thief() {
    lokt_testkit::need!("strace");
    is_stopped_everywhere(Isolation::Exclusive);
}

#[test]
fn whoever_was_stopped_around_a_lock_root_moves_nothing_under_the_thief() {
    lokt_testkit::need!("strace");
    is_stopped_everywhere(Isolation::Rooted);
}

fn is_stopped_everywhere(isolation: Isolation) {
    let all = Scene::calls(isolation, FORCE);
    let from = all.iter().position(|(_, line)| line.contains("restores")).expect("it makes a tree there");
    let passing = ["fcntl", "fstat", "close", "read", "getrandom", "rt_sigprocmask", "ioctl", "prctl", "lseek"];
    let matters = |call: &Call| !passing.contains(&call.name.as_str());
    let calls: Vec<Call> = all[from..].iter().map(|(call, _)| call.clone()).filter(matters).collect();
    let (count, refused) = (calls.len(), AtomicUsize::new(0));
    in_parallel(8, calls, |call| {
        refused.fetch_add(usize::from(is_stopped_after(isolation, &call)), Ordering::Relaxed);
    });
    let refused = refused.into_inner();
    say(&format!("{refused} of {count} were refused"));
    assert!(refused > 10 && refused < count, "stopped before and after the decision: {refused} of {count}");
}
