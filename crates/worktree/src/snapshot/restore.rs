//! Restores a snapshot: into a worktree of its own, or in place of the current files of a worktree.

use crate::snapshot::catalog::Snapshots;
use std::io;
use std::path::{Path, PathBuf};

use lokt_core::lease::state::Head;
use lokt_core::name::LockName;
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::intent::Operation;

use super::answers::{Acting, Difference, InPlace, Listed, Restored, Restoring, Unfolding};
use super::capture::volume;
use super::intents::{Announced, Plan};
use super::keeper::Authority;
use super::places::RESTORES;
use super::swap::{Swapped, inode_of};
use super::trouble::of_tree;
use crate::lease::{Staged, TokenCheck, Worktree};
use crate::repo::Changing;
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::look::may_write;
use lokt_sys::payload;
use lokt_sys::warnings::WithWarnings;
use lokt_tree::{Control, Known, Scan, TreeError, changes, ignored_in};

/// A copy of a snapshot's files that isn't used yet; dropping it removes it.
struct Unfolded<'r> {
    path: Option<PathBuf>,
    files: u64,
    bytes: u64,
    _announced: Announced<'r>,
}

impl Drop for Unfolded<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // First to a name that no link has: a process that believes that the restore was
            // decided finds all of it, or nothing. What can't be removed is found by `doctor`.
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let aside = path.with_file_name(format!("given-up.{name}"));
            if payload::move_new(&path, &aside).is_ok() {
                let _ = payload::destroy(&aside);
            }
        }
    }
}

impl Worktree {
    /// Replaces the current files with those of a snapshot.
    pub fn restore_in_place(
        &self,
        listed: &Listed,
        acting: Acting<'_>,
        how: InPlace,
        control: &Control<'_>,
    ) -> Result<WithWarnings<Restoring>, Error> {
        let authority = match Authority::get(self, acting, "snapshot restore")? {
            Ok(authority) => authority,
            Err(refusal) => {
                let warnings = self.log().note_denied("restore_denied", &refusal, "");
                return Ok(WithWarnings { value: Restoring::Denied(refusal), warnings });
            }
        };
        let restored =
            authority.during(control.halt, || self.restorer().put_in_place(listed, authority.token, how, control));
        let mut warnings = authority.end();
        let value = restored?;
        warnings.extend(match &value {
            Restoring::Denied(refusal) => self.log().note_denied("fencing_failed", refusal, ""),
            _ => self.log().tidy(),
        });
        Ok(WithWarnings { value, warnings })
    }
}

/// Restores a snapshot in place.
pub(crate) struct Restorer<'w> {
    pub(crate) worktree: &'w Worktree,
}

