//! The ceiling over the numbers of a chain. It is raised, in blocks, before a number is used, and
//! survives the chain: a chain that is born again begins above it.
//!
//! A ceiling is a file that is created exclusively and never replaced: a late process can't bring
//! an old one back.

use crate::repo::Repository;
use lokt_core::name::LockName;
use std::io;
use std::path::Path;

use lokt_core::hold::Fence;
use lokt_core::lease::names::{fence_name, fence_number, kept_fence_number};
use lokt_core::lease::slot::Slot;
use serde_json::{Value, json};

use lokt_sys::disk::Entry;
use lokt_sys::error::{At as _, Error, ErrorKind};

/// Numbers in a block: one sync covers that many grants.
pub(crate) const BLOCK: u64 = 1024;
/// Another tool's number above this isn't followed: ours would run out.
const FOLLOWED_MAX: u64 = Fence::LIMIT / 2;
/// Hint for a ceiling that lokt can't have created.
pub(crate) const FAR_HINT: &str = "nobody takes a lease that often: if nobody knows such a token, remove that file";
/// Maximum size of a descriptor in bytes.
const DESCRIPTOR_BYTES_MAX: usize = 1 << 20;

/// Returns a number of another tool, if ours can continue above it.
pub(crate) fn followed(token: u64) -> Option<u64> {
    (token < FOLLOWED_MAX).then_some(token)
}

/// The ceilings over the numbers of a worktree's chain.
#[derive(Clone, Copy)]
pub(crate) struct Fences<'w> {
    pub(super) repo: &'w Repository,
    pub(super) name: &'w LockName,
}

