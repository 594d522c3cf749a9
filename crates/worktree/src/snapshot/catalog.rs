//! The catalog of snapshots.
//!
//! A snapshot is visible when its receipt exists, or when the newest link of a chain still vouches
//! for it. One that `jvs` made is visible when its marker is in its tree: that program knows
//! neither.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::Timestamp;
use lokt_core::lease::config::WorktreeConfig;
use lokt_core::name::LockName;
use lokt_core::snapshot::descriptor::Descriptor;
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::lineage::{Lineage, Node};
use lokt_core::snapshot::receipt::Receipt;
use lokt_core::snapshot::reference::Reference;
use lokt_core::snapshot::tombstone::Tombstone;

use super::answers::{Collected, Listed, Spoiled, Unfinished};
use super::intents::Pursuit;
use super::places::{DESCRIPTORS, PINS, REFS, SNAPSHOTS, TOMBSTONES, descriptor_file, receipt_file};
use crate::lease::{Reading, Worktree};
use crate::repo::Repository;
use lokt_sys::disk::Entry;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::files::is_dir;
use lokt_sys::look::look;
use lokt_sys::parallel;

/// Maximum size of a descriptor, pin, reference or tombstone in bytes.
pub(crate) const BYTES_MAX: usize = 1 << 20;
/// Marker that `jvs` puts into a complete tree.
const OLD_MARKER: &str = ".READY";

/// Everything that is known about snapshots, at one moment.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Visible snapshots, newest first.
    pub snapshots: Vec<Listed>,
    /// Visible snapshots that are unusable.
    pub spoiled: Vec<Spoiled>,
    /// Snapshots that aren't visible: a process is working on them, or was.
    pub unfinished: Vec<Unfinished>,
    /// Snapshots that were removed.
    pub collected: Vec<Collected>,
    /// The snapshot that each worktree is at.
    pub heads: BTreeMap<LockName, SnapshotId>,
}

/// The snapshots that a chain vouches for.
#[derive(Debug, Default)]
pub(crate) struct Vouched {
    pub(crate) head: Option<SnapshotId>,
    /// Published, and perhaps without a receipt.
    pub(crate) pending: Vec<SnapshotId>,
    /// The snapshot that the worktree goes back to if a decided restore is impossible.
    pub(crate) was_head: Option<SnapshotId>,
}

impl Catalog {
    /// Returns the visible snapshot with that id.
    pub fn get(&self, id: &SnapshotId) -> Option<&Listed> {
        self.snapshots.iter().find(|listed| listed.descriptor.id == *id)
    }

    /// Returns the lineage: which snapshot came after which.
    pub fn lineage(&self) -> Lineage {
        let nodes = self.snapshots.iter().map(|listed| {
            let Descriptor { id, parent, worktree, created_at, bytes, .. } = listed.descriptor.clone();
            Node { id, parent, worktree, created_at, bytes: bytes.unwrap_or(0) }
        });
        Lineage::new(nodes, self.collected.iter().map(|collected| (collected.id.clone(), collected.parent.clone())))
    }
}

/// The snapshots of a repository.
pub struct Snapshots<'r> {
    pub(crate) repo: &'r Repository,
}