impl Restorer<'_> {
    fn put_in_place(
        &self,
        listed: &Listed,
        token: Option<u64>,
        how: InPlace,
        control: &Control<'_>,
    ) -> Result<Restoring, Error> {
        let id = &listed.descriptor.id;
        let _gc = self.worktree.repo.gc().keep_from(id)?;
        // Decisions of other processes are carried out first: then the current state is clear.
        self.worktree.snapshot_state().settle_now()?;
        if how.dry_run {
            return match self.worktree.repo.snapshots().compare_with_tree(listed, self.worktree, control) {
                // Entries that the snapshot has and the tree hasn't are added to the tree.
                Ok(difference) if how.with_git => Ok(Restoring::Planned(difference.reversed())),
                Ok(difference) => Ok(Restoring::Planned(self.without_asked_git(difference).reversed())),
                Err(error) => self.stopped(error, token),
            };
        }
        let place = self.worktree.repo.files_of(&self.worktree.name);
        // Without it, it is unknown what stays when the old tree is removed.
        ignored_in(&place)
            .at("read what is ignored in", &place, "")
            .map_err(|error| error.hint("nothing was changed"))?;
        let mut before = None;
        if !how.force {
            let looked = self.look_over(how.with_git, control);
            match looked.and_then(|before| Ok((before, self.worktree.working_files().unsaved(how.with_git, control)?)))
            {
                Ok((scan, difference)) if difference.is_empty() => before = Some(scan),
                Ok((_, difference)) => return Ok(self.unless_late(Restoring::Dirty(difference), token)),
                Err(error) => return self.stopped(error, token),
            }
        }
        if inode_of(&place).at("look at", &place, "")?.is_none() {
            let message = format!("{} is no directory of its own", place.display());
            let hint = "nothing was changed; `lokt snapshot restore ID --into NAME` puts the files elsewhere";
            return Err(Error::new(ErrorKind::Unusable, message).hint(hint));
        }
        let around = if self.worktree.repo.is_here() { None } else { place.parent() };
        for path in around.into_iter().chain([&*place]) {
            // Checked now rather than when there is no way back.
            may_write(path).at("replace", path, "").map_err(|error| error.hint("nothing was changed"))?;
        }
        let tree = format!("{}.{}.{:032x}", self.worktree.name, token.unwrap_or(0), self.worktree.repo.random()?);
        let mut unfolded = match self.worktree.repo.snapshots().unfold(
            listed,
            &tree,
            (self.worktree.name.as_str(), token),
            how.with_git,
            control,
        ) {
            Ok(unfolded) => unfolded,
            Err(error) => return self.stopped(error, token),
        };
        let new = self.worktree.tree_swap().restores().join(&tree);
        let Some(ino) = inode_of(&new).at("look at", &new, "")? else {
            let gone = Error::new(ErrorKind::Busy, format!("{} was removed meanwhile", new.display()));
            return self.stopped(gone, token);
        };
        // That took a while: changes since then are not saved anywhere.
        if let Some(before) = &before {
            match self.unsaved_since(before, how.with_git, control) {
                Ok(difference) if difference.is_empty() => {}
                Ok(difference) => return Ok(self.unless_late(Restoring::Dirty(difference), token)),
                Err(error) => return self.stopped(error, token),
            }
        }
        let staged = match self.prepare(&new, &tree, ino, token) {
            Ok((staged, path)) => {
                unfolded.path = Some(path);
                staged
            }
            Err(error) => return self.stopped(error, token),
        };
        let decided = match self.worktree.snapshot_links().decide_restore(token, id, &staged) {
            Ok(Ok(decided)) => decided,
            Ok(Err(refusal)) => return Ok(Restoring::Denied(Box::new(refusal))),
            Err(error) => {
                // It may be decided although something failed after that.
                unfolded.path = None;
                return Err(error);
            }
        };
        // From here on the restore takes place, whatever happens to us.
        unfolded.path = None;
        let (decided, restore) = decided;
        let (old_tree, left) = match self.worktree.tree_swap().finish(&restore, decided.number)? {
            Swapped::Done { old_tree, left } => (old_tree, left),
            Swapped::Undone(why) => {
                if let Restoring::Denied(refusal) = self.unless_late(Restoring::Interrupted, token) {
                    return Ok(Restoring::Denied(refusal));
                }
                // The next link says so, too.
                self.worktree.snapshot_state().settle_now()?;
                let hint = "nothing was changed; `lokt snapshot restore ID --into NAME` needs no exchange";
                return Err(Error::new(ErrorKind::Unusable, why).hint(hint));
            }
        };
        self.worktree.snapshot_state().note_head(&Head::Snapshot(id.clone()), decided.number, None)?;
        self.worktree.tree_swap().forget_plan(&restore, decided.number);
        if let Some(first) = left.first() {
            let message =
                format!("snapshot {id} was restored, except for {}: {first} can't be replaced", left.join(", "));
            return Err(Error::new(ErrorKind::Unusable, message));
        }
        Ok(Restoring::Restored(Box::new(Restored {
            id: id.clone(),
            worktree: self.worktree.name.clone(),
            path: place,
            files: unfolded.files,
            bytes: unfolded.bytes,
            old_tree,
            in_parts: restore.in_parts,
        })))
    }

    /// Makes the new tree ready to replace the current one: in one step, or in parts if something
    /// there must not move. That is checked as late as possible: a lock root that is created
    /// between this and the exchange is moved over like ignored files. Also returns where the new
    /// tree is now.
    fn prepare(&self, new: &Path, tree: &str, ino: u64, token: Option<u64>) -> Result<(Staged, PathBuf), Error> {
        let anchors = self.worktree.working_files().anchors(new)?;
        if anchors.is_empty() {
            // Its `..` entry changes when it is put in place.
            let hint = "nothing was changed; the directory itself can't be written to in that snapshot";
            may_write(new).at("move", new, "").map_err(|error| error.hint(hint))?;
            return Ok((Staged { name: tree.to_owned(), ino: Some(ino) }, new.to_owned()));
        }
        let wrapped = self.worktree.tree_swap().wrap(new, token, &anchors)?;
        Ok((Staged { name: wrapped.name, ino: None }, wrapped.path))
    }

    /// Returns the difference without `.git`, which is restored only on request.
    fn without_asked_git(&self, difference: Difference) -> Difference {
        if self.worktree.repo.is_here() { difference.without_git() } else { difference }
    }

    /// Scans the current files: names and times only.
    fn look_over(&self, with_git: bool, control: &Control<'_>) -> Result<Scan, Error> {
        let place = self.worktree.repo.files_of(&self.worktree.name);
        let ignore = ignored_in(&place).at("read what is ignored in", &place, "")?;
        lokt_tree::scan(&self.worktree.working_files().files(with_git)?, &ignore, control).map_err(of_tree)
    }

    /// Returns what isn't saved, if anything changed since a scan at which everything was saved.
    fn unsaved_since(&self, before: &Scan, with_git: bool, control: &Control<'_>) -> Result<Difference, Error> {
        let is_same = changes::between(before, &self.look_over(with_git, control)?).is_empty();
        if is_same { Ok(Difference::default()) } else { self.worktree.working_files().unsaved(with_git, control) }
    }

    /// Handles a failure. If the lease was lost in the meantime, that is the answer.
    fn stopped(&self, error: Error, token: Option<u64>) -> Result<Restoring, Error> {
        match self.unless_late(Restoring::Interrupted, token) {
            Restoring::Interrupted if error.kind() != ErrorKind::Halted => Err(error),
            answer => Ok(answer),
        }
    }

    /// Returns the answer, unless the lease was lost in the meantime: then that is the answer.
    fn unless_late(&self, answer: Restoring, token: Option<u64>) -> Restoring {
        match token.map(|token| self.worktree.observer().check(token)) {
            Some(Ok(TokenCheck::Denied(refusal))) => Restoring::Denied(refusal),
            _ => answer,
        }
    }
}

