//! Takes a snapshot. It is copied under its own name, where no process sees it; proven to match the
//! source; made durable; and only then made visible, by a link that can be added only while the
//! token is current.

use crate::repo::replace_file;
use crate::snapshot::catalog::Snapshots;
use std::io;
use std::thread;

use lokt_core::lease::state::Head;
use lokt_core::snapshot::descriptor::Descriptor;
use lokt_core::snapshot::hash::{BLAKE3, Hash, SHA256};
use lokt_core::snapshot::id::SnapshotId;
use lokt_core::snapshot::intent::Operation;

use super::answers::{SnapshotWish, Snapshotting, Taken};
use super::capture::Captured;
use super::catalog::BYTES_MAX;
use super::intents::{Announced, Plan};
use super::keeper::Authority;
use super::places::{DESCRIPTORS, SNAPSHOTS, descriptor_file, manifest_file, receipt_file};
use crate::lease::{Reading, TokenCheck, Worktree};
use crate::repo::{FILE_MODE, Repository};
use lokt_sys::error::{At as _, Error, ErrorKind};
use lokt_sys::payload;
use lokt_sys::warnings::{Warning, WithWarnings};
use lokt_tree::Control;

impl Worktree {
    /// Takes a snapshot.
    pub fn snapshot(
        &self,
        wish: &SnapshotWish<'_>,
        control: &Control<'_>,
    ) -> Result<WithWarnings<Snapshotting>, Error> {
        let authority = match Authority::get(self, wish.acting, "snapshot create")? {
            Ok(authority) => authority,
            Err(refusal) => {
                let warnings = self.log().note_denied("snapshot_denied", &refusal, "");
                return Ok(WithWarnings { value: Snapshotting::Denied(refusal), warnings });
            }
        };
        let taken = authority.during(control.halt, || self.snapshot_taker().take(wish, authority.token, control));
        let mut warnings = authority.end();
        let value = taken?;
        if let Snapshotting::Taken(taken) = &value
            && let Some(parent) = &taken.descriptor.parent
            && self.repo.snapshots().taken_by_jvs(parent).is_some()
        {
            warnings.push(Warning::OtherPrograms(format!("it follows snapshot {parent}, which jvs took")));
        }
        warnings.extend(match &value {
            Snapshotting::Denied(refusal) => self.log().note_denied("fencing_failed", refusal, ""),
            _ => self.log().tidy(),
        });
        Ok(WithWarnings { value, warnings })
    }
}

/// Takes a snapshot of a worktree.
pub(crate) struct SnapshotTaker<'w> {
    pub(crate) worktree: &'w Worktree,
}