impl Fences<'_> {
    fn dir(&self) -> String {
        format!("worktrees/{}", self.name)
    }

    /// Returns the highest number that was ever allowed; 0 if none was.
    pub(crate) fn ceiling(&self) -> Result<u64, Error> {
        let mut highest = 0;
        let dir = self.dir();
        // Not of a worktree that has been renamed since.
        self.repo.disk.refresh(&dir);
        let seen = self.repo.disk.each_name(&dir, &mut |name| highest = highest.max(fence_number(name).unwrap_or(0)));
        seen.at("list", &self.repo.path, &dir)?;
        Ok(highest)
    }

    /// Returns the highest number known from an earlier life: of a removed worktree of this name,
    /// or from before there was a chain.
    pub(crate) fn former_ceiling(&self) -> Result<u64, Error> {
        let mut highest = self.legacy_fence()?.max(self.described_tokens()?);
        let kept = "worktrees/.fences";
        let seen = self.repo.disk.each_name(kept, &mut |name| {
            highest = highest.max(kept_fence_number(self.name.as_str(), name).unwrap_or(0));
        });
        seen.at("list", &self.repo.path, kept)?;
        Ok(highest)
    }

    /// Reserves a block of numbers above `used` and above every other one, for the caller alone.
    /// Returns the last number below it.
    pub(crate) fn reserve(&self, used: u64) -> Result<u64, Error> {
        let dir = self.dir();
        loop {
            let below = self.ceiling()?.max(used);
            let block = below + BLOCK;
            if block >= Fence::LIMIT {
                let message = format!("worktree \"{}\" has used up its tokens", self.name);
                return Err(match self.far_fence(0)? {
                    Some(path) => Error::new(ErrorKind::Unusable, format!("{message}: {path} says so")).hint(FAR_HINT),
                    None => Error::new(ErrorKind::Unusable, message),
                });
            }
            let path = format!("{dir}/{}", fence_name(block));
            match self.repo.disk.create_as(&path, b"", 0o644) {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                done => done.and_then(|file| file.sync()).at("raise the fence", &self.repo.path, &path)?,
            }
            self.repo.disk.sync_dir(&dir).at("sync", &self.repo.path, &dir)?;
            self.sweep(below);
            return Ok(below);
        }
    }

    /// Returns the path of a ceiling that can't have been reached, far above `used`, the chain's
    /// own.
    pub(crate) fn far_fence(&self, used: u64) -> Result<Option<String>, Error> {
        let (own, kept) = (self.dir(), "worktrees/.fences");
        let mut far = None;
        for dir in [own.as_str(), kept] {
            let seen = self.repo.disk.each_name(dir, &mut |name| {
                let number = if dir == kept { kept_fence_number(self.name.as_str(), name) } else { fence_number(name) };
                if number.is_some_and(|number| number >= FOLLOWED_MAX && used < FOLLOWED_MAX) {
                    far = Some(self.repo.path.join(dir).join(name).display().to_string());
                }
            });
            seen.at("list", &self.repo.path, dir)?;
        }
        Ok(far)
    }

    /// Notes a grant outside of `locks`; `before` is what is noted there. A chain that ends before
    /// the noted grant has lost its end. Not synced: a power cut that loses the note can't lose the
    /// end of the chain.
    pub(crate) fn note_grant(&self, before: Option<(String, u64)>, slot: &Slot) -> Result<(), Error> {
        // A late process doesn't bring an older note back.
        if before.is_some_and(|(_, noted)| noted >= slot.number) {
            return Ok(());
        }
        let path = format!("{}/fence.json", self.dir());
        let temp = format!("{}/.lokt-{:032x}.tmp", self.dir(), self.repo.random()?);
        let note = json!({ "fencing_token": slot.number, "acquire_seq": slot.acquire_seq, "chain": slot.chain });
        let mut bytes = note.to_string().into_bytes();
        bytes.push(b'\n');
        let disk = &self.repo.disk;
        disk.create_as(&temp, &bytes, 0o644).at("write", &self.repo.path, &temp)?;
        disk.rename(&temp, &path).inspect_err(|_| drop(disk.remove(&temp))).at("write", &self.repo.path, &path)
    }

    /// Returns the chain and the token of the last noted grant.
    pub(crate) fn noted_grant(&self) -> Result<Option<(String, u64)>, Error> {
        let Some(value) = self.read_json(&format!("{}/fence.json", self.dir()))? else { return Ok(None) };
        let chain = value.get("chain").and_then(Value::as_str).map(str::to_owned);
        Ok(chain.zip(value.get("fencing_token").and_then(Value::as_u64).and_then(followed)))
    }

    /// Removes old ceilings. The two highest stay: a listing may miss one that is created at that
    /// moment.
    fn sweep(&self, ceiling: u64) {
        let dir = self.dir();
        for name in self.repo.disk.list(&dir).unwrap_or_default() {
            if fence_number(&name).is_some_and(|number| number < ceiling) {
                let _ = self.repo.disk.remove(&format!("{dir}/{name}"));
            }
        }
    }

    /// Returns the token in `fence.json`, which other tools may have written.
    fn legacy_fence(&self) -> Result<u64, Error> {
        let path = format!("{}/fence.json", self.dir());
        Ok(self.token_in(&path, None)?.unwrap_or(0))
    }

    /// Returns the highest token in the descriptors of this worktree's snapshots.
    fn described_tokens(&self) -> Result<u64, Error> {
        let names = self.repo.disk.list("descriptors").at("list", &self.repo.path, "descriptors")?;
        let mut highest = 0;
        for name in names.iter().filter(|name| Path::new(name).extension().is_some_and(|kind| kind == "json")) {
            let token = self.token_in(&format!("descriptors/{name}"), Some(self.name.as_str()))?;
            highest = highest.max(token.unwrap_or(0));
        }
        Ok(highest)
    }

    fn token_in(&self, path: &str, worktree: Option<&str>) -> Result<Option<u64>, Error> {
        let Some(value) = self.read_json(path)? else { return Ok(None) };
        let of = value.get("worktree_id").or_else(|| value.get("worktree_name")).and_then(Value::as_str);
        if worktree.is_some() && of != worktree {
            return Ok(None);
        }
        Ok(value.get("fencing_token").and_then(Value::as_u64).and_then(followed))
    }

    /// Reads a JSON file that other tools may have written, too; `None` if it is not JSON.
    fn read_json(&self, path: &str) -> Result<Option<Value>, Error> {
        let entry = self.repo.disk.read(path, DESCRIPTOR_BYTES_MAX).at("read", &self.repo.path, path)?;
        let Entry::File(content) = entry else { return Ok(None) };
        Ok(serde_json::from_slice(&content.bytes).ok())
    }
}