impl<'r> Snapshots<'r> {
    /// Restores a snapshot into a worktree of its own. `with_git`: as in [`InPlace`].
    pub fn restore_into(
        &self,
        listed: &Listed,
        name: &LockName,
        with_git: bool,
        control: &Control<'_>,
    ) -> Result<WithWarnings<Unfolding>, Error> {
        let said = |value| Ok(WithWarnings { value, warnings: Vec::new() });
        // Checked before anything is copied, and again when the worktree is created.
        if let Some(other) = self.repo.taken(name)? {
            return said(Unfolding::Exists(other));
        }
        let _gc = self.repo.gc().keep_from(&listed.descriptor.id)?;
        let tree = format!("{name}.new.{:032x}", self.repo.random()?);
        let mut unfolded = match self.repo.snapshots().unfold(listed, &tree, (name.as_str(), None), with_git, control) {
            Ok(unfolded) => unfolded,
            Err(error) if error.kind() == ErrorKind::Halted => return said(Unfolding::Interrupted),
            Err(error) => return Err(error),
        };
        let id = &listed.descriptor.id;
        let new = self.repo.path.join(RESTORES).join(&tree);
        match self.repo.changes().make_restored(name, id, &mut |place| self.move_in(&new, place))? {
            Changing::Done(entry) => {
                unfolded.path = None;
                let details =
                    [("snapshot_id".to_owned(), id.as_str().into()), ("new_worktree".to_owned(), true.into())];
                let warnings = self.repo.note("restore", name, details.into_iter().collect()).into_iter().collect();
                let restored = Restored {
                    id: id.clone(),
                    worktree: name.clone(),
                    path: entry.path,
                    files: unfolded.files,
                    bytes: unfolded.bytes,
                    old_tree: None,
                    in_parts: false,
                };
                Ok(WithWarnings { value: Unfolding::Made(Box::new(restored)), warnings })
            }
            Changing::NotEmpty(path) => said(Unfolding::NotEmpty(path)),
            Changing::Exists(other) => said(Unfolding::Exists(other)),
            Changing::Missing | Changing::Leased(_) => unreachable!("nothing was there before"),
        }
    }

