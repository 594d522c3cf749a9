//! Whether `jvs` may use a repository, too. The format says so: `jvs` refuses every format but its
//! own.
//!
//! Earlier versions of lokt made repositories in the format of `jvs`, with descriptors that `jvs`
//! can't read. There `jvs gc` deletes everything that it can't reach. Such a repository gets our
//! own format, unless `jvs` has snapshots in it: then the user uses both, and has to be told.

use lokt_core::lease::config::WorktreeConfig;
use lokt_core::name::LockName;
use lokt_core::snapshot::descriptor::{Descriptor, Era, Schema};
use lokt_core::snapshot::id::SnapshotId;
use serde_json::Value;

use super::facts::replace_file;
use super::facts::{FORMAT, FORMAT_FILE, Format, JVS_FORMAT, format};
use super::{MAIN, Repository};
use crate::lease::Worktree;
use crate::snapshot::catalog::BYTES_MAX;
use crate::snapshot::places::{DESCRIPTORS, descriptor_file};
use lokt_sys::disk::Entry;
use lokt_sys::error::Error;
use lokt_sys::parallel;

/// The snapshots of a repository, by the program that can read their descriptors.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// Snapshots that `jvs` can't read, in the order of their ids.
    pub(crate) ours: Vec<SnapshotId>,
    /// Number of snapshots that it can read.
    pub(crate) theirs: usize,
    /// The version of `jvs` that the newest of those is for.
    era: Option<Era>,
}

impl Repository {
    /// Returns the format that the repository had when it was opened.
    pub fn format(&self) -> u64 {
        self.format.number
    }
}

/// Whether `jvs` uses a repository, and what it can read there.
pub(crate) struct JvsFormat<'r> {
    pub(crate) repo: &'r Repository,
}

impl JvsFormat<'_> {
    /// Reports whether `jvs` may read and write here: then it has to find what it needs.
    pub(crate) fn is_read(&self) -> bool {
        self.repo.format.number == JVS_FORMAT
    }

    /// Returns which program can read which snapshots. Unreadable descriptors don't count.
    pub(crate) fn words(&self) -> Result<Words, Error> {
        let ids: Vec<SnapshotId> = self.repo.snapshots().ids_in(DESCRIPTORS, ".json")?.into_iter().collect();
        let schemas = parallel::map(&ids, |id| match self.repo.disk.read(&descriptor_file(id), BYTES_MAX) {
            Ok(Entry::File(content)) => Descriptor::parse(&content.bytes).ok().map(|descriptor| descriptor.schema),
            _ => None,
        });
        let mut words = Words::default();
        for (id, schema) in ids.into_iter().zip(schemas) {
            match schema {
                Some(Schema::Lokt) => words.ours.push(id),
                Some(Schema::Spec) => words.theirs += 1,
                Some(Schema::Code(era) | Schema::Both(era)) => {
                    words.theirs += 1;
                    words.era = Some(era);
                }
                None => {}
            }
        }
        Ok(words)
    }

    /// Returns the schema of the next snapshot of `config`'s worktree. If `jvs` reads the
    /// repository, it is that of the version that is used there.
    pub(crate) fn next_schema(&self, config: &WorktreeConfig) -> Result<Schema, Error> {
        if !self.is_read() || self.get_own_format()? {
            return Ok(Schema::Lokt);
        }
        // Without a snapshot, the configuration tells: only the versions with locks record the
        // isolation.
        let by_config = || {
            let is_v8 = config.extra.contains_key("latest_snapshot_id") || !self.says_isolation(config);
            if is_v8 { Era::V8 } else { Era::Locks }
        };
        Ok(Schema::Both(self.words()?.era.unwrap_or_else(by_config)))
    }

    fn says_isolation(&self, config: &WorktreeConfig) -> bool {
        let path = format!("worktrees/{}/config.json", config.name);
        let Ok(Entry::File(content)) = self.repo.disk.read(&path, BYTES_MAX) else { return true };
        let members: Option<Value> = serde_json::from_slice(&content.bytes).ok();
        members.is_none_or(|members| members.get("isolation").is_some())
    }

    /// Gives a repository that an earlier lokt made our own format, durably. Returns true if it has
    /// it now; false if it is one of `jvs`, or used by both.
    pub(crate) fn get_own_format(&self) -> Result<bool, Error> {
        let is_old = || {
            Ok::<_, Error>(format(&*self.repo.disk, &self.repo.path)?.is_some_and(|format| format.number == JVS_FORMAT))
        };
        if !is_old()? {
            return Ok(true);
        }
        let words = self.words()?;
        if words.ours.is_empty() || words.theirs > 0 || self.is_locked_by_jvs()? {
            return Ok(false);
        }
        {
            let _inside = self.repo.inside()?;
            if !is_old()? {
                return Ok(true);
            }
            replace_file(self.repo, "", FORMAT_FILE, Format::new(false).to_text().as_bytes())?;
        }
        let details = [("from".to_owned(), JVS_FORMAT.into()), ("to".to_owned(), FORMAT.into())];
        self.repo.note(
            "format_upgrade",
            &LockName::new(MAIN).expect("it is a good name"),
            details.into_iter().collect(),
        );
        Ok(true)
    }

    /// Reports whether `jvs` holds a worktree now: then it is at work here.
    fn is_locked_by_jvs(&self) -> Result<bool, Error> {
        for name in self.repo.worktree_names()? {
            let config = WorktreeConfig::nameless(name.as_str());
            let worktree = Worktree { repo: self.repo.clone(), name, config };
            if worktree.observer().jvs_holds()? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
