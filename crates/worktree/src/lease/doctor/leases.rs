//! Examines the leases: the views for other tools, other tools' locks, and what was left behind
//! around the chain.

use std::time::Duration;

use lokt_core::hold::Fence;
use lokt_core::lease::config::WorktreeConfig;
use lokt_core::lease::jvs;
use lokt_core::lease::names::File;
use lokt_core::lease::record::RECORD_BYTES_MAX;
use lokt_core::lease::slot::{Slot, Tag};
use lokt_core::liveness::is_local;
use lokt_core::name::LockName;

use super::{Exam, Finding, LEFT_BEHIND_MS, finding};
use crate::lease::chain::{Links, Reading};
use crate::lease::fences::FAR_HINT;
use crate::lease::scene::{Caller, LeaseSnapshot, Ownership};
use crate::lease::sight::Sight;
use crate::lease::view::{Board, Foreign, View};
use crate::lease::{LeasePolicy, Worktree};
use lokt_sys::disk::Entry;
use lokt_sys::error::{At as _, Error};
use lokt_sys::wakeup::sleep_on;

/// Time between two reads of a view that disagrees with its chain. A view follows its link after a
/// moment; if both are unchanged after this time, the view is stale.
const MOMENT: Duration = Duration::from_millis(100);
/// Age in ms from which on a sighting proves nothing that isn't proven otherwise: no lease lasts
/// that long.
const SIGHTING_MS: u64 = LeasePolicy::LEASE_MS_MAX + 2 * LeasePolicy::DOUBT_MS_MAX;

/// The part of an examination that is about leases.
pub(super) struct LeaseExam<'e> {
    pub(super) exam: &'e Exam<'e>,
}