    fn move_in(&self, new: &Path, place: &Path) -> Result<(), Error> {
        // Created a moment ago, and empty.
        payload::remove_empty(place).at("replace", place, "")?;
        match payload::move_new(new, place) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let message =
                    format!("{} is on another file system than {}", place.display(), self.repo.path.display());
                Err(Error::new(ErrorKind::Unusable, message).hint("nothing was restored"))
            }
            done => done.at("move", new, ""),
        }
    }

    /// Copies the files of a snapshot to a directory of their own, durably, and verifies them in
    /// the process.
    fn unfold(
        self,
        listed: &Listed,
        tree: &str,
        (worktree, token): (&str, Option<u64>),
        with_git: bool,
        control: &Control<'_>,
    ) -> Result<Unfolded<'r>, Error> {
        self.repo.make_place(RESTORES)?;
        let id = &listed.descriptor.id;
        let name = format!("restore-{:032x}", self.repo.random()?);
        let plan = Plan { operation: Operation::Restore, name: &name, snapshot_id: id, worktree, token };
        let announced = self.repo.intents().announce(&plan)?;
        let path = self.repo.path.join(RESTORES).join(tree);
        let mut unfolded = Unfolded { path: Some(path.clone()), files: 0, bytes: 0, _announced: announced };
        self.check_old(listed, control)?;
        let manifest = self.wanted(listed, with_git, control)?;
        let restored =
            lokt_tree::restore(&manifest.entries, &self.repo.tree_of(id), &path, control).map_err(of_tree)?;
        restored.sync(control).map_err(of_tree)?;
        (unfolded.files, unfolded.bytes) = volume(&manifest.entries);
        Ok(unfolded)
    }

    /// Verifies a snapshot of `jvs` before it is copied: it has no manifest with which its files
    /// could be compared during the copy.
    fn check_old(&self, listed: &Listed, control: &Control<'_>) -> Result<(), Error> {
        if listed.descriptor.schema.is_ours() {
            return Ok(());
        }
        let found = self.verify(listed, &Known::default(), control)?.ok_or_else(|| of_tree(TreeError::Halted))?;
        if found.payload_hash_valid {
            return Ok(());
        }
        let what = found.problems.first().map_or("", String::as_str);
        Err(Error::new(ErrorKind::PayloadMismatch, format!("snapshot {} isn't what it was: {what}", found.id))
            .hint("`lokt snapshot verify --all` says what else is damaged"))
    }
}

/// Returns the name of a worktree that is made from a snapshot: it contains the snapshot's long id.
pub fn restored_name(id: &SnapshotId) -> LockName {
    LockName::new(&format!("restore-{id}")).expect("an id is a good part of a name")
}