impl SnapshotTaker<'_> {
    fn take(&self, wish: &SnapshotWish<'_>, token: Option<u64>, control: &Control<'_>) -> Result<Snapshotting, Error> {
        let repo = &self.worktree.repo;
        let _gc = repo.gc().keep_away()?;
        // A decided restore is carried out first: otherwise the snapshot would contain the files
        // from before it.
        self.worktree.snapshot_state().settle_now()?;
        let schema = repo.jvs_format().next_schema(&self.worktree.config)?;
        let began = repo.machine.now().wall;
        let random = repo.random()?;
        let id = SnapshotId::new(
            u64::try_from(began.as_millisecond()).unwrap_or(0),
            u32::try_from(random & 0xffff_ffff).unwrap_or(0),
        );
        repo.make_place(SNAPSHOTS)?;
        repo.make_place(DESCRIPTORS)?;
        // `jvs gc` keeps the snapshot that an intent is named after, and knows no other intents.
        let name = if schema.era().is_some() { id.to_string() } else { format!("snapshot-{id}") };
        let plan = Plan {
            operation: Operation::Snapshot,
            name: &name,
            snapshot_id: &id,
            worktree: self.worktree.name.as_str(),
            token,
        };
        let draft = Draft { repo, id: &id, announced: Some(repo.intents().announce(&plan)?) };
        let captured = match self.capture(&id, wish, schema, control) {
            Ok(captured) => captured,
            Err(error) => return self.given_up(error, token),
        };
        // Everything is written before the one sync that takes long; the parent has rarely changed
        // when it is decided.
        let described = self.description(wish, &id, &captured, self.worktree.head()?.as_ref(), token).sealed();
        draft.write(&captured, &described)?;
        if let Err(error) = captured.sync(control) {
            return self.given_up(error, token);
        }
        let mut descriptor = Some(described);
        let decided = self.worktree.snapshot_links().publish(token, &id, &mut |parent| {
            if descriptor.as_ref().is_some_and(|written| written.parent.as_ref() == parent) {
                return Ok(());
            }
            let described = self.description(wish, &id, &captured, parent, token).sealed();
            draft.rewrite_descriptor(&described)?;
            descriptor = Some(described);
            Ok(())
        });
        let decided = match decided {
            Ok(Ok(Some(decided))) => decided,
            Ok(refused) => match self.is_published(&id) {
                // If a process was suspended right after its link, until others had written the
                // receipt and removed the link, it is told that it is late. It isn't: what it
                // published is there, and stays.
                Some(true) => {
                    let said = self.worktree.repo.snapshots().listed(&id)?.map(|listed| listed.descriptor);
                    drop(draft.published());
                    return Ok(captured.taken(said.or(descriptor).expect("it was described before it was published")));
                }
                Some(false) if let Err(refusal) = refused => return Ok(Snapshotting::Denied(Box::new(refusal))),
                // The next process finds out.
                _ => {
                    draft.leave();
                    return Err(self.worktree.writer().too_busy());
                }
            },
            Err(error) => {
                // The link may be there although something failed after it.
                if self.is_published(&id) != Some(false) {
                    draft.leave();
                }
                return Err(error);
            }
        };
        // From here on the snapshot exists, whatever happens to us.
        let announced = draft.published();
        // The link vouches for both until they are durable, so their syncs needn't wait for each
        // other.
        let note = || self.worktree.snapshot_state().note_head(&Head::Snapshot(id.clone()), decided.number, Some(&id));
        let told = thread::scope(|scope| {
            let noting = thread::Builder::new().spawn_scoped(scope, note);
            let receipt = self
                .worktree
                .snapshot_state()
                .write_receipt(&id, &decided.chain, decided.number)
                .and_then(|()| self.worktree.snapshot_state().sync_receipts());
            // If no thread can be started, it is done here.
            let noted = noting.map_or_else(|_| note(), |noting| noting.join().expect("noting the head does not panic"));
            receipt.and(noted)
        });
        drop(announced);
        told.map_err(|error| {
            error.hint(format!("snapshot {id} is published; the next command finishes what is missing"))
        })?;
        let descriptor = descriptor.expect("it was described before it was published");
        Ok(captured.taken(descriptor))
    }

    /// Handles a failed copy. If the lease was lost in the meantime, that is the answer: the new
    /// holder may have emptied what we wrote.
    fn given_up(&self, error: Error, token: Option<u64>) -> Result<Snapshotting, Error> {
        if let Some(token) = token
            && let Ok(TokenCheck::Denied(refusal)) = self.worktree.observer().check(token)
        {
            return Ok(Snapshotting::Denied(refusal));
        }
        if error.kind() == ErrorKind::Halted { Ok(Snapshotting::Interrupted) } else { Err(error) }
    }

    /// Reports whether the snapshot is published. `None`: unknown. The chain is read first, as
    /// always.
    fn is_published(&self, id: &SnapshotId) -> Option<bool> {
        let is_pending = match self.worktree.chain().read().ok()? {
            Reading::Born(links) => self.worktree.snapshot_state().vouched_by(&links).pending.contains(id),
            Reading::Unborn => false,
        };
        let receipt = self.worktree.repo.disk.stamp(&receipt_file(id)).ok()?;
        Some(is_pending || receipt.is_some())
    }

    fn description(
        &self,
        wish: &SnapshotWish<'_>,
        id: &SnapshotId,
        captured: &Captured,
        parent: Option<&SnapshotId>,
        token: Option<u64>,
    ) -> Descriptor {
        Descriptor {
            id: id.clone(),
            worktree: self.worktree.name.to_string(),
            parent: parent.cloned(),
            created_at: captured.at,
            note: wish.note.clone(),
            engine: captured.engine.to_owned(),
            consistency: wish.consistency,
            token,
            root_hash: Hash::new(BLAKE3, &captured.root_hash),
            jvs_root_hash: captured.jvs_root_hash.clone(),
            checksum: Hash::new(SHA256, &[]),
            checksum_valid: false,
            integrity_state: "verified".into(),
            risk: captured.risk(wish.consistency),
            files: Some(captured.files),
            bytes: Some(captured.bytes),
            skipped: captured.skipped.clone(),
            skipped_count: captured.skipped_count,
            isolation: self.worktree.isolation(),
            schema: captured.schema,
        }
    }
}

