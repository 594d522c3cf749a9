//! Killed at each call that changes something.

use std::sync::atomic::{AtomicUsize, Ordering};

use lokt_testkit::strace::{Call, changes, killed_at};
use lokt_testkit::swarm::in_parallel;
use lokt_testkit::tenancy::{LONG, as_words};

use crate::say;
use crate::scene::{Isolation, Scene, tree};

/// Long enough for the command, short enough to wait for its end.
const SECONDS: &str = "--lease 2s --renew 500ms --skew 0s --grace 0s";

/// Gives whether the new tree is there.
fn is_killed_at(isolation: Isolation, call: &Call) -> bool {
    let context = format!("{isolation:?}, killed at {}#{}", call.name, call.nth);
    let scene = Scene::new(isolation, SECONDS);
    let killed = killed_at(&scene.tenancy.place, "a", &as_words(&scene.args("")), call);
    // It may be that it was done and told before; or that the lease was over before it began.
    assert!(killed.code.is_none_or(|code| [0, 5, 137].contains(&code)), "{context}: {killed:?}");
    let found = tree(&scene.place());
    // Around a lock root it takes several steps, which the next command finishes.
    let is_one = [&scene.old, &scene.new].contains(&&found) || isolation == Isolation::Rooted;
    assert!(is_one, "{context}: never a mixture: {found:?}");
    scene.roots_stay(&context);
    let is_new = match isolation {
        Isolation::Exclusive | Isolation::Rooted => {
            scene.acquire("next", &format!("{LONG} --timeout 60s"));
            let is_new = scene.is_whole(&context);
            scene.tenancy.says("next", "lease release --worktree w", 0);
            is_new
        }
        Isolation::Shared => {
            // Nobody needs a lease there. Whoever saves what is there saves one of the two.
            scene.tenancy.says("next", "snapshot create --worktree w", 0);
            scene.tenancy.says("next", "snapshot diff latest --exit-code --worktree w", 0);
            scene.has_one_tree(&context)
        }
    };
    assert!(is_new || killed.code != Some(0), "{context}: what was said to be done is done");
    scene.can_be_tidied(&context);
    is_new
}

fn is_killed_everywhere(isolation: Isolation) {
    let calls: Vec<Call> = Scene::calls(isolation, "").into_iter().filter(changes).map(|(call, _)| call).collect();
    let (count, done) = (calls.len(), AtomicUsize::new(0));
    in_parallel(8, calls, |call| {
        done.fetch_add(usize::from(is_killed_at(isolation, &call)), Ordering::Relaxed);
    });
    let done = done.into_inner();
    say(&format!("{isolation:?}: killed at {count} calls, {done} times the new tree was there"));
    assert!(done > 3 && done < count, "killed before and after the decision: {done} of {count}");
}

#[test]
fn killed_anywhere_it_leaves_the_old_tree_or_the_new_one() {
    lokt_testkit::need!("strace");
    is_killed_everywhere(Isolation::Exclusive);
}

#[test]
fn killed_anywhere_around_a_lock_root_it_leaves_the_old_tree_or_the_new_one_to_the_next_holder() {
    lokt_testkit::need!("strace");
    is_killed_everywhere(Isolation::Rooted);
}

#[test]
fn killed_anywhere_in_a_shared_worktree_it_leaves_the_old_tree_or_the_new_one() {
    lokt_testkit::need!("strace");
    is_killed_everywhere(Isolation::Shared);
}