impl Snapshots<'_> {
    /// Reads the catalog.
    pub fn catalog(&self) -> Result<Catalog, Error> {
        // The chains first: a snapshot that they no longer vouch for has its receipt by then.
        let vouched = self.vouched()?;
        let heads: BTreeMap<LockName, SnapshotId> =
            vouched.iter().filter_map(|(name, vouched)| Some((name.clone(), vouched.head.clone()?))).collect();
        let pending: BTreeSet<SnapshotId> = vouched.into_values().flat_map(|vouched| vouched.pending).collect();
        let stored = self.stored()?;
        let pins = self.ids_in(PINS, ".json")?;
        let refs = self.references()?;
        let collected = self.tombstones()?;
        let described = self.ids_in(DESCRIPTORS, ".json")?;
        let ids: BTreeSet<SnapshotId> = [&stored.trees, &stored.manifests, &stored.receipts, &described, &pending]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        let ids: Vec<SnapshotId> = ids.into_iter().collect();
        let seen = parallel::map(&ids, |id| {
            let vouched = stored.receipts.contains(id) || pending.contains(id);
            self.sight_of(id, vouched, stored.trees.contains(id))
        });
        let mut catalog = Catalog { heads, ..Catalog::default() };
        let running = self.running()?;
        for (id, sight) in ids.into_iter().zip(seen) {
            match sight? {
                Sight::Visible(descriptor) => {
                    let head_of = catalog.heads.iter().filter(|(_, head)| **head == id).map(|(name, _)| name.clone());
                    let named = refs.iter().filter(|(_, of)| **of == id).map(|(name, _)| name.clone());
                    catalog.snapshots.push(Listed {
                        descriptor: *descriptor,
                        pinned: pins.contains(&id),
                        refs: named.collect(),
                        head_of: head_of.collect(),
                    });
                }
                Sight::Spoiled(spoiled) => catalog.spoiled.push(spoiled),
                // It is being removed, or was.
                Sight::Nothing if collected.contains_key(&id) => {}
                Sight::Nothing => {
                    let running = running.contains(&id);
                    catalog.unfinished.push(Unfinished { id, running });
                }
            }
        }
        catalog.collected = collected.into_values().collect();
        catalog.snapshots.sort_by(|one, other| newest_first(&one.descriptor, &other.descriptor));
        Ok(catalog)
    }

    /// Returns a snapshot if it is visible.
    pub(crate) fn listed(&self, id: &SnapshotId) -> Result<Option<Listed>, Error> {
        let is_there =
            |path: &str| self.repo.disk.stamp(path).at("look at", &self.repo.path, path).map(|found| found.is_some());
        // The chains first, as always.
        let is_pending = self.vouched()?.into_values().any(|vouched| vouched.pending.contains(id));
        let is_vouched = is_pending || is_there(&receipt_file(id))?;
        Ok(match self.sight_of(id, is_vouched, is_dir(&self.repo.tree_of(id)))? {
            Sight::Visible(descriptor) => {
                let pinned = is_there(&format!("{PINS}/{id}.json"))?;
                Some(Listed { descriptor: *descriptor, pinned, refs: Vec::new(), head_of: Vec::new() })
            }
            Sight::Spoiled(_) | Sight::Nothing => None,
        })
    }

    /// Returns what every chain vouches for. Without a chain, the configuration says where the
    /// worktree is.
    pub(crate) fn vouched(&self) -> Result<BTreeMap<LockName, Vouched>, Error> {
        let mut vouched = BTreeMap::new();
        // A chain outlives the name of its worktree, and may vouch for snapshots that it published.
        let chains = self.repo.disk.list("locks").at("list", &self.repo.path, "locks")?;
        let of_chains = chains.iter().filter_map(|name| LockName::new(name.strip_suffix(".lock.d")?).ok());
        let names: BTreeSet<LockName> = self.repo.worktree_names()?.into_iter().chain(of_chains).collect();
        for name in names {
            let config = self.repo.config(&name);
            // If the configuration is unreadable, the worktree exists.
            let is_there = !matches!(config, Ok(None));
            let config = config.ok().flatten().unwrap_or_else(|| WorktreeConfig::nameless(name.as_str()));
            let worktree = Worktree { repo: self.repo.clone(), name: name.clone(), config };
            let mut of = match worktree.chain().read() {
                Ok(Reading::Born(links)) => worktree.snapshot_state().vouched_by(&links),
                // An unreadable chain vouches for nothing; its snapshots have receipts.
                Ok(Reading::Unborn) | Err(_) => {
                    let head = worktree.snapshot_state().or_later_of_jvs(worktree.snapshot_state().noted_head(), None);
                    Vouched { head, ..Vouched::default() }
                }
            };
            // The worktree doesn't exist any more.
            of.head = of.head.filter(|_| is_there);
            vouched.insert(name, of);
        }
        Ok(vouched)
    }

    /// Returns the state of one snapshot.
    fn sight_of(&self, id: &SnapshotId, is_vouched: bool, has_tree: bool) -> Result<Sight, Error> {
        let path = descriptor_file(id);
        let spoiled = |path: &Path, why: &str| {
            // It may have been removed while we read.
            let has_receipt = self.repo.disk.stamp(&receipt_file(id)).is_ok_and(|receipt| receipt.is_some());
            // One that `jvs` made has only its marker.
            let is_there = has_receipt || is_file(&self.repo.tree_of(id).join(OLD_MARKER));
            let why = why.to_owned();
            if is_there {
                Sight::Spoiled(Spoiled { id: id.clone(), path: path.to_owned(), why })
            } else {
                Sight::Nothing
            }
        };
        let shown = self.repo.path.join(&path);
        let descriptor = match self.repo.disk.read(&path, BYTES_MAX).at("read", &self.repo.path, &path)? {
            Entry::Missing if is_vouched => return Ok(spoiled(&shown, "it is missing")),
            Entry::Missing => return Ok(Sight::Nothing),
            Entry::NotRegular(kind) => return Ok(spoiled(&shown, &format!("it is {kind}"))),
            Entry::TooBig(_) => return Ok(spoiled(&shown, "it is too long")),
            Entry::File(content) => match Descriptor::parse(&content.bytes) {
                Ok(descriptor) if descriptor.id == *id => descriptor,
                Ok(_) => return Ok(spoiled(&shown, "it is that of another snapshot")),
                Err(why) => return Ok(spoiled(&shown, &why)),
            },
        };
        let tree = self.repo.tree_of(id);
        let is_old = !descriptor.schema.is_ours() && has_tree;
        let is_visible = is_vouched || (is_old && is_file(&tree.join(OLD_MARKER)));
        if !is_visible {
            return Ok(Sight::Nothing);
        }
        if !has_tree && !is_dir(&tree) {
            return Ok(spoiled(&tree, "it is missing"));
        }
        Ok(Sight::Visible(Box::new(descriptor)))
    }

    /// Returns when `jvs` took a snapshot, if it did and the snapshot is visible.
    pub(crate) fn taken_by_jvs(&self, id: &SnapshotId) -> Option<Timestamp> {
        match self.sight_of(id, false, is_dir(&self.repo.tree_of(id))).ok()? {
            Sight::Visible(descriptor) if !descriptor.schema.is_ours() => Some(descriptor.created_at),
            _ => None,
        }
    }

    /// Returns when a snapshot was taken, as its descriptor says.
    pub(crate) fn described_at(&self, id: &SnapshotId) -> Option<Timestamp> {
        let Ok(Entry::File(content)) = self.repo.disk.read(&descriptor_file(id), BYTES_MAX) else { return None };
        Descriptor::parse(&content.bytes).ok().map(|descriptor| descriptor.created_at)
    }

    fn stored(&self) -> Result<Stored, Error> {
        let mut stored = Stored::default();
        let listed = self.repo.disk.each_name(SNAPSHOTS, &mut |name| {
            if let Some(id) = name.strip_suffix(".ready").and_then(SnapshotId::parse) {
                stored.receipts.insert(id);
            } else if let Some(id) = name.strip_suffix(".manifest").and_then(SnapshotId::parse) {
                stored.manifests.insert(id);
            } else if let Some(id) = SnapshotId::parse(name) {
                stored.trees.insert(id);
            }
        });
        listed.at("list", &self.repo.path, SNAPSHOTS)?;
        Ok(stored)
    }

    /// Returns the receipts of what a worktree published. Unreadable ones are left out.
    pub(crate) fn receipts_of(&self, name: &LockName) -> Result<Vec<Receipt>, Error> {
        let ids: Vec<SnapshotId> = self.ids_in(SNAPSHOTS, ".ready")?.into_iter().collect();
        let receipts = parallel::map(&ids, |id| match self.repo.disk.read(&receipt_file(id), BYTES_MAX) {
            Ok(Entry::File(content)) => Receipt::parse(&content.bytes).ok(),
            _ => None,
        });
        Ok(receipts.into_iter().flatten().filter(|receipt| receipt.worktree_id == name.as_str()).collect())
    }

    /// Returns the ids that have a file.
    pub(crate) fn ids_in(&self, dir: &str, suffix: &str) -> Result<BTreeSet<SnapshotId>, Error> {
        let mut ids = BTreeSet::new();
        let listed = self.repo.disk.each_name(dir, &mut |name| {
            ids.extend(name.strip_suffix(suffix).and_then(SnapshotId::parse));
        });
        listed.at("list", &self.repo.path, dir)?;
        Ok(ids)
    }

    /// Returns the names that snapshots have.
    pub(crate) fn references(&self) -> Result<BTreeMap<String, SnapshotId>, Error> {
        let read = self.read_references()?.into_iter().filter_map(|(_, reference)| reference.ok());
        Ok(read.map(|reference| (reference.name, reference.snapshot_id)).collect())
    }

    /// Returns the snapshots that have names. If a name is unreadable, they are unknown.
    pub(crate) fn referred(&self) -> Result<BTreeSet<SnapshotId>, Error> {
        let of = |(path, reference): ReadReference| {
            reference.map(|reference| reference.snapshot_id).map_err(|why| {
                let message = format!("{} can't be used: {why}", self.repo.path.join(path).display());
                Error::new(ErrorKind::Damaged, message).hint("nothing was removed; correct that file, or remove it")
            })
        };
        self.read_references()?.into_iter().map(of).collect()
    }

    /// Returns every name, by its file, or what is wrong with it.
    fn read_references(&self) -> Result<Vec<ReadReference>, Error> {
        let mut references = Vec::new();
        let names = self.repo.disk.list(REFS).at("list", &self.repo.path, REFS)?;
        for path in names.iter().filter_map(|name| Some(format!("{REFS}/{}.json", name.strip_suffix(".json")?))) {
            let reference = match self.repo.disk.read(&path, BYTES_MAX).at("read", &self.repo.path, &path)? {
                Entry::Missing => continue,
                Entry::File(content) => Reference::parse(&content.bytes),
                Entry::NotRegular(kind) => Err(format!("it is {kind}")),
                Entry::TooBig(_) => Err("it is too long".into()),
            };
            references.push((path, reference));
        }
        Ok(references)
    }

    fn tombstones(&self) -> Result<BTreeMap<SnapshotId, Collected>, Error> {
        let mut collected = BTreeMap::new();
        for id in self.ids_in(TOMBSTONES, ".json")? {
            let path = format!("{TOMBSTONES}/{id}.json");
            let tombstone = match self.repo.disk.read(&path, BYTES_MAX).at("read", &self.repo.path, &path)? {
                Entry::File(content) => Tombstone::parse(&content.bytes).ok(),
                _ => None,
            };
            let (at, parent) = tombstone.map(|tombstone| (tombstone.deleted_at, tombstone.parent)).unwrap_or_default();
            collected.insert(id.clone(), Collected { id, at, parent });
        }
        Ok(collected)
    }

    /// Returns the snapshots that a process may be making now.
    pub(crate) fn running(&self) -> Result<BTreeSet<SnapshotId>, Error> {
        let at = self.repo.intents().all()?.into_iter().filter(|(_, _, pursuit)| *pursuit != Pursuit::Dead);
        Ok(at.filter_map(|(_, intent, _)| Some(intent?.snapshot_id)).collect())
    }
}

/// The file of a name, and its content or what is wrong with it.
type ReadReference = (String, Result<Reference, String>);

/// State of a snapshot.
enum Sight {
    Visible(Box<Descriptor>),
    Spoiled(Spoiled),
    /// Nothing that counts.
    Nothing,
}

#[derive(Default)]
struct Stored {
    trees: BTreeSet<SnapshotId>,
    manifests: BTreeSet<SnapshotId>,
    receipts: BTreeSet<SnapshotId>,
}

/// Orders by creation time. Snapshots of the same moment are in the order of their ids.
fn newest_first(one: &Descriptor, other: &Descriptor) -> std::cmp::Ordering {
    other.created_at.cmp(&one.created_at).then_with(|| other.id.cmp(&one.id))
}

fn is_file(path: &Path) -> bool {
    look(path).is_ok_and(|found| found.is_some_and(|found| found.kind.is_none() && !found.is_dir))
}