impl LeaseExam<'_> {
    /// Returns every finding.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let listed = self.exam.repo.disk.list("locks");
        let names = match listed {
            Ok(names) => names,
            Err(error) => {
                return vec![finding::error("E_IO", self.exam.at("locks"), format!("it can't be listed: {error}"))];
            }
        };
        let chain = |name: &String| LockName::new(name.strip_suffix(".lock.d")?).ok();
        // A lock without a chain is another tool's.
        let lone = |name: &String| LockName::new(name.strip_suffix(".lock")?).ok();
        let mut worktrees: Vec<LockName> = names.iter().filter_map(|name| chain(name).or_else(|| lone(name))).collect();
        // `jvs` keeps its locks in `worktrees/NAME`.
        worktrees.extend(self.exam.repo.worktree_names().unwrap_or_default());
        worktrees.sort_unstable();
        worktrees.dedup();
        worktrees.into_iter().flat_map(|name| self.lease(name)).collect()
    }

    fn lease(&self, name: LockName) -> Vec<Finding> {
        // The remains of a removed worktree are examined like any other.
        let gone = WorktreeConfig::nameless(name.as_str());
        let config = self.exam.repo.config(&name).ok().flatten().unwrap_or(gone);
        let worktree = Worktree { repo: self.exam.repo.clone(), name, config };
        let mut findings = Vec::new();
        match worktree.observer().read(Caller::Anybody, &mut Sight::default()) {
            Err(error) => {
                let finding = finding::error("E_CORRUPT", self.exam.at(&worktree.chain().dir()), error.to_string());
                let repair = format!("`lokt lease break --force --reason TEXT --worktree {}`", worktree.name);
                findings.push(finding.hint(repair));
            }
            Ok(None) => findings.extend(self.unborn(&worktree)),
            Ok(Some(scene)) => {
                findings.extend(self.damaged(&worktree, &scene));
                findings.extend(Self::far_fence(&worktree, &scene.links));
                findings.extend(self.view(&worktree, &scene));
                for (board, foreign) in scene.foreigners() {
                    findings.push(self.foreign(&worktree, &scene, board, foreign));
                }
                findings.extend(self.ghosts(&worktree, &scene.links));
                findings.extend(self.pulses(&worktree));
                findings.extend(self.staging(&worktree, &scene.links));
                findings.extend(self.sightings(&worktree));
            }
        }
        findings
    }

    fn unborn(&self, worktree: &Worktree) -> Option<Finding> {
        if let Ok(View::Foreign(foreign)) = worktree.views().read(Board::Jvs, "") {
            return Some(self.of_jvs(worktree, &foreign));
        }
        let View::Foreign(foreign) = worktree.views().read(Board::Record, "").ok()? else { return None };
        let policy = foreign.record.map_or_else(|_| worktree.repo.own_policy(), |record| record.policy.clamped());
        let limit_ms = policy.steal_after_ms();
        let problem = format!(
            "another program's lock of {}; it counts as over {limit_ms} ms after it was last heard of",
            worktree.name
        );
        Some(finding::info("foreign_lock", self.exam.at(&worktree.views().path(Board::Record)), problem))
    }

    /// Describes a lock of `jvs` in a worktree whose lease was never requested.
    fn of_jvs(&self, worktree: &Worktree, foreign: &Foreign) -> Finding {
        let path = self.exam.at(&worktree.views().path(Board::Jvs));
        let record = match &foreign.record {
            Ok(record) => record,
            Err(why) => {
                let problem = format!("the lock of {} can't be read, and counts: {why}", worktree.name);
                let repair = format!("`lokt lease break --force --reason TEXT --worktree {}`", worktree.name);
                return finding::warn("foreign_lock", path, problem).hint(repair);
            }
        };
        let (until, name) = (record.lease_expires_at, &worktree.name);
        if jvs::judge(record, &self.exam.repo.machine.now()).is_over() {
            let problem = format!("the lock of jvs of {name} expired at {until}");
            return finding::info("foreign_lock", path, problem).hint("the next `lokt lease acquire` takes its place");
        }
        finding::info("foreign_lock", path, format!("jvs holds {name} until {until}"))
    }

    fn damaged(&self, worktree: &Worktree, scene: &LeaseSnapshot) -> Option<Finding> {
        let damaged = scene.links.damaged.as_ref()?;
        let path = self.exam.at(&worktree.chain().file(&File::Slot(damaged.number)));
        let problem =
            format!("link {} of the lease of {} can't be read: {}", damaged.number, worktree.name, damaged.why);
        let repair =
            "wait: the next `lokt lease acquire` goes on without it when it has been like that for long enough";
        Some(finding::error("E_CORRUPT", path, problem).hint(repair))
    }

    /// Finds a ceiling that leaves no numbers, although hardly any were used.
    fn far_fence(worktree: &Worktree, links: &Links) -> Option<Finding> {
        let path = worktree.fences().far_fence(links.ceiling()).ok()??;
        let problem = format!("it leaves no tokens for worktree {}, which has come to {}", worktree.name, links.next());
        Some(finding::error("far_fence", path.into(), problem).hint(FAR_HINT))
    }

    /// Finds a view that disagrees with the chain, and keeps doing so.
    fn view(&self, worktree: &Worktree, scene: &LeaseSnapshot) -> Option<Finding> {
        let stale = |right: Option<Tag>, view: &View| match (&right, view) {
            (Some(right), View::Ours(there)) => right != there,
            (None, View::Ours(_)) | (Some(_), View::Missing) => true,
            (_, View::Foreign(_) | View::Odd(_)) | (None, View::Missing) => false,
        };
        for (board, view) in scene.views() {
            if let View::Odd(what) = view {
                let repair = format!("`lokt lease break --force --reason TEXT --worktree {}`", worktree.name);
                let finding = finding::error("E_CORRUPT", self.exam.at(&worktree.views().path(board)), what.clone());
                return Some(finding.hint(repair));
            }
        }
        if !stale(scene.links.tag(), &scene.view) {
            return None;
        }
        let _ = sleep_on(&[], MOMENT);
        let Ok(Reading::Born(now)) = worktree.chain().read() else { return None };
        let view = worktree.views().read(Board::Record, &now.base.chain).ok()?;
        if view != scene.view || now.tag() != scene.links.tag() || !stale(now.tag(), &view) {
            return None;
        }
        let says = if matches!(view, View::Missing) { "is missing" } else { "is old" };
        let problem = format!("the lock file of {} {says}: other tools don't see its lease as it is", worktree.name);
        let finding = finding::warn("stale_view", self.exam.at(&worktree.views().path(Board::Record)), problem);
        self.exam.mend(finding.fixable("make it say what the lease's chain says"), || {
            worktree.views().settle()?;
            worktree.views().sync().map(|()| true)
        })
    }

    fn foreign(&self, worktree: &Worktree, scene: &LeaseSnapshot, board: Board, foreign: &Foreign) -> Finding {
        if board == Board::Jvs && scene.standing.is_over() {
            return self.of_jvs(worktree, foreign);
        }
        let path = self.exam.at(&worktree.views().path(board));
        let what = match &foreign.record {
            Ok(record) if board == Board::Jvs => {
                format!("the lock of jvs of {}, until {}", worktree.name, record.lease_expires_at)
            }
            Ok(record) => format!("another program's lock of {}, held by {}", worktree.name, record.holder_id),
            Err(why) => format!("a lock file of {} that can't be read ({why})", worktree.name),
        };
        let left_ms = match &scene.standing {
            Ownership::Held { foreign: true, verdict, .. } => verdict.retry_after_ms,
            Ownership::Unreadable { foreign: true, retry_after_ms, .. } => Some(*retry_after_ms),
            _ => {
                let problem = format!("{what}, in the place of that of a lease of ours");
                return finding::warn("foreign_lock", path, problem).hint("that program may think that it holds it");
            }
        };
        if scene.standing.is_over() {
            let finding = finding::info("foreign_lock", path, format!("{what}, is over"));
            return finding.hint("the next `lokt lease acquire` takes its place");
        }
        let left = left_ms.map_or_else(String::new, |ms| format!(" in {} ms, if nothing is heard of it", ms.max(1)));
        let finding = finding::info("foreign_lock", path, format!("{what}; it counts as over{left}"));
        finding.hint("wait for it, or `lokt lease break --force --reason TEXT`")
    }

    /// Finds links of an earlier life of the chain, below the first number of this one. No process
    /// reads there. A process that was suspended before it noticed removes its own link.
    fn ghosts(&self, worktree: &Worktree, links: &Links) -> Option<Finding> {
        let listing = worktree.chain().list().ok()?;
        let is_ghost = |number: &&u64| {
            let path = worktree.chain().file(&File::Slot(**number));
            let Ok(Entry::File(content)) = self.exam.repo.disk.read(&path, RECORD_BYTES_MAX) else { return false };
            Slot::parse(&content.bytes).is_ok_and(|slot| slot.chain != links.base.chain)
        };
        let below = listing.slots.iter().filter(|number| **number < links.base.first);
        let ghosts: Vec<u64> = below.filter(is_ghost).copied().collect();
        let first = ghosts.last()?;
        let problem = format!("{} links of an earlier life of the lease of {}", ghosts.len(), worktree.name);
        let finding = finding::info("ghost_slot", self.exam.at(&worktree.chain().file(&File::Slot(*first))), problem);
        self.exam.mend(finding.fixable("remove them"), || {
            // Numbers only grow: a number below the first one was never this chain's, and never
            // will be.
            for number in &ghosts {
                let path = worktree.chain().file(&File::Slot(*number));
                self.exam.repo.disk.remove(&path).at("remove", &self.exam.repo.path, &path)?;
            }
            Ok(true)
        })
    }

    /// Finds pulses that no process keeps locked and no lease names.
    fn pulses(&self, worktree: &Worktree) -> Option<Finding> {
        let dead = self.dead_pulses(worktree).ok()?;
        let first = dead.first()?;
        let problem = format!("{} pulses of processes that are gone, for the lease of {}", dead.len(), worktree.name);
        let finding = finding::info("dead_pulse", self.exam.at(&worktree.chain().file(&File::Pulse(*first))), problem);
        self.exam.mend(finding.fixable("remove them"), || {
            let _gate = worktree.writer().gate(u64::MAX);
            let dead = self.dead_pulses(worktree)?;
            for number in &dead {
                let path = worktree.chain().file(&File::Pulse(*number));
                self.exam.repo.disk.remove(&path).at("remove", &self.exam.repo.path, &path)?;
            }
            Ok(!dead.is_empty())
        })
    }

    fn dead_pulses(&self, worktree: &Worktree) -> Result<Vec<u64>, Error> {
        let dir = worktree.chain().dir();
        let names = self.exam.repo.disk.list(&dir).at("list", &self.exam.repo.path, &dir)?;
        let mut dead = Vec::new();
        for name in names {
            let File::Pulse(number) = File::parse(&name) else { continue };
            let Some(file) =
                self.exam.repo.disk.probe(&format!("{dir}/{name}")).at("look at", &self.exam.repo.path, &name)?
            else {
                continue;
            };
            // A new one may not be locked or named yet.
            if !file.locked && self.exam.unwritten_ms(&file.stamp) > LEFT_BEHIND_MS {
                dead.push(number);
            }
        }
        let named = match worktree.chain().read()? {
            Reading::Born(links) => links.record().and_then(|record| record.pulse).map(|pulse| pulse.number),
            Reading::Unborn => None,
        };
        dead.retain(|number| Some(*number) != named);
        Ok(dead)
    }

    /// Finds files that were staged under tokens that can't publish any more.
    fn staging(&self, worktree: &Worktree, links: &Links) -> Option<Finding> {
        let late = self.late_files(worktree, links);
        let first = late.first()?;
        let problem = format!("{} files that were never published, under old tokens of {}", late.len(), worktree.name);
        let finding = finding::info("staging", self.exam.at(first), problem);
        self.exam.mend(finding.fixable("remove them"), || {
            // Tokens only grow: a stale token stays stale.
            for path in &late {
                self.exam.repo.disk.remove(path).at("remove", &self.exam.repo.path, path)?;
            }
            Ok(true)
        })
    }

    fn late_files(&self, worktree: &Worktree, links: &Links) -> Vec<String> {
        let current = links.record().and_then(|record| record.token).map(Fence::get);
        // The token of an unreadable lease is unknown.
        let unknown = links.damaged.is_some();
        let dir = format!("staging/{}", worktree.name);
        let names = self.exam.repo.disk.list(&dir).unwrap_or_default();
        let token = |name: &str| name.split_once('.').and_then(|(token, _)| token.parse::<u64>().ok());
        let is_late =
            |name: &String| token(name).is_some_and(|token| token < links.next() && Some(token) != current && !unknown);
        names.into_iter().filter(is_late).map(|name| format!("{dir}/{name}")).collect()
    }

    /// Finds first sightings of other boots: those of this machine are worthless, those of other
    /// machines are after a day.
    fn sightings(&self, worktree: &Worktree) -> Option<Finding> {
        let dir = worktree.chain().dir();
        let names = self.exam.repo.disk.list(&dir).ok()?;
        let ours = self.exam.repo.me.boot_id.as_deref();
        let is_stale = |name: &&String| {
            let File::Watch(boot) = File::parse(name) else { return false };
            let Ok(Some(stamp)) = self.exam.repo.disk.stamp(&format!("{dir}/{name}")) else { return false };
            let is_gone = is_local(worktree.chain().fs()) && self.exam.unwritten_ms(&stamp) > LEFT_BEHIND_MS;
            ours.is_some_and(|ours| ours != boot) && (is_gone || self.exam.unwritten_ms(&stamp) > SIGHTING_MS)
        };
        let stale: Vec<String> = names.iter().filter(is_stale).map(|name| format!("{dir}/{name}")).collect();
        let first = stale.first()?;
        let problem =
            format!("{} notes of earlier boots about when the lease of {} was seen", stale.len(), worktree.name);
        self.exam.mend(finding::info("stale_watch", self.exam.at(first), problem).fixable("remove them"), || {
            for path in &stale {
                self.exam.repo.disk.remove(path).at("remove", &self.exam.repo.path, path)?;
            }
            Ok(true)
        })
    }
}
