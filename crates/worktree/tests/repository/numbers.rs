//! No token is given twice, neither under a name nor for the same files: whatever is removed, made again or renamed.

use std::fs;

use lokt_core::lease::config::Isolation;
use lokt_worktree::repo::Repository;

use crate::place::{Place, done, name, release, take, worktree};

fn create(repo: &Repository, text: &str) {
    done(repo.create(&name(text), Isolation::Exclusive).expect("it can be made").value);
}

fn remove(repo: &Repository, text: &str) {
    done(repo.remove(&name(text), false).expect("it can be removed").value);
}

fn rename(repo: &Repository, old: &str, new: &str) {
    done(repo.rename(&name(old), &name(new)).expect("it can be renamed").value);
}

/// Takes the lease and gives it back, so often: the last token.
fn use_up(repo: &Repository, text: &str, times: u128) -> u64 {
    let mut last = 0;
    for number in 1..=times {
        last = take(&worktree(repo, text), number);
        release(&worktree(repo, text), number);
    }
    last
}

/// All chains go; what is kept elsewhere stays.
fn delete_chains(repo: &Repository) {
    let locks = repo.top().join(".jvs/locks");
    fs::remove_dir_all(&locks).and_then(|()| fs::create_dir(&locks)).expect("it is there");
}

/// Blocks of numbers: its chain is deleted and born again.
fn use_up_blocks(repo: &Repository, text: &str, blocks: usize) -> u64 {
    let mut last = 0;
    for _ in 0..blocks {
        last = use_up(repo, text, 1);
        delete_chains(repo);
    }
    last.max(use_up(repo, text, 1))
}

#[test]
fn a_worktree_that_was_made_again_takes_its_numbers_to_the_name_of_a_removed_one() {
    let (_place, repo) = Place::in_memory();
    create(&repo, "v");
    remove(&repo, "v");
    create(&repo, "w");
    use_up(&repo, "w", 8);
    remove(&repo, "w");
    create(&repo, "w");
    let last = use_up(&repo, "w", 1);
    rename(&repo, "w", "v");
    let next = use_up(&repo, "v", 1);
    assert!(next > last, "the files know {last}: {next}");
}

#[test]
fn a_worktree_that_went_on_with_anothers_numbers_takes_them_along() {
    let (_place, repo) = Place::in_memory();
    create(&repo, "high");
    let high = use_up_blocks(&repo, "high", 3);
    remove(&repo, "high");
    create(&repo, "low");
    rename(&repo, "low", "high");
    let last = use_up(&repo, "high", 1);
    assert!(last > high, "the name goes on: {last} after {high}");
    rename(&repo, "high", "third");
    let next = use_up(&repo, "third", 1);
    assert!(next > last, "the files know {last}: {next}");
    remove(&repo, "third");
    delete_chains(&repo);
    create(&repo, "third");
    let again = use_up(&repo, "third", 1);
    assert!(again > next, "the name knows {next}: {again}");
}

#[test]
fn the_beginning_of_a_chain_that_comes_far_too_late_brings_no_old_numbers_back() {
    let (place, repo) = Place::in_memory();
    let (chain, other) = (place.at(".jvs/locks/w.lock.d"), place.at(".jvs/locks/x.lock.d"));
    create(&repo, "w");
    let base = fs::read(chain.join("base")).expect("it is there");
    let high = use_up_blocks(&repo, "w", 3);
    remove(&repo, "w");
    create(&repo, "x");
    use_up_blocks(&repo, "x", 3);
    remove(&repo, "x");
    delete_chains(&repo);
    // Whoever was about to write it was stopped all the time.
    for chain in [chain, other] {
        fs::create_dir(&chain).and_then(|()| fs::write(chain.join("base"), &base)).expect("it is gone");
    }
    create(&repo, "w");
    let next = use_up(&repo, "w", 1);
    assert!(next > high, "the name knows {high}: {next}");
    create(&repo, "y");
    rename(&repo, "y", "x");
    let next = use_up(&repo, "x", 1);
    assert!(next > high, "the name knows {high}: {next}");
}