impl Captured {
    fn taken(&self, descriptor: Descriptor) -> Snapshotting {
        let Self { reused_files, copied_files, copied_bytes, .. } = *self;
        Snapshotting::Taken(Box::new(Taken { descriptor, reused_files, copied_files, copied_bytes }))
    }
}

/// A snapshot that isn't visible yet; dropping it removes it.
struct Draft<'r> {
    repo: &'r Repository,
    id: &'r SnapshotId,
    announced: Option<Announced<'r>>,
}

impl<'r> Draft<'r> {
    /// Writes the files that belong to the copy; they become durable with the copy.
    fn write(&self, captured: &Captured, descriptor: &Descriptor) -> Result<(), Error> {
        let description = readable(descriptor)?;
        let files = [
            (SNAPSHOTS, manifest_file(self.id), &captured.manifest),
            (DESCRIPTORS, descriptor_file(self.id), &description),
        ];
        for (dir, path, bytes) in files {
            let file = self.repo.disk.create_as(&path, bytes, FILE_MODE).at("write", &self.repo.path, &path)?;
            if !captured.syncs_all() {
                file.sync().at("write", &self.repo.path, &path)?;
                self.repo.disk.sync_dir(dir).at("sync", &self.repo.path, dir)?;
            }
        }
        Ok(())
    }

    /// Rewrites the descriptor, which no process reads yet.
    fn rewrite_descriptor(&self, descriptor: &Descriptor) -> Result<(), Error> {
        replace_file(self.repo, DESCRIPTORS, &descriptor_file(self.id), &readable(descriptor)?)
    }

    /// Keeps the snapshot, which is visible now.
    fn published(mut self) -> Option<Announced<'r>> {
        self.announced.take()
    }

    /// Leaves everything as it is, because it is unknown whether the snapshot is visible. A process
    /// that finds the remains can find out.
    fn leave(mut self) {
        if let Some(announced) = self.announced.take() {
            announced.leave();
        }
    }
}

/// Returns a descriptor as bytes, unless that is more than any program reads.
fn readable(descriptor: &Descriptor) -> Result<Vec<u8>, Error> {
    let bytes = descriptor.to_bytes();
    if bytes.len() > BYTES_MAX {
        let message = format!("{} bytes are more than the description of a snapshot may have", bytes.len());
        return Err(Error::new(ErrorKind::NotARecord, message).hint("nothing was made; say it in fewer words"));
    }
    Ok(bytes)
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        let Some(announced) = self.announced.take() else { return };
        // What can't be removed now is left to the process that finds the intent.
        match self.repo.snapshots().scrap(self.id) {
            Ok(()) => drop(announced),
            Err(_) => announced.leave(),
        }
    }
}

impl Snapshots<'_> {
    /// Removes everything of a snapshot that was never visible, and can't become so.
    pub(crate) fn scrap(&self, id: &SnapshotId) -> Result<(), Error> {
        // The files that would make it visible are removed first.
        for file in [descriptor_file(id), manifest_file(id)] {
            self.repo.disk.remove(&file).at("remove", &self.repo.path, &file)?;
        }
        let tree = self.repo.tree_of(id);
        match payload::destroy(&tree) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.at("remove", &tree, ""),
        }
    }
}
