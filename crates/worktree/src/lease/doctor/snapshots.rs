//! Examines snapshots: remains of unfinished ones, decisions that were not carried out, and the
//! integrity of those that exist.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use lokt_core::lease::state::State;
use lokt_core::name::LockName;
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::intent::{Intent, Operation};
use lokt_core::snapshot::lineage::Problem;

use super::{Exam, Finding, finding};
use crate::lease::Worktree;
use crate::lease::chain::Reading;
use crate::snapshot::Catalog;
use crate::snapshot::intents::Pursuit;
use crate::snapshot::places::{INTENTS, RESTORES, SNAPSHOTS, TOMBSTONES, descriptor_file, receipt_file};
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_tree::{Control, Known, Silent};

/// Minimum age in ms of a snapshot that no intent announces, before it counts as given up.
const ORPHAN_MS: u64 = 3_600_000;
/// Time in ms that a program without a pulse is given to finish.
const OLD_INTENT_MS: u64 = 24 * 3_600_000;

/// The part of an examination that is about snapshots.
pub(super) struct SnapshotExam<'e> {
    pub(super) exam: &'e Exam<'e>,
}

impl SnapshotExam<'_> {
    /// Returns every finding.
    pub(super) fn findings(&self) -> Vec<Finding> {
        self.all_of_snapshots()
            .unwrap_or_else(|error| vec![finding::error("E_IO", self.exam.at(SNAPSHOTS), error.to_string())])
    }

    fn all_of_snapshots(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = self.undone()?;
        // First determine which snapshots can't be published any more: if such a snapshot isn't
        // visible after that, it never will be.
        let given_up = self.given_up()?;
        let catalog = self.exam.repo.snapshots().catalog()?;
        findings.extend(self.leftovers(&catalog, &given_up));
        findings.extend(self.dead_intents()?);
        findings.extend(self.left_restores()?);
        findings.extend(self.half_collected()?);
        findings.extend(catalog.spoiled.iter().map(|spoiled| {
            let problem = format!("snapshot {} can't be used: {}: {}", spoiled.id, spoiled.path.display(), spoiled.why);
            let finding = finding::critical("E_DESCRIPTOR_CORRUPT", spoiled.path.clone(), problem);
            finding.hint("put back what was there from a copy of the repository")
        }));
        findings.extend(self.lineage(&catalog));
        findings.extend(self.payloads(&catalog)?);
        Ok(findings)
    }

    /// Returns every worktree with the snapshot state of its chain.
    fn states(&self) -> Result<Vec<(Worktree, State)>, Error> {
        let mut states = Vec::new();
        for name in self.exam.repo.worktree_names()? {
            // Unreadable ones are reported with the worktrees and the leases.
            let Ok(Some(config)) = self.exam.repo.config(&name) else { continue };
            let worktree = Worktree { repo: self.exam.repo.clone(), name, config };
            if let Ok(Reading::Born(links)) = worktree.chain().read() {
                states.push((worktree, links.state()));
            }
        }
        Ok(states)
    }

    /// Finds changes that a link decided and its process was killed before making.
    fn undone(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        for (worktree, state) in self.states()? {
            let name = worktree.name.clone();
            let missing = |id: &&SnapshotId| !matches!(self.exam.repo.disk.stamp(&receipt_file(id)), Ok(Some(_)));
            if let Some(id) = state.pending.iter().find(missing) {
                let problem = format!("snapshot {id} of {name} is published and has no receipt yet");
                let finding = finding::warn("missing_receipt", self.exam.at(&receipt_file(id)), problem);
                findings.extend(self.exam.mend(finding.fixable("write it"), || {
                    worktree.snapshot_state().settle_now()?;
                    // The receipt is made from the descriptor, which may be damaged.
                    if missing(&id) { Err(self.cant_write(id)) } else { Ok(true) }
                }));
            }
            if let Some(restore) = state.restore.as_ref().filter(|restore| !worktree.tree_swap().is_swapped(restore)) {
                let problem = format!("snapshot {} is to come back in {name}, and hasn't", restore.snapshot_id);
                let finding = finding::warn("interrupted_restore", self.exam.repo.files_of(&name), problem);
                findings.extend(self.exam.mend(finding.fixable("finish it"), || {
                    worktree.snapshot_state().settle_now()?;
                    if worktree.tree_swap().is_swapped(restore) {
                        return Ok(true);
                    }
                    let message =
                        "its tree is gone, or the directory was replaced since; the next lease goes on without";
                    Err(Error::new(ErrorKind::Missing, message))
                }));
            }
        }
        Ok(findings)
    }

    fn cant_write(&self, id: &SnapshotId) -> Error {
        let message = format!("{} can't be read", self.exam.at(&descriptor_file(id)).display());
        Error::new(ErrorKind::Damaged, message)
    }

    /// Returns the snapshots that no process can publish any more, unless they are already
    /// published.
    fn given_up(&self) -> Result<BTreeSet<SnapshotId>, Error> {
        let intents = self.exam.repo.intents().all()?;
        let announced = intents.iter().filter_map(|(name, intent, pursuit)| {
            let intent = intent.as_ref().filter(|intent| intent.operation == Operation::Snapshot)?;
            Some((intent.snapshot_id.clone(), self.is_hopeless(name, intent, *pursuit)))
        });
        let announced: Vec<(SnapshotId, bool)> = announced.collect();
        let mut given_up: BTreeSet<SnapshotId> =
            announced.iter().filter(|(_, hopeless)| *hopeless).map(|(id, _)| id.clone()).collect();
        // No intent says that a process is working on it.
        let named = |id: &SnapshotId| announced.iter().any(|(of, _)| of == id);
        for name in self.exam.repo.disk.list(SNAPSHOTS).at("list", &self.exam.repo.path, SNAPSHOTS)? {
            let id = SnapshotId::parse(name.split('.').next().unwrap_or_default());
            let is_old = || self.exam.unmoved_ms(&format!("{SNAPSHOTS}/{name}")) > ORPHAN_MS;
            given_up.extend(id.filter(|id| !named(id) && is_old()));
        }
        Ok(given_up)
    }

    /// Reports whether the process that announced the intent can't continue.
    fn is_hopeless(&self, name: &str, intent: &Intent, pursuit: Pursuit) -> bool {
        match pursuit {
            Pursuit::Running => false,
            Pursuit::Dead => true,
            Pursuit::Unknown => match intent.token {
                Some(token) => self.is_superseded(&intent.worktree_id, token),
                None => self.exam.unmoved_ms(&format!("{INTENTS}/{name}.json")) > OLD_INTENT_MS,
            },
        }
    }

    /// Reports whether a token is no longer that of the lease. Then nothing is published under it
    /// any more.
    fn is_superseded(&self, worktree: &str, token: u64) -> bool {
        let Ok(name) = LockName::new(worktree) else { return false };
        let Ok(Some(config)) = self.exam.repo.config(&name) else { return false };
        let worktree = Worktree { repo: self.exam.repo.clone(), name, config };
        match worktree.chain().read() {
            Ok(Reading::Born(links)) if links.damaged.is_none() => {
                links.record().and_then(|record| record.token).is_none_or(|current| current.get() != token)
            }
            _ => false,
        }
    }

    fn leftovers(&self, catalog: &Catalog, given_up: &BTreeSet<SnapshotId>) -> Vec<Finding> {
        let left = catalog.unfinished.iter().filter(|unfinished| given_up.contains(&unfinished.id));
        let told = left.filter_map(|unfinished| {
            let id = &unfinished.id;
            let problem = format!("snapshot {id} was never finished");
            let finding = finding::warn("E_PARTIAL_SNAPSHOT", self.exam.repo.tree_of(id), problem);
            // It was given up before the catalog was read: no process has published it since.
            self.exam.mend(finding.fixable("remove what is there of it"), || {
                self.exam.repo.snapshots().scrap(id).map(|()| true)
            })
        });
        told.collect()
    }

    fn dead_intents(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        for (name, intent, pursuit) in self.exam.repo.intents().all()? {
            let path = format!("{INTENTS}/{name}.json");
            let Some(intent) = intent else {
                let problem = "what somebody was at can't be read";
                let finding = finding::warn("E_CORRUPT", self.exam.at(&path), problem);
                if self.exam.repo.intents().was_left_at_once(&name) {
                    let finding = finding.fixable("forget it");
                    findings.extend(self.exam.mend(finding, || self.exam.repo.intents().forget(&name).map(|()| true)));
                } else {
                    findings.push(finding.hint("remove it if nobody is at anything"));
                }
                continue;
            };
            if self.is_hopeless(&name, &intent, pursuit) {
                let problem =
                    format!("nobody is at the {} of {} any more", intent.operation.as_str(), intent.snapshot_id);
                let finding = finding::warn("dead_intent", self.exam.at(&path), problem).fixable("forget it");
                findings.extend(self.exam.mend(finding, || self.exam.repo.intents().forget(&name).map(|()| true)));
            }
        }
        findings.extend(self.stray_pulses()?);
        Ok(findings)
    }

    /// Finds pulses that stopped before their intent was announced, or after it was withdrawn.
    fn stray_pulses(&self) -> Result<Vec<Finding>, Error> {
        let names = self.exam.repo.disk.list(INTENTS).at("list", &self.exam.repo.path, INTENTS)?;
        let is_stray = |name: &&str| {
            let is_announced = names.iter().any(|other| other.strip_suffix(".json") == Some(name));
            !is_announced && self.exam.repo.intents().was_left_at_once(name)
        };
        let stray = names.iter().filter_map(|name| name.strip_suffix(".pulse")).filter(is_stray);
        let told = stray.filter_map(|name| {
            let path = self.exam.at(&format!("{INTENTS}/{name}.pulse"));
            let finding =
                finding::warn("dead_intent", path, "somebody was killed before it began, or after it was done");
            self.exam.mend(finding.fixable("remove it"), || self.exam.repo.intents().forget(name).map(|()| true))
        });
        Ok(told.collect())
    }

    /// Finds trees that no link refers to and no process works on.
    fn left_restores(&self) -> Result<Vec<Finding>, Error> {
        let running = |(_, intent, pursuit): &(String, Option<Intent>, Pursuit)| {
            *pursuit != Pursuit::Dead && intent.as_ref().is_none_or(|intent| intent.operation == Operation::Restore)
        };
        let names = self.exam.repo.disk.list(RESTORES).at("list", &self.exam.repo.path, RESTORES)?;
        // A process that restores announces it before it creates its tree, and decides before it
        // withdraws the announcement.
        if names.is_empty() || self.exam.repo.intents().all()?.iter().any(running) {
            return Ok(Vec::new());
        }
        let wanted: Vec<String> =
            self.states()?.into_iter().filter_map(|(_, state)| Some(state.restore?.tree)).collect();
        let is_wanted = |name: &String| wanted.iter().any(|tree| name.starts_with(tree));
        let told = names.iter().filter(|name| !is_wanted(name)).filter_map(|name| {
            let path = self.exam.repo.path.join(RESTORES).join(name);
            let finding = finding::warn("left_restore", path.clone(), "a tree that was to come back, and never did");
            // If the locks were deleted, it may be the former tree of a worktree: don't delete it
            // at once.
            self.exam.mend(finding.fixable("move it to the trash"), || {
                self.exam.repo.gc().throw_away_tree(&path, name).map(|_| true)
            })
        });
        Ok(told.collect())
    }

    fn half_collected(&self) -> Result<Vec<Finding>, Error> {
        let told = self.exam.repo.gc().half_collected()?.into_iter().filter_map(|id| {
            let problem = format!("snapshot {id} was being removed");
            let finding = finding::warn("interrupted_gc", self.exam.at(&format!("{TOMBSTONES}/{id}.json")), problem);
            self.exam.mend(finding.fixable("finish that"), || self.exam.repo.gc().finish_collecting(&id, "doctor"))
        });
        Ok(told.collect())
    }

    /// Checks that every snapshot has its parents, and that every worktree is at an existing
    /// snapshot.
    fn lineage(&self, catalog: &Catalog) -> Vec<Finding> {
        let mut findings = Vec::new();
        for problem in catalog.lineage().problems() {
            let (id, told) = match &problem {
                Problem::MissingParent { id, parent } => {
                    (id, format!("the parent {parent} of snapshot {id} is missing"))
                }
                Problem::Cycle(ids) => (&ids[0], format!("snapshot {} descends from itself", ids[0])),
            };
            let path = self.exam.at(&descriptor_file(id));
            findings.push(finding::error("E_LINEAGE_BROKEN", path, told).hint("put the missing one back from a copy"));
        }
        for (name, head) in &catalog.heads {
            if catalog.get(head).is_none() {
                let problem = format!("worktree {name} is at snapshot {head}, which isn't there");
                let path = self.exam.at(&format!("worktrees/{name}/config.json"));
                findings.push(
                    finding::error("E_LINEAGE_BROKEN", path, problem)
                        .hint("restore one that is: `lokt snapshot history`"),
                );
            }
        }
        findings
    }

    fn payloads(&self, catalog: &Catalog) -> Result<Vec<Finding>, Error> {
        let halt = AtomicBool::new(false);
        let control = Control::new(&Silent, &halt);
        let known = Known::default();
        let mut findings = Vec::new();
        for listed in &catalog.snapshots {
            let Some(verification) = self.exam.repo.snapshots().verify(listed, &known, &control)? else { continue };
            let Some(code) = verification.code() else { continue };
            // Another process may have removed it in the meantime, which is allowed.
            if self.exam.repo.snapshots().catalog()?.get(&verification.id).is_none() {
                continue;
            }
            let first = verification.problems.first().map_or("", String::as_str);
            let more = verification.problems.len().saturating_sub(1);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            let problem = format!("snapshot {} isn't what it was: {first}{more}", verification.id);
            let finding = finding::critical(code, self.exam.repo.tree_of(&verification.id), problem);
            findings.push(finding.hint(format!("`lokt snapshot verify {}` tells all of it", verification.id)));
        }
        Ok(findings)
    }
}
