//! The links that the log is about, of all worktrees, including removed ones. Read as they are: who
//! holds what is decided elsewhere.

use lokt_core::lease::names::File;
use lokt_core::lease::record::RECORD_BYTES_MAX;
use lokt_core::lease::slot::{Base, Slot};

use super::log::is_this_boot;
use crate::repo::Repository;
use lokt_sys::disk::Entry;

const LOCKS: &str = "locks";
const CHAIN_SUFFIX: &str = ".lock.d";

/// Returns the directories of all chains.
pub(super) fn all(repo: &Repository) -> Vec<String> {
    let names = repo.disk.list(LOCKS).unwrap_or_default();
    names.iter().filter(|name| name.ends_with(CHAIN_SUFFIX)).map(|name| format!("{LOCKS}/{name}")).collect()
}

/// Returns the readable links of a chain, lowest first.
pub(super) fn links(repo: &Repository, dir: &str) -> Vec<Slot> {
    let (Some(base), numbers) = (base(repo, dir), numbers(repo, dir)) else { return Vec::new() };
    numbers.into_iter().filter_map(|number| link(repo, dir, number, &base)).collect()
}

/// Returns the last readable link of a chain.
pub(super) fn newest(repo: &Repository, dir: &str) -> Option<Slot> {
    let (base, numbers) = (base(repo, dir)?, numbers(repo, dir));
    numbers.into_iter().rev().find_map(|number| link(repo, dir, number, &base))
}

/// Returns the last links of all chains, with the names of their worktrees.
pub(super) fn newest_of_all(repo: &Repository) -> Vec<(String, Slot)> {
    let named = |dir: String| {
        let name =
            dir.strip_prefix("locks/").and_then(|name| name.strip_suffix(CHAIN_SUFFIX)).map(ToOwned::to_owned)?;
        Some((name, newest(repo, &dir)?))
    };
    all(repo).into_iter().filter_map(named).collect()
}

/// Reports whether the log was seen as the anchor of this link says since this machine started.
/// Then all of that has been there since.
pub(super) fn is_of_this_boot(repo: &Repository, slot: &Slot) -> bool {
    slot.anchor.boot_id.as_deref().is_some_and(|boot_id| is_this_boot(repo, boot_id))
}

/// Returns a worktree whose last link knows that the log has had lines since this machine started.
pub(super) fn knows_lines<'l>(repo: &Repository, newest: &'l [(String, Slot)]) -> Option<&'l (String, Slot)> {
    newest.iter().find(|(_, slot)| slot.anchor.count > 0 && is_of_this_boot(repo, slot))
}

fn numbers(repo: &Repository, dir: &str) -> Vec<u64> {
    let names = repo.disk.list(dir).unwrap_or_default();
    let number = |name: &String| match File::parse(name) {
        File::Slot(number) => Some(number),
        _ => None,
    };
    // The names have equal lengths and are sorted.
    names.iter().filter_map(number).collect()
}

fn base(repo: &Repository, dir: &str) -> Option<Base> {
    Base::parse(&read(repo, &format!("{dir}/{}", File::Base.name()))?).ok()
}

fn link(repo: &Repository, dir: &str, number: u64, base: &Base) -> Option<Slot> {
    let slot = Slot::parse(&read(repo, &format!("{dir}/{}", File::Slot(number).name()))?).ok()?;
    (slot.chain == base.chain && slot.number == number).then_some(slot)
}

fn read(repo: &Repository, path: &str) -> Option<Vec<u8>> {
    match repo.disk.read(path, RECORD_BYTES_MAX) {
        Ok(Entry::File(content)) => Some(content.bytes),
        _ => None,
    }
}
